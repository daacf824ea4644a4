"""The tool calls of one reply: each is approved, run or rejected, and gets exactly one result.

Calls run one after another, or in parallel if all of them only read. An incomplete or malformed call is rejected and
never run. `CallLimits` holds the counters that span replies (rejections in a row, the call budget). `Repetition`
detects a model that keeps making the same call and keeps getting the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from qcode.engine import synthetic
from qcode.engine.effects import ApprovalAnswered, AskApproval, Effect, Emit, RunTool
from qcode.engine.reply.assembler import ArgumentState
from qcode.engine.reply.phase import ReceivedCall
from qcode.protocol.events import DECLINED, CallState, Denial, Signal, ToolFinished, ToolPayloadRepair, ToolStarted
from qcode.protocol.messages import Block, ToolCall, ToolResult
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.text.json import JsonObject, parse_object
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

OpenState: TypeAlias = Literal["asked", "repeating", "impossible", "running"]
"""The state of a call that has begun and has no result yet.

`asked`: it waits for its approval. `repeating` and `impossible`: it waits for the user's decision, because the same
call already gave the same result, or because it cannot run.
"""

MAX_SAME_CALLS = 3
"""The number of equal results, denials or impossible calls in a row after which qcode intervenes."""
MAX_SAME_REJECTIONS = 5
"""A write that is rejected this often in a row ends the turn."""
CANCELLED_TEXT = "Cancelled by the user while it ran; it may have been partly done."
NOT_RUN_TEXT = "Cancelled by the user; it was not run."
RECORDED_TEXT = "Recorded."

# The path in truncated arguments, with its key, or in the header of a patch.
_PATH = lazy_pattern(r'"(?:file_?|notebook_?)?path"\s*:\s*"(?:[^"\\]|\\.)*"|\*\*\* \w+ File: (?:[^"\\]|\\[^n])*')
_MAX_TARGET_CHARS = 300
"""The length of the start of truncated arguments that identifies a write without a path."""
_NO_SUCH_TOOL = "there is no such tool"
_MAX_NAME = 80
"""The maximum length of a tool name in a message, in characters."""
_ISSUES: dict[ArgumentState, str] = {"incomplete": "cut", "malformed": "malformed", "damaged": "damaged"}
"""The name of each state in `ToolPayloadRepair.issue`, before `_arguments`."""
_PROBLEMS: dict[ArgumentState, str] = {
    "incomplete": "was truncated by the output limit",
    "damaged": "was damaged in transit",
}
"""The fault of a call, for the note with which the turn ends."""


@dataclass(slots=True)
class Repetition:
    """The last call that ran, and how many times in a row it ran with the same result."""

    call: tuple[str, str] | None = None
    result: str = ""
    count: int = 0

    def record(self, call: ToolCall, result: str) -> None:
        """Record a call that ran, and its result."""
        key = _call_key(call)
        is_same = key == self.call and result == self.result
        self.count = self.count + 1 if is_same else 1
        self.call, self.result = key, result

    def repeats_of(self, call: ToolCall) -> int:
        """Return how often `call` gave the same result in a row, or 0 below `MAX_SAME_CALLS`."""
        return self.count if self.count >= MAX_SAME_CALLS and _call_key(call) == self.call else 0

    def forget(self) -> None:
        """Reset the count: the user approved the repeated call."""
        self.call, self.count = None, 0


def _call_key(call: ToolCall) -> tuple[str, str]:
    """Return a key that is equal for two calls if only the formatting of their arguments differs."""
    return call.name, json.dumps(parse_object(call.arguments), sort_keys=True)


@dataclass(slots=True)
class CallLimits:
    """The call counters of a turn."""

    max_calls: int | None = None
    max_repairs: int = 1
    calls: int = 0
    """How many calls could run, including those that the rules or the user then denied."""
    repairs: int = 0
    """How many replies in a row had a truncated, malformed or damaged call, which must be sent again."""
    last_rejected: tuple[str, str] | None = None
    """The tool and the target of the last rejected write."""
    rejections: int = 0
    """How many times in a row that write was rejected."""
    ended_by: Literal["tool_calls", "cut", "malformed", "impossible", "denied", "stopped"] | None = None
    """The limit that ends the turn, None until one does."""
    note: str = ""
    """Explains to the user why the limit `ended_by` ended the turn."""
    impossible_replies: int = 0
    """The number of replies in a row in which no call ran, and a call had an unknown tool or lacked an argument."""
    denial_counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often each call was denied since the last call that ran."""
    repetition: Repetition = field(default_factory=Repetition)
    parent: CallLimits | None = None
    """For a sub-agent, the counters of the calling turn."""

    def count_call(self) -> bool:
        """Count a call that is about to run; return False if the call budget of the prompt is used up."""
        if self.parent is not None:
            may_run = self.parent.count_call()
        else:
            may_run = self.max_calls is None or self.calls < self.max_calls
        if may_run:
            self.calls += 1
        else:
            self.ended_by = "tool_calls"
        return may_run

    def count_rejected_write(self, write: ReceivedCall) -> int:
        """Count a rejected write and return how often it was rejected in a row; `MAX_SAME_REJECTIONS` ends the turn."""
        name = write.call.name
        key = (name, _write_target(write.raw))
        self.rejections = self.rejections + 1 if key == self.last_rejected else 1
        self.last_rejected = key
        if self.rejections >= MAX_SAME_REJECTIONS:
            self.ended_by = "cut"
            self.note = (
                f"The model sent the same truncated `{name}` call {self.rejections} times, so qcode stopped the turn. "
                f"{_advice_after_cut(write)}"
            )
        return self.rejections

    def count_repair(self, broken: ReceivedCall) -> None:
        """Count a reply whose call must be sent again; too many in a row end the turn."""
        self.repairs += 1
        if self.repairs <= self.max_repairs:
            return
        self.ended_by = "cut" if broken.state == "incomplete" else "malformed"
        name, problem = broken.call.name, _PROBLEMS.get(broken.state, "had arguments that are not valid JSON")
        self.note = f"The model's `{name}` call {problem} {self.repairs} times in a row, so qcode stopped the turn."
        if self.ended_by == "cut":
            self.note += f" {_advice_after_cut(broken)}"

    def count_denial(self, call: ToolCall, *, is_repeated: bool) -> int:
        """Count a denied call and return how often it was denied; more than `MAX_SAME_CALLS` ends the turn.

        `is_repeated`: the same call already ran several times with the same result, so the model is at fault.
        """
        key = _call_key(call)
        count = self.denial_counts[key] = self.denial_counts.get(key, 0) + 1
        if count > MAX_SAME_CALLS:
            self.ended_by = "impossible" if is_repeated else "denied"
            problem = "kept repeating a call that changes nothing" if is_repeated else "repeated a denied call"
            self.note = f"The model {problem} (`{_short_name(call.name)}`), so qcode stopped the turn."
        return count

    def fail_on_impossible(self, name: str, obstacle: str) -> None:
        """End the turn because of a call that cannot run."""
        self.ended_by = "impossible"
        # No "qcode stopped the turn": the user may have ended it by the answer to the question about such calls.
        self.note = f"The model's `{_short_name(name)}` call cannot run ({obstacle}). The turn has ended."

    def reset_counts(self, *, has_written: bool) -> None:
        """Reset the counts of calls that did not run, because a call ran; after a write, also the rejected writes."""
        self.repairs = self.impossible_replies = 0
        self.denial_counts.clear()
        if has_written:
            self.rejections, self.last_rejected = 0, None


