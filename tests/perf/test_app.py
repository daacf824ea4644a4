"""Limits of the app as a process in a real terminal: start, keys, memory, and idling."""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.perf.conftest import Bars

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
TIMES = 7

BARE = """
from textual.app import App
from textual.widgets import Input

class Bare(App):
    def compose(self):
        yield Input("ready-to-type")

Bare().run()
"""

HEAD = """
import asyncio, gc, sys
from pathlib import Path
from types import SimpleNamespace as Values
from qcode.protocol.events import StepStarted
from qcode.protocol.messages import Text, assistant, user
from qcode.protocol.reply import TextDelta
from qcode.tui.app import AppOptions, QcodeApp
from qcode.tui.welcome import Welcome

class Conversation:
    session_id, model, mode, messages = "s", "demo/x", "default", ()
    async def submit(self, prompt, attached=(), options=None):
        yield StepStarted(1)
        for number in range(100_000):
            yield TextDelta(0, f"word{number} **bold** and `code`, " + ("\\n\\n" if number % 9 == 0 else ""))
            await asyncio.sleep(1 / 200)
    def cancel(self): pass
    def answer(self, call_id, answer): pass
    def steer(self, text): pass

conversation = Conversation()
nowhere = Path("/proc/nowhere")
ui = Values(theme="dark", title=True, bell=False, show_thinking="folded", partial_redraw=True, keys={})
context = Values(
    settings=Values(model="demo/x", ui=ui, permissions=Values(mode="default")),
    paths=Values(state_dir=nowhere, config_dir=nowhere),
    options=Values(prompt="", no_session=True, resume=None, permission_mode=None),
    is_trusted=True,
)
selection = Values(name="demo/x", spec=Values(name="demo"), is_last_resort=False)
welcome = Welcome(("ready-to-type",), "~/project")

class App(QcodeApp):
    def open_agent(self):
        from tests.tui.harness import make_agent

        return make_agent(conversation)

def app(kind=App, welcome=welcome):
    return kind(context, selection, welcome, AppOptions(on_first_paint=gc.enable))
"""

# As in the program: garbage collection is off until the first screen is painted.
START = "import gc; gc.disable()\n" + HEAD

APP = START + "app().run()\n"

_STUB = "class Conversation:"
assert _STUB in HEAD
LIVE = HEAD.replace(
    _STUB, "from tests.tui.scripted import ScriptedConversation\n\nclass Conversation(ScriptedConversation):"
)
"""The app with a complete scripted conversation, for measurements after the first paint."""

WORKING = LIVE + "app().run()\n"

ENDING = """
conversation.messages += (assistant(Text("ready-to-type")),)
app(welcome=Welcome(("demo/x",), "~")).run()
"""

EMPTY = "import gc; gc.disable()\n" + LIVE + ENDING

RESUMED = (
    "import gc; gc.disable()\n"
    + LIVE
    + """
for number in range(500):
    lines = "".join(f"- {number} line {line} with **bold** text\\n" for line in range(8))
    conversation.messages += (user(f"question {number}"), assistant(Text(lines)))
"""
    + ENDING
)

MEMORY = (
    LIVE
    + """
class Filled(App):
    def on_ready(self):
        if sys.argv[1:]:
            transcript = self.widgets.transcript
            for number in range(1_000):
                transcript.append_text("".join(f"- {number} line {line} with **bold** text\\n" for line in range(8)))
                transcript.settle()
            transcript.plain_text()
        self.widgets.transcript.add_notice("info", "all-there")

app(Filled).run()
"""
)


