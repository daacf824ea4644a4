"""A skill, hooks and a nested AGENTS.md act in one turn of the app."""

from __future__ import annotations

import json

from tests.e2e.running import KEY_VARIABLES, CliRunner
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer
from tests.fakes.turns import Asked, Call, Turn

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


def test_skill_hook_and_nested_instructions_act_in_one_turn(cli: CliRunner) -> None:
    for name, text in FILES.items():
        path = cli.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    asked: list[Asked] = []

    def answer(one: Asked) -> Turn:
        asked.append(one)
        if one.results:
            return Turn(text="Tagged and ready.")
        return Turn(calls=[Call("read", json.dumps({"path": "api/v1.txt"}), "c1")])

    with FakeServer("openai", answer) as server:
        given = ("-m", "openai/test-model", "--base-url", server.base_url, "--trust")
        with Terminal(cli, *given, env={KEY_VARIABLES["openai"]: KEY}) as terminal:
            terminal.wait_for("test-model")
            terminal.press("/release v2\r")
            terminal.wait_for("Tagged and ready.")
            terminal.press("\x04")
            assert terminal.wait_for_end() == 0
        assert server.complaints == []
    first, second = (one for one in asked if any(name == "read" for name in one.tools))
    sent = first.messages[-1].text
    assert "Tag v2 first." in sent
    assert "The branch is frozen." in sent
    assert "Answer in one line." in first.system
    (result,) = second.results
    assert "fields: a, b" in result.content
    assert "Never rename a field of the API." in result.content
    assert "Mind the licence." in result.content
