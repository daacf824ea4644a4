"""Hooks around the calls of a turn: PreToolUse, PermissionRequest, PostToolUse and PostToolUseFailure.

The answers become verdicts, which `agent.approvals` combines with the verdicts of the rules. Hooks see a call in the
format of Claude Code. If a hook replaces the input, the new one is translated back to the arguments of qcode and
validated here; `agent.approvals` judges it like any other input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.hooks.events import HookInput
from qcode.engine.effects import HookStopped
from qcode.protocol.tools import CommandExecution, FileAccess, Refused, ToolOutcome, ToolSpec
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.verdict import Verdict
from qcode.text.json import Json, JsonObject
from qcode.tools.arguments import validate_arguments
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.hooks.answers import HookAnswer
    from qcode.agent.hooks.session import HookScope
    from qcode.agent.toolbox import Toolbox

_DENIED = "a hook denied the call"
_ASKED = "a hook wants you to decide"
_ALLOWED = "a hook allowed it"


@dataclass(frozen=True, slots=True)
class CallReview:
    """The decision of hooks about a call that is about to run."""

    verdict: Verdict | None = None
    """None: the rules decide."""
    arguments: JsonObject | None = None
    """The new arguments of the call; None: the original ones."""


class CallHooks:
    """The hooks around the calls of a conversation, or of one sub-agent.

    Paths in calls are relative to `folder`. `stop` ends the turn after the running calls. `policy` returns the current
    policy.
    """

    def __init__(
        self,
        scope: HookScope,
        toolbox: Toolbox,
        folder: Path,
        stop: Callable[[HookStopped], None],
        policy: Callable[[], Policy],
    ) -> None:
        self._scope = scope
        self._toolbox = toolbox
        self._folder = str(folder)
        self._stop = stop
        self._policy = policy
        self._contexts: dict[str, tuple[str, ...]] = {}  # texts of PreToolUse hooks for the model, by call id

    async def run_pre_tool_use(self, call_id: str, name: str, arguments: JsonObject) -> CallReview:
        """Run the PreToolUse hooks."""
        # A call that did not run leaves its texts, and a provider may use its id again.
        self._contexts.pop(call_id, None)
        if not self._scope.has("PreToolUse"):
            return CallReview()
        answer = await self._run("PreToolUse", call_id, name, arguments)
        if answer.context:
            self._contexts[call_id] = answer.context
        if answer.stops_turn:
            return CallReview(Verdict("deny", self._stop_turn(answer), "hook:PreToolUse"))
        return await self._review("PreToolUse", answer, name)

    async def run_permission_request(self, call_id: str, name: str, arguments: JsonObject) -> CallReview:
        """Run the PermissionRequest hooks for a call that needs approval."""
        if not self._scope.has("PermissionRequest"):
            return CallReview()
        extra_fields: JsonObject = {"permission_suggestions": []}
        answer = await self._run("PermissionRequest", call_id, name, arguments, extra_fields)
        if answer.stops_turn or answer.interrupts_turn:
            return CallReview(Verdict("deny", self._stop_turn(answer), "hook:PermissionRequest"))
        if answer.decision == "ask":  # a hook failed, and the call asks anyway
            return CallReview()
        return await self._review("PermissionRequest", answer, name)

    async def run_post_tool_use(
        self, call_id: str, name: str, arguments: JsonObject, outcome: ToolOutcome, seconds: float
    ) -> ToolOutcome:
        """Run the PostToolUse hooks; return the outcome with the text that they add for the model."""
        from qcode.agent.hooks.answers import HookAnswer  # loads with the first call

        event = "PostToolUseFailure" if outcome.is_error else "PostToolUse"
        before_contexts = self._contexts.pop(call_id, ())
        answer = HookAnswer()
        if self._scope.has(event):
            extra_fields: JsonObject = {"duration_ms": round(seconds * 1000)}
            if outcome.is_error:
                extra_fields |= {"error": error_text(outcome), "is_interrupt": False}
            else:
                extra_fields["tool_response"] = self._tool_response(name, arguments, outcome)
            answer = await self._run(event, call_id, name, arguments, extra_fields)
        if answer.stops_turn:
            self._stop_turn(answer)
        return self._with_answer(event, outcome, answer, before_contexts)

    def _with_answer(
        self, event: str, outcome: ToolOutcome, answer: HookAnswer, before_contexts: tuple[str, ...]
    ) -> ToolOutcome:
        """Return the outcome with the answer of the hooks after a call, and with the texts of the hooks before it."""
        content = outcome.content
        if answer.output is not None:
            output = answer.output if isinstance(answer.output, str) else json.dumps(answer.output, ensure_ascii=False)
            content = f"[replaced by a hook]\n{self._scope.limit_text(output)}"
        added = [self._scope.in_hook_tag("PreToolUse", text) for text in before_contexts]
        added += [self._scope.in_hook_tag(event, text) for text in answer.context]
        if answer.decision == "deny":
            added.append(self._scope.in_hook_tag(event, answer.reason or "The hook objects to this result."))
        if not added and answer.output is None:
            return outcome
        return replace(outcome, content="\n".join([content, *added]), shown=outcome.shown_text)

    def _tool_response(self, name: str, arguments: JsonObject, outcome: ToolOutcome) -> Json:
        """Return the field `tool_response` of PostToolUse, in Claude Code's format of the tool."""
        from qcode.agent.claude.tool_names import APPLY_PATCH, claude_input

        safety = self._toolbox.spec(name).safety
        if isinstance(safety, CommandExecution):
            return {"stdout": outcome.shown_text, "stderr": "", "interrupted": False, "isImage": False}
        if isinstance(safety, FileAccess) and safety.access == "write" and name != APPLY_PATCH:
            values = claude_input(name, arguments, self._folder)
            return {"filePath": values.get("file_path") or values.get("notebook_path"), "success": True}
        return {"content": outcome.content}

    async def _run(
        self, event: str, call_id: str, name: str, arguments: JsonObject, extra_fields: JsonObject | None = None
    ) -> HookAnswer:
        """Run the handlers of an event about a call; for a patch, run them once per file.

        A handler whose matcher names `apply_patch` gets the whole patch instead.
        """
        from qcode.agent.claude.tool_names import APPLY_PATCH, claude_input, claude_names, to_claude

        servers = self._server_tools()
        spec = self._toolbox.spec(name)

        def is_call_covered(rules: tuple[str, ...]) -> bool:
            return is_covered(self._policy(), spec, arguments, rules)

        inputs = []
        for call in to_claude(name, arguments, self._folder, servers):
            names = (call.name,) if call.is_patch_part else claude_names(name, servers)
            fields: JsonObject = {
                "tool_name": call.name,
                "tool_input": call.input,
                "tool_use_id": call_id,
                **(extra_fields or {}),
            }
            inputs.append(HookInput(fields, names, call_id, call.is_patch_part, is_covered=is_call_covered))
        whole_patch = None
        if name == APPLY_PATCH and any(hook_input.is_patch_part for hook_input in inputs):
            patch = claude_input(name, arguments, self._folder)
            fields = {"tool_name": name, "tool_input": patch, "tool_use_id": call_id, **(extra_fields or {})}
            whole_patch = HookInput(fields, names=(name,), tool_use_id=call_id, is_covered=is_call_covered)
        return await self._scope.run(event, inputs, whole_patch)

    def _server_tools(self) -> Mapping[str, str]:
        servers = self._toolbox.servers
        return {} if servers is None else servers.original_names()

    async def _review(self, event: str, answer: HookAnswer, name: str) -> CallReview:
        """Return what an answer decides; warn the user about an invalid input."""
        from qcode.agent.claude.tool_names import UntranslatableError

        rule = f"hook:{event}"
        if answer.decision == "deny":
            return CallReview(Verdict("deny", answer.reason or _DENIED, rule))
        revised: JsonObject | None = None
        if answer.input is not None:
            try:
                revised = self._translate_input(name, answer.input)
            except (UntranslatableError, Refused) as problem:
                reason = f"a hook replaced the input with an invalid one: {problem}"
                await self._scope.warn(f"{event}: {reason}")
                return CallReview(Verdict("ask", reason, rule))
        if answer.decision == "ask":
            return CallReview(Verdict("ask", answer.reason or _ASKED, rule), revised)
        if answer.decision == "allow":
            return CallReview(Verdict("allow", answer.reason or _ALLOWED, rule), revised)
        return CallReview(arguments=revised)

    def _translate_input(self, name: str, values: JsonObject) -> JsonObject:
        """Translate an input from a hook to arguments of the tool.

        Raise `Refused` or `UntranslatableError` if it is invalid.
        """
        from qcode.agent.claude.tool_names import APPLY_PATCH, claude_name, from_claude

        claude_tool = APPLY_PATCH if name == APPLY_PATCH else claude_name(name, self._server_tools())
        _, arguments = from_claude(claude_tool, values)
        spec = self._toolbox.offered_spec(name)
        if spec is None:
            raise Refused(f"{name} is not offered")
        validate_arguments(spec, arguments)
        return arguments

    def _stop_turn(self, answer: HookAnswer) -> str:
        """End the turn after the running calls, and return the reason."""
        reason = answer.stop_reason or answer.reason
        text = f"A hook stopped the turn{f': {reason}' if reason else '.'}"
        self._stop(HookStopped(text))
        return reason or "a hook stopped the turn"


def is_covered(policy: Policy, spec: ToolSpec, arguments: JsonObject, rules: tuple[str, ...]) -> bool:
    """Return whether one of `rules` covers a call or may cover it.

    To find out, judge the call without any rule, and with `rules` as the only deny rules: if a rule covers it, the
    verdicts differ.
    """
    without_rules = replace(policy, mode="bypass", rules=Rules.of(), is_trusted=True, limit=None, never_asks=False)
    with_rules = replace(without_rules, rules=Rules.of(deny=rules))
    return with_rules.judge(spec, arguments) != without_rules.judge(spec, arguments)


def error_text(outcome: ToolOutcome) -> str:
    """Return the error of a failed call; for a command it begins with the exit code."""
    text = outcome.shown_text
    return f"Exit code {outcome.exit_code}\n{text}" if outcome.exit_code else text
