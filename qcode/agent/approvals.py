"""The calls of a turn between verdict and run: judged, shown, answered, and run in the sandbox of their verdict.

`approval_of` makes the approval that the user is asked for. `mask_diff` hides the contents of secret files in shown
diffs: it counts the lines of each hunk, so no line of a file can pass for a header. Text the model would write is
always shown whole.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Literal

from qcode.agent.permissions import Permissions
from qcode.agent.toolbox import Toolbox
from qcode.engine.effects import ApprovalAnswered
from qcode.protocol.approvals import (
    AcceptPlan,
    Allow,
    Answer,
    ApprovalMode,
    CallApproval,
    Decision,
    Deny,
    PlanApproval,
    Question,
    RepeatedCall,
    ToolApproval,
    misfit,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ToolOutcome
from qcode.safety.paths import GUARDED
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.verdict import Level
from qcode.text.clean import visible, visible_lines, visible_rows
from qcode.text.diff import diff_lines
from qcode.text.json import JsonObject
from qcode.tools.dialog import EXIT_PLAN_MODE
from qcode.tools.tool import Preview
from qcode.values import dataclass

_AFTER_A_PLAN: tuple[ApprovalMode, ...] = ("default", "accept-edits")
_MODES: dict[ApprovalMode, str] = {
    "default": "the user is asked before each change",
    "accept-edits": "edits inside the folder run without asking, everything else asks",
}
_NO_PLAN_MODE = "Plan mode is over already: the mode is {mode}. Go on with the work."
_PLAN_APPROVED = "The user approved the plan and ended plan mode. The mode is {mode} now: {meaning}. Carry it out."
_PLAN_READS = "plan mode only reads; leave it to change files or run commands"
_KEEP_PLANNING = "the plan is not approved and plan mode goes on; change nothing"


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A call as it will run. `level` is None if the user allowed it, or if it needs no sandbox.

    `targets` are the files the user was asked about. `refusal` is the whole result, if not empty: a call that could
    only fail when it was judged was shown to no user, so it must not succeed later either.
    """

    name: str
    arguments: JsonObject
    level: Level | None = None
    targets: frozenset[str] = frozenset()
    refusal: str = ""


def holds_secrets(policy: Policy, path: str) -> bool:
    """Whether the contents of this file must not be shown without asking."""
    return policy.judge_file(path, "read").rule == GUARDED


def is_planning(policy: Policy) -> bool:
    """Whether plan mode holds: for the conversation, or for a sub-agent that only reads."""
    return policy.mode == "plan" or (policy.limit is not None and is_planning(policy.limit))


