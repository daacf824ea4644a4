"""The app in a terminal: keys as they arrive, its title, and the restored terminal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
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
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.drivers.headless_driver import HeadlessDriver
from textual.widget import Widget

from qcode.tui.prompt.prompt import NEW_LINE_KEYS
from qcode.tui.terminal import driver
from qcode.tui.terminal.driver import TerminalApp
from qcode.tui.welcome import farewell, resume_hint
from tests.tui.emulators import rows_of
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, ended, says

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
from dataclasses import replace
from tests.tui.harness import make_app
from tests.tui.staged_app import WELCOME
from tests.tui.scripted import Gate, ScriptedConversation, ended, says
from qcode.protocol.reply import TextDelta

conversation = ScriptedConversation([*says("a reply"), ended()], [TextDelta(0, "half"), Gate()])
welcome = replace(WELCOME, folder="~/pro\\x1b]0;evil\\x07ject")
code = make_app(conversation, welcome=welcome, has_title=True, has_bell=True).run()
print("code", code, "prompts", conversation.prompts, "cancels", conversation.cancels, flush=True)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b\r",
        "\n",
        "\x1b[13;2u",
        "\x1b[13;3u",
        "\x1b[13;5u",
        "\x1b[27;2;13~",
        "\x1b[27;3;13~",
        "\x1b[27;5;13~",
    ],
)
def test_enter_with_shift_alt_or_ctrl_and_ctrl_j_are_new_lines_in_every_encoding(sequence: str) -> None:
    driver.enable_alt_keys()
    keys = [event.key for event in XTermParser().feed(sequence)]  # type: ignore[attr-defined]  # only keys come here
    assert len(keys) == 1
    assert keys[0] in NEW_LINE_KEYS


def test_lost_terminal_ends_the_app_if_a_read_notices_it_first() -> None:
    codes: list[int] = []

    class LostTerminal(HeadlessDriver):
        def run_input_thread(self) -> None:
            raise OSError(errno.EIO, "Input/output error")

    async def body() -> None:
        lost = driver.survive_hangup(LostTerminal, codes.append)(App[None]())
        await asyncio.to_thread(lost.run_input_thread)  # type: ignore[attr-defined]  # only drivers of terminals have it

    asyncio.run(body())
    assert codes == [143]


@pytest.mark.skipif(sys.platform == "darwin", reason="there Option with a digit types a character")
def test_escape_and_a_digit_in_one_piece_type_no_other_character() -> None:
    driver.enable_alt_keys()
    events = [event for sequence in ("\x1b4", "\x1b0", "\x1b-") for event in XTermParser().feed(sequence)]
    assert [(event.key, event.character) for event in events] == [  # type: ignore[attr-defined]  # only keys come here
        ("alt+4", None), ("alt+0", None), ("alt+minus", None),
    ]  # fmt: skip


def test_enter_does_not_insert_a_new_line() -> None:
    driver.enable_alt_keys()
    assert [event.key for event in XTermParser().feed("\r")] == ["enter"]  # type: ignore[attr-defined]


def test_title_cannot_end_its_escape_sequence_early() -> None:
    assert driver.set_title("a\x07b\x1b\\c\nd") == "\x1b]0;abc⏎d\x07"


class Terminal:
    """The app in a pseudo terminal, with an emulator that reads its output."""

    def __init__(self, folder: Path, script: str = SCRIPT, shell: str = "") -> None:
        """Run `script`, or the command lines `shell` of bash with job control, where `qcode` runs it."""
        path = folder / "start.py"
        path.write_text(textwrap.dedent(script), encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        for name in ("TMUX", "COLUMNS", "LINES"):
            env.pop(name, None)
        program, *arguments = [sys.executable, str(path)]
        if shell:
            program, arguments = "bash", ["--norc", "-mc", f'qcode() {{ "{program}" "{path}"; }}; {shell}']
        self.child = pexpect.spawn(program, arguments, dimensions=(24, 80), env=env, cwd=str(ROOT), timeout=30)
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""

    def until(self, text: str) -> None:
        """Read until `text` is on the emulator's screen."""
        while text not in "\n".join(self.screen.display):
            data = self.child.read_nonblocking(65_536, timeout=30)
            self.written += data
            self._stream.feed(data)

    def read(self, seconds: float) -> bool:
        """Read the output of so many seconds; return whether there was any."""
        with contextlib.suppress(pexpect.TIMEOUT):
            data = self.child.read_nonblocking(65_536, timeout=seconds)
            self.written += data
            self._stream.feed(data)
            return True
        return False

    def settle(self) -> None:
        """Read until the app writes no more and uses no processor time."""
        used = ""
        while self.read(0.3) or used != (used := self._processor_time()):
            pass

    def _processor_time(self) -> str:
        """Return the time that the app has used so far; empty on systems without `/proc`."""
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
            return f"{fields[11]} {fields[12]}"
        return ""

    def clear(self) -> None:
        """Clear the screen of the emulator."""
        self.screen.reset()
        self._stream.feed(b"\x1b[?7l")

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self.clear()
        self.child.setwinsize(lines, columns)

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


