"""Sends approvals as permission requests and forms, and converts the answers of the client to decisions.

An answer that is not an offered option denies the call. The only I/O is the request to the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from qcode.acp import cards
from qcode.acp.cards import CallCard
from qcode.acp.wire import WireError
from qcode.agent.mcp.elicitation import DECLINE, LEAVE_OUT
from qcode.protocol.approvals import (
    ASKED_BY_QCODE,
    CHANGE_APPROACH,
    SKIPPED_QUESTION,
    AcceptPlan,
    Allow,
    Answer,
    CallApproval,
    Choice,
    Decision,
    Deny,
    ImpossibleCall,
    PlanApproval,
    Question,
    RepeatedCall,
    ServerApproval,
    ToolApproval,
)
from qcode.protocol.tools import ChangedFile
from qcode.safety.rules import rule_in_words
from qcode.text.clean import shown_line, visible
from qcode.text.fences import fenced
from qcode.text.json import Json, JsonObject, parse_object
from qcode.values import dataclass

AskClient: TypeAlias = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Sends a request with a method and parameters to the client; returns the result or raises `WireError`."""
MAX_COMMAND_CHARS = 400_000
"""The maximum length of a command in a permission request."""
_TOO_LONG = (
    "not run: the command is too long to be shown to the user ({count:,} characters). Write it to a script file in "
    "smaller steps"
)
_NO_CHOICES = "This editor cannot show a question without choices. Ask the question in your reply, and end the reply."


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """The client cancelled the turn instead of answering."""


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """An option of a permission request, and the decision if it is chosen."""

    option_id: str
    kind: str
    """The kind in the words of the protocol, such as `allow_once`."""
    name: str
    """The text that the client shows."""
    decision: Decision

    def as_json(self) -> JsonObject:
        return {"optionId": self.option_id, "kind": self.kind, "name": self.name}


def options_of(approval: CallApproval | ServerApproval) -> list[PermissionOption]:
    """Return the options of an approval, in the words of the app.

    A client without a user chooses the first option that allows the call, so the narrowest option comes first. The
    options of the app that change the mode, trust the folder or add a wide rule are not offered.
    """
    deny = PermissionOption("deny", "reject_once", "No", Deny())
    once = PermissionOption("once", "allow_once", "Yes", Allow())
    not_in_session = replace(deny, name="No, not in this session")
    match approval:
        case ToolApproval(rule=rule):
            rule = visible(rule)
            covered = rule_in_words(rule)
            options = [once]
            if rule:
                in_session = f"Yes, and stop asking for {covered} (this session): {rule}"
                options.append(PermissionOption("session", "allow_always", in_session, Allow("session")))
            if rule and approval.is_keepable:
                in_folder = f"Yes, always in this folder: {covered}"
                options.append(PermissionOption("folder", "allow_always", in_folder, Allow("folder")))
            return [*options, deny]
        case PlanApproval(is_trusted=is_trusted):
            options = [PermissionOption("default", "allow_once", "Yes, and ask before each edit", AcceptPlan())]
            if is_trusted:
                accept = AcceptPlan("accept-edits")
                options.append(PermissionOption("accept-edits", "allow_always", "Yes, and accept edits", accept))
            return [*options, PermissionOption("plan", "reject_once", "No, keep planning", Deny())]
        case Question(choices=choices):
            answers = [
                PermissionOption(f"choice-{number}", "allow_once", _choice_title(choice), Answer(choice.label))
                for number, choice in enumerate(choices, start=1)
            ]
            return [*answers, PermissionOption("skip", "reject_once", "Skip", _skip(approval))]
        case ServerApproval(is_login=True):
            return [replace(once, name="Yes, open the browser"), not_in_session]
        case ServerApproval():
            for_session = PermissionOption("once", "allow_once", "Yes, in this session", Allow("session"))
            # For a server, `Allow` without a scope is stored.
            from_now_on = PermissionOption("folder", "allow_always", "Yes, from now on", Allow())
            return [for_session, from_now_on, not_in_session]
        case RepeatedCall():
            change = replace(deny, name="No, change the approach", decision=Deny(CHANGE_APPROACH))
            return [replace(once, name="Yes, run it again"), change]
        case ImpossibleCall():
            return [replace(once, name="Yes, let it try again"), deny]