class PendingCalls:
    """The judged calls until they run, and the open approvals, both by id. Records the outcome of each call.

    `watched` detects the files that a run changes; `approved` wraps a run that the user approved for some files.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        watched: Callable[[Awaitable[ToolOutcome]], Awaitable[ToolOutcome]],
        approved: Callable[[frozenset[str]], AbstractContextManager[None]],
        permissions: Permissions,
    ) -> None:
        self._toolbox = toolbox
        self._watched = watched
        self._approved = approved
        self._permissions = permissions
        self._judged: dict[str, ResolvedCall] = {}
        self._open: dict[str, CallApproval] = {}
        self._warnings: list[str] = []

    async def judge(
        self, policy: Policy, call: ToolCall, arguments: JsonObject, repeats: int
    ) -> ApprovalAnswered | CallApproval:
        """Return the verdict of the rules, or the approval that the user has to decide."""
        permissions, toolbox, call_id = self._permissions, self._toolbox, call.call_id
        if call.name == EXIT_PLAN_MODE and policy.mode != "plan":
            return ApprovalAnswered(call_id, is_allowed=True, text=_NO_PLAN_MODE.format(mode=policy.mode))
        # The call runs as it is judged and shown here, even if files that it depends on change in between.
        name, spelled = await toolbox.resolve_call(call.name, arguments)
        targets = await asyncio.to_thread(toolbox.targets, name, spelled)
        # A verdict may look at the disk, and ask bash and git.
        verdict = await asyncio.to_thread(policy.judge, toolbox.spec(name), spelled)
        # The user allows the command as it is shown, without a sandbox.
        level = verdict.confinement if verdict.is_allowed else None
        self._judged[call_id] = judged = ResolvedCall(name, spelled, level)
        is_question = toolbox.asks_user(call.name)
        if verdict.verdict == "deny" or (verdict.verdict == "allow" and not repeats and not is_question):
            permissions.note(call, "ran" if verdict.is_allowed else "refused", verdict.reason, verdict.rule)
            return ApprovalAnswered(call_id, verdict.verdict == "allow", verdict.reason)
        preview = await toolbox.preview(name, spelled)
        if preview.refusal and not repeats:
            self._judged[call_id] = replace(judged, refusal=preview.refusal)
            permissions.note(call, "ran", "it can only fail, and changes nothing", "tool:refusal")
            return ApprovalAnswered(call_id, is_allowed=True)
        if verdict.verdict == "ask" and is_planning(policy) and not toolbox.only_reads(name, spelled):
            # Some changes ask in every mode, such as a command that writes to a system folder: plan mode offers none.
            permissions.note(call, "refused", _PLAN_READS, "mode:plan")
            return ApprovalAnswered(call_id, is_allowed=False, reason=_PLAN_READS)
        self._judged[call_id] = replace(judged, targets=targets)
        if preview.is_diff:
            preview = replace(preview, detail=mask_diff(preview.detail, partial(holds_secrets, policy)))
        rule = "" if is_question or repeats else verdict.proposed_rule
        self._open[call_id] = approval = approval_of(
            call, preview, rule=rule, repeats=repeats, is_question=is_question, is_keepable=permissions.can_keep
        )
        return approval

    def answered(self, call_id: str, decision: Decision) -> ApprovalAnswered | None:
        """Settle an open approval as the user decided; None if none of this id is open."""
        approval = self._open.pop(call_id, None)
        if approval is None:
            return None
        match approval, decision:
            case ToolApproval(), Allow(scope=scope):
                self._note_allowed(approval, scope)
                return ApprovalAnswered(call_id, is_allowed=True)
            case RepeatedCall(), Allow():
                self._permissions.note(approval.call, "allowed")
                return ApprovalAnswered(call_id, is_allowed=True)
            case ((RepeatedCall() | Question()), Answer(text=text)):
                self._permissions.note(approval.call, "answered", text)
                return ApprovalAnswered(call_id, is_allowed=True, text=text)
            case PlanApproval(), AcceptPlan(mode=mode):
                return self._plan_accepted(approval.call, mode)
            case _, Deny(reason=reason):
                return self._denied(approval, reason)
            case _:
                self._warnings.append(misfit(approval, decision))
                return self._denied(approval, "")

    def _note_allowed(self, approval: ToolApproval, scope: Literal["once", "session", "folder"]) -> None:
        """Record a yes, and add the proposed rule if the user wants it to hold for longer."""
        if scope == "once" or not approval.rule:
            self._permissions.note(approval.call, "allowed")
            return
        warning = self._permissions.always(approval.rule, approval.call, is_kept=scope == "folder")
        self._warnings += [warning] if warning else []
        self._permissions.note(approval.call, "always", rule=approval.rule)

    def _denied(self, approval: CallApproval, reason: str) -> ApprovalAnswered:
        self._permissions.note(approval.call, "denied", reason)
        if isinstance(approval, PlanApproval):
            said = f". They say: {reason}" if reason else ". Ask what to change, or end your reply"
            reason = f"{_KEEP_PLANNING}{said}"
        return ApprovalAnswered(approval.id, is_allowed=False, reason=reason)

    def _plan_accepted(self, call: ToolCall, mode: ApprovalMode) -> ApprovalAnswered:
        """End plan mode and switch to the mode that the user chose; the arguments of the call have no say."""
        mode = mode if mode in _AFTER_A_PLAN else "default"
        self._permissions.set_mode(mode)
        self._permissions.note(call, "approved", f"mode {mode}")
        text = _PLAN_APPROVED.format(mode=mode, meaning=_MODES[mode])
        return ApprovalAnswered(call.call_id, is_allowed=True, text=text)

    def deny_changes(self, policy: Policy, give: Callable[[ApprovalAnswered], None]) -> None:
        """Deny the open approvals of calls that plan mode forbids: the mode may have just changed."""
        for call_id in [one for one in self._open if self._is_barred(policy, self._judged.get(one))]:
            self._permissions.note(self._open.pop(call_id).call, "refused", _PLAN_READS, "mode:plan")
            give(ApprovalAnswered(call_id, is_allowed=False, reason=_PLAN_READS))

    def _is_barred(self, policy: Policy, judged: ResolvedCall | None) -> bool:
        """Whether plan mode holds now and the call would change something."""
        if judged is None or not is_planning(policy) or self._toolbox.only_reads(judged.name, judged.arguments):
            return False
        return not policy.judge(self._toolbox.spec(judged.name), judged.arguments).is_allowed

    def take(self, call: ToolCall, arguments: JsonObject) -> ResolvedCall:
        """Return the judged form of a call that may run; each is taken once."""
        return self._judged.pop(call.call_id, ResolvedCall(call.name, arguments))

    def take_warnings(self) -> tuple[str, ...]:
        """Return the warnings about decisions that could not be carried out, since the last time."""
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    async def run(
        self,
        policy: Policy,
        judged: ResolvedCall,
        output: Callable[[str], None],
        model: str,
        background_requested: asyncio.Event | None = None,
    ) -> ToolOutcome:
        """Run a call as it was judged; the diff of its result hides the contents of secret files.

        `background_requested` as in `Toolbox.run`.
        """
        if judged.refusal:
            return ToolOutcome(judged.refusal, is_error=True, summary=judged.refusal.split("\n", 1)[0])
        if is_planning(policy) and await asyncio.to_thread(self._is_barred, policy, judged):
            return ToolOutcome(f"Not run: {_PLAN_READS}.", is_error=True, summary="plan mode")
        toolbox, targets = self._toolbox, judged.targets
        work = toolbox.run(
            judged.name, judged.arguments, output, judged.level, targets, background_requested=background_requested
        )
        with self._approved(judged.targets):
            outcome = await (self._watched(work) if self._may_change_files(policy, judged, model) else work)
        if not outcome.diff:
            return outcome
        return replace(outcome, diff=mask_diff(outcome.diff, partial(holds_secrets, policy)))

    def _may_change_files(self, policy: Policy, judged: ResolvedCall, model: str) -> bool:
        """Whether the files that a call changes must be detected: tools that write report them."""
        spec = next((spec for spec in self._toolbox.specs(model) if spec.name == judged.name), None)
        if spec is None or spec.is_read_only or spec.writes_files or judged.level == "read-only":
            return False
        plain = replace(policy, mode="default", rules=Rules.of(), is_trusted=True)
        return not plain.judge(spec, judged.arguments).is_allowed

    def clear(self) -> None:
        """Forget all calls and approvals, because the turn is over."""
        for approval in self._open.values():
            self._permissions.note(approval.call, "unanswered")
        self._judged.clear()
        self._open.clear()


def approval_of(
    call: ToolCall, preview: Preview, *, rule: str, repeats: int, is_question: bool, is_keepable: bool = False
) -> CallApproval:
    """Return the approval of a call; `rule` is offered for a plain approval only."""
    shown = visible_rows(preview.detail.removesuffix("\n")) if preview.is_diff else preview.detail
    if repeats:
        name = visible(call.name)
        again = f"Run it again {preview.how}".rstrip()
        asked = f"The same {name} call has returned the same result {repeats} times in a row. {again}?"
        return RepeatedCall(call, asked, shown or visible_lines(preview.refusal))
    if preview.is_plan:
        return PlanApproval(call, preview.question, shown)
    if is_question:
        return Question(call, preview.question, shown, preview.choices)
    return ToolApproval(call, preview.question, shown, rule, is_keepable=is_keepable and bool(rule))


MASK = "[hidden]"

_FILE = re.compile(r"(?:---|\+\+\+) (?:[ab]/)?(.*)")
_NAMED = re.compile(r"(\s*(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=)\S.*")


def mask_diff(diff: str, is_secret: Callable[[str], bool]) -> str:
    """Return `diff` with old and unchanged lines of every file that `is_secret` hidden; names of values stay."""
    return "\n".join(_masked(diff.split("\n"), is_secret))


def _masked(lines: list[str], is_secret: Callable[[str], bool]) -> Iterator[str]:
    hides = False
    for line in diff_lines(lines):
        file = _FILE.match(line.text) if line.kind == "outside" else None
        if file is not None:
            hides = (hides and line.text.startswith("+++")) or is_secret(file[1])
        yield _hidden(line.text) if hides and line.kind in ("remove", "same") else line.text


def _hidden(line: str) -> str:
    if not line[1:].strip():
        return line
    named = _NAMED.fullmatch(line[1:])
    return f"{line[0]}{named[1] if named is not None else ''}{MASK}"
