"""Operators of vim: the range that an operator changes, and the changed text. Pure.

An operator gets a `Region` and returns a `ChangedText`: the whole text and its cursor.
"""

from __future__ import annotations

from qcode.tui.prompt.vim.motions import (
    first_non_blank,
    is_in_indent,
    is_line_end,
    line_end,
    line_start,
    normal_cursor,
    nth_line,
)
from qcode.values import dataclass

INDENT = 4
"""The columns by which `>` and `<` shift a line."""


@dataclass(frozen=True, slots=True)
class Register:
    """A text that was yanked or deleted."""

    text: str
    is_lines: bool = False
    """The text consists of whole lines."""


@dataclass(frozen=True, slots=True)
class Region:
    """A range of the text."""

    start: int
    end: int
    """The position after the last character."""
    is_lines: bool = False
    """The range consists of whole lines, without the line end of the last one."""

    def register(self, text: str) -> Register:
        return Register(text[self.start : self.end], self.is_lines)


@dataclass(frozen=True, slots=True)
class ChangedText:
    """A text after a change, and its cursor."""

    text: str
    cursor: int


def lines_region(text: str, position: int, other: int) -> Region:
    """Return the region of the lines from one position to another."""
    low, high = sorted((position, other))
    return Region(line_start(text, low), line_end(text, high), is_lines=True)


def moved_region(text: str, position: int, other: int, *, is_inclusive: bool, is_delete: bool) -> Region:
    """Return the region of a motion from one position to another.

    An exclusive motion to the start of a line ends on the line before. If such a motion begins in an indent, the region
    is whole lines. The region of a delete is whole lines, too, if only blanks would remain of the first and last line:
    `d}` on a paragraph deletes its lines.
    """
    low, high = sorted((position, other))
    is_over_lines = line_start(text, low) != line_start(text, high)
    if not is_inclusive and is_over_lines and high == line_start(text, high):
        high -= 1
        if is_in_indent(text, low):
            return lines_region(text, low, high)
        is_over_lines = line_start(text, low) != line_start(text, high)
    end = high + 1 if is_inclusive and not is_line_end(text, high) else high
    has_blank_rest = not text[end : line_end(text, high)].strip(" \t")
    if is_delete and is_over_lines and has_blank_rest and is_in_indent(text, low):
        return lines_region(text, low, high)
    return Region(low, end)


def visual_region(text: str, anchor: int, cursor: int, *, is_lines: bool, joins_lines: bool = True) -> Region:
    """Return the region of a selection, both ends included. `joins_lines`: a selected line end adds the line break."""
    if is_lines:
        return lines_region(text, anchor, cursor)
    low, high = sorted((anchor, cursor))
    takes_last = joins_lines or not is_line_end(text, high)
    return Region(low, min(high + 1, len(text)) if takes_last else high)


def delete(text: str, region: Region) -> ChangedText:
    """Delete a region for `d`; whole lines with one line break."""
    start, end = region.start, region.end
    if not region.is_lines:
        changed = text[:start] + text[end:]
        return ChangedText(changed, normal_cursor(changed, start))
    # The line break after the lines is deleted too, or the one before them if they are the end of the text.
    changed = text[:start] + text[end + 1 :] if end < len(text) else text[: max(0, start - 1)]
    return ChangedText(changed, first_non_blank(changed, min(start, len(changed))))


def clear(text: str, region: Region) -> ChangedText:
    """Delete a region for `c`. Whole lines become one empty line; the cursor may be behind the last character."""
    return ChangedText(text[: region.start] + text[region.end :], region.start)


def replace(text: str, region: Region, new: str, cursor: int) -> ChangedText:
    """Replace a region by `new`. `cursor` is the wanted position in the changed text."""
    changed = text[: region.start] + new + text[region.end :]
    return ChangedText(changed, normal_cursor(changed, cursor))


def change_case(text: str, region: Region, case: str, cursor: int) -> ChangedText:
    """Change letters to upper (`U`) or lower case (`u`), or swap their case (`~`). The length stays the same."""
    old = text[region.start : region.end]
    return replace(text, region, "".join(_change_case(character, case) for character in old), cursor)


