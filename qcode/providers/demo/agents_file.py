"""The demo model's AGENTS.md: made of the names in a folder and of one file it read. Pure.

It states only what it saw: commands where a manifest has them, the layout, and that a script wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from qcode.protocol.json import parse_object

_MANIFESTS = ("Makefile", "pyproject.toml", "package.json", "Cargo.toml", "go.mod")
_TARGET = re.compile(r"^([a-z][\w-]*):(?!=)", re.MULTILINE)
_COMMANDS = {
    "pyproject.toml": ("pip install -e .", "python -m pytest"),
    "Cargo.toml": ("cargo build", "cargo test", "cargo clippy"),
    "go.mod": ("go build ./...", "go test ./...", "go vet ./..."),
}
_ENTRY = re.compile(r"  (\S.*?)(?:  [\d,.]+\S*)?")
_HEADING = "## Layout"
_MOST = 20


def names_in(listing: str) -> list[str]:
    """Return what lies in the folder itself, by a result of the `ls` tool: folders end in `/`, files have a size."""
    rows = (_ENTRY.fullmatch(line) for line in listing.split("\n"))
    return [row[1] for row in rows if row]


def manifest_in(names: Sequence[str]) -> str:
    """Return the file that says how the project is built; empty where none is there."""
    return next((name for name in _MANIFESTS if name in names), "")


def agents_file(names: Sequence[str], manifest: str, text: str) -> str:
    """Return a first AGENTS.md; `text` is what `manifest` holds."""
    lines = ["# For coding assistants", ""]
    commands = list(_commands(manifest, text))
    if commands:
        lines += ["## Commands", "", f"From `{manifest}`:", "", *(f"- `{command}`" for command in commands), ""]
    lines += [_HEADING, "", *_layout(names), ""]
    lines += ["## Habits", "", "- Keep changes small, and run the tests before saying that something works.", ""]
    return "\n".join(lines)


def missing_part(current: str, names: Sequence[str]) -> str:
    """Return what an AGENTS.md that is there lacks; empty where it has everything a script can tell."""
    return "" if _HEADING in current else "\n".join([_HEADING, "", *_layout(names)])


def _layout(names: Sequence[str]) -> Iterator[str]:
    shown = [name for name in names if name not in ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md")]
    yield from (f"- `{name}`" for name in shown[:_MOST])
    if len(shown) > _MOST:
        yield f"- and {len(shown) - _MOST} more"
    if not shown:
        yield "- Nothing is here yet."


def _commands(manifest: str, text: str) -> Iterator[str]:
    if manifest == "Makefile":
        yield from (f"make {name}" for name in dict.fromkeys(_TARGET.findall(text)))
    elif manifest == "package.json":
        scripts = (parse_object(text) or {}).get("scripts")
        yield from (f"npm run {name}" for name in (scripts if isinstance(scripts, dict) else {}))
    else:
        yield from _COMMANDS.get(manifest, ())
