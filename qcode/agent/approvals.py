"""Approvals: how each call of a turn is judged, approved by the user if needed, and run in its sandbox.

A call that the user edits is judged again. A diff of a secret file hides its old contents, and shows the text that the
model adds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from qcode.agent.outcomes import UNAPPROVED
from qcode.agent.permissions import Permissions, holds_secrets, is_planning, judge_with_hook
from qcode.agent.toolbox import Toolbox
from qcode.engine.effects import ApprovalAnswered, AskApproval
from qcode.protocol.approvals import (
    ASKED_BY_QCODE,
    AcceptPlan,
    Allow,
    Answer,
    ApprovalMode,
    Ask,
    CallApproval,
    Choice,
    Decision,
    Deny,
    Draft,
    ImpossibleCall,
    PlanApproval,
    Question,
    RepeatedCall,
    Revise,
    Scope,
    ToolApproval,
    mismatched_decision_notice,
    offered_scope,
)
from qcode.protocol.events import ApprovalRequested, TurnEvent
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ToolOutcome
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.verdict import Level, Verdict
from qcode.text.clean import visible, visible_line
from qcode.text.json import JsonObject
from qcode.tools.dialog import EXIT_PLAN_MODE
from qcode.tools.shell import Shell
from qcode.tools.tool import Preview, changes_input, draft_of, json_copy, revised_arguments
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.hooks.calls import CallHooks

SHELL = Shell.spec.name
_NO_PLAN_MODE = "Plan mode has already ended: the mode is {mode}. Continue the work."
_PLAN_READS = "plan mode only reads; leave it to change files or run commands"
_UNUSABLE_INPUT = "the input was changed, and the changed input cannot be used: {reason}"
_UNUSED_EDIT = "Your edit was not used: {reason}. The question shows the call as before; edit it again to change it."


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A judged call: the name, arguments and sandbox with which it runs."""

    name: str
    arguments: JsonObject
    level: Level | None = None
    """The sandbox of the call; None if the user allowed the call, or if the call needs no sandbox."""
    targets: frozenset[str] = frozenset()
    """The files for which the user or a hook allows the call; empty if the rules allow it."""
    refusal: str = ""
    """The result of a call that can only fail, so it does not run and the user is not asked; otherwise empty."""
    requires_user: bool = False
    """A hook requires a decision of the user; a later change of mode must not settle the approval."""
    edited_arguments: JsonObject | None = None
    """The arguments from a hook; None if no hook changed them."""


def _with_arguments(call: ResolvedCall, arguments: JsonObject | None) -> ResolvedCall:
    """Return the call with `arguments` from a hook; without arguments, return it unchanged."""
    return call if arguments is None else replace(call, arguments=arguments, edited_arguments=arguments)


@dataclass(frozen=True, slots=True)
class _Revision:
    """An edit of a call. An `Allow` lets the edited call run; after a `Revise` the user is asked again."""

    approval: ToolApproval | RepeatedCall
    decision: Allow | Revise


