"""Detection of the files that a command changed, by comparing the work tree before and after it.

Ignored files are skipped; symbolic links and modes are compared too. The comparison is limited in files, bytes and
time. A larger tree is not compared, and one notice reports it. The contents of small files are kept in memory,
so that changes to them can be undone.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from qcode.agent.checkpoints.blobs import digest_of
from qcode.agent.sessions.history import LINK_PREFIX, FileState
from qcode.tools.files import walk
from qcode.values import dataclass

MAX_FILES = 20_000
MAX_SCAN_S = 1.5
MAX_CONTENT_BYTES = 512 * 1024
"""A larger content of a file is not kept in memory."""
MAX_TOTAL_BYTES = 16 * 1024 * 1024
"""The size limit for all contents in memory."""


class _Stamp(NamedTuple):
    """The facts of a file that show a change without reading the content."""

    modified_ns: int
    size: int
    inode: int
    mode: int
    """The type and the permission bits."""

    def has_same_content(self, other: _Stamp) -> bool:
        """Return whether the stamps differ at most in the mode."""
        return self[:3] == other[:3]


@dataclass(frozen=True, slots=True)
class ObservedFile:
    """A file at one point in time."""

    stamp: _Stamp
    content: bytes | None
    """The content, or the target of a link; None if the content is too large for memory."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A changed file."""

    path: Path
    before: FileState | None
    content: bytes | None
    """The old content, None if unknown."""
    after: FileState | None


class FolderWatch:
    """The comparison of one folder: call `scan` before a command and `differences` after it, each in a thread."""

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._observed: dict[str, ObservedFile] | None = None
        self._is_too_large = False
        self._warnings: list[str] = []

    def scan(self) -> None:
        """Record the state of every file."""
        self._observed = None if self._is_too_large else self._read_all(self._observed or {})

    def differences(self) -> tuple[Difference, ...]:
        """Return the changes since `scan`; empty if the tree is too large to compare."""
        before = self._observed
        if before is None:
            return ()
        after = self._read_all(before)
        self._observed = after
        if after is None:
            return ()
        return tuple(self._differences_between(before, after))

    def take_warnings(self) -> tuple[str, ...]:
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    def _read_all(self, previous: dict[str, ObservedFile]) -> dict[str, ObservedFile] | None:
        """Return the files by relative path; None, with a warning, if the tree exceeds a limit."""
        end = self._clock() + MAX_SCAN_S
        is_over_limit = False

        def is_stopped() -> bool:
            nonlocal is_over_limit
            is_over_limit = is_over_limit or self._clock() > end
            return is_over_limit

        observed: dict[str, ObservedFile] = {}
        bytes_left = MAX_TOTAL_BYTES
        try:
            for entry in walk.files(self._root, self._root, is_stopped):
                file = _observe(entry.entry, previous.get(entry.relative), bytes_left)
                if file is None:
                    continue
                observed[entry.relative] = file
                bytes_left -= len(file.content or b"")
                if len(observed) > MAX_FILES:
                    is_over_limit = True
        except walk.WalkTooLarge:
            is_over_limit = True
        if not is_over_limit:
            return observed
        self._is_too_large = True
        self._warnings.append(
            "this folder is too large to track which files commands change; /undo does not revert them"
        )
        return None

    def _differences_between(
        self, before: dict[str, ObservedFile], after: dict[str, ObservedFile]
    ) -> Iterator[Difference]:
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if old is not None and new is not None and _is_unchanged(old, new):
                continue
            path = self._root / name
            after_state = _current_state(path, new)
            if new is not None and after_state is None:  # the file can no longer be read
                continue
            before_state = None if old is None else _observed_state(old)
            if old is not None and new is not None and after_state and old.stamp.has_same_content(new.stamp):
                # Only the mode changed, which can be undone even without the content.
                before_state = replace(after_state, mode=stat.S_IMODE(old.stamp.mode))
            yield Difference(path, before_state, None if old is None else old.content, after_state)


def _observe(entry: os.DirEntry[str], previous: ObservedFile | None, bytes_left: int) -> ObservedFile | None:
    """Return the state of a regular file or link, None for others. An unchanged file reuses the previous content."""
    try:
        info = entry.stat(follow_symlinks=False)
        is_link = stat.S_ISLNK(info.st_mode)
        if not stat.S_ISREG(info.st_mode) and not is_link:
            return None
        stamp = _Stamp(info.st_mtime_ns, info.st_size, info.st_ino, info.st_mode)
        if previous is not None and previous.stamp.has_same_content(stamp):
            return previous if previous.stamp == stamp else ObservedFile(stamp, previous.content)
        if is_link:
            return ObservedFile(stamp, os.fsencode(os.readlink(entry.path)))  # noqa: PTH115  # `Path` drops a final slash
        is_small = info.st_size <= min(MAX_CONTENT_BYTES, bytes_left)
    except OSError:
        return None
    try:
        return ObservedFile(stamp, Path(entry.path).read_bytes() if is_small else None)
    except OSError:
        return ObservedFile(stamp, None)  # the file exists, but cannot be read


def _is_unchanged(old: ObservedFile, new: ObservedFile) -> bool:
    """Return whether at most the timestamp of a file changed."""
    if old.stamp == new.stamp:
        return True
    return old.content is not None and old.content == new.content and old.stamp.mode == new.stamp.mode


def _current_state(path: Path, observed: ObservedFile | None) -> FileState | None:
    """Return the state of an observed file, reading it if necessary; None if the file is missing or unreadable."""
    if observed is None:
        return None
    if observed.content is not None:
        return _file_state(observed.content, observed.stamp.mode)
    if observed.stamp.size > MAX_TOTAL_BYTES:
        return _unread_state(observed)
    try:
        return _file_state(path.read_bytes(), observed.stamp.mode)
    except OSError:
        return None


def _observed_state(observed: ObservedFile) -> FileState:
    if observed.content is None:
        return _unread_state(observed)
    return _file_state(observed.content, observed.stamp.mode)


def _file_state(content: bytes, mode: int) -> FileState:
    prefix = LINK_PREFIX if stat.S_ISLNK(mode) else ""
    return FileState(prefix + digest_of(content), len(content), stat.S_IMODE(mode), is_kept=False)


def _unread_state(observed: ObservedFile) -> FileState:
    """Return a state for a content that was not read; its digest matches nothing."""
    digest = f"unread-{observed.stamp.modified_ns}-{observed.stamp.size}"
    return FileState(digest, observed.stamp.size, stat.S_IMODE(observed.stamp.mode), is_kept=False)
