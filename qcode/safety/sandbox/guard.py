"""The guard of protected paths that no mount can protect, such as new files and links.

A guard records the protected paths before a command, compares them afterwards, and undoes changes. Nothing is lost: it
moves the new version to the session's private folder, and returns one line for the user with the path. Files that
`git init` and `git clone` create may stay if they cannot make git run a program (`is_harmless_git_file`).
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from qcode.safety.sandbox import nofollow
from qcode.values import dataclass

MAX_RECORDED_BYTES = 256 * 1024
"""The maximum size of a file whose content is recorded. A change of a larger file is only reported."""
MAX_TOTAL_BYTES = 8 * 1024 * 1024
"""The maximum size of all recorded contents."""
MAX_REPORTED = 20
"""The maximum number of restored paths that are reported one by one."""
_CLOCK_GRAIN_NS = 20_000_000
"""The maximum time between two ticks of a file system's clock."""


class _Identity(NamedTuple):
    """The state of a path, which differs after every change."""

    device: int
    inode: int
    mode: int
    """The type and the permission bits, as in `st_mode`."""
    size: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class RecordedPath:
    """A protected path before the command, and the data to restore it."""

    identity: _Identity
    link: str | None = None
    """The target of a link, None for other paths."""
    content: bytes | None = None
    """The content of a file, None if it was not recorded."""
    permissions: int = 0
    """The permission bits of a file."""


class FoundPaths(NamedTuple):
    """The result of a search for protected paths."""

    paths: tuple[str, ...]
    """The existing protected paths."""
    is_complete: bool
    """The search covered the whole workspace."""


