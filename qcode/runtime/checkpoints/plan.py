"""Works out what going back, or forth, would do to files. Reads them and changes nothing.

A file is put back without a question only where it is exactly what qcode left: same content, and every change in
between was qcode's own and told exactly.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.runtime.checkpoints.blobs import LARGEST, digest_of
from qcode.runtime.store.line import Change, FileMove, FileState


@dataclass(frozen=True, slots=True)
class FileStep:
    """A file to be put back to `target` (None: deleted) from `current`, what it is now.

    `doubt` says why a person must be asked; `refusal` why it cannot be done at all. `changes` are the positions of the
    changes it takes back.
    """

    path: str
    current: FileState | None
    target: FileState | None
    doubt: str = ""
    refusal: str = ""
    changes: tuple[int, ...] = ()


class Odd(Exception):  # noqa: N818  # a state of the world, not an error of ours
    """There is something at a path that is no plain file inside the folders, or that cannot be read. Says why."""


def look(path: str) -> FileState | None:
    """Return what is at `path`, None where nothing is; raise `Odd` for what cannot be handled."""
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode):
            raise Odd("is no plain file any more")
        if info.st_size > LARGEST:
            raise Odd("is too large to be kept first")
        data = Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Odd(f"cannot be read ({error.strerror})") from None
    if os.path.realpath(path) != path:
        raise Odd("is reached through a link now")
    if info.st_nlink > 1:
        raise Odd("has several hard links")
    return FileState(digest_of(data), len(data), stat.S_IMODE(info.st_mode))


def steps_back(changes: Sequence[tuple[int, Change]]) -> list[FileStep]:
    """Return what taking these changes back means, file by file in the order they were first changed."""
    by_path: dict[str, list[tuple[int, Change]]] = {}
    for at, change in changes:
        by_path.setdefault(change.path, []).append((at, change))
    steps = (_step_back(path, found) for path, found in by_path.items())
    return [step for step in steps if step is not None]


def steps_again(files: Iterable[FileMove]) -> list[FileStep]:
    """Return what taking a move back means for its files."""
    steps = (_step(one.path, (one.target,), one.source, "", ()) for one in files)
    return [step for step in steps if step is not None]


def steps_to_finish(files: Iterable[FileMove]) -> list[FileStep]:
    """Return what is left to do of a move that was broken off."""
    steps = (_step(one.path, (one.source,), one.target, "", ()) for one in files)
    return [step for step in steps if step is not None]


def _step_back(path: str, changes: Sequence[tuple[int, Change]]) -> FileStep | None:
    first, last = changes[0][1], changes[-1][1]
    doubt = ""
    for (_, earlier), (_, later) in pairwise(changes):
        if not _is_same(earlier.after, later.before):
            doubt = "was also changed by somebody else in between"
    if not doubt and any(change.by == "command" for _, change in changes):
        doubt = "changed while a command ran, which may have been somebody else"
    # A change that was told and then did not happen, because qcode was killed in between, leaves what was before it.
    expected = (last.after, last.before) if last.by == "tool" else (last.after,)
    return _step(path, expected, first.before, doubt, tuple(at for at, _ in changes))


def _step(
    path: str, expected: Sequence[FileState | None], target: FileState | None, doubt: str, changes: tuple[int, ...]
) -> FileStep | None:
    """Return what it takes to get `path` to `target`; without a question only while it is one of `expected`."""
    try:
        current = look(path)
    except Odd as odd:
        return FileStep(path, None, target, refusal=str(odd), changes=changes)
    if _is_same(current, target):
        return FileStep(path, current, current, changes=changes) if changes else None
    if target is not None and not target.is_kept:
        return FileStep(path, current, target, refusal="was not kept, so it cannot be put back", changes=changes)
    if not any(_is_same(current, one) for one in expected):
        doubt = "was deleted since" if current is None else "was changed since"
    return FileStep(path, current, target, doubt, changes=changes)


def _is_same(left: FileState | None, right: FileState | None) -> bool:
    return left is right if left is None or right is None else left.digest == right.digest
