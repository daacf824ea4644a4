"""A skill, hooks, a prompt of a tool server and a nested AGENTS.md act in one turn of the app."""

from __future__ import annotations

import json
import os
import sys
import time

from tests.e2e.running import KEY_VARIABLES, CliRunner
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, ReceivedRequest, Turn

KEY = "sk-canary-0123456789abcdef"
FILES = {
    ".qcode/skills/release/SKILL.md": "---\nname: release\ndescription: releases\n---\nTag $ARGUMENTS first.\n",
    ".qcode/config.toml": (
        "[[hooks.UserPromptSubmit]]\ncommand = 'echo The branch is frozen.'\n"
        "[[hooks.PostToolUse]]\nmatcher = 'Read'\ncommand = 'cat .qcode/after.json'\n"
    ),
    ".qcode/after.json": json.dumps(
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "Mind the licence."}}
    ),
    "AGENTS.md": "Answer in one line.\n",
    "api/AGENTS.md": "Never rename a field of the API.\n",
    "api/v1.txt": "fields: a, b\n",
}


class Retyped:
    """Types the last character again until `expected` shows: the commands of a server are there once it has started."""

    def __init__(self, terminal: Terminal, expected: str) -> None:
        self._terminal = terminal
        self._wanted = expected
        self._since = time.monotonic()

    def __call__(self, text: str) -> bool:
        if self._wanted not in text and time.monotonic() - self._since > 0.5:
            self._since = time.monotonic()
            self._terminal.press("\x7f:")
        return self._wanted in text


def test_skill_hook_server_prompt_and_nested_instructions_act_in_one_turn(cli: CliRunner) -> None:
    for name, text in FILES.items():
        path = cli.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    args = ["-W", "ignore", "-m", "tests.fakes.sdk_tool_server"]
    entry = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    (cli.home / "servers.json").write_text(json.dumps({"mcpServers": {"calc": entry}}))
    asked: list[ReceivedRequest] = []

    def answer(one: ReceivedRequest) -> Turn:
        asked.append(one)
        if one.results:
            return Turn(text="Tagged and ready.")
        skill = Call("skill", json.dumps({"name": "release", "arguments": "v2"}), "c1")
        return Turn(calls=[skill, Call("read", json.dumps({"path": "api/v1.txt"}), "c2")])

    with FakeServer("openai", answer) as server:
        servers = ("--mcp-config", str(cli.home / "servers.json"))
        given = ("-m", "openai/test-model", "--base-url", server.base_url, "--trust", *servers)
        with Terminal(cli, *given, env={KEY_VARIABLES["openai"]: KEY}) as terminal:
            terminal.wait_for("test-model")
            terminal.press("/calc:")
            terminal.wait_for(Retyped(terminal, "/calc:review"))
            terminal.press("review api\r")
            terminal.wait_for("Tagged and ready.")
            terminal.press("\x04")
            assert terminal.wait_for_end() == 0
        assert server.complaints == []
    first, second = (item for item in asked if any(name == "read" for name in item.tools))
    sent = first.messages[-1].text
    assert "Review api in a short style" in sent
    assert "The branch is frozen." in sent
    assert "Answer in one line." in first.system
    skill, result = second.results
    assert "Tag v2 first." in skill.content
    assert "fields: a, b" in result.content
    assert "Never rename a field of the API." in result.content
    assert "Mind the licence." in result.content
