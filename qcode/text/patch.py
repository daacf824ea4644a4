"""Reads patches that begin with `*** Begin Patch`, which GPT models write. Pure.

The permission policy and the editing tool share this module, so that the policy judges exactly the paths that the tool
changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple, TypeAlias

from qcode.text.clean import quoted
from qcode.text.fences import unfenced
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

BEGIN, END = "*** Begin Patch", "*** End Patch"
"""The first and the last line of a patch."""
_AT_END = "*** End of File"
_SECTION = lazy_pattern(r"\*\*\* (Add|Update|Delete) File: *(.*\S) *")
_MOVE = "*** Move to:"
# The line numbers of a unified diff after `@@`; some models write them in a patch too.
_NUMBERS = lazy_pattern(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
# A patch inside a shell command: `apply_patch <<'EOF'`.
_HEREDOC = lazy_pattern(r"(?:apply_patch )?<<-?\s*(['\"]?)(\w+)\1\n(.*)\n\2", re.DOTALL)


class PatchError(ValueError):
    """The text is not a valid patch. The message has the reason, and the number of a wrong line of the patch."""


@dataclass(slots=True)
class Hunk:
    """A change of lines."""

    anchors: list[str] = field(default_factory=list)
    """Lines that precede the hunk in the file, in order."""
    old: list[str] = field(default_factory=list)
    """The lines before the change, unchanged ones included."""
    new: list[str] = field(default_factory=list)
    """The lines after the change, unchanged ones included."""
    is_anchor_optional: bool = False
    """The anchor comes from a unified diff (`@@ -1,2 +1,3 @@ def main():`), so it need not be found in the file."""
    is_at_end: bool = False
    """The hunk is at the end of the file."""
    has_change: bool = False
    """A line of the hunk begins with + or -."""


@dataclass(frozen=True, slots=True)
class AddedFile:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class DeletedFile:
    path: str


@dataclass(frozen=True, slots=True)
class UpdatedFile:
    """A changed or moved file."""

    path: str
    moved_to: str
    """The new path, empty if the file keeps its path."""
    hunks: tuple[Hunk, ...]
    """Empty if the file is only moved."""


Section: TypeAlias = AddedFile | DeletedFile | UpdatedFile


class WrittenSection(NamedTuple):
    """A section of a patch, and its lines as text."""

    section: Section
    text: str


def patch_paths(text: str) -> tuple[str, ...]:
    """Return all paths that a patch names, in order. Raise `PatchError` if `text` is not a patch."""
    paths: list[str] = []
    for section, _ in patch_sections(text):
        paths.append(section.path)
        if isinstance(section, UpdatedFile) and section.moved_to:
            paths.append(section.moved_to)
    return tuple(paths)


def parse_patch(text: str) -> tuple[Section, ...]:
    """Return the sections of a patch, at least one. Several updates of one file, which are common, are merged.

    Raise `PatchError` if `text` is not a patch.
    """
    merged: list[Section] = []
    for section, _ in patch_sections(text):
        if isinstance(section, UpdatedFile):
            _merge_update(merged, section)
        else:
            merged.append(section)
    return tuple(merged)


def _merge_update(sections: list[Section], update: UpdatedFile) -> None:
    """Add an update to the earlier update of the same file; append it if there is none."""
    for index, before in enumerate(sections):
        if isinstance(before, UpdatedFile) and before.path == update.path:
            moved_to = before.moved_to or update.moved_to
            hunks = (*before.hunks, *update.hunks)
            sections[index] = UpdatedFile(update.path, moved_to, hunks)
            return
    sections.append(update)


def patch_sections(text: str) -> tuple[WrittenSection, ...]:
    """Return the sections of a patch, each with its lines as text. Raise `PatchError` if `text` is not a patch."""
    lines = _patch_body(text)
    sections: list[WrittenSection] = []
    begin = 0  # `lines[0]` is line 2 of the patch, after `BEGIN`, so `lines[begin]` is line `begin + 2`
    while begin < len(lines):
        header = _SECTION.fullmatch(lines[begin])
        if header is None:
            if not lines[begin].strip():
                begin += 1
                continue
            raise PatchError(
                f"patch line {begin + 2}: expected '*** Add File: ', '*** Update File: ' or '*** Delete File: ' and a "
                f"path, not {quoted(lines[begin][:80])}"
            )
        end = next((index for index in range(begin + 1, len(lines)) if _SECTION.fullmatch(lines[index])), len(lines))
        section = _section(header[1], header[2], lines[begin + 1 : end], begin + 3)
        sections.append(WrittenSection(section, "\n".join(lines[begin:end])))
        begin = end
    if not sections:
        raise PatchError("the patch names no file")
    return tuple(sections)


def _patch_body(text: str) -> list[str]:
    """Return the lines of a patch between `BEGIN` and `END`. Raise `PatchError` if one of the two is missing.

    A code fence or shell command around the patch is dropped.
    """
    text = text.replace("\r\n", "\n").strip()
    text = (unfenced(text) or text).strip()
    heredoc = _HEREDOC.fullmatch(text)
    if heredoc is not None:
        text = heredoc[3].strip()
    lines = text.split("\n")
    if lines[0].strip() != BEGIN:
        raise PatchError(f"the patch must begin with the line {quoted(BEGIN)}")
    if len(lines) < 2 or lines[-1].strip() != END:
        raise PatchError(f"the patch must end with the line {quoted(END)}; it may have been cut")
    return lines[1:-1]


def _section(kind: str, path: str, body: Sequence[str], number: int) -> Section:
    """Parse one section. `number` is the line of the patch at which `body` starts."""
    if kind == "Add":
        return AddedFile(path, _content(path, body, number))
    if kind == "Delete":
        if any(line.strip() for line in body):
            raise PatchError(f"patch line {number}: the section '*** Delete File: {path}' must have no lines")
        return DeletedFile(path)
    moved = body[0].removeprefix(_MOVE).strip() if body and body[0].startswith(_MOVE) else ""
    start = 1 if moved else 0
    hunks = _hunks(body[start:], number + start)
    if not hunks and not moved:
        raise PatchError(f"patch line {number}: '*** Update File: {path}' has no hunk")
    return UpdatedFile(path, moved, hunks)


def _content(path: str, body: Sequence[str], number: int) -> str:
    """Return the content of a new file from its lines, which begin with +."""
    lines = list(body)
    while lines and not lines[-1].strip():
        lines.pop()
    for index, line in enumerate(lines):
        if line and not line.startswith("+"):
            raise PatchError(f"patch line {number + index}: every line of the new file {path} must begin with +")
    return "".join(f"{line[1:]}\n" for line in lines)


def _hunks(body: Sequence[str], number: int) -> tuple[Hunk, ...]:
    """Parse the hunks of one file. `number` is the line of the patch at which `body` starts."""
    hunks: list[Hunk] = []
    is_open = False  # whether the next line belongs to the last hunk
    for index, line in enumerate(body):
        if line.startswith("@@"):
            if not is_open or hunks[-1].old or hunks[-1].new:
                hunks.append(Hunk())
            is_open = True
            _anchor(hunks[-1], line[2:].strip())
        elif line.rstrip() == _AT_END:
            if not hunks:
                raise PatchError(f"patch line {number + index}: {quoted(_AT_END)} without a hunk before it")
            hunks[-1].is_at_end = True
            is_open = False
        elif line.startswith("\\ No newline"):
            continue
        else:
            if not is_open:
                hunks.append(Hunk())
                is_open = True
            _add_line(hunks[-1], line, number + index)
    for hunk in hunks:
        _trim(hunk)
    for hunk in hunks:
        is_ignored = not hunk.old and len(hunks) > 1  # an `@@` without any line after it
        if not hunk.has_change and not is_ignored:
            raise PatchError(f"patch line {number}: a hunk has no line that begins with + or -")
    return tuple(hunk for hunk in hunks if hunk.has_change)


def _anchor(hunk: Hunk, text: str) -> None:
    """Add the text after `@@` to the anchors: `def main():`, or the line after the numbers of a unified diff."""
    numbers = _NUMBERS.match(text)
    hunk.is_anchor_optional = hunk.is_anchor_optional or numbers is not None
    anchor = text[numbers.end() :].strip() if numbers is not None else text.removesuffix(" @@").strip()
    if anchor:
        hunk.anchors.append(anchor)


def _add_line(hunk: Hunk, line: str, number: int) -> None:
    """Add a line of the patch to its hunk: `-x` to the old lines, `+x` to the new ones, ` x` to both."""
    sign, text = line[:1], line[1:]
    if sign not in ("", " ", "+", "-"):
        raise PatchError(
            f"patch line {number}: a line of a hunk must begin with a space (unchanged), - (removed) or + (added), not "
            f"{quoted(line[:60])}"
        )
    if sign != "+":
        hunk.old.append(text)
    if sign != "-":
        hunk.new.append(text)
    hunk.has_change = hunk.has_change or sign in ("+", "-")


def _trim(hunk: Hunk) -> None:
    """Remove trailing empty lines, which only separate sections of a patch."""
    while hunk.old and hunk.new and not hunk.old[-1] and not hunk.new[-1]:
        hunk.old.pop()
        hunk.new.pop()
