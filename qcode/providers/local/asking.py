"""One question to a server nearby: a small HTTP/1.0 exchange for JSON, without an HTTP library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from qcode.protocol.json import Json, JsonObject

_MAX_ANSWER = 1024 * 1024


async def ask(
    address: str, path: str, body: JsonObject | None = None, headers: Mapping[str, str] | None = None
) -> Json:
    """Return the JSON at `path` of the server at `address`, the answer to a POST where there is a `body`.

    Raises `OSError`, `EOFError` or `ValueError` where there is none: no server, no HTTP without TLS, no 200, no JSON.
    Has no time limit of its own.
    """
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("not a plain HTTP address")
    content = json.dumps(body).encode() if body is not None else b""
    lines = [
        f"{'POST' if body is not None else 'GET'} {parts.path.rstrip('/')}{path} HTTP/1.0",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "Accept: application/json",
        "Connection: close",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    if content:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await writer.drain()
        return await _answer(reader)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> Json:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    status = first.split(" ", 2)
    if len(status) < 2 or status[1] != "200":
        raise ValueError("not a 200")
    named = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if named.get("content-length", "").isdecimal():
        length = int(named["content-length"])
        if length > _MAX_ANSWER:
            raise ValueError("the answer is too long")
        value: Json = json.loads(await reader.readexactly(length))
        return value
    answer = bytearray()
    while piece := await reader.read(65_536):
        answer += piece
        if len(answer) > _MAX_ANSWER:
            raise ValueError("the answer is too long")
    read: Json = json.loads(answer)
    return read
