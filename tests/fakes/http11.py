"""The part of HTTP/1.1 that a fake host needs: read one request, write one whole answer or one chunked event stream.

Every connection serves one request and is closed. Chunked framing makes a cut visible to a client, as it is on a
real connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.turns import Faults, Frame, ReceivedRequest


class BadRequestError(Exception):
    """The bytes on the socket are not an HTTP request."""


async def read_request(reader: asyncio.StreamReader) -> tuple[str, ReceivedRequest] | None:
    """Return method and request, None if the client disconnected before it sent one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    try:
        method, target, _ = first.split(" ")
    except ValueError as error:
        raise BadRequestError(first) from error
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await _read_body(reader, headers)
    url = urlsplit(target)
    parsed = json.loads(body) if body else {}
    return method, ReceivedRequest(unquote(url.path), dict(parse_qsl(url.query)), headers, parsed)


async def write_whole(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], body: str | dict[str, Any]
) -> None:
    """Write one complete answer: an object as JSON, a text as HTML unless `headers` name another type."""
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    kind = "text/html; charset=utf-8" if isinstance(body, str) else "application/json"
    writer.write(_head(status, {"content-type": kind, "content-length": str(len(data)), **headers}) + data)
    await writer.drain()


async def start_stream(writer: asyncio.StreamWriter, headers: Mapping[str, str]) -> None:
    stream = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
    writer.write(_head(200, {**stream, "cache-control": "no-cache", **headers}))
    await writer.drain()


async def write_chunk(writer: asyncio.StreamWriter, data: bytes, split_every: int | None = None) -> None:
    """Write `data` as one HTTP chunk, or as several chunks of `split_every` bytes."""
    size = split_every or max(1, len(data))
    for index in range(0, len(data), size):
        part = data[index : index + size]
        writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        await writer.drain()


async def end_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def pieces(frames: list[Frame], faults: Faults, newline: str) -> Iterator[bytes]:
    """Yield the bytes of each event, with the faults that change bytes but no content."""
    if faults.crlf is not None:
        newline = "\r\n" if faults.crlf else "\n"
    for index, frame in enumerate(frames):
        data = faults.inserted.get(index, b"")
        if faults.comments:
            data += f": keep-alive{newline}{newline}".encode()
        data += render(frame, newline, many_data_lines=faults.many_data_lines)
        if faults.without_last_blank and index == len(frames) - 1:
            data = data.removesuffix(newline.encode())
        yield data


def render(frame: Frame, newline: str, *, many_data_lines: bool = False) -> bytes:
    """Return `frame` as an SSE event. `many_data_lines`: spread JSON over several data lines, which a reader joins."""
    lines = [f"event: {frame.event}"] if frame.event else []
    data = frame.data
    if many_data_lines and data.startswith("{"):
        data = json.dumps(json.loads(data), ensure_ascii=False, indent=0)
    lines += [f"data: {line}" for line in data.split("\n")]
    return (newline.join(lines) + newline * 2).encode()


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Overloaded" if status == 529 else "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
