"""Reading, and atomic replacement, of files without following links.

Folders are opened one by one without following links, and files are accessed relative to the open folder. A
replacement is written to the same folder, synced to disk, and then renamed over its target. In all functions, `folder`
is the descriptor of an open folder, `name` a name in it, and `label` the name of the file in messages.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from qcode.protocol.tools import Refused
from qcode.values import dataclass

MAX_FILE_BYTES = 64 * 1024 * 1024
"""The largest file, in bytes, that is read as a whole."""

_CHUNK = 1024 * 1024  # bytes of one read
_NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
# Errors of link(2) if the file system does not support hard links.
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The identity and state of a file when it was read."""

    inode: int
    mtime_ns: int
    size: int
    digest: bytes
    """The SHA-256 of the content."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to create."""

    data: bytes
    mode: int
    """The permission bits."""


class FileOwner(NamedTuple):
    """The user and the group that own a file."""

    user_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The content of a file, and the attributes that a replacement must keep."""

    data: bytes
    snapshot: Snapshot
    mode: int
    """The permission bits."""
    owner: FileOwner
    links: int
    """The number of hard links."""
    is_unsaved: bool = False
    """The content comes from an editor with changes that are not on disk."""


@contextlib.contextmanager
def open_folder(root: Path, parts: tuple[str, ...], *, creates: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder `parts` below `root`, without following links.

    With `creates`, missing folders are created; if the body raises, they are removed again unless they contain files.
    """
    with contextlib.ExitStack() as opened:
        descriptor = _close_later(opened, os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        created: list[tuple[int, str]] = []
        try:
            for part in parts:
                if creates:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                        created.append((descriptor, part))
                flags = os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW
                descriptor = _close_later(opened, os.open(part, flags, dir_fd=descriptor))
            yield descriptor
        except BaseException:
            for parent, part in reversed(created):
                with contextlib.suppress(OSError):
                    os.rmdir(part, dir_fd=parent)
            raise


def _close_later(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def load(folder: int, name: str, label: str) -> LoadedFile:
    """Return the regular file `name` in `folder`. Raise `Refused` for anything else, `OSError` if reading fails."""
    # Without O_NONBLOCK, opening a pipe would wait for its other end.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_FOLLOW, dir_fd=folder)
    try:
        info = os.fstat(descriptor)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder")
        if not stat.S_ISREG(info.st_mode):
            raise Refused(f"{label} is a device, pipe or socket, not a file")
        if info.st_size > MAX_FILE_BYTES:
            raise Refused(
                f"{label} is {info.st_size:,} bytes large, more than can be read at once; use grep or the shell"
            )
        chunks = []
        while chunk := os.read(descriptor, _CHUNK):
            chunks.append(chunk)
    finally:
        os.close(descriptor)
    data = b"".join(chunks)
    snapshot = Snapshot(info.st_ino, info.st_mtime_ns, info.st_size, hashlib.sha256(data).digest())
    owner = FileOwner(info.st_uid, info.st_gid)
    return LoadedFile(data, snapshot, stat.S_IMODE(info.st_mode), owner, info.st_nlink)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Lines of a large file, with their endings."""

    lines: list[bytes]
    size: int
    """The size of the file in bytes."""
    is_end: bool
    """No line follows."""


def load_lines(folder: int, name: str, label: str, first: int, count: int, max_bytes: int) -> FileSlice:
    """Return up to `count` lines, starting at line `first` (from 1), without reading the whole file.

    Reading stops after `max_bytes`. Raise `Refused` if it is not a regular file, `OSError` if reading fails.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_FOLLOW, dir_fd=folder)
    with os.fdopen(descriptor, "rb", buffering=_CHUNK) as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise Refused(f"{label} is a device, pipe or socket, not a file")
        lines: list[bytes] = []
        size = 0
        number = 1
        while line := file.readline(_CHUNK):
            if number >= first:
                lines.append(line)
                size += len(line)
                if len(lines) == count or size > max_bytes:
                    return FileSlice(lines, info.st_size, file.tell() == info.st_size)
            number += 1
    return FileSlice(lines, info.st_size, True)


def replace_file(
    folder: int, name: str, data: bytes, old: LoadedFile | None, label: str, *, like: LoadedFile | None = None
) -> Snapshot:
    """Replace `old` with `data`, or create a new file if `old` is None; return its new state.

    A new file gets the mode and owner of `like`. Raise `Refused` if the file no longer matches `old`. At every moment
    either the complete old file or the complete new file exists; after a failure it is the old one.
    """
    try:
        with _unnamed_file(folder) as descriptor:
            _write_content(descriptor, folder, name, data, old, like)
            _check_unchanged(folder, name, old, label)
            _link_unnamed(descriptor, folder, name, old, label)
    except _NoUnnamedFilesError:
        _replace_by_name(folder, name, data, old, label, like)
    os.fsync(folder)
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return Snapshot(info.st_ino, info.st_mtime_ns, info.st_size, hashlib.sha256(data).digest())


def remove_file(folder: int, name: str, old: LoadedFile, label: str) -> None:
    """Delete the file. Raise `Refused` if it no longer matches `old`."""
    _check_unchanged(folder, name, old, label)
    os.unlink(name, dir_fd=folder)
    os.fsync(folder)


def set_mode(folder: int, name: str, mode: int, old: LoadedFile, label: str) -> None:
    """Set the permission bits of the file. Raise `Refused` if it no longer matches `old`."""
    _check_unchanged(folder, name, old, label)
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_FOLLOW, dir_fd=folder)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def read_link(folder: int, name: str) -> bytes | None:
    """Return the target of the symbolic link `name`, None if it is not a link or does not exist."""
    try:
        return os.fsencode(os.readlink(name, dir_fd=folder))
    except OSError:
        return None


