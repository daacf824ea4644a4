"""The commands of the prompt: its editor, its history, what is pasted into it."""

from __future__ import annotations

from qcode.tui.commands.command import Command, CommandHost


def _is_writing(host: CommandHost) -> bool:
    return host.is_writing


PROMPT: tuple[Command, ...] = (
    Command(
        "editor",
        "Write in your editor",
        "Write the prompt in your own editor (VISUAL, EDITOR).",
        lambda host, _: host.open_editor(),
        ("editor",),
        keys=("ctrl+g",),
        when=_is_writing,
    ),
    Command(
        "history-search",
        "Search the history",
        "Search earlier prompts; again: an older one.",
        lambda host, _: host.search_history(),
        keys=("ctrl+r",),
        when=_is_writing,
    ),
    Command(
        "paste",
        "Paste from the clipboard",
        "Paste the image or the text of the clipboard.",
        lambda host, _: host.paste(),
        keys=("ctrl+v", "alt+v"),
        when=_is_writing,
    ),
)
