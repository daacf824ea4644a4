"""A scripted HTTP server on loopback: a list says when it sends, stalls, resets or closes."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias


class Stall:
    """Send nothing more and wait until the client hangs up."""


class Reset:
    """Cut the connection with a TCP reset."""


Step: TypeAlias = bytes | Stall | Reset


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. `is_chunked`: ended by the chunked coding, as real servers stream; otherwise by closing.

    One that begins with a stall or a reset does not even send its head. `is_raw`: the steps are all that is sent.
    """

    steps: Sequence[Step] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    is_chunked: bool = True
    is_raw: bool = False


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Loopback:
    """Answers its requests in order, the last answer again and again; `pace` seconds pass between two pieces."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.requests: list[Request] = []
        self.pace = 0.0
        self.connections = 0
        self.is_stalling = asyncio.Event()
        self.has_hung_up = asyncio.Event()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Loopback:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset_all(self) -> None:
        """Cut every open connection with a TCP reset."""
        for writer in list(self._writers):
            _reset(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if not await self._play(answer, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.has_hung_up.set()
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _play(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        coding = {"transfer-encoding": "chunked"} if answer.is_chunked else {"connection": "close"}
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{k}: {v}" for k, v in {**answer.headers, **coding}.items())]
        head = "\r\n".join([*lines, "", ""]).encode()
        if not answer.is_raw and not (answer.steps and isinstance(answer.steps[0], Stall | Reset)):
            writer.write(head)
        for step in answer.steps:
            if isinstance(step, bytes):
                if step:
                    is_chunk = answer.is_chunked and not answer.is_raw
                    writer.write(b"%x\r\n%s\r\n" % (len(step), step) if is_chunk else step)
                    await writer.drain()
                    await asyncio.sleep(self.pace)
            elif isinstance(step, Stall):
                self.is_stalling.set()
                await reader.read()
                self.has_hung_up.set()
                return False
            else:
                _reset(writer)
                return False
        if answer.is_raw:
            return False
        if answer.is_chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return answer.is_chunked


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
