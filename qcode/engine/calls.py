"""The calls of one reply, one after another: judged, approved, run or rejected, until each has its one result.

A call that is incomplete or malformed is answered and never run. What spans replies (rejections in a row, the budget
of calls) lives in `CallLimits`, which a turn keeps.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from qcode.engine import synthetic
from qcode.engine.effects import AskApproval, Effect, Emit, RunTool
from qcode.engine.result import JudgedCall
from qcode.protocol.events import Denial, Signal, ToolFinished, ToolPayloadRepair, ToolStarted
from qcode.protocol.json import JsonObject, parse_object
from qcode.protocol.messages import Block, ToolCall, ToolResult
from qcode.protocol.tools import ToolOutcome, ToolSpec

CallEnding: TypeAlias = Literal["done", "failed", "denied", "rejected", "cancelled"]

MAX_SAME_REJECTIONS = 5
_PATH = re.compile(r'"(?:file_?)?path"\s*:\s*"(?:[^"\\]|\\.)*"')
CANCELLED_TEXT = "Cancelled by the person before it finished; it may have been done in part."
NOT_RUN_TEXT = "Cancelled by the person; it was not run."
RECORDED_TEXT = "Recorded."


@dataclass(slots=True)
class CallLimits:
    """Counters of a turn. `end` says that the turn must not go on, and why."""

    max_calls: int | None = None
    max_repairs: int = 1
    calls: int = 0
    repairs: int = 0
    rejected: tuple[str, str] | None = None
    rejections: int = 0
    end: Literal["tool_calls", "cut", "malformed"] | None = None
    note: str = ""

    def rejected_write(self, name: str, raw: str) -> int:
        """Count a rejected write; the same one again and again ends the turn. Return how often in a row it came."""
        key = (name, _target(raw))
        self.rejections = self.rejections + 1 if key == self.rejected else 1
        self.rejected = key
        if self.rejections >= MAX_SAME_REJECTIONS:
            self.end = "cut"
            self.note = f"The model sent the same cut `{name}` call {self.rejections} times; qcode stopped it."
        return self.rejections

    def needs_repair(self, name: str, *, is_cut: bool) -> bool:
        """Count a reply with a call that has to be sent again; return whether the model gets another try."""
        self.repairs += 1
        if self.repairs <= self.max_repairs:
            return True
        self.end = "cut" if is_cut else "malformed"
        what = "was cut by the output limit" if is_cut else "had arguments that are not valid JSON"
        self.note = f"The model's `{name}` call {what} {self.repairs} times in a row; qcode stopped it."
        return False

    def ran(self, *, wrote: bool) -> None:
        """A call ran: the row of repairs is broken, and that of rejected writes where one was written at last."""
        self.repairs = 0
        if wrote:
            self.rejections, self.rejected = 0, None


@dataclass(slots=True)
class CallRound:
    """Works through the calls of one reply. `results` is complete when `is_over`."""

    calls: Sequence[JudgedCall]
    tools: Mapping[str, ToolSpec]
    limits: CallLimits
    results: list[Block] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    _has_counted_repair: bool = False
    _current_is_open: bool = False
    _running: bool = False

    @property
    def is_over(self) -> bool:
        return len(self.results) == len(self.calls)

    @property
    def is_one_way(self) -> bool:
        """Every call of the reply was a signal: the model waits for nothing."""
        return len(self.signals) == len(self.calls)

    def advance(self, elapsed: float) -> list[Effect]:
        """Answer calls that are not to be run, up to the next one that needs a verdict."""
        effects: list[Effect] = []
        while not self.is_over:
            judged = self.calls[len(self.results)]
            effects += self._begin(judged, elapsed)
            if self._current_is_open:
                break
        return effects

    def answered(self, call_id: str, *, is_allowed: bool, reason: str, elapsed: float) -> list[Effect]:
        """Take the verdict on the current call; another id, or a second verdict, changes nothing."""
        judged = self._current(call_id)
        if judged is None or self._running:
            return []
        if is_allowed:
            self._running = True
            arguments = parse_object(judged.call.arguments) or {}
            return [Emit(ToolStarted(judged.call)), RunTool(judged.call, arguments)]
        self.denials.append(Denial(judged.call, reason))
        text = f"Denied: {reason}" if reason else "Denied by the person."
        settled = self._settle(judged, ToolOutcome(text, is_error=True, summary="denied"), "denied")
        return [*settled, *self.advance(elapsed)]

    def ended(self, call_id: str, outcome: ToolOutcome, elapsed: float) -> list[Effect]:
        """Take the outcome of the call that runs."""
        judged = self._current(call_id)
        if judged is None or not self._running:
            return []
        self.limits.ran(wrote=self.tools[judged.call.name].writes_files and not outcome.is_error)
        settled = self._settle(judged, outcome, "failed" if outcome.is_error else "done")
        return [*settled, *self.advance(elapsed)]

    def cancel(self) -> list[Effect]:
        """Give every open call its result: cancelled."""
        effects: list[Effect] = []
        while not self.is_over:
            judged = self.calls[len(self.results)]
            text = CANCELLED_TEXT if self._running else NOT_RUN_TEXT
            effects += self._settle(judged, ToolOutcome(text, is_error=True, summary="cancelled"), "cancelled")
        return effects

    def _current(self, call_id: str) -> JudgedCall | None:
        if self.is_over or not self._current_is_open:
            return None
        judged = self.calls[len(self.results)]
        return judged if judged.call.call_id == call_id else None

    def _begin(self, judged: JudgedCall, elapsed: float) -> list[Effect]:
        call, spec = judged.call, self.tools.get(judged.call.name)
        if judged.state != "complete":
            return self._reject_broken(judged, writes_files=spec is not None and spec.writes_files)
        if spec is None:
            return self._reject(judged, _unknown_tool_text(call.name, self.tools))
        arguments = parse_object(call.arguments) or {}
        if spec.is_one_way:
            self.signals.append(Signal(call.name, arguments, elapsed))
            return self._settle(judged, ToolOutcome(RECORDED_TEXT), "done")
        missing = [name for name in spec.required if name not in arguments]
        if missing:
            names = ", ".join(f"`{name}`" for name in missing)
            text = f"The `{call.name}` call lacks {names}; it was not run. Send it again complete."
            return self._reject(judged, text)
        if self.limits.max_calls is not None and self.limits.calls >= self.limits.max_calls:
            self.limits.end = "tool_calls"
            return self._reject(judged, "Not run: the budget of tool calls for this prompt is exhausted.")
        self.limits.calls += 1
        return self._open(call, arguments)

    def _open(self, call: ToolCall, arguments: JsonObject) -> list[Effect]:
        self._current_is_open = True
        return [AskApproval(call, arguments)]

    def _reject_broken(self, judged: JudgedCall, *, writes_files: bool) -> list[Effect]:
        """Answer a call that was cut or whose JSON is wrong, and count it against its budget, once for a reply."""
        name, is_cut = judged.call.name, judged.state == "incomplete"
        if is_cut and writes_files:
            rejections = self.limits.rejected_write(name, judged.raw)
            text = synthetic.split_guidance(name, judged.raw, judged.cap, rejections)
        else:
            if not self._has_counted_repair:
                self.limits.needs_repair(name, is_cut=is_cut)
                self._has_counted_repair = True
            text = synthetic.cut_call_text(name, judged.cap) if is_cut else synthetic.malformed_call_text(name)
        issue = "cut_arguments" if is_cut else "malformed_arguments"
        repair = Emit(ToolPayloadRepair(issue, attempted=self.limits.end is None, succeeded=False))
        return [repair, *self._reject(judged, text)]

    def _reject(self, judged: JudgedCall, text: str) -> list[Effect]:
        return self._settle(judged, ToolOutcome(text, is_error=True, summary="not run"), "rejected")

    def _settle(self, judged: JudgedCall, outcome: ToolOutcome, state: CallEnding) -> list[Effect]:
        call = judged.call
        self._running = self._current_is_open = False
        self.results.append(
            ToolResult(call.call_id, call.name, outcome.content, is_error=outcome.is_error, images=outcome.images)
        )
        return [Emit(ToolFinished(call, outcome, state))]


def _unknown_tool_text(name: str, tools: Mapping[str, ToolSpec]) -> str:
    nearest = difflib.get_close_matches(name, list(tools), n=1, cutoff=0.4)
    hint = f" Did you mean `{nearest[0]}`?" if nearest else ""
    return f"There is no tool `{name}`.{hint} The tools are: {', '.join(sorted(tools))}."


def _target(raw: str) -> str:
    """Return what a cut write was about: its path where that came before the cut, else how the arguments begin."""
    path = _PATH.search(raw)
    return path.group(0) if path else raw[:300]
