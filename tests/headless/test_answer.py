from __future__ import annotations

from qcode.headless.run import AnswerSoFar
from qcode.protocol.events import ReplyFinished, Retry, StepStarted, TurnEvent
from qcode.protocol.messages import Text, assistant
from qcode.protocol.reply import StopReason, TextDelta


def answer(*events: TurnEvent) -> str:
    so_far = AnswerSoFar()
    for event in events:
        so_far.handle(event)
    return so_far.text


def finished(text: str, stop: StopReason = StopReason.END_TURN) -> ReplyFinished:
    return ReplyFinished(stop, "", 1, assistant(Text(text)))


def test_white_space_alone_is_no_answer() -> None:
    assert answer(finished("one"), StepStarted(2), finished(" \n")) == "one"
    assert answer(finished("one"), StepStarted(2), TextDelta(0, "\n")) == "one"


def test_a_reply_that_goes_on_after_a_pause_is_one_answer() -> None:
    assert answer(finished("one, ", StopReason.PAUSED), StepStarted(2), TextDelta(0, "two")) == "one, two"
    assert answer(finished("one, ", StopReason.PAUSED), StepStarted(2), finished("two")) == "one, two"


def test_the_longer_of_the_old_and_the_new_attempt_counts() -> None:
    over = Retry(False, "max_tokens", 1, 64_000)
    assert answer(TextDelta(0, "long text"), over, TextDelta(0, "short")) == "long text"
