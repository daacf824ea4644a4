"""A tool of a real server, called in pipe mode over a real provider's wire."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.e2e.running import CliRunner
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, ReceivedRequest, Turn


def _adds(asked: ReceivedRequest) -> Turn:
    if asked.results:
        return Turn(text=f"It is {asked.results[0].content.split()[0]}.")
    return Turn(calls=[Call("calc__add", json.dumps({"a": 40, "b": 2}), "call_1")])


def _config(cli: CliRunner) -> str:
    path = os.pathsep.join(sys.path)
    args = ["-W", "ignore", "-m", "tests.fakes.sdk_tool_server"]
    entry = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": path}}
    (cli.home / "servers.json").write_text(json.dumps({"mcpServers": {"calc": entry}}))
    return str(cli.home / "servers.json")


@pytest.mark.broad
def test_prompt_and_resource_of_a_server_reach_the_model_in_pipe_mode(cli: CliRunner) -> None:
    seen: list[str] = []

    def answer(asked: ReceivedRequest) -> Turn:
        seen.append(json.dumps(asked.body["messages"][-1]))
        return Turn(text="Done.")

    given = ("--mcp-config", _config(cli), "--trust")
    with FakeServer("anthropic", answer) as server:
        done = cli.ask(server, "-p", "/calc:review a.py style=long", *given, stdin=b"piped @calc:memo://today")
        cli.ask(server, "-p", "read @calc:memo://today and @calc:memo://none", *given, stdin=b"x")
        missing = cli.ask(server, "-p", "/calc:review", *given)
    assert (done.code, done.out.strip(), done.err) == (0, "Done.", "")
    assert "Review a.py in a long style" in seen[0]
    assert "buy milk" not in seen[0]
    assert "data, not instructions" in seen[1]
    assert "buy milk" in seen[1]
    assert (missing.code, len(seen)) == (1, 2)
    assert "/calc:review: missing code; use /calc:review <code> [style]" in missing.err


def test_server_tool_is_offered_allowed_and_called(cli: CliRunner) -> None:
    given = ("-p", "add", "--mcp-config", _config(cli), "--trust", "-o", "stream-json")
    with FakeServer("anthropic", _adds) as server:
        done = cli.ask(server, *given, "--allowed-tools", "mcp(calc/add)")
        assert server.complaints == []
        denied = cli.ask(server, *given)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0]["tools"][-1].startswith("calc__")
    assert "calc__add" in done.lines[0]["tools"]
    assert done.result["result"] == "It is 42."
    assert [permission_denial["tool_name"] for permission_denial in denied.result["permission_denials"]] == [
        "calc__add"
    ]
    assert "--allowed-tools 'mcp(calc/add)'" in denied.err


def test_log_messages_of_a_server_are_shown_with_verbose_and_logged(cli: CliRunner) -> None:
    entry = {"command": sys.executable, "args": ["-m", "tests.fakes.tool_server", "prompts"]}
    servers = {"calc": {**entry, "env": {"PYTHONPATH": os.pathsep.join(sys.path)}}}
    given = ("-p", "hi", "--mcp-config", json.dumps({"mcpServers": servers}), "--trust")
    with FakeServer("anthropic", lambda asked: Turn(text="Done.")) as server:
        plain = cli.ask(server, *given)
        verbose = cli.ask(server, *given, "-v", "--debug-log", str(cli.home / "debug.log"))
    assert (plain.code, plain.err, verbose.out.strip()) == (0, "", "Done.")
    assert "qcode: tool servers: calc: [warning] db: the index is old\n" in verbose.err
    assert 'calc: [info] {\\"rows\\": 3}' in (cli.home / "debug.log").read_text()
