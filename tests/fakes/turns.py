"""Scripted answers of a fake server, and the requests it got, independent of any protocol.

A `Turn` is one answer; the wire modules render it into the real format of each protocol. `Faults` are errors on
the way. This module uses no socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from qcode.protocol.messages import Message, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from qcode.text.json import parse_object

CHARS_PER_TOKEN = 4
AUTO = "auto"
_PIECE = 400


@dataclass(frozen=True, slots=True)
class Call:
    """A call; `arguments` is raw text that may be cut. Without an id one is generated if the protocol has ids."""

    name: str
    arguments: str = "{}"
    call_id: str = ""

    @property
    def pieces(self) -> tuple[str, ...]:
        """The argument text as it streams: in three pieces at most."""
        size = max(1, -(-len(self.arguments) // 3))
        return tuple(self.arguments[at : at + size] for at in range(0, len(self.arguments), size))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP error instead of a stream.

    `body` None renders `message`, `code` and `param` in the protocol's own error format; a text is sent as it is.
    `code` None is the code that the protocol has for the status.
    """

    status: int
    message: str = "refused by the script"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of a stream. Events are SSE events and count from 0. `pace` is the seconds between two of them.

    `cut_after` closes the socket when so many events were sent, with `cut_inside` in the middle of the next one;
    `stall_after` sends nothing more until `FakeServer.release` is called; `error_after` sends `error` as an event of
    the 200 stream and ends it. `without_end` leaves out stop reason, usage and end marker, `without_done` only the
    end marker. `late_usage` None puts usage where the protocol has it, True into a separate event after the
    reason, False on the event that carries the reason. `split_every` sends so many bytes at a time.
    `inserted` are raw bytes sent before the n-th event. The first event with the text `damaged` loses its second half.
    """

    first_byte_delay: float = 0.0
    pace: float = 0.0
    cut_after: int | None = None
    cut_inside: bool = False
    stall_after: int | None = None
    error_after: int | None = None
    error: Refusal = field(default_factory=lambda: Refusal(529, "the fake host is overloaded"))
    without_end: bool = False
    without_done: bool = False
    late_usage: bool | None = None
    split_every: int | None = None
    crlf: bool | None = None
    comments: bool = False
    many_data_lines: bool = False
    without_last_blank: bool = False
    inserted: Mapping[int, bytes] = field(default_factory=dict)
    damaged: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer: reasoning, then text, then calls, each in the pieces given.

    `stop`: a `StopReason` becomes the protocol's own word for it, any other text is sent as it is, None is null;
    `AUTO` is TOOL_USE with calls and END_TURN without. `usage` None: the host reports none.
    """

    text: str | Sequence[str] = ()
    reasoning: str | Sequence[str] = ()
    calls: Sequence[Call] = ()
    stop: StopReason | str | None = AUTO
    usage: Usage | None = field(default_factory=lambda: Usage(input=10, output=5))
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
class Asked:
    """A received request and its parsed content; `cap` is its output cap, None if it has none."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str = ""
    cap: int | None = None
    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of the turn that is running: those after the last user message of text alone."""
        found: list[ToolResult] = []
        for message in self.messages:
            results = [block for block in message.blocks if isinstance(block, ToolResult)]
            found = [*found, *results] if results or message.role == "assistant" else []
        return tuple(found)


Script: TypeAlias = Sequence[Turn] | Callable[[Asked], Turn]


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE event. `part` is its meaning: content, the stop reason, usage alone, or the end marker."""

    data: str
    event: str = ""
    part: Literal["body", "stop", "usage", "done"] = "body"


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


def truthful(text: str, *, limit: int | None = None, silent_limit: int | None = None) -> Callable[[Asked], Turn]:
    """Return a script that serves `text`, honours the cap of each request and continues at the end of the sent text.

    A token is `CHARS_PER_TOKEN` characters. Assistant text after the first user message of a request
    counts as sent, so a continuation gets exactly the rest. A cap above `limit` is refused with a 400 that names
    the limit; `silent_limit` is a cap the host applies without a word.
    """

    def answer(asked: Asked) -> Turn:
        cap = asked.cap or limit or 8_000
        if limit is not None and cap > limit:
            return refused(
                400, f"max_tokens is too large: {cap}. This model supports at most {limit} tokens.", param="max_tokens"
            )
        message_text = "".join(message.text for message in asked.messages if message.role == "assistant")
        start = (
            len(message_text)
            if text.startswith(message_text)
            else text.rfind(message_text[-200:]) + len(message_text[-200:])
        )
        room = min(cap, silent_limit or cap) * CHARS_PER_TOKEN
        part = text[start : start + room]
        is_cut = start + len(part) < len(text)
        return Turn(
            text=[part[at : at + _PIECE] for at in range(0, len(part), _PIECE)],
            stop=StopReason.MAX_TOKENS if is_cut else StopReason.END_TURN,
            usage=Usage(input=_size(asked) // CHARS_PER_TOKEN + 1, output=-(-len(part) // CHARS_PER_TOKEN)),
        )

    return answer


def complaint_about(messages: Sequence[Message]) -> str | None:
    """Return why a strict host refuses `messages`, or None.

    Messages of neighbors are `merged` already. Each call has one result, at the head of the message after it.
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
    """Return `messages` with neighbors of one role joined, as hosts do that accept them."""
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


def _size(asked: Asked) -> int:
    return len(asked.system) + sum(len(message.text) for message in asked.messages)
