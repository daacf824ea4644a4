"""A host that answers every request at once with a reply made beforehand, so that only the client costs anything."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from types import TracebackType

from qcode.text.json import Json

WORDS = ("The model says ", "something, then ", "a little more: ", "`code` and so on ", "and a full line.\n")


def frames(protocol: str, chunks: int) -> list[bytes]:
    """Return a healthy reply of so many pieces of text, each an event as the host of `protocol` writes it."""
    texts = [f"{number * 7919 % 997} {WORDS[number % len(WORDS)]}" for number in range(chunks)]
    sent = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}[protocol](texts)
    ending = [b"data: [DONE]\n\n"] if protocol == "openai" else []
    return [_event(item, has_name=protocol == "anthropic") for item in sent] + ending


def _openai(texts: list[str]) -> list[dict[str, Json]]:
    base: dict[str, Json] = {"id": "c", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    deltas: list[tuple[Json, Json]] = [({"content": text}, None) for text in texts]
    deltas.append(({}, "stop"))
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}
        for delta, reason in deltas
    ]


def _anthropic(texts: list[str]) -> list[dict[str, Json]]:
    message: Json = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    sent: list[dict[str, Json]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    for text in texts:
        sent.append({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
    sent.append({"type": "content_block_stop", "index": 0})
    stop: Json = {"stop_reason": "end_turn", "stop_sequence": None}
    sent.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}})
    sent.append({"type": "message_stop"})
    return sent


def _gemini(texts: list[str]) -> list[dict[str, Json]]:
    return [
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": text}], "role": "model"},
                    "index": 0,
                    **({"finishReason": "STOP"} if number == len(texts) else {}),
                }
            ],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": number, "totalTokenCount": number + 1},
            "modelVersion": "m",
            "responseId": "r",
        }
        for number, text in enumerate(texts, start=1)
    ]


def _event(sent: dict[str, Json], *, has_name: bool) -> bytes:
    name = f"event: {sent['type']}\n" if has_name else ""
    return f"{name}data: {json.dumps(sent)}\n\n".encode()


class Flood:
    """`arrived` holds when each request was whole, by the monotonic clock; every event is a separate HTTP chunk."""

    def __init__(self, protocol: str, chunks: int) -> None:
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames(protocol, chunks))
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self._answer = head + pieces + b"0\r\n\r\n"
        self.arrived: list[float] = []
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Flood:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while head := self._read_head(connection):
                before, _, body = head.partition(b"\r\n\r\n")
                lines = before.lower().split(b"\r\n")
                size = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
                while len(body) < size:
                    body += connection.recv(65_536)
                self.arrived.append(time.monotonic())
                connection.sendall(self._answer)

    @staticmethod
    def _read_head(connection: socket.socket) -> bytes:
        held = b""
        while b"\r\n\r\n" not in held:
            piece = connection.recv(65_536)
            if not piece:
                return b""
            held += piece
        return held
