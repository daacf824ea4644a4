"""The app in a terminal: keys as they arrive, its title, and the restored terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import ClassVar

import pexpect
import pyte
import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget

from qcode.tui.prompt.prompt import NEW_LINE_KEYS
from qcode.tui.terminal import driver
from qcode.tui.terminal.driver import TerminalApp
from qcode.tui.welcome import farewell
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, ended, says

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
from dataclasses import replace
from tests.tui.harness import make_app
from tests.tui.stage import WELCOME
from tests.tui.scripted import Gate, ScriptedConversation, ended, says
from qcode.protocol.reply import TextDelta

conversation = ScriptedConversation([*says("a reply"), ended()], [TextDelta(0, "half"), Gate()])
welcome = replace(WELCOME, folder="~/pro\\x1b]0;evil\\x07ject")
code = make_app(conversation, welcome=welcome, has_title=True, has_bell=True).run()
print("code", code, "prompts", conversation.prompts, "cancels", conversation.cancels, flush=True)
sys.exit(code)
"""


@pytest.mark.parametrize("sequence", ["\x1b\r", "\n", "\x1b[13;2u", "\x1b[13;3u", "\x1b[27;2;13~", "\x1b[27;3;13~"])
def test_shift_enter_alt_enter_and_ctrl_j_are_new_lines_in_every_encoding(sequence: str) -> None:
    driver.teach_alt_keys()
    keys = [event.key for event in XTermParser().feed(sequence)]  # type: ignore[attr-defined]  # only keys come here
    assert len(keys) == 1
    assert keys[0] in NEW_LINE_KEYS


def test_enter_does_not_insert_a_new_line() -> None:
    driver.teach_alt_keys()
    assert [event.key for event in XTermParser().feed("\r")] == ["enter"]  # type: ignore[attr-defined]


def test_title_cannot_end_its_escape_sequence_early() -> None:
    assert driver.set_title("a\x07b\x1b\\c\nd") == "\x1b]0;abc⏎d\x07"


