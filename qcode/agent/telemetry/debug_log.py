"""The debug log: JSON lines of requests, events and metrics.

The log is optional and contains no key. The first write error ends the log without disturbing the turn. Crash reports
are in `crash`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from qcode.config.state_file import open_private
from qcode.protocol.events import TurnEvent
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider, WrappedProvider
from qcode.protocol.reply import ReplyEvent
from qcode.text.json import JsonObject

MAX_MESSAGES = 1_000
"""The maximum number of distinct log messages of qcode's modules in one debug log."""


class DebugLog:
    """A log appended to `path`; only the owner can read the file.

    Raises `OSError` if the file cannot be opened or made private. Until `close` it also gets the log messages of
    qcode's modules, such as an unknown stop reason of a provider.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self._file: TextIO | None = open_private(path, "a")
        self._redact = redact
        self._handler = _Handler(self._write)
        logger = logging.getLogger("qcode")
        logger.addHandler(self._handler)
        logger.setLevel(logging.INFO)

    def record_event(self, event: TurnEvent) -> None:
        self._write({"event": _event_name(event), **_fields(event)})

    def record_metrics(self, metrics: JsonObject) -> None:
        """Log the recovery metrics of the conversation so far."""
        self._write({"metrics": metrics})

    def record_request(self, provider: str, request: ModelRequest) -> None:
        """Log a request: model, settings, tool names and messages, without the system prompt."""
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

    def watch(self, provider: Provider) -> LoggedProvider:
        """Return `provider` with its requests logged."""
        return LoggedProvider(provider, self)

    def close(self) -> None:
        logging.getLogger("qcode").removeHandler(self._handler)
        file, self._file = self._file, None
        if file is not None:
            # `close` flushes the buffer; an error means that the last data is lost.
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


class LoggedProvider(WrappedProvider):
    """A provider whose requests are logged before they are sent."""

    def __init__(self, provider: Provider, log: DebugLog) -> None:
        super().__init__(provider)
        self._log = log

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self._log.record_request(self.name, request)
        return self.inner.stream(request)


def _event_name(event: TurnEvent) -> str:
    """Return the name of an event as in stream-json, such as `output_escalated`."""
    name = type(event).__name__
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).removeprefix("_")


def _fields(value: object) -> dict[str, object]:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else {}


class _Handler(logging.Handler):
    """Passes log messages of qcode's modules to the debug log, each text once, because some repeat with every reply."""

    def __init__(self, write: Callable[[dict[str, object]], None]) -> None:
        super().__init__(logging.INFO)
        self._write_row = write
        self._logged_lines: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._logged_lines and len(self._logged_lines) < MAX_MESSAGES:
            self._logged_lines.add(text)
            self._write_row({"message": text, "module": record.name})