@dataclass(frozen=True, slots=True)
class _EditedCall:
    """A call that was edited before it ran."""

    call: ToolCall
    """The call with its new arguments."""
    editor: Literal["user", "hook"]


@dataclass(slots=True)
class CallRound:
    """The calls of one reply, from approval to result."""

    calls: Sequence[ReceivedCall]
    """The calls in the order in which the model made them. `results` has the same order."""
    tools: Mapping[str, ToolSpec]
    limits: CallLimits
    is_strict: bool = False
    """A call of an unknown tool fails the turn, and no call of the reply runs; signals are still recorded."""
    denials: list[Denial] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    _results: dict[int, ToolResult] = field(default_factory=dict)
    _open: dict[int, OpenState] = field(default_factory=dict)
    """The calls that have begun and have no result yet. The key is the index in `calls`, as in all fields below."""
    _begun_count: int = 0
    """How many calls, from the first one on, have begun: the user was asked, or they ran or were rejected."""
    _checked_count: int = 0
    """How many calls, from the first one on, were passed to the repetition check."""
    _ran: set[int] = field(default_factory=set)
    """The calls that were run and have their result."""
    _edited_calls: dict[int, _EditedCall] = field(default_factory=dict)
    _has_counted_repair: bool = False
    """This reply was already counted with `CallLimits.count_repair`."""
    _has_impossible: bool = False
    """The reply has a call that cannot run."""

    @property
    def results(self) -> list[Block]:
        return [self._results[index] for index in sorted(self._results)]

    @property
    def is_over(self) -> bool:
        return len(self._results) == len(self.calls)

    @property
    def is_one_way(self) -> bool:
        """Whether every call of the reply is a signal, so the model expects no result."""
        return len(self.signals) == len(self.calls)

    @property
    def runs_together(self) -> bool:
        """Whether the calls may run in parallel: all of them only read, and their ids differ.

        Some hosts repeat an id. An outcome is matched by its id, so such calls run one after another.
        """
        ids = {pending.call.call_id for pending in self.calls}
        return len(ids) == len(self.calls) and all(self._only_reads(pending.call) for pending in self.calls)

    def _only_reads(self, call: ToolCall) -> bool:
        spec = self.tools.get(call.name)
        return spec is not None and spec.only_reads(parse_object(call.arguments) or {})

    def advance(self, elapsed: float) -> list[Effect]:
        """Start the calls that may start now, and reject those that must not run."""
        effects: list[Effect] = []
        if self.is_strict and not self._begun_count:
            self._fail_on_unknown_tool()
        while self._begun_count < len(self.calls) and (not self._open or self.runs_together):
            index = self._begun_count
            self._begun_count += 1
            effects += self._begin(index, elapsed)
        return effects

    def apply_answer(self, answer: ApprovalAnswered, elapsed: float) -> list[Effect]:
        """Apply the answer to the approval of a call. An unknown id or a second answer is ignored."""
        index = self._index_of(answer.call_id, ("asked", "repeating", "impossible"))
        if index is None:
            return []
        if self._open[index] == "impossible":
            return [*self._resume_after_answer(index, answer), *self.advance(elapsed)]
        if answer.text:
            return [*self._settle_with_answer(index, answer), *self.advance(elapsed)]
        if answer.is_allowed:
            return self._run(index, answer)
        return [*self._deny(index, answer), *self.advance(elapsed)]

    def _settle_with_answer(self, index: int, answer: ApprovalAnswered) -> list[Effect]:
        """Store the user's answer as the result of a call, which does not run."""
        if self._open[index] == "repeating":
            self.limits.count_denial(self.calls[index].call, is_repeated=True)
        first_line, _, _ = answer.text.partition("\n")
        return self._settle(index, ToolOutcome(answer.text, summary=answer.summary or first_line), "done")

    def _run(self, index: int, answer: ApprovalAnswered) -> list[Effect]:
        """Run an approved call with its arguments, which the user or a hook may have edited."""
        if self._open[index] == "repeating":
            self.limits.repetition.forget()
        self._open[index] = "running"
        call, arguments = self.calls[index].call, answer.edited_arguments
        if arguments is None:
            arguments = parse_object(call.arguments) or {}
        else:
            call = replace(call, arguments=json.dumps(arguments))
            self._edited_calls[index] = _EditedCall(call, answer.editor)
        spec = self.tools.get(call.name)
        is_backgroundable = spec is not None and spec.is_backgroundable
        return [Emit(ToolStarted(call, is_backgroundable)), RunTool(call, arguments)]

    def _deny(self, index: int, answer: ApprovalAnswered) -> list[Effect]:
        """Record a denial, and store its reason as the result of the call."""
        call = self.calls[index].call
        self.denials.append(Denial(call, answer.reason))
        text = f"Denied: {answer.reason}" if answer.reason else "Denied by the user."
        spec = self.tools.get(call.name)
        shown = _denial_for_user(answer, is_question=spec is not None and spec.asks_user) or text
        is_repeated = self._open[index] == "repeating"
        if self.limits.count_denial(call, is_repeated=is_repeated) == MAX_SAME_CALLS:
            text += f" This call was denied {MAX_SAME_CALLS} times; the next denial ends the turn. Continue without it."
        outcome = ToolOutcome(
            text,
            is_error=True,
            summary=DECLINED if answer.is_declined else "denied",
            diff=answer.diff,
            shown=None if shown == text else shown,
        )
        return self._settle(index, outcome, "denied")

    def store_outcome(self, call_id: str, outcome: ToolOutcome, elapsed: float) -> list[Effect]:
        """Store the outcome of a running call."""
        index = self._index_of(call_id, ("running",))
        if index is None:
            return []
        name = self.calls[index].call.name
        self.limits.reset_counts(has_written=self.tools[name].writes_files and not outcome.is_error)
        settled = self._settle(index, outcome, "failed" if outcome.is_error else "done")
        return [*settled, *self.advance(elapsed)]

    def cancel(self, elapsed: float) -> list[Effect]:
        """Cancel every call without a result; signals are recorded even now."""
        effects: list[Effect] = []
        for index, pending in enumerate(self.calls):
            if index not in self._results and self._is_signal(pending):
                effects += self._record_signal(index, elapsed)
            elif index not in self._results:
                text = CANCELLED_TEXT if self._open.get(index) == "running" else NOT_RUN_TEXT
                effects += self._settle(index, ToolOutcome(text, is_error=True, summary="cancelled"), "cancelled")
        return effects

    def _index_of(self, call_id: str, states: tuple[OpenState, ...]) -> int | None:
        candidates = (index for index, state in self._open.items() if state in states)
        return next((index for index in candidates if self.calls[index].call.call_id == call_id), None)

    def _begin(self, index: int, elapsed: float) -> list[Effect]:
        """Ask for the approval of a call, or settle it at once if it must not run."""
        pending = self.calls[index]
        call, spec = pending.call, self.tools.get(pending.call.name)
        if self._is_signal(pending):
            return self._record_signal(index, elapsed)
        if self.limits.ended_by in ("impossible", "denied", "stopped"):
            return self._reject(index, "Not run: the turn has ended.")
        if pending.state != "complete":
            return self._reject_broken(index, writes_files=spec is not None and spec.writes_files)
        arguments = parse_object(call.arguments) or {}
        obstacle = self._obstacle(call, arguments)
        if obstacle:
            return self._reject_impossible(index, arguments, obstacle)
        if not self.limits.count_call():
            return self._reject(index, "Not run: budget exhausted (the limit of tool calls for this prompt).")
        repeats = self.limits.repetition.repeats_of(call)
        self._open[index] = "repeating" if repeats else "asked"
        return [AskApproval(call, arguments, repeats)]

    def _is_signal(self, pending: ReceivedCall) -> bool:
        """Return whether a call is recorded instead of run; malformed arguments are recorded unchanged."""
        spec = self.tools.get(pending.call.name)
        return spec is not None and spec.is_one_way and pending.state in ("complete", "malformed")

    def _record_signal(self, index: int, elapsed: float) -> list[Effect]:
        pending = self.calls[index]
        is_complete = pending.state == "complete"
        arguments = (parse_object(pending.call.arguments) or {}) if is_complete else pending.raw
        self.signals.append(Signal(pending.call.name, arguments, elapsed))
        return self._settle(index, ToolOutcome(RECORDED_TEXT, is_signal=True), "done")

    def _fail_on_unknown_tool(self) -> None:
        unknown = next((pending.call for pending in self.calls if self._is_unknown(pending.call)), None)
        if unknown is not None:
            self.limits.fail_on_impossible(unknown.name, f"{_NO_SUCH_TOOL}, --strict-tools")

    def _is_unknown(self, call: ToolCall) -> bool:
        spec = self.tools.get(call.name)
        return spec is None or spec.is_hosted

    def _obstacle(self, call: ToolCall, arguments: JsonObject) -> str:
        """Return the reason why a complete call cannot run, an empty string if it can."""
        if self._is_unknown(call):
            return _NO_SUCH_TOOL
        missing = [name for name in self.tools[call.name].required if name not in arguments]
        return f"missing {', '.join(f'`{name}`' for name in missing)}" if missing else ""

    def _reject_impossible(self, index: int, arguments: JsonObject, obstacle: str) -> list[Effect]:
        """Reject a call that cannot run. After `MAX_SAME_CALLS` such replies in a row, ask the user once per reply."""
        limits, call = self.limits, self.calls[index].call
        if limits.impossible_replies >= MAX_SAME_CALLS and not self._has_impossible:
            self._has_impossible = True
            self._open[index] = "impossible"
            return [AskApproval(call, arguments, obstacle=obstacle)]
        self._has_impossible = True
        return self._reject(
            index, self._impossible_text(call, obstacle, is_last=limits.impossible_replies + 1 == MAX_SAME_CALLS)
        )

    def _resume_after_answer(self, index: int, answer: ApprovalAnswered) -> list[Effect]:
        """Continue or end the turn after the user's decision about a call that cannot run."""
        call = self.calls[index].call
        obstacle = self._obstacle(call, parse_object(call.arguments) or {})
        text = self._impossible_text(call, obstacle, is_last=False)
        if answer.is_allowed or answer.reason:  # a denial with a reason is advice for the next attempt
            self.limits.impossible_replies = 0
            return self._reject(index, f"{text} The user says: {answer.reason}" if answer.reason else text)
        self.limits.fail_on_impossible(
            call.name, f"{obstacle}; {self.limits.impossible_replies} replies in a row had no call that can run"
        )
        return self._reject(index, text)

    def _impossible_text(self, call: ToolCall, obstacle: str, *, is_last: bool) -> str:
        """Return the result of a call that cannot run. If `is_last`, the user is asked about the next one."""
        name = _short_name(call.name)
        if is_last:
            tools = "; ".join(f"`{tool}`{_with_required(spec)}" for tool, spec in sorted(self._callable.items()))
            return (
                f"The `{name}` call was not run: {obstacle}. {MAX_SAME_CALLS} replies in a row had no call that can "
                f"run; another such reply may end the turn. Answer in plain text, or call one of these tools: {tools}."
            )
        if self._is_unknown(call):
            return _unknown_tool_text(name, self._callable)
        return f"The `{name}` call is {obstacle}; it was not run. Send the complete call again."

    @property
    def _callable(self) -> dict[str, ToolSpec]:
        """The tools that qcode runs; the host itself runs a hosted tool."""
        return {name: spec for name, spec in self.tools.items() if not spec.is_hosted}

    def _reject_broken(self, index: int, *, writes_files: bool) -> list[Effect]:
        """Reject a truncated, malformed or damaged call. The repair budget is charged once per reply."""
        pending = self.calls[index]
        name, is_cut = pending.call.name, pending.state == "incomplete"
        if is_cut and pending.escalates_next_request:
            text = synthetic.send_again_text(name, pending.cap)
        elif is_cut and writes_files:
            rejections = self.limits.count_rejected_write(pending)
            text = synthetic.split_guidance(name, pending.raw, pending.cap, rejections, self._append_tool)
        else:
            if not self._has_counted_repair:
                self.limits.count_repair(pending)
                self._has_counted_repair = True
            text = synthetic.broken_call_text(name, pending.state, pending.raw, pending.cap)
        issue = f"{_ISSUES[pending.state]}_arguments"
        repair = Emit(ToolPayloadRepair(issue, attempted=self.limits.ended_by is None, succeeded=False))
        reason = synthetic.rejection_notice(pending.state, pending.cap)
        return [repair, *self._reject(index, text, reason)]

    @property
    def _append_tool(self) -> str:
        """The tool with which the model can append to an existing file, named in the split guidance."""
        return next((name for name, spec in self.tools.items() if spec.edit_format), "edit")

    def _reject(self, index: int, text: str, display: str | None = None) -> list[Effect]:
        """Reject a call with `text` as its result; the user sees `display` instead."""
        return self._settle(index, ToolOutcome(text, is_error=True, summary="not run", shown=display), "rejected")

    def close(self) -> None:
        """Finish a round that `is_over`: count the reply if none of its calls could run."""
        if self._has_impossible and not self._ran:
            self.limits.impossible_replies += 1

    def _settle(self, index: int, outcome: ToolOutcome, state: CallState) -> list[Effect]:
        """Store the result of a call; return the event for front ends."""
        call = self.calls[index].call
        has_run = self._open.pop(index, None) == "running"
        edited = self._edited_calls.get(index)
        if edited is not None:
            outcome = synthetic.outcome_of_revised(call, edited.call, outcome, edited.editor)
            call = edited.call
        self._results[index] = ToolResult(
            call.call_id, call.name, outcome.content, outcome.is_error, outcome.images, outcome.is_signal
        )
        if has_run:
            self._ran.add(index)
        self._check_repetition()
        return [Emit(ToolFinished(call, outcome, state, is_revised=edited is not None))]

    def _check_repetition(self) -> None:
        """Pass results to the repetition check in the order of the calls, not in the order of arrival."""
        while self._checked_count in self._results:
            if self._checked_count in self._ran:
                self.limits.repetition.record(
                    self.calls[self._checked_count].call, self._results[self._checked_count].content
                )
            self._checked_count += 1


