"""The search for the positions of a patch's hunks in a text, in order, and their application. Pure.

This module loads with the first patch. A hunk is located by its lines and by the anchors before it. If several
positions match and no anchor selects one, the patch is refused: a change at the wrong position is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from qcode.protocol.tools import Refused
from qcode.text.clean import quoted
from qcode.text.patch import Hunk
from qcode.tools.editing.match import Passage, PassageMatches, find_line, find_lines, line_of
from qcode.tools.editing.nearest import describe_nearest
from qcode.tools.editing.normalize import readings
from qcode.values import dataclass

_NAME = "the hunk"
_MAX_SHOWN_POSITIONS = 10


@dataclass(frozen=True, slots=True)
class PatchResult:
    """The text of one file after its hunks were applied."""

    text: str
    """The whole text after all hunks."""
    notes: tuple[str, ...] = ()
    """A line for each hunk that did not match exactly."""


def apply_hunks(text: str, hunks: Sequence[Hunk], label: str) -> PatchResult:
    """Return `text` with every hunk applied. Raise `Refused` if a hunk has no position, or more than one."""
    notes: list[str] = []
    offset = 0
    for number, hunk in enumerate(hunks, start=1):
        name = f"Hunk {number} of {len(hunks)}" if len(hunks) > 1 else "The hunk"
        try:
            located = _locate(text, hunk, offset, label)
        except Refused as refused:
            raise Refused(f"{name} for {label}: {refused}") from None
        passage = located.passage
        text = text[: passage.start] + passage.new + text[passage.end :]
        offset = passage.start + len(passage.new)
        if located.note:
            notes.append(f"{name} for {label}: {located.note}")
    return PatchResult(text, tuple(notes))


class _LocatedHunk(NamedTuple):
    """The position of a hunk in a text."""

    passage: Passage
    note: str = ""
    """How the match differs from the hunk, empty if it does not."""


class _SearchStart(NamedTuple):
    """The offset from which a hunk is searched."""

    offset: int
    is_anchored: bool
    """An anchor of the hunk is directly before the offset."""


def _locate(text: str, hunk: Hunk, offset: int, label: str) -> _LocatedHunk:
    """Return the position of a hunk at or after `offset`. Raise `Refused` if there is none, or more than one."""
    start, is_anchored = _after_anchors(text, hunk, offset, label)
    if not hunk.old:
        return _LocatedHunk(_insertion(text, hunk, start if is_anchored else len(text)))
    old, new = "\n".join(hunk.old), "\n".join(hunk.new)
    matches = _search(text[start:], hunk)
    if not matches.passages and start > 0:
        # Models also list hunks in another order than the file, and name lines that are not before the hunk.
        start, is_anchored = 0, False
        matches = _search(text, hunk)
    positions = matches.passages
    if not positions:
        raise Refused(describe_nearest(text, old, new, label, _NAME))
    if hunk.is_at_end:
        at_end = tuple(position for position in positions if not text[start + position.end :].strip("\n"))
        positions = at_end or positions
    if len(positions) > 1 and not is_anchored:
        lines = ", ".join(str(line_of(text, start + position.start)) for position in positions[:_MAX_SHOWN_POSITIONS])
        raise Refused(
            f"its lines match {len(positions)} passages, at lines {lines}: add unchanged lines around the change, or "
            "begin the hunk with '@@ ' and the line of the enclosing function or class. Nothing was changed"
        )
    position = positions[0]
    return _LocatedHunk(Passage(start + position.start, start + position.end, position.new), matches.note)


def _search(text: str, hunk: Hunk) -> PassageMatches:
    """Return the positions of a hunk's old lines."""
    old, new = "\n".join(hunk.old), "\n".join(hunk.new)
    if not hunk.new:
        # Removed lines include their line break, except at the end of a file without one.
        matches = _search_readings(text, f"{old}\n", "")
        if matches.passages:
            return matches
    return _search_readings(text, old, new)


def _search_readings(text: str, old: str, new: str) -> PassageMatches:
    """Return the positions of whole lines; try alternative readings of the edit if `old` is not found."""
    matches = find_lines(text, old, new)
    if matches.passages:
        return matches
    for reading in readings(old, new):
        matches = find_lines(text, reading.old, reading.new)
        if matches.passages:
            return replace(matches, reading=reading.label)
    return PassageMatches()


def _after_anchors(text: str, hunk: Hunk, offset: int, label: str) -> _SearchStart:
    """Return the offset after the last anchor that is found; `offset` itself if none is.

    Example: `@@ class Shape:` selects the `def area(self):` after that line, not an earlier one.
    """
    lines = text.split("\n")
    line_index = line_of(text, offset) - 1 if offset else 0
    is_found = False
    for anchor in hunk.anchors:
        index = find_line(lines, anchor, line_index)
        if index is None:
            index = find_line(lines, anchor, 0)
        if index is None and not hunk.is_anchor_optional:
            index = _line_starting_with(anchor, lines, line_index)
            if index is None and not hunk.old:  # nothing else says where to insert the lines
                raise Refused(describe_nearest(text, anchor, "", label, f"the line {quoted(anchor[:60])} after @@"))
        if index is not None:
            is_found = True
            is_first_line_of_hunk = bool(hunk.old) and hunk.old[0].strip() == anchor
            line_index = index if is_first_line_of_hunk else index + 1
    if not is_found:
        return _SearchStart(offset, is_anchored=False)
    end_of_lines_before = sum(len(line) + 1 for line in lines[:line_index])
    return _SearchStart(min(end_of_lines_before, len(text)), is_anchored=True)


def _line_starting_with(anchor: str, lines: Sequence[str], first: int) -> int | None:
    """Return the index of the first line, from `first` on, of which `anchor` is an abbreviation: its start."""
    return next((index for index in range(first, len(lines)) if lines[index].strip().startswith(anchor)), None)


def _insertion(text: str, hunk: Hunk, position: int) -> Passage:
    """Return the position of lines to insert without context: the start of a line, or the end of the file."""
    new = "\n".join(hunk.new)
    if position < len(text) or not text or text.endswith("\n"):
        return Passage(position, position, f"{new}\n")
    return Passage(position, position, f"\n{new}")
