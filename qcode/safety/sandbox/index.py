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

_SECRET, _CONTROL, _DEPENDENCY, _GIT, _NESTED_CONTROL = 1, 2, 4, 8, 16
"""The categories of a name. `_NESTED_CONTROL` names count only in certain folders: `workflows` in `.github`."""

_NOT_SCANNED, _MISSING = -1, -2
"""The values of `_Folder.ctime_ns` before a scan, and after the scan of a folder that does not exist."""


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

    in_dependency: bool
    in_git: bool
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
    in_dependency: bool
    in_git: bool


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
        self._categories: dict[str, int] = {}
        self._next_refresh = 0.0

    def refresh(self, *, is_forced: bool = False) -> WorkspaceContents:
        """Return the current contents. If `is_forced`, scan a large tree even if it was scanned a moment ago."""
        with self._lock:
            now = self._clock()
            if self._contents is not None and not is_forced and now < self._next_refresh:
                return self._contents
            walk = _FolderPass(self._folders, self._categories, self._clock, now + MAX_WALK_S)
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
        self, folders: dict[str, _Folder], categories: dict[str, int], clock: Callable[[], float], deadline: float
    ) -> None:
        self._folders = folders
        self._categories = categories
        self._clock = clock
        self._deadline = deadline
        self._steps = 0
        self.is_complete = True

    def refresh(self, roots: Sequence[str], *, was_complete: bool) -> bool:
        """Scan new and changed folders, and drop deleted ones; return whether the index may have changed.

        If the pass before was not complete, this one continues it.
        """
        if not self._has_changed() and was_complete:
            return False
        visited: set[str] = set()
        pending = [_PendingFolder(root, in_dependency=False, in_git=False) for root in roots]
        while pending:
            if self._is_timed_out():
                self.is_complete = False
                return True
            path, in_dependency, in_git = pending.pop()
            folder = self._folders.get(path)
            if folder is None or (folder.in_dependency, folder.in_git) != (in_dependency, in_git):
                folder = self._folders[path] = _Folder(in_dependency, in_git)
            visited.add(path)
            if folder.ctime_ns == _NOT_SCANNED:
                self._scan(path, folder)
            for child in folder.children:
                categories = self.categories_of(child)
                if not (in_git and protected_paths.fold(child) in _SKIPPED_GIT_FOLDERS):
                    is_dependency, is_git = bool(categories & _DEPENDENCY), bool(categories & _GIT)
                    pending.append(_PendingFolder(_join(path, child), in_dependency or is_dependency, in_git or is_git))
        for path in self._folders.keys() - visited:
            del self._folders[path]
        return True

    def _has_changed(self) -> bool:
        """Mark folders that changed since their scan or were never scanned. Return whether there are any."""
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

    def categories_of(self, name: str) -> int:
        """Return the categories of a name, as a set of bits. The result is cached."""
        categories = self._categories.get(name)
        if categories is None:
            categories = self._categories[name] = _classify(name)
        return categories

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
        """Record an entry of the folder `parent` in `folder`, by the categories of its name."""
        name, categories = entry.name, self.categories_of(entry.name)
        if entry.is_dir(follow_symlinks=False):
            if entry.path not in KERNEL_FOLDERS:
                folder.children.append(name)
            is_secret = False
        else:
            is_secret = bool(categories & _SECRET)
        if not categories and not folder.in_git:
            return
        if is_secret:
            folder.secrets.append(entry.path)
            if entry.is_symlink():
                folder.secret_links.append(entry.path)
        if not folder.in_dependency:
            self._record_control_path(entry, folder, parent, categories)

    def _record_control_path(self, entry: os.DirEntry[str], folder: _Folder, parent: str, categories: int) -> None:
        if folder.in_git:
            if protected_paths.fold(entry.name) in _GIT_CONTROL:
                folder.git_control_paths.append(entry.path)
            return
        is_file = not entry.is_dir(follow_symlinks=False)
        if categories & _GIT:
            # A file or a link of this name points to the repository.
            if is_file:
                folder.git_control_paths.append(entry.path)
            return
        if categories & _NESTED_CONTROL and not protected_paths.is_control_path((_base_name(parent), entry.name)):
            return
        if categories & (_CONTROL | _NESTED_CONTROL) or (
            is_file and categories & _SECRET and _is_environment_file(entry.name)
        ):
            folder.control_paths.append(entry.path)


def _classify(name: str) -> int:
    """Return the categories of a name, as a set of bits."""
    categories = 0
    if protected_paths.is_secret(name) or protected_paths.is_key(name):
        categories |= _SECRET
    if protected_paths.is_control_path((name,)):
        categories |= _CONTROL
    if protected_paths.fold(name) in ("workflows", "actions"):
        categories |= _NESTED_CONTROL
    if protected_paths.is_dependency_folder(name):
        categories |= _DEPENDENCY
    if protected_paths.fold(name) == ".git" or protected_paths.is_git_look_alike(name):
        categories |= _GIT
    return categories


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
