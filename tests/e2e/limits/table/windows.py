"""Context windows that are nearly full, and refusals of a host that name its limits."""

from __future__ import annotations

from qcode.engine.caps import OutputSettings
from qcode.protocol.errors import ExitCode
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome, StopReason
from tests.e2e.limits.play import Played
from tests.e2e.limits.row import (
    BIG_CUT,
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    HALF_CALLS,
    LONGER,
    STILL_CUT,
    UP,
    P,
    Row,
    api,
    continued,
    cut,
    cut_call,
    done,
    glob,
)
from tests.fakes.turns import Turn, refused

_TWO = P[0] + P[1]
_SMALL = ModelFacts(context_window=32_000)
_NO_ROOM = (Outcome.ERROR, StopReason.CONTEXT_WINDOW_EXCEEDED, ExitCode.BAD_INPUT)
_CONTINUES = OutputSettings(policy="continue")
_SPENT = "ended budget_exhausted"
_LEFT = "`max_tokens` must be less than what is left of the context window: 64000 > 64001 - 24235"
_TOTAL = (
    "This model's maximum context length is 16384 tokens. However, you requested 18000 tokens (10000 in the messages, "
    "8000 in the completion)."
)
_TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
_SPELLED_OUT = refused(400, _TOTAL, code="context_length_exceeded")


def _names(limit: int) -> Turn:
    return refused(400, f"max_tokens is too large. This model supports at most {limit} tokens.", param="max_tokens")


def _was_clamped(played: Played) -> None:
    cap = played.requests[0].cap
    assert cap is not None
    assert 1_024 <= cap < 8_000


_ROOM = (
    Row(
        "window nearly full", "first", (done(),),
        asked=("first ?",), facts=ModelFacts(context_window=9_000), check=_was_clamped,
    ),
    Row(
        "window nearly full", "escalated", (cut("lost", prompt=20_000), done(prompt=20_000)),
        asked=("-first 8000", "escalated 10976"), events=("over max_tokens", "escalated 8000>10976", COMPLETED),
        api=api(up=1), facts=_SMALL,
    ),
    Row(
        "window leaves no gain", "first", (cut(P[0], prompt=21_000), done(P[1], prompt=21_100)),
        asked=(FIRST, "continuation ?"), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1), facts=_SMALL,
    ),
    Row(
        "window without room", "first", (),
        asked=(), text="", ends=_NO_ROOM, stored=(), facts=ModelFacts(context_window=3_000), again=None,
        notice="leaves no room", api=api(0),
    ),
    Row(
        "window without room", "first continuation", (cut(P[0], prompt=30_500),),
        asked=("first 500",), text=P[0], events=(_SPENT,), ends=CUT, facts=_SMALL, again=None,
        settings=OutputSettings(override=500), notice="leaves no room",
    ),
    Row(
        "window that the host counts to be fuller than estimated", "continuation 1",
        (cut("lost", prompt=19_000), cut(P[0], prompt=19_000), cut(P[1], prompt=19_100), done(P[2], prompt=19_110)),
        asked=("-first 8000", "escalated 11976", "continuation ?", "continuation ?"), text="".join(P[:3]),
        events=("over max_tokens", "escalated 8000>11976", *continued(1, 2), COMPLETED), api=api(up=1, on=2),
        facts=_SMALL,
    ),
)  # fmt: skip

_OUTPUT = (
    Row(
        "400 that names an output limit", "first", (_names(4_096), done()),
        asked=(FIRST, "first 4096"), api=api(retries=1), again_caps=(4_096,),
    ),
    Row(
        "400 that names an output limit", "escalated", (cut("lost"), _names(32_000), done()),
        asked=("-first 8000", ESCALATED, "escalated 32000"), events=(*UP, COMPLETED), api=api(up=1, retries=1),
        again=(cut("lost"), done("Next.")), again_caps=(8_000, 32_000),
    ),
    Row(
        "400 that names an output limit", "continuation 1", (cut(P[0]), _names(16_384), done(P[1])),
        asked=(FIRST, LONGER, "continuation 16384"), text=_TWO, events=(*continued(1), COMPLETED),
        api=api(on=1, retries=1), settings=_CONTINUES, again_caps=(8_000,),
    ),
    Row(
        "400 that names an output limit", "step after", (glob(), _names(4_096), done()),
        asked=(FIRST, FIRST, "first 4096"), api=api(2, retries=1), stored=("call", "text"), ran=("glob",),
        results=("",), again_caps=(4_096,),
    ),
    Row(
        "400 that names an output limit without gain", "escalated", (cut(P[0]), _names(9_000), done(P[1])),
        asked=(FIRST, ESCALATED, "continuation 9000"), text=_TWO,
        events=(*UP, "restored", *continued(1), COMPLETED), api=api(up=1, on=1), again_caps=(8_000,),
    ),
    Row(
        "400 that names an output limit without gain, call cut", "escalated",
        (cut_call("write", BIG_CUT), _names(9_000), done()),
        asked=(FIRST, ESCALATED, FIRST),
        events=(*UP, "restored", STILL_CUT, "repair cut_arguments attempted"), api=api(2, up=1),
        stored=("call", "text"), results=("MUST split",), skips=HALF_CALLS,
    ),
    Row(
        "400 that names the same limit again", "first", (_names(4_096), _names(4_096)),
        asked=(FIRST, "first 4096"), text="", api=api(retries=1), ends=(Outcome.ERROR, None, ExitCode.FAILED),
        stored=(), notice="at most 4096",
    ),
    Row(
        "400 that names an output limit, then one that names a window", "first",
        (_names(7_000), _SPELLED_OUT, done(prompt=10_000)),
        asked=(FIRST, "first 7000", "first 5360"), api=api(retries=2), window=16_384, again=None,
    ),
)  # fmt: skip

_WINDOW = (
    Row(
        "400 that names a window", "first", (_SPELLED_OUT, done(prompt=10_000)),
        asked=(FIRST, "first 5360"), api=api(retries=1), window=16_384,
    ),
    Row(
        "400 that names a window", "escalated", (cut("lost"), refused(400, _LEFT), done(prompt=24_235)),
        asked=("-first 8000", ESCALATED, "escalated 38486"), events=(*UP, COMPLETED), api=api(up=1, retries=1),
        window=64_001,
    ),
    Row(
        "400 that names a window", "continuation 1", (cut(P[0]), refused(400, _LEFT), done(P[1], prompt=24_235)),
        asked=(FIRST, LONGER, "continuation 38486"), text=_TWO, events=(*continued(1), COMPLETED),
        api=api(on=1, retries=1), settings=_CONTINUES, window=64_001,
    ),
    Row(
        "400 for a prompt larger than the window", "first", (refused(400, _TOO_LONG),),
        asked=(FIRST,), text="", ends=_NO_ROOM, stored=(), notice="leaves no room", again=None,
    ),
    Row(
        "400 for a prompt larger than the window", "continuation 1",
        (cut("lost"), cut(P[0]), refused(400, _TOO_LONG)),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0], events=(*UP, *continued(1), _SPENT),
        api=api(up=1, on=1), ends=CUT, notice="leaves no room",
    ),
    Row(
        "400 for a prompt larger than the window", "step after", (glob(P[0]), refused(400, _TOO_LONG)),
        asked=(FIRST, FIRST), text=P[0], api=api(2), ends=(*_NO_ROOM[:2], 56), stored=("text+call",), ran=("glob",),
        results=("",), notice="leaves no room",
    ),
)  # fmt: skip

WINDOWS = (*_ROOM, *_OUTPUT, *_WINDOW)
