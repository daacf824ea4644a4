"""Hosts that refuse or give up: errors that name no limit, silent caps, retries that run out."""

from __future__ import annotations

from qcode.protocol.errors import ExitCode
from qcode.protocol.model import RetrySettings
from qcode.protocol.reply import Outcome
from tests.e2e.limits.row import (
    BROKEN,
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    LONGER,
    UP,
    P,
    Row,
    api,
    continued,
    cut,
    done,
    glob,
)
from tests.fakes.turns import refused

_NO = refused(400, "tools are not welcome here")
_BUSY = refused(429, "slow down", retry_after=0)
_TWICE = RetrySettings(max_retries=2)
_TO_1 = (cut("lost"), cut(P[0]))
_THOUGHT = cut(thinking="Hm … ")
_ERROR = (Outcome.ERROR, None, ExitCode.FAILED)
_GAVE_UP = "ended error"

_PLAIN_400 = (
    Row("400 that names no limit", "first", (_NO,), asked=(FIRST,), text="", ends=_ERROR, stored=(),
        notice="not welcome"),
    Row(
        "400 that names no limit", "escalated", (cut(P[0]), _NO),
        asked=(FIRST, "-escalated 64000"), text=P[0], events=(*UP, "restored", _GAVE_UP), api=api(up=1), ends=CUT,
        notice="not welcome",
    ),
    Row(
        "400 that names no limit", "continuation 1", (*_TO_1, _NO),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0], events=(*UP, *continued(1), _GAVE_UP),
        api=api(up=1, on=1), ends=CUT, notice="not welcome",
    ),
    Row(
        "400 that names no limit", "nudge", (_THOUGHT, _THOUGHT, _NO),
        asked=("-first 8000", ESCALATED, "-nudge 64000"), text="",
        events=(*UP, "over thinking", "restored", _GAVE_UP), api=api(up=1, repairs=1), ends=_ERROR, stored=(),
        notice="not welcome",
    ),
    Row(
        "400 that names no limit", "step after", (glob(P[0]), _NO),
        asked=(FIRST, FIRST), text=P[0], api=api(2), ends=_ERROR, stored=("text+call",), ran=("glob",), results=("",),
    ),
    Row(
        "401", "continuation 1", (*_TO_1, refused(401, "the key is not valid")),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0], events=(*UP, *continued(1), _GAVE_UP),
        api=api(up=1, on=1), ends=CUT,
    ),
    Row("401", "first", (refused(401, "the key is not valid"),), asked=(FIRST,), text="", stored=(),
        ends=(Outcome.ERROR, None, ExitCode.NO_CREDENTIAL)),
)  # fmt: skip

_SILENT_CAP = (
    Row(
        "host that cuts far below the cap", "escalated",
        (cut("lost", output=4_000), cut(P[0], output=4_000), done(P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0] + P[1], events=(*UP, *continued(1), COMPLETED),
        api=api(up=1, on=1), again=(cut("Uno "), done("dos.")), again_caps=(8_000, 64_000),
    ),
    Row(
        "host that cuts far below the cap", "continuation 3",
        (cut("lost", output=4_000), *(cut(piece, output=4_000) for piece in P[:4])),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3), text="".join(P[:4]),
        events=(*UP, *continued(1, 2, 3), "ended retry_limit"), api=api(up=1, on=3), ends=CUT,
    ),
)  # fmt: skip

_SPENT = (
    Row(
        "429 until no retry is left", "first", (_BUSY,) * 3,
        asked=("-first 8000", "-first 8000", FIRST), text="", events=("waiting",) * 2, api=api(retries=2), ends=BROKEN,
        stored=(), retries=_TWICE,
    ),
    Row(
        "429 until no retry is left", "escalated", (cut(P[0]), *[_BUSY] * 3),
        asked=(FIRST, *["-escalated 64000"] * 3), text=P[0], events=(*UP, "waiting", "waiting", "restored", _GAVE_UP),
        api=api(up=1, retries=2), ends=CUT, retries=_TWICE,
    ),
    Row(
        "429 until no retry is left", "continuation 1", (*_TO_1, *[_BUSY] * 3),
        asked=("-first 8000", ESCALATED, *["-continuation 64000"] * 2, LONGER), text=P[0],
        events=(*UP, *continued(1), "waiting", "waiting", _GAVE_UP), api=api(up=1, on=1, retries=2), ends=CUT,
        retries=_TWICE,
    ),
    Row(
        "429 until no retry is left", "step after", (glob(P[0]), *[_BUSY] * 3),
        asked=(FIRST, "-first 8000", "-first 8000", FIRST), text=P[0], events=("waiting",) * 2,
        api=api(2, retries=2), ends=BROKEN, stored=("text+call",), ran=("glob",), results=("",), retries=_TWICE,
    ),
    Row(
        "429 that asks for too long a wait", "first", (refused(429, "tomorrow", retry_after=9_000),),
        asked=(FIRST,), text="", ends=BROKEN, stored=(),
    ),
    Row(
        "429 that asks for too long a wait", "continuation 1", (*_TO_1, refused(429, "tomorrow", retry_after=9_000)),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0], events=(*UP, *continued(1), _GAVE_UP),
        api=api(up=1, on=1), ends=CUT,
    ),
)  # fmt: skip

HOSTS = (*_PLAIN_400, *_SILENT_CAP, *_SPENT)
