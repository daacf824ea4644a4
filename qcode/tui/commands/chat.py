"""The commands of the conversation: provider, mode, new session, trust; interrupt and quit; the prompt's editor,
history and pasting; to-do list and background jobs.
"""

from __future__ import annotations

from qcode.tui.commands.command import MODES, Command, CommandHost, is_prompt_empty
from qcode.tui.panels.todos import in_words


def _mode(host: CommandHost, name: str) -> None:
    mode = next((mode for mode in MODES if mode == name), None)
    if mode is not None:
        host.use_mode(mode)
        return
    if not name and host.has_screens:
        _pick_mode(host)
        return
    lines = [f"  {mode}: {meaning}" for mode, meaning in MODES.items()]
    head = f"Mode: {host.agent.conversation.mode}" if not name else f"No mode {name!r} to switch to here."
    tail = "auto and bypass are chosen at the start, with --permission-mode."
    host.say("info" if not name else "warning", "\n".join([head, *lines, tail]))


def _pick_mode(host: CommandHost) -> None:
    from qcode.tui.screens.picker import Picker, Row

    current = host.agent.conversation.mode
    rows = [Row(mode, mode, meaning, mode == current) for mode, meaning in MODES.items()]
    if current not in MODES:
        rows.insert(0, Row(current, current, "chosen at the start", is_current=True))

    def picked(name: str | None) -> None:
        mode = next((mode for mode in MODES if mode == name), None)
        if mode is not None:
            host.use_mode(mode)

    host.open_screen(Picker("Permission mode", rows), picked)


def _next_mode(host: CommandHost, _argument: str) -> None:
    modes = list(MODES)
    mode = host.agent.conversation.mode
    host.use_mode(modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else "default")


def _clear(host: CommandHost, _argument: str) -> None:
    if host.is_turn_running:
        host.say("warning", "A turn is running. Press Esc to interrupt it, then /clear.")
    else:
        host.clear_conversation()


CHAT: tuple[Command, ...] = (
    Command(
        "connect",
        "Connect a provider",
        "Add a key: choose a provider, paste its key, switch to its model.",
        lambda host, name: host.connect(name),
        ("connect",),
        "[provider]",
        lambda host: host.agent.keys.names(),
    ),
    Command(
        "mode",
        "Switch the permission mode",
        "Show the permission modes, or switch to one.",
        _mode,
        ("mode",),
        "[name]",
        lambda _: tuple(MODES),
        has_screen=True,
    ),
    Command(
        "next-mode", "Next permission mode", "Go on to plan, default or accept-edits.", _next_mode, keys=("shift+tab",)
    ),
    Command("clear", "New session", "Start a new session; the old one is kept.", _clear, ("clear", "new")),
    Command(
        "trust",
        "Trust this folder",
        "Trust this folder from now on: rules and modes hold here.",
        lambda host, _: host.trust_folder(),
        ("trust",),
    ),
)


LEAVING: tuple[Command, ...] = (
    Command(
        "escape",
        "Interrupt",
        "Interrupt the turn and keep what was shown.",
        lambda host, _: host.escape(),
        keys=("escape",),
    ),
    Command(
        "interrupt",
        "Interrupt, clear, quit",
        "Interrupt the turn; otherwise clear the prompt; twice: quit.",
        lambda host, _: host.interrupt(),
        keys=("ctrl+c",),
    ),
    Command("quit", "Quit", "Leave qcode.", lambda host, _: host.leave(), ("quit", "exit")),
    Command(
        "quit-empty",
        "Quit",
        "Leave qcode, on an empty prompt.",
        lambda host, _: host.leave(),
        keys=("ctrl+d",),
        when=is_prompt_empty,
    ),
)


def _is_writing_prompt(host: CommandHost) -> bool:
    return host.is_writing


PROMPT: tuple[Command, ...] = (
    Command(
        "editor",
        "Write in your editor",
        "Write the prompt in your own editor (VISUAL, EDITOR).",
        lambda host, _: host.open_editor(),
        ("editor",),
        keys=("ctrl+g",),
        when=_is_writing_prompt,
    ),
    Command(
        "history-search",
        "Search the history",
        "Search earlier prompts; again: an older one.",
        lambda host, _: host.search_history(),
        keys=("ctrl+r",),
        when=_is_writing_prompt,
    ),
    Command(
        "paste",
        "Paste from the clipboard",
        "Paste the image or the text of the clipboard.",
        lambda host, _: host.paste(),
        keys=("ctrl+v", "alt+v"),
        when=_is_writing_prompt,
    ),
)


_NO_TODOS = "There is no list of todos: the model keeps one for work of several steps."


def _todos(host: CommandHost, what: str) -> None:
    if what == "all":
        items = host.todos
        host.show_panel("Todos", in_words(items) if items else _NO_TODOS)
    elif not host.toggle_todos():
        host.say("info", _NO_TODOS)


def _background(host: CommandHost, _argument: str) -> None:
    running = host.agent.conversation.background.calls
    if not running:
        host.say("info", "No command runs that could go on in the background.")
        return
    try:
        host.agent.conversation.background.move(running[-1])
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
        when=lambda host: bool(host.agent.conversation.background.calls),
    ),
)
