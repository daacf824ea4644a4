"""qcode as a tool server on standard streams, called by the client of the `mcp` package."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

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
    (cli.work / "loop").symlink_to("loop")

    async def body(session: ClientSession) -> list[Any]:
        refused = [
            await session.call_tool("ask", {"prompt": "hi", "folder": folder})
            for folder in ("..", "link", str(cli.home), "nowhere", "file", "\0", "a" * 5_000, "sub/../..", "loop")
        ]
        empty = await session.call_tool("ask", {"prompt": " "})
        write = await session.call_tool("permissions_check", {"kind": "shell", "value": "rm -rf x"})
        odd = await session.call_tool("permissions_check", {"kind": "fly", "value": "x"})
        return [*refused, empty, odd, write]

    *errors, verdict = served(cli, body)
    assert all(error.is_error for error in errors)
    assert all("folder must be an existing folder in" in error.content[0].text for error in errors[:9])
    assert verdict.structured_content["verdict"] == "ask"


@pytest.mark.broad
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


@pytest.mark.broad
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


@pytest.mark.broad
def test_text_of_a_caller_attaches_nothing_and_runs_no_command(cli: CliRunner) -> None:

    (cli.work / "secret.txt").write_text("canary")

    async def body(session: ClientSession) -> Any:
        return [await session.call_tool("ask", {"prompt": text}) for text in ("see @secret.txt", "/init", "!ls")]

    assert all(not answer.is_error for answer in served(cli, body))
    stored = "".join(path.read_text() for path in cli.home.rglob("sessions/*/*.jsonl"))
    assert "canary" not in stored
    assert "@secret.txt" in stored


class Lines:
    """A client that writes lines. `answers` are the responses so far, in order."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.answers: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.send({"id": "hello", "method": "initialize", "params": HELLO})
        self.send({"method": "notifications/initialized"})

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self.answers.append(message)

    def send(self, message: dict[str, Any] | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def wait(self, request_id: str | int, seconds: float = 20, count: int = 1) -> None:
        """Wait until a request is answered, or `count` requests of this id; answers come in any order."""
        end = time.monotonic() + seconds
        while sum(one["id"] == request_id for one in self.answers) < count:
            assert time.monotonic() < end, self.answers[-3:]
            assert self.process.poll() is None
            time.sleep(0.01)

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(20)
        self._reader.join(20)
        return code


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
CHECK = {"name": "permissions_check", "arguments": {"kind": "read", "value": "x"}}


@contextmanager
def writing(cli: CliRunner) -> Iterator[Lines]:
    command = cli.command("mcp", "serve", "-m", "demo/demo", "--base-url", "http://127.0.0.1:9")
    with subprocess.Popen(
        command, cwd=cli.work, env=cli.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Lines(process)
        finally:
            process.kill()


@pytest.mark.broad
def test_each_line_that_is_no_message_gets_one_error(cli: CliRunner) -> None:
    sent = [b"{nope", b"5", b"[]", b"\xff", b" ", b'{"jsonrpc":"2.0","id":1,"method":"x","params":7}', b"[" * 99_999]
    sent.append(rb'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"\ud800"}}')
    with writing(cli) as client:
        for line in sent:
            client.send(line)
        client.send({"id": 2, "method": "ping", "params": {"x": "a" * 9_000_000}})
        for value in ("x", "y"):  # an id that is used again while its request runs
            client.send(
                {"id": 3, "method": "tools/call", "params": CHECK | {"arguments": {"kind": "read", "value": value}}}
            )
        client.send({"id": 4, "method": "no/such"})
        client.wait(4)
        client.wait(3, count=2)
        assert client.end() == 0
    errors = [(one["id"], one["error"]["code"]) for one in client.answers if "error" in one]
    assert Counter(errors) == {(None, -32700): 3, (None, -32600): 3, (1, -32600): 1, (4, -32601): 1, (5, -32700): 1}
    assert [one["id"] for one in client.answers].count(3) == 2


@pytest.mark.broad
def test_client_that_ends_during_a_call_leaves_no_process_and_no_crash_report(cli: CliRunner) -> None:
    command = cli.command("mcp", "serve", "-m", "demo/demo")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=cli.work, env=cli.environment(), stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        ask = {"name": "ask", "arguments": {"prompt": "show me everything"}, "_meta": {"progressToken": 1}}
        for row in (
            {"id": 1, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": ask},
        ):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **row}).encode() + b"\n")
        process.stdin.flush()
        while b"progress" not in process.stdout.readline():
            assert process.poll() is None
        process.stdout.close()
        process.stdin.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == b""


@pytest.mark.broad
@pytest.mark.timeout(200)
def test_random_lines_for_a_minute_get_one_answer_for_each_request(cli: CliRunner) -> None:
    pick, count = random.Random(7), 0
    methods = ("ping", "tools/list", "tools/call", "initialize", "resources/read", "prompts/get", "", "no/such")
    values: tuple[Any, ...] = (None, 7, [], {}, CHECK, {"name": "ask", "arguments": {"prompt": "hi"}}, {"name": 5}, "x")
    with writing(cli) as client:
        client.wait("hello")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            wanted = []
            for _ in range(20):
                count += 1
                wanted.append(count)
                message = {"jsonrpc": "2.0", "id": count, "method": pick.choice(methods), "params": pick.choice(values)}
                client.send(message)
                if pick.random() < 0.3:
                    line = json.dumps({**message, "id": None}).encode()
                    client.send(
                        pick.choice([line[: pick.randrange(len(line))], b"\0", b'"', b'{"id":[]}', b"\r", b"{}"])
                    )
            for request_id in wanted:
                client.wait(request_id, 30)
            answered = Counter(one["id"] for one in client.answers)
            assert [answered[request_id] for request_id in wanted] == [1] * len(wanted)
            client.answers.clear()
        assert client.end() == 0
    assert count > 500
