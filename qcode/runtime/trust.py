"""Which folders a person trusts, kept across runs in one file of the state folder.

A folder is known by its real path together with its device and inode: what is put in its place later is not trusted,
and trust in a folder says nothing about a repository inside it.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qcode.protocol.json import JsonObject, parse_object

FILE_NAME = "trust.json"

_VERSION = 1
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The trusted folders. What cannot be read, or could have been written by others, trusts nothing."""

    state_dir: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    def is_trusted(self, root: Path) -> bool:
        """Return whether the person trusted exactly this folder, and it still is the one they trusted."""
        identity = _identity(root)
        return identity is not None and identity in self._folders()

    def remember(self, root: Path) -> None:
        """Trust this folder from now on. Raise `OSError` where that cannot be kept."""
        identity = _identity(root)
        if identity is None:
            raise FileNotFoundError(2, os.strerror(2), str(root))
        others = [one for one in self._folders() if one["path"] != identity["path"]]
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.state_dir, prefix=".trust-")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                json.dump({"version": _VERSION, "folders": [*others, identity]}, file, indent=1)
            Path(name).replace(self.path)
        except OSError:
            with suppress(OSError):
                Path(name).unlink()
            raise

    def _folders(self) -> list[JsonObject]:
        stored = parse_object(_read_own(self.path)) or {}
        rows = stored.get("folders") if stored.get("version") == _VERSION else None
        return [
            row
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict) and set(row) == {"path", "device", "inode"}
        ]


def _identity(root: Path) -> JsonObject | None:
    try:
        real = root.resolve(strict=True)
        state = real.stat()
    except (OSError, RuntimeError):
        return None
    return {"path": str(real), "device": state.st_dev, "inode": state.st_ino}


def _read_own(path: Path) -> str:
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
