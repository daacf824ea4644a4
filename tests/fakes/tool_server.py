"""A real tool server, made with the server side of the `mcp` package: over its standard streams, or over HTTP.

`python -m tests.fakes.tool_server [KIND]` serves on standard streams; `HttpToolServer` in a thread on loopback. Files
of the folder that `TOOL_SERVER_STATE` names steer what it does, so that a test can change it between two starts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
import sys
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
assert zlib.crc32(PNG[12:29]) == struct.unpack(">I", PNG[29:33])[0]
CONTROLS = "\x1b]0;owned\x07\x1b[31mred\x00\u202e\U000e0041hidden"


def state_dir() -> Path | None:
    given = os.environ.get("TOOL_SERVER_STATE")
    return Path(given) if given else None


def mark(name: str, text: str = "") -> None:
    """Leave a file for the test to wait for."""
    folder = state_dir()
    if folder is not None:
        with (folder / name).open("a") as file:
            file.write(f"{text}\n")


def steered(name: str, default: str) -> str:
    folder = state_dir()
    path = folder / name if folder is not None else None
    return path.read_text() if path is not None and path.exists() else default


def build() -> MCPServer:
    """The server with every tool."""
    server = MCPServer("fake", log_level="CRITICAL")

    @server.tool(description=steered("description", "Add two numbers"))
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    def fail(why: str) -> str:
        """Always fails"""
        raise ToolError(why)

    @server.tool()
    def draw() -> Image:
        """A picture"""
        return Image(data=PNG, format="png")

    @server.tool()
    def resource() -> CallToolResult:
        """A resource in the result"""
        found = TextResourceContents(uri="memo://1", text="remember")
        return CallToolResult(content=[EmbeddedResource(resource=found)], structured_content={"deep": [1, 2]})

    @server.tool()
    def flood(size: int) -> CallToolResult:
        """A lot of text"""
        return CallToolResult(content=[TextContent(text="x" * size)])

    @server.tool()
    def controls() -> str:
        """Text with control characters"""
        return CONTROLS

    @server.tool()
    def environment() -> str:
        """The names of its variables"""
        return " ".join(sorted(os.environ))

    @server.tool()
    def folder() -> str:
        """Where it runs"""
        return str(Path.cwd())

    @server.tool()
    async def slow(ctx: Context[Any], seconds: float) -> str:
        """Takes its time"""
        mark("begun")
        try:
            await ctx.report_progress(1, 3, "on the way")
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            mark("cancelled")
            raise
        return "done"

    @server.tool()
    def crash() -> str:
        """Ends the server"""
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(3)

    _add_more(server)
    return server


def _add_more(server: MCPServer) -> None:
    if steered("more", ""):
        server.add_tool(lambda: "more", name="more", description="A further tool")
    if steered("hostile", ""):
        server.add_tool(lambda: "x", name="odd name!", description=CONTROLS)
        server.add_tool(lambda: "x", name="odd.name.", description="one of two of that name")
        server.add_tool(lambda: "x", name="l" * 120, description="long " * 200_000)


def main() -> None:
    mark("starts", str(os.getpid()))
    kind = steered("kind", sys.argv[1] if len(sys.argv) > 1 else "")
    if kind == "exits":
        sys.stderr.write("no license found\n")
        sys.exit(4)
    if kind == "silent":
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    if kind == "noisy":
        sys.stdout.write("Welcome to the noisy server!\n")
        sys.stdout.flush()
    if kind == "endless":
        while True:
            sys.stdout.write("x" * 65_536)
    if kind == "strict":
        strict()
    else:
        build().run("stdio")


def strict() -> None:
    """Serve by hand as a server that knows only the handshake, and leaves where anything else comes first."""
    first: dict[str, Any] = json.loads(sys.stdin.readline())
    if first["method"] != "initialize":
        sys.exit(1)
    answers: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "strict", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "old", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "old answer"}]},
    }
    asked = first
    while True:
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        asked = json.loads(line)


class HttpToolServer:
    """The same over HTTP on loopback, in a thread. `asked` are the headers of every request so far."""

    def __init__(self, *, is_json: bool = False, refuses: int = 0) -> None:
        self._is_json = is_json
        self._refuses = refuses
        self.asked: list[dict[str, str]] = []
        self.url = ""

    def __enter__(self) -> HttpToolServer:
        import uvicorn

        app = build().streamable_http_app(json_response=self._is_json)

        async def noting(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self.asked.append({name.decode(): value.decode() for name, value in scope["headers"]})
                if self._refuses:
                    await send({"type": "http.response.start", "status": self._refuses, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await app(scope, receive, send)

        config = uvicorn.Config(noting, port=0, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()


if __name__ == "__main__":
    main()
