"""A log of requests, events and decisions as JSON lines, written where the person asked for one. Holds no key.

A log that cannot be written never disturbs the work: the first failure ends it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from qcode.protocol.events import TurnEvent
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEvent


class DebugLog:
    """Appends to `path`, which is made readable by its owner only. Raises `OSError` where it cannot be opened."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        path.touch(mode=0o600, exist_ok=True)
        self._file: TextIO | None = path.open("a", encoding="utf-8", errors="backslashreplace")
        self._redact = redact

    def event(self, event: TurnEvent) -> None:
        self._write({"event": type(event).__name__, **_fields(event)})

    def metrics(self, sums: dict[str, object]) -> None:
        """Log what recovery came to over the conversation so far."""
        self._write({"metrics": sums})

    def request(self, provider: str, request: ModelRequest) -> None:
        """Log what is asked for: sizes and settings, and the messages themselves."""
        self._write(
            {
                "request": provider,
                "model": request.model,
                "max_tokens": request.max_tokens,
                "effort": request.effort,
                "is_prefill": request.is_prefill,
                "allows_calls": request.allows_calls,
                "tools": [tool.name for tool in request.tools],
                "messages": [_fields(message) for message in request.messages],
            }
        )

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # Closing writes what is left, and what cannot be written is lost either way.
            with contextlib.suppress(OSError):
                file.close()

    def _write(self, row: dict[str, object]) -> None:
        if self._file is None:
            return
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **row}, default=str)
        try:
            self._file.write(self._redact(line) + "\n")
            self._file.flush()
        except (OSError, ValueError):
            self.close()


class LoggedProvider:
    """A provider whose requests are logged before they are sent."""

    def __init__(self, provider: Provider, log: DebugLog) -> None:
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._log = log

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self._log.request(self.name, request)
        return self._provider.stream(request)

    async def model_names(self) -> tuple[str, ...]:
        return await self._provider.model_names()

    async def close(self) -> None:
        await self._provider.close()


def _fields(value: object) -> dict[str, object]:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else {}
