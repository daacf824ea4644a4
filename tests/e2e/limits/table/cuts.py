"""Plain text that is cut, in every phase, and hosts whose reason or usage does not say so plainly."""

from __future__ import annotations

from dataclasses import replace

from qcode.protocol.reply import Outcome, StopReason
from tests.e2e.limits.row import (
    AT_CAP,
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    LONGER,
    STILL_CUT,
    UP,
    P,
    Row,
    api,
    continued,
    cut,
    done,
    glob,
    late,
    stopped,
)
from tests.fakes.turns import Turn

_THOUGHT = cut(thinking="Hm … ")
_NO_REASON = "without a reason its stream is broken, not cut"

_TEXT = (
    Row(
        "text cut", "first", (cut("lost é"), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row(
        "text cut", "escalated", (cut("lost"), cut(P[0]), done(P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0] + P[1],
        events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1),
    ),
    Row(
        "text cut", "continuation 1", (cut("lost"), cut(P[0]), cut(P[1]), done(P[2])),
        asked=("-first 8000", ESCALATED, LONGER, LONGER), text="".join(P[:3]),
        events=(*UP, *continued(1, 2), COMPLETED), api=api(up=1, on=2),
    ),
    Row(
        "text cut", "continuation 2", (cut("lost"), *map(cut, P[:3]), done(P[3])),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3), text="".join(P[:4]),
        events=(*UP, *continued(1, 2, 3), COMPLETED), api=api(up=1, on=3),
    ),
    Row(
        "text cut", "continuation 3", (cut("lost"), *map(cut, P[:4])),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3), text="".join(P[:4]),
        events=(*UP, *continued(1, 2, 3), STILL_CUT), api=api(up=1, on=3), ends=CUT,
        notice="incomplete after 5 requests",
    ),
    Row(
        "text cut", "nudge", (_THOUGHT, _THOUGHT, cut(P[0]), done(P[1])),
        asked=("-first 8000", "-escalated 64000", "nudge 64000", LONGER), text=P[0] + P[1],
        events=(*UP, "over thinking", *continued(1), COMPLETED), api=api(up=1, on=1, repairs=1),
    ),
    Row(
        "text cut", "step after", (glob(), cut("lost"), done()),
        asked=(FIRST, "-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=("call", "text"), ran=("glob",), results=("",),
    ),
    Row(
        "text cut", "after a call in an escalated reply", (cut("lost"), glob(P[0]), cut("lost too"), done()),
        asked=("-first 8000", ESCALATED, "-first 8000", ESCALATED), events=(*UP, COMPLETED) * 2, api=api(2, up=2),
        stored=("text+call", "text"), ran=("glob",), results=("",),
    ),
)  # fmt: skip

_LYING = (
    Row(
        "reason stop at the cap", "first", (stopped(StopReason.END_TURN, "lost", output=AT_CAP), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row(
        "reason stop at the cap", "escalated",
        (cut("lost"), stopped(StopReason.END_TURN, P[0], output=AT_CAP), done(P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0] + P[1],
        events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1),
    ),
    Row(
        "reason stop at the cap", "continuation 1",
        (cut("lost"), cut(P[0]), stopped(StopReason.END_TURN, P[1], output=AT_CAP), done(P[2])),
        asked=("-first 8000", ESCALATED, LONGER, LONGER), text="".join(P[:3]),
        events=(*UP, *continued(1, 2), COMPLETED), api=api(up=1, on=2),
    ),
    Row(
        "reason stop at the cap", "continuation 3",
        (cut("lost"), *map(cut, P[:3]), stopped(StopReason.END_TURN, P[3], output=AT_CAP)),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3), text="".join(P[:4]),
        events=(*UP, *continued(1, 2, 3), STILL_CUT), api=api(up=1, on=3), ends=CUT,
    ),
    Row(
        "unknown reason at the cap", "first", (stopped("so_it_goes", "lost", output=AT_CAP), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row(
        "no reason at the cap", "first", (replace(cut("lost"), stop=None), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1), skips={"gemini": _NO_REASON},
    ),
)  # fmt: skip

_UNCOUNTED = Turn(text=P[0], stop=StopReason.MAX_TOKENS, usage=None)

_USAGE = (
    Row(
        "usage missing", "first", (_UNCOUNTED, done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row(
        "usage missing", "escalated", (cut("lost"), _UNCOUNTED, done(P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0] + P[1],
        events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1),
    ),
    Row(
        "usage missing", "continuation 3", (cut("lost"), *map(cut, P[1:4]), _UNCOUNTED),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3), text="".join(P[1:4]) + P[0],
        events=(*UP, *continued(1, 2, 3), STILL_CUT), api=api(up=1, on=3), ends=CUT,
    ),
    Row(
        "usage behind the reason", "first", (late(stopped(StopReason.END_TURN, "lost", output=AT_CAP)), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row(
        "usage behind the reason", "escalated",
        (cut("lost"), late(stopped(StopReason.END_TURN, P[0], output=AT_CAP)), done(P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0] + P[1],
        events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1),
    ),
    Row(
        "usage behind the reason", "continuation 1",
        (cut("lost"), cut(P[0]), late(stopped(StopReason.END_TURN, P[1], output=AT_CAP)), done(P[2])),
        asked=("-first 8000", ESCALATED, LONGER, LONGER), text="".join(P[:3]),
        events=(*UP, *continued(1, 2), COMPLETED), api=api(up=1, on=2),
    ),
    Row("usage far above the cap", "first", (done(output=30_000),), asked=(FIRST,)),
    Row(
        "usage far above the cap", "continuation 1", (cut("lost"), cut(P[0]), done(P[1], output=150_000)),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0] + P[1],
        events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1),
    ),
    Row(
        "cut far above the cap", "first", (cut("lost", output=30_000), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row("unknown reason", "first", (stopped(StopReason.UNKNOWN, P[0]),), asked=(FIRST,), text=P[0],
        ends=(Outcome.END_TURN, StopReason.UNKNOWN, 0), notice="an unknown stop reason"),
    Row(
        "unknown reason", "continuation 1", (cut("lost"), cut(P[0]), stopped(StopReason.UNKNOWN, P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=P[0] + P[1],
        events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1),
        ends=(Outcome.END_TURN, StopReason.UNKNOWN, 0), notice="an unknown stop reason",
    ),
    Row("unknown reason without text", "first", (stopped(StopReason.UNKNOWN),), asked=(FIRST,), text="",
        ends=(Outcome.ERROR, StopReason.UNKNOWN, 1), stored=(), notice="unknown reason"),
)  # fmt: skip

CUTS = (*_TEXT, *_LYING, *_USAGE)
