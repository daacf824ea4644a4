"""The debug log: requests and events as JSON lines, without keys. Its failures stop nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.telemetry.debug_log import DebugLog, LoggedProvider
from qcode.protocol.events import Notice, OutputEscalated, StopReasonObserved, TurnStarted
from qcode.protocol.messages import user
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, StopReason
from qcode.safety.redaction import Redactor

KEY = "canary-0123456789"
REQUEST = ModelRequest("m", "system", (user(f"my key is {KEY}"),), (), 8_000)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class OneReply:
    """A provider with one reply that counts its calls."""

    name = "fake"
    host = "http://fake"

    def __init__(self) -> None:
        self.is_closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        yield ReplyEnded(StopReason.END_TURN, "stop")

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        return ("m",)

    async def close(self) -> None:
        self.is_closed = True


def test_events_have_their_names_of_stream_json(tmp_path: Path) -> None:
    log = DebugLog(tmp_path / "log.jsonl", Redactor([]).redact)
    log.record_event(OutputEscalated(8_000, 64_000))
    log.record_event(StopReasonObserved("p", "m", StopReason.MAX_TOKENS, "length", 1, 1))
    log.close()
    assert [row["event"] for row in rows(tmp_path / "log.jsonl")] == ["output_escalated", "stop_reason_observed"]


def test_requests_and_events_are_written_without_the_key(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = DebugLog(path, Redactor([KEY]).redact)
    log.record_request("fake", REQUEST)
    log.record_event(Notice("warning", f"{KEY} é"))
    log.close()
    request, event = rows(path)
    assert (request["request"], request["max_tokens"]) == ("fake", 8_000)
    assert (event["event"], event["text"]) == ("notice", "[redacted] é")
    assert KEY not in path.read_text()
    assert "[redacted]" in json.dumps(request["messages"])


def test_debug_log_is_private_and_append_only(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        log = DebugLog(path, str)
        log.record_event(TurnStarted("hi"))
        log.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(rows(path)) == 2


def test_existing_log_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch(mode=0o644)
    path.chmod(0o644)
    DebugLog(path, str).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_device_as_debug_log_keeps_its_mode() -> None:
    before = Path("/dev/null").stat().st_mode
    DebugLog(Path("/dev/null"), str).close()
    assert Path("/dev/null").stat().st_mode == before


def test_full_disk_ends_only_the_log() -> None:
    log = DebugLog(Path("/dev/full"), str)
    log.record_event(TurnStarted("hi"))
    log.record_event(TurnStarted("again"))
    log.close()
    log.record_event(TurnStarted("after the end"))


def test_unwritable_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        DebugLog(tmp_path / "missing" / "log.jsonl", str)


def test_logged_provider_writes_each_request_before_sending_it(tmp_path: Path) -> None:
    log = DebugLog(tmp_path / "log.jsonl", str)
    inner = OneReply()
    provider = LoggedProvider(inner, log)

    async def use() -> list[ReplyEvent]:
        events = [event async for event in provider.stream(REQUEST)]
        assert await provider.model_names() == ("m",)
        await provider.close()
        return events

    events = asyncio.run(use())
    log.close()
    assert events == [ReplyEnded(StopReason.END_TURN, "stop")]
    assert (provider.name, provider.host, inner.is_closed) == ("fake", "http://fake", True)
    assert [row["request"] for row in rows(tmp_path / "log.jsonl")] == ["fake"]
