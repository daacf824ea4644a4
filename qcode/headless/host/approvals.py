"""Sends approvals as `can_use_tool` requests, and converts the answers of the host to decisions.

An error, a malformed answer or the end of the input denies the call. If the host changes the arguments, they are judged
again like an edit by the user, and the call is denied if they are invalid. A host may save only the rule that the
approval proposes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.agent.claude.rules import QCODE_MODES, convert_rule
from qcode.agent.claude.tool_names import UntranslatableError, from_claude
from qcode.agent.outcomes import decision_without_user
from qcode.headless.host.lines import MAX_LINE_CHARS, Names
from qcode.headless.host.requests import RunControls
from qcode.headless.host.wire import HostError, HostWire
from qcode.protocol.approvals import (
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
    Revise,
    Scope,
    ToolApproval,
)
from qcode.protocol.events import Notice
from qcode.protocol.messages import ToolCall
from qcode.text.clean import one_line, shown_line
from qcode.text.json import Json, JsonObject

if TYPE_CHECKING:
    from qcode.agent.permissions import Permissions

DECLINE = "Decline"
"""The choice that declines a question of a tool server. Dismissing the question cancels it instead."""
_SKIPPED = "The user skipped the question. Choose the most likely intention and continue."
_UNUSABLE = "the host changed the input of the call, and the changed input cannot be used: {reason}"
_TOO_LONG = (
    "not run: the call is too long to be shown to the user ({count:,} characters). Write it to a file in smaller steps"
)
_FOR_THIS_RUN = "folders are added and removed for this run only; pass --add-dir to add them to other runs"
_UNTRUSTED = ". This folder is not trusted: only reading needs no approval in it. Start qcode with --trust to trust it"
_TOOLS = {"shell": "Bash", "read": "Read", "edit": "Edit", "fetch": "WebFetch"}


class HostApprovals:
    """Asks the host for decisions. Without `is_asking`, calls that need an approval are denied, as in pipe mode."""

    def __init__(self, wire: HostWire, permissions: Permissions, controls: RunControls, *, is_asking: bool) -> None:
        self.is_asking = is_asking
        self._wire = wire
        self._permissions = permissions
        self._controls = controls
        self._edited_allows: dict[str, Allow] = {}

    async def decide(self, approval: CallApproval) -> Decision:
        """Wait for the decision of the host, without a time limit, and return it."""
        if isinstance(approval, Question) and approval.server:
            return await self._ask_with_form(approval)
        if isinstance(approval, ImpossibleCall) or not self.is_asking:
            decision = decision_without_user(approval)
            if isinstance(decision, Deny) and decision.message and not self._permissions.is_trusted:
                return Deny(f"{decision.message}{_UNTRUSTED}")
            return decision
        if (allowed := self._edited_allows.pop(approval.id, None)) is not None:
            # The changed input was judged. If it was invalid, this is the original call again.
            if isinstance(approval, ToolApproval) and approval.is_revised:
                return allowed
            return Deny(_UNUSABLE.format(reason="see the notice before it"))
        fields = request_fields(approval, self._controls.names)
        size = len(str(fields["input"]))
        if size > MAX_LINE_CHARS // 2:
            # A call that the user cannot see in full must not run.
            return Deny(_TOO_LONG.format(count=size))
        try:
            answer = await self._wire.request("can_use_tool", fields)
        except HostError as error:
            return Deny(f"the host did not allow the call: {one_line(str(error), 300)}")
        return self._decision(approval, answer)

    async def _ask_with_form(self, question: Question) -> Decision:
        """Send a question of a tool server as a form with one field; only the TypeScript SDK shows it."""
        answer: JsonObject = {"type": "string"}
        if question.choices:
            answer["enum"] = [choice.label for choice in question.choices]
        schema: JsonObject = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
        fields: JsonObject = {"mcp_server_name": question.server, "message": question.text, "mode": "form"}
        try:
            reply = await self._wire.request("elicitation", {**fields, "requested_schema": schema})
        except HostError:
            return Deny()
        match reply:
            case {"action": "accept", "content": {"answer": str(text)}}:
                return Answer(text)
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
        updates = answer.get("updatedPermissions")
        accepted = [update for update in updates if isinstance(update, dict)] if isinstance(updates, list) else []
        value = answer.get("updatedInput")
        values = value if isinstance(value, dict) else None
        match approval:
            case Question():
                return _answer(approval, values or {})
            case PlanApproval():
                mode = self._plan_mode(accepted)
                return AcceptPlan(mode)
            case RepeatedCall():
                return Allow()
            case ToolApproval():
                allow = Allow(self._scope(approval, accepted))
                revised = self._revision(approval.call, values) if values is not None else None
                if isinstance(revised, Revise):
                    self._edited_allows[approval.id] = allow
                return revised or allow
            case ImpossibleCall():
                return Deny()

    def _revision(self, call: ToolCall, values: JsonObject) -> Decision | None:
        """Return the host's edit of a call, a denial if it cannot be translated, None if nothing changed."""
        names = self._controls.names
        if values == names.input_of(call):
            return None
        try:
            name, arguments = from_claude(names.tool_name(call.name), values)
        except UntranslatableError as error:
            return Deny(_UNUSABLE.format(reason=error))
        if name != call.name:
            return Deny(_UNUSABLE.format(reason="it belongs to another tool"))
        return Revise(arguments=arguments)

    def _plan_mode(self, updates: list[JsonObject]) -> ApprovalMode:
        for update in updates:
            if update.get("type") == "setMode" and isinstance(mode := update.get("mode"), str):
                return QCODE_MODES.get(mode, "default")
        return "default"

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
                    self._controls.use_folders(folders, are_added=kind == "addDirectories")
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
        for rule in self._permissions.rules():
            claude_text = claude_rule(rule.text)
            if rule.number and rule.effect == "allow" and claude_text is not None and _rule_text(claude_text) in texts:
                self._permissions.remove(rule.number)

    def _refuse(self, update: JsonObject) -> None:
        kind = shown_line(str(update.get("type")), 40)
        text = f"a permission update was not applied ({kind}): only the proposed rule can be kept"
        self._controls.notice(Notice("warning", text))


def request_fields(approval: CallApproval, names: Names) -> JsonObject:
    """Return the fields of the `can_use_tool` request for an approval."""
    call = approval.call
    why = approval.why if isinstance(approval, ToolApproval) else ""
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
        return {"toolName": f"mcp__{server}" if tool in ("", "*") else f"mcp__{server}__{tool}"} if server else None
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


def _answer(question: Question, values: JsonObject) -> Answer:
    """Return the answer to this question. The host sends answers by the text of their questions.

    If no text fits, the first answer is returned.
    """
    answers = values.get("answers")
    typed = answers if isinstance(answers, dict) else {}
    arguments = question.call.arguments
    chosen = next((text for key, text in typed.items() if key and key in arguments), None)
    chosen = chosen if chosen is not None else next(iter(typed.values()), None)
    if isinstance(chosen, list):
        chosen = ", ".join(str(item) for item in chosen)
    return Answer(chosen if isinstance(chosen, str) and chosen.strip() else _SKIPPED)
