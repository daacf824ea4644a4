"""Calls that are cut or broken in a first or escalated reply, and in the steps after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qcode.engine.caps import OutputSettings
from qcode.protocol.reply import Outcome, StopReason
from qcode.protocol.usage import Usage
from tests.e2e.limits.row import (
    AT_CAP,
    BIG,
    BIG_CUT,
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    HALF_CALLS,
    SHELL_CUT,
    STILL_CUT,
    TWO_DONE,
    UP,
    P,
    Row,
    api,
    call,
    cut,
    cut_call,
    done,
    glob,
    write,
)
from tests.fakes.server import ProtocolName
from tests.fakes.turns import Call, Turn

_GLOB = Call("glob", '{"pattern": "*.txt"}')
_BAD = '{"pattern": *.txt}'
_WRITE_CUT = cut_call("write", BIG_CUT)
_REJECTED = "repair cut_arguments attempted"
_SAME = (cut_call("write", BIG_CUT),)
_COUNTED: Mapping[ProtocolName, str] = {"anthropic": "its usage is always reported", "gemini": HALF_CALLS["gemini"]}


def _calls(*calls: Call, stop: StopReason | str = StopReason.MAX_TOKENS, output: int | None = AT_CAP) -> Turn:
    return Turn(calls=calls, stop=stop, usage=None if output is None else Usage(input=100, output=output))


def _malformed(text: str = "") -> Turn:
    return Turn(text=text, calls=[Call("glob", _BAD)], usage=Usage(input=100, output=9))


_CUT = (
    Row(
        "call cut", "first", (cut_call("glob", '{"pattern": "*.t'), glob(), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("glob",), results=("",), skips=HALF_CALLS,
    ),
    Row(
        "call cut", "escalated", (cut_call("shell", SHELL_CUT), cut_call("shell", SHELL_CUT), glob(), done()),
        asked=("-first 8000", ESCALATED, FIRST, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(3, up=1),
        stored=("call", "call", "text"), ran=("glob",), results=("one complete call only", ""), skips=HALF_CALLS,
    ),
    Row(
        "call cut in one step after another", "step after", (cut_call("shell", SHELL_CUT, P[0]),) * 4,
        asked=("-first 8000", ESCALATED) * 2, text=P[0],
        events=(*UP, STILL_CUT, _REJECTED, *UP, STILL_CUT, "repair cut_arguments given up"), api=api(2, up=2),
        ends=CUT, stored=("text+call",) * 2, results=("one complete call only",) * 2,
        notice="2 times in a row", skips=HALF_CALLS,
    ),
    Row(
        "call cut, one that ran, call cut", "step after",
        (*[cut_call("shell", SHELL_CUT)] * 2, glob(), *[cut_call("shell", SHELL_CUT)] * 2, done()),
        asked=("-first 8000", ESCALATED, FIRST, "-first 8000", ESCALATED, FIRST),
        events=(*UP, STILL_CUT, _REJECTED) * 2, api=api(4, up=2),
        stored=("call", "call", "call", "text"), ran=("glob",),
        results=("one complete call only", "", "one complete call only"), skips=HALF_CALLS,
    ),
    Row(
        "call cut without repairs left", "first", (cut_call("shell", SHELL_CUT, P[0]),) * 2,
        asked=("-first 8000", ESCALATED), text=P[0],
        events=(*UP, STILL_CUT, "repair cut_arguments given up"), api=api(up=1), ends=CUT, stored=("text+call",),
        results=("one complete call only",), settings=OutputSettings(max_tool_repair_attempts=0), skips=HALF_CALLS,
    ),
    Row(
        "reason tool_use at the cap, call cut", "first",
        (_calls(Call("glob", '{"pattern": "*'), stop=StopReason.TOOL_USE), glob(), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("glob",), results=("",), skips=HALF_CALLS,
    ),
    Row(
        "reason tool_use at the cap, call cut", "escalated",
        (_WRITE_CUT, _calls(Call("write", BIG_CUT), stop=StopReason.TOOL_USE), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(2, up=1),
        stored=TWO_DONE, results=("MUST split",), skips=HALF_CALLS,
    ),
    Row(
        "reason stop at the cap, call cut", "first",
        (_calls(Call("glob", '{"pattern": "*'), stop=StopReason.END_TURN), glob(), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("glob",), results=("",), skips=HALF_CALLS,
    ),
    Row(
        "unclosed JSON without usage", "first",
        (_calls(Call("glob", '{"pattern": "*'), stop=StopReason.TOOL_USE, output=None), glob(), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("glob",), results=("",), skips=_COUNTED,
    ),
    Row(
        "unclosed JSON without usage", "escalated",
        (_WRITE_CUT, _calls(Call("write", BIG_CUT), stop=StopReason.TOOL_USE, output=None), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(2, up=1),
        stored=TWO_DONE, results=("MUST split",), skips=_COUNTED,
    ),
    Row(
        "call cut before its arguments", "first", (_calls(Call("glob", "")), glob(), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("glob",), results=("",), skips=HALF_CALLS,
    ),
    Row(
        "empty arguments that were meant", "first",
        (Turn(text=P[0], calls=[Call("report", "")], usage=Usage(input=100, output=AT_CAP)),),
        asked=(FIRST,), text=P[0], stored=("text+call",), results=("Recorded",), skips=HALF_CALLS,
        ends=(Outcome.END_TURN, StopReason.TOOL_USE, 0),
    ),
)  # fmt: skip

_WRITES = (
    Row(
        "write cut", "first", (_WRITE_CUT, write(), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("write",), results=("",), files={"big.py": BIG}, skips=HALF_CALLS,
    ),
    Row(
        "write cut", "escalated", (_WRITE_CUT, _WRITE_CUT, write("line one\n"), done()),
        asked=("-first 8000", ESCALATED, FIRST, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(3, up=1),
        stored=("call", "call", "text"), ran=("write",), results=("MUST split", ""), files={"big.py": "line one\n"},
        skips=HALF_CALLS,
    ),
    Row(
        "edit cut", "escalated",
        (*[cut_call("edit", '{"path": "a.py", "old_string": "x", "new_string": "one\\ntw')] * 2, done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(2, up=1),
        stored=TWO_DONE, results=("MUST split",), skips=HALF_CALLS,
    ),
    Row(
        "write cut", "step after", (glob(), _WRITE_CUT, _WRITE_CUT, write(), done()),
        asked=(FIRST, "-first 8000", ESCALATED, FIRST, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(4, up=1),
        stored=("call", "call", "call", "text"), ran=("glob", "write"), results=("", "MUST split", ""),
        files={"big.py": BIG}, skips=HALF_CALLS,
    ),
    Row(
        "same write cut again", "third step", (*_SAME * 3, write(), done()),
        asked=(FIRST,) * 5, events=(STILL_CUT, _REJECTED) * 3, api=api(5),
        stored=("call",) * 4 + ("text",), ran=("write",),
        results=("nothing was written", "Do not send the same call", "stop and change the approach", ""),
        files={"big.py": BIG}, settings=OutputSettings(can_escalate=False), skips=HALF_CALLS,
    ),
    Row(
        "same write cut again", "fifth step", _SAME * 5,
        asked=(FIRST,) * 5, text="",
        events=(*(STILL_CUT, _REJECTED) * 4, STILL_CUT, "repair cut_arguments given up"), api=api(5), ends=CUT,
        stored=("call",) * 5, results=("MUST split",) * 5, notice="5 times",
        settings=OutputSettings(can_escalate=False), skips=HALF_CALLS,
    ),
)  # fmt: skip

_PARALLEL = (
    Row(
        "last of parallel calls cut", "first",
        (_calls(_GLOB, Call("write", BIG_CUT)), replace(write(), calls=[_GLOB, *write().calls]), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=("call+call", "text"), ran=("glob", "write"), results=("", ""), files={"big.py": BIG}, skips=HALF_CALLS,
    ),
    Row(
        "last of parallel calls cut", "escalated", (*[_calls(_GLOB, Call("write", BIG_CUT))] * 2, done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(2, up=1),
        stored=("call+call", "text"), ran=("glob",), results=("", "MUST split"), skips=HALF_CALLS,
    ),
    Row(
        "first of two calls malformed", "first",
        (Turn(calls=[Call("glob", _BAD), _GLOB], usage=Usage(input=100, output=9)), done()),
        asked=(FIRST, FIRST), events=("repair malformed_arguments attempted",), api=api(2),
        stored=("call+call", "text"), ran=("glob",), results=("not valid JSON", ""), skips=HALF_CALLS,
    ),
)  # fmt: skip

_CLOSED = (
    Row(
        "closed call at the cap", "first", (_calls(_GLOB), done()),
        asked=(FIRST, FIRST), api=api(2), stored=TWO_DONE, ran=("glob",), results=("",),
    ),
    Row(
        "closed call at the cap", "escalated", (cut("lost"), _calls(_GLOB), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("glob",), results=("",),
    ),
    Row(
        "closed call without a required argument at the cap", "first",
        (_calls(Call("write", '{"path": "big.py"}')), write(), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=TWO_DONE, ran=("write",), results=("",), files={"big.py": BIG},
    ),
    Row(
        "closed call without a required argument at the cap", "escalated",
        (*[_calls(Call("write", '{"path": "big.py"}'))] * 2, done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, STILL_CUT, _REJECTED), api=api(2, up=1),
        stored=TWO_DONE, results=("MUST split",),
    ),
    Row(
        "call without a required argument below the cap", "first", (call("write", path="big.py"), done()),
        asked=(FIRST, FIRST), api=api(2), stored=TWO_DONE, results=("is missing `content`",),
    ),
)  # fmt: skip

_MALFORMED = (
    Row(
        "malformed JSON below the cap", "first", (_malformed(), glob(), done()),
        asked=(FIRST,) * 3, events=("repair malformed_arguments attempted",), api=api(3),
        stored=("call", "call", "text"), ran=("glob",), results=("not valid JSON", ""), skips=HALF_CALLS,
    ),
    Row(
        "malformed JSON below the cap", "step after", (_malformed(P[0]), _malformed(P[1])),
        asked=(FIRST,) * 2, text=P[1],
        events=("repair malformed_arguments attempted", "repair malformed_arguments given up"), api=api(2),
        ends=(Outcome.ERROR, StopReason.TOOL_USE, 1), stored=("text+call",) * 2, results=("not valid JSON",) * 2,
        notice="2 times in a row", skips=HALF_CALLS,
    ),
    Row(
        "malformed JSON below the cap", "escalated", (cut("lost"), _malformed(), done()),
        asked=("-first 8000", ESCALATED, FIRST),
        events=(*UP, COMPLETED, "repair malformed_arguments attempted"), api=api(2, up=1),
        stored=TWO_DONE, results=("not valid JSON",), skips=HALF_CALLS,
    ),
)  # fmt: skip

CALLS = (*_CUT, *_WRITES, *_PARALLEL, *_CLOSED, *_MALFORMED)
