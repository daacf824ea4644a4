"""Recordings of runs, and their playback: the requests and replies of the models, independent of the provider.

A recording is a file of JSON lines: a header, then prompts, requests and replies in the order in which they began. A
request stores only the messages that are new in its thread (a conversation or a sub-agent). All texts are redacted.
The model `replay/FILE` plays the replies back; `replay-timed/FILE` plays them at their recorded times.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO, cast

from qcode.agent.programs.hints import value_of
from qcode.agent.sessions.records import message_to_json
from qcode.config.state_file import open_private
from qcode.protocol import reply as events
from qcode.protocol.errors import ErrorKind, InputError, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider, WrappedProvider, closing_stream
from qcode.protocol.reply import BlockEnded, ReasoningDelta, ReplyEnded, ReplyEvent, TextDelta, ToolArgsDelta
from qcode.text.clean import one_line
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

VERSION = 1
"""The version of the file format; another version cannot be played back."""
MAX_BYTES = 256 * 1024 * 1024
"""The maximum size of a recording that can be read."""
_CONTEXT_CHARS = 20
"""The number of equal characters before the first difference of two texts in a line of `playback_differences`."""
_DELTAS = (TextDelta, ReasoningDelta, ToolArgsDelta)
_EVENT_TYPES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        events.ReplyStarted, TextDelta, ReasoningDelta, events.ToolCallStarted, ToolArgsDelta, BlockEnded,
        events.EventDamaged, events.UsageReported, events.WebSearched, events.TextCallsRecognized, ReplyEnded,
    )
}  # fmt: skip
_ERROR_FIELDS = ("status", "retry_after", "request_id", "code", "param", "resets_at", "period", "may_retry")


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event of a reply."""

    time_ms: int
    """The milliseconds since the request."""
    event: ReplyEvent


class Recording:
    """Writes a recording to `path`, which only its owner can read.

    Raises `OSError` if the file cannot be opened or made private. The first write error ends the
    recording without disturbing the run.
    """

    def __init__(self, path: Path, redact: Callable[[str], str], model: str) -> None:
        self._file: TextIO | None = open_private(path, "w")
        self._redact = redact
        self._count = 0
        self._threads: dict[str, list[JsonObject]] = {}
        self._write({"qcode": "recording", "version": VERSION, "model": model})

    def record_prompt(self, text: str) -> None:
        """Record that a turn with this prompt begins."""
        self._write({"prompt": text})

    def wrap(self, provider: Provider) -> Provider:
        """Return a provider that records the requests and replies of `provider`."""
        return _RecordedProvider(provider, self)

    def record_request(self, request: ModelRequest) -> int:
        """Record a request, and return its number."""
        self._count += 1
        messages = [message_to_json(message) for message in request.messages]
        thread = _thread_of(cast(JsonObject, redacted_values(messages[0], self._redact)))
        earlier = self._threads.get(thread, [])
        unchanged = 0
        while unchanged < min(len(earlier), len(messages)) and earlier[unchanged] == messages[unchanged]:
            unchanged += 1
        self._threads[thread] = messages
        added = request_to_json(request, messages[unchanged:])
        self._write({"request": self._count, "thread": thread, "kept": unchanged, **added})
        return self._count

    def record_reply(self, number: int, events: list[TimedEvent], error: ProviderError | None) -> None:
        """Record the reply to request `number`: its events and its error."""
        row: JsonObject = {"reply": number, "events": [_event_to_json(timed) for timed in self._redacted(events)]}
        if error is not None:
            fields = {name: getattr(error, name) for name in _ERROR_FIELDS}
            row["error"] = {"kind": str(error.kind), "message": error.message, **fields}
        self._write(row)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                return

    def _redacted(self, events: list[TimedEvent]) -> Iterator[TimedEvent]:
        """Yield the events. Deltas of a block are joined if their text contains a secret, which may span several."""

        def kind_and_block(timed: TimedEvent) -> tuple[str, int]:
            """Return an equal key for successive deltas of a block, and a unique one for any other event."""
            event = timed.event
            return (type(event).__name__, event.block) if isinstance(event, _DELTAS) else ("", id(event))

        for _, group in groupby(events, kind_and_block):
            successive = list(group)
            first = successive[0]
            if isinstance(first.event, _DELTAS):
                text = "".join(timed.event.text for timed in successive if isinstance(timed.event, _DELTAS))
                clean = self._redact(text)
                if clean != text:
                    yield TimedEvent(first.time_ms, dataclasses.replace(first.event, text=clean))
                    continue
            yield from successive

    def _write(self, row: JsonObject) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(redacted_values(row, self._redact), ensure_ascii=False) + "\n")
            self._file.flush()
        except (OSError, ValueError):
            self.close()


