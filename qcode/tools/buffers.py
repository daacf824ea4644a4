"""Unsaved texts of an editor. For a file with unsaved changes, the model reads and edits the text in the editor.

A buffer is used only if it is newer than the file. An editor that has not noticed a change of the file has a stale
text. It is an earlier content of the file, or the text that the editor had when the file changed.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from qcode.protocol.tools import Refused
from qcode.tools import text_file
from qcode.tools.disk import LoadedFile, Snapshot

MAX_BUFFER_BYTES = 4 * 1024 * 1024
"""The maximum size of a file and of its text in the editor. Above it, qcode uses the file."""
_MAX_FILES = 1_000
"""The maximum number of files with a recorded state."""
_MAX_TEXTS = 32
"""The maximum number of recorded stale texts of one file."""


class BufferSource(Protocol):
    """The connection to an editor. Both methods block, and never raise."""

    def text_of(self, path: Path) -> str | None:
        """Return the text of the file in the editor, None if the editor does not answer."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Replace the text of the file in the editor and save it; return whether that worked."""
        ...


class _BufferState:
    """The last state of a file on disk, and the stale texts of its buffer."""

    def __init__(self) -> None:
        self.file_digest = b""
        """The digest of the file when qcode last read or wrote it, empty before that."""
        self.stale: deque[bytes] = deque(maxlen=_MAX_TEXTS)
        """The digests of texts that are not newer than the file."""


class Buffers:
    """The buffers of one editor. Thread-safe, as long as calls for the same file do not overlap."""

    def __init__(self, source: BufferSource) -> None:
        self._source = source
        self._states: OrderedDict[Path, _BufferState] = OrderedDict()
        self._lock = threading.Lock()
        """Held for each change of `_states`."""

    def with_unsaved_text(self, path: Path, label: str, loaded: LoadedFile) -> LoadedFile:
        """Return the file with the unsaved text of the editor.

        Return `loaded` if there are no unsaved changes, the editor does not answer, or the file cannot be decoded. Also
        return it if the unsaved text is stale, empty or too large, or cannot be encoded like the file.
        """
        if len(loaded.data) > MAX_BUFFER_BYTES:
            return loaded
        try:
            document = text_file.decode(loaded.data, label)
        except Refused:
            return loaded
        text = self._source.text_of(path)
        state = self._state_of(path)
        text_digest = _digest(document.text)
        has_disk_changed = state.file_digest not in (b"", loaded.snapshot.digest)
        state.file_digest = loaded.snapshot.digest
        if text_digest not in state.stale:
            state.stale.append(text_digest)
        if text is None or len(text.encode("utf-8", "surrogatepass")) > MAX_BUFFER_BYTES:
            return loaded
        if not text and loaded.data:
            return loaded  # may be an editor's answer for a file that it has not loaded
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        editor_digest = _digest(text)
        # Another program has changed the file since the last call, so the editor's text is older than the file. It
        # stays stale until the user edits it.
        if has_disk_changed and editor_digest not in state.stale:
            state.stale.append(editor_digest)
        if editor_digest in state.stale:
            return loaded
        try:
            data = text_file.encode(text_file.with_text(document, text))
        except UnicodeEncodeError:
            return loaded
        digest = hashlib.sha256(data).digest()
        snapshot = replace(loaded.snapshot, size=len(data), digest=digest)
        return replace(loaded, data=data, snapshot=snapshot, is_unsaved=True)

    def note_write(self, path: Path, snapshot: Snapshot, data: bytes) -> None:
        """Record that qcode has written `data` to the file. Until the editor reloads the file, its text is stale."""
        state = self._state_of(path)
        state.file_digest = snapshot.digest
        try:
            state.stale.append(_digest(text_file.decode(data, path.name).text))
        except Refused:
            return

    def write(self, path: Path, label: str, data: bytes) -> None:
        """Ask the editor to replace an unsaved text and save the file. Raise `Refused` if it does not."""
        if not self._source.write(path, text_file.decode(data, label).text):
            raise Refused(
                f"{label} has unsaved changes in the editor, and the editor rejected the new text. Nothing was changed"
            )

    def _state_of(self, path: Path) -> _BufferState:
        """Return the state of a file; drop the least recently used state if there are too many."""
        with self._lock:
            state = self._states.setdefault(path, _BufferState())
            self._states.move_to_end(path)
            while len(self._states) > _MAX_FILES:
                self._states.popitem(last=False)
            return state


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
