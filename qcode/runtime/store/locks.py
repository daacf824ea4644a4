"""One writer per session: an advisory lock on a file beside it, which the system drops when its process dies."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from qcode.runtime.store.errors import SessionBusy

_UNSUPPORTED = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


class Lock:
    """A lock that is held until `release`. The file is there only while the lock is held, or after a crash."""

    def __init__(self, path: Path) -> None:
        """Take the lock; raise `SessionBusy` if it is taken, `OSError` if its file cannot be made."""
        self._path = path
        self._handle = self._take()

    def release(self) -> None:
        """Give the lock back; safe to call twice."""
        if self._handle is None:
            return
        # Removed while still held: whoever opened the old file sees, once it has the lock, that it is not the one
        # the path names, and begins again.
        self._path.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = None

    def _take(self) -> int | None:
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(handle):
                    os.ftruncate(handle, 0)
                    os.write(handle, str(os.getpid()).encode())
                    return handle
            except BlockingIOError:
                holder = os.read(handle, 20).decode("ascii", "replace").strip()
                os.close(handle)
                raise SessionBusy(_busy(self._path.stem, holder)) from None
            except OSError as error:
                if error.errno in _UNSUPPORTED:
                    return handle
                os.close(handle)
                raise
            os.close(handle)

    def _is_current(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self._path.stat())
        except FileNotFoundError:
            return False


def _busy(session_id: str, holder: str) -> str:
    who = f"another qcode (process {holder})" if holder.isdigit() else "another qcode"
    return f"session {session_id} is open in {who}; close it there, or go on in a copy with --fork-session"
