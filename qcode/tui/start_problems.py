"""What of the theme and the keys in the configuration is wrong, for the person to see at the start. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from qcode.tui.commands.keymap import problems
from qcode.tui.commands.table import COMMANDS
from qcode.tui.setup import AppSetup
from qcode.tui.themes import AUTO


def start_problems(setup: AppSetup, theme: str) -> Iterator[str]:
    """Yield a sentence for each; `theme` is the one that is on."""
    if setup.theme not in (theme, AUTO):
        yield f"There is no theme {setup.theme!r}; {theme} is used. /theme lists them."
    for command_id, problem in problems(setup.keys, COMMANDS):
        yield f"Keys of {command_id}: {problem}."
