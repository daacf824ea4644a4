"""A truncated write that is completed instead of rejected, if the setting is on."""

from __future__ import annotations

import pytest

from qcode.engine.caps import OutputSettings
from qcode.protocol import events as ev
from qcode.protocol.messages import Text, assistant
from qcode.protocol.reply import Outcome, StopReason
from tests.engine.play import (
    TOOLS,
    Script,
    calls,
    cut,
    play,
    refused,
    text,
)

RESUME = OutputSettings(override=500, tool_call_repair="resume")
WHOLE = '{"path": "a.md", "content": "# Title\\n\\n```\\ncode\\n```"}'


def cut_write(at: int, *before: tuple[str, str]) -> Script:
    return calls(*before, ("write", WHOLE[:at]), stop=StopReason.MAX_TOKENS, output=500, before="Writing. ")


@pytest.mark.parametrize("at", range(8, len(WHOLE), 5))
def test_truncated_write_is_completed_and_approved_as_usual(at: int) -> None:
    played = play(cut_write(at), text(WHOLE[at:]), text("Done."), output=RESUME)
    assert [run.call.arguments for run in played.ran] == [WHOLE]
    assert len(played.asked) == 1
    asked = played.requests[1]
    assert (asked.tools, asked.allows_calls) == ((), False)
    assert [message.role for message in asked.messages] == ["user", "assistant", "user"]
    assert asked.messages[1] == assistant(Text("Writing. "))
    assert played.shown == "Done."
    assert played.of(ev.ToolPayloadRepair) == [ev.ToolPayloadRepair("cut_arguments", attempted=True, succeeded=True)]


def test_remainder_may_come_in_three_parts_a_fence_and_with_trailing_words() -> None:
    at = WHOLE.index("```") + 3
    played = play(
        cut_write(20), cut("```json\n" + WHOLE[20:at]), cut(WHOLE[at:50]), text(WHOLE[50:] + "\n```\nThat is all."),
        text("Done."), output=RESUME,
    )  # fmt: skip
    assert [run.call.arguments for run in played.ran] == [WHOLE]
    assert played.end.api_calls.repairs == 3


@pytest.mark.parametrize(
    "rest",
    [text("I am sorry."), text(WHOLE[10:20] + '"}'), text(""), refused("tool_choice is not supported")],
)
def test_remainder_that_does_not_complete_the_call_is_rejected(rest: Script) -> None:
    played = play(cut_write(10), rest, text("In pieces, then."), output=RESUME)
    assert played.ran == []
    assert [e.state for e in played.events if isinstance(e, ev.ToolFinished)] == ["rejected"]
    assert played.end.text == "In pieces, then."


def test_remainder_of_a_call_is_requested_three_times_at_most() -> None:
    played = play(cut_write(10), cut(WHOLE[10:14]), cut(WHOLE[14:18]), cut(WHOLE[18:22]), text("Done."), output=RESUME)
    assert played.end.api_calls.repairs == 3
    assert played.ran == []


def test_refusal_while_completing_a_call_ends_the_turn_with_its_text() -> None:
    played = play(cut_write(10), text("No.", stop=StopReason.REFUSAL), output=RESUME)
    assert played.end.outcome is Outcome.REFUSAL
    assert played.end.text == "Writing. "
    assert played.ran == []


def test_only_writes_are_completed_from_a_remainder() -> None:
    half = calls(("shell", '{"command": "rm -'), stop=StopReason.MAX_TOKENS, output=500)
    played = play(half, text("Done."), output=RESUME)
    assert played.ran == []
    assert played.end.api_calls.repairs == 0


def test_tools_stay_declared_if_the_history_contains_calls() -> None:
    played = play(calls(("read", '{"path": "a"}')), cut_write(10), text(WHOLE[10:]), text("Done."), output=RESUME)
    assert (played.requests[2].tools, played.requests[2].allows_calls) == (TOOLS, False)
    assert len(played.ran) == 2