def _change_case(character: str, case: str) -> str:
    # `ß` stays, because its capital is the two letters `SS`.
    changed = {"U": character.upper(), "u": character.lower(), "~": character.swapcase()}[case]
    return changed if len(changed) == 1 else character


def fill(text: str, region: Region, character: str) -> ChangedText:
    """Replace every character of a region by `character`; line breaks stay."""
    new = "".join("\n" if old == "\n" else character for old in text[region.start : region.end])
    return replace(text, region, new, region.start)


def shift(text: str, region: Region, times: int) -> ChangedText:
    """Indent the lines of a region `times` times; outdent them if `times` is negative. Empty lines stay empty."""
    lines = lines_region(text, region.start, region.end)
    shifted = [_shift_line(line, times) for line in text[lines.start : lines.end].split("\n")]
    changed = text[: lines.start] + "\n".join(shifted) + text[lines.end :]
    return ChangedText(changed, first_non_blank(changed, lines.start))


def _shift_line(line: str, times: int) -> str:
    if not line:
        return line
    content = line.lstrip(" \t")
    indent = len(line[: len(line) - len(content)].expandtabs(8))
    return " " * max(0, indent + times * INDENT) + content


def join(text: str, index: int, count: int) -> ChangedText | None:
    """Join `count` lines, or as many as there are; return None on the last line. The cursor is at the last break.

    Example: the lines `if x:` and `    y` become `if x: y`. There is no space before `)`, after a line that ends with a
    space, or if either side is empty.
    """
    start = line_start(text, index)
    lines = text[start:].split("\n")
    first, *others = lines[:count]
    if not others:
        return None
    joined = previous = first
    position = 0
    for line in others:
        following = line.lstrip(" \t")
        has_space = not joined or previous.endswith((" ", "\t"))
        position = len(joined)
        if following and following[0] != ")" and not has_space:
            joined += " "
        joined += following
        previous = following
    changed = text[:start] + "\n".join([joined, *lines[count:]])
    return ChangedText(changed, normal_cursor(changed, start + position))


def put(text: str, index: int, register: Register, count: int, *, is_after: bool) -> ChangedText:
    """Insert a register after the cursor (`p`, `is_after`) or before it; whole lines go below or above the line."""
    new = register.text
    if register.is_lines:
        lines = "\n".join([new] * count)
        if is_after:
            position = line_end(text, index)
            changed = f"{text[:position]}\n{lines}{text[position:]}"
            return ChangedText(changed, first_non_blank(changed, position + 1))
        position = line_start(text, index)
        changed = f"{text[:position]}{lines}\n{text[position:]}"
        return ChangedText(changed, first_non_blank(changed, position))
    position = index + 1 if is_after and not is_line_end(text, index) else index
    changed = text[:position] + new * count + text[position:]
    cursor = position if "\n" in new else position + len(new) * count - 1
    return ChangedText(changed, normal_cursor(changed, max(cursor, 0)))


def put_over(text: str, region: Region, register: Register, count: int) -> ChangedText:
    """Replace a selection by a register. If either consists of whole lines, the inserted text does too."""
    new = "\n".join([register.text] * count) if register.is_lines or region.is_lines else register.text * count
    if region.is_lines:
        changed = text[: region.start] + new + text[region.end :]
        return ChangedText(changed, first_non_blank(changed, region.start))
    if register.is_lines:
        changed = f"{text[: region.start]}\n{new}\n{text[region.end :]}"
        return ChangedText(changed, first_non_blank(changed, region.start + 1))
    changed = text[: region.start] + new + text[region.end :]
    cursor = region.start if "\n" in new else region.start + max(0, len(new) - 1)
    return ChangedText(changed, normal_cursor(changed, cursor))


def go_to_line(text: str, number: int | None) -> int:
    """Return the first non-blank of line `number`, or of the last line if `number` is None."""
    index = line_start(text, len(text)) if number is None else nth_line(text, number)
    return first_non_blank(text, index)
