"""Reads the hooks in a settings file of Claude Code, without converting them.

Format: https://code.claude.com/docs/en/hooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcode.config.load import read_config_text
from qcode.protocol.errors import ConfigError
from qcode.text.clean import visible_line
from qcode.values import dataclass


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
        text = read_config_text(file, must_exist=False)
    except ConfigError as error:
        return ClaudeHooks(problems=(f"{error}; its hooks do not run",))
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
    return _valid_hooks(events, text, file)


def _valid_hooks(events: Mapping[str, Any], text: str, file: Path) -> ClaudeHooks:
    """Return the hooks of `events`, the value of the key `hooks` in `text`, and a problem for each invalid entry."""
    hooks: list[ClaudeHook] = []
    problems: list[str] = []
    start = text.find('"hooks"')
    for event, groups in events.items():
        line = _line_of(event, text, start)

        def report(problem: str, line: int = line) -> None:
            problems.append(f"{file}:{line}: {visible_line(f'hooks.{problem}', 200)}; it does not run")

        if not isinstance(groups, list):
            report(f"{event} must be a list")
            continue
        for group_index, group in enumerate(groups):
            group_hooks = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(group_hooks, list):
                problem = "must be an object" if not isinstance(group, dict) else "must have a list `hooks`"
                report(f"{event}[{group_index}] {problem}")
                continue
            for hook_index, hook in enumerate(group_hooks):
                if isinstance(hook, dict):
                    hooks.append(ClaudeHook(event, group, hook, line))
                else:
                    report(f"{event}[{group_index}].hooks[{hook_index}] must be an object")
    return ClaudeHooks(tuple(hooks), tuple(problems))


def _line_of(key: str, text: str, start: int) -> int:
    """Return the number of the line with the first such key after the offset `start`.

    Return 1 if the key is not found, for example because the file writes it with \\u escapes.
    """
    # The colon distinguishes a key from an equal value, such as "matcher": "Stop" before the key "Stop".
    pattern = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:")
    match = pattern.search(text, max(0, start))
    return text.count("\n", 0, match.start()) + 1 if match else 1
