"""Sends approvals as `can_use_tool` requests, and converts the answers of the host to decisions.

An error, a malformed answer or the end of the input denies the call. If the host changes the arguments, they are judged
again like an edit by the user, and the call is denied if they are invalid. A host may save only the rule that the
approval proposes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.agent.claude.rules import QCODE_MODES, convert_rule
from qcode.agent.claude.tool_names import UntranslatableError, from_claude
from qcode.agent.mcp.elicitation import DECLINE, LEAVE_OUT
from qcode.agent.outcomes import decision_without_user
from qcode.headless.host.lines import MAX_LINE_CHARS, Names
from qcode.headless.host.requests import RunControls
from qcode.headless.host.wire import HostError, HostWire
from qcode.protocol.approvals import (
    SKIPPED_QUESTION,
    AcceptPlan,
    Allow,
    Answer,
    ApprovalMode,
    CallApproval,
    Decision,
    Deny,
    ImpossibleCall,
    PlanApproval,
    Question,
    RepeatedCall,
    Scope,
    ToolApproval,
)
from qcode.protocol.events import Notice
from qcode.protocol.messages import ToolCall
from qcode.text.clean import one_line, shown_line
from qcode.text.json import Json, JsonObject, object_in, objects_in

if TYPE_CHECKING:
    from qcode.agent.permissions import Permissions

_UNUSABLE = "the host changed the input of the call, and the changed input cannot be used: {reason}"
_TOO_LONG = (
    "not run: the call is too long to be shown to the user ({count:,} characters). Write it to a file in smaller steps"
)
_FOR_THIS_RUN = "folders are added and removed for this run only; pass --add-dir to add them to other runs"
_UNTRUSTED = ". Restricted folder: qcode asks before anything but reading. Start qcode with --trust to lift this"
_TOOLS = {"shell": "Bash", "read": "Read", "edit": "Edit", "fetch": "WebFetch"}


class HostApprovals:
    """Asks the host for decisions. Without `is_asking`, calls that need an approval are denied, as in pipe mode."""

    def __init__(self, wire: HostWire, permissions: Permissions, controls: RunControls, *, is_asking: bool) -> None:
        self.is_asking = is_asking
        self._wire = wire
        self._permissions = permissions
        self._controls = controls

    async def decide(self, approval: CallApproval) -> Decision:
        """Wait for the decision of the host, without a time limit, and return it."""
        if isinstance(approval, Question) and approval.server:
            return await self._ask_with_form(approval)
        if isinstance(approval, ImpossibleCall) or not self.is_asking:
            decision = decision_without_user(approval)
            if isinstance(decision, Deny) and decision.message and not self._permissions.is_trusted:
                return Deny(f"{decision.message}{_UNTRUSTED}")
            return decision
        fields = request_fields(approval, self._controls.names)
        size = len(str(fields["input"]))
        if size > MAX_LINE_CHARS // 2:
            # A call that the user cannot see in full must not run. Half of the line is left for escapes.
            return Deny(_TOO_LONG.format(count=size))
        try:
            answer = await self._wire.request("can_use_tool", fields)
        except HostError as error:
            return Deny(f"the host did not allow the call: {one_line(str(error), 300)}")
        return self._decision(approval, answer)

    async def _ask_with_form(self, question: Question) -> Decision:
        """Send a question of a tool server as a form with one field; only the TypeScript SDK shows it."""
        may_leave_out = any(choice.label == LEAVE_OUT for choice in question.choices)
        schema: JsonObject = {"type": "object", "properties": {"answer": _answer_schema(question)}}
        if not may_leave_out:
            schema["required"] = ["answer"]
        fields: JsonObject = {"mcp_server_name": question.server, "message": question.text, "mode": "form"}
        try:
            reply = await self._wire.request("elicitation", {**fields, "requested_schema": schema})
        except HostError:
            return Deny()
        match reply:
            case {"action": "accept", "content": {"answer": str(text)}} if text:
                return Answer(text)
            case {"action": "accept", "content": {"answer": list(labels)}} if labels:
                return Answer.of_choices(label for label in labels if isinstance(label, str))
            case {"action": "accept"} if may_leave_out:
                return Answer(LEAVE_OUT)
            case {"action": "decline"} if any(choice.label == DECLINE for choice in question.choices):
                return Answer(DECLINE)
            case _:
                return Deny()

    def _decision(self, approval: CallApproval, answer: JsonObject) -> Decision:
        """Convert the answer to a `can_use_tool` request to a decision."""
        match answer:
            case {"behavior": "deny"}:
                if answer.get("interrupt") is True:
                    self._controls.interrupt()
                reason = answer.get("message")
                return Deny(reason if isinstance(reason, str) and reason.strip() else "The user declined.")
            case {"behavior": "allow"} if isinstance(answer.get("updatedInput"), dict | None):
                return self._allow(approval, answer)
            case _:
                return Deny("the host's answer was not valid")

    def _allow(self, approval: CallApproval, answer: JsonObject) -> Decision:
        """Convert an answer that allows a call to the decision for the type of the approval."""
        listed = answer.get("updatedPermissions")
        updates = objects_in(listed) if isinstance(listed, list) else []
        value = answer.get("updatedInput")
        updated_input = value if isinstance(value, dict) else None
        match approval:
            case Question():
                return _answer(approval, updated_input or {})
            case PlanApproval():
                return AcceptPlan(_mode_in(updates))
            case ToolApproval() | RepeatedCall():
                scope = self._scope(approval, updates) if isinstance(approval, ToolApproval) else "once"
                if updated_input is None:
                    return Allow(scope)
                try:
                    return Allow(scope, self._changed_arguments(approval.call, updated_input))
                except UntranslatableError as error:
                    return Deny(_UNUSABLE.format(reason=error))
            case ImpossibleCall():
                return Deny()

    def _changed_arguments(self, call: ToolCall, updated_input: JsonObject) -> JsonObject | None:
        """Return the arguments of an edited call, None if the host changed nothing; may raise `UntranslatableError`."""
        names = self._controls.names
        if updated_input == names.input_of(call):
            return None
        name, arguments = from_claude(names.tool_name(call.name), updated_input)
        if name != call.name:
            raise UntranslatableError("it belongs to another tool")
        return arguments

    def _scope(self, approval: ToolApproval, updates: list[JsonObject]) -> Scope:
        """Apply the permission updates of the answer; return the scope of the approval."""
        scope: Scope = "once"
        proposed = claude_rule(approval.rule)
        for update in updates:
            is_kept = update.get("destination") != "session"  # it holds beyond this session
            if update.get("type") == "addRules" and update.get("behavior") == "allow":
                rules = update.get("rules")
                if proposed is None or rules != [proposed]:
                    self._refuse(update)
                elif is_kept and approval.is_keepable:
                    scope = "folder"
                else:
                    scope = "session"
                continue
            self._apply(update, is_kept=is_kept)
        return scope

    def _apply(self, update: JsonObject, *, is_kept: bool) -> None:
        """Apply an update other than an allow rule; report an update that cannot be applied."""
        try:
            match update:
                case {"type": "setMode", "mode": str(mode)}:
                    self._controls.set_mode(mode)
                case {"type": "addDirectories" | "removeDirectories" as kind, "directories": list(folders)}:
                    if kind == "addDirectories":
                        self._controls.add_folders(folders)
                    else:
                        self._controls.remove_folders(folders)
                    if is_kept:
                        self._controls.notice(Notice("info", _FOR_THIS_RUN))
                case {"type": "addRules", "behavior": "deny" | "ask" as effect, "rules": list(rules)}:
                    for text in (_rule_text(rule) for rule in rules):
                        for rule in convert_rule(text, effect).rules:
                            added = self._permissions.add(effect, rule)
                            if is_kept:
                                self._permissions.save_rule(added.number)
                case {"type": "removeRules", "behavior": "allow", "rules": list(rules)}:
                    self._remove({_rule_text(rule) for rule in rules})
                case _:
                    self._refuse(update)
        except ValueError as problem:
            self._controls.notice(Notice("warning", f"a permission update was not applied: {problem}"))

    def _remove(self, texts: set[str]) -> None:
        """Remove the allow rules of this session with these texts, which are in the form of Claude Code."""
        for rule in self._permissions.rules():
            converted = claude_rule(rule.text) if rule.number and rule.effect == "allow" else None
            if converted is not None and _rule_text(converted) in texts:
                self._permissions.remove(rule.number)

    def _refuse(self, update: JsonObject) -> None:
        kind = shown_line(str(update.get("type")), 40)
        text = f"a permission update was not applied ({kind}): only the proposed rule can be kept"
        self._controls.notice(Notice("warning", text))


def _answer_schema(question: Question) -> JsonObject:
    """Return the JSON Schema of the answer to a question of a tool server."""
    values: list[Json] = [choice.label for choice in question.choices if not choice.is_action]
    if question.is_multi_select:
        return {"type": "array", "items": {"type": "string", "enum": values}}
    if values:
        return {"type": "string", "enum": [choice.label for choice in question.choices]}
    return {"type": "string"}


def request_fields(approval: CallApproval, names: Names) -> JsonObject:
    """Return the fields of the `can_use_tool` request for an approval."""
    call = approval.call
    why = approval.reason if isinstance(approval, ToolApproval) else ""
    agent = approval.agent if isinstance(approval, ToolApproval | RepeatedCall | ImpossibleCall) else ""
    suggestions: list[Json] = [*_suggestions(approval)] if isinstance(approval, ToolApproval) else []
    values = names.input_of(call)
    name = names.tool_name(call.name)
    return {
        "tool_name": name,
        "input": values,
        "tool_use_id": call.call_id,
        "permission_suggestions": suggestions,
        "title": approval.question,
        "display_name": name,
        "description": agent,
        **({"decision_reason": why} if why else {}),
        **({"agent_id": call.call_id.rpartition("/")[0]} if agent else {}),
        **_blocked_path(values, names.folder),
    }


def _blocked_path(values: JsonObject, folder: str) -> JsonObject:
    path = values.get("file_path", values.get("notebook_path"))
    is_outside = isinstance(path, str) and not path.startswith(folder.rstrip("/") + "/")
    return {"blocked_path": path} if is_outside else {}


def _suggestions(approval: ToolApproval) -> list[JsonObject]:
    """Return the updates that the app would offer."""
    updates: list[JsonObject] = []
    rule = claude_rule(approval.rule)
    if rule is not None:
        destinations = ("session", "localSettings") if approval.is_keepable else ("session",)
        updates += [
            {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": destination}
            for destination in destinations
        ]
    if "edits" in approval.offers:
        updates.append({"type": "setMode", "mode": "acceptEdits", "destination": "session"})
    return updates


def claude_rule(rule: str) -> JsonObject | None:
    """Return a rule of qcode in the form of Claude Code, None if it has no equivalent."""
    kind, bracket, after_bracket = rule.partition("(")
    pattern = after_bracket.removesuffix(")")
    if kind == "mcp":
        server, _, tool = pattern.partition("/")
        if not server:
            return None
        return {"toolName": f"mcp__{server}" if tool in ("", "*") else f"mcp__{server}__{tool}"}
    name = _TOOLS.get(kind)
    if name is None:
        return None
    if not bracket:
        return {"toolName": name}
    return {"toolName": name, "ruleContent": f"domain:{pattern}" if kind == "fetch" else pattern}


def _rule_text(rule: Json) -> str:
    """Return a rule of an update as text, such as `Bash(git log)`."""
    match rule:
        case {"toolName": str(name), "ruleContent": str(content)}:
            return f"{name}({content})"
        case {"toolName": str(name)}:
            return name
        case _:
            raise ValueError("a rule needs a toolName")


def _mode_in(updates: list[JsonObject]) -> ApprovalMode:
    """Return the mode that an accepted plan switches to: that of the first update with one, otherwise `default`."""
    modes = (update.get("mode") for update in updates if update.get("type") == "setMode")
    mode = next((mode for mode in modes if isinstance(mode, str)), "default")
    return QCODE_MODES.get(mode, "default")


def _answer(question: Question, updated_input: JsonObject) -> Answer:
    """Return the answer to a question. The host sends `{"answers": {"Which color?": "red"}}`.

    If the arguments of the call contain none of these questions, the first answer counts.
    """
    answers = object_in(updated_input.get("answers"))
    arguments = question.call.arguments
    fitting = [answer for asked, answer in answers.items() if asked and asked in arguments and answer is not None]
    answer = next(iter(fitting or answers.values()), None)
    if isinstance(answer, list):  # several choices, which the host may also send as one text: "red, blue"
        answer = Answer.of_choices(label for label in answer if isinstance(label, str) and label.strip()).text
    return Answer(answer if isinstance(answer, str) and answer.strip() else SKIPPED_QUESTION)
