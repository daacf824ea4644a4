"""stderr of pipe mode: messages of one line and, on a terminal, a progress line that is erased again.

A write error on stderr never fails the run, because the answer is on stdout. `Progress` describes the current activity,
and `Meter` measures the duration of the turn and of its requests. Both are pure: the clock is a parameter.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO

from qcode.agent.outcomes import (
    fallback_text,
    hook_ended_text,
    hook_text,
    limit_wait_text,
    restored_text,
    retry_text,
    waiting_text,
)
from qcode.protocol import events as ev
from qcode.protocol.events import (
    DECLINED,
    AgentEvent,
    LimitReached,
    ReplyFinished,
    StepStarted,
    TurnEnded,
    TurnEvent,
    Waiting,
)
from qcode.protocol.reply import ReasoningDelta, TextDelta, WebSearched
from qcode.streams import OutputLostError, Pipe
from qcode.text.clean import clean, single_spaced

_ERASE = b"\r\x1b[2K"
_MIN_WIDTH = 20  # columns
MAX_SILENT_WAIT_S = 5.0
"""A longer wait before a retry is reported even without `-v`."""
MAX_SERVER_MESSAGES = 100
"""The maximum number of queued messages of tool servers."""


@contextlib.contextmanager
def server_messages(logger_name: str) -> Iterator[deque[str]]:
    """Yield a queue with the last messages that the logger of tool servers gets inside the `with` block."""
    messages: deque[str] = deque(maxlen=MAX_SERVER_MESSAGES)
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]  # one function
    logger = logging.getLogger(logger_name)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)


def can_erase(stream: BinaryIO) -> bool:
    """Return whether `stream` is a terminal that can erase the live line."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


class StderrWriter:
    """A writer of messages to stderr. `has_live_line` enables a line that shows the progress and is erased again."""

    def __init__(self, stream: BinaryIO, *, has_live_line: bool) -> None:
        self._stream = stream
        self._pipe: Pipe | None = Pipe(stream)
        self.has_live_line = has_live_line
        self._is_line_shown = False

    async def write_line(self, text: str) -> None:
        """Write `text` as one line after `qcode: `; see `uncapitalized` for its first letter."""
        from qcode.text.sentences import uncapitalized  # most runs write no line

        await self._write(f"qcode: {uncapitalized(single_spaced(text))}\n")

    async def write_visible(self, text: str) -> None:
        """Write `text`, which has no control characters, with all its spaces: the user may copy a command from it."""
        await self._write(f"qcode: {text}\n")

    async def quote(self, text: str) -> None:
        """Write text of the model without control sequences, followed by a newline."""
        cleaned = clean(text)
        await self._write(cleaned if cleaned.endswith("\n") else f"{cleaned}\n")

    async def show_status(self, status: str) -> None:
        """Replace the live line; do nothing if there is none."""
        if self.has_live_line:
            line = single_spaced(status)[: self._width() - 1]
            self._is_line_shown = True
            await self._send(_ERASE + line.encode("utf-8", "replace"))

    async def clear_status(self) -> None:
        """Remove the live line before other output."""
        if self._is_line_shown:
            self._is_line_shown = False
            await self._send(_ERASE)

    def clear_status_now(self) -> None:
        """Remove the live line without waiting, right before the program exits."""
        if self._is_line_shown and self._pipe is not None:
            self._is_line_shown = False
            with contextlib.suppress(OutputLostError):
                self._pipe.push(_ERASE)

    async def _write(self, text: str) -> None:
        await self.clear_status()
        await self._send(text.encode("utf-8", "replace"))

    async def _send(self, data: bytes) -> None:
        """Write to stderr; ignore everything after stderr was closed. In a host session, a subclass writes nothing."""
        if self._pipe is None:
            return
        try:
            await self._pipe.write(data)
        except OutputLostError:
            self._pipe = None

    def _width(self) -> int:
        try:
            return max(_MIN_WIDTH, os.get_terminal_size(self._stream.fileno()).columns)
        except OSError:
            return 80


