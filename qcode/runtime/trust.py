"""Which folders a person trusts and what was in them then, kept across runs in one file of the state folder.

A folder is known by its real path together with its device and inode: what is put in its place later is not trusted,
and trust in a folder says nothing about a repository inside it. What a folder brings (`trust_pieces`) is pinned: when
it is not as it was, the folder is not trusted until the person has seen the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Literal

from qcode.config.paths import PROJECT_FOLDER
from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.values import dataclass
from qcode.runtime.own_file import read_own, write_own
from qcode.runtime.trust_pieces import Piece, Unpinnable, pieces_of

FILE_NAME = "trust.json"

_VERSION = 2
_UNPINNED_VERSION = 1
_IDENTITY = frozenset({"path", "device", "inode"})
_LONGEST = 200
"""Lines of one difference that are shown."""


@dataclass(frozen=True, slots=True)
class Change:
    """A piece that is not as it was pinned: `before` is None where it is new, `now` where it is gone."""

    name: str
    before: Piece | None
    now: Piece | None

    def shown(self) -> str:
        """Return the difference for a person, in words and as lines."""
        from difflib import unified_diff  # takes a while to load, and is seldom needed

        if self.now is None:
            return f"{self.name} is gone"
        lines = self.now.text.splitlines()
        if self.before is None:
            return "\n".join([f"{self.name} is new", *_bounded([f"+{line}" for line in lines])])
        rows = list(unified_diff(self.before.text.splitlines(), lines, lineterm="", n=2))[2:]
        if not rows:
            return f"{self.name} has changed, in a way that is not shown here: it is too long, or no text"
        return "\n".join([f"{self.name} has changed", *_bounded(rows)])


@dataclass(frozen=True, slots=True)
class Standing:
    """How it is with a folder now.

    `unknown`: nobody trusted it; `trusted`; `changed`: it brings something else than what was trusted, see `changes`;
    `unpinned`: it was trusted before qcode kept what a folder brings; `unpinnable`: it brings more than can be kept,
    `problem` says what. `pieces` are what it brings now: the value to remember where the person says yes to it.
    """

    kind: Literal["unknown", "trusted", "changed", "unpinned", "unpinnable"]
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    problem: str = ""

    @property
    def is_trusted(self) -> bool:
        return self.kind == "trusted"

    def differences(self) -> str:
        """Return all changes for a person."""
        return "\n\n".join(change.shown() for change in self.changes)


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The trusted folders. What cannot be read, or could have been written by others, trusts nothing."""

    state_dir: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    def look(self, root: Path) -> Standing:
        """Return how it is with this folder: exactly this one, and as it is now."""
        row = self._row(root)
        try:
            pieces = pieces_of(root, self.state_dir)
        except Unpinnable as problem:
            return Standing("unknown" if row is None else "unpinnable", problem=str(problem))
        if row is None:
            return Standing("unknown", pieces)
        pinned = _pieces(row.get("pieces"))
        if pinned is None:
            # Where there is nothing to keep there is nothing to ask about either.
            return Standing("unpinned" if pieces else "trusted", pieces)
        names = sorted({*pinned, *pieces})
        changes = tuple(
            Change(name, pinned.get(name), pieces.get(name))
            for name in names
            if _hash(pinned.get(name)) != _hash(pieces.get(name))
        )
        return Standing("changed" if changes else "trusted", pieces, changes)

    def is_trusted(self, root: Path) -> bool:
        """Return whether the person trusted exactly this folder, and it still is what they trusted."""
        return self.look(root).is_trusted

    def remember(self, root: Path, pieces: Mapping[str, Piece] | None = None) -> None:
        """Trust this folder from now on with these pieces, by default as it is now.

        Raise `OSError` where that cannot be kept, and `Unpinnable` where it brings too much.
        """
        identity = _identity(root)
        if identity is None:
            raise FileNotFoundError(2, os.strerror(2), str(root))
        kept = pieces_of(root, self.state_dir) if pieces is None else pieces
        self._write([*self._others(identity), {**identity, "pieces": _rows(kept)}])

    def forget(self, root: Path) -> bool:
        """Take trust back, whatever is at this path by now; return whether there was any. Raise `OSError`."""
        path = str(root.resolve())
        rows = self._folders()
        left = [row for row in rows if row["path"] != path]
        if len(left) < len(rows):
            self._write(left)
        return len(left) < len(rows)

    def folders(self) -> list[Path]:
        """Return the paths that are kept, whether they are still the same folders or not."""
        return [Path(str(row["path"])) for row in self._folders()]

    @contextmanager
    def accepting(self, root: Path, targets: frozenset[str]) -> Iterator[None]:
        """Pin what becomes of these files inside: a change that the person approved after seeing all of it.

        Only for a folder that is trusted with what it brings, and only files that were until then as they were pinned.
        """
        names = {name for name in (_inside(root, target) for target in targets) if name}
        before = self.look(root) if names else Standing("unknown")
        yield
        if before.kind not in ("trusted", "changed"):
            return
        eligible = names - {change.name for change in before.changes}
        row = self._row(root)
        pinned = None if row is None else _pieces(row.get("pieces"))
        try:
            now = pieces_of(root, self.state_dir)
            kept = {name: piece for name, piece in (pinned or {}).items() if name not in eligible}
            kept |= {name: piece for name, piece in now.items() if name in eligible}
            if kept != pinned and eligible:
                self.remember(root, kept)
        except (OSError, Unpinnable):
            return  # it is asked about at the next start

    def _row(self, root: Path) -> JsonObject | None:
        identity = _identity(root)
        rows = (row for row in self._folders() if identity is not None)
        return next((row for row in rows if all(row[name] == value for name, value in (identity or {}).items())), None)

    def _others(self, identity: JsonObject) -> list[JsonObject]:
        return [row for row in self._folders() if row["path"] != identity["path"]]

    def _write(self, rows: list[JsonObject]) -> None:
        write_own(self.path, {"version": _VERSION, "folders": list(rows)})

    def _folders(self) -> list[JsonObject]:
        stored = parse_object(read_own(self.path)) or {}
        rows = stored.get("folders") if stored.get("version") in (_VERSION, _UNPINNED_VERSION) else None
        return [
            row
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict) and set(row) - {"pieces"} == _IDENTITY
        ]


