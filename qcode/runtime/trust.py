"""Which folders a person trusts, kept across runs in one file of the state folder.

A folder is known by its real path together with its device and inode: what is put in its place later is not trusted,
and trust in a folder says nothing about a repository inside it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from qcode.protocol.json import JsonObject, parse_object
from qcode.runtime.own_file import read_own, write_own

FILE_NAME = "trust.json"

_VERSION = 1


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
        write_own(self.path, {"version": _VERSION, "folders": [*others, identity]})

    def _folders(self) -> list[JsonObject]:
        stored = parse_object(read_own(self.path)) or {}
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
