"""Small private files of the state folder that decide what is trusted: atomic replacement, safe reading.

A file that another user could have written is not read.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from qcode.text.json import JsonObject

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_own(path: Path) -> str:
    """Return the text of a file that belongs to this user and that nobody else may write, else nothing."""
    try:
        handle = os.open(path, _OPEN)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(file.fileno())
        is_own = state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(state.st_mode) or not is_own:
            return ""
        try:
            return file.read().decode("ascii")
        except (OSError, UnicodeDecodeError):
            return ""


def write_own(path: Path, value: JsonObject) -> None:
    """Put `value` in the place of the file, all of it or nothing; raise `OSError` where that cannot be."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            json.dump(value, file, indent=1)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
