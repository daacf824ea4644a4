"""A truncated write whose remaining arguments are requested: `tool_call_repair = "resume"`."""

from __future__ import annotations

from qcode.engine.caps import OutputSettings
from qcode.protocol.reply import StopReason
from tests.e2e.limits.row import (
    BIG_CUT,
    BLOCKED,
    COMPLETED,
    ESCALATED,
    FIRST,
    HALF_CALLS,
    STILL_CUT,
    TWO_DONE,
    UP,
    P,
    Row,
    Step,
    api,
    continued,
    cut,
    cut_call,
    done,
    glob,
    stopped,
    write,
)
from tests.fakes.turns import refused

_RESUME = OutputSettings(tool_call_repair="resume")
_CUT = cut_call("write", BIG_CUT)
_REST = done('o\\n"}')
_WRITTEN = {"big.py": "line one\nline two\n"}
_UP = ("-first 8000", ESCALATED)
_R = "resume 64000"
_CLOSED = ("repair cut_arguments succeeded", COMPLETED)
_GIVEN_UP = ("repair cut_arguments attempted", STILL_CUT, "repair cut_arguments attempted")

_CLOSING = (
    Row(
        "write cut, to be resumed", "escalated", (_CUT, _CUT, _REST, done()),
        asked=(*_UP, _R, FIRST), events=(*UP, "on call", *_CLOSED), api=api(2, up=1, repairs=1),
        stored=TWO_DONE, ran=("write",), results=("",), files=_WRITTEN, settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "write cut, to be resumed", "step after", (glob(), _CUT, _CUT, _REST, done()),
        asked=(FIRST, *_UP, _R, FIRST), events=(*UP, "on call", *_CLOSED), api=api(3, up=1, repairs=1),
        stored=("call", "call", "text"), ran=("glob", "write"), results=("", ""), files=_WRITTEN, settings=_RESUME,
        skips=HALF_CALLS,
    ),
    Row(
        "write cut, to be resumed", "continuation 1",
        (cut("lost"), cut(P[0]), cut_call("write", BIG_CUT, P[1]), _REST, done()),
        asked=(*_UP, "continuation 64000", _R, FIRST), events=(*UP, *continued(1), "on call", *_CLOSED),
        api=api(2, up=1, on=1, repairs=1), stored=("text+call", "text"), ran=("write",), results=("",), files=_WRITTEN,
        settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "rest of a write cut as well", "resume 1", (_CUT, _CUT, cut("o\\nline thr"), done('ee\\n"}'), done()),
        asked=(*_UP, _R, _R, FIRST), events=(*UP, "on call", "on call", *_CLOSED), api=api(2, up=1, repairs=2),
        stored=TWO_DONE, ran=("write",), results=("",), files={"big.py": "line one\nline two\nline three\n"},
        settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "429", "resume 1", (_CUT, _CUT, refused(429, "slow down", retry_after=0), _REST, done()),
        asked=(*_UP, "-resume 64000", _R, FIRST), events=(*UP, "on call", "waiting", *_CLOSED),
        api=api(2, up=1, repairs=1, retries=1), stored=TWO_DONE, ran=("write",), results=("",), files=_WRITTEN,
        settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "dropped in text", "resume 1",
        (_CUT, _CUT, Step(done(["o\\nwro", "ng"]), "drop", after="o\\nwro"), _REST, done()),
        asked=(*_UP, "-resume 64000", _R, FIRST), events=(*UP, "on call", "waiting", *_CLOSED),
        api=api(2, up=1, repairs=1, retries=1), stored=TWO_DONE, ran=("write",), results=("",), files=_WRITTEN,
        settings=_RESUME, skips=HALF_CALLS,
    ),
)  # fmt: skip

_FALLING_BACK = (
    Row(
        "rest of a write never closed", "resume 3", (_CUT, _CUT, cut("o\\nx"), cut("y\\nz"), cut("q\\nr"), done()),
        asked=(*_UP, _R, _R, _R, FIRST), events=(*UP, *["on call"] * 3, *_GIVEN_UP), api=api(2, up=1, repairs=3),
        stored=TWO_DONE, results=("MUST split",), settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "rest of a write that is not JSON", "resume 1", (_CUT, _CUT, done('" oops}'), done()),
        asked=(*_UP, _R, FIRST), events=(*UP, "on call", *_GIVEN_UP), api=api(2, up=1, repairs=1),
        stored=TWO_DONE, results=("MUST split",), settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "empty answer", "resume 1", (_CUT, _CUT, done(()), done()),
        asked=(*_UP, _R, FIRST), events=(*UP, "on call", *_GIVEN_UP), api=api(2, up=1, repairs=1),
        stored=TWO_DONE, results=("MUST split",), settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "400 that names no limit", "resume 1", (_CUT, _CUT, refused(400, "not like this"), done()),
        asked=(*_UP, _R, FIRST), events=(*UP, "on call", *_GIVEN_UP), api=api(2, up=1, repairs=1),
        stored=TWO_DONE, results=("MUST split",), settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "refusal", "resume 1", (*[cut_call("write", BIG_CUT, P[0])] * 2, stopped(StopReason.REFUSAL)),
        asked=(*_UP, _R), text=P[0], events=(*UP, "on call", "ended safety_blocked"), api=api(up=1, repairs=1),
        ends=BLOCKED, settings=_RESUME, skips=HALF_CALLS,
    ),
    Row(
        "truncated call of another tool than write", "escalated",
        (*[cut_call("shell", '{"command": "ec')] * 2, write(), done()),
        asked=(*_UP, FIRST, FIRST), events=(*UP, STILL_CUT, "repair cut_arguments attempted"), api=api(3, up=1),
        stored=("call", "call", "text"), ran=("write",), results=("one complete call only", ""), files=_WRITTEN,
        settings=_RESUME, skips=HALF_CALLS,
    ),
)  # fmt: skip

RESUMED = (*_CLOSING, *_FALLING_BACK)
