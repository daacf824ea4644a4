"""Reads the hooks in a settings file of Claude Code, without converting them.

Form: https://code.claude.com/docs/en/hooks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qcode.text.clean import one_line, visible
from qcode.values import dataclass

MAX_SETTINGS = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClaudeHook:
    """A hook of a settings file, as it is written there."""

    event: str
    group: Mapping[str, Any]
    """The object that contains the hook, and has its `matcher`."""
    fields: Mapping[str, Any]
    line: int
    """The line of the event in the file."""


@dataclass(frozen=True, slots=True)
class ClaudeHooks:
    """The hooks of a settings file."""

    hooks: tuple[ClaudeHook, ...] = ()
    problems: tuple[str, ...] = ()
    """A line `file:line: problem` for each part that is not valid."""


def read_claude_hooks(file: Path) -> ClaudeHooks:
    """Return the hooks of a settings file of Claude Code; none if the file does not exist."""
    try:
        text = _read_text(file)
        if text is None:
            return ClaudeHooks()
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = str(error) if type(error) is ValueError else "is not valid JSON"
        return ClaudeHooks((), (f"{file}:{getattr(error, 'lineno', 1)}: {what}; its hooks do not run",))
    groups = values.get("hooks", {}) if isinstance(values, dict) else None
    if not isinstance(groups, dict):
        what = "`hooks` must be an object" if isinstance(values, dict) else "settings must be a JSON object"
        line = _line_of("hooks", text, 0) if isinstance(values, dict) else 1
        return ClaudeHooks((), (f"{file}:{line}: {what}; its hooks do not run",))
    hooks: list[ClaudeHook] = []
    problems: list[str] = []
    for entry in _hooks_and_problems(groups, text):
        if isinstance(entry, ClaudeHook):
            hooks.append(entry)
        else:
            line, problem = entry
            problems.append(f"{file}:{line}: {visible(one_line(problem, 200))}; it does not run")
    return ClaudeHooks(tuple(hooks), tuple(problems))


def _read_text(file: Path) -> str | None:
    """Return the text of a settings file, None if it does not exist; raise `ValueError` in one line."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
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
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None


def _hooks_and_problems(groups: Mapping[str, Any], text: str) -> Iterator[ClaudeHook | tuple[int, str]]:
    """Yield each hook, and for each part that is not valid the line of its event and the problem."""
    start = text.find('"hooks"')
    for event, rows in groups.items():
        line = _line_of(event, text, start)
        if not isinstance(rows, list):
            yield line, f"hooks.{event} must be a list"
            continue
        for row, group in enumerate(rows):
            hooks = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(hooks, list):
                what = "must be an object" if not isinstance(group, dict) else "must have a list `hooks`"
                yield line, f"hooks.{event}[{row}] {what}"
                continue
            for number, hook in enumerate(hooks):
                if isinstance(hook, dict):
                    yield ClaudeHook(event, group, hook, line)
                else:
                    yield line, f"hooks.{event}[{row}].hooks[{number}] must be an object"


def _line_of(key: str, text: str, start: int) -> int:
    """Return the line of a key; 1 if the text spells it with other escapes."""
    offset = text.find(json.dumps(key, ensure_ascii=False), max(0, start))
    return text.count("\n", 0, offset) + 1 if offset >= 0 else 1
