"""The folder a run works in."""

from __future__ import annotations

import os
from pathlib import Path

from qcode.cli.failure import StartError


def working_folder(cwd: Path | None) -> Path:
    """Change to the folder a run works in and return it; raise `StartError` where that cannot be."""
    try:
        if cwd is not None:
            os.chdir(cwd)
        return Path.cwd()
    except OSError as error:
        raise StartError(f"cannot work in {cwd or 'the current folder'}: {error.strerror}", 42) from None


def short(folder: Path) -> str:
    """Return a folder as a person writes it, from `~` where it is in the home."""
    try:
        return f"~/{folder.relative_to(Path.home())}".removesuffix("/.")
    except (ValueError, RuntimeError):
        return str(folder)
