"""Continuations that end in complete, truncated or malformed calls, or in a pause."""

from __future__ import annotations

from dataclasses import replace

from qcode.protocol.reply import Outcome, StopReason
from qcode.protocol.usage import Usage
from tests.e2e.limits.row import (
    ANTHROPIC_ONLY,
    BIG_CUT,
    COMPLETED,
    ESCALATED,
    FIRST,
    GEMINI_ONLY,
    HALF_CALLS,
    LONGER,
    SHELL_CUT,
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
    stopped,
)
from tests.fakes.turns import Call, Turn

_TO_1 = (cut("lost"), cut(P[0]))
_ASKED_1 = ("-first 8000", ESCALATED, LONGER)
_EVENTS_1 = (*UP, *continued(1))
_REJECTED = "repair cut_arguments attempted"
_JOINED = ("text+call", "text")
_UNREADABLE = stopped(StopReason.MALFORMED_CALL)
_BAD = Turn(text=P[1], calls=[Call("glob", '{"pattern": *}')], usage=Usage(input=100, output=9))

_CALLS = (
    Row(
        "complete call", "continuation 1", (*_TO_1, glob(P[1]), done()),
        asked=(*_ASKED_1, FIRST), events=(*_EVENTS_1, COMPLETED), api=api(2, up=1, on=1),
        stored=_JOINED, ran=("glob",), results=("",),
    ),
    Row(
        "complete call", "continuation 3", (cut("lost"), *map(cut, P[:3]), glob(P[3]), done()),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3, FIRST), events=(*UP, *continued(1, 2, 3), COMPLETED),
        api=api(2, up=1, on=3), stored=_JOINED, ran=("glob",), results=("",),
    ),
    Row(
        "complete call and nothing else", "continuation 1", (*_TO_1, glob(), done()),
        asked=(*_ASKED_1, FIRST), events=(*_EVENTS_1, COMPLETED), api=api(2, up=1, on=1),
        stored=_JOINED, ran=("glob",), results=("",),
    ),
    Row(
        "call cut", "continuation 1", (*_TO_1, cut_call("shell", SHELL_CUT, P[1]), done()),
        asked=(*_ASKED_1, FIRST), events=(*_EVENTS_1, STILL_CUT, _REJECTED), api=api(2, up=1, on=1),
        stored=_JOINED, results=("one complete call only",), skips=HALF_CALLS,
    ),
    Row(
        "write cut", "continuation 1", (*_TO_1, cut_call("write", BIG_CUT, P[1]), done()),
        asked=(*_ASKED_1, FIRST), events=(*_EVENTS_1, STILL_CUT, _REJECTED), api=api(2, up=1, on=1),
        stored=_JOINED, results=("MUST split",), skips=HALF_CALLS,
    ),
    Row(
        "write cut", "continuation 3", (cut("lost"), *map(cut, P[:3]), cut_call("write", BIG_CUT), done()),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3, FIRST), events=(*UP, *continued(1, 2, 3), STILL_CUT, _REJECTED),
        api=api(2, up=1, on=3), stored=_JOINED, results=("MUST split",), skips=HALF_CALLS,
    ),
    Row(
        "last of parallel calls cut", "continuation 1",
        (*_TO_1, replace(cut_call("write", BIG_CUT), calls=[*glob().calls, Call("write", BIG_CUT)]), done()),
        asked=(*_ASKED_1, FIRST), events=(*_EVENTS_1, STILL_CUT, _REJECTED), api=api(2, up=1, on=1),
        stored=("text+call+call", "text"), ran=("glob",), results=("", "MUST split"), skips=HALF_CALLS,
    ),
    Row(
        "closed call at the cap", "continuation 1",
        (*_TO_1, replace(glob(P[1]), stop=StopReason.MAX_TOKENS), done()),
        asked=(*_ASKED_1, FIRST), events=(*_EVENTS_1, COMPLETED), api=api(2, up=1, on=1),
        stored=_JOINED, ran=("glob",), results=("",),
    ),
    Row(
        "malformed JSON below the cap", "continuation 1", (*_TO_1, _BAD, done()),
        asked=(*_ASKED_1, FIRST), events=(*_EVENTS_1, COMPLETED, "repair malformed_arguments attempted"),
        api=api(2, up=1, on=1), stored=_JOINED, results=("not valid JSON",), skips=HALF_CALLS,
    ),
)  # fmt: skip

