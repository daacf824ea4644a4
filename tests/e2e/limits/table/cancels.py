"""A cancel in every phase: shown text stays, nothing more is sent, and the resume message is removed."""

from __future__ import annotations

from dataclasses import replace

from qcode.engine.caps import OutputSettings
from qcode.protocol.events import (
    ApprovalRequested,
    OutputEscalated,
    ToolCallProgress,
    ToolStarted,
    TurnEvent,
    Waiting,
)
from qcode.protocol.reply import ReasoningDelta, TextDelta
from tests.e2e.limits.row import (
    BIG_CUT,
    CANCELLED,
    ESCALATED,
    FIRST,
    HALF_CALLS,
    LONGER,
    UP,
    Cancel,
    P,
    Row,
    Step,
    api,
    call,
    continued,
    cut,
    cut_call,
    done,
    glob,
)
from tests.fakes.turns import refused

_THOUGHT = cut(thinking="Hm … ")
_STOPPED = "ended cancelled"
_BUSY = refused(429, "slow down", retry_after=60)


def _says(text: str) -> Cancel:
    return Cancel(lambda event: isinstance(event, (TextDelta, ReasoningDelta)) and event.text == text)


def _on(kind: type[TurnEvent]) -> Cancel:
    return Cancel(lambda event: isinstance(event, kind))


_AT_SILENCE = Cancel()

CANCELS = (
    Row(
        "cancel before anything", "first", (Step(done(), "stall"),),
        asked=(FIRST,), text="", ends=CANCELLED, stored=(), cancel=_AT_SILENCE,
    ),
    Row(
        "cancel in text", "first", (Step(done(P[:3]), "stall", after=P[1]),),
        asked=(FIRST,), text=P[0] + P[1], ends=CANCELLED, cancel=_says(P[1]),
    ),
    Row(
        "cancel in thinking", "first", (Step(replace(done(), reasoning=["Hm ", "so "]), "stall", after="so "),),
        asked=(FIRST,), text="", ends=CANCELLED, stored=(), cancel=_says("so "),
    ),
    Row(
        "cancel in a call", "first", (Step(glob(P[0]), "stall", after="glob"),),
        asked=(FIRST,), text=P[0], ends=CANCELLED, cancel=_on(ToolCallProgress),
    ),
    Row(
        "cancel in a backoff", "first", (_BUSY,),
        asked=("-first 8000",), text="", events=("waiting",), ends=CANCELLED, stored=(), cancel=_on(Waiting),
    ),
    Row(
        "cancel in a backoff", "escalated", (cut(P[0]), _BUSY),
        asked=(FIRST, "-escalated 64000"), text=P[0], events=(*UP, "waiting", "restored", _STOPPED), api=api(up=1),
        ends=CANCELLED, cancel=_on(Waiting),
    ),
    Row(
        "cancel in a backoff", "continuation 1", (cut("lost"), cut(P[0]), _BUSY),
        asked=("-first 8000", ESCALATED, "-continuation 64000"), text=P[0],
        events=(*UP, *continued(1), "waiting", _STOPPED), api=api(up=1, on=1), ends=CANCELLED, cancel=_on(Waiting),
    ),
    Row(
        "cancel before anything", "escalated", (cut(P[0]), Step(done(), "stall")),
        asked=(FIRST, "-escalated 64000"), text=P[0], events=(*UP, "restored", _STOPPED), api=api(up=1),
        ends=CANCELLED, cancel=_AT_SILENCE,
    ),
    Row(
        "cancel before the request is sent", "escalated", (cut(P[0]),),
        asked=(FIRST,), text=P[0], events=(*UP, "restored", _STOPPED), ends=CANCELLED, cancel=_on(OutputEscalated),
    ),
    Row(
        "cancel with less text than before", "escalated",
        (cut(P[0] + P[1]), Step(done(["x", "y", "z"]), "stall", after="y")),
        asked=(FIRST, "-escalated 64000"), text=P[0] + P[1], events=(*UP, "restored", _STOPPED), api=api(up=1),
        ends=CANCELLED, cancel=_says("y"),
    ),
    Row(
        "cancel with more text than before", "escalated", (cut("l"), Step(done(P[:3]), "stall", after=P[1])),
        asked=("-first 8000", ESCALATED), text=P[0] + P[1], events=(*UP, _STOPPED), api=api(up=1), ends=CANCELLED,
        cancel=_says(P[1]),
    ),
    Row(
        "cancel before anything", "continuation 1", (cut("lost"), cut(P[0]), Step(done(), "stall")),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0], events=(*UP, *continued(1), _STOPPED),
        api=api(up=1, on=1), ends=CANCELLED, cancel=_AT_SILENCE,
    ),
    Row(
        "cancel in text", "continuation 1", (cut("lost"), cut(P[0]), Step(done(P[1:4]), "stall", after=P[2])),
        asked=("-first 8000", ESCALATED, LONGER), text="".join(P[:3]), events=(*UP, *continued(1), _STOPPED),
        api=api(up=1, on=1), ends=CANCELLED, cancel=_says(P[2]),
    ),
    Row(
        "cancel in text", "continuation 3",
        (cut("lost"), *map(cut, P[:3]), Step(done([P[3], P[4], "…"]), "stall", after=P[4])),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3), text="".join(P), events=(*UP, *continued(1, 2, 3), _STOPPED),
        api=api(up=1, on=3), ends=CANCELLED, cancel=_says(P[4]),
    ),
    Row(
        "cancel before anything", "nudge", (_THOUGHT, _THOUGHT, Step(done(), "stall")),
        asked=("-first 8000", ESCALATED, "-nudge 64000"), text="",
        events=(*UP, "over thinking", "restored", _STOPPED), api=api(up=1, repairs=1), ends=CANCELLED, stored=(),
        cancel=_AT_SILENCE,
    ),
    Row(
        "cancel before anything", "resume 1", (*[cut_call("write", BIG_CUT, P[0])] * 2, Step(done('"}'), "stall")),
        asked=("-first 8000", ESCALATED, "resume 64000"), text=P[0], events=(*UP, "on call", _STOPPED),
        api=api(up=1, repairs=1), ends=CANCELLED, settings=OutputSettings(tool_call_repair="resume"),
        cancel=_AT_SILENCE, skips=HALF_CALLS,
    ),
    Row(
        "cancel before anything", "transport continuation",
        (Step(done(P[:2]), "drop", after=P[0]), Step(done(), "stall")),
        asked=(FIRST, "continuation 8000"), text=P[0], events=("waiting", "on transport"), api=api(retries=1),
        ends=CANCELLED, cancel=_AT_SILENCE,
    ),
    Row(
        "cancel in text", "step after", (glob(), Step(done(P[:3]), "stall", after=P[1])),
        asked=(FIRST, FIRST), text=P[0] + P[1], api=api(2), ends=CANCELLED, stored=("call", "text"), ran=("glob",),
        results=("",), cancel=_says(P[1]),
    ),
    Row(
        "cancel while a tool runs", "step after", (call("shell", P[0], command="sleep 60"),),
        asked=(FIRST,), text=P[0], ends=CANCELLED, stored=("text+call",), ran=("shell",), results=("Cancelled",),
        cancel=_on(ToolStarted),
    ),
    Row(
        "cancel at an approval", "step after", (call("shell", P[0], command="touch made.txt"),),
        asked=(FIRST,), text=P[0], ends=CANCELLED, stored=("text+call",), results=("it was not run",),
        cancel=_on(ApprovalRequested),
    ),
)  # fmt: skip