def _choice_title(choice: Choice) -> str:
    """Return a choice with its detail, for a client that shows one text for each choice."""
    return visible(f"{choice.label}: {choice.detail}" if choice.detail else choice.label)


def _skip(question: Question) -> Decision:
    """Return the decision for a skipped question: it is cancelled for a tool server, and the model gets a hint."""
    return Deny() if question.server else Answer(SKIPPED_QUESTION)


async def ask(
    approval: CallApproval, card: CallCard, session_id: str, folder: str, client: AskClient, *, has_forms: bool
) -> Decision | CancelTurn:
    """Ask the client and return the decision, without a time limit. `has_forms`: the client can show forms."""
    if isinstance(approval, Question):
        if has_forms:
            return await _ask_with_form(approval, card, session_id, client)
        if not approval.choices:
            return Deny() if approval.server else Answer(_NO_CHOICES)
        if approval.is_multi_select:
            return await _ask_for_several(approval, _tool_call(approval, card, folder), session_id, client)
    is_edit = isinstance(approval, ToolApproval) and approval.kind == "edit"
    if len(approval.detail) > MAX_COMMAND_CHARS and not is_edit:
        # A command that the user cannot see in full must not run. A shortened diff contains a note instead.
        return Deny(_TOO_LONG.format(count=len(approval.detail)))
    return await ask_permission(session_id, _tool_call(approval, card, folder), options_of(approval), client)


async def ask_permission(
    session_id: str, tool_call: JsonObject, options: list[PermissionOption], client: AskClient
) -> Decision | CancelTurn:
    """Send a permission request and return the decision."""
    picked = await _pick_option(session_id, tool_call, options, client)
    return picked.decision if isinstance(picked, PermissionOption) else picked


async def _pick_option(
    session_id: str, tool_call: JsonObject, options: list[PermissionOption], client: AskClient
) -> PermissionOption | Deny | CancelTurn:
    """Send a permission request and return the option that the user picked."""
    params: JsonObject = {
        "sessionId": session_id,
        "toolCall": tool_call,
        "options": [option.as_json() for option in options],
    }
    try:
        answer = await client("session/request_permission", params)
    except WireError:
        return Deny("the editor did not answer the permission request")
    match answer.get("outcome"):
        case {"outcome": "cancelled"}:
            return CancelTurn()
        case {"outcome": "selected", "optionId": str(chosen)}:
            picked = next((option for option in options if option.option_id == chosen), None)
            return picked if picked is not None else Deny("the editor chose an option that was not offered")
        case _:
            return Deny("the editor's answer was not valid")


async def _ask_for_several(
    question: Question, tool_call: JsonObject, session_id: str, client: AskClient
) -> Decision | CancelTurn:
    """Ask for several choices. A permission request returns only one option, so repeat it until the user sends them.

    From the second request on, the first option sends the choices. A client without a user chooses it.
    """
    *choice_options, skip = options_of(question)
    actions = [option for choice, option in zip(question.choices, choice_options, strict=True) if choice.is_action]
    chosen: list[PermissionOption] = []
    while True:
        open_options = [option for option in choice_options if option not in chosen]
        options = [*open_options, skip]
        if chosen:
            pairs = zip(question.choices, choice_options, strict=True)
            answer = Answer.of_choices([choice.label for choice, option in pairs if option in chosen])
            options.insert(0, PermissionOption("send", "allow_once", f"Send: {visible(answer.text)}", answer))
        picked = await _pick_option(session_id, tool_call, options, client)
        if not isinstance(picked, PermissionOption):
            return picked
        if picked not in open_options or picked in actions:
            return picked.decision
        chosen.append(picked)


