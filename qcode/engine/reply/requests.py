"""The requests of a reply: the first request, continuations, and requests to repair a call.

The user messages with which qcode asks for a continuation or a repair are never part of the transcript. `reply_drafts`
are always the blocks of the reply from earlier attempts, and `cap` is the maximum number of output tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from decimal import Decimal

from qcode.engine import synthetic
from qcode.engine.caps import OutputSettings
from qcode.engine.effects import Fallback
from qcode.engine.model_facts import KnownModel
from qcode.engine.reply.assembler import BlockDraft
from qcode.engine.transcript import sendable_blocks
from qcode.protocol.messages import Block, Message, Reasoning, Text, ToolCall, assistant, user
from qcode.protocol.model import Effort, ModelRequest, RetrySettings
from qcode.protocol.tools import ToolSpec
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """The inputs of a reply, shared by all its attempts."""

    system: str
    messages: tuple[Message, ...]
    """A valid history for every provider."""
    tools: tuple[ToolSpec, ...]
    effort: Effort | None = None
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    max_budget_usd: Decimal | None = None
    can_compact: bool = False
    """The conversation may be compacted once if the window is full."""
    fallback: Fallback | None = None
    """The settings of the fallback models, None if there are no such models."""
    note: str = ""
    """A text that is sent with the first request and its repetition with a larger cap, but with no other request."""
    starts_escalated: bool = False
    """The first request already has the larger cap."""
    allows_calls: bool = True
    """The model may make calls. If False, tools are sent only to describe the calls of the history."""

    @property
    def tools_by_name(self) -> dict[str, ToolSpec]:
        return {tool.name: tool for tool in self.tools}


def first_request(plan: ReplyPlan, model: KnownModel, cap: int) -> ModelRequest:
    return replace(_plain_request(plan, model, cap), note=plan.note)


def _plain_request(plan: ReplyPlan, model: KnownModel, cap: int) -> ModelRequest:
    messages = _without_trailing_space(plan.messages)
    return ModelRequest(
        model.name, plan.system, messages, plan.tools, cap, effort=plan.effort, allows_calls=plan.allows_calls
    )


def continuation_request(
    plan: ReplyPlan, model: KnownModel, reply_drafts: Sequence[BlockDraft], cap: int, *, is_broken: bool
) -> ModelRequest:
    """Ask for the continuation of `reply_drafts`, which end with text. `is_broken`: the connection broke.

    If the host can continue an assistant message (prefill), the request ends with an assistant message with the text.
    A text that ends in white space is continued by a user message instead. Some hosts strip white space at the end of a
    prefill, and the model would write it again.
    """
    text = text_of(reply_drafts)
    messages = _with_partial(plan.messages, reply_drafts)
    request = _plain_request(plan, model, cap)
    if model.can_prefill and text == text.rstrip():
        return replace(request, messages=messages, is_prefill=True)
    instruction = synthetic.broken_stream_text(text) if is_broken else synthetic.resume_text(text)
    return replace(request, messages=(*messages, user(instruction)))


def answer_request(plan: ReplyPlan, model: KnownModel, cap: int) -> ModelRequest:
    """Ask for the answer after too much reasoning; an effort above `low` becomes `low`."""
    request = _plain_request(plan, model, cap)
    effort: Effort | None = "low" if plan.effort in ("medium", "high", "max") else plan.effort
    return replace(request, messages=_with_added_text(plan.messages, synthetic.ANSWER_NOW), effort=effort)


def repair_request(plan: ReplyPlan, model: KnownModel, reply_drafts: Sequence[BlockDraft], cap: int) -> ModelRequest:
    """Ask for a well-formed call after a call that the provider could not parse. `reply_drafts` precede that call."""
    messages = _with_added_text(_with_partial(plan.messages, reply_drafts), synthetic.ONE_WELL_FORMED_CALL)
    return replace(_plain_request(plan, model, cap), messages=messages)


def arguments_request(
    plan: ReplyPlan, model: KnownModel, reply_drafts: Sequence[BlockDraft], call: BlockDraft, raw: str, cap: int
) -> ModelRequest:
    """Ask for the rest of a truncated call's arguments. The request contains the text before the call, not the call."""
    instruction = synthetic.resumed_call_text(call.name, raw)
    request = _plain_request(plan, model, cap)
    messages = _with_added_text(_with_partial(plan.messages, reply_drafts), instruction)
    # Some providers reject a history with calls if the request has no tools.
    has_calls = any(message.calls for message in plan.messages)
    return replace(request, messages=messages, tools=request.tools if has_calls else (), allows_calls=False)


def text_of(drafts: Sequence[BlockDraft]) -> str:
    return "".join(draft.text for draft in drafts if draft.kind == "text")


def stored_blocks(drafts: Sequence[BlockDraft]) -> tuple[Block, ...]:
    """Return drafts as blocks of a message: text exactly as shown, calls with valid JSON.

    Reasoning without a signature (`opaque`) is dropped at the end of the message, and before a call unless the message
    begins with it.
    """
    blocks: list[Block] = []
    for index, draft in enumerate(drafts):
        if draft.kind == "text":
            if draft.text or draft.opaque is not None:
                blocks.append(Text(draft.text, draft.opaque))
        elif draft.kind == "reasoning":
            following = drafts[index + 1].kind if index + 1 < len(drafts) else None
            is_trailing = following is None or (following == "call" and bool(blocks))
            if draft.opaque is not None or not is_trailing:
                blocks.append(Reasoning(draft.text, draft.opaque))
        else:
            blocks.append(stored_call(draft))
    return tuple(blocks)


def stored_call(draft: BlockDraft) -> ToolCall:
    arguments = draft.text
    if draft.state != "complete":
        arguments = synthetic.placeholder_arguments(arguments)
    elif not arguments.strip():  # a call without arguments
        arguments = "{}"
    return ToolCall(draft.call_id, draft.name, arguments, draft.opaque, draft.is_from_text)


def _with_partial(messages: tuple[Message, ...], reply_drafts: Sequence[BlockDraft]) -> tuple[Message, ...]:
    """Add the text so far, without calls, as an assistant message; return `messages` unchanged if there is no text."""
    blocks = sendable_blocks(stored_blocks([draft for draft in reply_drafts if draft.kind != "call"]))
    if not any(isinstance(block, Text) for block in blocks):
        return messages
    if messages and messages[-1].role == "assistant":
        return (*messages[:-1], assistant(*messages[-1].blocks, *blocks))
    return (*messages, assistant(*blocks))


def _without_trailing_space(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Strip white space from the end of a paused reply that is sent back, because some hosts reject it."""
    last = messages[-1] if messages else None
    if last is None or last.role == "user" or not isinstance(last.blocks[-1], Text):
        return messages
    text = last.blocks[-1]
    if text.text == text.text.rstrip():
        return messages
    return (*messages[:-1], assistant(*last.blocks[:-1], replace(text, text=text.text.rstrip())))


def _with_added_text(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """Append a text to the last user message, or add a user message after an assistant message."""
    if messages and messages[-1].role == "user":
        last = messages[-1]
        return (*messages[:-1], Message("user", (*last.blocks, Text(text))))
    return (*messages, user(text))
