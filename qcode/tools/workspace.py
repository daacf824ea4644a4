"""The folders of a session and the files that the model has read. Tools access the disk only through this module.

A `Workspace` resolves a path from the model to a `WorkspacePath`, remembers the files that the model has read, and
writes files. The policy decides whether the user must approve; a refusal here is final. `SeenFiles` detects that
another program changed a file after the model saw it, and shows the difference. Read `disk` next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from qcode.protocol.tools import Refused
from qcode.tools import disk, text_file
from qcode.tools.disk import FileSlice, LoadedFile, Snapshot, explain
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.tools.buffers import Buffers

Access: TypeAlias = Literal["read", "write"]

_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
_GRANTED: ContextVar[frozenset[str] | None] = ContextVar("granted", default=None)
"""The paths that the user approved for the current call, besides the paths that the judge allows."""


def printable(name: str) -> str:
    """Return a file name for the model on one line. Only unprintable characters are escaped.

    The model must be able to use the name in a call. `text.clean` prepares names for approvals by the user.
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


class PathVerdict(Protocol):
    """The verdict on a path: `allow`, `ask` or `deny`. A protocol, because `tools` may not import `safety`."""

    @property
    def verdict(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def check(self) -> str:
        """The check that decided; `OUTSIDE` if the path asks only because it is outside the workspace."""


OUTSIDE = "path:outside"
PathJudge: TypeAlias = Callable[[str, Access], PathVerdict]


class ChangeRecorder(Protocol):
    """A recorder of every change of a file made through a workspace."""

    def record_change(self, path: Path, old: LoadedFile | None, data: bytes | None) -> AbstractContextManager[None]:
        """Wrap one change of the file at `path`: from `old` (None: no file) to `data` (None: the file is deleted).

        The context is entered before the change and left after it, with an exception if the change failed. It must not
        raise an exception itself. Called from any thread, one change at a time.
        """
        ...


class _NoRecorder:
    def record_change(self, path: Path, old: LoadedFile | None, data: bytes | None) -> AbstractContextManager[None]:
        return nullcontext()


UNRECORDED: ChangeRecorder = _NoRecorder()


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """A path with all links resolved: `parts` below `base`."""

    base: Path
    """A folder of the workspace; `/` for a path outside."""
    parts: tuple[str, ...]
    name: str
    """The path relative to the root of the workspace, or the absolute path."""
    label: str
    """The `printable` name for the model."""

    @property
    def path(self) -> Path:
        return self.base.joinpath(*self.parts)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file."""

    location: WorkspacePath
    old: LoadedFile | None
    """The file before the change; None if the change creates it."""
    data: bytes | None
    """The content after the change; None if the change deletes the file."""
    like: LoadedFile | None = None
    """The file whose mode a new file gets; None for the default mode."""


class Workspace:
    """The folders that tools may use: the root, added folders, and a private folder for long output.

    `judge` returns a verdict on every path: a denied path is refused, and a search skips paths that are not allowed.
    `scratch` is the private folder, which the model may only read. By default one is created on demand.
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
        self.use_folders(added_dirs)
        self.recorder = UNRECORDED
        self.wants_file_texts = False
        """Whether previews and results of changes contain the whole texts of the files."""
        self.buffers: Buffers | None = None
        """The unsaved texts of an editor, None if there is no editor."""
        self._judge = judge
        self._readable_folders: tuple[Path, ...] = ()
        self._scratch = Path(os.path.realpath(scratch)) if scratch is not None else None
        self._own_scratch: Scratch | None = None
        self._seen_files = SeenFiles()
        self._changed_paths: dict[Path, None] = {}
        self._lock = threading.Lock()

    @property
    def scratch(self) -> Path:
        """The private folder, which only this user can read."""
        with self._lock:
            if self._scratch is None:
                self._own_scratch = Scratch()
                self._scratch = self._own_scratch.path
            return self._scratch

    def close(self) -> None:
        """Remove the private folder if this workspace created it. Idempotent."""
        with self._lock:
            self._scratch = None
        if self._own_scratch is not None:
            self._own_scratch.close()

    def for_subagent(self, judge: PathJudge | None) -> Workspace:
        """Return a workspace with the same folders for a sub-agent, which has read no file yet. It is never closed."""
        other = copy(self)
        other._scratch = self.scratch
        other._own_scratch = None
        other._judge = judge
        other._seen_files = SeenFiles()
        return other

    def use_folders(self, added: Iterable[Path]) -> None:
        """Replace the added folders: tools may use these and the root."""
        self.added = tuple(Path(os.path.realpath(folder)) for folder in added)

    def add_readable_folder(self, folder: Path) -> None:
        """Let the model read a folder outside the workspace, as far as the judge allows its files."""
        if folder not in self._readable_folders and not self.contains(folder):
            self._readable_folders = (*self._readable_folders, folder)

    def resolve(self, path: str, access: Access = "read") -> WorkspacePath:
        """Resolve `path` and its links. Raise `Refused` if the model may not use the path.

        A path outside the workspace can only be read, if the verdict or the user allows it.
        """
        label = printable(path)
        if not path.strip():
            raise Refused("the path is empty")
        if "\0" in path:
            raise Refused(f"{label} contains a NUL character")
        real = Path(os.path.realpath(self._absolute_path(path)))
        location = self._locate(real)
        is_writable = location is not None and location.base not in (self._scratch, *self._readable_folders)
        may_be_read = location is not None or self._judge is not None
        if not (is_writable if access == "write" else may_be_read):
            raise Refused(f"{label} is outside the workspace; only files below {self._folder_names()} can be used")
        if location is None:
            # Outside the workspace, only `_check` decides. From `/` on, the file is opened without following links, in
            # case a folder is replaced by a link meanwhile.
            root = Path(real.anchor)
            location = WorkspacePath(root, real.relative_to(root).parts, str(real), printable(str(real)))
        if access == "write":
            _refuse_write(location, label, path)
        self._check(path, access, real, label)
        return location

    @contextmanager
    def allow_targets(self, targets: frozenset[str] | None) -> Iterator[None]:
        """Within the context, allow access to `targets`, which the user approved, and to paths that the judge allows.

        `targets` are real paths at the time of the approval, so they do not cover a link that changed since then. If
        `targets` is None, every path is allowed that the judge does not deny.
        """
        token = _GRANTED.set(targets)
        try:
            yield
        finally:
            _GRANTED.reset(token)

    def target(self, path: str) -> str:
        """Return the current real path of `path`. Raise `ValueError` if no file can have this name."""
        return os.path.realpath(self._absolute_path(path))

    def _check(self, path: str, access: Access, real: Path, label: str) -> None:
        if self._judge is None:
            return
        verdict, granted = self._judge(path, access), _GRANTED.get()
        if verdict.verdict == "deny":
            raise Refused(f"{label} cannot be used: {verdict.reason}")
        if verdict.verdict != "allow" and granted is not None and str(real) not in granted:
            raise Refused(
                f"{label} now points to a different file than the one that was checked ({verdict.reason}); call again "
                "to ask the user"
            )

    def may_search(self, path: Path) -> bool:
        """Return whether a search may show the content of `path`, which no call names.

        The approval of a folder outside the workspace covers the files below it, except those that ask for another
        reason, such as `.env`.
        """
        if self._judge is None:
            return True
        verdict = self._judge(str(path), "read")
        if verdict.verdict != "ask" or verdict.check != OUTSIDE:
            return verdict.verdict == "allow"
        return any(path.is_relative_to(target) for target in _GRANTED.get() or ())

    def load(self, location: WorkspacePath) -> LoadedFile:
        """Return the file at `location`. Raise `Refused` if it is not a readable file."""
        if not location.parts:
            raise Refused(f"{location.label} is a folder")
        try:
            with disk.open_folder(location.base, location.parts[:-1]) as folder:
                loaded = disk.load(folder, location.parts[-1], location.label)
        except OSError as error:
            raise Refused(explain(error, location.label)) from None
        if loaded.links > 1:
            # The name may have been linked to another file after the verdict.
            self._check(str(location.path), "read", location.path, location.label)
        if self.buffers is not None and location.base != self._scratch:
            return self.buffers.with_unsaved_text(location.path, location.label, loaded)
        return loaded

    def load_lines(self, location: WorkspacePath, first: int, count: int, max_bytes: int) -> FileSlice:
        """Return some lines of a file that is too large for `load`; a line has at most one megabyte."""
        try:
            with disk.open_folder(location.base, location.parts[:-1]) as folder:
                return disk.load_lines(folder, location.parts[-1], location.label, first, count, max_bytes)
        except OSError as error:
            raise Refused(explain(error, location.label)) from None

    def size(self, location: WorkspacePath) -> int:
        """Return the size of the file at `location` in bytes, 0 if it is unknown."""
        try:
            return location.path.stat(follow_symlinks=False).st_size
        except OSError:
            return 0

    def exists(self, location: WorkspacePath) -> bool:
        """Return whether a file, folder or link exists at `location`."""
        return os.path.lexists(location.path)

    def is_link(self, path: str) -> bool:
        """Return whether `path` is itself a link."""
        return os.path.islink(self._absolute_path(path).rstrip("/"))  # noqa: PTH114  # pathlib drops a trailing `/.`

    def is_folder(self, path: Path) -> bool:
        """Return whether `path` is a folder; False if it cannot be accessed."""
        return os.path.isdir(path)  # noqa: PTH112  # unlike pathlib's, it never raises

    def remember(self, location: WorkspacePath, loaded: LoadedFile) -> None:
        """Record that the model has seen the file at `location` as `loaded`."""
        self._seen_files.store(location.path, loaded.snapshot, loaded.data)

    def changed_files(self) -> list[Path]:
        """Return the files that were changed through this workspace and still exist, in the order of their changes."""
        with self._lock:
            return [path for path in self._changed_paths if os.path.isfile(path)]  # noqa: PTH113  # never raises

    def check_fresh(self, location: WorkspacePath, current: LoadedFile, *, is_required: bool = True) -> None:
        """Raise `Refused` if the file changed since the model saw it; if `is_required`, also if it never saw it."""
        if self._seen_files.contains(location.path):
            if message := self._seen_files.change_message(location.path, current, location.label):
                raise Refused(message)
        elif is_required:
            raise Refused(f"{location.label} has not been read yet: read it first, then change it. Nothing was changed")

    def check_writable(self, location: WorkspacePath, old: LoadedFile) -> None:
        """Raise `Refused` if replacing the file would lose something, such as a hard link."""
        if old.links > 1:
            raise Refused(
                f"{location.label} has {old.links} hard links, so replacing it would separate it from its other names; "
                "to change it anyway, use the shell. Nothing was changed"
            )
        if not old.mode & 0o222 or (self.exists(location) and not os.access(location.path, os.W_OK)):
            raise Refused(f"{location.label} is read-only (mode {old.mode:04o}). Nothing was changed")

    def write(self, location: WorkspacePath, data: bytes, old: LoadedFile | None) -> None:
        """Replace `old` with `data` (None: create the file and missing folders), and record it as seen."""
        self.apply((FileChange(location, old, data),))

    def apply(self, steps: Sequence[FileChange]) -> None:
        """Make all changes or none: if one fails, undo the earlier ones and raise `Refused`."""
        for step in steps:
            if step.old is not None:
                self.check_writable(step.location, step.old)
        with self._lock:
            done: list[FileChange] = []
            try:
                for step in steps:
                    self._perform(step)
                    done.append(step)
            except BaseException as failure:
                not_undone = [change.location.label for change in reversed(done) if not self._undo(change)]
                if isinstance(failure, OSError):
                    outcome = "Nothing was changed" if not not_undone else f"Not undone: {', '.join(not_undone)}"
                    raise Refused(f"{explain(failure, steps[len(done)].location.label)}. {outcome}") from None
                raise

    def _perform(self, step: FileChange) -> None:
        location = step.location
        self._changed_paths[location.path] = None
        name = location.parts[-1]
        with (
            disk.open_folder(location.base, location.parts[:-1], creates=step.old is None) as folder,
            self.recorder.record_change(location.path, step.old, step.data),
        ):
            if step.old is not None and step.old.is_unsaved:
                self._write_unsaved(step, folder)
            elif step.data is None:
                assert step.old is not None
                disk.remove_file(folder, name, step.old, location.label)
                self._seen_files.forget(location.path)
            else:
                snapshot = disk.replace_file(folder, name, step.data, step.old, location.label, like=step.like)
                self._seen_files.store(location.path, snapshot, step.data)
                if self.buffers is not None:
                    self.buffers.note_write(location.path, snapshot, step.data)

    def _write_unsaved(self, step: FileChange, folder: int) -> None:
        """Ask the editor to change a file with unsaved changes, and record the saved content."""
        location, buffers = step.location, self.buffers
        if buffers is None or step.data is None:
            raise Refused(f"{location.label} has unsaved changes in the editor. Nothing was changed")
        buffers.write(location.path, location.label, step.data)
        saved = disk.load(folder, location.parts[-1], location.label)
        self._seen_files.store(location.path, saved.snapshot, saved.data)
        buffers.note_write(location.path, saved.snapshot, saved.data)

    def _undo(self, step: FileChange) -> bool:
        """Undo a step; return whether that succeeded."""
        try:
            current = None if step.data is None else self.load(step.location)
            old = step.old
            self._perform(FileChange(step.location, current, None if old is None else old.data, like=old))
        except (OSError, Refused):
            return False
        return True

    def show(self, path: Path) -> str:
        """Return the name under which a path is shown: relative to the root, or absolute in an added folder."""
        return printable(self._name(path))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def contains(self, path: Path) -> bool:
        """Return whether the real path of `path` is in the root or an added folder."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(base) for base in (self.root, *self.added))

    def _absolute_path(self, path: str) -> str:
        expanded = f"{Path.home()}{path[1:]}" if path == "~" or path.startswith("~/") else path
        return os.path.join(self.root, expanded)  # noqa: PTH118  # as text: `..` after a link is its target's parent

    def _locate(self, real: Path) -> WorkspacePath | None:
        if any(real == Path(name) or real.is_relative_to(name) for name in _KERNEL_FOLDERS):
            raise Refused(f"{printable(str(real))} is a device or kernel interface, not a file")
        bases = [*self.added, *self._readable_folders, *((self._scratch,) if self._scratch is not None else ())]
        for base in (self.root, *sorted(bases, key=lambda base: -len(base.parts))):
            if real.is_relative_to(base):
                return WorkspacePath(base, real.relative_to(base).parts, self._name(real), self.show(real))
        return None

    def _folder_names(self) -> str:
        return " or ".join(str(folder) for folder in (self.root, *self.added))


def _refuse_write(location: WorkspacePath, label: str, path: str) -> None:
    if not location.parts or path.endswith("/"):
        raise Refused(f"{label} names a folder; name a file")
    if any(part.casefold().rstrip(". ") == ".git" for part in location.parts):
        raise Refused(f"{label} is inside .git, where only git writes")


_MAX_KEPT_FILE_BYTES = 512 * 1024  # of one file whose text is kept to show differences
MAX_KEPT_BYTES = 16 * 1024 * 1024  # of all kept texts, compressed
_MAX_DIFF_LINES = 40


@dataclass(frozen=True, slots=True)
class _SeenFile:
    """A file as the model saw it."""

    snapshot: Snapshot
    compressed: bytes | None
    """The compressed text; None if the text is too large or was dropped."""


class SeenFiles:
    """The state of each file when the model last read or wrote it, and the latest texts, to show differences."""

    def __init__(self) -> None:
        self._files: dict[Path, _SeenFile] = {}
        self._kept_bytes = 0

    def contains(self, path: Path) -> bool:
        return path in self._files

    def store(self, path: Path, snapshot: Snapshot, data: bytes) -> None:
        self.forget(path)
        compressed = zlib.compress(data, 1) if len(data) <= _MAX_KEPT_FILE_BYTES else None
        self._files[path] = _SeenFile(snapshot, compressed)
        self._kept_bytes += len(compressed or b"")
        for old, seen in tuple(self._files.items()):
            if self._kept_bytes <= MAX_KEPT_BYTES:
                break
            self._files[old] = _SeenFile(seen.snapshot, None)
            self._kept_bytes -= len(seen.compressed or b"")

    def forget(self, path: Path) -> None:
        seen = self._files.pop(path, None)
        self._kept_bytes -= len(seen.compressed or b"") if seen is not None else 0

    def change_message(self, path: Path, current: LoadedFile, label: str) -> str:
        """Return a message if the file changed since the model saw it, empty if it did not."""
        seen = self._files[path]
        if seen.snapshot.digest == current.snapshot.digest:
            return ""
        sizes = f"{seen.snapshot.size:,} bytes when it was read, {current.snapshot.size:,} now"
        return (
            f"{label} was changed since it was read ({sizes}): read it again, then change it. "
            f"Nothing was changed{_difference(seen.compressed, current.data, label)}"
        )


def _difference(compressed: bytes | None, current: bytes, label: str) -> str:
    if compressed is None or len(current) > _MAX_KEPT_FILE_BYTES:
        return ""
    try:
        before, after = text_file.decode(zlib.decompress(compressed), label), text_file.decode(current, label)
    except Refused:
        return ""
    from qcode.text.diff import unified_diff

    lines = list(unified_diff(before.text.split("\n"), after.text.split("\n"), "as read", "now", context=1))
    if not lines:
        return ". Only line endings or the encoding differ"
    more = f"\n[{len(lines) - _MAX_DIFF_LINES} more lines]" if len(lines) > _MAX_DIFF_LINES else ""
    return ". Changes:\n" + "\n".join(line[:300] for line in lines[:_MAX_DIFF_LINES]) + more


SCRATCH_PREFIX = "qcode-scratch-"
MIN_SCRATCH_AGE_S = 60.0
"""The minimum age of a folder to remove: the process of a younger one may not have locked it yet."""


class Scratch:
    """A private temporary folder. It is removed by `close`, or when the program exits.

    The folder is locked with `flock` while its process lives, and the system releases the lock when the process dies.
    If a folder can be locked, its process has died, so `sweep_scratch` removes it.
    """

    def __init__(self) -> None:
        self.path = _private_folder()
        self._remove = weakref.finalize(self, _release, self.path, _lock_folder(self.path))

    def close(self) -> None:
        """Remove the folder and its contents; safe to call twice."""
        self._remove()


def _private_folder() -> Path:
    """Create a folder with mode 0700 in the system's folder for temporary files, even if the disk is full."""
    try:
        return Path(os.path.realpath(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)))
    except OSError as error:
        # `tempfile` rejects a folder in which it cannot write a file.
        for folder in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108  # mkdtemp makes a private folder there
            with suppress(OSError):
                if folder:
                    return Path(os.path.realpath(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=folder)))
        raise error


def sweep_scratch(now: float | None = None) -> int:
    """Remove the folders of processes that were killed; return their number. `now` is in seconds since 1970."""
    now = time.time() if now is None else now
    count = 0
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(SCRATCH_PREFIX):
                count += _remove_if_stale(entry, now)
    return count


def _remove_if_stale(entry: os.DirEntry[str], now: float) -> bool:
    try:
        info = entry.stat(follow_symlinks=False)
        is_ours = stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077
        if not is_ours or now - info.st_ctime < MIN_SCRATCH_AGE_S:
            return False
        descriptor = _lock_folder(Path(entry.path))
    except OSError:
        return False
    if descriptor is None:
        return False
    _release(Path(entry.path), descriptor)
    return True


def _lock_folder(folder: Path) -> int | None:
    """Lock the folder and return its descriptor, None if another process has the lock or locks are not supported."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _release(folder: Path, descriptor: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)
