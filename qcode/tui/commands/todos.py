"""The commands of what the model works on: its list of todos, and a command that need not be waited for."""

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


def _background(host: CommandHost, _argument: str) -> None:
    running = host.conversation.background.calls
    if not running:
        host.say("info", "No command runs that could go on in the background.")
        return
    try:
        host.conversation.background.move(running[-1])
    except ValueError as refusal:
        host.say("warning", str(refusal))


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
    Command(
        "background",
        "Move to the background",
        "Let the command that runs go on in the background; the model goes on at once.",
        _background,
        ("background", "bg"),
        keys=("ctrl+b",),
        when=lambda host: bool(host.conversation.background.calls),
    ),
)
