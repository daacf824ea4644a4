"""A wrapper around a provider for models without native tool calls: tools, calls and results are sent as text.

The wrapped provider serves a model marked `text_tool_calls`; the rest of qcode sees ordinary calls and results.
`instructions` teaches one form, `<tool_call>`; all forms in `forms` are understood. `as_text_history` writes calls and
results as plain text. A call splits the text around it, so the blocks of a reply get new numbers. Native calls of the
provider pass through unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import replace
from typing import Protocol

from qcode.protocol.errors import ProviderError
from qcode.protocol.messages import Block, Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import WrappedProvider, closing_stream
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    ReplyStarted,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.tools import ToolSpec
from qcode.providers.history import generate_call_id, text_to_continue
from qcode.providers.text_calls.forms import END_TAG, TAG, WrittenCall
from qcode.providers.text_calls.scanner import RejectedCandidate, ScannedPart, TextCalls, VisibleText


class TextCallProvider(WrappedProvider):
    """A provider for a model that calls tools in the text of its reply."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        """Yield the events of one reply; see `Provider.stream`.

        If the request allows no calls, text passes unchanged.
        """
        async with closing_stream(self.inner.stream(as_text_request(request))) as events:
            if request.tools and request.allows_calls:
                calls = TextCalls(request.tools, before=text_to_continue(request.messages))
                events = as_event_stream(events, calls, tag=str(len(request.messages)), cap=request.max_tokens)
            async with closing_stream(events):
                async for event in events:
                    yield event


def as_text_request(request: ModelRequest) -> ModelRequest:
    """Return the request with its tools in the system text and its calls and results as text."""
    tool_text = instructions(request.tools)
    return replace(
        request,
        system="\n\n".join(part for part in (request.system, tool_text) if part),
        messages=as_text_history(request.messages),
        tools=(),
        allows_calls=True,  # the provider gets no tools whose calls it could forbid
    )


_TRUNCATED_STOPS = (StopReason.MAX_TOKENS, StopReason.CONTEXT_WINDOW_EXCEEDED, StopReason.REFUSAL)


class CallText(Protocol):
    """An extractor of calls from the text of one reply; `TextCalls` documents the members."""

    rejected_candidates: list[RejectedCandidate]
    ends_rejected: bool

    def feed(self, text: str) -> list[ScannedPart]: ...

    def flush(self, *, is_cut: bool = False) -> list[ScannedPart]: ...


class CallEvents:
    """A converter of calls in the text of one reply to call events.

    `tag` makes the ids of calls unique in a conversation. `cap` is the output cap of the request: a reply that used all
    of it was truncated, whatever its stop reason is.
    """

    def __init__(self, calls: CallText, *, tag: str = "0", cap: int | None = None) -> None:
        self._calls = calls
        self._tag = tag
        self._cap = cap
        self._is_recognized = False
        """The model has native calls and was not told to write them as text; set by the subclass in `tail`."""
        self._response_id = ""
        self._output_tokens: int | None = None
        """The reported number of output tokens."""
        self._next_number = 0
        """The new number of the next block."""
        self._new_numbers: dict[int, int] = {}
        """The new number of each block of the provider that is not text."""
        self._source_blocks: set[int] = set()
        """The numbers of the provider's text blocks."""
        self._source_block: int | None = None
        """The number of the provider's current text block."""
        self._source_end: BlockEnded | None = None
        """The end event of the provider's current text block, if it has arrived."""
        self._text_block: int | None = None
        """The new number of the open text block, None between a call and the text after it."""
        self._generated_id_count = 0
        self._is_last_call_complete = True

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        """Return the events that replace `event`."""
        match event:
            case TextDelta():
                return self._feed_text(event)
            case ReasoningDelta() | ToolArgsDelta():
                return self._renumbered(event)
            case ToolCallStarted():
                self._is_last_call_complete = True
                return self._renumbered(event)
            case BlockEnded():
                return self._end_block(event)
            case ReplyEnded():
                return self._end_reply(event)
            case UsageReported():
                if event.usage.output is not None:
                    self._output_tokens = event.usage.output
            case ReplyStarted():
                self._response_id = event.response_id
        return [event]

    def end_broken_stream(self) -> list[ReplyEvent]:
        """Return the events for the held text after the stream broke. An open call is returned as truncated."""
        self._source_end = None
        return self._events_of(self._calls.flush(is_cut=True), ends_cut_call=False)

    def _feed_text(self, event: TextDelta) -> list[ReplyEvent]:
        is_other_block = self._source_block not in (None, event.block)
        earlier_events = self._end_source() if is_other_block or self._source_end else []
        self._source_block = event.block
        self._source_blocks.add(event.block)
        return [*earlier_events, *self._events_of(self._calls.feed(event.text))]

    def _renumbered(self, event: ReasoningDelta | ToolArgsDelta | ToolCallStarted | BlockEnded) -> list[ReplyEvent]:
        """Return an event of a block that is not text with its new number, after the end of the text before it."""
        earlier_events: list[ReplyEvent] = []
        if event.block not in self._new_numbers:
            earlier_events = self._end_source()
            self._new_numbers[event.block] = self._new_block()
        return [*earlier_events, replace(event, block=self._new_numbers[event.block])]

    def _end_block(self, event: BlockEnded) -> list[ReplyEvent]:
        if event.block == self._source_block:
            # Hold the text until the next event, because that may report a truncated reply.
            self._source_end = event
            return []
        if event.block in self._source_blocks:
            return [] if event.opaque is None else self._opaque_block(event.opaque)
        return self._renumbered(event)

    def _end_source(self, *, is_cut: bool = False) -> list[ReplyEvent]:
        """End the current text block, after all held text. `is_cut`: the reply is truncated."""
        events = self._events_of(self._calls.flush(is_cut=is_cut))
        opaque = self._source_end.opaque if self._source_end is not None else None
        self._source_block = self._source_end = None
        if self._text_block is None and opaque is not None:
            return [*events, *self._opaque_block(opaque)]
        return events + self._end_text(opaque)

    def _end_reply(self, event: ReplyEnded) -> list[ReplyEvent]:
        """Return the last events. Calls in the text may change the stop reason."""
        has_used_cap = self._cap is not None and self._output_tokens is not None and self._output_tokens >= self._cap
        events = self._end_source(is_cut=has_used_cap or event.stop in _TRUNCATED_STOPS)
        if event.stop is StopReason.END_TURN:
            if self._generated_id_count and self._is_last_call_complete:
                event = replace(event, stop=StopReason.TOOL_USE)
            elif self._calls.ends_rejected and not self._generated_id_count:
                rejected = self._calls.rejected_candidates
                reason = rejected[-1].reason if rejected else "it is malformed"
                event = replace(event, stop=StopReason.MALFORMED_CALL, detail=reason)
        return [*events, event]

    def _events_of(self, parts: Iterable[ScannedPart], *, ends_cut_call: bool = True) -> list[ReplyEvent]:
        """Return the events for parts of the text. `ends_cut_call`: the block of an incomplete call ends too."""
        events: list[ReplyEvent] = []
        for part in parts:
            if isinstance(part, VisibleText):
                if self._text_block is None:
                    self._text_block = self._new_block()
                events.append(TextDelta(self._text_block, part.text))
                continue
            for call in part.calls:
                events += self._end_text()
                events += self._call_events(call, ends=call.is_complete or ends_cut_call)
        return events

    def _call_events(self, call: WrittenCall, *, ends: bool) -> list[ReplyEvent]:
        self._generated_id_count += 1
        self._is_last_call_complete = call.is_complete
        number = self._new_block()
        call_id = generate_call_id(f"{self._tag}t", self._response_id, self._generated_id_count)
        events: list[ReplyEvent] = [ToolCallStarted(number, call_id, call.name, self._is_recognized)]
        if call.arguments:
            events.append(ToolArgsDelta(number, call.arguments))
        return [*events, BlockEnded(number)] if ends else events

    def _new_block(self) -> int:
        """Return the number of a new block."""
        number = self._next_number
        self._next_number += 1
        return number

    def _opaque_block(self, opaque: Opaque) -> list[ReplyEvent]:
        """Return a block without text that contains data for the provider."""
        number = self._new_block()
        return [TextDelta(number, ""), BlockEnded(number, opaque)]

    def _end_text(self, opaque: Opaque | None = None) -> list[ReplyEvent]:
        number, self._text_block = self._text_block, None
        return [] if number is None else [BlockEnded(number, opaque)]


