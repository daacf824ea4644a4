"""Applies an edit to a text: finds the one passage it means, by its text and then by other readings of it. Pure.

Where it is not clear which passage is meant, nothing is changed, and the refusal says what would make it clear.
"""

from __future__ import annotations

from collections.abc import Sequence

from qcode.protocol.values import dataclass
from qcode.tools.nearest import describe_nearest
from qcode.tools.passages import Found, Passage, find, lines_of
from qcode.tools.refusal import Refused
from qcode.tools.spellings import readings

_SHOWN_MATCHES = 10
_SHOWN_LINE = 120


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after an edit, the lines (from 1) where passages began, and a note where the match was not exact."""

    text: str
    lines: tuple[int, ...]
    note: str = ""


def apply(text: str, old: str, new: str, shown: str, *, replaces_all: bool = False) -> Edited:
    """Return `text` with `old` replaced by `new`; raise `Refused` where `old` is not there, or not only once."""
    if not old:
        raise Refused("old_text is empty; use write to make a file, or give the passage to replace")
    if old == new:
        raise Refused("old_text and new_text are the same: there is nothing to change")
    found, note = search(text, old, new)
    if not found.passages:
        raise Refused(describe_nearest(text, old, new, shown))
    lines = tuple(lines_of(text, (passage.start for passage in found.passages)))
    if len(lines) > 1 and not replaces_all:
        raise Refused(_ambiguous(text, lines, shown, note))
    return Edited(replace(text, found.passages), lines, note)


def search(text: str, old: str, new: str) -> tuple[Found, str]:
    """Return where `old` is and a note on how it was found; with other readings where the text itself is not there."""
    found = find(text, old, new)
    if found.passages:
        return found, f"Note: matched ignoring {found.ignored}." if found.ignored else ""
    for reading in readings(old, new):
        found = find(text, reading.old, reading.new)
        numbers = lines_of(text, (one.start for one in found.passages))
        at_line = tuple(one for one, line in zip(found.passages, numbers, strict=True) if line == reading.line)
        if found.passages:
            ignored = f", ignoring {found.ignored}" if found.ignored else ""
            return Found(at_line or found.passages, found.ignored), f"Note: matched {reading.what}{ignored}."
    return Found(), ""


def replace(text: str, passages: Sequence[Passage]) -> str:
    """Return `text` with every passage replaced; they are in order and do not overlap."""
    parts, end = [], 0
    for passage in passages:
        parts += [text[end : passage.start], passage.new]
        end = passage.end
    return "".join([*parts, text[end:]])


def _ambiguous(text: str, lines: Sequence[int], shown: str, note: str) -> str:
    listed = ", ".join(map(str, lines[:_SHOWN_MATCHES])) + (", ..." if len(lines) > _SHOWN_MATCHES else "")
    present = text.split("\n")
    around = "\n".join(
        f"{number:>6}\t{present[number - 1][:_SHOWN_LINE]}"
        for line in lines[:_SHOWN_MATCHES]
        for number in (line - 1, line)
        if number
    )
    how = f" ({note.removeprefix('Note: ').removesuffix('.')})" if note else ""
    return (
        f"old_text is in {shown} {len(lines)} times, at lines {listed}{how}: add lines around it until it is unique, "
        f"or set replace_all. Nothing was changed. Each place with the line before it:\n{around}"
    )
