"""Undo history in the steps of vim: a command, or everything between entering and leaving insert mode. Pure.

Separate from `machine`, because it also records changes made outside vim mode.
"""

from __future__ import annotations

from typing import NamedTuple

from qcode.tui.prompt.vim.motions import first_non_blank, line_start
from qcode.values import dataclass

MAX_STEPS = 500
"""The maximum number of changes that can be undone."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A change: `old` at `start` became `new`."""

    start: int
    old: str
    new: str
    cursor: int
    """The position of the cursor before the change."""


@dataclass(frozen=True, slots=True)
class RestoredText:
    """A text after undo or redo."""

    text: str
    cursor: int
    """The position of normal mode's cursor at the change."""
    end: int
    """The end of the change."""


class UndoHistory:
    """The changes of one text, oldest first. Call `record` with the text before and after every command."""

    def __init__(self) -> None:
        self._text = ""
        self._cursor = 0
        self._undo_steps: list[_Step] = []
        self._redo_steps: list[_Step] = []

    def begin(self, text: str, cursor: int) -> None:
        self._text = text
        self._cursor = cursor

    def record(self, text: str, cursor: int) -> None:
        """Record the difference from the text of the last call as one step, if there is a difference."""
        if text != self._text:
            start, old, new = difference(self._text, text)
            self._undo_steps = [*self._undo_steps[-MAX_STEPS + 1 :], _Step(start, old, new, self._cursor)]
            self._redo_steps = []
        self._text = text
        self._cursor = cursor

    def set_undo_cursor(self, cursor: int) -> None:
        """Set the position of the cursor after an undo of the next change."""
        self._cursor = cursor

    def undo(self) -> RestoredText | None:
        if not self._undo_steps:
            return None
        step = self._undo_steps.pop()
        self._redo_steps.append(step)
        return self._restore(step, step.new, step.old)

    def redo(self) -> RestoredText | None:
        if not self._redo_steps:
            return None
        step = self._redo_steps.pop()
        self._undo_steps.append(step)
        return self._restore(step, step.old, step.new)

    def _restore(self, step: _Step, current: str, restored: str) -> RestoredText:
        text = self._text[: step.start] + restored + self._text[step.start + len(current) :]
        change_start = min(step.start, len(text))
        old_cursor = min(step.cursor, len(text))
        # The change may have added or removed the line break right before or after it, so both lines count as its line.
        line_before = line_start(text, max(0, change_start - 1))
        line_after = line_start(text, min(len(text), change_start + 1))
        is_in_changed_line = line_start(text, old_cursor) in (line_before, line_after)
        self._text = text
        self._cursor = old_cursor if is_in_changed_line else first_non_blank(text, change_start)
        return RestoredText(self._text, self._cursor, step.start + len(restored))


class Difference(NamedTuple):
    """The part in which two texts differ."""

    start: int
    old: str
    new: str


def difference(old: str, new: str) -> Difference:
    """Return the difference of two texts: `one two` and `one three` differ at 5 in `wo` and `hree`."""
    start = _common_length(old, new)
    old_rest, new_rest = old[start:], new[start:]
    end = _common_length(old_rest[::-1], new_rest[::-1])
    return Difference(start, old_rest[: len(old_rest) - end], new_rest[: len(new_rest) - end])


def _common_length(text: str, other: str) -> int:
    """Return the length of the common start of two texts, by bisection: comparing slices is fast."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
