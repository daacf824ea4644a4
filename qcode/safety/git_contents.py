"""The protected files in the index and the history of a git repository, and the folders that it uses.

`RepositoryContents` lists protected names, and caches them until the index or a ref changes. `git_folder_links` yields
the real paths of linked and borrowed parts. Separate from `git_repository`, its only importer, which reads settings.
Source: https://git-scm.com/docs/gitrepository-layout.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from qcode.safety import protected_paths
from qcode.safety.paths import read_file_start, real_path
from qcode.safety.probes import TrackedFiles
from qcode.values import dataclass

Identity: TypeAlias = tuple[tuple[str, tuple[int, ...] | None], ...]
"""Each path with its modification time, change time, inode, device and size; None if it does not exist."""
RunGit: TypeAlias = Callable[..., bytes | None]
"""Runs git with a time limit in seconds and arguments; returns its output, or None if it failed or timed out."""

TIMEOUT_S = 2.0
_MAX_REF_FOLDERS = 2_000  # folders below `refs`
_MAX_TIPS = 2_000
"""The maximum number of tips (the last commits of all refs) of one search that the next search excludes."""
_MAX_EXCLUDED_REFS = 100
"""The maximum number of refs to files. A search excludes each of them."""
_MAX_ALTERNATES_BYTES = 64 * 1024
_MAX_ALTERNATES_DEPTH = 5
"""The maximum nesting of alternates, as in git: a repository borrows objects from one that borrows objects."""

_LINKABLE = (
    "HEAD", "config", "config.worktree", "index", "packed-refs", "shallow", "commondir", "gitdir", "objects", "refs",
    "logs", "info", "worktrees", "reftable", "refs/heads", "refs/remotes", "refs/tags", "objects/info",
    "objects/info/alternates", "objects/pack", "info/exclude", "info/attributes", "info/grafts",
    "info/sparse-checkout",
)  # fmt: skip
"""Parts of a repository that git reads and that could be links.

