"""Changes a setting in the person's own `config.toml`, checked as if it had been written there by hand.

It never touches a project's file. What a change does to the run that is going on is not its business.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import tomllib
from pathlib import Path

from qcode.config.editing import with_value, without_value
from qcode.config.errors import ConfigError
from qcode.config.kinds import type_words
from qcode.config.layers import KeyPath, checked, read_toml_text
from qcode.config.schema import Key, dotted


def is_changeable(key: Key) -> bool:
    """Tell whether a key is one value in one place; lists and tables are for an editor."""
    return "*" not in key.path and not isinstance(key.default, tuple)


def read_typed(key: Key, typed: str) -> object:
    """Return the value that was typed for a key; raise `ConfigError` in the words of the schema where it is none."""
    if key.path == ("permissions", "mode") and typed.strip() == "bypass":
        raise ConfigError("bypass is no mode for a file; start with --permission-mode bypass")
    tries: list[object] = []
    with contextlib.suppress(tomllib.TOMLDecodeError):
        tries.append(tomllib.loads(f"value = {typed.strip()}")["value"])
    tries.append(typed.strip())
    for value in tries:
        if type_words(value) in ("a table", "a list", "a date or time"):
            continue
        with contextlib.suppress(ConfigError):
            checked(key, key.path, value)
            return value
    checked(key, key.path, tries[0])
    raise ConfigError(f"{dotted(key.path)} must be {key.kind.words}")


def change(file: Path, path: KeyPath, value: object | None) -> None:
    """Set a key in a file, which need not exist; None takes it out. All of it is written or nothing.

    Raise `ConfigError` where the file cannot be read, understood or written.
    """
    text = read_toml_text(file, is_needed=False) or ""
    try:
        changed = without_value(text, path) if value is None else with_value(text, path, value)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", file=file) from None
    except ValueError as error:
        raise ConfigError(str(error), file=file) from None
    if changed == text:
        return
    try:
        _replace(file, changed)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=file) from None


def _replace(file: Path, text: str) -> None:
    """Put `text` in the place of what the file, or what it links to, holds; who may read it stays as it is."""
    target = file.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".config-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        if target.exists():
            Path(name).chmod(target.stat().st_mode & 0o777)
        Path(name).replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
