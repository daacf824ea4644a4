"""The commands that stop something: interrupting and quitting."""

from __future__ import annotations

from qcode.tui.commands.command import Command, is_prompt_empty

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
