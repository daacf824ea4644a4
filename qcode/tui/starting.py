"""What is shown once the app has what it acts through: key names, todos, the sandbox, problems."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from qcode.protocol.conversation import Conversation
from qcode.tui.commands.command import key_names
from qcode.tui.commands.keymap import keymap, problems
from qcode.tui.commands.table import COMMANDS
from qcode.tui.setup import AppSetup
from qcode.tui.status import NO_SANDBOX, SANDBOX
from qcode.tui.status_line import StatusLine
from qcode.tui.themes import AUTO
from qcode.tui.todo_list import todos_in
from qcode.tui.turns import Turns
from qcode.tui.widgets import Widgets


def show_start(setup: AppSetup, conversation: Conversation, widgets: Widgets, turns: Turns) -> None:
    """Show what depends on the keys, as the person has them, and on the conversation, as it is at the start."""
    keys = keymap(setup.keys, COMMANDS)
    widgets.todos.key = key_names(keys["todos"][:1])
    widgets.todos.become(todos_in(conversation.messages))
    turns.name_background_key(key_names(keys["background"][:1]))


async def look_for_sandbox(setup: AppSetup, status: StatusLine) -> None:
    """Say in the status line whether there is one, once that is known."""
    if setup.has_sandbox is not None:
        found = await asyncio.to_thread(setup.has_sandbox)
        status.change(sandbox=SANDBOX if found else NO_SANDBOX)


def start_problems(setup: AppSetup, theme: str) -> Iterator[str]:
    """Yield a sentence for what of theme and keys in the configuration is wrong; `theme` is the one that is on."""
    if setup.theme not in (theme, AUTO):
        yield f"There is no theme {setup.theme!r}; {theme} is used. /theme lists them."
    for command_id, problem in problems(setup.keys, COMMANDS):
        yield f"Keys of {command_id}: {problem}."
