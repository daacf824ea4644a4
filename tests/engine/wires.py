"""Turns of a fake host as reply events: directly, or through the wire format and decoder of a protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from qcode.protocol.errors import ProviderError
from qcode.protocol.messages import Opaque
from qcode.protocol.model import ModelRequest
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
from qcode.providers.sse import SseEvent
from qcode.providers.streaming import decode_event
from tests.fakes.anthropic_wire import AnthropicWire
from tests.fakes.gemini_wire import GeminiWire
from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.responses_wire import ResponsesWire
from tests.fakes.turns import Frame, ReceivedRequest, Turn, complaint_about
from tests.providers.events import decoder, encode

Played: TypeAlias = "list[ReplyEvent | ProviderError]"


class Wire(Protocol):
    """How a host reads a request and sends a turn."""

    def complaint(self, request: ModelRequest) -> str | None:
        """Return why a strict host would refuse `request`, None if it would not."""
        ...

    def play(self, turn: Turn, request: ModelRequest, number: int) -> Played:
        """Return the events of `turn`, the answer to the `number`-th request."""
        ...


class ByHand:
    """No protocol: the events are returned directly."""

    def complaint(self, request: ModelRequest) -> str | None:
        return complaint_about(request.messages)

    def play(self, turn: Turn, request: ModelRequest, number: int) -> Played:
        events: Played = [ReplyStarted("m", f"r{number}")]
        block = 0
        if turn.reasoning_pieces:
            events += [ReasoningDelta(block, piece) for piece in turn.reasoning_pieces]
            events.append(BlockEnded(block, Opaque("test", "{}") if turn.signature else None))
            block += 1
        if turn.text_pieces:
            events += [TextDelta(block, piece) for piece in turn.text_pieces]
            block += 1
        for call in turn.calls:
            events.append(ToolCallStarted(block, call.call_id, call.name))
            events += [ToolArgsDelta(block, piece) for piece in call.pieces]
            block += 1
        stop = turn.stop
        if not isinstance(stop, StopReason):
            stop = StopReason.TOOL_USE if turn.calls else StopReason.END_TURN
        usage = [] if turn.usage is None else [UsageReported(turn.usage)]
        if turn.faults.late_usage is False:
            events[1:1] = usage
            usage = []
        return [*events, *usage, ReplyEnded(stop, str(stop))]


_WIRES: Mapping[str, Callable[[], Any]] = {
    "anthropic": AnthropicWire,
    "gemini": GeminiWire,
    "openai": OpenAIWire,
    "openai-responses": ResponsesWire,
}


class Coded:
    """The chunks of a protocol through its decoder, and requests through its encoder."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._wire: Any = _WIRES[protocol]()

    def complaint(self, request: ModelRequest) -> str | None:
        complaint: str | None = self._wire.complaint(self._asked(request))
        return complaint

    def play(self, turn: Turn, request: ModelRequest, number: int) -> Played:
        frames: list[Frame] = self._wire.frames(turn, self._asked(request))
        target = decoder(self._protocol)
        played: Played = []
        try:
            for frame in frames:
                if not target.is_ended:
                    played += decode_event(SseEvent(frame.event, frame.data), target)
            played += target.finish()
        except ProviderError as error:
            played.append(error)
        return [_renamed(event, number) for event in played]

    def _asked(self, request: ModelRequest) -> ReceivedRequest:
        body: Any = encode(self._protocol, request)
        body["model"] = request.model
        path = f"/v1beta/models/{request.model}:streamGenerateContent"
        asked: ReceivedRequest = self._wire.read(
            ReceivedRequest(path, {"alt": "sse"}, {}, json.loads(json.dumps(body)))
        )
        return asked


def wire_of(name: str) -> Wire:
    return ByHand() if name == "by hand" else Coded(name)


def _renamed(event: ReplyEvent | ProviderError, number: int) -> ReplyEvent | ProviderError:
    """Return the events with a different reply id for each reply, because call ids are derived from it."""
    if isinstance(event, ToolCallStarted) and event.call_id.startswith("call_7"):
        return ToolCallStarted(event.block, f"{event.call_id}_{number}", event.name)
    return event
