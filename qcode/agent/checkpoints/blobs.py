"""File contents, each stored under its hash. A content is complete or missing, never partial."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from qcode.agent.sessions.file import make_private
from qcode.config import state_file
from qcode.tools.workspace import Scratch

MAX_FILE_BYTES = 16 * 1024 * 1024
"""A larger content is not stored."""

MAX_TOTAL_BYTES = 512 * 1024 * 1024
"""The size limit for all contents of a session."""


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a content, which is also the name of its file."""
    return hashlib.sha256(data).hexdigest()


class Blobs:
    """A content-addressed store of file contents.

    Without a `folder`, the store creates a private folder on demand, which `close` removes.
    """

    def __init__(
        self, folder: Path | None, *, max_file_bytes: int = MAX_FILE_BYTES, max_total_bytes: int = MAX_TOTAL_BYTES
    ) -> None:
        self.folder = folder
        self._scratch: Scratch | None = None
        self._max_file_bytes = max_file_bytes
        self._bytes_left: int | None = None
        self.max_total_bytes = max_total_bytes

    def store(self, data: bytes, *, is_optional: bool = False) -> bool:
        """Store a content; return True once it is on disk, False if the content is too large or cannot be written.

        `is_optional`: undo does not need this content, so it may use only half of the remaining space.
        """
        if len(data) > self._max_file_bytes:
            return False
        try:
            folder = self._ensure_folder()
            path = folder / digest_of(data)
            if path.exists() and path.stat().st_size == len(data):
                return True
            if self._bytes_left is None:
                used_bytes = sum(stored.stat().st_size for stored in folder.iterdir())
                self._bytes_left = self.max_total_bytes - used_bytes
            limit = self._bytes_left // 2 if is_optional else self._bytes_left
            if len(data) > limit:
                return False
            state_file.replace(path, data, is_synced=True)
            self._bytes_left -= len(data)
        except OSError:
            return False
        return True

    def get(self, digest: str) -> bytes | None:
        """Return a content, or None if it is missing or damaged."""
        if self.folder is None or os.sep in digest:  # the digest comes from a session file, which may be damaged
            return None
        try:
            data = (self.folder / digest).read_bytes()
        except OSError:
            return None
        return data if digest_of(data) == digest else None

    def close(self) -> None:
        """Remove the private folder, if there is one. Idempotent."""
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = self.folder = None

    def _ensure_folder(self) -> Path:
        if self.folder is None:
            self._scratch = Scratch()
            self.folder = self._scratch.path
        else:
            make_private(self.folder)
        return self.folder
