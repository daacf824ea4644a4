from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import struct
import termios

import pyte
import pytest

from qcode.headless.run import run_headless
from qcode.headless.stderr import Progress, StderrWriter
from qcode.protocol import events as ev
from qcode.protocol.events import TurnEvent
from qcode.protocol.reply import ReasoningDelta, TextDelta
from qcode.text.clean import single_spaced
from tests.headless.scripted import Scripted, agent_of, call, ended, reply


class Terminal:
    """A pseudo terminal of 60 columns whose bytes end up in an emulator."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 8, 60, 0, 0))
        self.stream = os.fdopen(self.slave, "wb", buffering=0)

    def finish(self) -> tuple[bytes, list[str]]:
        """Return the bytes written and the lines that stay on screen."""
        os.set_blocking(self.master, False)
        data = b""
        try:
            while part := os.read(self.master, 65_536):
                data += part
        except OSError:
            pass
        self.stream.close()
        os.close(self.master)
        screen = pyte.Screen(60, 8)
        pyte.ByteStream(screen).feed(data)
        return data, [line.rstrip() for line in screen.display if line.strip()]


def test_live_line_is_shown_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, stdout = Terminal(), io.BytesIO()
    conversation = Scripted(ev.StepStarted(1), ev.Notice("warning", "take care"), reply("x"), ended("x"))
    code = asyncio.run(run_headless(agent_of(conversation, "text"), "p", stdout=stdout, stderr=terminal.stream))
    data, lines = terminal.finish()
    assert (code, stdout.getvalue()) == (0, b"x\n")
    assert lines == ["qcode: take care"]
    assert data.endswith((b"\n", b"\r\x1b[2K"))


def test_live_line_never_wraps() -> None:
    terminal = Terminal()

    async def main() -> None:
        writer = StderrWriter(terminal.stream, has_live_line=True)
        await writer.show_status("a" * 200)
        await writer.show_status("b" * 200)

    asyncio.run(main())
    assert terminal.finish()[1] == ["b" * 59]


def test_message_replaces_the_live_line() -> None:
    terminal = Terminal()

    async def main() -> None:
        writer = StderrWriter(terminal.stream, has_live_line=True)
        await writer.show_status("waiting for the model (3 s)")
        await writer.write_line("no")

    asyncio.run(main())
    assert terminal.finish()[1] == ["qcode: no"]


def test_live_line_is_not_shown_without_a_terminal() -> None:
    stderr = io.BytesIO()
    asyncio.run(StderrWriter(stderr, has_live_line=False).show_status("working"))
    assert stderr.getvalue() == b""


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_live_line_is_not_shown_on_a_terminal_that_cannot_erase(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", kind)
    terminal = Terminal()
    conversation = Scripted(ev.StepStarted(1), reply("x"), ended("x"))
    asyncio.run(run_headless(agent_of(conversation, "text"), "p", stdout=io.BytesIO(), stderr=terminal.stream))
    assert terminal.finish()[0] == b""


def test_answer_on_a_terminal_cannot_steer_it() -> None:
    terminal = Terminal()
    conversation = Scripted(ended("safe \x1b]0;title\x07\x1b[31mtext\u202e\n"))
    asyncio.run(run_headless(agent_of(conversation, "text"), "p", stdout=terminal.stream, stderr=io.BytesIO()))
    data, lines = terminal.finish()
    assert b"\x1b" not in data
    assert lines == ["safe text"]


def test_untrusted_messages_become_one_clean_line() -> None:
    assert single_spaced("a\r\nb\tc \x1b[2J\u202e d\n") == "a b c d"


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (ev.StepStarted(1), "waiting for the model"),
        (ev.StepStarted(4), "waiting for the model (reply 4)"),
        (ReasoningDelta(0, "secret"), "thinking"),
        (TextDelta(0, "secret"), "writing, 6 characters"),
        (ev.ToolCallProgress(1, "c1", "write", 1200), "preparing a file, 1,200 characters"),
        (ev.Retry(True, "max_tokens", 2, 64_000), "truncated at the output limit; continuing, attempt 2"),
        (
            ev.Retry(False, "max_tokens", 1, 64_000),
            "truncated at the output limit; retrying with 64,000 tokens",
        ),
        (ev.ToolStarted(call()), "running a command"),
        (ev.Waiting(4.2, "overloaded", 1, max_retries=5), "overloaded, retry 1 of 5 in 5 s"),
        (ev.UsageUpdated(ended().usage, None, 1, 2), "starting"),
    ],
)
def test_status_line_describes_the_current_event(event: TurnEvent, status: str) -> None:
    progress = Progress()
    progress.update_from(event)
    assert progress.status == status
