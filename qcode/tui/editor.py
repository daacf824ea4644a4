"""Writes a prompt in the person's own editor: a private file, their program, and what came of it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

_USUAL = ("nano", "vim", "vi")
_LARGEST = 16 * 1024 * 1024


class EditorError(Exception):
    """The editor could not be used, or gave nothing; the text is one line for a person."""


def editor_command(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the program and its arguments: `VISUAL`, then `EDITOR`, then a usual one that is installed."""
    for name in ("VISUAL", "EDITOR"):
        value = env.get(name, "").strip()
        if not value:
            continue
        try:
            return tuple(shlex.split(value))
        except ValueError:
            raise EditorError(f"{name} cannot be read: a quote in it is not closed") from None
    found = next((program for program in _USUAL if shutil.which(program, path=env.get("PATH"))), None)
    if found is None:
        raise EditorError("no editor was found: set VISUAL or EDITOR to the one you use")
    return (found,)


def edit_text(text: str, command: tuple[str, ...]) -> str:
    """Return what the person made of `text`; blocks until the editor ends. Raise `EditorError` where it failed.

    The file lies in a folder of its own that only the person can read, and is removed in any case.
    """
    with tempfile.TemporaryDirectory(prefix="qcode-") as folder:
        path = Path(folder, "prompt.md")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        problem = _run(path, command)
        if problem:
            raise EditorError(f"{problem}; the prompt is as it was")
        return _read(path)


def edit_in_place(path: str, command: tuple[str, ...]) -> str:
    """Open a file in the editor and return when that has ended: what went wrong as one line, empty for nothing."""
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"{path} cannot be made: {error.strerror}"
    return _run(Path(path), command)


def _run(path: Path, command: tuple[str, ...]) -> str:
    """Run the editor to its end; return what went wrong, empty for nothing."""
    try:
        code = subprocess.run((*command, str(path)), check=False).returncode
    except OSError as error:
        return f"{command[0]} could not be started: {os.strerror(error.errno or 0)}"
    if code == 0:
        return ""
    return f"{command[0]} " + (f"was ended by signal {-code}" if code < 0 else f"ended with code {code}")


def _read(path: Path) -> str:
    """Return the text of the file as it is now, without the line end that editors add."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EditorError(f"what was written cannot be read: {error.strerror}; the prompt is as it was") from None
    if len(data) > _LARGEST:
        raise EditorError("what was written is larger than 16 MiB; the prompt is as it was")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EditorError("what was written is not UTF-8 text; the prompt is as it was") from None
    return text.replace("\r\n", "\n").removesuffix("\n")
