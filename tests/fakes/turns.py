"""Scripted answers of a fake server, and the requests it received, independent of any protocol.

A `Turn` is one answer; the wire modules render it in the real format of each protocol. `Faults` are errors of the
stream. This module uses no socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal, TypeAlias

from qcode.protocol.messages import Message, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from qcode.text.json import parse_object

CHARS_PER_TOKEN = 4
AUTO = "auto"
_PIECE_CHARS = 400


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model."""

    name: str
    arguments: str = "{}"
    """The raw text, which may be truncated."""
    call_id: str = ""
    """The id. If it is empty and the protocol has ids, one is generated."""

    @property
    def pieces(self) -> tuple[str, ...]:
        """The argument text as it streams: in three pieces at most."""
        size = max(1, ceil(len(self.arguments) / 3))
        return tuple(self.arguments[start : start + size] for start in range(0, len(self.arguments), size))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP error instead of a stream."""

    status: int
    message: str = "refused by the script"
    code: str | None = None
    """The error code, None for the code that the protocol has for the status."""
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    """The raw body, None for `message`, `code` and `param` in the error format of the protocol."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of a stream, whose events are SSE events."""

    first_byte_delay: float = 0.0
    """Seconds before the status line."""
    pace: float = 0.0
    """Seconds before each event."""
    cut_after: int | None = None
    """The number of events after which the socket is closed."""
    cut_inside: bool = False
    """`cut_after` also sends the first half of the next event."""
    stall_after: int | None = None
    """The number of events after which nothing is sent until `FakeServer.release` is called."""
    error_after: int | None = None
    """The number of events after which `error` is sent as an event and the stream ends."""
    error: Refusal = field(default_factory=lambda: Refusal(529, "the fake host is overloaded"))
    without_end: bool = False
    """The stop reason, usage and end marker are missing."""
    without_done: bool = False
    """Only the end marker is missing."""
    late_usage: bool | None = None
    """Usage is a separate event after the stop reason (True), or on the event of the stop reason (False).

    None is the way of the protocol.
    """
    split_every: int | None = None
    """The number of bytes that are sent at a time."""
    crlf: bool | None = None
    """Lines end with CRLF (True) or LF (False); None is the way of the protocol."""
    comments: bool = False
    """A comment precedes each event."""
    many_data_lines: bool = False
    """The JSON of an event is spread over several data lines."""
    without_last_blank: bool = False
    """The blank line after the last event is missing."""
    inserted: Mapping[int, bytes] = field(default_factory=dict)
    """Raw bytes to send before an event, by the index of the event."""
    damaged: str = ""
    """The first event that contains this text loses its second half."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer: reasoning, then text, then calls. Reasoning and text may be given as the pieces to stream."""

    text: str | Sequence[str] = ()
    reasoning: str | Sequence[str] = ()
    calls: Sequence[Call] = ()
    stop: StopReason | str | None = AUTO
    """The stop reason. A `StopReason` is sent as the protocol's word for it, any other text unchanged, None as null.

    `AUTO` is `TOOL_USE` with calls and `END_TURN` without.
    """
    usage: Usage | None = field(default_factory=lambda: Usage(input=10, output=5))
    """The reported usage, None if the host reports none."""
    signature: str = "c2lnbmF0dXJl"
    refusal: Refusal | None = None
    faults: Faults = field(default_factory=Faults)

    @property
    def text_pieces(self) -> tuple[str, ...]:
        return _pieces(self.text)

    @property
    def reasoning_pieces(self) -> tuple[str, ...]:
        return _pieces(self.reasoning)

    def stop_word(self, words: Mapping[StopReason, str]) -> str | None:
        """Return the word to send, given the protocol's own `words`."""
        stop = self.stop
        if stop == AUTO:
            stop = StopReason.TOOL_USE if self.calls else StopReason.END_TURN
        return words[stop] if isinstance(stop, StopReason) else stop


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that the server received, with its parsed content."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str = ""
    cap: int | None = None
    """The output cap, None if the request has none."""
    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of the current turn: those after the last user message that has only text."""
        current: list[ToolResult] = []
        for message in self.messages:
            results = [block for block in message.blocks if isinstance(block, ToolResult)]
            current = [*current, *results] if results or message.role == "assistant" else []
        return tuple(current)


Script: TypeAlias = Sequence[Turn] | Callable[[ReceivedRequest], Turn]


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE event."""

    data: str
    event: str = ""
    part: Literal["body", "stop", "usage", "done"] = "body"
    """The content of the event: a part of the reply, the stop reason, usage alone, or the end marker."""


