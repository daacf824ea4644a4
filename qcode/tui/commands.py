"""The one table of commands. The slash menu, the key bindings, the palette and `/help` all read it.

A command acts through `CommandHost`, which the app implements; it never sees a widget.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from qcode.protocol.conversation import ApprovalMode, Conversation
from qcode.protocol.events import Level
from qcode.tui.setup import AppSetup

Scroll: TypeAlias = Literal["page_up", "page_down", "home", "end"]

MODES: dict[ApprovalMode, str] = {
    "plan": "reads only",
    "default": "asks before it changes anything",
    "accept-edits": "edits inside the folder run without asking",
}
"""The modes a person can reach inside the app, in the order Shift+Tab goes. `auto` and `bypass` are flags."""


class CommandHost(Protocol):
    """What a command may do."""

    @property
    def conversation(self) -> Conversation: ...

    @property
    def setup(self) -> AppSetup: ...

    @property
    def is_turn_running(self) -> bool: ...

    @property
    def is_prompt_empty(self) -> bool: ...

    @property
    def theme_names(self) -> tuple[str, ...]: ...

    @property
    def theme_name(self) -> str: ...

    @property
    def model_names(self) -> tuple[str, ...]: ...

    def say(self, level: Level, text: str) -> None: ...
    def show_panel(self, title: str, text: str) -> None: ...
    def toggle_keys(self) -> None: ...
    def clear_conversation(self) -> None: ...
    def use_model(self, name: str) -> None: ...
    def use_mode(self, mode: ApprovalMode) -> None: ...
    def use_theme(self, name: str) -> None: ...
    def copy_reply(self) -> None: ...
    def trust_folder(self) -> None: ...
    def leave(self) -> None: ...
    def escape(self) -> None: ...
    def interrupt(self) -> None: ...
    def toggle_folds(self) -> None: ...
    def redraw(self) -> None: ...
    def scroll_transcript(self, to: Scroll) -> None: ...
    def open_palette(self) -> None: ...


def _always(_host: CommandHost) -> bool:
    return True


def _nothing(_host: CommandHost) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """Something a person can invoke.

    `names` are typed after the slash, the first is its name and the others are aliases; none: by key or palette only.
    `choices` are what `argument` may be, offered while it is typed. `run` gets the argument, stripped.
    `when` False: its keys do what they did before.
    """

    id: str
    title: str
    help: str
    run: Callable[[CommandHost, str], None]
    names: tuple[str, ...] = ()
    argument: str = ""
    choices: Callable[[CommandHost], Sequence[str]] = _nothing
    keys: tuple[str, ...] = ()
    when: Callable[[CommandHost], bool] = _always

    @property
    def usage(self) -> str:
        """`/model [name]`, or the keys of a command that is not typed."""
        return f"/{self.names[0]} {self.argument}".rstrip() if self.names else key_names(self.keys)


def _help(host: CommandHost, topic: str) -> None:
    topics = host.setup.help_topics
    if not topic:
        host.show_panel("Help", help_text(host))
    elif topic in topics:
        host.show_panel(topic, topics[topic]())
    elif (command := find(topic.removeprefix("/"), host.setup)) is not None:
        also = f"\nAlso: {', '.join('/' + name for name in command.names[1:])}" if command.names[1:] else ""
        host.show_panel(command.usage, command.help + also)
    else:
        close = nearest(topic, [*topics, *_typed_names(host.setup)])
        host.say("warning", f"No help on {topic!r}." + (f" Did you mean /help {close}?" if close else ""))


def _help_topics(host: CommandHost) -> Sequence[str]:
    return (*host.setup.help_topics, *(c.names[0] for c in enabled(host.setup) if c.names))


def _model(host: CommandHost, name: str) -> None:
    if name:
        host.use_model(name)
        return
    others = [other for other in host.model_names if other != host.conversation.model]
    lines = [f"Model: {host.conversation.model}", *(f"  {other}" for other in others)]
    host.say("info", "\n".join([*lines, "/model NAME switches, from the next turn on."]))


def _mode(host: CommandHost, name: str) -> None:
    mode = next((mode for mode in MODES if mode == name), None)
    if mode is not None:
        host.use_mode(mode)
        return
    lines = [f"  {mode}: {meaning}" for mode, meaning in MODES.items()]
    head = f"Mode: {host.conversation.mode}" if not name else f"No mode {name!r} to switch to here."
    tail = "auto and bypass are chosen at the start, with --permission-mode."
    host.say("info" if not name else "warning", "\n".join([head, *lines, tail]))


def _next_mode(host: CommandHost, _argument: str) -> None:
    modes = list(MODES)
    mode = host.conversation.mode
    host.use_mode(modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else "default")


def _theme(host: CommandHost, name: str) -> None:
    if name:
        host.use_theme(name)
        return
    names = [f"{theme} (in use)" if theme == host.theme_name else theme for theme in host.theme_names]
    host.say("info", f"Themes: {', '.join(names)}. /theme NAME switches.")


def _clear(host: CommandHost, _argument: str) -> None:
    if host.is_turn_running:
        host.say("warning", "A turn is running. Press Esc to interrupt it, then /clear.")
    else:
        host.clear_conversation()


def _is_prompt_empty(host: CommandHost) -> bool:
    return host.is_prompt_empty


COMMANDS: tuple[Command, ...] = (
    Command("help", "Help", "Show the commands, or help on one topic.", _help, ("help",), "[topic]", _help_topics),
    Command(
        "keys",
        "Show keys",
        "Show or hide the list of keys.",
        lambda host, _: host.toggle_keys(),
        ("keys",),
        keys=("f1",),
    ),
    Command(
        "keys-empty",
        "Show keys",
        "Show or hide the list of keys, on an empty prompt.",
        lambda host, _: host.toggle_keys(),
        keys=("question_mark",),
        when=_is_prompt_empty,
    ),
    Command(
        "model",
        "Switch the model",
        "Show the models, or switch to one from the next turn on.",
        _model,
        ("model",),
        "[name]",
        lambda host: host.model_names,
    ),
    Command(
        "mode",
        "Switch the permission mode",
        "Show the permission modes, or switch to one.",
        _mode,
        ("mode",),
        "[name]",
        lambda _: tuple(MODES),
    ),
    Command(
        "next-mode", "Next permission mode", "Go on to plan, default or accept-edits.", _next_mode, keys=("shift+tab",)
    ),
    Command("clear", "New session", "Start a new session; the old one is kept.", _clear, ("clear", "new")),
    Command(
        "theme",
        "Switch the theme",
        "Show the themes, or switch to one.",
        _theme,
        ("theme",),
        "[name]",
        lambda host: host.theme_names,
    ),
    Command(
        "trust",
        "Trust this folder",
        "Trust this folder from now on: rules and modes hold here.",
        lambda host, _: host.trust_folder(),
        ("trust",),
    ),
    Command(
        "copy",
        "Copy the last reply",
        "Copy the last reply to the clipboard, through the terminal.",
        lambda host, _: host.copy_reply(),
        ("copy",),
    ),
    Command(
        "fold",
        "Fold or unfold",
        "Fold or unfold thinking and tool output.",
        lambda host, _: host.toggle_folds(),
        keys=("ctrl+o",),
    ),
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
    Command(
        "page-up", "Scroll up", "Scroll up a page.", lambda host, _: host.scroll_transcript("page_up"), keys=("pageup",)
    ),
    Command(
        "page-down",
        "Scroll down",
        "Scroll down a page.",
        lambda host, _: host.scroll_transcript("page_down"),
        keys=("pagedown",),
    ),
    Command(
        "top",
        "Scroll to the start",
        "Scroll to the start.",
        lambda host, _: host.scroll_transcript("home"),
        keys=("ctrl+home",),
    ),
    Command(
        "bottom",
        "Scroll to the end",
        "Scroll to the end and stay there.",
        lambda host, _: host.scroll_transcript("end"),
        keys=("ctrl+end",),
    ),
    Command("redraw", "Redraw", "Draw the screen again.", lambda host, _: host.redraw(), keys=("ctrl+l",)),
    Command(
        "palette", "Command palette", "Find a command by name.", lambda host, _: host.open_palette(), keys=("ctrl+p",)
    ),
    Command("quit", "Quit", "Leave qcode.", lambda host, _: host.leave(), ("quit", "exit")),
    Command(
        "quit-empty",
        "Quit",
        "Leave qcode, on an empty prompt.",
        lambda host, _: host.leave(),
        keys=("ctrl+d",),
        when=_is_prompt_empty,
    ),
)

PROMPT_KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "Send; while the model works: queue for its next step."),
    ("Shift+Enter, Alt+Enter, Ctrl+J", "New line (also a \\ at the end of the line, then Enter)."),
    ("Up, Down", "At the first or last line: earlier and later prompts."),
    ("Tab", "Complete a command; unfold a pasted text."),
    ("Esc Esc", "Clear the prompt; Up brings the text back."),
)
"""Keys of the prompt itself, for the list of keys."""


def enabled(setup: AppSetup) -> Iterator[Command]:
    """Yield the commands this app has, in the order of the table."""
    for command in COMMANDS:
        if setup.commands is None or command.id in setup.commands or not command.names:
            yield command


def by_id(command_id: str) -> Command:
    return next(command for command in COMMANDS if command.id == command_id)


def find(name: str, setup: AppSetup) -> Command | None:
    """Return the command typed as `/name`, by its name or an alias."""
    return next((command for command in enabled(setup) if name in command.names), None)


def nearest(name: str, names: Sequence[str]) -> str:
    """Return the one of `names` most like `name`, empty if none is close."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.5)), "")