def _identity(root: Path) -> JsonObject | None:
    try:
        real = root.resolve(strict=True)
        state = real.stat()
    except (OSError, RuntimeError):
        return None
    return {"path": str(real), "device": state.st_dev, "inode": state.st_ino}


def _inside(root: Path, target: str) -> str:
    """Return the name of a file that may be a piece, empty for any other."""
    path, folder = Path(target), root.resolve() / PROJECT_FOLDER
    return path.relative_to(root.resolve()).as_posix() if path.is_relative_to(folder) else ""


def _hash(piece: Piece | None) -> str:
    return "" if piece is None else piece.hash


def _pieces(value: Json) -> dict[str, Piece] | None:
    """Return what was pinned; None where nothing was, or not in a form that is known."""
    if not isinstance(value, dict):
        return None
    found: dict[str, Piece] = {}
    for name, row in value.items():
        mark, text = (row.get("hash"), row.get("text")) if isinstance(row, dict) else (None, None)
        if not isinstance(mark, str) or not isinstance(text, str):
            return None
        found[name] = Piece(mark, text)
    return found


def _rows(pieces: Mapping[str, Piece]) -> JsonObject:
    return {name: {"hash": piece.hash, "text": piece.text} for name, piece in pieces.items()}


def _bounded(rows: list[str]) -> list[str]:
    left = len(rows) - _LONGEST
    return rows if left <= 0 else [*rows[:_LONGEST], f"[{left:,} more lines]"]
