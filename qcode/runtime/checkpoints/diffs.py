"""What a session changed in files, as diffs from before its first change to what is there now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qcode.protocol.rewinding import FileDiff
from qcode.runtime.checkpoints.blobs import Blobs
from qcode.runtime.checkpoints.plan import Odd, look
from qcode.runtime.store.line import FileState
from qcode.runtime.store.session import Session
from qcode.tools import diffs, text
from qcode.tools.refusal import Refused


def session_diffs(session: Session, blobs: Blobs, show: Callable[[Path], str]) -> tuple[FileDiff, ...]:
    """Return a diff for each file that was changed and not put back; changes of others since are part of it."""
    first: dict[str, FileState | None] = {}
    for _, change in session.line.live_changes(0):
        first.setdefault(change.path, change.before)
    found = (_diff(path, before, blobs, show(Path(path))) for path, before in first.items())
    return tuple(one for one in found if one is not None)


def _diff(path: str, before: FileState | None, blobs: Blobs, shown: str) -> FileDiff | None:
    try:
        now = look(path)
    except Odd as odd:
        return FileDiff(shown, "", str(odd))
    if (now is None) == (before is None) and (now is None or now.is_same(before)):
        return None
    old = None if before is None else blobs.get(before.digest)
    if before is not None and old is None:
        return FileDiff(shown, "", "changed; what it was before was not kept")
    try:
        new = Path(path).read_bytes() if now is not None else None
        left = text.decode(old, shown) if old is not None else None
        right = text.decode(new if new is not None else b"", shown)
    except (Refused, OSError):
        return FileDiff(shown, "", "changed; it is no text")
    diff = diffs.unified(shown, left, right)
    if now is None:
        return FileDiff(shown, diff, "deleted")
    return FileDiff(shown, diff, "" if diff else "a new empty file" if before is None else "only its form changed")