class Progress:
    """Describes the activity of a turn in `status`, without text of the model. `update_from` must get every event."""

    def __init__(self) -> None:
        self.status = "starting"
        self._reply_chars = 0

    def update_from(self, event: TurnEvent) -> None:
        match event:
            case ev.StepStarted(step=step):
                self._reply_chars = 0
                self.status = "waiting for the model" if step == 1 else f"waiting for the model (reply {step})"
            case ReasoningDelta():
                self.status = "thinking"
            case TextDelta(text=text):
                self._reply_chars += len(text)
                self.status = f"writing, {self._reply_chars:,} characters"
            case ev.ToolCallProgress(name=name, size=size):
                self.status = f"preparing {_call_in_words(name)}, {size:,} characters"
            case ev.CompactionStarted():
                self.status = "compacting the conversation"
            case ev.Retry():
                if not event.is_continuation:
                    self._reply_chars = 0
                self.status = retry_text(event)
            case ev.AgentEvent(event=ev.ToolStarted(call=call)):
                self.status = f"a sub-agent is running {_call_in_words(call.name)}"
            case ev.ToolStarted(call=call):
                self.status = f"running {_call_in_words(call.name)}"
            case ev.Waiting():
                self.status = waiting_text(event)
            case ev.LimitReached():
                self.status = limit_wait_text(event)
            case ev.HookStarted():
                self.status = hook_text(event)
            case _:
                pass


def _call_in_words(name: str) -> str:
    """Return the description of a call of this tool, for a progress line."""
    from qcode.agent.call_titles import call_in_words

    return call_in_words(name)


def verbose_message(event: TurnEvent) -> str:
    """Return the message of `-v` for an event; empty for most events."""
    match event:
        case ev.AgentEvent(event=inner):
            message = verbose_message(inner)
            return f"sub-agent: {message}" if message else ""
        case ev.Notice(text=text):
            return text
        case WebSearched():
            cited = ", ".join(source.url for source in event.sources)
            return f"searched the web for {'; '.join(event.queries)}" + (f"; cited: {cited}" if cited else "")
        case ev.Compacted():
            return f"the conversation was compacted: about {event.before_tokens:,} to {event.after_tokens:,} tokens"
        case ev.Retry():
            return retry_text(event)
        case ev.PartialRestored():
            return restored_text(event)
        case ev.Waiting():
            return waiting_text(event)
        case ev.HookEnded():
            return hook_ended_text(event)
        case ev.ToolFinished():
            from qcode.agent.call_titles import state_text  # only for `-v`

            detail = event.outcome.summary
            state = state_text(event.call.name, event.state, detail)
            message = f"{event.call.name}: {state}"
            # The detail may repeat the state, as in `edit: declined, declined`.
            return message if detail in ("", event.state, state, DECLINED) else f"{message}, {detail}"
        case _:
            return ""


def warning_message(event: TurnEvent) -> str:
    """Return the message that is written even without `-v`; empty for most events."""
    match event:
        case ev.AgentEvent(event=ev.LimitReached() | ev.Waiting() as inner):
            message = warning_message(inner)
            return f"sub-agent: {message}" if message else ""
        case ev.LimitReached():
            return limit_wait_text(event)
        case ev.ModelFellBack():
            return fallback_text(event)
        case ev.Waiting(seconds=seconds) if seconds > MAX_SILENT_WAIT_S:
            return verbose_message(event)
        case ev.Notice(level=level, text=text) if level != "info":
            return text
        case _:
            return ""


class Meter:
    """The duration of a turn and its API time. `update_from` must get every event.

    API time is the time from each request to the end of its reply, without backoff. Example: a request at 10 s, a wait
    from 12 to 15 s and the end of the reply at 20 s are 7 s. The time of sub-agents is added, so with parallel
    sub-agents the API time may exceed the duration.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started_at = clock()
        self._request_start: float | None = None
        """The start of the running request, moved forward by its finished waits. None between requests."""
        self._wait_start: float | None = None
        self._api_s = 0.0
        """The API time of finished requests."""
        self._subagent_meters: dict[str, Meter] = {}

    def update_from(self, event: TurnEvent) -> None:
        now = self._clock()
        if self._wait_start is not None and self._request_start is not None:
            self._request_start += now - self._wait_start
            self._wait_start = None
        match event:
            case StepStarted():
                self._stop(now)
                self._request_start = now
            case Waiting() | LimitReached():
                self._wait_start = now
            case ReplyFinished() | TurnEnded():
                self._stop(now)
            case AgentEvent(call_id=call_id, event=inner):
                self._subagent_meters.setdefault(call_id, Meter(self._clock)).update_from(inner)
            case _:
                pass

    @property
    def elapsed(self) -> float:
        """Seconds since the turn began."""
        return self._clock() - self._started_at

    @property
    def duration_ms(self) -> int:
        return round(self.elapsed * 1000)

    @property
    def api_ms(self) -> int:
        running = 0.0
        if self._request_start is not None:
            end = self._clock() if self._wait_start is None else self._wait_start
            running = end - self._request_start
        return round((self._api_s + running) * 1000) + sum(meter.api_ms for meter in self._subagent_meters.values())

    def _stop(self, now: float) -> None:
        if self._request_start is not None:
            self._api_s += now - self._request_start
        self._request_start = None
