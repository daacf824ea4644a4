"""Transient failures and broken streams in every phase: replayed if nothing was shown, otherwise continued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from qcode.protocol.events import ApiCalls
from qcode.providers.connection import Timeouts
from tests.e2e.limits.row import (
    BROKEN,
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    LONGER,
    PATIENT,
    UP,
    WHOLE,
    P,
    Row,
    Step,
    api,
    continued,
    cut,
    done,
    glob,
)
from tests.fakes.turns import Faults, Turn, refused

_THOUGHT = cut(thinking="Hm … ")
_QUICK = Timeouts(connect=5, first_event=1, idle=0.5, idle_local=0.5)
_AGAIN = ("waiting", "on transport")


@dataclass(frozen=True, slots=True)
class _Phase:
    """The attempts before the failing one: `before` was shown and is kept, `rest` is the missing text."""

    steps: tuple[Turn, ...]
    asked: tuple[str, ...]
    fails: str
    events: tuple[str, ...]
    api: ApiCalls
    before: str = ""
    rest: str = WHOLE
    has_tool: bool = False

    @property
    def last(self) -> tuple[str, ...]:
        return (COMPLETED,) if self.events else ()


_PHASES: Mapping[str, _Phase] = {
    "first": _Phase((), (), FIRST, (), api(retries=1)),
    "escalated": _Phase((cut("l"),), ("-first 8000",), ESCALATED, UP, api(up=1, retries=1)),
    "continuation 1": _Phase(
        (cut("l"), cut("Null … ")), ("-first 8000", ESCALATED), LONGER, (*UP, *continued(1)),
        api(up=1, on=1, retries=1), "Null … ",
    ),
    "continuation 3": _Phase(
        (cut("l"), cut("Null … "), cut("und "), cut("noch ")), ("-first 8000", ESCALATED, LONGER, LONGER), LONGER,
        (*UP, *continued(1, 2, 3)), api(up=1, on=3, retries=1), "Null … und noch ",
    ),
    "nudge": _Phase(
        (_THOUGHT, _THOUGHT), ("-first 8000", "-escalated 64000"), "nudge 64000", (*UP, "over thinking"),
        api(up=1, repairs=1, retries=1),
    ),
    "step after": _Phase((glob(),), (FIRST,), FIRST, (), api(2, retries=1), has_tool=True),
}  # fmt: skip


def _row(cause: str, phase: str, failing: Turn | Step, events: tuple[str, ...], asked: str, then: Turn) -> Row:
    it = _PHASES[phase]
    return Row(
        cause,
        phase,
        (*it.steps, failing, then),
        asked=(*it.asked, asked, it.fails if asked.startswith("-") else _continued(it.fails)),
        text=it.before + it.rest,
        events=(*it.events, *events, *it.last),
        api=it.api,
        stored=("call", "text") if it.has_tool else ("text",),
        ran=("glob",) if it.has_tool else (),
        results=("",) if it.has_tool else (),
        timeouts=_QUICK if isinstance(failing, Step) and failing.how == "stall" else PATIENT,
    )


def _continued(attempt: str) -> str:
    return f"continuation {attempt.rpartition(' ')[2]}"


def _replayed(cause: str, failing: Turn | Step, *phases: str, shown: bool = False) -> tuple[Row, ...]:
    """The same request is sent again; front ends get an event only if something was `shown`."""
    rows = []
    for phase in phases:
        it = _PHASES[phase]
        told = (f"{'on' if it.before else 'over'} transport",) if shown else ()
        rows.append(_row(cause, phase, failing, ("waiting", *told), f"-{it.fails}", done(it.rest)))
    return tuple(rows)


def _continued_text(cause: str, how: str, *phases: str) -> tuple[Row, ...]:
    """The shown text is continued by another request with the same cap."""
    rows = []
    for phase in phases:
        failing = Step(done(P[0]), "end") if how == "end" else Step(done(P), how, after=P[0])  # type: ignore[arg-type]  # one of `How`
        rows.append(_row(cause, phase, failing, _AGAIN, _PHASES[phase].fails, done("".join(P[1:]))))
    return tuple(rows)


_EVERYWHERE = tuple(_PHASES)
_TEXT_PHASES = ("first", "escalated", "continuation 1", "continuation 3", "nudge", "step after")

_REFUSED = (
    *_replayed("429", refused(429, "slow down", retry_after=0), *_EVERYWHERE),
    *_replayed("500", refused(500, "it broke"), *_EVERYWHERE),
    *_replayed("529", refused(529, "overloaded"), *_EVERYWHERE),
)

_BROKEN = (
    *_replayed("dropped before anything", Step(done(), "drop"), *_EVERYWHERE),
    *_replayed("error in the stream before anything", Step(done(), "error"), "first", "escalated", "continuation 1"),
    *_replayed("silence before anything", Step(done(), "stall"), "first", "continuation 1"),
    *_replayed(
        "dropped in thinking", Step(done(thinking="Hm, so … "), "drop", after="Hm, so … "),
        "first", "escalated", "continuation 1", "step after", shown=True,
    ),
    *_continued_text("dropped in text", "drop", *_TEXT_PHASES),
    *_continued_text("ended without a terminal event", "end", *_TEXT_PHASES),
    *_continued_text("error in the stream", "error", *_TEXT_PHASES),
    *_continued_text("silence in text", "stall", "first", "continuation 1"),
)  # fmt: skip

_SPECIAL = (
    Row(
        "damaged events", "twice",
        (Step(done(P), "damage", after=P[1]), replace(done(P[1:]), faults=Faults(damaged="fünf"))),
        asked=(FIRST, "continuation 8000"), text="".join(P[:4]), events=_AGAIN, api=api(retries=1),
        notice="1 damaged event of the stream could not be read, so the reply may lack text",
    ),
    Row(
        "dropped in a call", "first", (Step(glob(P[0]), "drop", after="glob"), glob(P[0]), done()),
        asked=("-first 8000", FIRST, FIRST), events=("waiting", "over transport"), api=api(2, retries=1),
        stored=("text+call", "text"), ran=("glob",), results=("",),
    ),
    Row(
        "dropped in a call", "escalated", (cut("l"), Step(glob(), "drop", after="glob"), glob(), done()),
        asked=("-first 8000", "-escalated 64000", ESCALATED, FIRST),
        events=(*UP, "waiting", "over transport", COMPLETED), api=api(2, up=1, retries=1), stored=("call", "text"),
        ran=("glob",), results=("",),
    ),
    Row(
        "dropped in a call", "continuation 1",
        (cut("l"), cut(P[0]), Step(glob(P[1]), "drop", after="glob"), glob(P[2]), done()),
        asked=("-first 8000", ESCALATED, LONGER, LONGER, FIRST), events=(*UP, *continued(1), *_AGAIN, COMPLETED),
        api=api(2, up=1, on=1, retries=1), stored=("text+call", "text"), ran=("glob",), results=("",),
    ),
    Row(
        "ended without a terminal event behind a closed call", "first", (Step(glob(), "end"), glob(), done()),
        asked=("-first 8000", FIRST, FIRST), events=("waiting", "over transport"), api=api(2, retries=1),
        stored=("call", "text"), ran=("glob",), results=("",),
    ),
    Row(
        "dropped with less text than before", "escalated",
        (cut(P[0] + P[1]), Step(done(["z", "y"]), "drop", after="z"), done()),
        asked=("-first 8000", "-escalated 64000", ESCALATED), events=(*UP, "waiting", "over transport", COMPLETED),
        api=api(up=1, retries=1),
    ),
    Row(
        "dropped in text again and again", "first",
        tuple(Step(done([piece, "…"]), "drop", after=piece) for piece in P[:4]),
        asked=(FIRST, *["continuation 8000"] * 3), text="".join(P[:4]), events=_AGAIN * 3, api=api(retries=3),
        ends=BROKEN,
    ),
    Row(
        "dropped in text again and again", "continuation 1",
        (cut("l"), cut("Null "), *(Step(done([piece, "…"]), "drop", after=piece) for piece in P[:4])),
        asked=("-first 8000", ESCALATED, *[LONGER] * 4), text="Null " + "".join(P[:4]),
        events=(*UP, *continued(1), *_AGAIN * 3, "ended error"), api=api(up=1, on=1, retries=3), ends=CUT,
    ),
    Row(
        "text cut", "transport continuation", (Step(done(P[:2]), "drop", after=P[0]), cut(P[1]), done(P[2])),
        asked=(FIRST, "continuation 8000", LONGER), text="".join(P[:3]), events=(*_AGAIN, *continued(1), COMPLETED),
        api=api(on=1, retries=1),
    ),
)  # fmt: skip

TRANSPORT = (*_REFUSED, *_BROKEN, *_SPECIAL)
