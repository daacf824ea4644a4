"""A front end needs only `qcode.agent` and values. These tests talk to the one in `chat`."""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path

import pytest

from qcode.agent.agent import Agent
from qcode.agent.options import Options, RunContext
from qcode.protocol.errors import QcodeError
from qcode.protocol.reply import StopReason
from tests.agent.chat import Chat
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, Turn

CHAT = Path(__file__).with_name("chat.py")
FIRST, SECOND = "The change touches the parser, ", "and nothing else in the project."


def call(name: str, **arguments: str) -> Call:
    return Call(name, json.dumps(arguments))


SCRIPT = (
    Turn(calls=(call("read", path="a.txt"),)),
    Turn(calls=(call("edit", path="a.txt", old_text="one", new_text="two"),)),
    Turn(text="Edited."),
    Turn(calls=(call("shell", command="touch b.txt"),)),
    Turn(text="Then not."),
    Turn(text=FIRST, stop=StopReason.MAX_TOKENS),
    Turn(text=SECOND),
    Turn(text=("Working", " on it"), faults=Faults(stall_after=2)),
)


def talk(base: Path, server: FakeServer, *lines: str, cancel_at: str = "") -> list[str]:
    """Hold a conversation in `base/work`; `cancel_at` is sent and cancelled while the server is silent."""
    (base / "work").mkdir(exist_ok=True)
    env = {"HOME": str(base), "QCODE_HOME": str(base / "home"), "OPENAI_API_KEY": "k" * 20, "PATH": "/usr/bin:/bin"}
    options = Options(
        model="openai/some-model", base_url=server.base_url, cwd=base / "work", trust=True, no_escalation=True
    )
    written: list[str] = []

    async def run() -> None:
        context = RunContext.read(options, env, is_attended=True)
        async with Agent.open(context) as agent:
            chat = Chat(agent, iter((*lines, *((cancel_at,) if cancel_at else ()))), written.append)
            running = asyncio.ensure_future(chat.run())
            if cancel_at:
                await asyncio.to_thread(server.wait_until, lambda server: server.stalls == 1)
                chat.cancel()
            await running

    asyncio.run(run())
    return written


def test_front_end_plays_an_edit_a_denial_a_truncation_and_a_cancel(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work/a.txt"
    file.write_text("one\n")
    with FakeServer("openai", SCRIPT) as server:
        lines = ("edit it", "y", "make a file", "n not here", "tell me", "/sessions", "/mode plan")
        written = talk(tmp_path, server, *lines, cancel_at="work")
        asked = list(server.requests)
    assert file.read_text() == "two\n"
    assert not (tmp_path / "work/b.txt").exists()
    assert "Edited." in written
    assert "not here" in asked[4].results[-1].content
    assert "! the reply was truncated and is continued" in written
    assert FIRST + SECOND in written
    assert any(line.endswith(" edit it") for line in written)
    assert "mode plan" in written
    assert [line for line in written if line.startswith("?")] != []
    assert written[-1].startswith("! ")


def test_failure_to_open_an_agent_is_one_error_with_its_exit_code(tmp_path: Path) -> None:
    async def run() -> None:
        async with Agent.open(Options(model="nowhere/x", cwd=tmp_path)):
            raise AssertionError("it opened")

    with pytest.raises(QcodeError, match="unknown provider") as raised:
        asyncio.run(run())
    assert raised.value.exit_code == 2


def test_front_end_is_small_and_imports_only_the_agent_and_values() -> None:
    text = CHAT.read_text()
    assert text.count("\n") <= 150
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    names = [(node.module or "").split(".") for node in imports]
    rooms = {name[1] for name in names if name[0] == "qcode"}
    assert rooms == {"agent", "protocol", "text"}
