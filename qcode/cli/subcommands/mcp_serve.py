"""`qcode mcp serve`: qcode as a tool server on standard streams for other agents, with two tools.

`ask` runs one turn in a folder below the operator's folder. The operator decides about trust, mode and limits with
flags, and the caller cannot change them. Only messages of the protocol are written to stdout. Separate from
`subcommands.mcp`, because this module loads the server side of the `mcp` package, which reads the annotations here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    TextContent,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from qcode import __version__
from qcode.agent.agent import Agent
from qcode.agent.options import Options
from qcode.agent.permissions import CHECKED_KINDS
from qcode.cli.context import run_context
from qcode.cli.subcommands.permissions import permission_check
from qcode.cli.terminal import working_folder
from qcode.protocol.errors import QcodeError
from qcode.protocol.events import ReplyFinished, StepStarted, ToolStarted, TurnEvent
from qcode.protocol.reply import Outcome
from qcode.streams import StdinReader
from qcode.text.clean import one_line
from qcode.text.json import parse_object

if TYPE_CHECKING:
    from anyio import AsyncFile

    from qcode.agent.programs.results import Result

MAX_RUNNING = 4
"""The maximum number of concurrent turns; further calls wait."""

MAX_PROMPT_CHARS = 1_000_000
"""The maximum length of a prompt, because the operator pays for it."""

MAX_LINE_BYTES = 8 * 1024 * 1024
"""The maximum length of a line of the client: a prompt of `MAX_PROMPT_CHARS` takes 6 MB if all are escaped."""
_TOO_LONG = f"the line has more than {MAX_LINE_BYTES:,} bytes"

_ASK = (
    "Let qcode, a coding agent, do one task in a folder: it reads, edits and runs code within the permissions of its "
    "user. Returns its answer, why it stopped, and the cost. Each call starts a new conversation."
)
_CHECK = (
    "Check whether qcode may run a shell command, read or write a path, or fetch a URL here, and why. Runs nothing. "
    "kind is shell, read, write or fetch."
)


def serve(options: Options) -> int:
    """Serve until the client closes stdin; raise `QcodeError` if the folder or the settings cannot be used."""
    root = Path(working_folder(options.cwd)).resolve()
    run_context(options, root, is_attended=False)  # an unusable configuration is reported now, not at the first call
    asyncio.run(_serve(_server(options, root)))
    return 0


async def _serve(server: MCPServer) -> None:
    """Run the server on stdin and stdout until the client closes stdin."""
    descriptor = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # processes of tools must not read the requests
    lines = _Lines(descriptor)
    try:
        async with stdio_server(stdin=cast("AsyncFile[str]", lines)) as (read, write):
            lines.refuse = lambda error: write.send(SessionMessage(error))
            lowlevel = server._lowlevel_server  # `run` takes no streams
            await lowlevel.run(read, write, lowlevel.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client ended during a call


class _Lines:
    """The lines of the client that are JSON-RPC. Any other line gets an error, because the server would ignore it."""

    def __init__(self, descriptor: int) -> None:
        self.refuse: Callable[[JSONRPCError], Any] = _ignore
        """Sends an error to the client."""
        self._lines: asyncio.Queue[bytes | Literal["too long", "end"]] = asyncio.Queue()
        self._reader = StdinReader(
            descriptor, on_line=self._put, on_end=lambda _: self._lines.put_nowait("end"), max_line_bytes=MAX_LINE_BYTES
        )

    def _put(self, line: bytes | None) -> None:
        """Queue a line; None stands for a line that is too long."""
        self._reader.hold(len(line or b""))  # reading pauses while too many bytes are queued
        self._lines.put_nowait("too long" if line is None else line)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while (line := await self._lines.get()) != "end":
            if line == "too long":
                await self.refuse(_error(INVALID_REQUEST, _TOO_LONG))
                continue
            self._reader.release(len(line))
            text = line.decode("utf-8", "replace")
            error = _problem(text)
            if error is not None:
                await self.refuse(error)
            elif text.strip():
                return text
        raise StopAsyncIteration


async def _ignore(error: JSONRPCError) -> None:
    """Send nothing, because the streams are not open yet."""


def _problem(text: str) -> JSONRPCError | None:
    """Return the error for a line that is not a message, None for a message and for a blank line."""
    if not text.strip():
        return None
    try:
        jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as problem:
        if any(row["type"] == "json_invalid" for row in problem.errors(include_url=False, include_input=False)):
            # JSON with half a surrogate pair is refused too, and a client waits for the answer to its request.
            return _error(PARSE_ERROR, "the line is not JSON", _request_id(text))
        return _error(INVALID_REQUEST, "the line is not a JSON-RPC message", _request_id(text))
    return None


def _request_id(text: str) -> str | int | None:
    """Return the id in an invalid request, None if it has no valid one."""
    value = (parse_object(text) or {}).get("id")
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _error(code: int, message: str, request_id: str | int | None = None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def _server(options: Options, root: Path) -> MCPServer:
    """Return the server with its two tools."""
    server = MCPServer("qcode", version=__version__, log_level="CRITICAL")
    turns = asyncio.Semaphore(MAX_RUNNING)

    @server.tool(description=_ASK, structured_output=False)
    async def ask(prompt: str, ctx: Context[Any], folder: str = ".") -> CallToolResult:
        if not prompt.strip():
            raise ToolError("the prompt is empty")
        if len(prompt) > MAX_PROMPT_CHARS:
            raise ToolError(f"the prompt has {len(prompt):,} characters, more than {MAX_PROMPT_CHARS:,}")
        path = _folder_in(root, folder)
        if path is None:
            raise ToolError(f"folder must be an existing folder in {root}")
        async with turns:
            try:
                return await _run_prompt(replace(options, cwd=path), prompt, ctx.report_progress)
            except QcodeError as error:
                raise ToolError(str(error)) from None

    @server.tool(description=_CHECK, structured_output=False)
    async def permissions_check(kind: str, value: str) -> CallToolResult:
        known_kind = next((known for known in CHECKED_KINDS if known == kind), None)
        if known_kind is None:
            raise ToolError(f"kind must be one of {', '.join(CHECKED_KINDS)}")
        judge = await asyncio.to_thread(lambda: permission_check(run_context(options, root, is_attended=False)))
        verdict = await asyncio.to_thread(judge, known_kind, value)
        row = {"verdict": verdict.verdict, "reason": verdict.reason, "rule": verdict.decided_by}
        return _result(f"{verdict.verdict}: {verdict.reason}", row)

    return server


def _folder_in(root: Path, folder: str) -> Path | None:
    """Return a folder inside `root`, None for anything else, such as a name that no folder can have."""
    try:
        path = Path(os.path.realpath(root / folder))
        return path if path.is_relative_to(root) and path.is_dir() else None
    except (OSError, ValueError):
        return None


async def _run_prompt(options: Options, prompt: str, report: Callable[..., Any]) -> CallToolResult:
    """Run one turn, and call `report` for each step and call. Cancelling the task cancels the turn."""
    context = await asyncio.to_thread(run_context, options, Path(options.cwd or "."), is_attended=False)
    report_count = 0
    async with Agent.open(context) as agent:
        stream = agent.stream(prompt, append_only=False)
        async with stream, aclosing(stream):
            async for event in stream:
                text = _progress(event)
                if text:
                    report_count += 1
                    await report(report_count, message=text)
        return _answer(stream.result)


def _progress(event: TurnEvent) -> str:
    match event:
        case StepStarted():
            return "waiting for the model"
        case ToolStarted(call=call):
            return f"running {one_line(call.name, 60)}"
        case ReplyFinished():
            return "the model replied"
    return ""


def _answer(result: Result[Any]) -> CallToolResult:
    row: dict[str, Any] = {
        "text": result.text,
        "outcome": result.outcome.value,
        "stop_reason": result.stop.value if result.stop is not None else None,
        "cost_usd": float(result.cost) if result.cost is not None else None,
        "num_turns": result.num_turns,
        "session_id": result.session_id,
        "denials": len(result.denials),
    }
    if result.error is not None:
        row["error"] = {"kind": result.error.kind, "message": result.error.message}
    text = result.text
    if not text and result.error is not None:
        text = result.error.message
    is_error = result.outcome is Outcome.ERROR
    return _result(text or f"(no answer: {result.outcome.value})", row, is_error=is_error)


def _result(text: str, row: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], structured_content=row, is_error=is_error)
