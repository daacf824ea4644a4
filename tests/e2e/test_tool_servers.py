"""A tool of a real server, called in pipe mode over a real provider's wire."""

from __future__ import annotations

import json
import os
import sys

from tests.e2e.running import CliRunner
from tests.fakes.server import FakeServer
from tests.fakes.turns import Asked, Call, Turn


def _adds(asked: Asked) -> Turn:
    if asked.results:
        return Turn(text=f"It is {asked.results[0].content.split()[0]}.")
    return Turn(calls=[Call("calc__add", json.dumps({"a": 40, "b": 2}), "call_1")])


def _config(cli: CliRunner) -> str:
    path = os.pathsep.join(sys.path)
    args = ["-W", "ignore", "-m", "tests.fakes.sdk_tool_server"]
    entry = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": path}}
    (cli.home / "servers.json").write_text(json.dumps({"mcpServers": {"calc": entry}}))
    return str(cli.home / "servers.json")


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
    assert [one["tool_name"] for one in denied.result["permission_denials"]] == ["calc__add"]
    assert "--allowed-tools 'mcp(calc/add)'" in denied.err
