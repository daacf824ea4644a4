"""qcode as a tool server on standard streams, called by the client of the `mcp` package."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.e2e.running import CliRunner


def served(cli: CliRunner, body: Callable[[ClientSession], Awaitable[Any]], *flags: str) -> Any:
    """Return the result of `body`, which gets a session with `qcode mcp serve` on the demo model."""
    program, *arguments = cli.command("mcp", "serve", "-m", "demo/demo", *flags)
    parameters = StdioServerParameters(command=program, args=arguments, env=cli.environment(), cwd=cli.work)

    async def talk() -> Any:  # whatever `body` returns
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            return await body(session)

    return asyncio.run(talk())


def test_ask_answers_with_stop_reason_cost_and_progress(cli: CliRunner) -> None:
    (cli.work / "sub").mkdir()
    heard: list[str] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async def body(session: ClientSession) -> Any:
        tools = [tool.name for tool in (await session.list_tools()).tools]
        assert tools == ["ask", "permissions_check"]
        return await session.call_tool("ask", {"prompt": "hello", "folder": "sub"}, progress_callback=progressed)

    found = served(cli, body)
    assert not found.is_error, found
    row = found.structured_content
    assert (row["outcome"], row["stop_reason"], row["cost_usd"]) == ("end_turn", "end_turn", 0.0)
    assert found.content[0].text == row["text"] != ""
    assert heard[:2] == ["waiting for the model", "the model replied"]


def test_caller_can_neither_leave_the_folder_nor_change_files_of_an_untrusted_one(cli: CliRunner) -> None:
    (cli.work / "link").symlink_to(cli.home)

    async def body(session: ClientSession) -> list[Any]:
        refused = [
            await session.call_tool("ask", {"prompt": "hi", "folder": folder})
            for folder in ("..", "link", str(cli.home), "nowhere")
        ]
        empty = await session.call_tool("ask", {"prompt": " "})
        write = await session.call_tool("permissions_check", {"kind": "shell", "value": "rm -rf x"})
        odd = await session.call_tool("permissions_check", {"kind": "fly", "value": "x"})
        return [*refused, empty, odd, write]

    *errors, verdict = served(cli, body)
    assert all(error.is_error for error in errors)
    assert all("folder must be an existing folder in" in error.content[0].text for error in errors[:4])
    assert verdict.structured_content["verdict"] == "ask"


def test_cancelled_ask_ends_and_the_server_continues(cli: CliRunner) -> None:
    async def body(session: ClientSession) -> Any:
        work = asyncio.ensure_future(session.call_tool("ask", {"prompt": "a very long reply"}))
        await asyncio.wait({work}, timeout=0.3)
        work.cancel()
        await asyncio.wait({work})
        return await session.call_tool("permissions_check", {"kind": "read", "value": "x"})

    assert served(cli, body).structured_content["verdict"] == "allow"
    (session,) = cli.home.rglob("sessions/*/*.jsonl")
    assert session.stat().st_size < 100_000, "the reply, of 80,000 tokens, was received to its end"
