"""Replies that the provider ends: refused or filtered, or the context window is full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qcode.protocol.errors import ExitCode
from qcode.protocol.reply import Outcome, StopReason
from tests.e2e.limits.row import (
    BLOCKED,
    ESCALATED,
    FIRST,
    LONGER,
    UP,
    P,
    Row,
    api,
    continued,
    cut,
    glob,
    stopped,
)
from tests.fakes.server import ProtocolName

_THOUGHT = cut(thinking="Hm … ")
_TO_1 = (cut("lost"), cut(P[0]))
_ASKED_1 = ("-first 8000", ESCALATED, LONGER)
_BLOCKED = "ended safety_blocked"
_FULL = (Outcome.MAX_TOKENS, StopReason.CONTEXT_WINDOW_EXCEEDED, ExitCode.INCOMPLETE)
_NO_SUCH_REASON: Mapping[ProtocolName, str] = {"gemini": "says so with a 400 only"}

_REFUSED = (
    Row("refusal", "first", (stopped(StopReason.REFUSAL, P[0]),), asked=(FIRST,), text=P[0], ends=BLOCKED,
        notice="refused or filtered"),
    Row("refusal without text", "first", (stopped(StopReason.REFUSAL),), asked=(FIRST,), text="", ends=BLOCKED,
        stored=(), notice="refused or filtered"),
    Row(
        "refusal behind a call", "first", (replace(glob(P[0]), stop=StopReason.REFUSAL),),
        asked=(FIRST,), text=P[0], ends=BLOCKED,
    ),
    Row(
        "refusal", "escalated", (cut(P[0] + P[1]), stopped(StopReason.REFUSAL, "No.")),
        asked=(FIRST, "-escalated 64000"), text=P[0] + P[1], events=(*UP, "restored", _BLOCKED), api=api(up=1),
        ends=BLOCKED,
    ),
    Row(
        "refusal of more than there was", "escalated", (cut("lost"), stopped(StopReason.REFUSAL, P[0] + P[1])),
        asked=("-first 8000", ESCALATED), text=P[0] + P[1], events=(*UP, _BLOCKED), api=api(up=1), ends=BLOCKED,
    ),
    Row(
        "refusal", "continuation 1", (*_TO_1, stopped(StopReason.REFUSAL, P[1])),
        asked=_ASKED_1, text=P[0] + P[1], events=(*UP, *continued(1), _BLOCKED), api=api(up=1, on=1), ends=BLOCKED,
    ),
    Row(
        "refusal without text", "continuation 1", (*_TO_1, stopped(StopReason.REFUSAL)),
        asked=_ASKED_1, text=P[0], events=(*UP, *continued(1), _BLOCKED), api=api(up=1, on=1), ends=BLOCKED,
    ),
    Row(
        "refusal", "nudge", (_THOUGHT, _THOUGHT, stopped(StopReason.REFUSAL, P[0])),
        asked=("-first 8000", "-escalated 64000", "nudge 64000"), text=P[0],
        events=(*UP, "over thinking", _BLOCKED), api=api(up=1, repairs=1), ends=BLOCKED,
    ),
    Row(
        "refusal", "step after", (glob(P[1]), stopped(StopReason.REFUSAL, P[0])),
        asked=(FIRST, FIRST), text=P[0], api=api(2), ends=BLOCKED, stored=("text+call", "text"), ran=("glob",),
        results=("",),
    ),
)  # fmt: skip

_WINDOW_FULL = (
    Row(
        "stop for a full window", "first", (stopped(StopReason.CONTEXT_WINDOW_EXCEEDED, P[0]),),
        asked=(FIRST,), text=P[0], ends=_FULL, notice="context window is full", skips=_NO_SUCH_REASON,
    ),
    Row(
        "stop for a full window without text", "first", (stopped(StopReason.CONTEXT_WINDOW_EXCEEDED),),
        asked=(FIRST,), text="", ends=(Outcome.ERROR, StopReason.CONTEXT_WINDOW_EXCEEDED, ExitCode.BAD_INPUT),
        stored=(), notice="context window is full", skips=_NO_SUCH_REASON,
    ),
    Row(
        "stop for a full window", "escalated", (cut(P[0]), stopped(StopReason.CONTEXT_WINDOW_EXCEEDED)),
        asked=(FIRST, "-escalated 64000"), text=P[0], events=(*UP, "restored", "ended budget_exhausted"),
        api=api(up=1), ends=_FULL, skips=_NO_SUCH_REASON,
    ),
    Row(
        "stop for a full window", "continuation 1", (*_TO_1, stopped(StopReason.CONTEXT_WINDOW_EXCEEDED, P[1])),
        asked=_ASKED_1, text=P[0] + P[1], events=(*UP, *continued(1), "ended budget_exhausted"),
        api=api(up=1, on=1), ends=_FULL, skips=_NO_SUCH_REASON,
    ),
    Row(
        "stop for a full window", "step after", (glob(P[1]), stopped(StopReason.CONTEXT_WINDOW_EXCEEDED, P[0])),
        asked=(FIRST, FIRST), text=P[0], api=api(2), ends=_FULL, stored=("text+call", "text"), ran=("glob",),
        results=("",), skips=_NO_SUCH_REASON,
    ),
)  # fmt: skip

REFUSALS = (*_REFUSED, *_WINDOW_FULL)