def replace_link(
    folder: int,
    name: str,
    old: LoadedFile | bytes | None,
    label: str,
    *,
    link: bytes | None = None,
    file: NewFile | None = None,
) -> None:
    """Replace `old` with a symbolic link to `link` or with `file`; without either, delete it.

    `old` is a loaded file, the target of a link, or None for a new entry. Raise `Refused` if the entry has changed
    since. At every moment, either the old or the new entry exists.
    """
    temporary = _temporary(name)
    try:
        if link is not None:
            os.symlink(link, temporary, dir_fd=folder)
        elif file is not None:
            replace_file(folder, temporary, file.data, old=None, label=label)
            os.chmod(temporary, file.mode, dir_fd=folder)
        if isinstance(old, bytes) and read_link(folder, name) != old:
            raise Refused(f"{label} was changed by another program; nothing was written")
        if not isinstance(old, bytes):
            _check_unchanged(folder, name, old, label)
        if link is None and file is None:
            os.unlink(name, dir_fd=folder)
        else:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _unlink_quietly(folder, temporary)
        raise
    os.fsync(folder)


class _NoUnnamedFilesError(Exception):
    """The file system does not support unnamed files (O_TMPFILE), or cannot link them."""


@contextlib.contextmanager
def _unnamed_file(folder: int) -> Iterator[int]:
    """Yield a new unnamed file (O_TMPFILE), which leaves nothing behind if the program is killed."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag or not Path("/proc/self/fd").exists():
        raise _NoUnnamedFilesError
    try:
        descriptor = os.open(".", os.O_WRONLY | flag | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise _NoUnnamedFilesError from None
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _link_unnamed(descriptor: int, folder: int, name: str, old: LoadedFile | None, label: str) -> None:
    """Give the unnamed file its name, which replaces `old`. Raise `Refused` if a new name exists already."""
    temporary = name if old is None else _temporary(name)
    try:
        os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=folder, follow_symlinks=True)
    except FileExistsError:
        raise Refused(f"{label} was created by another program; read it first. Nothing was written") from None
    except OSError as error:
        if error.errno in (*_NO_HARD_LINKS, errno.ENOENT):
            raise _NoUnnamedFilesError from None
        raise
    if old is not None:
        try:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _unlink_quietly(folder, temporary)
            raise


def _replace_by_name(
    folder: int, name: str, data: bytes, old: LoadedFile | None, label: str, like: LoadedFile | None
) -> None:
    """Replace or create a file through a named temporary file, if the file system has no unnamed files."""
    temporary = _temporary(name)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        # Private until `_write_content` gives it the mode of another file; otherwise the umask decides.
        mode = 0o666 if old is None and like is None else 0o600
        descriptor = os.open(temporary, flags, mode, dir_fd=folder)
        try:
            _write_content(descriptor, folder, name, data, old, like)
        finally:
            os.close(descriptor)
        _check_unchanged(folder, name, old, label)
        if old is None:
            _link_new(folder, temporary, name, label)
        else:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _unlink_quietly(folder, temporary)
        raise


def _temporary(name: str) -> str:
    """Return a new name for a temporary file beside `name`."""
    return f".{name[:80]}.{os.urandom(6).hex()}.qcode-tmp"


def _unlink_quietly(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _write_content(
    descriptor: int, folder: int, name: str, data: bytes, old: LoadedFile | None, like: LoadedFile | None
) -> None:
    """Write `data` and the attributes that a replacement keeps, and sync them to disk."""
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]
    source = old or like
    if source is not None:
        info = os.fstat(descriptor)
        if FileOwner(info.st_uid, info.st_gid) != source.owner:
            os.fchown(descriptor, source.owner.user_id, source.owner.group_id)
        os.fchmod(descriptor, source.mode)
    if old is not None:
        _copy_attributes(folder, name, descriptor)
    os.fsync(descriptor)


def _copy_attributes(folder: int, name: str, target: int) -> None:
    """Copy extended attributes, including access control lists, as far as the system permits."""
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):
        source = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_FOLLOW, dir_fd=folder)
        try:
            for attribute in os.listxattr(source):
                with contextlib.suppress(OSError):
                    os.setxattr(target, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)


def _check_unchanged(folder: int, name: str, old: LoadedFile | None, label: str) -> None:
    """Raise `Refused` unless the file is still `old`, or still missing if `old` is None."""
    try:
        current = load(folder, name, label)
    except FileNotFoundError:
        if old is None:
            return
        raise Refused(f"{label} was deleted by another program; nothing was written") from None
    if old is None:
        raise Refused(f"{label} was created by another program; read it first. Nothing was written")
    if current.snapshot != old.snapshot:
        raise Refused(f"{label} was changed by another program; read it again. Nothing was written")


def _link_new(folder: int, temporary: str, name: str, label: str) -> None:
    """Rename a new file to `name`. Raise `Refused` if another program has created a file of this name meanwhile."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise Refused(f"{label} was created by another program; read it first. Nothing was written") from None
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _check_unchanged(folder, name, old=None, label=label)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    os.unlink(temporary, dir_fd=folder)


def explain(error: OSError, label: str) -> str:
    """Return a one-line message for a failed system call on the file shown as `label`."""
    messages = {
        errno.ENOENT: "does not exist",
        errno.ENOTDIR: "contains a component that is not a folder",
        errno.EISDIR: "is a folder",
        errno.EACCES: "is not accessible (permission denied)",
        errno.EPERM: "may not be changed (operation not permitted)",
        errno.EROFS: "is on a read-only file system",
        errno.ENOSPC: "could not be written: the disk is full",
        errno.EDQUOT: "could not be written: the disk quota is used up",
        errno.EFBIG: "could not be written: it would be larger than this system allows (file size limit)",
        errno.ETXTBSY: "is a program that is running",
        errno.ELOOP: "contains a link that changed or loops",
        errno.ENAMETOOLONG: "has a name that is too long",
        errno.EXDEV: "is on another device",
    }
    code = error.errno or 0
    problem = messages.get(code) or f"failed: {os.strerror(code)}"
    return f"{label} {problem}"
