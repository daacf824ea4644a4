"""A turn at a rate limit: it waits, asks, fails, or continues with another model. The clock is the test's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    CancelRequested,
    Effect,
    Fallback,
    Input,
    ModelSwitched,
    NoModelLeft,
    RateLimitAnswered,
    SwitchModel,
    TurnSettings,
    WaitElapsed,
)
from qcode.engine.model_facts import KnownModel
from qcode.protocol import events as ev
from qcode.protocol.errors import ErrorInfo, ErrorKind, LimitPeriod, ProviderError
from qcode.protocol.messages import Text
from qcode.protocol.model import LimitWait, ModelFacts, RetrySettings
from qcode.protocol.reply import Outcome, ReasoningDelta, ReplyStarted, TextDelta
from qcode.protocol.usage import Price
from tests.engine.play import TOOLS, Player, Script, broken, calls, cut, play, retries, text

END = 1_792_499_400
HOUR = 3_600.0
FIRST = KnownModel("first", "m", ModelFacts(max_output_tokens=9_000))
OF_FIRST = ErrorInfo(ErrorKind.RATE_LIMIT, "first limit", retry_after=150, resets_at=END, limited_model="first/m")
OTHER = KnownModel("other", "n", ModelFacts(max_output_tokens=9_000, price=Price(Decimal(3), Decimal(5))))


def limited(
    wait: float | None = HOUR,
    *,
    period: LimitPeriod = "",
    may_retry: bool = True,
    kind: ErrorKind = ErrorKind.RATE_LIMIT,
) -> Script:
    """A request refused because of a limit that ends after `wait` seconds."""
    ends = None if wait is None else END
    return [ProviderError(kind, "limit", retry_after=wait, resets_at=ends, period=period, may_retry=may_retry)]


def settings(wait: LimitWait = "never", *, most: float = 86_400, fallback: Fallback | None = None) -> TurnSettings:
    return TurnSettings("Be brief.", TOOLS, retries=RetrySettings(0, 120, wait, most), fallback=fallback)


class Switching(Player):
    """A player whose turn may switch to `others`, one after another."""

    def __init__(
        self,
        *scripts: Script,
        others: tuple[KnownModel, ...] = (OTHER,),
        wait: LimitWait = "never",
        limit: ErrorInfo | None = None,
    ) -> None:
        super().__init__(*scripts, settings=settings(wait, fallback=Fallback()))
        self.others = list(others)
        self.limit = limit

    def _perform(self, effect: Effect) -> None:
        if not isinstance(effect, SwitchModel):
            super()._perform(effect)
        elif effect.has_waited:
            left = replace(self.turn.settings, fallback=Fallback())
            self._inputs.append(ModelSwitched(FIRST, left, PromptCounter()))
        elif self.others:
            left = replace(self.turn.settings, fallback=Fallback())
            self._inputs.append(ModelSwitched(self.others.pop(0), left, PromptCounter(), ("a/x skipped",)))
        else:
            self._inputs.append(NoModelLeft(("a/x skipped",), self.limit))


def test_limit_is_waited_for_in_minutes_and_the_same_request_is_sent_again() -> None:
    played = play(limited(150), text("done"), settings=settings("always"))
    # Half of a tenth of the wait is added, so that not everybody returns at once.
    assert played.waits == [60, 60, 37.5]
    assert [(event.seconds, event.is_question) for event in played.of(ev.LimitReached)] == [
        (157.5, False), (97.5, False), (37.5, False)
    ]  # fmt: skip
    assert played.requests[0] == played.requests[1]
    assert played.end.text == "done"
    assert played.end.api_calls.retries == 1


def test_retry_has_the_status_of_the_failure() -> None:
    refused: Script = [ProviderError(ErrorKind.OVERLOADED, "busy", status=529)]
    played = play(refused, text("done"), settings=TurnSettings("Be brief.", TOOLS))
    assert [event.status for event in played.of(ev.Waiting)] == [529]


def test_limit_within_the_ordinary_wait_is_an_ordinary_retry() -> None:
    chosen = TurnSettings("Be brief.", TOOLS, retries=RetrySettings(5, 120, "always"))
    played = play(limited(100), text("done"), settings=chosen)
    assert played.waits == [100]
    assert not played.of(ev.LimitReached)


@pytest.mark.parametrize(
    ("script", "chosen"),
    [
        (limited(), settings("never")),
        (limited(HOUR), settings("always", most=60)),
        (limited(None), settings("always")),
        (limited(may_retry=False), settings("always")),
        (limited(kind=ErrorKind.QUOTA), settings("always")),
    ],
    ids=["never", "too far", "no time", "forbidden", "empty account"],
)
def test_limit_without_permission_to_wait_ends_the_turn(script: Script, chosen: TurnSettings) -> None:
    played = play(script, settings=chosen)
    assert played.end.outcome is Outcome.ERROR
    assert played.waits == []


def test_limit_per_day_without_a_time_is_not_retried_in_vain() -> None:
    played = play(limited(None, period="day"), settings=TurnSettings("Be brief.", TOOLS))
    assert (len(played.requests), played.end.outcome) == (1, Outcome.ERROR)


def test_limit_that_returns_at_once_is_waited_for_three_times() -> None:
    played = play(*[limited(130)] * 4, settings=settings("always"))
    assert len(played.requests) == 4
    assert played.end.error is not None
    assert played.end.error.resets_at == END


def test_sleep_of_the_machine_counts_as_waiting() -> None:
    player = Player(limited(HOUR), text("done"), settings=settings("always"))
    player.play_until(ev.LimitReached)
    player.drop_queued()
    player.give(WaitElapsed(2 * HOUR))
    assert len(player.played.requests) == 2


def test_choosing_to_wait_gets_the_reply() -> None:
    player = Player(limited(30 * 60), text("done"), settings=settings("ask"))
    player.play()
    (asked,) = player.played.of(ev.LimitReached)
    assert asked.is_question
    assert player.played.waits == []
    player.give(RateLimitAnswered(should_wait=True))
    while player.step():
        pass
    assert player.played.end.text == "done"
    assert sum(player.played.waits) == pytest.approx(30 * 60 + 15)


def test_time_before_the_answer_is_part_of_the_wait() -> None:
    player = Player(limited(30 * 60), text("done"), settings=settings("ask"))
    player.play()
    player.give(RateLimitAnswered(should_wait=True, seconds=20 * 60))
    while player.step():
        pass
    assert player.played.of(ev.LimitReached)[1].seconds == pytest.approx(10 * 60 + 15)
    assert sum(player.played.waits) == pytest.approx(10 * 60 + 15)


def test_answer_after_the_end_of_the_limit_sends_the_request_at_once() -> None:
    player = Player(limited(30 * 60), text("done"), settings=settings("ask"))
    player.play()
    player.give(RateLimitAnswered(should_wait=True, seconds=40 * 60))
    assert len(player.played.requests) == 2


def test_choosing_not_to_wait_ends_the_turn_with_the_error() -> None:
    player = Player(limited(), settings=settings("ask"))
    player.play()
    player.give(RateLimitAnswered(should_wait=False))
    assert player.played.end.outcome is Outcome.ERROR
    assert player.played.end.error is not None
    assert player.played.end.error.message == "limit"


def test_long_sleep_past_the_end_of_a_limit_asks_first() -> None:
    player = Player(limited(), text("done"), settings=settings("ask"))
    player.play()
    player.give(RateLimitAnswered(should_wait=True))
    player.drop_queued()
    player.give(WaitElapsed(12 * HOUR))
    assert [event.is_question for event in player.played.of(ev.LimitReached)] == [True, False, True]
    player.give(RateLimitAnswered(should_wait=True))
    assert len(player.played.requests) == 2


@pytest.mark.parametrize("wait", ["ask", "always"])
def test_cancel_ends_a_turn_at_a_limit(wait: LimitWait) -> None:
    player = Player(limited(), settings=settings(wait))
    player.play_until(ev.LimitReached)
    player.drop_queued()
    player.give(CancelRequested())
    assert player.played.end.outcome is Outcome.CANCELLED


def test_answer_without_a_question_is_ignored() -> None:
    player = Player(limited(), text("done"), settings=settings("always"))
    player.play_until(ev.LimitReached)
    player.give(RateLimitAnswered(should_wait=False))
    assert not player.played.is_over
    while player.step():
        pass
    assert player.played.end.text == "done"


def test_shown_text_is_continued_after_a_limit() -> None:
    cut_off = [ReplyStarted("m", "r1"), TextDelta(0, "The first half of it, "), *limited(200)]
    played = play(cut_off, text("and the second."), settings=settings("always"))
    assert played.end.text == "The first half of it, and the second."
    assert played.shown == played.end.text


@pytest.mark.parametrize("kind", [ErrorKind.OVERLOADED, ErrorKind.SERVER, ErrorKind.RATE_LIMIT, ErrorKind.UNREACHABLE])
def test_failed_model_is_replaced_within_the_step(kind: ErrorKind) -> None:
    player = Switching(limited(kind=kind), text("done"))
    played = player.play()
    assert [request.model for request in played.requests] == ["m", "n"]
    (changed,) = played.of(ev.ModelFellBack)
    assert (changed.from_model, changed.to_model) == ("test/m", "other/n")
    assert played.end.text == "done"
    assert [event.step for event in played.of(ev.StepStarted)] == [1]
    assert "a/x skipped" in [event.text for event in played.of(ev.Notice)]


@pytest.mark.parametrize(
    "kind",
    [ErrorKind.AUTH, ErrorKind.BAD_REQUEST, ErrorKind.UNKNOWN_MODEL, ErrorKind.QUOTA, ErrorKind.CONTEXT_OVERFLOW],
)
def test_failure_that_another_model_cannot_fix_never_switches(kind: ErrorKind) -> None:
    player = Switching([ProviderError(kind, "no")])
    assert player.play().end.outcome is Outcome.ERROR
    assert len(player.others) == 1


def test_empty_account_switches_only_if_that_is_set() -> None:
    player = Switching(limited(kind=ErrorKind.QUOTA), text("done"))
    player.turn.settings = replace(player.turn.settings, fallback=Fallback(on_quota=True))
    assert player.play().end.text == "done"


def test_shown_text_is_continued_by_the_next_model_without_the_reasoning_of_the_first() -> None:
    cut_off: Script = [ReplyStarted("m", "r1"), ReasoningDelta(0, "hm"), TextDelta(1, "The first half of it, ")]
    player = Switching([*cut_off, *limited()], text("and the second."))
    played = player.play()
    assert played.end.text == "The first half of it, and the second."
    assert played.shown == played.end.text
    assert retries(played) == [(True, "fallback")]
    assert "The connection broke while you were writing" in played.requests[-1].messages[-1].text
    assert played.caps == [8_000, 8_000]
    assert all(isinstance(block, Text) for block in played.messages[-1].blocks)


def test_truncated_text_is_continued_by_the_next_model_at_the_larger_cap() -> None:
    player = Switching(cut("One ", output=8_000), cut("One, two ", output=64_000), limited(), text("three."))
    played = player.play()
    assert played.end.text == "One, two three."
    assert "The output limit cut your reply off" in played.requests[-1].messages[-1].text
    assert played.caps[-1] == OTHER.facts.max_output_tokens


def test_each_model_is_priced_by_its_own_price() -> None:
    player = Switching(calls(("read", '{"path": "a"}'), output=1_000_000), limited(), text("done", output=1_000_000))
    player.turn.model = KnownModel("test", "m", ModelFacts(price=Price(Decimal(0), Decimal(2))))
    player.turn.tally.ledger.price, player.turn.tally.ledger.cost = player.turn.model.facts.price, Decimal(0)
    # 2 dollars for the first model's output, 5 for the other's, and 100 tokens of input at 3 dollars a million.
    assert player.play().end.cost == Decimal("7.0003")


def test_next_step_uses_the_model_that_took_over() -> None:
    played = Switching(calls(("read", '{"path": "a"}')), limited(), text("done")).play()
    assert [request.model for request in played.requests] == ["m", "m", "n"]
    assert len(played.ran) == 1


def test_last_fallback_model_waits_for_its_limit() -> None:
    player = Switching(limited(), limited(200), text("done"), wait="always")
    played = player.play()
    assert [request.model for request in played.requests] == ["m", "n", "n"]
    assert sum(played.waits) == 210


def test_turn_without_a_usable_model_ends_with_the_first_error() -> None:
    player = Switching(limited(), others=())
    played = player.play()
    assert played.end.error is not None
    assert (played.end.error.message, played.end.error.resets_at) == ("limit", END)


def test_dropped_connection_after_text_does_not_switch_the_model() -> None:
    player = Switching(broken(TextDelta(0, "half "), kind=ErrorKind.CONNECTION))
    assert player.play().end.outcome is Outcome.ERROR
    assert len(player.others) == 1


@pytest.mark.parametrize("kind", [ErrorKind.AUTH, ErrorKind.NO_CREDENTIAL, ErrorKind.UNKNOWN_MODEL])
def test_fallback_model_that_cannot_be_used_leaves_the_turn_to_the_next_one(kind: ErrorKind) -> None:
    third = KnownModel("third", "o", ModelFacts(max_output_tokens=9_000))
    played = Switching(limited(), [ProviderError(kind, "no")], text("done"), others=(OTHER, third)).play()
    assert [request.model for request in played.requests] == ["m", "n", "o"]
    assert played.end.text == "done"


@pytest.mark.parametrize("limit", [OF_FIRST, None], ids=["limit known", "limit unknown"])
def test_last_fallback_model_with_a_bad_key_leaves_the_failure_of_the_first_model(limit: ErrorInfo | None) -> None:
    player = Switching(limited(), [ProviderError(ErrorKind.AUTH, "the key is not valid", status=401)], limit=limit)
    error = player.play().end.error
    assert error is not None
    assert error.message == "limit. Fallback model other/n failed: the key is not valid"
    assert (error.kind, error.resets_at) == (ErrorKind.RATE_LIMIT, END)
    assert error.limited_model == (limit.limited_model if limit else "test/m")


def test_limit_of_the_first_model_is_waited_for_after_a_fallback_model_with_a_bad_key() -> None:
    refused: Script = [ProviderError(ErrorKind.AUTH, "no", status=401)]
    played = Switching(limited(), refused, text("back"), wait="always", limit=OF_FIRST).play()
    assert (played.waits, played.end.text) == ([60, 60, 37.5], "back")


def test_first_model_that_refuses_its_key_after_a_wait_ends_the_turn() -> None:
    refused: Script = [ProviderError(ErrorKind.AUTH, "no", status=401)]
    error = Switching(limited(), overloaded(), refused, wait="always", limit=OF_FIRST).play().end.error
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.AUTH, "no")


def overloaded() -> Script:
    return [ProviderError(ErrorKind.OVERLOADED, "overloaded")]


def test_limit_of_an_earlier_model_is_waited_for_after_the_last_one_failed() -> None:
    played = Switching(limited(), overloaded(), text("back"), wait="always", limit=OF_FIRST).play()
    assert played.waits == [60, 60, 37.5]
    returned = played.of(ev.ModelFellBack)[-1]
    assert (returned.to_model, returned.error, returned.has_returned) == ("first/m", None, True)
    assert played.end.text == "back"


def test_end_without_waiting_names_the_limit_of_an_earlier_model() -> None:
    played = Switching(limited(), overloaded(), limit=OF_FIRST).play()
    assert played.waits == []
    error = played.end.error
    assert error is not None
    assert (error.kind, error.resets_at, error.limited_model) == (ErrorKind.OVERLOADED, END, "first/m")


def test_models_that_stay_at_their_limits_are_waited_for_three_times() -> None:
    played = Switching(limited(), overloaded(), *[limited()] * 3, wait="always", limit=OF_FIRST).play()
    assert played.end.outcome is Outcome.ERROR
    assert len(played.waits) == 9


def test_text_shown_before_waiting_for_another_model_is_continued_by_it() -> None:
    half = broken(TextDelta(0, "The first half of it, "), kind=ErrorKind.OVERLOADED)
    played = Switching(limited(), half, text("and the second."), wait="always", limit=OF_FIRST).play()
    assert played.end.text == played.shown == "The first half of it, and the second."


@pytest.mark.parametrize("end", [CancelRequested, lambda: RateLimitAnswered(should_wait=False)])
def test_ending_the_wait_for_another_model_keeps_the_text(end: Callable[[], Input]) -> None:
    player = Switching(limited(), broken(TextDelta(0, "half "), kind=ErrorKind.OVERLOADED), wait="ask", limit=OF_FIRST)
    player.play()
    player.give(end())
    assert player.played.end.text == "half "