def test_lines_pasted_without_bracketed_paste_are_one_prompt(tmp_path: Path) -> None:
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.child.send("one\rtwo\rthree")
    session.until("three")
    session.child.send("\r")
    session.until("a reply")
    session.child.send("\x04")
    assert "code 0 prompts ['one\\ntwo\\nthree'] cancels 0" in session.finish()


LONG_SCRIPT = """
import sys
from tests.tui.harness import make_app
from tests.tui.scripted import Gate, ScriptedConversation, ended, says

rows = "\\n\\n".join(f"paragraph {number}, 漢字, `code` and **bold** text" for number in range(40))
code = "```python\\nfor name in names:\\n    print(name, 'x')  # comment\\n```"
conversation = ScriptedConversation([*says(rows), ended()], [*says(code + "\\n\\nthe end"), ended()])
app = make_app(conversation)
sys.exit(app.run())
"""


def assert_shown_as_redrawn(session: Terminal, mark: str) -> None:
    """Type `mark`, and check that the screen is the one that Ctrl+L writes whole."""
    session.child.send(mark)
    session.until(mark)
    session.settle()
    partial = rows_of(session.screen)
    session.clear()
    session.child.send("\x0c")
    session.until(mark)
    while rows_of(session.screen) != partial and session.read(5):
        pass
    assert rows_of(session.screen) == partial, "\n".join(session.screen.display)


@pytest.mark.broad
def test_partial_frames_leave_the_screen_as_a_whole_redraw_does(tmp_path: Path) -> None:
    session = Terminal(tmp_path, LONG_SCRIPT)
    session.until("qcode 0.1.0")
    session.child.send("one\r")
    session.until("paragraph 39")
    assert_shown_as_redrawn(session, "a1")
    # Pages, and the start of the transcript.
    for key, mark in (("\x1b[5~", "b1"), ("\x1b[6~", "c1"), ("\x1b[1;5H", "d1")):
        session.child.send(key)
        assert_shown_as_redrawn(session, mark)
    session.child.send("\r")
    session.until("the end")
    session.child.send("one\x0atwo\x0athree")  # the prompt grows
    assert_shown_as_redrawn(session, "e1")
    session.child.send("\x10")
    session.until("Type to filter")
    session.child.send("\x1b")
    session.settle()  # or the escape and the next letter would be one key
    assert_shown_as_redrawn(session, "f1")
    for columns, lines in ((60, 18), (100, 30)):
        session.resize(columns, lines)
        assert_shown_as_redrawn(session, f"g{columns}")
    session.child.close(force=True)


def test_editor_leaves_nothing_on_the_screen_or_in_the_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    output = r"\033]0;editor\007\033[5;1Hgarbage\033[20;1Hgarbage"
    editor.write_text(f"#!/bin/sh\nprintf '{output}'\necho edited >$1\n", encoding="utf-8")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.child.send("one\r")
    session.until("a reply")
    session.child.send("\x07")
    session.until("garbage")
    session.until("edited")
    assert_shown_as_redrawn(session, "a1")
    assert "garbage" not in "\n".join(session.screen.display)
    title, *titles_after = re.findall(rb"\x1b\]0;(.*?)\x07", session.written.partition(b"\x1b]0;editor\x07")[2])
    assert title.startswith(b"qcode")
    assert titles_after == []
    session.child.close(force=True)


