"""Private temporary folders, and the removal of those that killed processes left.

Each folder is locked with `flock` while its process lives; the system releases the lock when the process dies. So a
folder that can be locked has no owner any more. The folder itself is locked: it contains no file of qcode's own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

PREFIX = "qcode-"
MIN_AGE_S = 60.0
"""A younger folder is left alone, because its process may not have locked it yet."""


class Scratch:
    """A private temporary folder. It is removed by `close`, or when the program exits."""

    def __init__(self) -> None:
        self.path = Path(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))  # mkdtemp makes it 0700
        self._remove = weakref.finalize(self, _release, self.path, _locked(self.path))

    def close(self) -> None:
        """Remove the folder and its contents; safe to call twice."""
        self._remove()


def sweep(now: float | None = None) -> int:
    """Remove the folders of processes that were killed; return how many. `now` is in seconds since 1970."""
    now = time.time() if now is None else now
    count = 0
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                count += _swept(entry, now)
    return count


def _swept(entry: os.DirEntry[str], now: float) -> bool:
    try:
        info = entry.stat(follow_symlinks=False)
        is_ours = stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077
        if not is_ours or now - info.st_ctime < MIN_AGE_S:
            return False
        descriptor = _locked(Path(entry.path))
    except OSError:
        return False
    if descriptor is None:
        return False
    try:
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(descriptor)
    return True


def _locked(folder: Path) -> int | None:
    """Lock the folder and return its descriptor, None if another process holds the lock or there are no locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _release(folder: Path, descriptor: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)
