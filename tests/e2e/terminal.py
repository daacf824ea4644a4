"""A user at a terminal: qcode in a real pty, with its screen in a terminal emulator."""

from __future__ import annotations

import os
import re
import signal
import termios
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import pexpect
import pyte

from tests.e2e.running import CliRunner

PATIENCE_S = 20.0
TRUST_QUESTION = "1, 2, 3 or q [3]:"
_LOOK_AGAIN_S = 0.2


class Terminal:
    """A program on a screen of `columns` by `rows`. Only reads wait; nothing sleeps.

    An empty value in `env` removes the variable. `about_folder` is the answer to the trust question; None if the
    question is not expected.
    """

    def __init__(
        self,
        cli: CliRunner,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 24,
        about_folder: str | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.raw = ""
        self._stream = pyte.Stream(self.screen)
        command = cli.command(*arguments)
        environment = {"TERM": "xterm-256color", **cli.environment(env), "COLUMNS": "", "LINES": ""}
        environment = {name: value for name, value in environment.items() if value}
        self._child = pexpect.spawn(
            command[0],
            command[1:],
            cwd=str(cli.work),
            env=environment,
            dimensions=(rows, columns),
            encoding="utf-8",
            codec_errors="replace",
        )
        if about_folder is not None and "--trust" not in arguments:
            self.wait_for(TRUST_QUESTION)
            self.press(f"{about_folder}\r")

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def colors_of(self, wanted: str) -> tuple[str, str]:
        """Return foreground and background of the first cell of the text `wanted`, as the emulator names them."""
        for row, line in enumerate(self.screen.display):
            if (column := line.find(wanted)) >= 0:
                cell = self.screen.buffer[row][column]
                return cell.fg, cell.bg
        raise AssertionError(f"{wanted!r} is not on the screen:\n{self.text}")

    @property
    def pid(self) -> int:
        return int(self._child.pid)

    @property
    def exit_code(self) -> int | None:
        status = self._child.exitstatus
        return None if status is None else int(status)

    @property
    def modes(self) -> dict[int, bool]:
        """The private modes (DECSET) that the program touched, and whether each is on now."""
        return {int(mode): which == "h" for mode, which in re.findall(r"\x1b\[\?(\d+)([hl])", self.raw)}

    @property
    def is_echoing(self) -> bool:
        """Whether typed text is echoed, line by line, as in a shell."""
        flags = termios.tcgetattr(self._child.child_fd)[3]
        return bool(flags & termios.ECHO) and bool(flags & termios.ICANON)

    def wait_for(self, wanted: str | Callable[[str], bool], timeout_s: float = PATIENCE_S) -> str:
        """Read until the screen shows `wanted`; return the screen. Fail with the screen after `timeout_s`.

        A function is asked again now and then, also while nothing is written: it may press keys itself.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            text = self.text
            if (wanted in text) if isinstance(wanted, str) else wanted(text):
                return text
            if not self._read(_LOOK_AGAIN_S):
                raise AssertionError(f"it ended ({self._ending()}) and had not shown {wanted!r}:\n{self.text}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the screen did not show {wanted!r} in {timeout_s:g} s:\n{self.text}")

    def press(self, keys: str) -> None:
        self._child.send(keys)

    def send_signal(self, number: int) -> None:
        self._child.kill(number)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def wait_for_end(self) -> int | None:
        """Read until the program has ended; return its exit code, None if a signal ended it."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(_LOOK_AGAIN_S):
            assert time.monotonic() < deadline, f"the program did not end:\n{self.text}"
        self._child.wait()
        return self.exit_code

    def hang_up(self) -> int:
        """Take the terminal away, as closing its window does; return the exit code, minus n if signal n ended it."""
        process = self._child.ptyproc
        process.fileobj.close()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                process.terminated, self._child.closed = True, True
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                os.kill(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)
                process.terminated, self._child.closed = True, True
                raise AssertionError("the program outlived its terminal")
            time.sleep(0.02)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close(force=True)

    def _ending(self) -> str:
        self._child.wait()
        number = self._child.signalstatus
        return f"signal {number}" if number is not None else f"exit code {self._child.exitstatus}"

    def _read(self, timeout_s: float) -> bool:
        """Read the output of the program for up to `timeout_s`; return False if it has ended."""
        try:
            piece = self._child.read_nonblocking(65_536, timeout=timeout_s)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += piece
        self._stream.feed(_plain(piece))
        return True


def _plain(piece: str) -> str:
    """Leave out sequences the emulator takes for text: kitty's key protocol (`CSI > ... u`, `CSI < u`)."""
    for odd in ("\x1b[>25u", "\x1b[>1u", "\x1b[<u"):
        piece = piece.replace(odd, "")
    return piece


class Answering:
    """Answers each question with `key`, once the screen is still, until `wanted` shows: earlier keys are a draft."""

    def __init__(self, terminal: Terminal, wanted: str, key: str = "y") -> None:
        self._terminal = terminal
        self._wanted = wanted
        self._key = key
        self._shown = ""
        self._since = 0.0

    def __call__(self, text: str) -> bool:
        if text != self._shown:
            self._shown, self._since = text, time.monotonic()
        elif "› 1 Yes" in text and time.monotonic() - self._since > 0.5:
            self._since = time.monotonic()
            self._terminal.press(self._key)
        return self._wanted in text