class _RecordedProvider(WrappedProvider):
    """A provider whose requests and replies are recorded."""

    def __init__(self, provider: Provider, recording: Recording) -> None:
        super().__init__(provider)
        self._recording = recording

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        number = self._recording.record_request(request)
        started_at = time.monotonic()
        timed_events: list[TimedEvent] = []
        # A cancelled reply has neither an end nor an error.
        error: ProviderError | None = None
        try:
            async with closing_stream(self.inner.stream(request)) as stream:
                async for event in stream:
                    timed_events.append(TimedEvent(round((time.monotonic() - started_at) * 1000), event))
                    yield event
        except ProviderError as failure:
            error = failure
            raise
        finally:
            self._recording.record_reply(number, timed_events, error)


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A recorded reply and its request; texts are redacted. A reply without `ReplyEnded` and error was cancelled."""

    request: JsonObject
    """The request with all of its messages."""
    events: tuple[TimedEvent, ...] = ()
    error: ProviderError | None = None
    """The error that ended the reply."""

    @property
    def is_complete(self) -> bool:
        return self.error is not None or any(isinstance(timed.event, ReplyEnded) for timed in self.events)


@dataclass(frozen=True, slots=True)
class RecordingContent:
    """A recording that was read from a file."""

    path: Path
    model: str
    """The first model of the run, as `provider/model`."""
    prompts: tuple[str, ...]
    replies: tuple[RecordedReply, ...]

    @classmethod
    def read(cls, path: Path) -> RecordingContent:
        """Read a recording; raise `InputError` with the invalid line. An incomplete last line is skipped."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise InputError(f"{path}: the recording is larger than {MAX_BYTES >> 20} MiB")
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise InputError(f"cannot read the recording {path}: {error.strerror}") from None
        rows = list(_rows(path, lines))
        header = rows[0] if rows else {}
        if header.get("qcode") != "recording" or header.get("version") != VERSION:
            raise InputError(f"{path} is not a recording of this version of qcode; make one with --record FILE")
        prompts = tuple(str(row["prompt"]) for row in rows if "prompt" in row)
        return cls(path, str(header.get("model", "")), prompts, tuple(_replies(path, rows)))


def _rows(path: Path, lines: list[bytes]) -> Iterator[JsonObject]:
    """Yield the lines of a recording as objects; raise `InputError` for an invalid line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                return  # the run was killed while it wrote this line
            raise InputError(f"{path}:{number}: not a line of JSON") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: not a JSON object")
        yield row


def _replies(path: Path, rows: list[JsonObject]) -> Iterator[RecordedReply]:
    """Yield each request with its messages restored and its reply; raise `InputError` for an invalid row."""
    ended = {row["reply"]: row for row in rows if isinstance(row.get("reply"), int)}
    threads: dict[str, list[Json]] = {}
    for row in rows:
        if "request" not in row:
            continue
        try:
            thread, unchanged = str(row["thread"]), cast(int, row["kept"])
            threads[thread] = [*threads.get(thread, [])[:unchanged], *cast("list[Json]", row["messages"])]
            reply = ended.get(row["request"], {})
            events = tuple(_event_from_json(entry) for entry in cast("list[JsonObject]", reply.get("events", [])))
            yield RecordedReply({**row, "messages": threads[thread]}, events, _error_from(reply.get("error")))
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            reason = one_line(str(fault), 100)
            raise InputError(f"{path}: request {row.get('request')} is unreadable: {reason}") from None


def _event_to_json(timed: TimedEvent) -> JsonObject:
    event = timed.event
    if isinstance(event, BlockEnded):
        event = BlockEnded(event.block)  # without data that only the provider can use
    return {"at": timed.time_ms, "event": type(event).__name__, **dataclasses.asdict(event)}


def _event_from_json(row: JsonObject) -> TimedEvent:
    fields = {name: value for name, value in row.items() if name not in ("at", "event")}
    return TimedEvent(cast(int, row["at"]), value_of(_EVENT_TYPES[str(row["event"])], fields))


def _error_from(row: Json | None) -> ProviderError | None:
    if not isinstance(row, dict):
        return None
    fields = {name: row[name] for name in _ERROR_FIELDS if name in row}
    return ProviderError(ErrorKind(str(row["kind"])), str(row["message"]), **cast("dict[str, Any]", fields))


def redacted_values(value: Json, redact: Callable[[str], str]) -> Json:
    """Return a JSON value with all of its texts redacted."""
    match value:
        case str():
            return redact(value)
        case list():
            return [redacted_values(item, redact) for item in value]
        case dict():
            return {name: redacted_values(item, redact) for name, item in value.items()}
        case _:
            return value


def _thread_of(first: JsonObject) -> str:
    """Return the id of a request's thread, derived from its first message: each sub-agent has its own thread."""
    return hashlib.sha256(json.dumps(first, sort_keys=True).encode("utf-8", "replace")).hexdigest()[:12]