class Terminal:
    """The app in a pseudo terminal, with an emulator that reads its output."""

    def __init__(self, folder: Path, script: str = SCRIPT) -> None:
        path = folder / "start.py"
        path.write_text(textwrap.dedent(script), encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        env.pop("TMUX", None)
        self.child = pexpect.spawn(sys.executable, [str(path)], dimensions=(24, 80), env=env, cwd=str(ROOT), timeout=30)
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""

    def until(self, text: str) -> None:
        """Read until `text` is on the emulator's screen."""
        while text not in "\n".join(self.screen.display):
            data = self.child.read_nonblocking(65_536, timeout=30)
            self.written += data
            self._stream.feed(data)

    def drain(self) -> None:
        """Read the output so far."""
        with contextlib.suppress(pexpect.TIMEOUT):
            while True:
                self.written += self.child.read_nonblocking(65_536, timeout=0)

    def finish(self) -> str:
        """Read to the end and return the output after the app's screen was closed."""
        self.written += self.child.read()
        self.child.close()
        return self.written.decode("utf-8", "replace").rpartition("\x1b[?1049l")[2]


def test_session_in_a_real_terminal_restores_it(tmp_path: Path) -> None:
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.child.send("one\x1b\rtwo\x1b[200~\rthree\x1b[201~\r")
    session.until("a reply")
    session.screen.reset()
    session.child.send("\x0c")
    session.until("a reply")
    session.child.send("\x04")
    rest = session.finish()
    assert session.child.exitstatus == 0
    assert "code 0 prompts ['one\\ntwo\\nthree'] cancels 0" in rest
    written = session.written.decode("utf-8", "replace")
    for begun, undone in (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?2004h", "\x1b[?2004l"), ("\x1b[22;0t", "\x1b[23;0t")):
        assert written.rfind(undone) > written.rfind(begun) >= 0
    assert "evil" not in written
    assert "\x07" in written


def test_suspended_app_stops_and_repaints_when_continued(tmp_path: Path) -> None:
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.child.send("one\r")
    session.until("a reply")
    session.child.send("\x1a")
    os.waitid(os.P_PID, session.child.pid, os.WSTOPPED | os.WNOWAIT)
    session.drain()
    assert session.written.rstrip().rfind(b"\x1b[?1049l") > session.written.rfind(b"a reply")
    session.screen.reset()
    session.child.kill(signal.SIGCONT)
    session.until("a reply")
    session.child.send("\x04")
    session.finish()
    assert session.child.exitstatus == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_restores_the_terminal_and_sets_the_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.child.send("one\r")
    session.until("a reply")
    session.child.send("two\r")
    session.until("half")
    session.child.kill(number)
    rest = session.finish()
    code = 130 if number == signal.SIGINT else 143
    assert f"code {code}" in rest
    assert session.child.exitstatus == code


def test_app_loads_no_sdk_and_no_engine() -> None:
    code = (
        "import sys, qcode.tui.app\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('qcode.')}\n"
        "print(sorted(rooms), sorted({'openai', 'anthropic', 'google', 'httpx2', 'pydantic'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "['config', 'protocol', 'text', 'tui', 'values'] []"


def test_notification_cannot_end_its_escape_sequence_or_start_another() -> None:
    assert driver.notify("a\x07b\x1b\\c") == "\x1b]9;abc\x07"
    assert driver.notify("4;1;50") == "\x1b]9;\x07"


@pytest.mark.parametrize(
    ("has_bell", "is_focused", "rings", "notifies"),
    [
        (None, True, False, False),
        (None, False, True, True),
        (True, True, True, False),
        (True, False, True, True),
        (False, False, False, False),
    ],
)
def test_end_of_a_turn_rings_by_default_only_while_the_terminal_is_unfocused(
    has_bell: bool | None, is_focused: bool, rings: bool, notifies: bool
) -> None:
    async def test(run: Running) -> None:
        written: list[str] = []
        bells: list[None] = []
        run.app._write = written.append  # type: ignore[method-assign,assignment]  # the output for a real terminal
        run.app.bell = lambda: bells.append(None)  # type: ignore[method-assign]
        await run.send("one")
        run.app.app_focus = is_focused
        gate.open()
        await run.until_idle()
        assert bool(bells) is rings
        assert (driver.notify("qcode: the turn has ended") in written) is notifies

    gate = Gate()
    drive(test, ScriptedConversation([gate, *says("a reply"), ended()]), has_bell=has_bell)


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ((725, 37_000, "$0.42", "", True), "12 min · 37k tokens · $0.42\nResume with: qcode -c\n"),
        ((3, 0, "", "", False), "3 s\n"),
        ((3, 10, "", "Hi \x1b[31mred\n\n", True), "Hi red\n\n3 s · 10 tokens\nResume with: qcode -c\n"),
    ],
)
def test_exit_message_shows_usage_and_how_to_resume(given: tuple[float, int, str, str, bool], lines: str) -> None:
    *facts, can_resume = given
    assert farewell(*facts, can_resume=can_resume) == lines  # type: ignore[arg-type]


class _Slow(Widget, can_focus=True):
    """A widget whose handler of F1 waits until the test lets it continue."""

    def __init__(self) -> None:
        super().__init__()
        self.may_continue = asyncio.Event()

    async def key_f1(self) -> None:
        await self.may_continue.wait()


class _SlowApp(TerminalApp):
    BINDINGS: ClassVar = [Binding("f2", "mark", priority=True)]

    def __init__(self) -> None:
        super().__init__()
        self.slow = _Slow()
        self.marked = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield self.slow

    def survives(self, error: Exception) -> bool:
        return False

    def action_mark(self) -> None:
        self.marked.set()


def test_key_whose_handler_waits_does_not_hold_back_the_keys_after_it() -> None:
    async def body() -> None:
        app = _SlowApp()
        async with app.run_test() as pilot:
            app.slow.focus()
            await pilot.pause()
            for key in ("f1", "f2"):
                app.post_message(events.Key(key, None))
            await asyncio.wait_for(app.marked.wait(), 5)
            app.slow.may_continue.set()

    asyncio.run(body())