def split_command(text: str) -> tuple[str, str] | None:
    """Return name and argument of a slash command, None for text that is none, such as a path."""
    match = _TYPED.fullmatch(text)
    return (match[1] or "", (match[2] or "").strip()) if match else None


def unknown_command(name: str, setup: AppSetup) -> str:
    """Return what to say about a name that is no command."""
    close = nearest(name, _typed_names(setup))
    return f"There is no command /{name}." + (f" Did you mean /{close}?" if close else " /help lists them.")


def help_text(host: CommandHost) -> str:
    """Return the list of typed commands and of help topics."""
    rows = [(command.usage, command.help) for command in enabled(host.setup) if command.names]
    lines = table_text(rows)
    if host.setup.help_topics:
        lines += f"\n\nTopics: {', '.join(f'/help {topic}' for topic in host.setup.help_topics)}"
    return f"{lines}\n\n? or F1 shows the keys, Ctrl+P the palette."


def keys_text(setup: AppSetup) -> str:
    """Return the list of keys, the ones a person has rebound included."""
    rows = list(PROMPT_KEYS)
    for command in enabled(setup):
        keys = keys_of(command, setup)
        if keys:
            rows.append((key_names(keys), command.help))
    return table_text(rows)


def keys_of(command: Command, setup: AppSetup) -> tuple[str, ...]:
    """Return the keys of a command after the person's own bindings."""
    own = setup.keys.get(command.id)
    return command.keys if own is None else tuple(key.strip() for key in own.split(",") if key.strip())


def key_names(keys: Sequence[str]) -> str:
    """Return keys as they are printed on keyboards: `ctrl+o` is `Ctrl+O`."""
    return ", ".join("+".join(_KEY_NAMES.get(part, part.capitalize()) for part in key.split("+")) for key in keys)


def table_text(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of two columns as lines."""
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{left:<{width}}  {right}" for left, right in rows)


def _typed_names(setup: AppSetup) -> list[str]:
    return [name for command in enabled(setup) for name in command.names]


_TYPED = re.compile(r"/([A-Za-z][\w-]*)?(?: (.*))?")
_KEY_NAMES = {"pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?", "escape": "Esc"}
