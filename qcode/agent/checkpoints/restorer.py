"""Restores files to earlier states: decides which files to restore, and restores them. Blocking.

A restore has a doubt if something other than qcode changed the file, and a refusal if the restore is impossible. Files
are restored one by one, each atomically, only inside the workspace, and without following links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from qcode.agent.checkpoints.blobs import MAX_FILE_BYTES, Blobs, digest_of
from qcode.agent.sessions.history import LINK_PREFIX, FileMove, FileState, RecordedChange
from qcode.protocol.tools import Refused
from qcode.tools import disk
from qcode.tools.disk import LoadedFile, explain
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class FileRestore:
    """A planned restore of one file from its current state."""

    path: str
    current: FileState | None
    target: FileState | None
    """The restored state; None: there will be no file."""
    doubt: str = ""
    """Why the user must confirm the restore; empty if there is no reason."""
    refusal: str = ""
    """Why the restore is impossible; empty if it is possible."""
    changes: tuple[int, ...] = ()
    """The positions of the changes that the restore undoes."""


class NotRestorable(Exception):  # noqa: N818  # a state of the disk, not an error of qcode
    """A path is not a readable regular file inside the folders. The text says why."""


def read_state(path: str) -> FileState | None:
    """Return the state of the file or link at `path`, None if missing. Raise `NotRestorable` for anything else."""
    try:
        info = os.lstat(path)
        parent = os.path.split(path)[0]
        if os.path.realpath(parent) != parent:
            raise NotRestorable("is now behind a symbolic link")
        if stat.S_ISLNK(info.st_mode):
            target = os.fsencode(os.readlink(path))  # noqa: PTH115  # `Path` drops a final slash
            return FileState(LINK_PREFIX + digest_of(target), len(target), stat.S_IMODE(info.st_mode))
        if not stat.S_ISREG(info.st_mode):
            raise NotRestorable("is no longer a regular file")
        if info.st_size > MAX_FILE_BYTES:
            raise NotRestorable("is too large to save first")
        data = Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotRestorable(f"is unreadable ({error.strerror})") from None
    if info.st_nlink > 1:
        raise NotRestorable("has several hard links")
    return FileState(digest_of(data), len(data), stat.S_IMODE(info.st_mode))


def restores_for_changes(
    changes: Mapping[int, RecordedChange], later_states: Mapping[str, FileState | None] | None = None
) -> list[FileRestore]:
    """Return the restores that undo these changes, one per file, in the order in which files were first changed.

    `changes` are keyed by position. `later_states` are the states of files that qcode changed after these changes.
    """
    changes_by_path: dict[str, dict[int, RecordedChange]] = {}
    for position, change in changes.items():
        changes_by_path.setdefault(change.path, {})[position] = change
    later_states = later_states or {}
    restores = []
    for path, file_changes in changes_by_path.items():
        expected_later = [later_states[path]] if path in later_states else []
        restores.append(_restore_for_changes(path, file_changes, expected_later))
    return [restore for restore in restores if restore is not None]


def restores_for_move(files: Iterable[FileMove]) -> list[FileRestore]:
    """Return the restores that undo a move of these files."""
    restores = (_restore(file.path, (file.target,), file.source) for file in files)
    return [restore for restore in restores if restore is not None]


def restores_to_finish(files: Iterable[FileMove]) -> list[FileRestore]:
    """Return the restores that an interrupted move of these files did not finish."""
    restores = (_restore(file.path, (file.source,), file.target) for file in files)
    return [restore for restore in restores if restore is not None]


def _restore_for_changes(
    path: str, changes: Mapping[int, RecordedChange], later_states: Sequence[FileState | None]
) -> FileRestore | None:
    """Return the restore that undoes these changes of one file; None if nothing is to be done."""
    in_order = list(changes.values())
    first = in_order[0]
    last = in_order[-1]
    is_changed_by_command = any(change.by == "command" for change in in_order)
    doubt = ""
    if any(not is_same_content(earlier.after, later.before) for earlier, later in pairwise(in_order)):
        doubt = "was also changed outside qcode in between"
    elif is_changed_by_command:
        doubt = "changed while a command ran, possibly not by the command"
    expected = [last.after, *later_states]
    if last.by == "tool":
        # A tool's change is recorded before it is made. If qcode was killed between, the file has the old content.
        expected.append(last.before)
    positions = tuple(changes)
    return _restore(path, expected, first.before, doubt=doubt, changes=positions, restores_mode=is_changed_by_command)


def _restore(
    path: str,
    expected: Sequence[FileState | None],
    target: FileState | None,
    *,
    doubt: str = "",
    changes: tuple[int, ...] = (),
    restores_mode: bool = True,
) -> FileRestore | None:
    """Return the restore of `path` to `target`; it has a doubt if the current state is not in `expected`.

    Return None if nothing is to be done. `restores_mode`: a file that differs from `target` only in its mode is
    restored too. Tools change no mode, so after a change by a tool a different mode was set by the user.
    """
    try:
        current = read_state(path)
    except NotRestorable as refused:
        return FileRestore(path, None, target, refusal=str(refused), changes=changes)
    if is_same_file(current, target) or (is_same_content(current, target) and not restores_mode):
        return FileRestore(path, current, current, changes=changes) if changes else None
    may_be_link = any(state is not None and state.is_link for state in (*expected, target))
    if current is not None and current.is_link and not may_be_link:
        return FileRestore(path, None, target, refusal="is no longer a regular file", changes=changes)
    if target is not None and not target.is_kept and not is_same_content(current, target):
        return FileRestore(path, current, target, refusal="was not saved, so it cannot be restored", changes=changes)
    if not any(is_same_content(current, state) for state in expected):
        doubt = "has been deleted since" if current is None else "has been changed since"
    return FileRestore(path, current, target, doubt, changes=changes)


def is_same_content(left: FileState | None, right: FileState | None) -> bool:
    """Return whether both have the same content, or both are missing."""
    return left is right if left is None or right is None else left.digest == right.digest


def is_same_file(left: FileState | None, right: FileState | None) -> bool:
    """Return whether both have the same content and mode; the mode of a link is ignored."""
    if left is None or right is None:
        return left is right
    return left.digest == right.digest and (left.mode == right.mode or left.is_link)


@dataclass(frozen=True, slots=True)
class PreparedRestore:
    """A restore of a file whose current content is stored, so that the restore can be undone."""

    restore: FileRestore
    move: FileMove
    loaded: LoadedFile | bytes | None
    """The only version that may be replaced: a file, the target of a link (bytes), or no file."""
    content: bytes | None
    """The content to write; None if the file is deleted, or if only its mode is restored."""


class Restorer:
    """Restores files. `folders` are the real paths of the workspace."""

    def __init__(self, folders: Iterable[Path], blobs: Blobs) -> None:
        self._folders = tuple(folders)
        self._blobs = blobs

    def prepare(self, restore: FileRestore, *, is_below: bool = False) -> PreparedRestore:
        """Store the current content, so that the restore can be undone. Raise `Refused` if that fails.

        `is_below`: an earlier restore removes the link or file that replaced the folder of this file.
        """
        content = None
        if restore.target is not None and not is_same_content(restore.current, restore.target):
            content = self._blobs.get(restore.target.content_digest)
            if content is None:
                raise Refused(f"{restore.path}: its old content is missing from the session's folder")
        loaded = None if is_below else self._load(restore.path)
        data = loaded.data if isinstance(loaded, LoadedFile) else loaded
        prefix = LINK_PREFIX if isinstance(loaded, bytes) else ""
        digest = None if data is None else prefix + digest_of(data)
        planned_digest = None if restore.current is None else restore.current.digest
        if digest != planned_digest:
            raise Refused(f"{restore.path} was changed just now")
        source = None
        if data is not None and digest is not None:
            if not self._blobs.store(data):
                raise Refused(f"{restore.path} could not be saved first (is the disk full?), so it was not changed")
            source = FileState(digest, len(data), loaded.mode if isinstance(loaded, LoadedFile) else 0o777)
        return PreparedRestore(restore, FileMove(restore.path, source, restore.target), loaded, content)

    def perform(self, prepared: PreparedRestore) -> None:
        """Restore one file. Raise `Refused` if it changed since `prepare`, or if writing fails."""
        path, target = prepared.restore.path, prepared.restore.target
        base, parts = self._split(path)
        try:
            with disk.open_folder(base, parts[:-1], creates=target is not None) as folder:
                self._restore_entry(folder, parts[-1], prepared, target)
        except OSError as error:
            raise Refused(explain(error, path)) from None

    def _restore_entry(self, folder: int, name: str, prepared: PreparedRestore, target: FileState | None) -> None:
        """Write or delete the file or link, or change its mode, in the open `folder`."""
        path, loaded, content = prepared.restore.path, prepared.loaded, prepared.content
        if target is not None and target.is_link:
            disk.replace_link(folder, name, loaded, path, link=content)
        elif isinstance(loaded, bytes):
            file = None if target is None or content is None else disk.NewFile(content, target.mode)
            disk.replace_link(folder, name, loaded, path, file=file)
        elif target is None:
            if loaded is not None:
                disk.remove_file(folder, name, loaded, path)
        elif content is None:
            if loaded is not None:
                disk.set_mode(folder, name, target.mode, loaded, path)
        else:
            old = None if loaded is None else replace(loaded, mode=target.mode)
            disk.replace_file(folder, name, content, old, path)
            if old is None:
                os.chmod(name, target.mode, dir_fd=folder)

    def _load(self, path: str) -> LoadedFile | bytes | None:
        """Return the file, or the target of a link."""
        base, parts = self._split(path)
        try:
            with disk.open_folder(base, parts[:-1]) as folder:
                link = disk.read_link(folder, parts[-1])
                return link if link is not None else disk.load(folder, parts[-1], path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Refused(explain(error, path)) from None

    def _split(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """Return the folder of the workspace that contains `path`, and the names below it; raise `Refused`."""
        parent, name = os.path.split(path)
        if os.path.realpath(parent) == parent and name not in ("", ".", ".."):
            for base in self._folders:
                if Path(path).is_relative_to(base) and Path(path) != base:
                    return base, Path(path).relative_to(base).parts
        raise Refused(f"{path} is outside the folders of this session")
