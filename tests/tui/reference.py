"""The page of commands and keys, made of the table: `python -m tests.tui.reference` writes it anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from qcode.tui.commands.command import key_names
from qcode.tui.commands.help import PROMPT_KEYS
from qcode.tui.commands.table import COMMANDS
from qcode.tui.prompt.editing import EDITING_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "keys.md"

_HEAD = """\
# Commands and keys

Made from the table of commands (`python -m tests.tui.reference`). `/help` and `?` show the same in the app, with your
own keys and [your own commands](guide/commands.md).

## Commands
"""
_KEYS = """
## Keys

A key belongs to the command with this id. Give it another in your [configuration](configuration.md), several with
commas between them, or `"none"`:

```toml
[ui.keys]
fold = "ctrl+y, f6"
redraw = "none"
```

A key that you give to one command is taken from the one that had it. An id that does not exist, a key that is none, and
one key for two commands are errors that name file and line.
"""
_PROMPT = """
## In the prompt
"""
_EDITING = """
## Editing

As in a shell, but for Ctrl+P (the palette), Ctrl+F (search) and Ctrl+T (todos). While a command runs that can
go on in the background, Ctrl+B lets it. These keys are fixed.
"""


def page() -> str:
    """Return the page as it should be now."""
    commands = [
        (_code(f"/{name}" for name in command.names), f"`{command.argument}`" if command.argument else "", command.help)
        for command in COMMANDS
        if command.names
    ]
    keys = [(key_names(command.keys), f"`{command.id}`", command.help) for command in COMMANDS if command.keys]
    editing = [(key_names(names.split(",")), meaning) for names, _, meaning in EDITING_KEYS]
    return "".join(
        (
            _HEAD,
            _table(("command", "argument", "what it does"), commands),
            _KEYS,
            _table(("key", "id", "what it does"), keys),
            _PROMPT,
            _table(("key", "what it does"), PROMPT_KEYS),
            _EDITING,
            _table(("key", "what it does"), editing),
        )
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n" + "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
