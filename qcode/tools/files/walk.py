"""A walk through a folder as git sees it: without ignored files and `.git`, without following links, sorted by name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from qcode.values import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_ENTRIES = 300_000  # of one walk
_MAX_RULES_BYTES = 1024 * 1024
_WILDCARDS = re.compile(r"\*+")
_MAX_WILDCARDS_IN_NAME, _MAX_WILDCARDS_IN_RULE = 3, 5

_Rules: TypeAlias = "tuple[tuple[str, GitIgnoreSpec], ...]"
"""Ignore rules, each with the folder that they are relative to, from the root down. The last match decides."""


class WalkTooLarge(Exception):  # noqa: N818  # ends the walk, not an error
    """The walk was stopped at `MAX_ENTRIES` entries."""


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """A file or link."""

    relative: str
    """Its path from the start of the walk, with `/` as separator."""
    entry: os.DirEntry[str]


def files(root: Path, start: Path, is_stopped: Callable[[], bool]) -> Iterator[WalkEntry]:
    """Yield the files below `start`, which is `root` or below it. Raise `WalkTooLarge` beyond `MAX_ENTRIES`.

    The rules come from the `.gitignore` files from `root` down, and from `.git/info/exclude`. If `start` itself is
    ignored, the rules above it do not apply, because it was named explicitly.
    """
    prefix = "/".join(start.relative_to(root).parts)
    remaining_entries = MAX_ENTRIES
    pending = [_Level.of(root, prefix, _rules_above(root, start))]
    while pending:
        level = pending[-1]
        entry = next(level.entries, None)
        if entry is None:
            pending.pop()
            continue
        remaining_entries -= 1
        if remaining_entries < 0:
            raise WalkTooLarge
        if is_stopped():
            return
        path = f"{level.folder}/{entry.name}" if level.folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or _is_ignored(level.rules, path, is_folder=is_folder):
            continue
        if is_folder:
            pending.append(_Level.of(root, path, level.rules))
        else:
            yield WalkEntry(_relative_to(prefix, path), entry)


@dataclass(frozen=True, slots=True)
class _Level:
    """A folder on the path of the walk: its remaining entries and its rules."""

    folder: str
    rules: _Rules
    entries: Iterator[os.DirEntry[str]]

    @staticmethod
    def of(root: Path, folder: str, rules: _Rules) -> _Level:
        """Return the level of a folder. `rules` are those of the folders above it."""
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            entries = []
        return _Level(folder, _with_rules_of(rules, root, folder), iter(entries))


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of a folder."""

    name: str
    detail: str
    """The text to show after the name: the size of a file, or the target of a link after an arrow."""
    is_ignored: bool
    subfolder: Folder | None
    """The entry as a folder, None for a file or link."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a listing. Only `entries` and `count` read the disk."""

    root: Path
    relative: str
    """Its path from `root`, with `/` as separator; empty for `root` itself."""
    rules: _Rules
    """The ignore rules of the folders above it."""

    def entries(self) -> list[FolderEntry]:
        """Return the entries except `.git`, folders first, sorted by name."""
        level = _Level.of(self.root, self.relative, self.rules)
        entries = [self._entry(entry, level.rules) for entry in level.entries if entry.name != ".git"]
        return sorted(entries, key=lambda entry: (entry.subfolder is None, entry.name))

    def count(self) -> int:
        """Return the number of all entries, also of `.git` and ignored ones; 0 if the folder cannot be read."""
        try:
            with os.scandir(self.root / self.relative) as entries:
                return sum(1 for _ in entries)
        except OSError:
            return 0

    def _entry(self, entry: os.DirEntry[str], rules: _Rules) -> FolderEntry:
        relative = f"{self.relative}/{entry.name}" if self.relative else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        is_ignored = _is_ignored(rules, relative, is_folder=is_folder)
        if is_folder:
            return FolderEntry(entry.name, "", is_ignored, Folder(self.root, relative, rules))
        try:
            if entry.is_symlink():
                detail = f" -> {os.readlink(entry.path)}"  # noqa: PTH115  # the text of the link, unchanged
            else:
                detail = f"  {entry.stat(follow_symlinks=False).st_size:,}"
        except OSError:
            detail = ""
        return FolderEntry(entry.name, detail, is_ignored, None)


def listed_folder(root: Path, start: Path) -> Folder:
    """Return the folder `start` for a listing. `start` is `root` or below it, and may be ignored itself."""
    return Folder(root, "/".join(start.relative_to(root).parts), _rules_above(root, start))


def _rules_above(root: Path, start: Path) -> _Rules:
    """Return the ignore rules of `.git/info/exclude` and of the folders above `start`.

    If one of them ignores `start` or a folder above it, return no rules.
    """
    rules = _with_file((), "", root / ".git/info/exclude")
    parts = start.relative_to(root).parts
    for depth in range(len(parts)):
        rules = _with_rules_of(rules, root, "/".join(parts[:depth]))
        if _is_ignored(rules, "/".join(parts[: depth + 1]), is_folder=True):
            return ()
    return rules


def _with_rules_of(rules: _Rules, root: Path, folder: str) -> _Rules:
    return _with_file(rules, folder, root / folder / ".gitignore")


def _with_file(rules: _Rules, folder: str, path: Path) -> _Rules:
    """Return `rules` with those of the file at `path`, if it can be read; they are relative to `folder`."""
    from pathspec import GitIgnoreSpec  # loaded with the first walk, not at start

    try:
        if not path.is_file() or path.stat().st_size > _MAX_RULES_BYTES:
            return rules
        lines = [line for line in path.read_text("utf-8", errors="replace").split("\n") if _is_fast_to_match(line)]
        return (*rules, (folder, GitIgnoreSpec.from_lines(lines)))
    except (OSError, ValueError):
        return rules


def _is_fast_to_match(line: str) -> bool:
    """Return whether a rule is matched fast against every name.

    With k wildcards, matching a name of length n takes up to n^k steps, so a long name could make the walk hang. A rule
    with too many wildcards is therefore dropped.
    """
    max_in_name = max(len(_WILDCARDS.findall(name)) for name in line.split("/"))
    return max_in_name <= _MAX_WILDCARDS_IN_NAME and len(_WILDCARDS.findall(line)) <= _MAX_WILDCARDS_IN_RULE


def _relative_to(folder: str, path: str) -> str:
    """Return `path`, which is below `folder`, relative to it; both are relative to the root, which is empty."""
    return path[len(folder) + 1 :] if folder else path


def _is_ignored(rules: _Rules, path: str, *, is_folder: bool) -> bool:
    for folder, spec in reversed(rules):
        relative = _relative_to(folder, path)
        verdict = spec.check_file(f"{relative}/" if is_folder else relative).include
        if verdict is not None:
            return verdict
    return False
