"""Reply events as JSON and streams as bytes, for fixtures and comparisons."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from qcode.protocol.errors import ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEvent
from qcode.providers.anthropic.codec import AnthropicDecoder
from qcode.providers.anthropic.codec import encode as encode_anthropic
from qcode.providers.bedrock.codec import BedrockDecoder
from qcode.providers.bedrock.codec import encode as encode_bedrock
from qcode.providers.bedrock.frames import FrameParser
from qcode.providers.gemini.codec import GeminiDecoder
from qcode.providers.gemini.codec import encode as encode_gemini
from qcode.providers.openai.chat import ChatDecoder
from qcode.providers.openai.chat import encode as encode_chat
from qcode.providers.openai.quirks import COMPATIBLE
from qcode.providers.openai.responses import ResponsesDecoder
from qcode.providers.openai.responses import encode as encode_responses
from qcode.providers.sse import SseParser
from qcode.providers.streaming import Decoder, Parser, decode_event
from qcode.text.json import Json, JsonObject
from tests.providers.cases import MODELS
from tests.providers.frames import frame

FIXTURES = Path(__file__).parent / "fixtures"
SSE_PROTOCOLS = ("openai", "openai-responses", "anthropic", "gemini")
PROTOCOLS = (*SSE_PROTOCOLS, "bedrock")


@dataclass(frozen=True)
class Recording:
    """A recorded stream: its JSON objects, whether it has an end marker, and the expected events."""

    protocol: str
    name: str
    chunks: list[JsonObject]
    has_end_mark: bool
    events: list[Json]
    error: JsonObject | None

    def __str__(self) -> str:
        return f"{self.protocol}-{self.name}"


@functools.cache
def recordings() -> tuple[Recording, ...]:
    """Return every recording there is; they are shared by all tests, and none may change one."""
    found: list[Recording] = []
    for path in sorted(FIXTURES.glob("*/*.json")):
        data = json.loads(path.read_text("utf-8"))
        found.append(
            Recording(
                protocol=path.parent.name,
                name=path.stem,
                chunks=data["chunks"],
                has_end_mark=data.get("done", False),
                events=data["events"],
                error=data.get("error"),
            )
        )
    return tuple(found)


def recording(protocol: str, name: str) -> Recording:
    return next(found for found in recordings() if (found.protocol, found.name) == (protocol, name))


def decoder(protocol: str) -> Decoder:
    match protocol:
        case "anthropic":
            return AnthropicDecoder(tag="7")
        case "gemini":
            return GeminiDecoder(tag="7")
        case "openai-responses":
            return ResponsesDecoder(tag="7")
        case "bedrock":
            return BedrockDecoder(MODELS["bedrock"], tag="7")
        case _:
            return ChatDecoder(tag="7")


def parser(protocol: str) -> Parser:
    return FrameParser() if protocol == "bedrock" else SseParser()


def encode(protocol: str, request: ModelRequest) -> JsonObject:
    match protocol:
        case "anthropic":
            return encode_anthropic(request)
        case "gemini":
            return encode_gemini(request)
        case "openai-responses":
            return encode_responses(request)
        case "bedrock":
            return encode_bedrock(request)
        case _:
            return encode_chat(request, COMPATIBLE)


def plain(event: ReplyEvent) -> Json:
    """Return `[type, field, ...]`, without trailing None values."""
    field_names = [
        field.name for field in dataclasses.fields(event) if field.name != "is_from_text"
    ]  # no codec sets it
    fields = [_plain_value(getattr(event, name)) for name in field_names]
    while fields and fields[-1] is None:
        fields.pop()
    listed: Json = json.loads(json.dumps([type(event).__name__, *fields]))
    return listed


def _plain_value(value: object) -> object:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def plain_error(error: ProviderError) -> JsonObject:
    facts = {"kind": error.kind.value, "message": error.message, "code": error.code, "status": error.status}
    return {name: value for name, value in facts.items() if value is not None}


def joined(events: Iterable[ReplyEvent]) -> list[Json]:
    """Return plain events with the deltas of one block that follow each other joined."""
    listed: list[Json] = []
    for event in events:
        item = plain(event)
        assert isinstance(item, list)
        last = listed[-1] if listed else None
        is_delta = item[0] in ("TextDelta", "ReasoningDelta", "ToolArgsDelta")
        if is_delta and isinstance(last, list) and last[:2] == item[:2]:
            last[2] = str(last[2]) + str(item[2])
        else:
            listed.append(item)
    return listed


def replay(found: Recording) -> tuple[list[Json], JsonObject | None]:
    """Feed the objects to the decoder unchanged; return the events, and the error if it failed."""
    target = decoder(found.protocol)
    events: list[ReplyEvent] = []
    try:
        for chunk in found.chunks:
            events += target.feed(chunk)
        if found.has_end_mark:
            target.end()
        events += target.finish()
    except ProviderError as error:
        return [plain(event) for event in events], plain_error(error)
    return [plain(event) for event in events], None


def replay_bytes(protocol: str, pieces: Sequence[bytes]) -> tuple[list[Json], JsonObject | None]:
    """Feed bytes through the parser and the decoder, as the clients do."""
    cutter, target = parser(protocol), decoder(protocol)
    events: list[ReplyEvent] = []
    try:
        for sent in [*(event for piece in pieces for event in cutter.feed(piece)), *cutter.flush()]:
            if not target.is_ended:
                events += decode_event(sent, target)
        events += target.finish()
    except ProviderError as error:
        return [plain(event) for event in events], plain_error(error)
    return [plain(event) for event in events], None


def as_bytes(found: Recording, *, newline: str = "\n") -> bytes:
    """Return a recording as the bytes its provider would send; `newline` is for event streams of text."""
    if found.protocol == "bedrock":
        return b"".join(frame(name, body) for chunk in found.chunks for name, body in chunk.items())
    lines: list[str] = []
    for chunk in found.chunks:
        if found.protocol in ("anthropic", "openai-responses") and "type" in chunk:
            lines.append(f"event: {chunk['type']}")
        lines += [f"data: {_as_text(chunk)}", ""]
    if found.has_end_mark:
        lines += ["data: [DONE]", ""]
    return "".join(line + newline for line in lines).encode("utf-8")


def _as_text(chunk: JsonObject) -> str:
    """Half a character can be sent only as an escape."""
    text = json.dumps(chunk, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(chunk)
