"""Chat Completions as data: a `ModelRequest` to a body, chunks to reply events. Pure; no SDK.

Source of the shapes: OpenAI's API reference (chat/create and chat/streaming). Variations of other servers are in
`quirks` for requests, and tolerated by the decoder for replies.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import Effort, ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, StopReason, UsageReported
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.providers.blocks import BlockKind, BlockWriter, EndState, normalize_stop
from qcode.providers.errors import error_of_stream, is_error_object
from qcode.providers.history import (
    EncodedMessages,
    assistant_blocks,
    fit_call_id,
    generate_call_id,
    has_calls,
    normalize_messages,
    results_first,
    start_of_tool_loop,
    with_request_note,
)
from qcode.providers.openai.quirks import ChatQuirks, model_quirks
from qcode.text.json import (
    Json,
    JsonObject,
    count_in,
    object_in,
    objects_in,
    parse_object,
    sendable,
    sendable_json,
    text_in,
)
from qcode.values import dataclass

_BASIC_EFFORTS = {"minimal": "low", "max": "high"}
"""The nearest effort that servers with `quirks.effort` `basic` accept."""
_RESULTS_SEEN = "Understood."
"""An assistant message between tool results and the next user message, for hosts that require one."""


def encode(request: ModelRequest, quirks: ChatQuirks, encoded: EncodedMessages | None = None) -> JsonObject:
    """Return the request body. The output cap is always sent, in the field that this server reads.

    With `encoded`, the body lacks the system prompt and the messages whose encoding is final; `encoded.body` adds them.
    """
    quirks = model_quirks(quirks, request.model)
    messages = _messages(request, quirks, encoded)
    body: JsonObject = {"model": request.model, "messages": messages, "stream": True}
    body[quirks.max_tokens_field] = request.max_tokens
    if quirks.sends_stream_options:
        body["stream_options"] = {"include_usage": True}
    # If the history has calls, definitions are sent: the chat templates of some servers need them to render it.
    if request.tools and (request.allows_calls or has_calls(request)):
        body["tools"] = [_tool(tool) for tool in request.tools]
        if not request.allows_calls:
            body["tool_choice"] = "none"
    if request.effort is not None:
        body.update(_effort(request.effort, quirks, request.model))
    if request.is_prefill and quirks.prefill == "continue_final_message":
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False
    return body


def _messages(request: ModelRequest, quirks: ChatQuirks, encoded: EncodedMessages | None) -> list[Json]:
    """Return the system prompt and the messages in the form of the API."""
    unsettled: Sequence[Message] = with_request_note(request)
    used_ids: set[str] = set()
    api_messages: list[Json] = []
    if request.system:
        api_messages.append({"role": "system", "content": sendable(request.system)})
    if encoded is not None:
        # Reasoning is sent back only inside the running tool loop. After the loop its messages are encoded again
        # without reasoning, so their encoding is not final before.
        limit = start_of_tool_loop(unsettled) if quirks.echoes_reasoning else None
        encoded.begin(api_messages)
        unsettled, used_ids = encoded.encode_settled(
            unsettled,
            variant=request.model,
            encode=partial(_encode_settled, quirks, encoded, request.model),
            limit=limit,
        )
        api_messages = []
    messages = _alternating_messages(unsettled, quirks, used_ids)
    loop_start = start_of_tool_loop(messages)
    cache = encoded or EncodedMessages()
    for index, message in enumerate(messages):
        is_prefill = request.is_prefill and index == len(messages) - 1 and message.role == "assistant"
        echoes_reasoning = quirks.echoes_reasoning and index >= loop_start
        if is_prefill and quirks.prefill in ("prefix", "partial"):
            api_messages.append(
                {**_assistant(message, quirks, echoes_reasoning=echoes_reasoning), quirks.prefill: True}
            )
        else:
            api_messages += _encode_message(message, quirks, cache, request.model, echoes_reasoning=echoes_reasoning)
    return api_messages


def _encode_settled(
    quirks: ChatQuirks, encoded: EncodedMessages, model: str, messages: Sequence[Message], used_ids: set[str]
) -> list[Json]:
    """Encode messages whose encoding is final; see `EncodedMessages.encode_settled`."""
    alternating = _alternating_messages(messages, quirks, used_ids)
    return [
        item
        for message in alternating
        for item in _encode_message(message, quirks, encoded, model, echoes_reasoning=False)
    ]


def _alternating_messages(messages: Sequence[Message], quirks: ChatQuirks, used_ids: set[str]) -> list[Message]:
    non_empty = [message for message in messages if message.role == "user" or _has_content(message)]
    return normalize_messages(non_empty, partial(_call_id, quirks=quirks), used_ids)


def _encode_message(
    message: Message, quirks: ChatQuirks, encoded: EncodedMessages, model: str, *, echoes_reasoning: bool
) -> list[Json]:
    if message.role == "user":
        return encoded.encode_once(message, partial(_user, message, quirks), variant=model)
    return encoded.encode_once(
        message,
        lambda: [_assistant(message, quirks, echoes_reasoning=echoes_reasoning)],
        variant=f"{model} {echoes_reasoning}",
    )


def _has_content(message: Message) -> bool:
    """Return whether an assistant message has content that can be sent; reasoning alone cannot."""
    return any(isinstance(block, ToolCall) or (isinstance(block, Text) and block.text) for block in message.blocks)


def _user(message: Message, quirks: ChatQuirks) -> list[Json]:
    """Return a tool message for each result, then a user message with their images and all other content."""
    results, others = results_first(message.blocks)
    api_messages: list[Json] = [_result(result) for result in results]
    user_content = _user_parts(results, others)
    if user_content is None:
        return api_messages
    if results and quirks.answers_results:
        api_messages.append({"role": "assistant", "content": _RESULTS_SEEN})
    return [*api_messages, {"role": "user", "content": user_content}]


def _user_parts(results: list[ToolResult], others: list[Text | Image]) -> Json:
    """Return the content of a user message without its results, None if it is empty."""
    parts: list[Json] = []
    for result in results:
        if result.images:
            parts.append(_text_part(f"Images returned by {result.name}:"))
            parts += [_image_part(image) for image in result.images]
    texts = [block.text for block in others if isinstance(block, Text) and block.text]
    has_images = bool(parts) or any(isinstance(block, Image) for block in others)
    if not has_images:
        if results and not texts:
            return None
        return sendable("\n\n".join(texts))
    for block in others:
        if isinstance(block, Image):
            parts.append(_image_part(block))
        elif block.text:
            parts.append(_text_part(block.text))
    return parts


def _assistant(message: Message, quirks: ChatQuirks, *, echoes_reasoning: bool) -> JsonObject:
    blocks = assistant_blocks(message.blocks)
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    calls: list[Json] = [_call(block) for block in blocks if isinstance(block, ToolCall)]
    api_message: JsonObject = {"role": "assistant", "content": sendable(text) if text else None}
    if calls:
        api_message["tool_calls"] = calls
        reasoning = "".join(block.text for block in blocks if isinstance(block, Reasoning))
        if echoes_reasoning:
            api_message[quirks.reasoning_field or "reasoning_content"] = sendable(reasoning)
    return api_message


def _call(call: ToolCall) -> JsonObject:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": sendable_json(call.arguments)},
    }


def _result(result: ToolResult) -> JsonObject:
    content = result.content
    if result.is_error and not content.lower().startswith("error"):
        # The protocol has no error field for results.
        content = f"Error: {content}"
    return {"role": "tool", "tool_call_id": result.call_id, "content": sendable(content)}


def _call_id(call_id: str, quirks: ChatQuirks) -> str:
    match quirks.call_ids:
        case "mistral":
            return fit_call_id(call_id, max_length=9, is_exact=True)
        case "openai":
            return fit_call_id(call_id, max_length=40)
        case "any":
            return call_id or fit_call_id(call_id, max_length=40)


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": sendable(text)}


def _image_part(image: Image) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}


def _tool(tool: ToolSpec) -> JsonObject:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def _effort(effort: Effort, quirks: ChatQuirks, model: str) -> JsonObject:
    """Return the reasoning effort in the field that this server reads."""
    match quirks.effort:
        case "openai":
            return {"reasoning_effort": effort}
        case "basic":
            return {"reasoning_effort": _BASIC_EFFORTS.get(effort, effort)}
        case "thinking":
            return {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
        case "mistral":
            # Models without adjustable reasoning reject the field.
            if not model.lower().startswith("mistral-"):
                return {}
            return {"reasoning_effort": "none" if effort in ("none", "minimal") else "high"}
        case "enable_thinking":
            return {"enable_thinking": effort != "none"}


@dataclass(slots=True)
class _StreamedCall:
    """A call of the reply."""

    block: int
    index: int | None
    """The number that the server gave the call, None if it gave none."""
    name: str
    fragments: list[str] = field(default_factory=list)
    """The argument text so far."""

    @property
    def is_closed(self) -> bool:
        """Whether the arguments are complete, so that the next delta with a name starts another call."""
        return parse_object("".join(self.fragments)) is not None


class CallDeltas:
    """A collector of the calls of one reply: it assigns deltas to calls and writes the calls to `blocks`.

    Some servers omit the index or the id of a delta. Others send index 0 for every call, repeat an id, create a new id
    for every delta, or send arguments as an object. So a delta continues the call with its id, otherwise the call with
    its index, otherwise the latest call. A name starts a new call if the id is new, the name differs, or the arguments
    are already complete.
    """

    def __init__(self, blocks: BlockWriter, *, tag: str) -> None:
        self._blocks = blocks
        self._tag = tag
        self._calls: list[_StreamedCall] = []
        self._by_id: dict[str, _StreamedCall] = {}
        self._by_index: dict[int, _StreamedCall] = {}
        self._last: _StreamedCall | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, delta: JsonObject, response_id: str) -> list[ReplyEvent]:
        """Return the events of one delta; no events if it neither starts nor continues a call."""
        function = object_in(delta.get("function")) or delta
        name = text_in(function.get("name"))
        call_id = text_in(delta.get("id"))
        raw_index = delta.get("index")
        index = raw_index if isinstance(raw_index, int) and not isinstance(raw_index, bool) else None
        events: list[ReplyEvent] = []
        call = self._find(call_id, index, name)
        if call is None:
            if not name:
                return []
            if not call_id or call_id in self._by_id:
                call_id = generate_call_id(self._tag, response_id, len(self._calls) + 1)
            started = self._blocks.begin_call(call_id, name)
            events = started.events
            call = self._record(call_id, _StreamedCall(started.block, index, name))
        self._last = call
        text = _arguments(function.get("arguments"))
        if text:
            call.fragments.append(text)
            events += self._blocks.write(call.block, text)
        return events

    def _find(self, call_id: str, index: int | None, name: str) -> _StreamedCall | None:
        """Return the call that a delta continues, None if the delta starts a call; see the class."""
        same_id = self._by_id.get(call_id) if call_id else None
        if same_id is not None:
            # Some servers repeat one id for several calls, which then differ in their index.
            has_other_index = index is not None and same_id.index not in (None, index)
            return None if name and has_other_index else same_id
        if call_id and name:
            return None
        call = self._last if index is None else self._by_index.get(index)
        if not name:
            return call or self._last
        is_continued = call is not None and name == call.name and not call.is_closed
        return call if is_continued else None

    def _record(self, call_id: str, call: _StreamedCall) -> _StreamedCall:
        """Record a call that has started; return it."""
        self._calls.append(call)
        self._by_id[call_id] = call
        if call.index is not None:
            self._by_index[call.index] = call
        return call


def _arguments(value: Json) -> str:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return text_in(value)


_log = logging.getLogger(__name__)

STOPS: Mapping[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "eos": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "context_length_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,
    "content_filter": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "sensitive": StopReason.REFUSAL,
}
"""`finish_reason` as sent by OpenAI and compatible servers."""

FAILURES: Mapping[str, ErrorKind] = {
    "error": ErrorKind.SERVER,
    "network_error": ErrorKind.SERVER,
    "insufficient_system_resource": ErrorKind.OVERLOADED,
}
"""Values of `finish_reason` that some servers send for an error."""


class ChatDecoder(EndState):
    """A decoder of the chunks of one reply. `tag` makes generated call ids unique in a conversation."""

    def __init__(self, quirks: ChatQuirks | None = None, *, tag: str = "0") -> None:
        super().__init__()
        self._reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
        if quirks is not None and quirks.reasoning_field not in ("", *self._reasoning_fields):
            self._reasoning_fields = (quirks.reasoning_field, *self._reasoning_fields)
        self._blocks = BlockWriter()
        self._calls = CallDeltas(self._blocks, tag=tag)
        self._response_id = ""
        self._has_started = False
        self._refusal = ""
        self._detail = ""
        self._usage = Usage()

    def feed(self, chunk: JsonObject) -> list[ReplyEvent]:
        if is_error_object(chunk):
            raise error_of_stream(chunk)
        choices = objects_in(chunk.get("choices"))
        usage = _usage_in(chunk, choices)
        if not choices and usage is None:
            return []
        events = self._start(chunk)
        for choice in choices:
            # Only one choice is requested; others are ignored.
            if choice.get("index") in (None, 0):
                events += self._choice(choice)
        if usage is not None and usage != self._usage:
            self._usage = usage
            events.append(UsageReported(usage))
        return events

    def finish(self) -> list[ReplyEvent]:
        if not self.is_complete or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply was complete")
        raw = self._raw_stop or ""
        stop = normalize_stop(STOPS, raw, has_calls=bool(self._calls))
        if self._refusal and stop is StopReason.END_TURN:
            stop = StopReason.REFUSAL
        return [*self._blocks.end_all(), ReplyEnded(stop, raw, self._refusal or self._detail)]

    def _start(self, chunk: JsonObject) -> list[ReplyEvent]:
        if self._has_started:
            return []
        self._has_started = True
        self._response_id = text_in(chunk.get("id"))
        return [ReplyStarted(text_in(chunk.get("model")), self._response_id)]

    def _choice(self, choice: JsonObject) -> list[ReplyEvent]:
        delta = object_in(choice.get("delta"))
        if not delta and not self._blocks.count:
            delta = object_in(choice.get("message"))  # a server that does not stream
        events: list[ReplyEvent] = []
        for name in self._reasoning_fields:
            if reasoning := text_in(delta.get(name)):
                events += self._blocks.append(BlockKind.REASONING, reasoning)
                break
        events += self._content(delta.get("content"))
        if refusal := text_in(delta.get("refusal")):
            self._refusal += refusal
            events += self._blocks.append(BlockKind.TEXT, refusal)
        for call in [*objects_in(delta.get("tool_calls")), *objects_in(delta.get("function_call"))]:
            events += self._calls.feed(call, self._response_id)
        self._read_stop(choice)
        return events

    def _content(self, content: Json) -> list[ReplyEvent]:
        """Return the events of `content`: a text, or a list of parts, as Mistral's reasoning models send it."""
        if isinstance(content, str):
            return self._blocks.append(BlockKind.TEXT, content)
        events: list[ReplyEvent] = []
        for part in objects_in(content):
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                text = text_in(inner) or "".join(text_in(part.get("text")) for part in objects_in(inner))
                events += self._blocks.append(BlockKind.REASONING, text)
            else:
                events += self._blocks.append(BlockKind.TEXT, text_in(part.get("text")))
        return events

    def _read_stop(self, choice: JsonObject) -> None:
        """Store the stop reason. Raise `ProviderError` if it stands for an error."""
        raw = text_in(choice.get("finish_reason"))
        if choice.get("error"):
            raise error_of_stream(choice)
        # Some servers send the word "null" until the reply ends.
        if not raw or raw == "null":
            return
        if raw in FAILURES:
            raise ProviderError(FAILURES[raw], f"the server aborted the reply: {raw}", code=raw)
        if raw.lower() not in STOPS:
            _log.info("unknown finish_reason %r", raw)
        self._raw_stop = raw
        self._detail = self._detail or _filters_in(choice)


def _filters_in(choice: JsonObject) -> str:
    """Return the names of Azure's content filters that were triggered."""
    results = object_in(choice.get("content_filter_results"))
    return ", ".join(name for name, result in results.items() if object_in(result).get("filtered") is True)


def _usage_in(chunk: JsonObject, choices: list[JsonObject]) -> Usage | None:
    """Return the usage in a chunk, from the field of OpenAI, Groq or Kimi; None if there is none."""
    usage = object_in(chunk.get("usage")) or object_in(object_in(chunk.get("x_groq")).get("usage"))
    if not usage and choices:
        usage = object_in(choices[0].get("usage"))
    if not usage:
        return None
    prompt = object_in(usage.get("prompt_tokens_details"))
    completion = object_in(usage.get("completion_tokens_details"))
    cached = (prompt.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    cached_counts = [count for count in map(count_in, cached) if count is not None]
    return Usage(
        input=count_in(usage.get("prompt_tokens")),
        output=count_in(usage.get("completion_tokens")),
        cache_read=cached_counts[0] if cached_counts else None,
        cache_write=count_in(prompt.get("cache_write_tokens")),
        reasoning=count_in(completion.get("reasoning_tokens")),
    )
