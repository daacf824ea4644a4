"""Endless repetition is detected as soon as it is certain, and ordinary text never is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.effects import StopRequest, UserSubmitted
from qcode.engine.model_facts import KnownModel
from qcode.engine.reply.repetition import RepetitionDetector
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import ContinuationTerminated, PartialRestored
from qcode.protocol.messages import assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome, ReasoningDelta, ReplyEnded, ReplyStarted, StopReason, TextDelta
from tests.engine.play import Player, Script, calls, cut, play, text

LINE = "This sentence is said again and again, all over, and the end is never near.\n"
CYCLE = [f"{number}. The {number}th line of a cycle that goes round and round.\n" for number in range(8)]


def stopped_at(message: str, size: int = 64, *, fence: str | None = None, is_arguments: bool = False) -> int | None:
    """Return the number of characters after which the detector is certain, None if it never is."""
    detector = RepetitionDetector(fence=fence, is_arguments=is_arguments)
    for at in range(0, len(message), size):
        found = detector.add(message[at : at + size])
        if found is not None:
            return at + found
    return None


NOTICED: list[tuple[str, str, int, int]] = [
    ("one line", LINE * 100, 40 * len(LINE), 41 * len(LINE)),
    ("a short line, once it is long enough", "short line here, yes\n" * 300, 2_000, 2_200),
    ("a cycle of eight lines", "".join(CYCLE) * 60, 40 * len("".join(CYCLE)), 41 * len("".join(CYCLE))),
    ("a period inside one line", "ab cd " * 2_000, 4_000, 4_100),
    ("a period of 200", "".join(chr(0x4E00 + index) for index in range(200)) * 40, 4_000, 4_100),
    ("one character", "=" * 9_000, 4_000, 4_100),
    ("empty lines", "x\n" + "\n" * 5_000, 2_000, 2_200),
    ("after an ordinary beginning", "Intro.\n\n" + LINE * 100, 40 * len(LINE), 42 * len(LINE)),
    ("in code, when it is very long", "```\n" + LINE * 400, 20_000, 20_200),
    ("a fence that recurs, when it is very long", "```\ncode = 1\n```\n" * 2_000, 20_000, 20_200),
]
PASSED: list[tuple[str, str]] = [
    ("39 times the same line", "x" * 100 + "\n" + LINE * 39),
    ("40 times a line, but a short one", "short line\n" * 40),
    ("a cycle of nine lines", "".join([*CYCLE, "and one more, so that there are nine of them here\n"]) * 60),
    ("a period of 201", "".join(chr(0x4E00 + index) for index in range(201)) * 40),
    ("3,900 characters of one period", "ab" * 1_950),
    ("the same line in code", "```\n" + LINE * 200 + "```\n"),
    ("numbered lines", "".join(f"{number}. item\n" for number in range(3_000))),
    ("a line between each", "".join(f"{LINE}{number}\n" for number in range(300))),
]


@pytest.mark.parametrize("size", [1, 64, 100_000])
@pytest.mark.parametrize(("message", "first", "last"), [row[1:] for row in NOTICED], ids=[row[0] for row in NOTICED])
def test_repetition_is_detected(message: str, first: int, last: int, size: int) -> None:
    at = stopped_at(message, size)
    assert at is not None
    assert first <= at <= last


@pytest.mark.parametrize("message", [row[1] for row in PASSED], ids=[row[0] for row in PASSED])
def test_ordinary_text_is_not_a_repetition(message: str) -> None:
    assert stopped_at(message) is None
    assert not ends_in_repetition(message)


def ends_in_repetition(message: str) -> bool:
    """Return whether the repetition is noticed only because the text ends."""
    detector = RepetitionDetector()
    return detector.add(message) is None and detector.is_repeating_at_end()


@pytest.mark.parametrize(
    "message",
    [
        "Well.\n" + LINE * 40,
        "Well, then.\n" + (LINE * 40).removesuffix("\n"),
        "x" * 50 + "\n" + "ab cd " * 670,
        "Intro, a bit longer.\n" + "short line here, yes\n" * 96,
    ],
)
def test_repetition_that_ends_with_the_text_is_detected_at_its_end(message: str) -> None:
    assert ends_in_repetition(message) != (stopped_at(message) is not None)
    assert not ends_in_repetition(message[: len(message) // 2])


@given(st.integers(0, 130), st.integers(40, 44), st.booleans())
def test_forty_equal_lines_are_detected_wherever_the_text_ends(before: int, times: int, has_end: bool) -> None:
    sent_text = "." * before + "\n" + LINE * times
    sent_text = sent_text if has_end else sent_text.removesuffix("\n")
    assert stopped_at(sent_text) is not None or ends_in_repetition(sent_text)


def test_arguments_repeat_more_than_prose_may() -> None:
    escaped = LINE.replace("\n", "\\n")
    assert stopped_at('{"content": "' + escaped * 200, is_arguments=True) is None
    at = stopped_at('{"content": "' + escaped * 400, is_arguments=True)
    assert at is not None
    assert 20_000 <= at <= 20_200


def test_text_after_an_open_fence_counts_as_code() -> None:
    assert stopped_at(LINE * 200, fence="```") is None
    assert stopped_at("```\n" + LINE * 60, fence="```") is not None


@given(
    st.lists(st.sampled_from([LINE, "a\n", "b ", "```\n", "x" * 70]), max_size=30),
    st.integers(1, 60),
    st.integers(1, 300),
)
def test_result_does_not_depend_on_how_the_text_is_split(parts: list[str], times: int, size: int) -> None:
    sent_text = "".join(parts) * times
    assert stopped_at(sent_text, size) == stopped_at(sent_text, max(1, len(sent_text)))


def endless(*before: str) -> Script:
    return cut(*before, *[LINE] * 300)


def test_repeating_reply_is_stopped_and_its_text_kept() -> None:
    player = Player(endless("Well. "))
    player.give(UserSubmitted(user("go")))
    while player.step():
        pass
    played = player.played
    assert played.end.outcome is Outcome.ERROR
    assert played.end.error is not None
    assert "kept repeating itself" in played.end.error.message
    assert played.end.text == played.shown
    assert played.end.text.startswith("Well. " + LINE * 39)
    assert len(played.end.text) < 43 * len(LINE)
    assert len(played.requests) == 1


@pytest.mark.parametrize("stop", [StopReason.END_TURN, StopReason.MAX_TOKENS])
def test_reply_that_repeats_to_its_end_fails(stop: StopReason) -> None:
    played = play(text("Well.\n", *[LINE] * 39, LINE.removesuffix("\n"), stop=stop))
    assert (played.end.outcome, len(played.requests)) == (Outcome.ERROR, 1)
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.REPETITION
    assert played.end.text == played.shown == "Well.\n" + (LINE * 40).removesuffix("\n")


@pytest.mark.parametrize("size", [7, 100, 100_000])
def test_repeating_thinking_is_stopped(size: int) -> None:
    sent_text = LINE * 300
    pieces = [ReasoningDelta(0, sent_text[at : at + size]) for at in range(0, len(sent_text), size)]
    played = play([ReplyStarted("m", "r1"), *pieces, *cut()[1:]])
    assert (played.end.outcome, len(played.requests)) == (Outcome.ERROR, 1)
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.REPETITION
    assert "before it answered" in played.end.error.message


def test_repeating_inline_thinking_is_stopped() -> None:
    facts = ModelFacts(has_inline_thinking=True)
    played = play(cut("<think>", *[LINE] * 300), model=KnownModel("p", "m", facts))
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.REPETITION


def test_code_in_thinking_may_repeat() -> None:
    played = play([ReplyStarted("m", "r1"), ReasoningDelta(0, "```\n" + LINE * 200), *text("Done.")[1:]])
    assert played.end.outcome is Outcome.END_TURN


def test_stopped_attempt_is_closed_and_its_late_events_change_nothing() -> None:
    player = Player(endless())
    player.give(UserSubmitted(user("go")))
    effects = [effect for _ in range(60) for effect in player.turn.handle(TextDelta(0, LINE))]
    assert sum(isinstance(effect, StopRequest) for effect in effects) == 1
    assert player.turn.is_over
    assert player.turn.handle(ReplyEnded(StopReason.MAX_TOKENS, "length")) == []


def test_repeating_continuation_is_not_progress() -> None:
    played = play(cut("lost"), cut("The beginning. "), endless())
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert [event.reason for event in played.of(ContinuationTerminated)] == ["no_progress"]
    assert played.end.text == played.shown
    assert played.end.text.startswith("The beginning. " + LINE)


def test_repeating_escalated_attempt_keeps_the_longer_text() -> None:
    long = "".join(f"{number}. A different line each time it is written.\n" for number in range(200))
    played = play(cut(long), endless())
    assert played.end.outcome is Outcome.ERROR
    assert played.end.text == played.shown == long
    assert len(played.of(PartialRestored)) == 1


def test_repeating_arguments_end_the_reply_and_do_not_run() -> None:
    raw = '{"path": "a", "content": "' + LINE.replace("\n", "\\n") * 400
    played = play(calls(("write", raw), before="Writing."))
    assert played.end.outcome is Outcome.ERROR
    assert played.ran == []
    assert played.messages[-1] == assistant(*play(text("Writing.")).messages[-1].blocks)