def refused(
    status: int,
    message: str = "refused by the script",
    *,
    code: str | None = None,
    param: str | None = None,
    retry_after: float | str | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
) -> Turn:
    """Return a turn that is an HTTP error; `retry_after` is seconds or an HTTP date."""
    extra = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Turn(refusal=Refusal(status, message, code, param, {**extra, **(headers or {})}, body))


def truthful(
    text: str, *, limit: int | None = None, silent_limit: int | None = None
) -> Callable[[ReceivedRequest], Turn]:
    """Return a script that serves `text`, honors the cap of each request and continues at the end of the sent text.

    A token is `CHARS_PER_TOKEN` characters. All assistant text of a request counts as sent, so a continuation gets
    exactly the remaining text. A cap above `limit` is refused with a 400 that names the limit. `silent_limit` is a
    lower cap that the host applies without an error.
    """

    def answer(request: ReceivedRequest) -> Turn:
        cap = request.cap or limit or 8_000
        if limit is not None and cap > limit:
            return refused(
                400, f"max_tokens is too large: {cap}. This model supports at most {limit} tokens.", param="max_tokens"
            )
        sent = "".join(message.text for message in request.messages if message.role == "assistant")
        start = len(sent)
        if not text.startswith(sent):  # such as after a compaction: the end of the sent text decides
            start = text.rfind(sent[-200:]) + len(sent[-200:])
        max_chars = min(cap, silent_limit or cap) * CHARS_PER_TOKEN
        part = text[start : start + max_chars]
        is_cut = start + len(part) < len(text)
        return Turn(
            text=[part[index : index + _PIECE_CHARS] for index in range(0, len(part), _PIECE_CHARS)],
            stop=StopReason.MAX_TOKENS if is_cut else StopReason.END_TURN,
            usage=Usage(input=_size(request) // CHARS_PER_TOKEN + 1, output=ceil(len(part) / CHARS_PER_TOKEN)),
        )

    return answer


def complaint_about(messages: Sequence[Message]) -> str | None:
    """Return why a strict host refuses `messages`, None if it accepts them.

    The messages come from `merged`. Each call must have one result, at the start of the message after the call.
    """
    if not messages:
        return "there are no messages"
    if messages[0].role != "user":
        return "the first message is not the user's"
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        results = [block for block in message.blocks if isinstance(block, ToolResult)]
        ids = sorted(result.call_id for result in results)
        if ids != sorted(open_calls):
            return f"message {number}: results {ids} do not answer calls {sorted(open_calls)}"
        if not message.blocks:
            return f"message {number} is empty"
        if not all(isinstance(block, ToolResult) for block in message.blocks[: len(results)]):
            return f"message {number}: a part comes before the results"
        for call in message.calls:
            if parse_object(call.arguments) is None:
                return f"message {number}: the arguments of call {call.call_id} are not a JSON object"
        open_calls = [call.call_id for call in message.calls]
    return f"calls {open_calls} have no results" if open_calls else None


def merged(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` with successive messages of one role joined, as hosts do that accept them."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role:
            joined[-1] = Message(message.role, (*joined[-1].blocks, *message.blocks))
        else:
            joined.append(message)
    return tuple(joined)


def _pieces(text: str | Sequence[str]) -> tuple[str, ...]:
    pieces = (text,) if isinstance(text, str) else tuple(text)
    return tuple(piece for piece in pieces if piece)


def _size(request: ReceivedRequest) -> int:
    return len(request.system) + sum(len(message.text) for message in request.messages)
