"""A tool server over HTTP with faults below its protocol: error statuses, streams that end, and wrong media types."""

from __future__ import annotations

import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

STREAM = "text/event-stream"
HALF_CHARACTER = rb'{"jsonrpc": "2.0", "id": %b, "result": {"content": [{"type": "text", "text": "a\ud83d"}]}}'
"""A result as JavaScript writes a text that it cut inside a character."""


class FaultyToolServer:
    """Serves one tool, `echo`, at `url`."""

    def __init__(self, fault: str = "", start_fault: str = "", *, is_sse: bool = False) -> None:
        self.is_sse = is_sse
        """Speak the older SSE transport: the answer to a POST request is an event of the one GET request."""
        self._events: queue.Queue[bytes | None] = queue.Queue()
        self.fault = fault
        """The fault of tool calls; `_fail` lists the faults."""
        self.start_fault = start_fault
        """The fault of the first request of a connection."""
        self.redirects_to = ""
        """The address to which every request is redirected; empty for none."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        """The method and headers of each request so far."""
        self.sessions = 0
        """The number of sessions that were opened."""

    def __enter__(self) -> FaultyToolServer:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.record(self)
                if outer.is_sse:
                    outer.send_events(self)
                elif outer.fault == "resumes forever":
                    self.send(200, b"id: 1\nretry: 0\ndata:\n\n", STREAM)
                else:
                    self.send(405)

            def do_POST(self) -> None:
                outer.record(self)
                message = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                if outer.is_sse:
                    self.send(202)
                outer.answer(_EventAnswer(outer) if outer.is_sse else self, message)

            def do_DELETE(self) -> None:
                self.send(200)

            def send(self, status: int, data: bytes = b"", kind: str = "application/json", **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                return

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Ignore clients that leave early."""

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/mcp"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._events.put(None)
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def record(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append((request.command, dict(request.headers.items())))

    def count(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)

    def send_events(self, request: BaseHTTPRequestHandler) -> None:
        """Send the address for POST requests, and then each answer until the server ends."""
        request.send_response(200)
        request.send_header("Content-Type", STREAM)
        request.send_header("Connection", "close")
        request.end_headers()
        event: bytes | None = b"event: endpoint\ndata: /mcp\n\n"
        while event is not None:
            request.wfile.write(event)
            event = self._events.get()

    def put_event(self, data: bytes) -> None:
        self._events.put(b"event: message\ndata: " + data + b"\n\n")

    def answer(self, request: Any, message: dict[str, Any]) -> None:
        method = message["method"]
        if "id" not in message:
            request.send(202)
        elif self.redirects_to:
            request.send(307, Location=self.redirects_to)
        elif method in ("server/discover", "initialize") and self.start_fault:
            self._fail(self.start_fault, request)
        elif method == "initialize":
            self.sessions += 1
            info = {"name": "faulty", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            request.send(200, data, **{"Mcp-Session-Id": f"session-{self.sessions}"})
        elif method == "tools/call" and self.fault:
            self._fail(self.fault, request, message["id"])
        else:
            request.send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **_result(method)}).encode())

    def _fail(self, fault: str, request: Any, request_id: object = 1) -> None:
        match fault:
            case "a text as result":
                request.send(200, json.dumps({"jsonrpc": "2.0", "id": request_id, "result": "done"}).encode())
            case "half of a character":
                request.send(200, HALF_CHARACTER % json.dumps(request_id).encode())
            case "status 429":
                request.send(429, b"<html>slow down</html>", "text/html")
            case "a page":
                request.send(200, b"<html>Welcome to the hotel</html>", "text/html")
            case "broken JSON":
                request.send(200, b'{"jsonrpc": "2.0", "id": 1, "resu')
            case "202":
                request.send(202)
            case "a stream that ends":
                request.send(200, b'event: message\ndata: {"jsonrpc":', STREAM)
            case "resumes forever":
                request.send(200, b"id: 1\nretry: 0\ndata:\n\n", STREAM)
            case "an ended session":
                request.send(404, b"gone", "text/plain")


class _EventAnswer:
    """Sends the answer to a request as an event, in place of the handler."""

    def __init__(self, server: FaultyToolServer) -> None:
        self._server = server

    def send(self, status: int, data: bytes = b"", kind: str = "", **headers: str) -> None:
        if data:
            self._server.put_event(data)


def _result(method: str) -> dict[str, Any]:
    results: dict[str, Any] = {
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "echo"}]},
    }
    if method in results:
        return {"result": results[method]}
    return {"error": {"code": -32601, "message": "Method not found"}}
