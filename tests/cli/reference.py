"""The page of flags, made of the table: `python -m tests.cli.reference` writes it anew."""

from __future__ import annotations

from pathlib import Path

from qcode.cli.flags import SECTIONS, Flag
from qcode.config.schema import KEYS

PAGE = Path(__file__).parents[2] / "docs" / "flags.md"

_HEAD = """\
# Flags

Made from the table of flags (`python -m tests.cli.reference`). `qcode --help` has the same in short, with the
subcommands and the exit codes; `source <(qcode --completion bash)` completes both in your shell.

A flag stands above your [configuration](configuration.md) for one run; the last column names the key it sets.
"""


def page() -> str:
    """Return the page as it should be now."""
    keys = {key.meta.flag: key.name for key in KEYS if key.meta.flag}
    parts = [_HEAD]
    for title, flags in SECTIONS.items():
        rows = "".join(_row(flag, keys) for flag in flags)
        parts.append(f"\n## {title}\n\n| flag | what it does | key |\n|---|---|---|\n{rows}")
    return "".join(parts)


def _row(flag: Flag, keys: dict[str, str]) -> str:
    key = next((f"`{keys[name]}`" for name in flag.names if name in keys), "")
    mark = "; pipe mode only" if flag.is_for_pipe else ""
    return f"| {_cell(f'`{flag.typed}`')} | {_cell(flag.meaning)}{mark} | {key} |\n"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
