"""The file of one session as its one writer sees it: appended to, never rewritten, never a reason to stop.

If it cannot be written (a full disk, a read-only home), records wait in memory, in order, with one warning, and go to
the file as soon as it takes them again. The writer holds an advisory lock on a file beside it, which the system drops
when the process dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections import deque
from contextlib import suppress
from pathlib import Path

from qcode.agent.sessions.records import Contents, read_records
from qcode.protocol.errors import SessionBusy

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class RecordFile:
    """Appends lines. `path` None keeps nothing and says nothing about it.

    No method raises `OSError` but `open_existing`, which reads.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: Lock | None = None
        self._handle: int | None = None
        self._end = 0
        self._is_torn = False
        self._is_dirty = False
        self._has_failed = False
        self._is_failing = False
        self._pending: deque[bytes] = deque()
        self._warnings: list[str] = []

    @property
    def is_saved(self) -> bool:
        """Whether every record so far is in the file."""
        return self._path is not None and not self._pending

    def reserve(self) -> bool:
        """Take the lock of a new file; False where the name is in use. The file appears with its first record."""
        assert self._path is not None
        try:
            self._take_lock()
        except SessionBusy:
            return False
        except OSError as error:
            self._fail(error)
            return True
        if self._path.exists():
            self._release()
            return False
        return True

    def open_existing(self) -> tuple[Contents, str]:
        """Take the lock, read what is there, and make the end fit for appending.

        Return what was read and a notice about the end, empty if it was whole. Raise `SessionBusy` if another process
        writes to it, `OSError` if it cannot be read. Where it cannot be written, later records stay in memory.
        """
        assert self._path is not None
        try:
            self._take_lock()
        except OSError as error:
            self._fail(error)
        contents = read_records(self._path.read_bytes())
        try:
            return contents, self._repair(contents)
        except OSError as error:
            self._is_torn = bool(contents.torn) or contents.is_unended
            self._fail(error)
            return contents, "the last record of this session is incomplete and was left out" if contents.torn else ""

    def hold(self, line: bytes) -> None:
        """Add a line that is written together with the next one."""
        if self._path is not None:
            self._pending.append(line)

    def append(self, line: bytes) -> None:
        """Add a line: one write to the file, or to memory while the file takes none."""
        self.hold(line)
        self._flush()

    def sync(self) -> None:
        """Wait until every record written so far is on the disk itself."""
        if self._is_failing:
            self._flush()
        if self._handle is None or not self._is_dirty:
            return
        try:
            os.fsync(self._handle)
            self._is_dirty = False
        except OSError as error:
            self._warn(error)

    def take_warnings(self) -> tuple[str, ...]:
        """Return what a person should know, each line once."""
        found, self._warnings = tuple(self._warnings), []
        return found

    def close(self) -> None:
        """Sync and let go of the file and its lock. Lines that only were held are dropped with it."""
        self.sync()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        self._release()

    def _flush(self) -> None:
        if self._path is None:
            return
        try:
            self._open()
            while self._pending:
                self._write(self._pending[0])
                self._pending.popleft()
        except (SessionBusy, OSError) as error:
            self._fail(error)
        else:
            self._recovered()

    def _open(self) -> None:
        assert self._path is not None
        if self._handle is not None:
            return
        self._take_lock()
        self._handle = os.open(self._path, _FLAGS, 0o600)
        self._end = os.fstat(self._handle).st_size
        os.fchmod(self._handle, 0o600)
        sync_folder(self._path.parent)

    def _take_lock(self) -> None:
        assert self._path is not None
        if self._lock is None:
            make_private(self._path.parent)
            self._lock = Lock(self._path.with_suffix(".lock"))

    def _release(self) -> None:
        if self._lock is not None:
            try:
                self._lock.release()
            except OSError as error:
                self._warn(error)
            self._lock = None

    def _write(self, line: bytes) -> None:
        assert self._handle is not None
        data = b"\n" + line if self._is_torn else line
        written = 0
        try:
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError:
            if written:
                self._take_back()
            raise
        self._end += written
        self._is_torn = False
        self._is_dirty = True

    def _take_back(self) -> None:
        """Remove the beginning of a record that did not fit; failing that, keep the next one from joining it."""
        assert self._handle is not None
        try:
            os.ftruncate(self._handle, self._end)
        except OSError:
            self._end = os.fstat(self._handle).st_size
            self._is_torn = True

    def _repair(self, contents: Contents) -> str:
        assert self._path is not None
        if not contents.torn and not contents.is_unended:
            return ""
        self._open()
        assert self._handle is not None
        if contents.is_unended:
            os.write(self._handle, b"\n")
            self._end += 1
            return ""
        aside = self._path.with_suffix(".corrupt")
        handle = os.open(aside, _FLAGS, 0o600)
        try:
            _write_all(handle, contents.torn + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)
        os.ftruncate(self._handle, contents.end)
        os.fsync(self._handle)
        self._end = contents.end
        return f"the last record of this session was incomplete; it was set aside in {aside}"

    def _fail(self, error: OSError | SessionBusy) -> None:
        self._is_failing = True
        self._warn(error)

    def _warn(self, error: OSError | SessionBusy) -> None:
        if not self._has_failed:
            self._has_failed = True
            why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            self._warnings.append(f"this session cannot be saved ({why}); it goes on in memory")

    def _recovered(self) -> None:
        if self._is_failing:
            self._is_failing = False
            self._warnings.append("this session is being saved again, with everything that was missing")


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def make_private(folder: Path) -> None:
    """Make a folder for its owner only, and the parents it lacks; parents that exist are left as they are."""
    if not folder.parent.exists():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def sync_folder(folder: Path) -> None:
    """Make a new name in `folder` last through a power cut, on file systems that can promise it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
