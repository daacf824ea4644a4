"""Several turns in one run: `--input-format stream-json`, a line in for each, and a `result` out for each.

`incoming` says what a line means, `inlet` reads them, `run` runs a turn. A line that means nothing gets its `result` as
well, an error, and the run goes on: who writes one line and waits for one result never waits for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import BinaryIO, TypeAlias

from qcode.headless import exits
from qcode.headless.incoming import Asked, Control, Unreadable, read_line
from qcode.headless.inlet import Inlet
from qcode.headless.interrupts import Interrupts
from qcode.headless.lines import encode, unstarted_line
from qcode.headless.margin import Margin
from qcode.headless.pipe import OutputLostError, Pipe
from qcode.headless.run import LAST_WORDS, Run, Target
from qcode.headless.setup import HeadlessSetup
from qcode.protocol.conversation import Conversation
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Block

NOTHING_ARRIVED = "there is no prompt: no message arrived on standard input"
Attach: TypeAlias = Callable[[tuple[Block, ...]], None]


class _Withdrawn:
    """A message that was interrupted before its turn began: it is never sent."""


async def run_exchange(
    conversation: Conversation,
    descriptor: int,
    *,
    stdout: BinaryIO,
    stderr: BinaryIO,
    setup: HeadlessSetup,
    attach: Attach,
) -> int:
    """Run a turn for each message that arrives on `descriptor` until its end; return the last one's exit code.

    `attach` puts blocks before the next prompt. Signals end the running turn and, with it, the run.
    """
    margin = Margin(stderr, is_terminal=setup.is_stderr_tty)
    target = Target("stream-json", Pipe(stdout), margin, setup, stdout.isatty())
    exchange = _Exchange(conversation, target, attach)
    try:
        return await exchange.whole(descriptor)
    except OutputLostError as lost:
        conversation.cancel()
        return await target.without_output(lost)


class _Exchange:
    """`_waiting` are the messages that arrived and had no turn yet, `_run` is the turn that runs."""

    def __init__(self, conversation: Conversation, target: Target, attach: Attach) -> None:
        self._conversation = conversation
        self._target = target
        self._attach = attach
        self._waiting: deque[Asked | Unreadable | _Withdrawn] = deque()
        self._moved = asyncio.Event()
        self._stopped = asyncio.Event()
        self._end: str | None = None
        self._run: Run | None = None
        self._lines = 0
        self._has_result = False
        self._interrupts = Interrupts(ask=self._ask, force=self._force, flush=self._flush)

    async def whole(self, descriptor: int) -> int:
        code: int | None = None
        with self._interrupts.watching():
            await self._unless_stopped(self._target.introduce())
            Inlet(descriptor, line=self._take, end=self._ended)
            while (given := await self._next()) is not None:
                code = await self._turn(given)
        if self._interrupts.number is not None:
            # A reader of the stream is owed a result as its last line.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._target.put(b"" if self._has_result else self._unstarted(None)), LAST_WORDS)
            return exits.signal_code(self._interrupts.number)
        if self._end:
            return await self._turn(Unreadable(f"standard input cannot be read: {self._end}"))
        if code is None:
            await self._target.margin.say(NOTHING_ARRIVED)
            await self._put_result(ErrorInfo("usage", NOTHING_ARRIVED))
            return exits.WRONG_USAGE
        return code

    # What arrives

    def _take(self, line: bytes | None) -> None:
        self._lines += 1
        given = Unreadable("it is too long") if line is None else read_line(line)
        match given:
            case None:
                return
            case Control():
                self._control(given)
            case Unreadable(reason=reason):
                self._waiting.append(Unreadable(f"line {self._lines} of standard input cannot be used: {reason}"))
            case Asked():
                self._waiting.append(given)
        self._moved.set()

    def _ended(self, reason: str) -> None:
        self._end = reason
        self._moved.set()

    def _control(self, control: Control) -> None:
        if control.subtype == "interrupt":
            if self._run is not None:
                self._run.ask()
            elif self._waiting:
                self._waiting[0] = _Withdrawn()
        if control.request_id is None:
            return
        response: JsonObject = {"subtype": "success", "request_id": control.request_id}
        if control.subtype != "interrupt":
            text = f'"{control.subtype[:80]}" is not supported; interrupt is'
            response = {"subtype": "error", "request_id": control.request_id, "error": text}
        # Only what fits is written here, the rest before whatever comes next; a reader that has gone is met there.
        with contextlib.suppress(OutputLostError):
            self._target.margin.erase_now()
            self._target.pipe.push(encode({"type": "control_response", "response": response}))

    # Turns

    async def _next(self) -> Asked | Unreadable | _Withdrawn | None:
        """Return the next message; None at the end of all, or after a signal."""
        while self._interrupts.number is None:
            if self._waiting:
                return self._waiting.popleft()
            if self._end is not None:
                return None
            self._moved.clear()
            await self._moved.wait()
        return None

    async def _turn(self, given: Asked | Unreadable | _Withdrawn) -> int:
        match given:
            case Unreadable(reason=reason):
                await self._target.margin.say(reason)
                await self._put_result(ErrorInfo("bad_input", reason))
                return exits.BAD_INPUT
            case _Withdrawn():
                await self._put_result(None)
                return exits.INTERRUPTED
            case Asked():
                self._attach(given.attached)
                self._run = Run(self._conversation, self._target)
                try:
                    return await self._run.whole(given.prompt, self._interrupts)
                finally:
                    self._run = None
                    self._has_result = True

    async def _put_result(self, error: ErrorInfo | None) -> None:
        """Write the result of what had no turn; without an error it was interrupted."""
        self._has_result = True
        await self._unless_stopped(self._target.put(self._unstarted(error)))

    def _unstarted(self, error: ErrorInfo | None) -> bytes:
        return encode(unstarted_line(error, self._target.setup))

    # Signals

    def _ask(self) -> None:
        if self._run is not None:
            self._run.ask()
        else:
            self._force()

    def _force(self) -> None:
        if self._run is not None:
            self._run.force()
        self._stopped.set()
        self._moved.set()

    def _flush(self) -> None:
        if self._run is not None:
            self._run.flush()
            return
        self._target.margin.erase_now()
        with contextlib.suppress(OutputLostError):
            self._target.pipe.push(b"" if self._has_result else self._unstarted(None))

    async def _unless_stopped(self, writing: Coroutine[None, None, None]) -> None:
        """Write as long as the reader takes, unless the program is to end; what is left goes before what comes next."""
        work = asyncio.ensure_future(writing)
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not work.done():
                work.cancel()
        if work.done():
            work.result()
