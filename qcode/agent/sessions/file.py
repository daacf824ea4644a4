"""The append-only file of one session, for its single writer. A write error never stops the session.

If the file cannot be written (a full disk, a read-only home), records stay in memory and the user gets one warning.
They are written in order as soon as that is possible again. The writer holds an advisory lock on a second file, which
the system releases when the process dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from qcode.config.state_file import create_private_folder
from qcode.protocol.errors import SessionBusy
from qcode.text.json import JsonObject, parse_object
from qcode.values import dataclass

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class SessionFileContent:
    """The content of a session file."""

    lines: tuple[bytes, ...]
    end: int
    """The number of bytes in complete lines."""
    incomplete_line: bytes
    """The incomplete last line, empty if there is none."""
    lacks_newline: bool
    """The last record is complete, but has no newline."""

    def parsed(self) -> Iterator[JsonObject | None]:
        """Yield each line as a record, None for an invalid line; lazily, because a session may have 10,000 lines."""
        return (_record(line) for line in self.lines if line)

    @property
    def records(self) -> Iterator[JsonObject]:
        """The valid records, parsed one after the other."""
        return (record for record in self.parsed() if record is not None)


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A session file that was opened to continue it."""

    content: SessionFileContent
    notice: str
    """A notice for the user about the repair of its end, empty if the end was complete."""


def read_records(data: bytes) -> SessionFileContent:
    """Split the content of a file into lines. A truncated record is never valid JSON, so it cannot be misread."""
    *lines, tail = data.split(b"\n")
    lacks_newline = bool(tail) and _record(tail) is not None
    if lacks_newline:
        lines.append(tail)
    incomplete_line = b"" if lacks_newline else tail
    return SessionFileContent(tuple(lines), len(data) - len(incomplete_line), incomplete_line, lacks_newline)


def _record(line: bytes) -> JsonObject | None:
    try:
        return parse_object(line.decode())
    except UnicodeDecodeError:
        return None


class RecordFile:
    """Appends lines to a file. If `path` is None, nothing is written.

    Only `open_existing` raises `OSError`; any other error becomes a warning, at most one until the next success.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: Lock | None = None
        self._handle: int | None = None
        self._end = 0  # the size of the complete records, in bytes
        self._is_new = False  # `reserve` chose the name
        self._ends_inside_record = False
        self._is_dirty = False  # written records are not synced yet
        self._is_failing = False  # the last write failed
        self._is_sync_failing = False  # the last sync failed
        self._pending: deque[bytes] = deque()
        self._warnings: list[str] = []

    @property
    def is_saved(self) -> bool:
        """Whether every record so far is in the file."""
        return self._path is not None and not self._pending

    def reserve(self) -> bool:
        """Lock the name of a new file; return False if it is in use. The file is created with its first record."""
        assert self._path is not None
        try:
            self._acquire_lock()
        except SessionBusy:
            return False
        except OSError as error:  # a read-only home: the session continues in memory
            self._fail(error)
            return True
        if self._path.exists():
            self._release()
            return False
        self._is_new = True
        return True

    def open_existing(self) -> OpenedFile:
        """Lock and read the file, and repair its end for appending.

        Raise `SessionBusy` if another process writes to it, `OSError` if it cannot be read. If it cannot be written,
        later records stay in memory.
        """
        assert self._path is not None
        try:
            self._acquire_lock()
        except OSError as error:
            self._fail(error)
        contents = read_records(self._path.read_bytes())
        try:
            return OpenedFile(contents, self._repair(contents))
        except OSError as error:
            self._ends_inside_record = bool(contents.incomplete_line) or contents.lacks_newline
            self._fail(error)
            skipped = "The last record of this session is incomplete and was skipped."
            return OpenedFile(contents, skipped if contents.incomplete_line else "")

    def buffer(self, line: bytes) -> None:
        """Buffer a line; it is written together with the next appended line."""
        if self._path is not None:
            self._pending.append(line)

    def append(self, line: bytes) -> None:
        """Append a line with one write, or keep it in memory while the file cannot be written."""
        self.buffer(line)
        self._flush()

    def sync(self) -> None:
        """Sync all written records to disk."""
        if self._is_failing:
            self._flush()
        if self._handle is None or not self._is_dirty:
            return
        try:
            os.fsync(self._handle)
            self._is_dirty = self._is_sync_failing = False
        except OSError as error:
            self._fail_sync(error)

    def take_warnings(self) -> tuple[str, ...]:
        """Return the new warnings for the user, and forget them."""
        warnings = tuple(self._warnings)
        self._warnings.clear()
        return warnings

    def close(self) -> None:
        """Sync and close the file, and release its lock. Buffered lines are dropped, and so is a new, empty file."""
        self.sync()
        if self._handle is not None:
            self._remove_empty_file()
            try:
                os.close(self._handle)
            except OSError as error:  # a network file system may report a failed write only here
                self._fail_sync(error)
            self._handle = None
        self._release()

    def _flush(self) -> None:
        """Write the pending lines in order; an error becomes a warning, and the unwritten lines stay pending."""
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
            self._report_recovery()

    def _open(self) -> None:
        assert self._path is not None
        if self._handle is not None:
            return
        self._acquire_lock()
        self._handle = os.open(self._path, _FLAGS, 0o600)
        self._end = os.fstat(self._handle).st_size
        os.fchmod(self._handle, 0o600)
        sync_folder(self._path.parent)

    def _acquire_lock(self) -> None:
        assert self._path is not None
        if self._lock is None:
            make_private(self._path.parent)
            self._lock = Lock(self._path.with_suffix(".lock"))

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _write(self, line: bytes) -> None:
        """Write a line to the open file; raise `OSError`. After an error, no part of the line counts as written."""
        assert self._handle is not None
        data = b"\n" + line if self._ends_inside_record else line
        count = 0
        try:
            while count < len(data):
                count += os.write(self._handle, data[count:])
        except OSError:
            if count:
                self._remove_partial_record()
            raise
        self._end += count
        self._ends_inside_record = False
        self._is_dirty = True

    def _remove_partial_record(self) -> None:
        """Remove a partially written record; if that fails, ensure that the next record starts on a new line."""
        assert self._handle is not None
        try:
            os.ftruncate(self._handle, self._end)
        except OSError:
            self._end = os.fstat(self._handle).st_size
            self._ends_inside_record = True

    def _remove_empty_file(self) -> None:
        """Remove a new file without a record: on a full disk it exists, and would be resumed as the latest session."""
        assert self._path is not None and self._handle is not None
        with suppress(OSError):
            if self._is_new and os.fstat(self._handle).st_size == 0:
                self._path.unlink()

    def _repair(self, contents: SessionFileContent) -> str:
        """Make the file end with a complete line, and return a notice, empty if no text was moved. Raise `OSError`."""
        assert self._path is not None
        if not contents.incomplete_line and not contents.lacks_newline:
            return ""
        self._open()
        assert self._handle is not None
        if contents.lacks_newline:
            os.write(self._handle, b"\n")
            self._end += 1
            return ""
        corrupt_path = self._path.with_suffix(".corrupt")
        handle = os.open(corrupt_path, _FLAGS, 0o600)
        try:
            _write_all(handle, contents.incomplete_line + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)
        os.ftruncate(self._handle, contents.end)
        os.fsync(self._handle)
        self._end = contents.end
        return f"The last record of this session was incomplete and was moved to {corrupt_path}."

    def _fail(self, error: OSError | SessionBusy) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._warnings.append(f"This session cannot be saved ({_reason(error)}); it continues in memory.")

    def _fail_sync(self, error: OSError) -> None:
        # The warning about a failed write already says more: part of the session is not in the file.
        if not self._is_sync_failing and not self._is_failing:
            self._is_sync_failing = True
            self._warnings.append(f"This session is written, but may not survive a power failure ({_reason(error)}).")

    def _report_recovery(self) -> None:
        if self._is_failing:
            self._is_failing = False
            self._warnings.append("This session is saved again, including everything that was missing.")


def _reason(error: OSError | SessionBusy) -> str:
    text = error.strerror if isinstance(error, OSError) else ""
    return text or str(error)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def make_private(folder: Path) -> None:
    """Create a folder, and its missing parents, for the owner only; existing parents are not changed."""
    create_private_folder(folder)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def sync_folder(folder: Path) -> None:
    """Sync the directory `folder`, so that a new file survives a power failure, if the file system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_LOCKS_UNSUPPORTED = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_MAX_PROBES = 50
