"""The split of a stream into chunks changes no event, apart from the boundaries of deltas."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.engine.caps import OutputSettings
from qcode.protocol.events import ToolCallProgress, TurnEvent
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import ReasoningDelta, ReplyStarted, StopReason, TextDelta, ToolArgsDelta, ToolCallStarted
from tests.engine.play import Played, Script, ended, play

FIRST = "# Title\n\nThe quick brown fox jumps over the lazy dog. Then the par"
TEXTS = st.sampled_from(
    [
        FIRST,
        "<think>hm, hm</think>\n\n" + FIRST,
        "ser runs, and all is well.",
        "dog. Then the parser runs.",
        "Continuing from where I left off:\n\nser runs.",
        FIRST + "ser runs.",
        "# Title\n\nThe quick brown cat.",
        "```python\nx = 1\n",
        "```python\nx = 1\ny = 2\n```\n",
        "The same line, always the same, for ever and ever, without an end to it.\n" * 60,
        "größe 漢字 🙂\n",
        " \n",
    ]
)
ARGUMENTS = st.sampled_from(["", "", "", '{"path": "a", "content": "x\\ny"}', '{"path": "a'])
PARTS = st.lists(st.tuples(TEXTS, ARGUMENTS), max_size=4)


def script(message: str, raw: str, size: int, *, is_cut: bool) -> Script:
    events: Script = [ReplyStarted("m", "r")]
    events += [TextDelta(0, message[at : at + size]) for at in range(0, len(message), size)]
    if raw:
        events.append(ToolCallStarted(1, "c", "write"))
        events += [ToolArgsDelta(1, raw[at : at + size]) for at in range(0, len(raw), size)]
    stop = StopReason.MAX_TOKENS if is_cut else StopReason.TOOL_USE if raw else StopReason.END_TURN
    return [*events, *ended(stop, None)]


def joined(played: Played) -> list[TurnEvent]:
    """Join adjacent deltas of one block, and keep only the last progress of a call."""
    events: list[TurnEvent] = []
    for event in played.events:
        last = events[-1] if events else None
        if isinstance(event, ToolCallProgress) and isinstance(last, ToolCallProgress):
            events[-1] = event
        elif isinstance(event, TextDelta) and isinstance(last, TextDelta) and event.block == last.block:
            events[-1] = TextDelta(event.block, last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta) and event.block == last.block:
            events[-1] = ReasoningDelta(event.block, last.text + event.text)
        else:
            events.append(event)
    return events


@settings(deadline=None)
@given(PARTS, st.sampled_from([1, 2, 3, 7, 64]), st.booleans(), st.booleans())
def test_turn_does_not_depend_on_how_a_reply_is_split(
    parts: list[tuple[str, str]], size: int, thinks_inline: bool, is_fixed: bool
) -> None:
    def played_in(pieces: int) -> Played:
        cuts = [script(said, raw, pieces, is_cut=True) for said, raw in parts]
        ends = [script("The end.", "", pieces, is_cut=False)] * 8
        facts = ModelFacts(has_inline_thinking=thinks_inline)
        return play(*cuts, *ends, facts=facts, output=OutputSettings(override=500 if is_fixed else None))

    split, whole = played_in(size), played_in(100_000)
    assert joined(split) == joined(whole)
    assert split.messages == whole.messages
    assert split.requests == whole.requests
    assert [run.arguments for run in split.ran] == [run.arguments for run in whole.ran]
