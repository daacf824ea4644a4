"""Reads the hooks in a settings file of Claude Code, without converting them.

Format: https://code.claude.com/docs/en/hooks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qcode.text.clean import visible_line
from qcode.values import dataclass

MAX_SETTINGS_BYTES = 1024 * 1024


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
    """A line `file:line: problem` for each invalid entry."""


def read_claude_hooks(file: Path) -> ClaudeHooks:
    """Return the hooks of a settings file of Claude Code; empty if the file does not exist."""
    try:
        text = _read_text(file)
    except ValueError as error:
        return ClaudeHooks(problems=(f"{file}:1: {error}; its hooks do not run",))
    if text is None:
        return ClaudeHooks()
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        return ClaudeHooks(problems=(f"{file}:{line}: is not valid JSON; its hooks do not run",))
    events = values.get("hooks", {}) if isinstance(values, dict) else None
    if not isinstance(events, dict):
        problem = "`hooks` must be an object" if isinstance(values, dict) else "settings must be a JSON object"
        line = _line_of("hooks", text, 0) if isinstance(values, dict) else 1
        return ClaudeHooks(problems=(f"{file}:{line}: {problem}; its hooks do not run",))
    hooks: list[ClaudeHook] = []
    problems: list[str] = []
    for entry in _hooks_and_problems(events, text):
        if isinstance(entry, ClaudeHook):
            hooks.append(entry)
        else:
            line, problem = entry
            problems.append(f"{file}:{line}: {visible_line(problem, 200)}; it does not run")
    return ClaudeHooks(tuple(hooks), tuple(problems))


def _read_text(file: Path) -> str | None:
    """Return the text of a settings file, None if it does not exist; raise `ValueError` with one line."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    try:
        with os.fdopen(handle, "rb") as stream:
            data = stream.read(MAX_SETTINGS_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    if len(data) > MAX_SETTINGS_BYTES:
        raise ValueError(f"is larger than {MAX_SETTINGS_BYTES // 1024**2} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None


def _hooks_and_problems(events: Mapping[str, Any], text: str) -> Iterator[ClaudeHook | tuple[int, str]]:
    """Yield each hook; for each invalid entry, yield the line number of its event, and the problem."""
    start = text.find('"hooks"')
    for event, groups in events.items():
        line = _line_of(event, text, start)
        if not isinstance(groups, list):
            yield line, f"hooks.{event} must be a list"
            continue
        for group_index, group in enumerate(groups):
            hooks = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(hooks, list):
                problem = "must be an object" if not isinstance(group, dict) else "must have a list `hooks`"
                yield line, f"hooks.{event}[{group_index}] {problem}"
                continue
            for hook_index, hook in enumerate(hooks):
                if isinstance(hook, dict):
                    yield ClaudeHook(event, group, hook, line)
                else:
                    yield line, f"hooks.{event}[{group_index}].hooks[{hook_index}] must be an object"


def _line_of(key: str, text: str, start: int) -> int:
    """Return the number of the line with the first such key after the offset `start`.

    Return 1 if the key is not found, for example because the file writes it with \\u escapes.
    """
    # The colon distinguishes a key from an equal value, such as "matcher": "Stop" before the key "Stop".
    pattern = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:")
    match = pattern.search(text, max(0, start))
    return text.count("\n", 0, match.start()) + 1 if match else 1
