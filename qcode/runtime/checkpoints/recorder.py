"""Tells the session of every file that is about to be changed, and keeps what it was.

The content goes to the disk first, then the record, then the change happens: whenever qcode dies, what was there before
can be put back. Where a content cannot be kept the change still happens, and one notice says that it stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qcode.runtime.checkpoints.blobs import Blobs, digest_of
from qcode.runtime.store.line import Change, FileState
from qcode.runtime.store.session import Session
from qcode.tools.disk import Loaded

_NEW_FILE_MODE = 0o644


class Recorder:
    """The `ChangeRecorder` of one session."""

    def __init__(self, session: Session, blobs: Blobs) -> None:
        self._session = session
        self._blobs = blobs
        self._warnings: list[str] = []
        self._has_warned = False

    @contextmanager
    def changing(self, path: Path, old: Loaded | None, data: bytes | None) -> Iterator[None]:
        before = None if old is None else self._kept(old.data, old.mode, path)
        mode = _NEW_FILE_MODE if old is None else old.mode
        after = None if data is None else FileState(digest_of(data), len(data), mode, is_kept=False)
        at = self._session.record_change(Change(self._session.line.latest, str(path), before, after))
        try:
            yield
        except BaseException:
            self._session.void(at)
            raise

    def saw(self, path: Path, before: FileState | None, content: bytes | None, after: FileState | None) -> None:
        """Record a change that a comparison found; `content` is what the file was, where that is known."""
        if before is not None and content is not None and self._blobs.put(content):
            before = FileState(before.digest, before.size, before.mode)
        self._session.record_change(Change(self._session.line.latest, str(path), before, after, "command"))

    def take_warnings(self) -> tuple[str, ...]:
        """Return lines for a person that were not returned before."""
        found, self._warnings = tuple(self._warnings), []
        return found

    def _kept(self, data: bytes, mode: int, path: Path) -> FileState:
        is_kept = self._blobs.put(data)
        if not is_kept and not self._has_warned:
            self._has_warned = True
            self._warnings.append(f"the old content of {path} could not be kept, so /undo cannot put it back")
        return FileState(digest_of(data), len(data), mode, is_kept)