class PendingCalls:
    """Judged calls that have not run yet, and open approvals. Records the decision about each call.

    `watch_changes` detects the files that a run changes; `accept_changes` wraps the run of a call with approved files.
    """

    hooks: CallHooks | None = None  # run before a call is judged, and after it ran

    def __init__(
        self,
        toolbox: Toolbox,
        watch_changes: Callable[[Coroutine[Any, Any, ToolOutcome]], Awaitable[ToolOutcome]],
        accept_changes: Callable[[frozenset[str]], AbstractContextManager[None]],
        permissions: Permissions,
    ) -> None:
        self._toolbox = toolbox
        self._watch_changes = watch_changes
        self._accept_changes = accept_changes
        self._permissions = permissions
        self._resolved_calls: dict[str, ResolvedCall] = {}  # this and the next two dictionaries are by call id
        self._open_approvals: dict[str, CallApproval] = {}
        self._revisions: dict[str, _Revision] = {}  # calls that the user edited, to be judged again
        self._warnings: list[str] = []
        self._server_answers: dict[str, asyncio.Future[Decision]] = {}  # by the id of the question
        self._question_count = 0

    async def ask_for_server(
        self,
        show: Callable[[TurnEvent], Awaitable[None]],
        call: ToolCall,
        question: str,
        detail: str,
        choices: tuple[Choice, ...],
        *,
        is_multi_select: bool = False,
        accepts_text: bool = True,
    ) -> str | None:
        """Ask the user a question of a tool server or of qcode during a call; return the answer, None if dismissed."""
        self._question_count += 1
        server = call.name.partition("__")[0] if self._toolbox.is_of_server(call.name) else ASKED_BY_QCODE
        approval = Question(
            call, question, detail, choices, server, self._question_count, is_multi_select, accepts_text
        )
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._server_answers[approval.id] = answer
        try:
            await show(ApprovalRequested(approval))
            return approval.accepted_text(await answer)
        finally:
            del self._server_answers[approval.id]

    async def judge(self, policy: Policy, request: AskApproval) -> ApprovalAnswered | CallApproval:
        """Return the verdict of the rules, or the approval that the user must decide."""
        call = request.call
        call_id = call.call_id
        if request.obstacle:
            from qcode.agent.approval_questions import impossible_call  # loads with the first approval

            impossible = impossible_call(request)
            self._open_approvals[call_id] = impossible
            return impossible
        if call_id in self._revisions:
            return await self._judge_revised(policy, self._revisions.pop(call_id))
        if call.name == EXIT_PLAN_MODE and policy.mode != "plan":
            return ApprovalAnswered(call_id, is_allowed=True, text=_NO_PLAN_MODE.format(mode=policy.mode))
        # The call runs exactly as it is judged and shown here, even if files that it depends on change before it runs.
        to_run = await self._toolbox.resolve_call(call.name, request.arguments)
        resolved = ResolvedCall(to_run.name, to_run.arguments)
        if self.hooks is None:
            return await self._judge_call(policy, request, resolved, hook_verdict=None)
        review = await self.hooks.run_pre_tool_use(call_id, to_run.name, to_run.arguments)
        if review.verdict is not None and review.verdict.verdict == "deny":
            return self._refuse(call, review.verdict)
        return await self._judge_call(policy, request, _with_arguments(resolved, review.arguments), review.verdict)

    def _refuse(self, call: ToolCall, verdict: Verdict) -> ApprovalAnswered:
        self._permissions.record(call, "refused", verdict.reason, verdict.decided_by)
        return ApprovalAnswered(call.call_id, is_allowed=False, reason=verdict.reason)

    async def _judge_call(
        self,
        policy: Policy,
        request: AskApproval,
        resolved: ResolvedCall,
        hook_verdict: Verdict | None,
        *,
        has_run_permission_hooks: bool = False,
    ) -> ApprovalAnswered | CallApproval:
        """Judge a call with the verdict of its PreToolUse hooks, or of its PermissionRequest hooks if they have run."""
        call = request.call
        call_id = call.call_id
        toolbox = self._toolbox
        name = resolved.name
        arguments = resolved.arguments
        targets = await asyncio.to_thread(toolbox.target_paths, name, arguments)
        # Judging may read files, and start bash or git.
        verdict = await asyncio.to_thread(judge_with_hook, policy, toolbox.spec(name), arguments, hook_verdict)
        # A command that the user allows runs without a sandbox.
        level = verdict.confinement if verdict.is_allowed else None
        needs_user = hook_verdict is not None and hook_verdict.verdict == "ask"
        # If a hook allows the call, `verdict` is that of the hook, and covers only the files that the call names now.
        granted = targets if verdict is hook_verdict else frozenset[str]()
        resolved = replace(resolved, level=level, requires_user=needs_user, targets=granted)
        self._resolved_calls[call_id] = resolved
        is_question = toolbox.asks_user(call.name)
        if verdict.verdict == "deny":
            return self._refuse(call, verdict)
        if verdict.is_allowed and not request.repeats and not is_question:
            self._permissions.record(call, "ran", verdict.reason, verdict.decided_by)
            return self._allow_unasked(call_id, verdict.reason)
        preview = await toolbox.preview(name, arguments)
        if preview.refusal and not request.repeats:
            self._resolved_calls[call_id] = replace(resolved, refusal=preview.refusal)
            self._permissions.record(call, "ran", "it can only fail, and changes nothing", "tool:refusal")
            return self._allow_unasked(call_id)
        if verdict.verdict == "ask" and is_planning(policy) and not toolbox.only_reads(name, arguments):
            # Some changes ask in every mode, such as a command that writes to a system folder. Plan mode denies them.
            return self._refuse(call, Verdict("deny", _PLAN_READS, "mode:plan"))
        resolved = replace(resolved, targets=targets)
        self._resolved_calls[call_id] = resolved
        if not (has_run_permission_hooks or request.repeats or is_question):
            decided = await self._judge_by_permission_hooks(policy, request, resolved, hook_verdict)
            if decided is not None:
                return decided
        return await self._open_approval(policy, request, preview, verdict)

    async def _judge_by_permission_hooks(
        self, policy: Policy, request: AskApproval, resolved: ResolvedCall, hook_verdict: Verdict | None
    ) -> ApprovalAnswered | CallApproval | None:
        """Judge a call that asks by its PermissionRequest hooks; return None if they leave it to the user."""
        if self.hooks is None:
            return None
        call = request.call
        review = await self.hooks.run_permission_request(call.call_id, resolved.name, resolved.arguments)
        if review.verdict is not None and review.verdict.verdict == "deny":
            return self._refuse(call, review.verdict)
        if review.verdict is None and review.arguments is None:
            return None
        resolved = _with_arguments(resolved, review.arguments)
        hook_verdict = hook_verdict or review.verdict
        return await self._judge_call(policy, request, resolved, hook_verdict, has_run_permission_hooks=True)

    async def _open_approval(
        self, policy: Policy, request: AskApproval, preview: Preview, verdict: Verdict
    ) -> CallApproval:
        """Open the approval that the user must decide, and return it."""
        from qcode.agent.approval_questions import approval_of, masked_preview  # loads with the first approval

        call = request.call
        resolved = self._resolved_calls[call.call_id]
        if resolved.edited_arguments is not None:
            call = replace(call, arguments=json.dumps(resolved.edited_arguments))
        preview = masked_preview(policy, preview)
        approval = approval_of(call, preview, repeats=request.repeats, is_question=self._toolbox.asks_user(call.name))
        if isinstance(approval, PlanApproval):
            approval = replace(approval, is_trusted=policy.is_trusted)
        elif isinstance(approval, ToolApproval):
            approval = await self._with_offers(approval, policy, resolved, preview, verdict)
            approval = replace(approval, is_revised=resolved.edited_arguments is not None)
        self._open_approvals[call.call_id] = approval
        return approval

    def _allow_unasked(self, call_id: str, reason: str = "") -> ApprovalAnswered:
        """Let a judged call run without an approval, with the arguments from a hook if there are any."""
        edited = self._resolved_calls[call_id].edited_arguments
        return ApprovalAnswered(call_id, is_allowed=True, reason=reason, edited_arguments=edited, editor="hook")

    async def _with_offers(
        self, approval: ToolApproval, policy: Policy, resolved: ResolvedCall, preview: Preview, verdict: Verdict
    ) -> ToolApproval:
        """Return the approval with its reason, the rules and scopes that it offers, and an editable draft."""
        from qcode.agent.approval_questions import approval_kind, approval_reason, offered_scopes, showable_changes

        spec = self._toolbox.spec(resolved.name)
        accepts_edits = preview.is_diff and await asyncio.to_thread(self._runs_if_edits_are_accepted, policy, resolved)
        kind = approval_kind(spec, preview)
        place = "outside the sandbox" if policy.probes.sandbox().levels else "without a sandbox, none works here"
        location = f"the command runs {place}" if kind == "command" else ""
        return replace(
            approval,
            rule=verdict.proposed_rule,
            is_keepable=self._permissions.can_save_rules and bool(verdict.proposed_rule),
            kind=kind,
            reason=approval_reason(verdict, kind, location),
            location=location,
            reasons=tuple(map(visible, verdict.all_reasons)),
            offers=offered_scopes(verdict, accepts_edits=accepts_edits),
            prefix_rule=verdict.prefix_rule,
            sandboxed_rule=verdict.sandboxed_rule,
            draft=draft_of(spec, resolved.arguments),
            changes=showable_changes(policy, preview.changes),
        )

    async def _judge_revised(self, policy: Policy, revision: _Revision) -> ApprovalAnswered | CallApproval:
        """Judge a call that the user edited.

        If `Revise` edited it, return a new approval, also for a call that the rules would allow, so that the user sees
        the effect of the edit. If the edited call cannot run, warn and return the old approval. If `Allow` edited it,
        let the edited call run, or deny it with the reason why it cannot.
        """
        approval = revision.approval
        decision = revision.decision
        original = self._resolved_calls[approval.id]
        if is_planning(policy) and not self._toolbox.only_reads(original.name, original.arguments):
            self._permissions.record(approval.call, "refused", _PLAN_READS, "mode:plan")
            return ApprovalAnswered(approval.id, is_allowed=False, reason=_PLAN_READS)
        try:
            revised = await self._open_revised(policy, revision, original)
        except ValueError as problem:
            reason = visible_line(str(problem))
            if isinstance(decision, Allow):
                return self._deny(approval, _UNUSABLE_INPUT.format(reason=reason))
            self._warnings.append(_UNUSED_EDIT.format(reason=reason))
            self._open_approvals[approval.id] = approval
            return approval
        if not isinstance(decision, Allow):
            return revised
        del self._open_approvals[approval.id]
        self._record_allowed(revised, offered_scope(revised, decision.scope))
        return self._allow(revised)

    async def _open_revised(self, policy: Policy, revision: _Revision, original: ResolvedCall) -> ToolApproval:
        """Open and return an approval of the edited call; raise `ValueError` with one line if it cannot run."""
        from qcode.agent.approval_questions import approval_of, masked_preview

        approval = revision.approval
        decision = revision.decision
        toolbox = self._toolbox
        name = original.name
        spec = toolbox.spec(name)
        changed = decision.input if isinstance(decision, Allow) else decision.arguments
        if changed is not None:
            arguments = json_copy(changed)
        else:
            draft = decision.text if isinstance(decision, Revise) else ""
            arguments = revised_arguments(spec, original.arguments, draft)
        targets = await asyncio.to_thread(toolbox.target_paths, name, arguments)
        verdict = await asyncio.to_thread(policy.judge, spec, arguments)
        if self.hooks is not None:
            review = await self.hooks.run_pre_tool_use(approval.id, name, arguments)
            if review.verdict is not None and review.verdict.verdict == "deny":
                verdict = review.verdict
        preview = await toolbox.preview(name, arguments)
        if verdict.verdict == "deny" or preview.refusal:
            raise ValueError(verdict.reason if verdict.verdict == "deny" else preview.refusal)
        resolved = ResolvedCall(name, arguments, targets=targets)
        preview = masked_preview(policy, preview)
        call = replace(approval.call, arguments=json.dumps(arguments))
        revised = approval_of(call, preview, repeats=0, is_question=False)
        assert isinstance(revised, ToolApproval)
        revised = await self._with_offers(revised, policy, resolved, preview, verdict)
        revised = replace(revised, is_revised=True)
        self._resolved_calls[approval.id] = resolved
        self._open_approvals[approval.id] = revised
        return revised

    def _runs_if_edits_are_accepted(self, policy: Policy, resolved: ResolvedCall) -> bool:
        """Return whether the call runs without asking once edits are accepted."""
        if policy.mode != "default":
            return False
        return policy.with_mode("accept-edits").judge(self._toolbox.spec(resolved.name), resolved.arguments).is_allowed

    def settle_answer(self, call_id: str, decision: Decision) -> ApprovalAnswered | AskApproval | None:
        """Settle an open approval by the user's decision; return None if no approval with this id is open.

        Return an `AskApproval` for a call that the user edited: it must be judged again.
        """
        if call_id in self._server_answers:
            if not self._server_answers[call_id].done():
                self._server_answers[call_id].set_result(decision)
            return None
        approval = self._open_approvals.pop(call_id, None)
        if approval is None:
            return None
        match approval, decision:
            case ((ToolApproval() | RepeatedCall()), Allow(input=changed)) if changes_input(approval.call, changed):
                self._revisions[call_id] = _Revision(approval, decision)
                return AskApproval(approval.call, {})
            case ToolApproval(), Allow(scope=scope):
                self._record_allowed(approval, offered_scope(approval, scope))
                return self._allow(approval)
            case ToolApproval(draft=Draft()), Revise():
                self._revisions[call_id] = _Revision(approval, decision)
                return AskApproval(approval.call, {})
            case RepeatedCall(), Allow():
                self._permissions.record(approval.call, "allowed")
                return ApprovalAnswered(call_id, is_allowed=True)
            case ImpossibleCall(), Allow():
                return ApprovalAnswered(call_id, is_allowed=True)
            case ImpossibleCall(), Deny(message=reason):
                return ApprovalAnswered(call_id, is_allowed=False, reason=reason)
            case ((RepeatedCall() | Question()), Answer(text=text)):
                self._permissions.record(approval.call, "answered", text)
                return ApprovalAnswered(call_id, is_allowed=True, text=text)
            case PlanApproval(), AcceptPlan(mode=mode):
                return self._accept_plan(approval.call, mode)
            case _, Deny(message=reason):
                return self._deny(approval, reason)
            case _:
                self._warnings.append(mismatched_decision_notice(approval, decision))
                return self._deny(approval, reason="")

    def _allow(self, approval: ToolApproval) -> ApprovalAnswered:
        resolved = self._resolved_calls[approval.id]
        if not approval.is_revised:
            return ApprovalAnswered(approval.id, is_allowed=True)
        editor: Literal["user", "hook"] = "user" if resolved.edited_arguments is None else "hook"
        return ApprovalAnswered(approval.id, is_allowed=True, edited_arguments=resolved.arguments, editor=editor)

    def _record_allowed(self, approval: ToolApproval, scope: Scope) -> None:
        """Record that the user allowed a call; if `scope` covers more than this call, add a rule or switch the mode."""
        permissions = self._permissions
        call = approval.call
        match scope:
            case "session" | "folder":
                warning = permissions.allow_always(approval.rule, call, is_saved=scope == "folder")
                self._warnings += [warning] if warning else []
            case "prefix":
                permissions.allow_always(approval.prefix_rule, call, is_saved=False)
            case "sandbox":
                permissions.allow_sandboxed(approval.sandboxed_rule, call)
                self._resolved_calls[approval.id] = replace(self._resolved_calls[approval.id], level="workspace")
            case "edits":
                permissions.set_mode("accept-edits")
                permissions.record(call, "session", "all edits", "mode:accept-edits")
            case _:
                permissions.record(call, "allowed")

    def _deny(self, approval: CallApproval, reason: str) -> ApprovalAnswered:
        self._permissions.record(approval.call, "unanswered" if isinstance(approval, Question) else "denied", reason)
        diff = approval.detail if isinstance(approval, ToolApproval) and approval.kind == "edit" else ""
        denied = ApprovalAnswered(approval.id, is_allowed=False, reason=reason, diff=diff)
        if isinstance(approval, PlanApproval):
            from qcode.engine import plan_mode

            denied = plan_mode.rejection_of_plan(approval.id, reason)
        return replace(denied, is_declined=reason != UNAPPROVED)

    def _accept_plan(self, call: ToolCall, mode: ApprovalMode) -> ApprovalAnswered:
        """End plan mode and switch to the mode that the user chose; the arguments of the call cannot change it."""
        from qcode.engine import plan_mode

        mode = plan_mode.mode_after_plan(mode, is_trusted=self._permissions.is_trusted)
        self._permissions.set_mode(mode)
        self._permissions.record(call, "approved", f"mode {mode}")
        return plan_mode.approval_of_plan(call.call_id, mode)

    def settle_by_mode(self, policy: Policy, put_input: Callable[[ApprovalAnswered], None]) -> None:
        """Settle open approvals by the current mode (plan mode denies changes); pass the answers to `put_input`."""
        for call_id, approval in list(self._open_approvals.items()):
            resolved = self._resolved_calls.get(call_id)
            if self._is_barred_by_plan_mode(policy, resolved):
                self._open_approvals.pop(call_id)
                self._permissions.record(approval.call, "refused", _PLAN_READS, "mode:plan")
                put_input(ApprovalAnswered(call_id, is_allowed=False, reason=_PLAN_READS))
            elif resolved is not None and not resolved.requires_user and isinstance(approval, ToolApproval):
                verdict = policy.judge(self._toolbox.spec(resolved.name), resolved.arguments)
                if verdict.is_allowed and verdict.check.startswith("mode:"):
                    self._resolved_calls[call_id] = replace(resolved, level=verdict.confinement)
                    self._open_approvals.pop(call_id)
                    self._permissions.record(approval.call, "ran", verdict.reason, verdict.decided_by)
                    put_input(self._allow(approval))

    def _is_barred_by_plan_mode(self, policy: Policy, resolved: ResolvedCall | None) -> bool:
        """Return whether plan mode is on now and the call may change something."""
        if resolved is None or not is_planning(policy) or self._toolbox.only_reads(resolved.name, resolved.arguments):
            return False
        return not policy.judge(self._toolbox.spec(resolved.name), resolved.arguments).is_allowed

    def pop(self, call: ToolCall, arguments: JsonObject) -> ResolvedCall:
        """Remove and return the judged call to run; for a call that was not judged, return it unchanged."""
        return self._resolved_calls.pop(call.call_id, ResolvedCall(call.name, arguments))

    def take_warnings(self) -> tuple[str, ...]:
        """Return the warnings since the last call, about decisions that could not be carried out."""
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    async def run(
        self,
        policy: Policy,
        resolved: ResolvedCall,
        output: Callable[[str], None],
        model: str,
        background_requested: asyncio.Event | None = None,
        ask: Ask | None = None,
    ) -> ToolOutcome:
        """Run a call as it was judged; the diff of its result hides the contents of secret files.

        See `Toolbox.run` for `background_requested` and `ask`.
        """
        if resolved.refusal:
            return ToolOutcome(resolved.refusal, is_error=True, summary=resolved.refusal.split("\n", 1)[0])
        if is_planning(policy) and await asyncio.to_thread(self._is_barred_by_plan_mode, policy, resolved):
            return ToolOutcome(f"Not run: {_PLAN_READS}.", is_error=True, summary="plan mode")
        toolbox = self._toolbox
        work = toolbox.run(
            resolved.name,
            resolved.arguments,
            output,
            resolved.level,
            resolved.targets,
            background_requested=background_requested,
            ask=ask,
        )
        with self._accept_changes(resolved.targets):
            outcome = await (self._watch_changes(work) if self._may_change_files(policy, resolved, model) else work)
        outcome = await toolbox.with_folder_instructions(resolved.name, resolved.arguments, outcome)
        if toolbox.edit_checks is not None:
            run = partial(self._run_command, policy, model)
            outcome = await toolbox.edit_checks.finish(outcome, policy, toolbox.workspace, run, ask)
        if not outcome.diff:
            return outcome
        from qcode.agent.approval_questions import showable_changes  # this and the next load with the first change
        from qcode.text.diff import mask_diff

        masked = mask_diff(outcome.diff, partial(holds_secrets, policy))
        return replace(outcome, diff=masked, changes=showable_changes(policy, outcome.changes))

    async def _run_command(
        self, policy: Policy, model: str, command: str, level: Level | None, seconds: float | None, is_watched: bool
    ) -> ToolOutcome:
        """Run a command of `[after_edit]` without showing it; `is_watched`: detect the files that it changes."""
        arguments: JsonObject = {"command": command, **({} if seconds is None else {"timeout_s": seconds})}
        if is_watched:
            return await self.run(policy, ResolvedCall(SHELL, arguments, level), _drop_output, model)
        return await self._toolbox.run(SHELL, arguments, _drop_output, level)

    async def with_hook_text(
        self, call: ToolCall, resolved: ResolvedCall, outcome: ToolOutcome, seconds: float
    ) -> ToolOutcome:
        """Return the outcome of a call that ran, with the text that hooks add for the model."""
        if self.hooks is None or resolved.refusal:
            return outcome
        return await self.hooks.run_post_tool_use(call.call_id, resolved.name, resolved.arguments, outcome, seconds)

    def _may_change_files(self, policy: Policy, resolved: ResolvedCall, model: str) -> bool:
        """Return whether the files that a call changes must be detected, because its tool does not report them."""
        spec = next((spec for spec in self._toolbox.specs(model) if spec.name == resolved.name), None)
        if spec is None and self._toolbox.is_of_server(resolved.name):  # a deferred tool
            spec = self._toolbox.spec(resolved.name)
        if spec is None or spec.is_read_only or spec.writes_files or resolved.level == "read-only":
            return False
        # The default mode of a trusted folder allows only calls that change nothing, if there are no rules.
        trusted_default = replace(policy, mode="default", rules=Rules.of(), is_trusted=True)
        return not trusted_default.judge(spec, resolved.arguments).is_allowed

    def clear(self) -> None:
        """Forget all calls and approvals, because the turn is over."""
        for approval in (*self._open_approvals.values(), *(revision.approval for revision in self._revisions.values())):
            self._permissions.record(approval.call, "unanswered")
        self._resolved_calls.clear()
        self._revisions.clear()
        self._open_approvals.clear()
        if self._toolbox.edit_checks is not None:
            self._toolbox.edit_checks.end_turn()


def _drop_output(output: str) -> None:
    """Drop the live output of a command of `[after_edit]`: the card of a call shows only the output of the call."""