_PROBE_WAIT_S = 0.002
"""The pause before another attempt, while `lock_holder` of another process probes the lock."""


class Lock:
    """A lock (`flock`) that is held until `release`. The file exists only while the lock is held, or after a crash."""

    def __init__(self, path: Path) -> None:
        """Acquire the lock. Raise `SessionBusy` if it is held, `OSError` if its file cannot be created."""
        self._path = path
        self._handle = self._acquire()

    def release(self) -> None:
        """Release the lock. Idempotent. A file that cannot be removed remains, as after a crash."""
        if self._handle is None:
            return
        # The file is removed before the lock is released. A process that has the file open then gets the lock, detects
        # that the path is another file, and tries again.
        with suppress(OSError):
            self._path.unlink()
        with suppress(OSError):
            os.close(self._handle)
        self._handle = None

    def _acquire(self) -> int | None:
        """Return the descriptor of the locked file; not locked if the file system has no locks. Raise `SessionBusy`."""
        probes_left = _MAX_PROBES
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(handle):
                    with suppress(OSError):  # on a full disk the lock still works, but names no holder
                        os.ftruncate(handle, 0)
                        os.write(handle, str(os.getpid()).encode())
                    return handle
            except BlockingIOError:
                if probes_left and _is_shared(handle):
                    os.close(handle)
                    probes_left -= 1
                    time.sleep(_PROBE_WAIT_S)
                    continue
                holder = _read_holder(handle)
                os.close(handle)
                raise SessionBusy(_busy_text(self._path.stem, holder), self._path.stem, holder) from None
            except OSError as error:
                if error.errno in _LOCKS_UNSUPPORTED:
                    return handle
                os.close(handle)
                raise
            os.close(handle)

    def _is_current(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self._path.stat())
        except FileNotFoundError:
            return False


def _is_shared(handle: int) -> bool:
    """Return whether a lock is only shared, by a process in `lock_holder`. Closing `handle` ends the check."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_holder(path: Path) -> int | None:
    """Return the id of the process that holds the lock at `path`, 0 if it is unknown, None if the lock is free.

    A free lock is shared for a moment, to find out that no process holds it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(handle)
    except OSError:
        return None
    finally:
        os.close(handle)
    return None  # the file was left by a crash


def _read_holder(handle: int) -> int:
    holder = os.read(handle, 20).strip()
    return int(holder) if holder.isdigit() else 0


def open_elsewhere_text(holder: int) -> str:
    """Return the phrase that a session is open in the process `holder`, which is 0 if unknown."""
    return f"open in another window (process {holder})" if holder else "open in another window"


def _busy_text(session_id: str, holder: int) -> str:
    advice = "close it there, or use --fork-session to continue in a copy"
    return f"session {session_id} is {open_elsewhere_text(holder)}; {advice}"
