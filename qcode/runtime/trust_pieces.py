"""What of a folder qcode itself would use once it is trusted, as pieces that can be kept and compared. Runs nothing.

That is `.qcode/`: settings, commands and whatever else is kept there. Tool servers are left out, for each is approved
and pinned on its own, and so are instructions: they are obeyed only through calls that are judged one by one.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from qcode.config.paths import PROJECT_FOLDER
from qcode.protocol.values import dataclass

SETTINGS = f"{PROJECT_FOLDER}/config.toml"
LARGEST = 1024 * 1024
"""Bytes of a piece."""

MOST_PIECES = 1_000
_LONGEST_TEXT = 32 * 1024
_ALL_TEXTS = 256 * 1024
_DEEPEST = 16
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Piece:
    """A file as it was: the hash of all of it, and its text for a person to compare, empty where it is too long."""

    hash: str
    text: str


class Unpinnable(Exception):  # noqa: N818  # a state of the folder, not a failure
    """The folder brings more than can be kept. The text says what, in one line."""


def pieces_of(root: Path, own: Path) -> dict[str, Piece]:
    """Return the pieces of the project at `root` by their path in it; raise `Unpinnable`.

    A `.qcode` that holds `own`, the state of qcode, is the person's and brings nothing. Names that begin with a dot or
    end with `~` are left out, as nothing reads them.
    """
    folder = root / PROJECT_FOLDER
    if _real(own).is_relative_to(_real(folder)):
        return {}
    found: dict[str, Piece] = {}
    room = _ALL_TEXTS
    for path in _files(folder, _real(root)):
        name = path.relative_to(root).as_posix()
        if len(found) == MOST_PIECES:
            raise Unpinnable(f"{PROJECT_FOLDER} holds more than {MOST_PIECES:,} files")
        piece = _piece(name, path, root)
        if len(piece.text) > min(room, _LONGEST_TEXT):
            piece = Piece(piece.hash, "")
        room -= len(piece.text)
        found[name] = piece
    return found


def _files(folder: Path, root: Path) -> Iterator[Path]:
    """Yield what is no folder in and below `folder`, in order; links to folders are followed inside the project."""
    pending, seen = [(folder, 0)], {_real(folder)}
    while pending:
        current, depth = pending.pop()
        for entry in _entries(current):
            path = Path(entry.path)
            if entry.name.startswith(".") or entry.name.endswith("~"):
                continue
            if not _is_folder(entry):
                yield path
                continue
            real = _real(path)
            if real.is_relative_to(root) and real not in seen:
                if depth == _DEEPEST:
                    raise Unpinnable(f"{PROJECT_FOLDER} is more than {_DEEPEST} folders deep")
                seen.add(real)
                pending.append((path, depth + 1))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle, too long, or to a place that may not be looked into
        return False


def _real(path: Path) -> Path:
    """Return `path` with its links followed as far as they lead; unlike `Path.resolve` it takes links in a circle."""
    return Path(os.path.realpath(path))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _piece(name: str, path: Path, root: Path) -> Piece:
    data = _read(name, path)
    if data is None:
        return Piece("unreadable", "[cannot be read]")
    if name == SETTINGS:
        data = _settings(data)
    import hashlib  # loads OpenSSL, which a folder without pieces has no use for

    digest = hashlib.sha256(data).hexdigest()
    if not _real(path).is_relative_to(_real(root)):
        return Piece(digest, "[leads out of the project]")
    return Piece(digest, data.decode("utf-8", "replace"))


def _read(name: str, path: Path) -> bytes | None:
    try:
        handle = os.open(path, _OPEN)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        try:
            data = file.read(LARGEST + 1)
        except OSError:
            return None
    if len(data) > LARGEST:
        raise Unpinnable(f"{name} is larger than {LARGEST // 1024:,} KiB")
    return data


def _settings(data: bytes) -> bytes:
    """Return what settings say, in order and without comments and tool servers; as they are where they say nothing."""
    try:
        table = tomllib.loads(data.decode("utf-8"))
        table.pop("mcp_servers", None)
        lines = sorted(_lines(table))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return data
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _lines(table: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        name = f"{prefix}{key if key.replace('_', '').replace('-', '').isalnum() else json.dumps(key)}"
        if isinstance(value, dict):
            yield from _lines(value, f"{name}.")
        else:
            yield f"{name} = {json.dumps(value, default=str, ensure_ascii=False)}"
