"""An index of the protected names in a workspace, built by one walk and refreshed folder by folder.

A folder with an unchanged ctime contains the same names as before, because programs cannot set a ctime. So a refresh
costs one `lstat` for each folder. Links are not followed.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass as mutable_dataclass
from dataclasses import field
from itertools import chain
from typing import NamedTuple

from qcode.safety import protected_paths
from qcode.safety.paths import is_ctime_final, real_path
from qcode.safety.probes import WorkspaceContents
from qcode.safety.protected_paths import KERNEL_FOLDERS, is_within

MAX_WALK_S = 10.0
"""The time after which a walk stops with an incomplete index."""
LARGE_TREE_FOLDERS = 5_000
"""If the index has more folders than this, it is not refreshed at every call."""
LARGE_TREE_REFRESH_S = 2.0
"""The minimum time between two refreshes of the index of a large tree."""
_STEPS_PER_CLOCK_CHECK = 64
"""The number of folders between two comparisons of the time with the limit."""

_ENVIRONMENT_FILE = re.compile(r"\.env([._~-].*)?|\.envrc(\..*)?")
_GIT_CONFIGS = frozenset({"config", "config.worktree"})
_GIT_CONTROL = _GIT_CONFIGS | {"hooks", "info", "commondir", "gitdir"}
_SKIPPED_GIT_FOLDERS = frozenset({"objects", "refs", "logs", "lfs"})
"""Folders in `.git` that are skipped: git chooses all names there, and there are too many files for a quick walk."""
_MAX_CONFIG_BYTES = 64 * 1024
_CREDENTIALS = re.compile(rb"://[^/\s]*@|extraheader|token|password|secret|oauth", re.IGNORECASE)

_NOT_SCANNED, _MISSING = -1, -2
"""The values of `_Folder.ctime_ns` before a scan, and after the scan of a folder that does not exist."""


class _NameKind(NamedTuple):
    """The meaning of a name, whatever the folder."""

    is_secret: bool = False
    is_control: bool = False
    is_nested_control: bool = False
    """It is a control path only in certain folders, such as `workflows` in `.github`."""
    is_dependency_folder: bool = False
    is_git: bool = False
    """It is `.git`, or a name that a file system may open for `.git`."""


_ORDINARY = _NameKind()


class _FileState(NamedTuple):
    """The state of a protected path, which differs if it was replaced, changed or linked."""

    inode: int
    device: int
    links: int
    """The number of hard links, 1 for a folder."""
    ctime_ns: int


@mutable_dataclass(slots=True)
class _Folder:
    """The result of scanning one folder."""

    is_in_dependency: bool
    is_in_git: bool
    ctime_ns: int = _NOT_SCANNED
    is_settled: bool = False
    """A later change of the folder is certain to change its ctime."""
    children: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    control_paths: list[str] = field(default_factory=list)
    git_control_paths: list[str] = field(default_factory=list)
    secret_links: list[str] = field(default_factory=list)
    """Links with the name of a secret."""


class _PendingFolder(NamedTuple):
    """A folder that a pass has not reached."""

    path: str
    is_in_dependency: bool
    is_in_git: bool


class WorkspaceIndex:
    """An index of the protected files in some folders and all their subfolders. Thread-safe."""

    def __init__(self, roots: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        """`roots` are real paths."""
        self._roots = tuple(dict.fromkeys(root for root in roots if not _is_in_other(root, roots)))
        self._clock = clock
        self._lock = threading.Lock()
        self._folders: dict[str, _Folder] = {}
        self._contents: WorkspaceContents | None = None
        self._watched_paths: dict[str, _FileState | None] = {}
        """The state of each protected path, None if it does not exist."""
        self._kinds: dict[str, _NameKind] = {}
        self._next_refresh = 0.0

    def refresh(self, *, is_forced: bool = False) -> WorkspaceContents:
        """Return the current contents. If `is_forced`, scan a large tree even if it was scanned a moment ago."""
        with self._lock:
            now = self._clock()
            if self._contents is not None and not is_forced and now < self._next_refresh:
                return self._contents
            walk = _FolderPass(self._folders, self._kinds, self._clock, now + MAX_WALK_S)
            was_complete = self._contents is not None and self._contents.is_complete
            has_changed = walk.refresh(self._roots, was_complete=was_complete)
            if has_changed or self._contents is None or self._watched_paths != _states_of(self._watched_paths):
                self._contents = self._collect(walk)
            if len(self._folders) > LARGE_TREE_FOLDERS:
                ended = self._clock()
                self._next_refresh = ended + max(LARGE_TREE_REFRESH_S, 3 * (ended - now))
            return self._contents

    def _collect(self, walk: _FolderPass) -> WorkspaceContents:
        """Return the contents from all scanned folders, with hard links and the targets of links."""
        folders = self._folders.values()
        control_paths = [path for folder in folders for path in (*folder.control_paths, *folder.git_control_paths)]
        git_control_paths = [path for folder in folders for path in folder.git_control_paths]
        configs = [path for path in git_control_paths if protected_paths.fold(_base_name(path)) in _GIT_CONFIGS]
        secrets = [path for folder in folders for path in folder.secrets]
        secrets += [path for path in configs if _may_contain_credentials(path)]
        self._watched_paths = _states_of(chain(control_paths, secrets))
        hard_links = walk.hard_links(self._watched_paths)
        secrets += [other_path for path in secrets for other_path in self._links_to(path, hard_links)]
        # The target of a link with a secret name is a secret.
        link_targets = [real_path(path) for folder in folders for path in folder.secret_links]
        secrets += [path for path in link_targets if self._is_inside(path) and os.path.isfile(path)]  # noqa: PTH113  # text
        return WorkspaceContents(
            _sort_unique(secrets),
            _sort_unique(control_paths),
            _sort_unique(git_control_paths),
            _sort_unique(
                other_path
                for path in control_paths
                for other_path in self._links_to(path, hard_links)
                if other_path != path
            ),
            walk.is_complete,
        )

    def _links_to(self, path: str, hard_links: Mapping[int, list[str]]) -> Sequence[str]:
        """Return all paths of the file at `path`, itself included, if it has several hard links."""
        state = self._watched_paths.get(path)
        return () if state is None else hard_links.get(state.inode, ())

    def _is_inside(self, path: str) -> bool:
        return any(is_within(path, root) for root in self._roots)


class _FolderPass:
    """One pass over the folders of an index, with a time limit."""

    def __init__(
        self, folders: dict[str, _Folder], kinds: dict[str, _NameKind], clock: Callable[[], float], deadline: float
    ) -> None:
        self._folders = folders
        self._kinds = kinds
        self._clock = clock
        self._deadline = deadline
        self._steps = 0
        self.is_complete = True

    def refresh(self, roots: Sequence[str], *, was_complete: bool) -> bool:
        """Scan new and changed folders, and drop deleted ones; return whether the index may have changed.

        If the pass before was not complete, this one continues it.
        """
        if not self._mark_changed() and was_complete:
            return False
        visited: set[str] = set()
        pending = [_PendingFolder(root, is_in_dependency=False, is_in_git=False) for root in roots]
        while pending:
            if self._is_timed_out():
                self.is_complete = False
                return True
            path, is_in_dependency, is_in_git = pending.pop()
            folder = self._folders.get(path)
            if folder is None or (folder.is_in_dependency, folder.is_in_git) != (is_in_dependency, is_in_git):
                folder = self._folders[path] = _Folder(is_in_dependency, is_in_git)
            visited.add(path)
            if folder.ctime_ns == _NOT_SCANNED:
                self._scan(path, folder)
            for child in folder.children:
                if is_in_git and protected_paths.fold(child) in _SKIPPED_GIT_FOLDERS:
                    continue
                kind = self._kind_of(child)
                pending.append(
                    _PendingFolder(
                        _join(path, child),
                        is_in_dependency=is_in_dependency or kind.is_dependency_folder,
                        is_in_git=is_in_git or kind.is_git,
                    )
                )
        for path in self._folders.keys() - visited:
            del self._folders[path]
        return True

    def _mark_changed(self) -> bool:
        """Mark folders that changed since their scan as not scanned. Return whether any folder is not scanned."""
        has_changed = False
        for path, folder in self._folders.items():
            try:
                ctime_ns = os.lstat(path).st_ctime_ns
            except OSError:
                ctime_ns = _NOT_SCANNED
            if ctime_ns != folder.ctime_ns or not folder.is_settled:
                folder.ctime_ns = _NOT_SCANNED
                has_changed = True
        return has_changed

    def _kind_of(self, name: str) -> _NameKind:
        """Return the kind of a name. The result is cached."""
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _classify(name)
        return kind

    def hard_links(self, watched_paths: Mapping[str, _FileState | None]) -> dict[int, list[str]]:
        """Return all paths of watched files with several hard links, by inode."""
        linked = {state.inode for state in watched_paths.values() if state is not None and state.links > 1}
        names: dict[int, list[str]] = {}
        if not linked:
            return names
        for path in list(self._folders):
            if self._is_timed_out():
                self.is_complete = False
                break
            for entry in _entries(path):
                if entry.inode() in linked and not entry.is_dir(follow_symlinks=False):
                    names.setdefault(entry.inode(), []).append(entry.path)
        return names

    def _is_timed_out(self) -> bool:
        self._steps += 1
        return self._steps % _STEPS_PER_CLOCK_CHECK == 0 and self._clock() > self._deadline

    def _scan(self, path: str, folder: _Folder) -> None:
        """List the folder at `path` again, and record its names in `folder`."""
        for paths in (
            folder.children,
            folder.secrets,
            folder.control_paths,
            folder.git_control_paths,
            folder.secret_links,
        ):
            paths.clear()
        start = time.time_ns()
        try:
            info = os.lstat(path)
        except OSError:
            folder.is_settled = False
            folder.ctime_ns = _MISSING
            return
        # The change must be clearly older than the scan: otherwise a second change could have the same ctime.
        folder.ctime_ns = info.st_ctime_ns
        folder.is_settled = stat.S_ISDIR(info.st_mode) and is_ctime_final(info, start)
        for entry in _entries(path):
            self._record(entry, folder, path)

    def _record(self, entry: os.DirEntry[str], folder: _Folder, parent: str) -> None:
        """Record an entry of the folder `parent` in `folder`, by the kind of its name."""
        kind = self._kind_of(entry.name)
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and entry.path not in KERNEL_FOLDERS:
            folder.children.append(entry.name)
        if kind is _ORDINARY and not folder.is_in_git:
            return
        if kind.is_secret and not is_folder:
            folder.secrets.append(entry.path)
            if entry.is_symlink():
                folder.secret_links.append(entry.path)
        if folder.is_in_dependency:
            return
        if folder.is_in_git:
            if protected_paths.fold(entry.name) in _GIT_CONTROL:
                folder.git_control_paths.append(entry.path)
        elif kind.is_git:
            # A file or a link of this name points to the repository.
            if not is_folder:
                folder.git_control_paths.append(entry.path)
        elif _is_control_path(entry.name, kind, parent, is_folder=is_folder):
            folder.control_paths.append(entry.path)


def _is_control_path(name: str, kind: _NameKind, parent: str, *, is_folder: bool) -> bool:
    """Return whether an entry of the folder `parent` runs or instructs programs later."""
    if kind.is_nested_control:
        return protected_paths.is_control_path((_base_name(parent), name))
    return kind.is_control or (kind.is_secret and not is_folder and _is_environment_file(name))


def _classify(name: str) -> _NameKind:
    """Return the kind of a name; `_ORDINARY` itself for a name without a meaning."""
    is_secret = protected_paths.is_secret(name) or protected_paths.is_key(name)
    is_control = protected_paths.is_control_path((name,))
    is_nested_control = protected_paths.fold(name) in ("workflows", "actions")
    is_dependency_folder = protected_paths.is_dependency_folder(name)
    is_git = protected_paths.fold(name) == ".git" or protected_paths.is_git_look_alike(name)
    if not (is_secret or is_control or is_nested_control or is_dependency_folder or is_git):
        return _ORDINARY
    return _NameKind(is_secret, is_control, is_nested_control, is_dependency_folder, is_git)


def _is_environment_file(name: str) -> bool:
    return _ENVIRONMENT_FILE.fullmatch(protected_paths.fold(name)) is not None


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as scanned:
            yield from scanned
    except OSError:
        return


def _states_of(paths: Iterable[str]) -> dict[str, _FileState | None]:
    """Return the state of each path, None if it does not exist."""
    states: dict[str, _FileState | None] = {}
    for path in paths:
        try:
            info = os.lstat(path)
        except OSError:
            states[path] = None
            continue
        links = 1 if stat.S_ISDIR(info.st_mode) else info.st_nlink
        states[path] = _FileState(info.st_ino, info.st_dev, links, info.st_ctime_ns)
    return states


def _may_contain_credentials(path: str) -> bool:
    """Return whether a configuration of git may contain credentials; True if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        data = os.read(descriptor, _MAX_CONFIG_BYTES + 1)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return len(data) > _MAX_CONFIG_BYTES or _CREDENTIALS.search(data) is not None


def _is_in_other(root: str, roots: Sequence[str]) -> bool:
    return any(root != other and is_within(root, other) for other in roots)


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def _sort_unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(paths)))
