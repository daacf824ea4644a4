"""Finds the positions of a patch's hunks in a text, in order, and applies them. Pure.

Loaded separately from `patch`, with the first patch. A hunk is located by its lines and by the anchors before it. If
several positions match and no anchor decides, it is refused, because a patch in the wrong place is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence

from qcode.protocol.tools import Refused
from qcode.text.diff import Hunk
from qcode.tools.editing.match import Passage, PassageMatches, find_line, find_lines, line_of
from qcode.tools.editing.nearest import describe_nearest
from qcode.tools.editing.normalize import readings
from qcode.values import dataclass

_NAME = "the hunk"
_SHOWN_PLACES = 10


@dataclass(frozen=True, slots=True)
class PatchResult:
    """The text after all hunks, and a note for each hunk that did not match exactly."""

    text: str
    notes: tuple[str, ...] = ()


def apply_hunks(text: str, hunks: Sequence[Hunk], label: str) -> PatchResult:
    """Return `text` with every hunk applied. Raise `Refused` if a hunk has no position, or more than one."""
    notes: list[str] = []
    offset = 0
    for number, hunk in enumerate(hunks, start=1):
        name = f"Hunk {number} of {len(hunks)}" if len(hunks) > 1 else "The hunk"
        try:
            passage, note = _place(text, hunk, offset, label)
        except Refused as refused:
            raise Refused(f"{name} for {label}: {refused}") from None
        text = text[: passage.start] + passage.new + text[passage.end :]
        offset = passage.start + len(passage.new)
        if note:
            notes.append(f"{name} for {label}: {note}")
    return PatchResult(text, tuple(notes))


def _place(text: str, hunk: Hunk, offset: int, label: str) -> tuple[Passage, str]:
    """Return the position of a hunk at or after `offset`, and a note about differences that were ignored."""
    start, is_anchored = _after_anchors(text, hunk, offset, label)
    if not hunk.old:
        return _insertion(text, hunk, start if is_anchored else len(text)), ""
    old, new = "\n".join(hunk.old), "\n".join(hunk.new)
    found, note = _search(text[start:], hunk)
    if not found.passages and start:
        found, note = _search(text, hunk)
        start, is_anchored = 0, False
    places = found.passages
    if not places:
        raise Refused(describe_nearest(text, old, new, label, _NAME))
    if hunk.is_at_end:
        places = tuple(place for place in places if not text[start + place.end :].strip("\n")) or places
    if len(places) > 1 and not is_anchored:
        lines = ", ".join(str(line_of(text, start + place.start)) for place in places[:_SHOWN_PLACES])
        raise Refused(
            f"its lines match {len(places)} passages, at lines {lines}: add unchanged lines around the change, or "
            "begin the hunk with '@@ ' and the line of the enclosing function or class. Nothing was changed"
        )
    place = places[0]
    return Passage(start + place.start, start + place.end, place.new), note


def _search(text: str, hunk: Hunk) -> tuple[PassageMatches, str]:
    old, new = "\n".join(hunk.old), "\n".join(hunk.new)
    if not hunk.new:
        # Removed lines include their line break.
        found, note = _search_readings(text, f"{old}\n", "")
        if found.passages:
            return found, note
    return _search_readings(text, old, new)


def _search_readings(text: str, old: str, new: str) -> tuple[PassageMatches, str]:
    found = find_lines(text, old, new)
    if found.passages:
        return found, f"matched ignoring {found.ignored_difference}." if found.ignored_difference else ""
    for reading in readings(old, new):
        found = find_lines(text, reading.old, reading.new)
        if found.passages:
            return found, f"matched {reading.label}."
    return PassageMatches(), ""


def _after_anchors(text: str, hunk: Hunk, offset: int, label: str) -> tuple[int, bool]:
    """Return the offset after the last anchor, and whether an anchor was found."""
    lines = text.split("\n")
    at = line_of(text, offset) - 1 if offset else 0
    is_found = False
    for anchor in hunk.anchors:
        index = find_line(lines, anchor, at)
        if index is None:
            index = find_line(lines, anchor, 0)
        if index is None and not hunk.is_hint:
            # The anchor may be the first line of the hunk itself, changed or shortened: then the hunk's lines decide.
            index = next((i for i in range(at, len(lines)) if lines[i].strip().startswith(anchor)), None)
            if index is None and not hunk.old:
                raise Refused(describe_nearest(text, anchor, "", label, f"the line {anchor[:60]!r} after @@"))
        if index is not None:
            is_repeated = bool(hunk.old) and hunk.old[0].strip() == anchor
            at, is_found = index + (0 if is_repeated else 1), True
    starts = [0]
    for line in lines:
        starts.append(min(starts[-1] + len(line) + 1, len(text)))
    return (starts[at], True) if is_found else (offset, False)


def _insertion(text: str, hunk: Hunk, at: int) -> Passage:
    """Return the position for inserted lines without context: at the start of a line, or at the end of the file."""
    new = "\n".join(hunk.new)
    if at < len(text) or not text or text.endswith("\n"):
        return Passage(at, at, f"{new}\n")
    return Passage(at, at, f"\n{new}")
