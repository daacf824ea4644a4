"""Lets a changed setting hold in the app that is open, for the few that can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qcode.protocol.conversation import ApprovalMode
from qcode.tui import terminal
from qcode.tui.commands.command import MODES
from qcode.tui.configuring import Setting
from qcode.tui.setup import AppSetup
from qcode.tui.transcript import Transcript


def apply_setting(
    setting: Setting,
    setup: AppSetup,
    transcript: Transcript,
    *,
    show_theme: Callable[[str], None],
    use_mode: Callable[[ApprovalMode], None],
    write: Callable[[str], None],
) -> tuple[AppSetup, bool]:
    """Let a setting hold from now on; return the setup with it, and whether it holds or only the next start reads it.

    `write` sends a sequence to the terminal.
    """
    value = setting.value
    match setting.name:
        case "ui.theme" if isinstance(value, str):
            show_theme(value)
        case "ui.bell":
            setup = replace(setup, has_bell=value is True)
        case "ui.title":
            if setup.has_title is not value:
                write(terminal.SAVE_TITLE if value else terminal.RESTORE_TITLE)
            setup = replace(setup, has_title=value is True)
        case "ui.show_thinking" if value == "folded" or value == "expanded" or value == "hidden":
            transcript.show_thinking(value)
        case "permissions.mode" if any(value == mode for mode in MODES):
            use_mode(next(mode for mode in MODES if mode == value))
        case _:
            return setup, False
    return setup, True