Loose objects and refs are not listed: git rejects a file without their format, so a link to another file shows nothing.
"""

_CANDIDATE = re.compile(
    rb"(?i)\.(?:env|pem|key|p12|pfx|ppk|jks|keystore|kdbx|netrc|pgpass|pypirc|htpasswd|git-credentials|s3cfg|boto)"
    rb"|credentials|id_|[^\n -~]"
)
"""Matches a part of every protected name. `[^\\n -~]` matches look-alikes, which contain a character outside ASCII."""


@dataclass(frozen=True, slots=True)
class _Ref:
    name: str
    object_id: bytes
    types: frozenset[bytes]
    """The type of the object, and of the tagged object if it is a tag."""


class RepositoryContents:
    """The protected files in the index and the history of a repository. `run` runs git in the workspace folder."""

    def __init__(self, run: RunGit, top: Path, git: Path, common: Path) -> None:
        self._run_git, self._top, self._git, self._common = run, top, git, common
        self._index_identity: Identity | None = None
        self._tracked_files: TrackedFiles | None = None
        self._folders: tuple[str, ...] = ()
        """The folders of the tracked files."""
        self._refs_identity: Identity | None = None
        self._history: tuple[str, ...] | None = ()
        self._checked_tips: tuple[str, ...] = ()
        self._has_timed_out = False

    def tracked_files(self) -> TrackedFiles | None:
        """Return the files in the index, or None if git could not list them in time."""
        identity = identity_of((f"{self._git}/index",))
        if self._tracked_files is None or identity != self._index_identity:
            self._tracked_files = self._list_index()
            self._index_identity = identity
        return self._tracked_files

    def linked_folder(self) -> str:
        """Return a folder with tracked files that is a link, empty if there is none.

        If the index cannot be listed, return "a folder", because one of its folders may be a link.
        """
        if self.tracked_files() is None:
            return "a folder"
        for folder in self._folders:
            try:
                if stat.S_ISLNK(os.lstat(f"{self._top}/{folder}").st_mode):
                    return folder
            except OSError:
                continue
        return ""

    def history_secrets(self) -> tuple[str, ...] | None:
        """Return the files with protected names in any commit that a ref or reflog reaches; None after a timeout.

        After a timeout, the history is not searched again.
        """
        identity = self._identity_of_refs()
        if self._has_timed_out or identity is None:
            return None
        if identity != self._refs_identity:
            self._history = self._search_history()
            self._has_timed_out = self._history is None
            self._refs_identity = identity
        return self._history

    def _list_index(self) -> TrackedFiles | None:
        listed = self._run_git(TIMEOUT_S, "ls-files", "--full-name", "-z", "--", ":/")
        if listed is None:
            return None
        files = frozenset(os.fsdecode(name) for name in listed.split(b"\0") if name)
        self._folders = tuple(sorted(_folders_of(files)))
        return TrackedFiles(files, tuple(sorted(file for file in files if is_secret_path(file))))

    def _search_history(self) -> tuple[str, ...] | None:
        """Return protected names among all objects. After the first search, git lists only new objects.

        `rev-list --objects` prints each object once, with one of its paths. It prints a file that a ref names directly
        without a path, so refs to files are excluded.
        """
        refs = self._list_refs()
        refs_to_files = [ref.name for ref in refs or () if b"blob" in ref.types]
        if refs is None or len(refs_to_files) > _MAX_EXCLUDED_REFS:
            return None
        excluded = [f"--exclude={name}" for name in refs_to_files]
        arguments = ("rev-list", "--objects", "--ignore-missing", *excluded, "--all", "--reflog", *self._heads())
        # Only the objects at which the search starts: commits, and trees and files that a reflog names directly.
        starts = self._run_git(TIMEOUT_S, *arguments, "--no-walk", "--filter=tree:0", "--")
        if starts is None:
            return None
        tags = {ref.object_id for ref in refs if b"tag" in ref.types}
        if any(b" " in line and line.partition(b" ")[0] not in tags for line in starts.splitlines()):
            return ("a file without a name",)
        tips = tuple(dict.fromkeys(ref.object_id.decode() for ref in refs if not ref.types & {b"blob", b"tree"}))
        excluded_tips = ("--not", *self._checked_tips) if self._checked_tips else ()
        listed = self._run_git(TIMEOUT_S, *arguments, *excluded_tips, "--")
        if listed is None and self._checked_tips:
            # A commit of the last search may have been removed.
            listed = self._run_git(TIMEOUT_S, *arguments, "--")
        if listed is None:
            return None
        paths = (line.partition(b" ")[2] for line in _lines_with(_CANDIDATE, listed))
        secrets = {path for path in map(os.fsdecode, paths) if path and is_secret_path(path)}
        # A longer list of tips does not fit on a command line, so the next search covers everything again.
        self._checked_tips = tips if len(tips) <= _MAX_TIPS else ()
        return tuple(sorted(secrets | set(self._history or ())))

    def _heads(self) -> list[str]:
        """Return names of commits outside `refs`, such as `FETCH_HEAD`."""
        try:
            return sorted(name for name in os.listdir(self._git) if re.fullmatch(r"[A-Z_]+_HEAD", name))  # noqa: PTH208  # names
        except OSError:
            return []

    def _list_refs(self) -> list[_Ref] | None:
        """Return all refs, None if git could not list them in time."""
        listed = self._run_git(
            TIMEOUT_S, "for-each-ref", "--format=%(objectname) %(objecttype) %(*objecttype) %(refname)"
        )
        if listed is None:
            return None
        fields = (line.split(b" ", 3) for line in listed.splitlines())
        return [
            _Ref(os.fsdecode(name), object_id, frozenset((object_type, tagged_type)))
            for object_id, object_type, tagged_type, name in fields
        ]

    def _identity_of_refs(self) -> Identity | None:
        """Return the identity of every file that names commits; None if there are too many."""
        folders = list(islice(_ref_folders(self._git, self._common), _MAX_REF_FOLDERS + 1))
        if len(folders) > _MAX_REF_FOLDERS:
            return None
        files = ["HEAD", "packed-refs", "shallow", "logs/HEAD", "logs/refs/stash", "reftable/tables.list"]
        files += self._heads()
        heads = sorted(str(head) for head in (self._common / "worktrees").glob("*/HEAD"))
        paths = {str(base / name) for base in (self._git, self._common) for name in files}
        return identity_of((*sorted(paths), *heads, *folders))


def git_folder_links(git: Path, common: Path) -> Iterator[str]:
    """Yield the real paths of the linked parts of a repository, and the folders from which it borrows objects."""
    for base in dict.fromkeys((str(git), str(common))):
        for name in _LINKABLE:
            path = f"{base}/{name}"
            if os.path.islink(path):  # noqa: PTH114  # plain text; this runs before each command
                yield real_path(path)
    yield from _alternates(f"{common}/objects", _MAX_ALTERNATES_DEPTH)


def identity_of(paths: Iterable[str]) -> Identity:
    """Return a value that differs if one of these files or folders was changed or replaced."""
    states: list[tuple[str, tuple[int, ...] | None]] = []
    for path in paths:
        try:
            info = os.stat(path)  # noqa: PTH116  # plain text
            states.append((path, (info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev, info.st_size)))
        except (OSError, ValueError):
            states.append((path, None))
    return tuple(states)


def _alternates(objects: str, depth: int) -> Iterator[str]:
    """Yield the folders of other repositories whose objects are used (https://git-scm.com/docs/gitrepository-layout)."""
    for line in (read_file_start(Path(f"{objects}/info/alternates"), _MAX_ALTERNATES_BYTES) or b"").splitlines():
        if line and not line.startswith(b"#"):
            folder = real_path(os.path.join(objects, os.fsdecode(line)))  # noqa: PTH118  # plain text
            yield folder
            if depth:
                yield from _alternates(folder, depth - 1)


def _ref_folders(git: Path, common: Path) -> Iterator[str]:
    """Yield the folders of refs. Git replaces the file of a ref, which changes its folder."""
    for base in dict.fromkeys((git, common)):
        for folder, _, _ in os.walk(base / "refs"):
            yield folder


def _folders_of(files: Iterable[str]) -> set[str]:
    """Return all parent folders of the files."""
    folders: set[str] = set()
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def is_secret_path(path: str) -> bool:
    """Return whether a file in a repository has the name of a secret or a private key."""
    name = path.rpartition("/")[2]
    return _CANDIDATE.search(os.fsencode(name)) is not None and (
        protected_paths.is_secret(name) or protected_paths.is_key(name)
    )


def _lines_with(pattern: re.Pattern[bytes], text: bytes) -> Iterator[bytes]:
    """Yield the lines of a long text that match a pattern."""
    end = 0
    while (match := pattern.search(text, end)) is not None:
        start = text.rfind(b"\n", 0, match.start()) + 1
        end = text.find(b"\n", match.end())
        if end < 0:
            end = len(text)
        yield text[start:end]
