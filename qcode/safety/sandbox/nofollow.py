"""File operations that never follow a symbolic link, for `guard`.

Commands may still run while `guard` moves and writes files, and may replace a folder by a link. So each folder on the
way to a file is opened without following links, and the file is accessed through its open parent folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

MAX_COPIED_BYTES = 256 * 1024 * 1024
"""The maximum number of bytes that are moved to another file system."""
MAX_COPIED_ENTRIES = 20_000
"""The maximum number of files and folders that are moved to another file system."""
# Flags of open(2) for a folder, a file to read and a new file.
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_parent(path: str) -> Iterator[tuple[int, str]]:
    """Yield the open parent folder and the name of an absolute path; raise `OSError` if a component is a link."""
    *folders, name = path.split("/")[1:]
    descriptor = os.open("/", _FOLDER_FLAGS)
    try:
        for folder in folders:
            child = os.open(folder, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
        yield descriptor, name
    finally:
        os.close(descriptor)


def move(path: str, new_path: str) -> None:
    """Move a file, link or folder to a new path; raise `OSError` on failure."""
    with opened_parent(path) as (source, name), opened_parent(new_path) as (target, new_name):
        try:
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            try:
                _Copy().copy(source, name, target, new_name)
            except OSError:
                with contextlib.suppress(OSError):
                    _remove(target, new_name)
                raise
            _remove(source, name)


def read(path: str, max_bytes: int) -> bytes:
    """Return the first `max_bytes` bytes of a regular file."""
    with opened_parent(path) as (folder, name):
        descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            return file.read(max_bytes)


def write_new(path: str, content: bytes, mode: int) -> None:
    """Write a file that does not exist yet."""
    with opened_parent(path) as (folder, name):
        _write_content(os.open(name, _WRITE_FLAGS, 0o600, dir_fd=folder), content, mode)


def link_new(path: str, text: str) -> None:
    """Create a link that does not exist yet."""
    with opened_parent(path) as (folder, name):
        os.symlink(text, name, dir_fd=folder)


def make_folder(path: str) -> None:
    """Create a folder that only this user can enter, unless it exists. Raise `OSError` if the path is a link."""
    with opened_parent(path) as (folder, name):
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            os.close(os.open(name, _FOLDER_FLAGS, dir_fd=folder))


class _Copy:
    """One copy operation for a file or a folder, with limits on its size."""

    def __init__(self) -> None:
        self._bytes = 0
        self._entries = 0

    def copy(self, source: int, name: str, target: int, new_name: str) -> None:
        """Copy an entry of the open folder `source` to the open folder `target`, under a new name."""
        self._entries += 1
        if self._entries > MAX_COPIED_ENTRIES:
            raise OSError(errno.EFBIG, "too many files")
        info = os.lstat(name, dir_fd=source)
        if stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)
        elif stat.S_ISDIR(info.st_mode):
            self._copy_folder(source, name, target, new_name)
        elif stat.S_ISREG(info.st_mode):
            with os.fdopen(os.open(name, _READ_FLAGS, dir_fd=source), "rb") as file:
                self._bytes += os.fstat(file.fileno()).st_size
                if self._bytes > MAX_COPIED_BYTES:
                    raise OSError(errno.EFBIG, "too large")
                content = file.read(MAX_COPIED_BYTES + 1)
            _write_content(
                os.open(new_name, _WRITE_FLAGS, 0o600, dir_fd=target), content, stat.S_IMODE(info.st_mode) | 0o600
            )
        # A pipe, socket or device has no content to keep.

    def _copy_folder(self, source: int, name: str, target: int, new_name: str) -> None:
        os.mkdir(new_name, 0o700, dir_fd=target)
        inner, new_folder = os.open(name, _FOLDER_FLAGS, dir_fd=source), os.open(new_name, _FOLDER_FLAGS, dir_fd=target)
        try:
            for entry in os.listdir(inner):  # noqa: PTH208  # an open folder has no path
                self.copy(inner, entry, new_folder, entry)
        finally:
            os.close(inner)
            os.close(new_folder)


def _remove(folder: int, name: str) -> None:
    if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _write_content(descriptor: int, content: bytes, mode: int) -> None:
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
