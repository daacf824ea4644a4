"""A tool server made with the server side of the `mcp` package, over standard streams or over HTTP.

`python -m tests.fakes.sdk_tool_server` serves on standard streams, `HttpToolServer` in a thread on loopback. The
package takes a second to import: tests that do not need a real server start `tests.fakes.tool_server` instead.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp_types import (
    CallToolResult,
    Completion,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

from tests.fakes.tool_server import CONTROLS, PNG, mark

_BASE64 = base64.b64encode(PNG).decode()
FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def build() -> MCPServer:
    """Return the server with all tools, prompts and resources."""
    server = MCPServer("fake", log_level="CRITICAL")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers"""
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
        memo = TextResourceContents(uri="memo://1", text="remember")
        return CallToolResult(content=[EmbeddedResource(resource=memo)], structured_content={"deep": [1, 2]})

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
        """The working folder"""
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
    def ask(ctx: Context[Any]) -> str | InputRequiredResult:
        """Asks for a name"""
        found = (ctx.input_responses or {}).get("who")
        if not isinstance(found, ElicitResult):
            form = ElicitRequestFormParams(message="Who are you?", requested_schema=FORM)
            return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)}, request_state="state 1")
        return f"{found.action} {(found.content or {}).get('name')} {ctx.request_state}"

    @server.tool()
    def ask_forever() -> InputRequiredResult:
        """Never has enough"""
        return InputRequiredResult(request_state="again")

    @server.tool()
    def crash() -> str:
        """Ends the server"""
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(3)

    add_questions(server)
    add_texts(server)
    return server


class Booking(BaseModel):
    seats: int


def add_questions(server: MCPServer) -> None:
    """Add tools that ask while they run, which only the older protocol supports."""

    @server.tool()
    async def ask_while_running(ctx: Context[Any]) -> str:
        found = await ctx.elicit("How many?", Booking)
        return f"{found.action} {getattr(found, 'data', None)}"

    @server.tool()
    async def ask_and_catch(ctx: Context[Any]) -> str:
        try:
            return await ask_while_running(ctx)
        except Exception as error:  # noqa: BLE001  # as tools of other people do
            return f"Not asked: {error}"


def add_texts(server: MCPServer) -> None:
    """Add prompts and resources, with completions."""

    @server.prompt(description="Review code")
    def review(code: str, style: str = "short") -> list[Message]:
        return [UserMessage(f"Review {code} in a {style} style, see @/etc/hostname"), AssistantMessage("I will.")]

    @server.prompt()
    def show() -> list[Any]:
        return [UserMessage("Look at this:"), UserMessage(ImageContent(data=_BASE64, mime_type="image/png"))]

    @server.resource("memo://today", mime_type="text/plain")
    def today() -> str:
        return "buy milk </resource> \x1b[31mnow"

    @server.resource("memo://long")
    def long() -> str:
        return "x" * 300_000

    @server.resource("memo://picture", mime_type="image/png")
    def picture() -> bytes:
        return PNG

    @server.resource("memo://sound", mime_type="audio/wav")
    def sound() -> bytes:
        return b"RIFF\x00"

    @server.resource("memo://note/{name}")
    def note(name: str) -> str:
        return f"the note {name}"

    @server.completion()  # type: ignore[no-untyped-call,untyped-decorator]  # the package has no types here
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        given = (context.arguments or {}) if context is not None else {}
        offered = {"style": ["short", "long", f"like {given.get('code')}"], "name": ["monday", "tuesday"]}
        values = [item for item in offered.get(argument.name, []) if item.startswith(argument.value)]
        return Completion(values=values)


class HttpToolServer:
    """The same server over HTTP on loopback, in a thread."""

    def __init__(self, *, is_json: bool = False, error_status: int = 0, sse: bool = False) -> None:
        self._is_json = is_json
        """Responses are JSON instead of event streams."""
        self._error_status = error_status
        """The status of every response; 0 for none. With `sse` only POST requests to `/mcp` get it."""
        self._sse = sse
        """The server has only the older HTTP transport."""
        self.asked: list[dict[str, str]] = []
        """The headers of each request so far."""
        self.url = ""

    def __enter__(self) -> HttpToolServer:
        import uvicorn

        server = build()
        app = server.sse_app(sse_path="/mcp") if self._sse else server.streamable_http_app(json_response=self._is_json)

        async def recording_app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self.asked.append({name.decode(): value.decode() for name, value in scope["headers"]})
                is_older = self._sse and (scope["method"] != "POST" or scope["path"] != "/mcp")
                if self._error_status and not is_older:
                    await send({"type": "http.response.start", "status": self._error_status, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await app(scope, receive, send)

        config = uvicorn.Config(recording_app, port=0, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
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


def run(server: MCPServer) -> None:
    """Serve on standard streams."""
    mark("starts", str(os.getpid()))
    server.run("stdio")


if __name__ == "__main__":
    run(build())
