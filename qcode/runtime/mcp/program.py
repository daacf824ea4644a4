"""A server that is a program: started in its own process group, spoken to by lines of JSON, ended with the session.

Beside the transport of the `mcp` package because that one takes lines of any length into memory, and writes what a
server says beside its answers to the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.protocol.values import dataclass
from qcode.runtime.mcp.log import Log
from qcode.runtime.mcp.spec import ServerError
from qcode.tools.processes import end_surely

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MOST_LINE = 16 * 1024 * 1024
"""Bytes of one message; a longer one ends the server."""

_GRACE_S = 0.3
_QUEUED = 16


@dataclass(frozen=True, slots=True)
class Program:
    """What to start: an absolute path or one below the folder, and everything it inherits."""

    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]


def program_path(command: str, cwd: Path, search_path: str) -> str:
    """Return the path of a command as a person writes it; raise `ServerError` where there is none."""
    name = os.path.expanduser(command)  # noqa: PTH111  # a command, which may be no path at all
    if "/" in name:
        path = cwd / name
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise ServerError(f"there is no program {command}")
        return str(path)
    found = shutil.which(name, path=search_path)
    if found is None:
        raise ServerError(f"the program {command} was not found on PATH")
    return found


@asynccontextmanager
async def running(
    program: Program, log: Log, groups: set[int], on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Start the program and yield the streams of a session; `on_end` is called when it says no more.

    When this is left nothing of its process group runs any more. `groups` holds the group meanwhile. Raises `OSError`.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    process, out_read, err_read = await _started(program)
    groups.add(process.pid)
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](_QUEUED)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](_QUEUED)
    tasks = [
        asyncio.ensure_future(_read(out_read, to_session, log, on_end)),
        asyncio.ensure_future(_listen(err_read, log)),
        asyncio.ensure_future(_write(process, from_session, to_session)),
    ]
    try:
        yield from_server, to_server
    finally:
        for stream in (to_server, from_server):
            stream.close()
        try:
            await _end(process)
        finally:
            groups.discard(process.pid)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_session, from_session):
                stream.close()
            if process.returncode:
                log.note(f"[ended with exit code {process.returncode}]")


async def _started(program: Program) -> tuple[asyncio.subprocess.Process, int, int]:
    """Start it and return it with the ends of its output and its errors, which the caller closes.

    Pipes of ours, because those of a process stay open as long as anybody else holds their other end.
    """
    (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
    with contextlib.ExitStack() as pipes:
        for handle in (out_read, err_read):
            pipes.callback(os.close, handle)
        try:
            process = await asyncio.create_subprocess_exec(
                *program.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=out_write,
                stderr=err_write,
                cwd=program.cwd,
                env=program.env,
                start_new_session=True,
            )
        finally:
            os.close(out_write)
            os.close(err_write)
        pipes.pop_all()
    return process, out_read, err_read


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, which asks a server to end, and then end what is left of its group."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)
    finally:
        await end_surely(process)


async def _read(
    handle: int, out: MemoryObjectSendStream[SessionMessage | Exception], log: Log, on_end: Callable[[], None]
) -> None:
    """Pass on what the server says, message by message; what is none is only logged."""
    import anyio
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    try:
        async with _pipe(handle, MOST_LINE) as lines:
            while line := await lines.readline():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    log.add(line[:400].rstrip() + b"\n")
                    continue
                await out.send(SessionMessage(message))
    except ValueError:
        log.note(f"[sent a message of more than {MOST_LINE // 1024 // 1024} MiB, which ends it]")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return
    finally:
        out.close()
        on_end()


async def _listen(handle: int, log: Log) -> None:
    with contextlib.suppress(OSError):
        async with _pipe(handle, 65_536) as errors:
            while data := await errors.read(65_536):
                log.add(data)


async def _write(
    process: asyncio.subprocess.Process,
    messages: MemoryObjectReceiveStream[SessionMessage],
    out: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    import anyio

    stdin = process.stdin
    assert stdin is not None
    try:
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(f"{text}\n".encode())
            await stdin.drain()
    except (OSError, anyio.ClosedResourceError):
        # It takes no more: the session must not wait for answers to what never arrived.
        out.close()


@asynccontextmanager
async def _pipe(handle: int, limit: int) -> AsyncIterator[asyncio.StreamReader]:
    """Yield a reader of a pipe's end, which is closed with it."""
    reader = asyncio.StreamReader(limit=limit)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(handle, "rb", buffering=0)
    )
    try:
        yield reader
    finally:
        transport.close()
