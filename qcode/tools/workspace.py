"""The folders a session works in: the only way tools reach the disk.

It turns a path of the model into a place inside, remembers what the model has read, and writes. Whether a person must
be asked is decided elsewhere; what this refuses is refused for everybody.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from qcode.tools import disk
from qcode.tools.disk import Loaded, Snapshot
from qcode.tools.refusal import Refused, explain

Access: TypeAlias = Literal["read", "write"]

_KERNEL = ("/proc", "/sys", "/dev")


class PathVerdict(Protocol):
    """What a judge of paths answers: `allow`, `ask` or `deny`, and why."""

    @property
    def verdict(self) -> str: ...

    @property
    def reason(self) -> str: ...


PathJudge: TypeAlias = Callable[[str, Access], PathVerdict]


class ChangeRecorder(Protocol):
    """Is told of every change of a file through a workspace, around the moment it happens."""

    def changing(self, path: Path, old: Loaded | None, data: bytes | None) -> AbstractContextManager[None]:
        """Wrap one change of the file at `path`: from `old` (None: no file) to `data` (None: no file any more).

        Entered before anything happens, with nothing left half-told when it is; left by an exception where nothing
        happened. It must not raise for reasons of its own. Called from any thread, one change at a time.
        """
        ...


class _Unrecorded:
    def changing(self, path: Path, old: Loaded | None, data: bytes | None) -> AbstractContextManager[None]:
        return nullcontext()


UNRECORDED: ChangeRecorder = _Unrecorded()


@dataclass(frozen=True, slots=True)
class Place:
    """A path inside, with all links followed: `parts` below `base`. `shown` is how people and the model see it."""

    base: Path
    parts: tuple[str, ...]
    shown: str

    @property
    def path(self) -> Path:
        return self.base.joinpath(*self.parts)


class Workspace:
    """The root, further folders that were added, and a private folder for output that is too long to show.

    `judge` is a second opinion on every path: what it denies is refused, and a search leaves out what it does not
    allow. `recorder` is told of every change. `scratch` may be read and not written by the model; without one, a
    private folder is made on demand and
    removed by `close`.
    """

    def __init__(
        self,
        root: Path,
        added_dirs: Iterable[Path] = (),
        *,
        judge: PathJudge | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.added = tuple(Path(os.path.realpath(folder)) for folder in added_dirs)
        self.recorder = UNRECORDED
        self._judge = judge
        self._scratch = Path(os.path.realpath(scratch)) if scratch is not None else None
        self._owns_scratch = False
        self._seen: dict[Path, Snapshot] = {}
        self._lock = threading.Lock()

    @property
    def scratch(self) -> Path:
        """A folder that only this user can read."""
        with self._lock:
            if self._scratch is None:
                self._scratch = Path(os.path.realpath(tempfile.mkdtemp(prefix="qcode-")))
                self._owns_scratch = True
            return self._scratch

    def close(self) -> None:
        """Remove the private folder, if this workspace made it; safe to call twice."""
        with self._lock:
            folder, self._scratch = self._scratch, None
        if self._owns_scratch and folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def resolve(self, path: str, access: Access = "read") -> Place:
        """Return the place that `path` leads to, links followed; raise `Refused` where it may not be used."""
        shown = _visible(path)
        if not path.strip():
            raise Refused("the path is empty")
        if "\0" in path:
            raise Refused(f"{shown} holds a NUL character")
        expanded = f"{Path.home()}{path[1:]}" if path == "~" or path.startswith("~/") else path
        real = Path(os.path.realpath(self.root / expanded))
        place = self._place(real)
        if place is None or (access == "write" and place.base == self._scratch):
            raise Refused(f"{shown} is outside the workspace; only files below {self._bases()} can be used")
        if access == "write":
            _refuse_write(place, shown, path)
        verdict = self._judge(path, access) if self._judge is not None else None
        if verdict is not None and verdict.verdict == "deny":
            raise Refused(f"{shown} cannot be used: {verdict.reason}")
        return place

    def is_open(self, path: Path) -> bool:
        """Return whether a search may show what is in `path` without anybody having named it."""
        return self._judge is None or self._judge(str(path), "read").verdict == "allow"

    def load(self, place: Place) -> Loaded:
        """Return the file at `place`; raise `Refused` where there is no file that can be read."""
        if not place.parts:
            raise Refused(f"{place.shown} is a folder")
        try:
            with disk.open_folder(place.base, place.parts[:-1]) as folder:
                return disk.load(folder, place.parts[-1], place.shown)
        except OSError as error:
            raise Refused(explain(error, place.shown)) from None

    def exists(self, place: Place) -> bool:
        """Return whether anything is at `place`."""
        return os.path.lexists(place.path)

    def is_folder(self, path: Path) -> bool:
        """Return whether there is a folder at `path`; a path that cannot be looked at is none."""
        return os.path.isdir(path)  # noqa: PTH112  # unlike pathlib's, it never raises

    def remember(self, place: Place, snapshot: Snapshot) -> None:
        """Note that the model has seen the file at `place` as it was in `snapshot`."""
        self._seen[place.path] = snapshot

    def check_fresh(self, place: Place, now: Loaded) -> None:
        """Raise `Refused` unless the model has seen the file as it is `now`."""
        seen = self._seen.get(place.path)
        if seen is None:
            raise Refused(f"{place.shown} has not been read yet: read it first, then change it. Nothing was changed")
        if seen.digest != now.snapshot.digest:
            sizes = f"{seen.size:,} bytes when it was read, {now.snapshot.size:,} now"
            raise Refused(
                f"{place.shown} was changed since it was read ({sizes}): read it again, then change it. "
                "Nothing was changed"
            )

    def check_writable(self, place: Place, old: Loaded) -> None:
        """Raise `Refused` where the file cannot be replaced without losing something."""
        if old.links > 1:
            raise Refused(
                f"{place.shown} has {old.links} hard links, so a change would split it from its other names; "
                "change it in the shell if that is wanted. Nothing was changed"
            )
        is_there = self.exists(place)
        if not old.mode & 0o222 or (is_there and not os.access(place.path, os.W_OK)):
            raise Refused(f"{place.shown} is read-only (mode {old.mode:04o}). Nothing was changed")

    def write(self, place: Place, data: bytes, old: Loaded | None) -> None:
        """Put `data` in place of `old` (None: there is no file yet; missing folders are made) and remember it."""
        if old is not None:
            self.check_writable(place, old)
        try:
            with (
                self._lock,
                disk.open_folder(place.base, place.parts[:-1], creates=old is None) as folder,
                self.recorder.changing(place.path, old, data),
            ):
                snapshot = disk.replace_file(folder, place.parts[-1], data, old, place.shown)
        except OSError as error:
            raise Refused(f"{explain(error, place.shown)}. Nothing was changed") from None
        self.remember(place, snapshot)

    def show(self, path: Path) -> str:
        """Return how a path inside is shown: relative to the root, or absolute in an added folder."""
        return _visible(path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path))

    def contains(self, path: Path) -> bool:
        """Return whether `path`, with links followed, is in the root or an added folder."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(base) for base in (self.root, *self.added))

    def _place(self, real: Path) -> Place | None:
        if any(real == Path(name) or real.is_relative_to(name) for name in _KERNEL):
            raise Refused(f"{_visible(str(real))} is a device or kernel interface, not a file")
        bases = [*self.added, *((self._scratch,) if self._scratch is not None else ())]
        for base in (self.root, *sorted(bases, key=lambda base: -len(base.parts))):
            if real.is_relative_to(base):
                return Place(base, real.relative_to(base).parts, self.show(real))
        return None

    def _bases(self) -> str:
        return " or ".join(str(folder) for folder in (self.root, *self.added))


def _refuse_write(place: Place, shown: str, path: str) -> None:
    if not place.parts or path.endswith("/"):
        raise Refused(f"{shown} names a folder; name a file")
    if any(part.casefold().rstrip(". ") == ".git" for part in place.parts):
        raise Refused(f"{shown} is inside .git, where only git writes")


def _visible(path: str) -> str:
    """Return a name on one line: what cannot be printed is escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path)