def _tool_call(approval: CallApproval, card: CallCard, folder: str) -> JsonObject:
    """Return the call as the request shows it: the whole command or the diff."""
    call = approval.call
    arguments = parse_object(call.arguments) or {}
    content: list[Json] = []
    if isinstance(approval, ToolApproval) and approval.kind == "edit":
        content = cards.change_content(approval.changes, approval.detail, folder)
    elif approval.detail:
        is_markdown = isinstance(approval, PlanApproval | Question)
        # Never shortened: the user decides by this text.
        text = approval.detail if is_markdown else fenced(approval.detail)
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
    changes: Sequence[ChangedFile] = ()
    if isinstance(approval, ToolApproval):
        changes = approval.changes
        reasons = "\n".join([approval.reason, "", *(f"- {reason}" for reason in approval.reasons)]).strip()
        if reasons:
            content.append(cards.text_content(reasons))
    return {
        "toolCallId": card.card_id,
        "title": _title(approval),
        "kind": cards.kind_of(call.name),
        "status": "pending",
        "content": content,
        "locations": cards.locations_of(call.name, arguments, folder, changes),
        "rawInput": cards.raw_input(arguments),
    }


def _title(approval: CallApproval) -> str:
    """Return the question of an approval, with the tool server or the sub-agent that caused it."""
    title = approval.question
    match approval:
        case Question(server=server) if server:
            return f"{_question_source(approval)} {title}"
        case ToolApproval(agent=agent) | RepeatedCall(agent=agent) | ImpossibleCall(agent=agent) if agent:
            return f"{title} (sub-agent: {shown_line(agent, 100)})"
        case _:
            return title


def _question_source(question: Question) -> str:
    """Return the start of a sentence with the asker, such as `qcode asks:`; empty if the model asks."""
    if not question.server:
        return ""
    if question.server == ASKED_BY_QCODE:
        return "qcode asks:"
    return f"The tool server {shown_line(question.server, 40)} asks:"


async def _ask_with_form(
    question: Question, card: CallCard, session_id: str, client: AskClient
) -> Decision | CancelTurn:
    """Ask with a form: a list of the choices, and a field for an answer in other words if the question accepts it."""
    labels = [choice.label for choice in question.choices]
    properties: JsonObject = {}
    if labels:
        choices: list[Json] = [
            {"const": choice.label, "title": _choice_title(choice)}
            for choice in question.choices
            if not (question.is_multi_select and choice.is_action)
        ]
        if question.is_multi_select:
            properties["answer"] = {"type": "array", "title": "Answers", "items": {"anyOf": choices}}
        else:
            properties["answer"] = {"type": "string", "title": "Answer", "oneOf": choices}
    if question.accepts_text:
        properties["other"] = {"type": "string", "title": "Other answer" if labels else "Answer"}
    params: JsonObject = {
        "mode": "form",
        "sessionId": session_id,
        "toolCallId": card.card_id,
        "message": "\n\n".join(filter(None, (_question_source(question), question.question, question.detail))),
        "requestedSchema": {"type": "object", "properties": properties},
    }
    try:
        answer = await client("elicitation/create", params)
    except WireError:
        return _skip(question)
    content = answer.get("content")
    match answer.get("action"):
        case "accept" if isinstance(content, dict):
            filled_in = _form_answer(question, content.get("answer"), content.get("other"))
            if filled_in is None and question.is_multi_select and LEAVE_OUT in labels:
                return Answer(LEAVE_OUT)
            return filled_in or _skip(question)
        case "decline" if question.server and DECLINE in labels:
            return Answer(DECLINE)  # the choice of the server's form with this label
        case "cancel" if not question.server:
            return CancelTurn()
        case _:
            # Includes "cancel" if a server asks: only the question is dismissed, and the turn continues.
            return _skip(question)


def _form_answer(question: Question, chosen: Json, other: Json) -> Answer | None:
    """Return the answer in the fields of a form; None if they contain none."""
    labels = [choice.label for choice in question.choices if not (question.is_multi_select and choice.is_action)]
    text = other if question.accepts_text and isinstance(other, str) and other.strip() else ""
    if question.is_multi_select:
        picked = chosen if isinstance(chosen, list) else []
        answer = Answer.of_choices([label for label in labels if label in picked], text)
        return answer if answer.text else None
    if text:
        return Answer(text)
    return Answer(chosen) if isinstance(chosen, str) and chosen in labels else None
