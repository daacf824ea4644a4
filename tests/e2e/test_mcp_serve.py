"""qcode as a tool server on standard streams, called by the client of the `mcp` package."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tests.e2e.running import CliRunner

if TYPE_CHECKING:
    from mcp import ClientSession


def served(cli: CliRunner, body: Callable[[ClientSession], Awaitable[Any]], *flags: str) -> Any:
    """Return the result of `body`, which gets a session with `qcode mcp serve` on the demo model."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

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
    (cli.work / "file").touch()

    async def body(session: ClientSession) -> list[Any]:
        refused = [
            await session.call_tool("ask", {"prompt": "hi", "folder": folder})
            for folder in ("..", "link", str(cli.home), "nowhere", "file", "\0", "a" * 5_000, "sub/../..")
        ]
        empty = await session.call_tool("ask", {"prompt": " "})
        write = await session.call_tool("permissions_check", {"kind": "shell", "value": "rm -rf x"})
        odd = await session.call_tool("permissions_check", {"kind": "fly", "value": "x"})
        return [*refused, empty, odd, write]

    *errors, verdict = served(cli, body)
    assert all(error.is_error for error in errors)
    assert all("folder must be an existing folder in" in error.content[0].text for error in errors[:8])
    assert verdict.structured_content["verdict"] == "ask"


def test_cancelled_ask_ends_and_the_server_continues(cli: CliRunner) -> None:

    async def body(session: ClientSession) -> Any:
        begun = asyncio.Event()

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        asked = session.call_tool("ask", {"prompt": "a very long reply"}, progress_callback=progressed)
        work = asyncio.ensure_future(asked)
        await begun.wait()
        work.cancel()
        await asyncio.wait({work})
        return await session.call_tool("permissions_check", {"kind": "read", "value": "x"})

    assert served(cli, body).structured_content["verdict"] == "allow"
    (session,) = cli.home.rglob("sessions/*/*.jsonl")
    assert session.stat().st_size < 100_000, "the reply, of 80,000 tokens, was received to its end"


def test_huge_prompt_is_refused_and_concurrent_calls_are_all_answered(cli: CliRunner) -> None:

    async def body(session: ClientSession) -> Any:
        huge = await session.call_tool("ask", {"prompt": "x" * 1_000_001})
        odd = await session.call_tool("permissions_check", {"kind": "shell", "value": "x" * 1_000_000})
        return huge, odd, await asyncio.gather(*(session.call_tool("ask", {"prompt": f"hello {n}"}) for n in range(6)))

    huge, odd, answers = served(cli, body)
    assert huge.is_error
    assert "more than 1,000,000" in huge.content[0].text
    assert odd.structured_content["verdict"] == "ask"
    assert {answer.structured_content["outcome"] for answer in answers} == {"end_turn"}
    assert len({answer.structured_content["session_id"] for answer in answers}) == 6


def test_text_of_a_caller_attaches_nothing_and_runs_no_command(cli: CliRunner) -> None:

    (cli.work / "secret.txt").write_text("canary")

    async def body(session: ClientSession) -> Any:
        return [await session.call_tool("ask", {"prompt": text}) for text in ("see @secret.txt", "/init", "!ls")]

    assert all(not answer.is_error for answer in served(cli, body))
    stored = "".join(path.read_text() for path in cli.home.rglob("sessions/*/*.jsonl"))
    assert "canary" not in stored
    assert "@secret.txt" in stored
