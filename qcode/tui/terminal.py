"""What Textual does not do with the terminal: its title, the clipboard inside tmux, Alt+Enter in plain terminals."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from types import SimpleNamespace

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

from qcode.tui.paste_input import PasteParser
from qcode.tui.text import one_line

SAVE_TITLE = "\x1b[22;0t"
RESTORE_TITLE = "\x1b[23;0t"


def set_title(title: str) -> str:
    """Return the sequence that sets the terminal's title to cleaned `title`."""
    return f"\x1b]0;{one_line(title, 80)}\x07"


def copy_through_tmux(text: str) -> str:
    """Return OSC 52 for `text` wrapped to pass through tmux, empty outside tmux."""
    if not os.environ.get("TMUX"):
        return ""
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"\x1bPtmux;\x1b\x1b]52;c;{data}\x07\x1b\\"


def teach_alt_keys() -> None:
    """Tell Alt+Enter and Alt+Backspace from other keys in terminals without the Kitty protocol: Escape before the key.

    Textual 8.2 reads them as Enter, which would send the prompt, and as Ctrl+W, which cuts more; it keeps sequences in
    a table without a public way to add one. Ctrl+J is the key that means a new line everywhere.
    """
    ANSI_SEQUENCES_KEYS["\x1b\r"] = (Keys.ControlJ,)  # type: ignore[index]  # a dict, typed as a read-only Mapping
    alt_backspace = (SimpleNamespace(value="alt+backspace"),)
    ANSI_SEQUENCES_KEYS["\x1b\x7f"] = alt_backspace  # type: ignore[index]  # as above; only the value is looked at


def read_pastes_whole() -> None:
    """Make Textual's driver read pastes through `paste_input`; there is no public way to give it a parser."""
    if sys.platform != "win32":
        from textual.drivers import linux_driver

        linux_driver.XTermParser = PasteParser  # type: ignore[attr-defined]  # imported there by name


def on_signals(leave: Callable[[int], None]) -> None:
    """Call `leave` with the number when the process is told to end, so that the terminal is restored first."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
            loop.add_signal_handler(number, leave, int(number))
