from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.agent.outcomes import AnswerSoFar
from qcode.headless.lines import result_line
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import ApprovalRequested, ReplyFinished, Retry, StepStarted, TurnEvent
from qcode.protocol.messages import Text, assistant
from qcode.protocol.reply import Source, StopReason, TextDelta, WebSearched
from qcode.protocol.tools import ToolSpec
from tests.fakes.conversation import ended, talk
from tests.fakes.scripted import Call, Steps, begun, call_reply, calls_reply, cut_text, fails, text_reply


def answer(*events: TurnEvent) -> str:
    so_far = AnswerSoFar()
    for event in events:
        so_far.observe(event)
    return so_far.text


def finished(text: str, stop: StopReason = StopReason.END_TURN) -> ReplyFinished:
    return ReplyFinished(stop, "", 1, assistant(Text(text)))


def test_white_space_is_not_an_answer() -> None:
    assert answer(finished("one"), StepStarted(2), finished(" \n")) == "one"
    assert answer(finished("one"), StepStarted(2), TextDelta(0, "\n")) == "one"


def test_reply_resumed_after_a_pause_is_one_answer() -> None:
    assert answer(finished("one, ", StopReason.PAUSED), StepStarted(2), TextDelta(0, "two")) == "one, two"
    assert answer(finished("one, ", StopReason.PAUSED), StepStarted(2), finished("two")) == "one, two"


def test_answer_is_the_longer_attempt() -> None:
    over = Retry(False, "max_tokens", 1, 64_000)
    assert answer(TextDelta(0, "long text"), over, TextDelta(0, "short")) == "long text"


def paused(*pieces: str) -> Steps:
    return text_reply(*pieces, stop=StopReason.PAUSED)


LOST = fails(ErrorKind.BAD_REQUEST, message="no")
WHOLE: dict[str, tuple[list[Steps], str, str]] = {
    "one reply": ([text_reply("Done.")], "Done.", "Done."),
    "text before a call": ([call_reply("ls", {}, text="I look."), text_reply("Done.")], "Done.", "I look.\n\nDone."),
    "a pause within a reply": ([paused("One, "), text_reply("two.")], "One, two.", "One, two."),
    "a blank reply at the end": ([call_reply("ls", {}, text="I look."), text_reply(" ")], "I look.", "I look."),
    "an error after text": ([call_reply("ls", {}, text="I look."), LOST], "I look.", "I look."),
    "a discarded attempt": ([cut_text("Lost"), text_reply("Longer one.")], "Longer one.", "Longer one."),
    "a pause, then an error": ([call_reply("ls", {}, text="I"), paused("One, "), LOST], "One, ", "I\n\nOne, "),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_text_of_the_result_joins_all_replies_of_the_turn(name: str, tmp_path: Path) -> None:
    replies, answer, whole = WHOLE[name]
    chat = talk(tmp_path, *replies)
    events = asyncio.run(chat.play("go"))
    so_far = AnswerSoFar()
    for event in events:
        so_far.observe(event)
    assert (ended(events).text, ended(events).whole_text) == (answer, whole)
    assert (so_far.text, so_far.whole_text) == (answer, whole)
    line = result_line(ended(events), "s")
    assert (line["result"], line["text"]) == (answer, whole)


def test_text_of_an_interrupted_turn_includes_the_unfinished_reply(tmp_path: Path) -> None:
    so_far = AnswerSoFar()
    for event in (finished("I look."), StepStarted(2), TextDelta(0, "Half an ans")):
        so_far.observe(event)
    assert so_far.whole_text == "I look.\n\nHalf an ans"


def test_signals_of_a_step_whose_other_call_still_runs_are_known(tmp_path: Path) -> None:
    report = ToolSpec("report", "Report.", {"type": "object"}, is_one_way=True)
    calls = calls_reply(Call("report", {"a": 1}, "c1"), Call("shell", {"command": "touch x"}, "c2"))
    chat = talk(tmp_path, calls, exit_tools=(report,), is_attended=True)
    seen: list[tuple[str, ...]] = []

    def cancel_at_the_question(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            seen.append(tuple(signal.name for signal in chat.conversation.signals()))
            chat.conversation.cancel()

    events = asyncio.run(chat.play("go", cancel_at_the_question))
    assert seen == [("report",)]
    assert ended(events).signals == chat.conversation.signals()
    assert [signal.arguments for signal in ended(events).signals] == [{"a": 1}]


def test_searches_of_a_discarded_attempt_are_not_reported(tmp_path: Path) -> None:
    old, new = WebSearched(("old",), (Source("https://old.example"),)), WebSearched(("new",))
    cut, whole = cut_text("Lost"), text_reply("Longer and whole.")
    chat = talk(tmp_path, [*cut[:-1], old, cut[-1]], [*whole[:-1], new, whole[-1]])
    events = asyncio.run(chat.play("go"))
    assert [event for event in events if isinstance(event, WebSearched)] == [new]


def test_searches_of_a_restored_and_a_continued_attempt_are_reported(tmp_path: Path) -> None:
    first, second = WebSearched(("first",)), WebSearched(("second",))
    cut, rest = cut_text("The start of it"), text_reply(" and its end.")
    chat = talk(
        tmp_path,
        [*cut[:-1], first, cut[-1]],
        fails(ErrorKind.BAD_REQUEST, after=begun("Th"), message="no"),
        [*rest[:-1], second, rest[-1]],
    )
    events = asyncio.run(chat.play("go"))
    found = [event for event in events if isinstance(event, WebSearched)]
    assert found[0] == first
    assert "The start of it" in ended(events).text