class ReplayProvider:
    """Plays a recording back. Each request gets the next reply of its thread; if there is none, the next unused reply.

    A request after the last reply fails. With `is_timed`, events are yielded at their recorded times.
    """

    def __init__(self, recorded: RecordingContent, *, is_timed: bool) -> None:
        self.name = recorded.model.partition("/")[0]
        self.host = f"replay:{recorded.path}"
        self.requests: list[JsonObject] = []  # the requests that got a reply
        self.unanswered = 0  # the number of requests that failed because all replies were played
        self._unused_replies = dict(enumerate(recorded.replies, 1))  # by number
        self._recorded = recorded
        self._is_timed = is_timed

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        messages = [message_to_json(message) for message in request.messages]
        number, reply = self._next(_thread_of(messages[0]))
        self.requests.append({"plays": number, **request_to_json(request, messages)})
        started_at = time.monotonic()
        for timed in reply.events:
            if self._is_timed:
                await asyncio.sleep(max(0.0, timed.time_ms / 1000 - (time.monotonic() - started_at)))
            yield timed.event
        if reply.error is not None:
            raise reply.error
        if not reply.is_complete:
            text = f"reply {number} of the recording has no end: it was cancelled"
            raise ProviderError(ErrorKind.BAD_RESPONSE, text, may_retry=False)

    def _next(self, thread: str) -> tuple[int, RecordedReply]:
        """Return the reply to the next request of a thread, and the number of the reply in the recording."""
        if not self._unused_replies:
            self.unanswered += 1
            text = f"the recording {self._recorded.path} has {len(self._recorded.replies)} replies, and all were played"
            raise ProviderError(ErrorKind.BAD_REQUEST, text)
        of_thread = (n for n, reply in self._unused_replies.items() if reply.request.get("thread") == thread)
        number = next(of_thread, next(iter(self._unused_replies)))
        return number, self._unused_replies.pop(number)

    async def model_names(self) -> tuple[str, ...]:
        return (self._recorded.model.partition("/")[2],)

    def warm_up(self) -> None:
        pass

    async def close(self) -> None:
        pass


def request_to_json(request: ModelRequest, messages: list[JsonObject]) -> JsonObject:
    """Return the fields of a request that a recording stores. `messages` replaces the messages of the request."""
    return {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "tools": [tool.name for tool in request.tools],
        "messages": list(messages),
        "note": request.note,
    }


def playback_differences(
    recorded: RecordingContent, playback: ReplayProvider, redact: Callable[[str], str]
) -> list[str]:
    """Return a line for each request of a playback that is missing or differs from the recorded one.

    A recording that ended early also adds a line, because requests after its end cannot be compared. Texts are redacted
    before the comparison, because the recording is redacted.
    """
    lines = []
    played = playback.requests
    for request in played:
        number = cast(int, request["plays"])
        now = cast(JsonObject, redacted_values(request, redact))
        if difference := _difference(recorded.replies[number - 1].request, now):
            lines.append(f"request {number}: {difference}")
    missing = sorted({*range(1, len(recorded.replies) + 1)} - {cast(int, entry["plays"]) for entry in played})
    if missing:
        lines.append(f"requests that were not made again: {', '.join(map(str, missing))}")
    last = len(recorded.replies)
    if playback.unanswered:
        lines.append(f"request {last + 1}: the recording ended early, it has no such request")
    elif last and not recorded.replies[-1].is_complete and last not in missing:
        lines.append(f"request {last}: the recording ended early, its reply has no end")
    return lines


def _difference(before: JsonObject, now: JsonObject) -> str:
    """Return the first difference of two requests, empty if their compared fields are equal."""
    for name in ("model", "max_tokens", "tools"):
        if before.get(name) != now.get(name):
            return f"{name} was {_quoted(before.get(name))}, and is {_quoted(now.get(name))}"
    old, new = cast("list[JsonObject]", before["messages"]), cast("list[JsonObject]", now["messages"])
    for number, (entry, other) in enumerate(zip(old, new, strict=False), 1):
        if entry != other:
            return f"message {number} ({entry['role']}) {_block_difference(entry, other)}"
    if len(old) != len(new):
        return f"it had {len(old)} messages, and has {len(new)}"
    return "" if before.get("note") == now.get("note") else "the note at its end differs"


def _block_difference(before: JsonObject, now: JsonObject) -> str:
    """Return the first difference of two messages that are not equal."""
    old, new = cast("list[JsonObject]", before["blocks"]), cast("list[JsonObject]", now["blocks"])
    for entry, other in zip(old, new, strict=False):
        if entry == other:
            continue
        name = next((name for name in entry if entry.get(name) != other.get(name)), "type")
        of_tool = f" of {entry['name']}" if entry.get("type") == "result" and "name" in entry else ""
        was, now_is = _difference_context(str(entry.get(name)), str(other.get(name)))
        return f"{entry.get('type')}{of_tool}: {name} was {was}, and is {now_is}"
    return f"had {len(old)} blocks, and has {len(new)}"


def _difference_context(before: str, now: str) -> tuple[str, str]:
    """Return excerpts of two texts that start shortly before their first difference."""
    pairs = enumerate(zip(before, now, strict=False))
    shorter_length = min(len(before), len(now))
    position = next((index for index, (old, new) in pairs if old != new), shorter_length)
    start = max(0, position - _CONTEXT_CHARS)
    return _quoted(before[start:]), _quoted(now[start:])


def _quoted(value: Json | None) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f'"{one_line(text, 80)}"'
