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

PATIENCE_S = 60.0
"""The limit of a wait, long enough for a machine that runs much else. A passing test does not wait for it."""
TRUST_QUESTION = "No, keep it restricted"
_POLL_S = 0.2
_GUARD_S = 0.6
"""Seconds after which a question that is shown accepts keys as answers. The app itself needs less."""
_EXIT_S = 2.0
"""Seconds that a program may take to exit after its terminal was closed, before it is killed."""


class Terminal:
    """qcode in a terminal of `columns` by `rows`. Methods wait only by reading its output.

    If the runner is warm, qcode is a fork of an interpreter that has loaded the app. An empty value in `env` removes
    the variable. `about_folder` is the key that answers the trust question; None if that question is not expected.
    `typed_before` is typed before qcode starts, so the terminal echoes it; it needs a warm runner.
    """

    def __init__(
        self,
        cli: CliRunner,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 24,
        about_folder: str | None = None,
        typed_before: str = "",
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.raw = ""
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        environment = {"TERM": "xterm-256color", **cli.environment(env), "COLUMNS": "", "LINES": ""}
        environment = {name: value for name, value in environment.items() if value}
        self._child: _Child
        if cli.can_fork(env):
            self._child = _Fork(cli, arguments, environment, (rows, columns), typed_before)
        else:
            assert not typed_before
            self._child = _Process(cli, arguments, environment, (rows, columns))
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
        """The exit code; None while the program runs, or if a signal ended it."""
        code = self._child.code
        return None if code is None or code < 0 else code

    @property
    def modes(self) -> dict[int, bool]:
        """The private modes (DECSET) that the program has set or reset, and whether each is on now."""
        return {int(mode): which == "h" for mode, which in re.findall(r"\x1b\[\?(\d+)([hl])", self.raw)}

    @property
    def is_echoing(self) -> bool:
        """Whether typed text is echoed, line by line, as in a shell."""
        flags = termios.tcgetattr(self._child.fd)[3]
        return bool(flags & termios.ECHO) and bool(flags & termios.ICANON)

    def wait_for(self, expected: str | Callable[[str], bool], timeout_s: float = PATIENCE_S) -> str:
        """Read until the screen shows `expected`; return the screen. Fail with the screen after `timeout_s`.

        If `expected` is a function, it is also called while the program writes nothing, because it may press keys.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            text = self.text
            if (expected in text) if isinstance(expected, str) else expected(text):
                return text
            if not self._read(_POLL_S):
                raise AssertionError(f"it ended ({self._exit_text()}) and had not shown {expected!r}:\n{self.text}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the screen did not show {expected!r} in {timeout_s:g} s:\n{self.text}")

    def press(self, keys: str) -> None:
        data = keys.encode()
        while data:
            data = data[os.write(self._child.fd, data) :]

    def answer_trust(self, key: str) -> str:
        """Answer the trust question; return the screen that showed it."""
        return self.answer(TRUST_QUESTION, key)

    def answer(self, question: str, key: str) -> str:
        """Wait until the screen shows `question` and accepts keys, and press `key`; return the screen before that."""
        question_screen = self.wait_for(question)
        shown_at = time.monotonic()
        self.wait_for(lambda _: time.monotonic() - shown_at > _GUARD_S)
        self.press(key)
        return question_screen

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        termios.tcsetwinsize(self._child.fd, (rows, columns))

    def wait_for_end(self) -> int | None:
        """Read until the program has ended; return its exit code, None if a signal ended it."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(_POLL_S):
            assert time.monotonic() < deadline, f"the program did not end:\n{self.text}"
        self._child.wait(PATIENCE_S)
        return self.exit_code

    def hang_up(self) -> int:
        """Close the terminal, as closing its window does; return the exit code, minus n if signal n ended qcode."""
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
                self._child.wait(_EXIT_S)
            except TimeoutError:
                self._child.kill()
        self._child.close()

    def _exit_text(self) -> str:
        code = self._child.wait(PATIENCE_S)
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _read(self, timeout_s: float) -> bool:
        """Read the output of the program for up to `timeout_s`; return False if it has ended."""
        if not select.select([self._child.fd], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self._child.fd, 65_536)
        except OSError:  # on Linux: no program has the terminal open any more
            return False
        if not data:
            return False
        piece = self._decoder.decode(data)
        self.raw += piece
        self._stream.feed(_plain(piece))
        return True


class _Child:
    """A program in a new terminal."""

    pid: int
    fd: int
    """The test's side of the terminal."""
    code: int | None = None
    """The exit code, minus n if signal n ended the program; None while it runs."""

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
        """Close the terminal."""
        raise NotImplementedError

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait(PATIENCE_S)


class _Fork(_Child):
    """A fork of an interpreter that has loaded the app."""

    def __init__(
        self,
        cli: CliRunner,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        size: tuple[int, int],
        typed_before: str,
    ) -> None:
        self.fd, theirs = os.openpty()
        termios.tcsetwinsize(self.fd, size)
        os.write(self.fd, typed_before.encode())
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
    """Return `piece` without the sequences of kitty's key protocol, which the emulator would show as text."""
    for sequence in ("\x1b[>25u", "\x1b[>1u", "\x1b[<u"):
        piece = piece.replace(sequence, "")
    return piece


class Answering:
    """A function for `wait_for` that answers each question with `key` until the screen shows `expected`.

    It waits until the screen no longer changes, because keys pressed before that would become a draft.
    """

    def __init__(self, terminal: Terminal, expected: str, key: str = "y") -> None:
        self._terminal = terminal
        self._expected = expected
        self._key = key
        self._shown = ""
        self._changed_at = 0.0

    def __call__(self, text: str) -> bool:
        if text != self._shown:
            self._shown, self._changed_at = text, time.monotonic()
        elif "› 1 Yes" in text and time.monotonic() - self._changed_at > 0.5:
            self._changed_at = time.monotonic()
            self._terminal.press(self._key)
        return self._expected in text
