"""Wraps text between words for the linear mode, because the terminal would break lines inside words. Pure.

Widths are in cells. A width of 0 turns wrapping off.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from qcode.tui.transcript.line import break_text

COMMAND_INDENT = "    "
"""Begins each row that continues a line of a command."""

_MIN_INDENT = 4
# The indent of a line, with the bullet or the number of a list item: `  - ` or `12. `.
_ITEM_START = re.compile(r" *(?:(?:[-*+·•]|\d{1,3}[.)]) +)?")
# A word with the blanks after it; the first word also has the blanks before it.
_WORD = re.compile(r"^\s*\S*\s*|\S+\s*")
# The left of two columns, with the gap after it.
_COLUMN = re.compile(r"(?P<left> *\S(?:[^ ]| (?! ))*)(?P<gap> {2,})(?=\S)")


def wrap(text: str, width: int) -> str:
    """Wrap text between words. A word longer than `width` stays whole, so that it can be copied.

    The rows that continue an item of a list are indented below the text of the item.
    """
    return "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def wrap_table(text: str, width: int) -> str:
    """Wrap text between words, including lines with two columns that are separated by two blanks or more.

    The rows that continue the right column are indented below it. If too little width is left for the right column, it
    begins on the next row.
    """
    return "\n".join(_wrap_table_line(line, width) for line in text.split("\n"))


def wrap_command(command: str, width: int) -> str:
    """Wrap a command after blanks, and indent the rows that continue a line. No blank is lost."""
    return "\n".join(_wrap_command_line(line, width) for line in command.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    item_start = _ITEM_START.match(line)
    return _wrap_after(item_start[0] if item_start is not None else "", line, width)


def _wrap_table_line(line: str, width: int) -> str:
    column = _COLUMN.match(line)
    if column is None or not width or cell_len(line) <= width:
        return _wrap_line(line, width)
    if cell_len(column[0]) <= _max_indent(width):
        return _wrap_after(column[0], line, width)
    return f"{_wrap_line(column['left'], width)}\n{_wrap_line('  ' + line[column.end() :], width)}"


def _wrap_after(lead: str, line: str, width: int) -> str:
    """Wrap a line that begins with `lead`, and indent the rows that continue it by the width of `lead`.

    Example: with 12 cells, the line `- one two three` with the lead `- ` becomes `- one two` and `  three`.
    """
    if not width or cell_len(line) <= width:
        return line
    text = line[len(lead) :]
    if cell_len(lead) > _max_indent(width):
        # Only the indent is shortened: the bullet or number of a list item is text.
        text = lead.lstrip(" ") + text
        lead = "  "
    indent = " " * cell_len(lead)
    return lead + f"\n{indent}".join(_rows(text, max(1, width - len(indent))))


def _max_indent(width: int) -> int:
    """Return the widest indent that leaves enough cells for text."""
    return max(_MIN_INDENT, width // 3)


def _rows(text: str, width: int) -> list[str]:
    """Return the rows of one line. `break_text` also breaks inside a long word; those rows are joined again."""
    rows = [""]
    for start, end, next_start in break_text(text, width):
        rows[-1] += text[start:end]
        if next_start < len(text) and not _is_inside_word(text, end, next_start):
            rows.append("")
    return rows


def _is_inside_word(text: str, end: int, next_start: int) -> bool:
    """Return whether the break after a row is inside a word: no blank is between its `end` and the next row.

    A row may end between two wide characters, such as Chinese ones: each counts as a separate word.
    """
    has_blank = next_start > end
    return not has_blank and not _is_wide(text, end - 1) and not _is_wide(text, end)


def _is_wide(text: str, index: int) -> bool:
    """Return whether the character at `index` has two cells; a combining mark counts as the character before it."""
    while index and not cell_len(text[index]):
        index -= 1
    return cell_len(text[index]) > 1


def _wrap_command_line(line: str, width: int) -> str:
    if not width or cell_len(line) <= width:
        return line
    rows = [""]
    for word in _WORD.findall(line):
        if rows[-1] and cell_len(rows[-1] + word.rstrip()) >= width - len(COMMAND_INDENT):
            rows.append("")
        rows[-1] += word
    return f"\n{COMMAND_INDENT}".join(rows)