_UNREADABLE_CALLS = (
    Row(
        "call the provider could not read", "first", (_UNREADABLE, glob(), done()),
        asked=("-first 8000", "repair 64000", FIRST), events=("over call", "repair malformed_call succeeded"),
        api=api(2, repairs=1), stored=("call", "text"), ran=("glob",), results=("",), skips=GEMINI_ONLY,
    ),
    Row(
        "call the provider could not read", "repair", (_UNREADABLE, _UNREADABLE),
        asked=("-first 8000", "repair 64000"), text="", events=("over call", "repair malformed_call attempted"),
        api=api(repairs=1), ends=(Outcome.ERROR, StopReason.MALFORMED_CALL, 1), stored=(),
        notice="unreadable tool call twice", skips=GEMINI_ONLY,
    ),
    Row(
        "text, then a call the provider could not read", "first",
        (stopped(StopReason.MALFORMED_CALL, P[0]), glob(P[0] + P[1]), done()),
        asked=("-first 8000", "repair 64000", FIRST), events=("over call", "repair malformed_call succeeded"),
        api=api(2, repairs=1), stored=_JOINED, ran=("glob",), results=("",), skips=GEMINI_ONLY,
    ),
    Row(
        "call the provider could not read", "escalated", (cut(P[0]), _UNREADABLE, done(P[1])),
        asked=(FIRST, "-escalated 64000", "repair 64000"), text=P[0] + P[1],
        events=(*UP, "restored", "on call", "repair malformed_call succeeded", COMPLETED), api=api(up=1, repairs=1),
        skips=GEMINI_ONLY,
    ),
    Row(
        "call the provider could not read", "continuation 1", (*_TO_1, _UNREADABLE, glob(), done()),
        asked=("-first 8000", ESCALATED, LONGER, "repair 64000", FIRST),
        events=(*_EVENTS_1, "on call", "repair malformed_call succeeded", COMPLETED),
        api=api(2, up=1, on=1, repairs=1), stored=_JOINED, ran=("glob",), results=("",), skips=GEMINI_ONLY,
    ),
    Row(
        "text cut", "repair", (_UNREADABLE, cut(P[0]), done(P[1])),
        asked=("-first 8000", "repair 64000", LONGER), text=P[0] + P[1],
        events=("over call", "repair malformed_call succeeded", *continued(1), COMPLETED),
        api=api(on=1, repairs=1), skips=GEMINI_ONLY,
    ),
)  # fmt: skip

_PAUSES = (
    Row(
        "pause", "first", (stopped(StopReason.PAUSED, "Eins —"), done(" zwei.")),
        asked=(FIRST, FIRST), text="Eins — zwei.", api=api(2), stored=("text", "text"), skips=ANTHROPIC_ONLY,
    ),
    Row(
        "pause behind white space", "first", (stopped(StopReason.PAUSED, P[0]), done(P[1])),
        asked=(FIRST, FIRST), text=P[0] + P[1], api=api(2), stored=("text", "text"), skips=ANTHROPIC_ONLY,
    ),
    Row(
        "pause", "escalated", (cut("lost"), stopped(StopReason.PAUSED, "Eins —"), done(" zwei.")),
        asked=("-first 8000", ESCALATED, FIRST), text="Eins — zwei.", events=(*UP, COMPLETED), api=api(2, up=1),
        stored=("text", "text"), skips=ANTHROPIC_ONLY,
    ),
    Row(
        "pause", "continuation 1", (*_TO_1, stopped(StopReason.PAUSED, "zwei —"), done(" drei.")),
        asked=(*_ASKED_1, FIRST), text=P[0] + "zwei — drei.", events=(*_EVENTS_1, COMPLETED),
        api=api(2, up=1, on=1), stored=("text", "text"), skips=ANTHROPIC_ONLY,
    ),
    Row(
        "text cut", "reply after a pause", (stopped(StopReason.PAUSED, "Eins —"), cut(" lost"), done(" zwei.")),
        asked=(FIRST, "-first 8000", ESCALATED), text="Eins — zwei.", events=(*UP, COMPLETED), api=api(2, up=1),
        stored=("text", "text"), skips=ANTHROPIC_ONLY,
    ),
)  # fmt: skip

CONTINUED_CALLS = (*_CALLS, *_UNREADABLE_CALLS, *_PAUSES)
