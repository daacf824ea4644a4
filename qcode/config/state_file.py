"""Private state files of qcode: trusted only if no other user could have written them, replaced atomically.

All state goes through here, except session files, which have their own format and locks (`agent.sessions.file`).
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal, TextIO

from qcode.text.json import JsonObject, parse_object

PRIVATE = 0o600
"""The mode of a file that only this user can read and write."""
# A link could lead to a file of another user, and opening a pipe would wait for its writer.
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read(path: Path) -> bytes:
    """Return the content of a file that only this user can write, empty bytes for any other."""
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except OSError:
        return b""
    try:
        info = os.fstat(descriptor)
        is_private = info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(info.st_mode) or not is_private:
            return b""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def load_json(path: Path) -> JsonObject:
    """Return the JSON object in a file, empty if there is none or if another user could have written the file."""
    try:
        return parse_object(read(path).decode("utf-8")) or {}
    except UnicodeDecodeError:
        return {}


def save_json(path: Path, value: JsonObject) -> None:
    """Replace the file by `value`. Raise `OSError`; the file is then unchanged."""
    replace(path, json.dumps(value, indent=1).encode("ascii"))


def replace(path: Path, content: bytes, *, mode: int = PRIVATE, is_synced: bool = False) -> None:
    """Replace the file, which need not exist, by `content`. Raise `OSError`; the file is then unchanged.

    A missing folder is created. With `is_synced`, the content is on the disk when the function returns.
    """
    from tempfile import mkstemp  # takes 3 ms to load, and most starts write nothing before the first paint

    create_private_folder(path.parent)
    descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode != PRIVATE:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def create_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, all for the owner only; existing folders are not changed.

    `Path.mkdir(parents=True)` applies its mode to the last folder only: `state/qcode/drafts` would leave `state/qcode`
    readable by other users.
    """
    if not folder.parent.exists():
        create_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_private(path: Path, mode: Literal["w", "a"]) -> TextIO:
    """Open a file named by the user, to replace or extend its text; only its owner can read it. Raise `OSError`.

    Characters that UTF-8 cannot encode are escaped.
    """
    position = os.O_APPEND if mode == "a" else os.O_TRUNC
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | position, PRIVATE)
    try:
        # An earlier file may be readable by others. A device such as /dev/stderr keeps its mode.
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, PRIVATE)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode, encoding="utf-8", errors="backslashreplace")


def append(path: Path, line: bytes) -> None:
    """Append one line to a file, and create the file if it is missing. Raise `OSError`."""
    create_private_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
