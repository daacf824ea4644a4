"""Approvals of tool servers in one file of the state folder: projects' servers, and tools as they were.

A server is pinned with the content of the files it starts (`identity`), a tool as its server described it when it was
first offered. A difference waits until the user has seen it. A file that cannot be read, or that others could have
written, approves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from qcode.agent.mcp.identity import NOT_FOUND, UNPINNABLE
from qcode.agent.mcp.spec import ServerSpec, digest
from qcode.agent.mcp.tools import Offered
from qcode.agent.trust import Change as FileChange
from qcode.agent.trust import Piece, changes_between, read_pieces, stored_pieces
from qcode.config import state_file
from qcode.text.clean import visible, visible_rows
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

FILE_NAME = "tool_servers.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool as it was: the hash of what its server said, and how that was offered, for a person to compare."""

    hash: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A tool that is not as it was approved; `before` is None where it is new."""

    tool: str
    before: Pin | None
    now: Pin

    def shown(self) -> str:
        """Return the difference as rows in which nothing is invisible."""
        from difflib import unified_diff  # takes a while to load, and is seldom needed

        name, lines = visible(self.tool), self.now.text.split("\n")
        if self.before is None:
            return "\n".join([f"new tool {name}", *(f"  {visible_rows(line)}" for line in lines)])
        rows = list(unified_diff(self.before.text.split("\n"), lines, lineterm="", n=2))[2:]
        if not rows:
            return f"changed tool {name}\n  (in a part that is not shown to a model)"
        return "\n".join([f"changed tool {name}", *map(visible_rows, rows)])


class Pins:
    """Reads the file for each question, so that what another qcode wrote counts."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FILE_NAME

    def is_approved(self, spec: ServerSpec, files: Mapping[str, Piece] | None = None) -> bool:
        """Return whether exactly this server may run: as it is written, and with what is in the files it starts.

        None: the files are not looked at. A server of the user's own configuration may run as it is written; of its
        files only those count that were there when it first ran, so that nobody changes them unseen.
        """
        if spec.is_from_project and self._entry(spec.key).get("approved") != spec.fingerprint:
            return False
        if files is None:
            return True
        known = self.files(spec)
        if known is None:
            return not spec.is_from_project or not files
        return not changes_between(known, files) and all(piece.hash != UNPINNABLE for piece in files.values())

    def was_approved(self, spec: ServerSpec) -> bool:
        """Return whether a server of this name was approved, be it another one."""
        return "approved" in self._entry(spec.key)

    def approve(self, spec: ServerSpec, files: Mapping[str, Piece] | None = None) -> None:
        """Let exactly this server run from now on, with these files. Raise `OSError` where that cannot be kept."""
        self._change(spec.key, {"approved": spec.fingerprint, "files": stored_pieces(files or {})})

    def files(self, spec: ServerSpec) -> dict[str, Piece] | None:
        """Return the files that were approved with exactly this server, None if none were ever looked at."""
        entry = self._entry(spec.key)
        return read_pieces(entry.get("files")) if entry.get("approved") == spec.fingerprint else None

    def changed_files(self, spec: ServerSpec, files: Mapping[str, Piece]) -> tuple[FileChange, ...]:
        """Return what is not as it was approved; nothing if there is nothing to compare with."""
        known = self.files(spec)
        return () if known is None else changes_between(known, files)

    def tools(self, spec: ServerSpec) -> dict[str, Pin] | None:
        """Return the pinned tools by the name a model calls; None where none were ever offered."""
        return _pins(self._entry(spec.key).get("tools"))

    def pin(self, spec: ServerSpec, pins: Mapping[str, Pin]) -> None:
        """Take these tools for approved, and nothing for waiting."""
        self._change(spec.key, {"tools": _rows(pins), "pending": None})

    def wait(self, spec: ServerSpec, changes: Sequence[Change]) -> None:
        """Note what waits for the person, for `qcode mcp approve` to show and accept exactly that."""
        self._change(spec.key, {"pending": _rows({change.tool: change.now for change in changes})})

    def pending(self, spec: ServerSpec) -> tuple[Change, ...]:
        entry = self._entry(spec.key)
        before, now = _pins(entry.get("tools")) or {}, _pins(entry.get("pending")) or {}
        return tuple(Change(name, before.get(name), pin) for name, pin in now.items())

    def accept(self, spec: ServerSpec, changes: Sequence[Change]) -> None:
        """Pin what changed as it is now."""
        known = self.tools(spec) or {}
        self.pin(spec, {**known, **{change.tool: change.now for change in changes}})

    def _entry(self, key: str) -> JsonObject:
        found = self._servers().get(key)
        return found if isinstance(found, dict) else {}

    def _servers(self) -> JsonObject:
        stored = state_file.load_json(self.path)
        servers = stored.get("servers") if stored.get("version") == _VERSION else None
        return servers if isinstance(servers, dict) else {}

    def _change(self, key: str, values: Mapping[str, Json]) -> None:
        servers = self._servers()
        entry = {**self._entry(key), **values}
        servers[key] = {name: value for name, value in entry.items() if value is not None}
        state_file.save_json(self.path, {"version": _VERSION, "servers": servers})


def detail_of(spec: ServerSpec, pins: Pins, files: Mapping[str, Piece]) -> str:
    """Return all that an approval is for: the server as it is written, the files it starts, and what changed in them.

    In the user's own configuration an argument may be a key; a project's file holds none of theirs.
    """
    rows = [
        spec.detail() if spec.is_from_project else f"file:     {visible(spec.origin)}\nwhat:     {visible(spec.what)}"
    ]
    changes = pins.changed_files(spec, files)
    rows += [f"starts:   {visible(name)}{_state(piece)}" for name, piece in sorted(files.items())]
    return "\n".join([*rows, *(f"\n{change.shown()}" for change in changes)])


def _state(piece: Piece) -> str:
    if piece.hash == UNPINNABLE:
        return " (too large to compare: it is asked about at each start)"
    return " (not found)" if piece.hash == NOT_FOUND else ""


def pin_of(tool: Offered) -> Pin:
    """Return how a tool is remembered."""
    import json

    shown = json.dumps(tool.spec.parameters, indent=1, sort_keys=True, ensure_ascii=False)
    return Pin(tool.hash, f"{tool.spec.description}\n{shown}")


def changes_of(known: Mapping[str, Pin], tools: Sequence[Offered]) -> tuple[Change, ...]:
    """Return what is not as it was pinned."""
    found = ((tool.spec.name, pin_of(tool)) for tool in tools if not tool.problem)
    return tuple(
        Change(name, known.get(name), now) for name, now in found if name not in known or known[name].hash != now.hash
    )


def key_of(
    spec: ServerSpec, what: str, changes: Sequence[Change] = (), files: Mapping[str, Piece] | None = None
) -> str:
    """Return the key of a question: another one as soon as anything of it differs."""
    tools = [[change.tool, change.now.hash] for change in changes]
    started = sorted((name, piece.hash) for name, piece in (files or {}).items())
    return digest([what, spec.key, spec.fingerprint, tools, started])


def _pins(value: Json) -> dict[str, Pin] | None:
    return dict(_read(value)) if isinstance(value, dict) else None


def _read(rows: JsonObject) -> Iterator[tuple[str, Pin]]:
    for name, row in rows.items():
        if isinstance(row, dict):
            mark, text = row.get("hash"), row.get("text")
            if isinstance(mark, str) and isinstance(text, str):
                yield name, Pin(mark, text)


def _rows(pins: Mapping[str, Pin]) -> JsonObject:
    return {name: {"hash": pin.hash, "text": pin.text} for name, pin in pins.items()}
