"""Reads the hooks in a settings file of Claude Code, without converting them.

Form: https://code.claude.com/docs/en/hooks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MAX_SETTINGS = 1024 * 1024


def read_claude_hooks(file: Path) -> Mapping[str, Any]:
    """Return the `hooks` of a settings file of Claude Code, empty without the file; raise `ValueError` in one line."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    try:
        with os.fdopen(handle, "rb") as stream:
            data = stream.read(MAX_SETTINGS + 1)
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    if len(data) > MAX_SETTINGS:
        raise ValueError("is larger than 1 MiB")
    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("is not valid JSON") from None
    found = values.get("hooks", {}) if isinstance(values, dict) else None
    if not isinstance(found, dict):
        raise ValueError("`hooks` must be an object")
    return found


def claude_hooks(groups: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the event, the group with the matcher, and each hook; parts of another form are left out."""
    for event, rows in groups.items():
        for group in rows if isinstance(rows, list) else []:
            hooks = group.get("hooks") if isinstance(group, dict) else None
            for hook in hooks if isinstance(hooks, list) else []:
                if isinstance(hook, dict):
                    yield event, group, hook
