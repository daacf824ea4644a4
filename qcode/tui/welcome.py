"""The first lines of an empty transcript: what this is, what was chosen, where, and three tips. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.text.clean import one_line

if TYPE_CHECKING:
    from qcode.tui.setup import AppSetup

TIPS = (
    "Enter sends, Ctrl+J makes a new line.",
    "/ lists the commands, ? the keys.",
    "Esc interrupts and keeps what was shown.",
)


def welcome_lines(setup: AppSetup, model: str) -> tuple[str, ...]:
    """Return the lines; `model` is shown where the setup has no note of its own."""
    place = one_line(setup.cwd) + (f" ({one_line(setup.git_branch)})" if setup.git_branch else "")
    note = [one_line(line) for line in setup.model_note] or [one_line(model)]
    lines = [
        f"qcode {setup.version}",
        f"Model   {note[0]}",
        *(f"        {line}" for line in note[1:]),
        f"Folder  {place}",
    ]
    if setup.instructions:
        lines.append(f"Reads   {', '.join(map(one_line, setup.instructions))}")
    return (*lines, "", *(f"· {tip}" for tip in TIPS))
