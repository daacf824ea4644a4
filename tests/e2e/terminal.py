"""A user at a terminal: qcode in a real pty, with its screen in a terminal emulator."""

from __future__ import annotations

import codecs
import json
import os
import re
import select
import signal
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pexpect
import pyte

from tests.e2e.running import CliRunner
from tests.e2e.warm import warm

PATIENCE_S = 20.0
TRUST_QUESTION = "No, keep it restricted"
_LOOK_AGAIN_S = 0.2
_GUARD_S = 0.6
"""Time after which keys count as answers to a question that is shown, with room for a slow machine."""
_TIME_TO_LEAVE_S = 2.0
"""Time for a program to end after its terminal is gone, before it is killed."""


class Terminal:
    """qcode on a screen of `columns` by `rows`. Only reads wait; nothing sleeps.

    If the runner is warm, qcode is a fork of an interpreter that has loaded the app. An empty value in `env` removes
    the variable. `about_folder` is the key that answers the trust question; None if the question is not expected.
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
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        environment = {"TERM": "xterm-256color", **cli.environment(env), "COLUMNS": "", "LINES": ""}
        environment = {name: value for name, value in environment.items() if value}
        start = _Fork if cli.can_fork(env) else _Process
        self._child: _Child = start(cli, arguments, environment, (rows, columns))
        if about_folder is not None and "--trust" not in arguments:
            self.answer_trust(about_folder)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def colors_of(self, expected: str) -> tuple[str, str]:
        """Return foreground and background of the first cell of the text `expected`, as the emulator names them."""
        for row, line in enumerate(self.screen.display):
            if (column := line.find(expected)) >= 0:
                cell = self.screen.buffer[row][column]
                return cell.fg, cell.bg
        raise AssertionError(f"{expected!r} is not on the screen:\n{self.text}")

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the program runs, and if a signal ended it."""
        code = self._child.code
        return None if code is None or code < 0 else code

    @property
    def modes(self) -> dict[int, bool]:
        """The private modes (DECSET) that the program touched, and whether each is on now."""
        return {int(mode): which == "h" for mode, which in re.findall(r"\x1b\[\?(\d+)([hl])", self.raw)}

    @property
    def is_echoing(self) -> bool:
        """Whether typed text is echoed, line by line, as in a shell."""
        flags = termios.tcgetattr(self._child.fd)[3]
        return bool(flags & termios.ECHO) and bool(flags & termios.ICANON)

    def wait_for(self, expected: str | Callable[[str], bool], timeout_s: float = PATIENCE_S) -> str:
        """Read until the screen shows `expected`; return the screen. Fail with the screen after `timeout_s`.

        A function is asked again now and then, also while nothing is written: it may press keys itself.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            text = self.text
            if (expected in text) if isinstance(expected, str) else expected(text):
                return text
            if not self._read(_LOOK_AGAIN_S):
                raise AssertionError(f"it ended ({self._ending()}) and had not shown {expected!r}:\n{self.text}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the screen did not show {expected!r} in {timeout_s:g} s:\n{self.text}")

    def press(self, keys: str) -> None:
        data = keys.encode()
        while data:
            data = data[os.write(self._child.fd, data) :]

    def answer_trust(self, key: str) -> str:
        """Answer the question about the folder; return it."""
        return self.answer(TRUST_QUESTION, key)

    def answer(self, question: str, key: str) -> str:
        """Wait until the screen shows `question`, and until keys count as answers; press `key`, return the screen."""
        asked = self.wait_for(question)
        since = time.monotonic()
        self.wait_for(lambda _: time.monotonic() - since > _GUARD_S)
        self.press(key)
        return asked

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        termios.tcsetwinsize(self._child.fd, (rows, columns))

    def wait_for_end(self) -> int | None:
        """Read until the program has ended; return its exit code, None if a signal ended it."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(_LOOK_AGAIN_S):
            assert time.monotonic() < deadline, f"the program did not end:\n{self.text}"
        self._child.wait(PATIENCE_S)
        return self.exit_code

    def hang_up(self) -> int:
        """Take the terminal away, as closing its window does; return the exit code, minus n if signal n ended it."""
        self._child.close()
        try:
            return self._child.wait(PATIENCE_S)
        except TimeoutError:
            self._child.kill()
            raise AssertionError("the program outlived its terminal") from None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child.code is None:
            self._child.close()
            try:
                self._child.wait(_TIME_TO_LEAVE_S)
            except TimeoutError:
                self._child.kill()
        self._child.close()

    def _ending(self) -> str:
        code = self._child.wait(PATIENCE_S)
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _read(self, timeout_s: float) -> bool:
        """Read the output of the program for up to `timeout_s`; return False if it has ended."""
        if not select.select([self._child.fd], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self._child.fd, 65_536)
        except OSError:  # Linux says so if no program has the terminal open
            return False
        if not data:
            return False
        piece = self._decoder.decode(data)
        self.raw += piece
        self._stream.feed(_plain(piece))
        return True


class _Child:
    """A program in a new terminal, of which `fd` is the other side. `code` is minus n if signal n ended it."""

    pid: int
    fd: int
    code: int | None = None

    def wait(self, timeout_s: float) -> int:
        """Return the exit code.

        Raises:
            TimeoutError: The program did not end in `timeout_s`.
        """
        if self.code is None:
            self.code = self._wait(timeout_s)
        return self.code

    def _wait(self, timeout_s: float) -> int:
        raise NotImplementedError

    def close(self) -> None:
        """Take the terminal away."""
        raise NotImplementedError

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait(PATIENCE_S)


class _Fork(_Child):
    """A fork of an interpreter that has loaded the app."""

    def __init__(
        self, cli: CliRunner, arguments: Sequence[str], environment: Mapping[str, str], size: tuple[int, int]
    ) -> None:
        self.fd, theirs = os.openpty()
        termios.tcsetwinsize(self.fd, size)
        self._is_open = True
        request = {"arguments": arguments, "cwd": str(cli.work), "env": dict(environment), "has_terminal": True}
        streams = [theirs, os.dup(theirs), os.dup(theirs)]
        self.pid = warm(has_app=True).start(json.dumps(request).encode() + b"\n", streams)

    def _wait(self, timeout_s: float) -> int:
        return warm(has_app=True).wait(self.pid, timeout_s)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self.fd)


class _Process(_Child):
    """A new process."""

    def __init__(
        self, cli: CliRunner, arguments: Sequence[str], environment: Mapping[str, str], size: tuple[int, int]
    ) -> None:
        program, *rest = cli.command(*arguments)
        self._spawned = pexpect.spawn(program, rest, cwd=str(cli.work), env=environment, dimensions=size)
        self.pid, self.fd = self._spawned.pid, self._spawned.child_fd

    def _wait(self, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._spawned.ptyproc.terminated = True
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.01)

    def close(self) -> None:
        self._spawned.ptyproc.fileobj.close()
        self._spawned.closed = True


def _plain(piece: str) -> str:
    """Leave out sequences the emulator takes for text: kitty's key protocol (`CSI > ... u`, `CSI < u`)."""
    for odd in ("\x1b[>25u", "\x1b[>1u", "\x1b[<u"):
        piece = piece.replace(odd, "")
    return piece


class Answering:
    """Answers each question with `key`, once the screen is still, until `expected` shows: earlier keys are a draft."""

    def __init__(self, terminal: Terminal, expected: str, key: str = "y") -> None:
        self._terminal = terminal
        self._wanted = expected
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
