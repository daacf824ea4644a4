"""qcode started by qcode: by a hook, by a command, and as a tool server of itself."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from tests.e2e.running import CliRunner
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, ReceivedRequest, Turn

QCODE = [sys.executable, "-m", "qcode"]
ENDLESS = "qcode was started by itself 4 times in a row (QCODE_DEPTH=4)"


def flags(server: FakeServer) -> list[str]:
    return ["-m", "openai/test-model", "--base-url", server.base_url]


def configure(cli: CliRunner, text: str) -> None:
    file = cli.home / ".config/qcode/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_hook_that_starts_qcode_stops_at_the_fourth_one(cli: CliRunner) -> None:
    starts = cli.home / "starts"
    with FakeServer("openai", lambda asked: Turn(text="Fine.")) as server:
        nested = shlex.join([*QCODE, *flags(server), "-p", "classify this"])
        guarded = f"echo x >> {starts}; [ $(wc -l < {starts}) -gt 9 ] || OPENAI_API_KEY=sk-nested {nested}"
        configure(cli, f"[[hooks.UserPromptSubmit]]\ncommand = {json.dumps(guarded)}\ntimeout_s = 60\n")
        done = cli.ask(server, "-p", "hello")
    assert len(starts.read_text().split()) == 4
    assert done.code == 55
    assert ENDLESS in done.err
    assert "sk-nested" not in done.err


def test_hook_that_starts_qcode_without_hooks_adds_its_answer(cli: CliRunner) -> None:
    def answered(asked: ReceivedRequest) -> Turn:
        return Turn(
            text="It is a greeting." if "classify this" in str(asked.messages[-1]) else f"Got: {asked.messages}"
        )

    with FakeServer("openai", answered) as server:
        nested = shlex.join([*QCODE, "--no-hooks", *flags(server), "-p", "classify this"])
        configure(cli, f"[[hooks.UserPromptSubmit]]\ncommand = {json.dumps(f'OPENAI_API_KEY=sk-nested {nested}')}\n")
        done = cli.ask(server, "-p", "hello")
    assert "It is a greeting." in done.out


@pytest.mark.broad
def test_qcode_as_its_own_tool_server_stops_at_the_fourth_one(cli: CliRunner) -> None:
    def again(asked: ReceivedRequest) -> Turn:
        return (
            Turn(text=f"Got: {asked.results[0].content}")
            if asked.results
            else Turn(calls=[Call("self__ask", '{"prompt": "again"}')])
        )

    with FakeServer("openai", again) as server:
        command = [*QCODE, "mcp", "serve", "--trust", *flags(server)]
        configure(
            cli,
            f"[permissions]\nallow = ['mcp(self/*)']\n"
            f"[mcp_servers.self]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
            "env = { OPENAI_API_KEY = 'sk-nested' }\n",
        )
        done = cli.ask(server, "--trust", "-p", "hello")
    assert len(server.requests) == 8
    assert ENDLESS in done.out
