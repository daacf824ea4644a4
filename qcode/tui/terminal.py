"""What Textual does not do with the terminal: its title, links, Alt+Enter in plain terminals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

from qcode.tui.ground import ReportParser
from qcode.tui.text import one_line

SAVE_TITLE = "\x1b[22;0t"
RESTORE_TITLE = "\x1b[23;0t"
BELL = "\x07"


def notify(text: str) -> str:
    """Return the sequence (OSC 9) that shows cleaned `text` as a notification of the desktop."""
    # A text that begins with a number and a semicolon would be one of ConEmu's other commands.
    return f"\x1b]9;{one_line(text, 120).lstrip('0123456789;')}\x07"


def set_title(title: str) -> str:
    """Return the sequence that sets the terminal's title to cleaned `title`."""
    return f"\x1b]0;{one_line(title, 80)}\x07"


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Whether a browser would open in a window of its own, where the person is, and not inside the terminal."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    names = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    return platform in ("darwin", "win32") or any(environ.get(name) for name in names)


def teach_alt_keys() -> None:
    """Tell Alt+Enter and Alt+Backspace from other keys in terminals without the Kitty protocol: Escape before the key.

    Textual 8.2 reads them as Enter, which would send the prompt, and as Ctrl+W, which cuts more; it keeps sequences in
    a table without a public way to add one. Ctrl+J is the key that means a new line everywhere.
    """
    ANSI_SEQUENCES_KEYS["\x1b\r"] = (Keys.ControlJ,)  # type: ignore[index]  # a dict, typed as a read-only Mapping
    alt_backspace = (SimpleNamespace(value="alt+backspace"),)
    ANSI_SEQUENCES_KEYS["\x1b\x7f"] = alt_backspace  # type: ignore[index]  # as above; only the value is looked at


def read_pastes_whole() -> None:
    """Make Textual's driver read pastes and reports through `ground`; there is no public way to give it a parser."""
    if sys.platform != "win32":
        from textual.drivers import linux_driver

        linux_driver.XTermParser = ReportParser  # type: ignore[attr-defined]  # imported there by name


def on_signals(leave: Callable[[int], None]) -> None:
    """Call `leave` with the number when the process is told to end, so that the terminal is restored first."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
            loop.add_signal_handler(number, leave, int(number))