def _denial_for_user(answer: ApprovalAnswered, *, is_question: bool) -> str:
    """Return the result of a denied call for the user; empty if the user sees the result for the model.

    `is_question`: the call asked the user a question.
    """
    reason = answer.summary or answer.reason
    if not answer.is_declined:
        return f"Denied: {reason}" if reason else ""
    if reason:
        return f"Declined: {reason}"
    return "Not answered." if is_question else "Declined."


def _short_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"


def _with_required(spec: ToolSpec) -> str:
    return f" (requires {', '.join(spec.required)})" if spec.required else ""


def _unknown_tool_text(name: str, tools: Mapping[str, ToolSpec]) -> str:
    from qcode.text.match import suggestion, with_hint

    error = with_hint(f"There is no tool `{name}`", suggestion(name, tools, label="`{}`"))
    return f"{error} The tools are: {', '.join(sorted(tools))}."


def _advice_after_cut(truncated: ReceivedCall) -> str:
    higher_cap = ", or set a higher --max-output-tokens" if truncated.can_raise_cap else ""
    return f"Ask for smaller steps{higher_cap}."


def _write_target(raw: str) -> str:
    """Return the target of a truncated write: its path if it was received, otherwise the start of its arguments."""
    path = _PATH.search(raw)
    return path.group(0) if path else raw[:_MAX_TARGET_CHARS]