class Guard:
    """A record of protected paths that detects and undoes changes while one command runs. Thread-safe."""

    def __init__(
        self,
        find: Callable[[], FoundPaths],
        mounted: Iterable[str],
        folder: str,
        is_harmless: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """Record the current state.

        `find` searches for protected paths. `mounted` are paths that a mount protects, so the command cannot change
        them. New versions are moved to `folder`. `is_harmless` returns whether a new path may stay.
        """
        self._find = find
        self._mounted_paths = frozenset(mounted)
        self._folder = folder
        self._is_harmless = is_harmless
        self._accepted_paths: frozenset[str] = frozenset()
        self._reported_lines: set[str] = set()
        self._lock = threading.Lock()
        self._start_ns = time.time_ns() - _CLOCK_GRAIN_NS
        found = find()
        self._is_complete = found.is_complete
        self._before: dict[str, RecordedPath] = _record(found.paths, self._mounted_paths)

    def accept(self, paths: Iterable[str]) -> None:
        """Exempt paths that are about to change with the user's approval."""
        self._accepted_paths |= frozenset(paths)

    def renew(self, paths: Iterable[str]) -> None:
        """Record the approved state of accepted paths, and protect it from now on."""
        with self._lock:
            for path in paths:
                self._before.pop(path, None)
            self._before |= _record(paths, frozenset())
            self._mounted_paths -= frozenset(paths)
            self._accepted_paths -= frozenset(paths)

    def check(self) -> tuple[str, ...]:
        """Restore changes since the start or the last check; return one line for each."""
        with self._lock:
            lines = [line for line in self._check() if line not in self._reported_lines]
            self._reported_lines.update(lines)
        if len(lines) > MAX_REPORTED:
            lines = [*lines[:MAX_REPORTED], f"{len(lines) - MAX_REPORTED} more protected names were restored."]
        return tuple(lines)

    def _check(self) -> list[str]:
        accepted = self._accepted_paths
        new_paths = sorted(set(self._find().paths) - self._before.keys() - accepted)
        lines = [self._remove_new(path) for path in new_paths if not self._is_harmless(path) and self._is_new(path)]
        for path, recorded in self._before.items():
            if path not in accepted and path not in self._mounted_paths:
                lines += self._restore(path, recorded)
        return lines

    def _is_new(self, path: str) -> bool:
        """Return whether a path was created since the start, and not only missed by an incomplete search."""
        try:
            return self._is_complete or os.lstat(path).st_ctime_ns >= self._start_ns
        except OSError:
            return False

    def _remove_new(self, path: str) -> str:
        moved = self._move_away(path)
        if not moved:
            return f"{path} is a protected name. It is new and could not be removed: check it."
        return f"{path} is a protected name, so it was removed again. The new version is in {moved}."

    def _restore(self, path: str, recorded: RecordedPath) -> list[str]:
        """Restore a path if it has changed; return the line for the user, an empty list if it has not changed."""
        try:
            info = os.lstat(path)
        except OSError:
            info = None
        if info is not None and (_identity(info) == recorded.identity or _is_same(path, info, recorded)):
            return []
        if recorded.link is None and recorded.content is None:
            return [f"{path} is a protected name. It changed and cannot be restored: check it."]
        not_restored = f"{path} is a protected name. It changed and could not be restored: check it."
        note = ""
        if info is not None:
            moved = self._move_away(path)
            if not moved:
                return [not_restored]
            note = f" The new version is in {moved}."
        if not _write(path, recorded):
            return [not_restored]
        return [f"{path} is a protected name, so it was restored.{note}"]

    def _move_away(self, path: str) -> str:
        """Move a path to the private folder; return the new path, empty if it could not be moved."""
        if not self._folder:
            return ""
        folder = f"{self._folder}/replaced"
        name = path.rpartition("/")[2].lstrip(".") or "file"
        try:
            nofollow.make_folder(folder)
            target = f"{folder}/{os.urandom(4).hex()}-{name}"
            nofollow.move(path, target)
        except OSError:
            return ""
        return target


def _record(paths: Iterable[str], mounted: frozenset[str]) -> dict[str, RecordedPath]:
    """Return the state of the existing paths. The content of `mounted` paths is not recorded."""
    records: dict[str, RecordedPath] = {}
    remaining_bytes = MAX_TOTAL_BYTES
    for path in paths:
        try:
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                records[path] = RecordedPath(_identity(info), link=os.readlink(path))  # noqa: PTH115  # text, unchanged
                continue
            content = None
            max_bytes = min(MAX_RECORDED_BYTES, remaining_bytes)
            if path not in mounted and stat.S_ISREG(info.st_mode) and info.st_size <= max_bytes:
                content = nofollow.read(path, MAX_RECORDED_BYTES + 1)
                remaining_bytes -= len(content)
            records[path] = RecordedPath(_identity(info), content=content, permissions=stat.S_IMODE(info.st_mode))
        except OSError:
            continue
    return records


def _identity(info: os.stat_result) -> _Identity:
    return _Identity(info.st_dev, info.st_ino, info.st_mode, info.st_size, info.st_ctime_ns)


def _is_same(path: str, info: os.stat_result, recorded: RecordedPath) -> bool:
    """Return whether the file or link at `path` has the same content as before."""
    try:
        if stat.S_ISLNK(info.st_mode):
            return os.readlink(path) == recorded.link  # noqa: PTH115  # text, unchanged
        if stat.S_ISDIR(info.st_mode):
            return stat.S_ISDIR(recorded.identity.mode) and info.st_ino == recorded.identity.inode
        if not stat.S_ISREG(info.st_mode) or recorded.content is None:
            return False
        has_same_permissions = stat.S_IMODE(info.st_mode) == recorded.permissions
        return has_same_permissions and nofollow.read(path, MAX_RECORDED_BYTES + 1) == recorded.content
    except OSError:
        return False


def _write(path: str, recorded: RecordedPath) -> bool:
    try:
        if recorded.link is not None:
            nofollow.link_new(path, recorded.link)
        else:
            nofollow.write_new(path, recorded.content or b"", recorded.permissions)
    except OSError:
        return False
    return True


_MAX_CONFIG_BYTES = 64 * 1024
_SECTION = re.compile(r'\[(core|remote|branch|user|init)(?: "([^"\\]*)")?\]', re.IGNORECASE)
_HARMLESS_SETTINGS = {
    "core": frozenset(
        {
            "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
            "symlinks",
        }
    ),
    "remote": frozenset({"url", "fetch", "pushurl", "tagopt"}),
    "branch": frozenset({"remote", "merge", "rebase"}),
    "user": frozenset({"name", "email"}),
    "init": frozenset({"defaultbranch"}),
}  # fmt: skip
_URL = re.compile(r"(https?|ssh|git|file)://[^\s]*|/[^\s:]*|[\w.-]+@[\w.-]+:[^\s]*")
_HARMLESS_INFO = frozenset({"exclude", "refs"})


def is_harmless_git_file(path: str) -> bool:
    """Return whether a new path in a folder of git looks like one from git itself and cannot make git run a program."""
    name = path.rpartition("/")[2]
    try:
        if name == "config":
            return _is_plain_config(path)
        if name == "hooks":
            return _contains_only(path, lambda entry: entry.endswith(".sample"))
        if name == "info":
            return _contains_only(path, _HARMLESS_INFO.__contains__)
        if name == ".git":
            return _points_into_git(path)
        if name == "commondir":
            return _small_text(path) == "../..\n"
        if name == "gitdir":
            return True
    except (OSError, UnicodeDecodeError):
        return False
    return False


def _is_plain_config(path: str) -> bool:
    """Return whether a configuration contains only settings that cannot start a program."""
    section = ""
    for raw in _small_text(path).splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        header = _SECTION.fullmatch(line)
        if header is not None:
            section = header[1].lower()
            continue
        name, _, value = (part.strip() for part in line.partition("="))
        if name.lower() not in _HARMLESS_SETTINGS.get(section, ()) or value.endswith("\\"):
            return False
        if name.lower() in ("url", "pushurl") and _URL.fullmatch(value) is None:
            return False
    return True


def _contains_only(path: str, is_known: Callable[[str], bool]) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode) and all(map(is_known, os.listdir(path)))  # noqa: PTH208  # text


def _points_into_git(path: str) -> bool:
    """Return whether a `.git` file points into a `.git` folder, whose configuration is itself protected."""
    text = _small_text(path)
    if not text.startswith("gitdir: "):
        return False
    folder, pointer = os.path.dirname(path), text.removeprefix("gitdir: ").rstrip("\n")  # noqa: PTH120  # text
    target = os.path.realpath(os.path.join(folder, pointer))  # noqa: PTH118  # text
    return ".git" in target.split("/")[:-1]


def _small_text(path: str) -> str:
    """Return the content of a small file; raise `OSError` for a larger file, a link or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        data = file.read(_MAX_CONFIG_BYTES + 1) if is_file else b""
    if not is_file or len(data) > _MAX_CONFIG_BYTES:
        raise OSError(errno.EINVAL, "not a small file")
    return data.decode()
