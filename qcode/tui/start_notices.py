"""What is said below the welcome when the app starts: the mode that asks nothing, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.events import Notice
from qcode.tui.commands.keymap import problems
from qcode.tui.commands.table import COMMANDS
from qcode.tui.setup import AppSetup
from qcode.tui.themes import AUTO


def start_notices(setup: AppSetup, mode: ApprovalMode, theme: str, theme_problems: Sequence[str]) -> Iterator[Notice]:
    """Yield the notices in order; `theme` is the one that is on."""
    if mode == "bypass":
        yield Notice("warning", "Mode bypass: tools run without asking. Shift+Tab leaves it.")
    yield from setup.notices
    for problem in theme_problems:
        yield Notice("warning", problem)
    if setup.theme not in (theme, AUTO):
        yield Notice("warning", f"There is no theme {setup.theme!r}; {theme} is used. /theme lists them.")
    for command_id, problem in problems(setup.keys, COMMANDS):
        yield Notice("warning", f"Keys of {command_id}: {problem}.")
