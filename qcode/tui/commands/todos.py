"""The command of the model's list of todos."""

from __future__ import annotations

from qcode.tui.commands.command import Command, CommandHost
from qcode.tui.todo_list import in_words

_NONE = "There is no list of todos: the model keeps one for work of several steps."


def _todos(host: CommandHost, what: str) -> None:
    if what == "all":
        items = host.todos
        host.show_panel("Todos", in_words(items) if items else _NONE)
    elif not host.toggle_todos():
        host.say("info", _NONE)


TODOS: tuple[Command, ...] = (
    Command(
        "todos",
        "Todos",
        "Open or fold the model's list of todos; all: the whole list.",
        _todos,
        ("todos",),
        "[all]",
        lambda _: ("all",),
        keys=("ctrl+t",),
    ),
)
