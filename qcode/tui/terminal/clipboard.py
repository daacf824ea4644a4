"""Copies text to the clipboard with a program, through the terminal (OSC 52) or, as a last resort, into a file.

A program is tried only if it reaches the user's machine: over SSH, `xclip` would fill the clipboard of the remote host.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from qcode.config.state_file import create_private_folder
from qcode.values import dataclass

MAX_TERMINAL_BYTES = 74_994
"""Bytes of base64 that every terminal accepts in one OSC 52 sequence; xterm.js and hterm are the strictest."""

_TIMEOUT_S = 2.0
"""The maximum time for a program to copy."""
_MAX_SCREEN_CHARS = 250
"""The maximum length of a sequence that GNU Screen passes on to the terminal at once."""


@dataclass(frozen=True, slots=True)
class ClipboardProgram:
    """A program that copies its standard input to the clipboard. It expects text in `encoding`."""

    argv: tuple[str, ...]
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class CopyResult:
    """How a text was copied, or why it was not."""

    words: str
    """The way, such as `with xclip`; otherwise the reason."""
    is_copied: bool = True

    def report(self, subject: str) -> str:
        """Return the result for the user, such as `copied 12 characters with xclip` for the subject `12 characters`."""
        return f"copied {subject} {self.words}" if self.is_copied else f"could not copy {subject}: {self.words}"


def programs_for(environ: Mapping[str, str], platform: str) -> tuple[ClipboardProgram, ...]:
    """Return the programs that reach the user's clipboard from here, best first."""
    programs: list[ClipboardProgram] = []
    is_remote = bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))
    if not is_remote:
        if platform == "darwin":
            programs.append(ClipboardProgram(("pbcopy",)))
        if environ.get("WSL_DISTRO_NAME"):
            programs.append(ClipboardProgram(("clip.exe",), "utf-16"))
        if environ.get("TERMUX_VERSION"):
            programs.append(ClipboardProgram(("termux-clipboard-set",)))
        if environ.get("WAYLAND_DISPLAY"):
            programs.append(ClipboardProgram(("wl-copy",)))
        if environ.get("DISPLAY"):
            programs += [
                ClipboardProgram(("xclip", "-selection", "clipboard")),
                ClipboardProgram(("xsel", "--clipboard", "--input")),
            ]
    if environ.get("TMUX"):
        # Fills the buffer of tmux and, with -w, the clipboard of the outer terminal.
        programs.append(ClipboardProgram(("tmux", "load-buffer", "-w", "-")))
    return tuple(programs)


def osc52(text: str, environ: Mapping[str, str]) -> str:
    """Return the OSC 52 sequence that copies `text`, wrapped for tmux or screen; empty if the text is too long."""
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(data) > MAX_TERMINAL_BYTES:
        return ""
    plain = f"\x1b]52;c;{data}\x07"
    if environ.get("TMUX"):
        escaped = plain.replace("\x1b", "\x1b\x1b")
        return f"{plain}\x1bPtmux;{escaped}\x1b\\"
    if environ.get("TERM", "").startswith("screen"):
        chunks = (plain[start : start + _MAX_SCREEN_CHARS] for start in range(0, len(plain), _MAX_SCREEN_CHARS))
        return "".join(f"\x1bP{chunk}\x1b\\" for chunk in chunks)
    return plain


def has_osc52(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal might support OSC 52. No terminal confirms that it copied anything."""
    return environ.get("TERM", "") not in ("", "dumb", "linux")


class Clipboard:
    """Copies text on behalf of one terminal.

    `write` sends a sequence to the terminal. `folder` holds the file of the last resort; None means a temporary file.
    `run` starts a program with data on its input and returns whether it succeeded.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        platform: str,
        write: Callable[[str], None],
        folder: Path | None,
        run: Callable[[tuple[str, ...], bytes], bool] | None = None,
    ) -> None:
        self._environ = environ
        self._platform = platform
        self._write = write
        self._folder = folder
        self._run_program = run if run is not None else run_program

    def copy(self, text: str) -> CopyResult:
        """Copy `text` by the first method that works, the last of which is a file."""
        for program in programs_for(self._environ, self._platform):
            if self._run_program(program.argv, text.encode(program.encoding, "replace")):
                return CopyResult(f"with {program.argv[0]}")
        sequence = osc52(text, self._environ)
        if sequence and has_osc52(self._environ):
            self._write(sequence)
            return CopyResult("through the terminal (OSC 52)")
        reason = "too long for the terminal's clipboard" if not sequence else "this terminal has no clipboard"
        return self._copy_to_file(text, reason)

    def _copy_to_file(self, text: str, reason: str) -> CopyResult:
        """Copy `text` into a file. `reason`: why the clipboard is not used, in words."""
        try:
            path = self._make_file()
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            return CopyResult(f"{reason}, and no file could be written ({error.strerror})", is_copied=False)
        return CopyResult(f"to {path} ({reason})")

    def _make_file(self) -> Path:
        """Return an empty file that only the user can read."""
        if self._folder is not None:
            create_private_folder(self._folder)
            path = self._folder / "copied.txt"
            path.touch(mode=0o600)
            return path
        descriptor, name = tempfile.mkstemp(prefix="qcode-", suffix=".txt")
        os.close(descriptor)
        return Path(name)


def run_program(argv: tuple[str, ...], data: bytes) -> bool:
    """Run a program with `data` on its input; return False if it is not installed, fails or takes too long."""
    program = shutil.which(argv[0])
    if program is None:
        return False
    try:
        # xclip and wl-copy keep running to serve the clipboard, so they must not inherit our pipes.
        completed = subprocess.run(
            [program, *argv[1:]],
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return completed.returncode == 0