class Terminal:
    """A process in a pseudo terminal, and its output: the last text, and the number of bytes since the start."""

    def __init__(self, argv: list[str], folder: Path, columns: int = 80, rows: int = 24) -> None:
        self.begun = time.perf_counter()
        self.master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "QCODE_HOME": str(folder)}
        # Compiled code is kept, as after the first run of an installed program.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=folder)
        os.close(slave)
        self.text = ""
        self.written = 0

    def until(self, expected: str, seconds: float = 60) -> float:
        """Read until `expected` was written since the last call; return when, in seconds since the start."""
        end = time.perf_counter() + seconds
        while expected not in _plain(self.text):
            left = end - time.perf_counter()
            assert left > 0, f"{expected!r} was never shown"
            self._read(left)
            # Long outputs are searched at their end only.
            self.text = self.text[-10_000:]
        return time.perf_counter() - self.begun

    def read_for(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._read(left)

    def type(self, text: str) -> None:
        self.text = ""
        os.write(self.master, text.encode())

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def running_seconds(self) -> float:
        """Return the CPU time of its threads in nanoseconds; ticks of 10 ms are too coarse."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1000

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def _read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 65_536)
            self.written += len(data)
            self.text += data.decode("utf-8", "replace")


def _plain(text: str) -> str:
    return re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[PX^_].*?\x1b\\|.)", "", text)


@contextmanager
def running(folder: Path, script: str, *arguments: str, columns: int = 80, rows: int = 24) -> Iterator[Terminal]:
    path = folder / "start.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    terminal = Terminal([sys.executable, str(path), *arguments], folder, columns, rows)
    try:
        yield terminal
    finally:
        terminal.end()


def first_paint(folder: Path, script: str) -> float:
    """Return the CPU seconds up to the first paint: other load of the machine does not count."""
    with running(folder, script) as terminal:
        terminal.until("ready-to-type")
        return terminal.running_seconds()


def program_paint(folder: Path) -> float:
    """Return the CPU seconds up to the first paint of the program itself, on the demo model."""
    terminal = Terminal([sys.executable, "-m", "qcode", "-m", "demo/demo", "--trust"], folder)
    try:
        terminal.until("demo/demo")
        return terminal.running_seconds()
    finally:
        terminal.end()


def test_first_paint_is_quick(tmp_path: Path, bars: Bars) -> None:
    # In turns, so that other load of the machine affects all equally.
    rows = [(first_paint(tmp_path, APP), program_paint(tmp_path), first_paint(tmp_path, BARE)) for _ in range(TIMES)]
    app, program, bare = (min(times) for times in zip(*rows, strict=True))
    bars.hold("first paint of the app, against a bare Textual app with one input", app / bare, 1.3)
    bars.hold("first paint of the program, configuration read, against the same", program / bare, 1.3)


def test_resumed_session_shows_its_end_quickly(tmp_path: Path, bars: Bars) -> None:
    pairs = [(first_paint(tmp_path, RESUMED), first_paint(tmp_path, EMPTY)) for _ in range(TIMES)]
    resumed, empty = (min(times) for times in zip(*pairs, strict=True))
    bars.hold("1,000 stored messages to the first paint of their end, over an empty chat", resumed - empty, 1.0, "s")


def test_key_is_echoed_quickly_while_a_reply_streams(tmp_path: Path, bars: Bars) -> None:
    with running(tmp_path, BARE) as terminal:
        terminal.until("ready-to-type")
        bare = slowest_echo(terminal)
    with running(tmp_path, WORKING) as terminal:
        terminal.until("ready-to-type")
        terminal.type("go\r")
        terminal.until("word30")
        streaming = slowest_echo(terminal)
    what = "a key echoed while a reply streams, 95th percentile, over that of a bare app at rest"
    bars.hold(what, (streaming - bare) * 1000, 50, "ms")


def slowest_echo(terminal: Terminal) -> float:
    """Return the 95th percentile of the seconds from a key to its echo."""
    waits = []
    for number in range(120):
        terminal.read_for(0.03 + number % 7 / 100)
        before = time.perf_counter()
        terminal.type(chr(0x4E00 + number))
        terminal.until(chr(0x4E00 + number))
        waits.append(time.perf_counter() - before)
    return sorted(waits)[len(waits) * 95 // 100]


def test_thousand_messages_take_at_most_60_megabytes(tmp_path: Path, bars: Bars) -> None:
    sizes = []
    for arguments in ((), ("filled",)):
        with running(tmp_path, MEMORY, *arguments) as terminal:
            terminal.until("all-there")
            terminal.read_for(0.5)
            sizes.append(terminal.resident_mb())
    bars.hold("1,000 messages of 8 lines, all laid out, over the empty app", sizes[1] - sizes[0], 60, "MB")


def test_idle_app_uses_no_time(tmp_path: Path, bars: Bars) -> None:
    with running(tmp_path, WORKING) as terminal:
        terminal.until("ready-to-type")
        terminal.read_for(2)
        before = terminal.cpu_seconds()
        terminal.read_for(10)
        bars.hold("idle for 10 s, of one core", (terminal.cpu_seconds() - before) * 10, 1, "%")
