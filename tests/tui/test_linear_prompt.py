"""Shell lines and custom commands in the linear mode."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from qcode.agent.toolbox import Toolbox
from qcode.config.definitions import CustomCommand
from qcode.config.settings import Tools
from qcode.protocol.approvals import TurnOptions
from qcode.protocol.tools import ToolOutcome
from qcode.tui.linear.terminal import LineTerminal
from tests.tui import test_linear
from tests.tui.scripted import ScriptedConversation
from tests.tui.test_linear import spawn, talk


async def shell(line: str, output: Callable[[str], None]) -> ToolOutcome:
    output("a.py\n")
    return ToolOutcome("a.py", summary="exit 0")


def test_shell_command_is_run_printed_and_kept() -> None:
    conversation = ScriptedConversation()
    output = "\n".join(talk(conversation, "!ls", run_user_command=shell))
    assert "Shell: ls" in output
    assert "a.py" in output
    assert "exit 0" in output
    assert conversation.prompts == []
    assert len(conversation.attached_blocks) == 1


@pytest.mark.parametrize(("width", "columns"), [(90, "88"), (0, "unset")])
def test_shell_command_gets_the_width_of_the_terminal_without_the_indent(
    width: int, columns: str, tmp_path: Path
) -> None:
    toolbox = Toolbox(tmp_path, (), Tools(), {"PATH": "/usr/bin:/bin"})
    try:
        output = talk(ScriptedConversation(), "!echo ${COLUMNS-unset}", width=width, toolbox=toolbox)
        assert f"  {columns}" in output
    finally:
        toolbox.close()


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        ("/connect openai", "`qcode auth login PROVIDER` stores a key"),
        ("/resume", "`!qcode sessions list` lists the sessions; `qcode -r ID` resumes one."),
        ("/compress", "qcode compacts when the context is nearly full"),
        ("/mcp", "`!qcode mcp list` lists the tool servers"),
        ("/rewind", "/help lists the commands."),
    ],
)
def test_command_that_needs_a_screen_names_another_way(typed: str, instead: str) -> None:
    output = " ".join(" ".join(talk(ScriptedConversation(), typed)).split())
    assert f"{typed.split()[0]} is not available in the linear mode. {instead}" in output


def test_custom_command_sends_its_prompt_with_its_options() -> None:
    conversation = ScriptedConversation()
    review = CustomCommand("review", "Review {{args}}.", Path("r.toml"), output={"max_tokens": 9})
    talk(conversation, "/review src", commands=(review,))
    assert conversation.prompts == ["Review src."]
    assert conversation.options == [TurnOptions("", {"max_tokens": 9}, shown_prompt="/review src")]


def test_api_key_is_held_back_until_it_is_sent_again() -> None:
    conversation = ScriptedConversation()
    key = "sk-" + "a1B2" * 8
    output = "\n".join(talk(conversation, key, "hello"))
    assert (
        "This looks like an API key, so it was not sent to the model. qcode auth login PROVIDER stores a key" in output
    )
    assert conversation.prompts == ["hello"]
    talk(conversation, key, key)
    assert conversation.prompts == ["hello", key]


def test_interrupt_is_reported_on_a_line_after_the_reply_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta = 'TextDelta(0, "half\\n")'
    script = test_linear.SCRIPT.replace(delta, f'{delta}, TextDelta(0, "of a line")')
    monkeypatch.setattr(test_linear, "SCRIPT", script)
    child = spawn(tmp_path)
    for prompt in ("hello", "run it"):
        child.expect("User: ")
        child.sendline(prompt)
    child.expect(r"Answer \(1 to 4\): ")
    child.sendline("1")
    child.expect("User: ")
    child.sendline("more")
    child.expect("half\r\n")
    child.sendintr()
    child.expect("\r\nof a line\r\nInterrupting.\r\n\\(turn ended")
    child.expect("User: ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()


@pytest.mark.parametrize(("stops_turn", "answer"), [(True, None), (False, "2")])
def test_ctrl_c_discards_an_unfinished_line(
    stops_turn: bool, answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_end, write_end = os.pipe()

    async def ask() -> str | None:
        terminal, is_handled = LineTerminal(), asyncio.Event()

        def stop() -> bool:
            is_handled.set()
            return stops_turn

        terminal.on_interrupt(stop, lambda: "")
        with terminal.end_at_signals(()):
            asking = asyncio.ensure_future(terminal.ask("Answer: "))
            os.write(write_end, b"1")
            while unread_bytes(read_end):
                await asyncio.sleep(0)
            signal.raise_signal(signal.SIGINT)
            await is_handled.wait()
            os.write(write_end, b"2\n")
            return await asking

    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert asyncio.run(ask()) == answer
    os.close(write_end)


def test_label_is_shown_again_after_the_shell_continues_qcode(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_end, write_end = os.pipe()

    async def ask() -> str | None:
        terminal = LineTerminal()
        terminal.on_interrupt(lambda: False, lambda: "")
        with terminal.end_at_signals(()):
            asking = asyncio.ensure_future(terminal.ask("User: "))
            while not capsys.readouterr().out:
                await asyncio.sleep(0)
            signal.raise_signal(signal.SIGCONT)
            for _ in range(3):  # asyncio calls the handler in one of the next rounds of its loop
                await asyncio.sleep(0)
            os.write(write_end, b"hello\n")
            return await asking

    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert asyncio.run(ask()) == "hello"
    os.close(write_end)
    assert capsys.readouterr().out == "User: "


def unread_bytes(descriptor: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return int(count)
