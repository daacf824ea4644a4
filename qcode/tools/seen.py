"""What the model has seen of each file, so that a change made meanwhile by somebody else can be told, and shown."""

from __future__ import annotations

import zlib
from difflib import unified_diff
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.tools import text
from qcode.tools.disk import Loaded, Snapshot
from qcode.tools.refusal import Refused

_LARGEST_KEPT = 512 * 1024
_KEPT_IN_ALL = 16 * 1024 * 1024
_SHOWN_DIFF = 40


@dataclass(frozen=True, slots=True)
class _Sight:
    snapshot: Snapshot
    packed: bytes | None


class Seen:
    """Files as the model last saw or wrote them. The text of the latest ones is kept, to show what changed."""

    def __init__(self) -> None:
        self._sights: dict[Path, _Sight] = {}
        self._kept = 0

    def knows(self, path: Path) -> bool:
        return path in self._sights

    def put(self, path: Path, snapshot: Snapshot, data: bytes) -> None:
        self.forget(path)
        packed = zlib.compress(data, 1) if len(data) <= _LARGEST_KEPT else None
        self._sights[path] = _Sight(snapshot, packed)
        self._kept += len(packed or b"")
        for old, sight in tuple(self._sights.items()):
            if self._kept <= _KEPT_IN_ALL:
                break
            self._sights[old] = _Sight(sight.snapshot, None)
            self._kept -= len(sight.packed or b"")

    def forget(self, path: Path) -> None:
        sight = self._sights.pop(path, None)
        self._kept -= len(sight.packed or b"") if sight is not None else 0

    def changed(self, path: Path, now: Loaded, shown: str) -> str:
        """Return what is to be said where a known file is not as it was seen, empty where it is."""
        sight = self._sights[path]
        if sight.snapshot.digest == now.snapshot.digest:
            return ""
        sizes = f"{sight.snapshot.size:,} bytes when it was read, {now.snapshot.size:,} now"
        return (
            f"{shown} was changed since it was read ({sizes}): read it again, then change it. "
            f"Nothing was changed{_difference(sight.packed, now.data, shown)}"
        )


def _difference(packed: bytes | None, now: bytes, shown: str) -> str:
    if packed is None or len(now) > _LARGEST_KEPT:
        return ""
    try:
        before, after = text.decode(zlib.decompress(packed), shown), text.decode(now, shown)
    except Refused:
        return ""
    lines = list(unified_diff(before.text.split("\n"), after.text.split("\n"), "as read", "now", n=1, lineterm=""))
    if not lines:
        return ". Only line endings or the encoding differ"
    more = f"\n[{len(lines) - _SHOWN_DIFF} more lines]" if len(lines) > _SHOWN_DIFF else ""
    return ". What changed:\n" + "\n".join(line[:300] for line in lines[:_SHOWN_DIFF]) + more