async def as_event_stream(
    events: AsyncIterable[ReplyEvent], calls: TextCalls, *, tag: str = "0", cap: int | None = None
) -> AsyncIterator[ReplyEvent]:
    """Yield the events of a reply, with call events for the calls in its text; see `CallEvents`.

    If the stream fails, the text that is still held is yielded before the error is raised.
    """
    converter = CallEvents(calls, tag=tag, cap=cap)
    try:
        async for event in events:
            for converted in converter.feed(event):
                yield converted
    except ProviderError:
        for late_event in converter.end_broken_stream():
            yield late_event
        raise


def as_text_history(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages with every call and result written as text. Their roles, order and number stay the same.

    A message without calls and results is returned unchanged. Images of results follow the results. Opaque data of
    text in a message with calls is dropped, because the text changes.
    """
    return tuple(_as_text(message) for message in messages)


def _as_text(message: Message) -> Message:
    if not any(isinstance(block, ToolCall | ToolResult) for block in message.blocks):
        return message
    return _assistant_text(message) if message.role == "assistant" else _user_text(message)


def _assistant_text(message: Message) -> Message:
    blocks: list[Block] = [block for block in message.blocks if isinstance(block, Reasoning)]
    texts: list[str] = []
    for block in message.blocks:
        if isinstance(block, Text) and block.text.strip():
            texts.append(block.text.rstrip())
        elif isinstance(block, ToolCall):
            texts.append(call_text(block))
    return Message("assistant", (*blocks, Text("\n".join(texts))))


def _user_text(message: Message) -> Message:
    results = [block for block in message.blocks if isinstance(block, ToolResult)]
    images: list[Image] = [image for result in results for image in result.images]
    others = [block for block in message.blocks if not isinstance(block, ToolResult)]
    return Message("user", (Text("\n".join(map(result_text, results))), *images, *others))


_RESULT = "tool_result"
_RESULT_TAG = re.compile(rf"<(\s*+(?:/\s*+)?{_RESULT})", re.IGNORECASE)

_RULES = f"""\
# Tools

You can use the tools listed below. To use one, write a call into your reply, in exactly this form and on separate lines:

{TAG}
{{"name": "NAME OF THE TOOL", "arguments": {{"PARAMETER": "VALUE"}}}}
{END_TAG}

- Between the tags, write one JSON object with `name` and `arguments`. In its strings, write a line break as `\\n`, a quote as `\\"` and a backslash as `\\\\`.
- Write calls outside code blocks. For several calls, write several such blocks, one after another.
- After your calls, end your reply. The results come in the next message, each in a `<{_RESULT}>` element; never write one yourself.
- A reply without a call is your final answer to the user. To use a tool, write the call; do not announce it.

Each line below is one tool: its name, what it does, and the JSON Schema of its arguments."""  # noqa: E501 - a paragraph of the text is a line


def instructions(tools: Iterable[ToolSpec]) -> str:
    """Return the instructions about `tools` for the system prompt, empty without tools. Deterministic."""
    lines = [
        _json({"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)})
        for tool in tools
    ]
    return "\n".join([_RULES, "", *lines]) if lines else ""


def call_text(call: ToolCall) -> str:
    """Return a call as the model would have written it. The arguments of a stored call must be valid JSON."""
    return f'{TAG}\n{{"name": {_json(call.name)}, "arguments": {call.arguments or "{}"}}}\n{END_TAG}'


def result_text(result: ToolResult) -> str:
    """Return a result as text for the model. Tags of a result in its content are escaped."""
    content = _RESULT_TAG.sub(r"<\\\1", result.content)
    name = re.sub(r"[^\w.\-]", "_", result.name)
    status = ' status="error"' if result.is_error else ""
    return f'<{_RESULT} name="{name}"{status}>\n{content}\n</{_RESULT}>'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