@pytest.mark.broad
def test_whole_frames_are_written_if_partial_ones_are_switched_off(tmp_path: Path) -> None:
    has_whole_row: dict[bool, bool] = {}
    for is_partial in (True, False):
        session = Terminal(tmp_path, SCRIPT.replace("has_bell=True", f"has_bell=True, partial_redraw={is_partial}"))
        session.until("qcode 0.1.0")
        session.child.send("on")
        session.until("› on")
        session.written = b""
        session.child.send("e")
        session.until("› one")
        has_whole_row[is_partial] = b"one" in session.written
        session.child.close(force=True)
    assert has_whole_row == {True: False, False: True}


def test_suspended_app_returns_to_the_shell_and_repaints_when_continued(tmp_path: Path) -> None:
    session = Terminal(tmp_path, shell="qcode; echo back in the shell; read line; fg")
    session.until("qcode 0.1.0")
    session.child.send("one\r")
    session.until("a reply")
    session.child.send("\x1a")
    session.until("back in the shell")
    assert session.written.rstrip().rfind(b"\x1b[?1049l") > session.written.rfind(b"a reply")
    assert b"qcode is suspended. Type fg to return.\r\n" in session.written.rpartition(b"\x1b[?1049l")[2]
    left = session.written
    session.screen.reset()
    session.child.send("\r")
    session.until("a reply")
    resumed = session.written.removeprefix(left)
    for mode in (b"1049", b"1003", b"1006", b"1004", b"2004"):
        assert b"\x1b[?%bh" % mode in resumed
    session.child.send("\x04")
    session.finish()
    assert session.child.exitstatus == 0


@pytest.mark.broad
def test_app_without_a_shell_is_not_suspended(tmp_path: Path) -> None:
    """No one could continue it: `docker run`, or a terminal that runs qcode alone."""
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.settle()
    session.child.send("\x1a")
    session.until("no shell to return to")
    session.child.send("\x04")
    session.finish()
    assert session.child.exitstatus == 0


@pytest.mark.broad
def test_app_paints_itself_again_after_it_was_stopped_from_outside(tmp_path: Path) -> None:
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.settle()
    session.child.kill(signal.SIGSTOP)
    os.waitid(os.P_PID, session.child.pid, os.WSTOPPED | os.WNOWAIT)
    session.clear()  # the shell has written over it
    session.child.kill(signal.SIGCONT)
    session.until("qcode 0.1.0")
    session.child.close(force=True)


def test_app_paints_itself_again_if_the_terminal_gets_its_old_size_back(tmp_path: Path) -> None:
    session = Terminal(tmp_path)
    session.until("qcode 0.1.0")
    session.settle()
    session.child.setwinsize(24, 60)
    session.resize(80, 24)
    session.until("qcode 0.1.0")
    session.child.close(force=True)


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(number, marks=pytest.mark.broad) for number in (signal.SIGHUP, signal.SIGINT))],
)
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


@pytest.mark.sampled(2)
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
        run.app.write_sequence = written.append  # type: ignore[method-assign,assignment]  # the output for a real terminal
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
        ((725, 37_000, "$0.42", "", "Resume with: qcode -c"), "12 min · 37k tokens · $0.42\nResume with: qcode -c\n"),
        ((3, 10, "", "", ""), "3 s · 10 tokens\n"),
        ((2, 0, "", "", "Resume with: qcode -r a1"), "Resume with: qcode -r a1\n"),
        ((2, 0, "", "", ""), ""),
        (
            (3, 10, "", "Hi \x1b[31mred\n\n", "Resume with: qcode -c"),
            "Hi red\n\n3 s · 10 tokens\nResume with: qcode -c\n",
        ),
    ],
)
def test_exit_message_shows_usage_and_how_to_resume(given: tuple[float, int, str, str, str], lines: str) -> None:
    *facts, resume = given
    assert farewell(*facts, resume=resume) == lines  # type: ignore[arg-type]


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


def test_resume_hint_names_the_session_if_the_latest_one_is_another() -> None:
    assert resume_hint("a1", "a1") == "Resume with: qcode -c"
    assert resume_hint("a1", "b2") == resume_hint("a1", None) == "Resume with: qcode -r a1"
