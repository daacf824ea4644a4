from __future__ import annotations

from qcode.engine.effects import MAX_ANSWER_TRIES, Review
from qcode.protocol.errors import ErrorKind
from qcode.protocol.reply import InvalidAnswer


def check(answer: str) -> InvalidAnswer | None:
    return None if answer == "good" else InvalidAnswer(f"{answer} is not good", f"Not {answer}.")


def test_any_answer_is_accepted_without_a_check() -> None:
    review = Review(None)
    assert not review.asks_again("bad")
    assert review.error is None


def test_accepted_answer_ends_the_retries() -> None:
    review = Review(check)
    assert review.asks_again("bad")
    assert "2 of 3" in review.notice
    assert not review.asks_again("good")
    assert review.error is None


def test_last_rejected_try_is_an_error_with_the_reason() -> None:
    review = Review(check)
    assert [review.asks_again("bad") for _ in range(MAX_ANSWER_TRIES)] == [True, True, False]
    assert review.error is not None
    assert review.error.kind == ErrorKind.STRUCTURED_OUTPUT
    assert "bad is not good" in review.error.message
