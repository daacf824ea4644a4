"""Line ends between words for the linear mode: the terminal would break inside them. Pure.

A width of 0 means that the output has no width; nothing is wrapped then.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from qcode.tui.transcript.line import break_text

COMMAND_INDENT = "    "
"""Begins each row that continues a line of a command."""

_MIN_INDENT = 4
_LEAD = re.compile(r" *(?:(?:[-*+·•]|\d{1,3}[.)]) +)?")
_WORD = re.compile(r"^\s*\S*\s*|\S+\s*")
_COLUMN = re.compile(r"(?P<left> *\S(?:[^ ]| (?! ))*)(?P<gap> {2,})(?=\S)")


def wrap(text: str, width: int) -> str:
    """Return the text with line ends between words. A longer word stays whole, so that it can be copied.

    Rows that continue an item of a list are indented below its text.
    """
    return "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def wrap_table(text: str, width: int) -> str:
    """Wrap text of which some lines have two columns, separated by two blanks or more.

    Rows that continue the right column are indented below it. If there is no room for that, it begins on the next row.
    """
    return "\n".join(_wrap_row(line, width) for line in text.split("\n"))


def wrap_command(command: str, width: int) -> str:
    """Return a command with line ends after blanks, and the rows that continue a line indented. No blank is lost."""
    return "\n".join(_wrap_command_line(line, width) for line in command.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    found = _LEAD.match(line)
    return _wrap_after(found[0] if found is not None else "", line, width)


def _wrap_row(line: str, width: int) -> str:
    column = _COLUMN.match(line)
    if column is None or not width or cell_len(line) <= width:
        return _wrap_line(line, width)
    if cell_len(column[0]) <= _max_indent(width):
        return _wrap_after(column[0], line, width)
    return f"{_wrap_line(column['left'], width)}\n{_wrap_line('  ' + line[column.end() :], width)}"


def _wrap_after(lead: str, line: str, width: int) -> str:
    """Wrap a line that begins with `lead`, and indent the rows that continue it by as much."""
    if not width or cell_len(line) <= width:
        return line
    rest = line[len(lead) :]
    if cell_len(lead) > _max_indent(width):
        lead = "  "
    indent = " " * cell_len(lead)
    return lead + f"\n{indent}".join(_rows(rest, max(1, width - len(indent))))


def _max_indent(width: int) -> int:
    """Return the widest indentation that leaves room for text."""
    return max(_MIN_INDENT, width // 3)


def _rows(text: str, width: int) -> list[str]:
    """Return the rows of one line. A row that ends inside a word is joined with the next one."""
    rows = [""]
    for start, end, following in break_text(text, width):
        rows[-1] += text[start:end]
        is_in_a_word = following == end < len(text) and cell_len(text[end - 1]) == cell_len(text[end]) == 1
        if not is_in_a_word and following < len(text):
            rows.append("")
    return rows


def _wrap_command_line(line: str, width: int) -> str:
    if not width or cell_len(line) <= width:
        return line
    rows = [""]
    for word in _WORD.findall(line):
        if rows[-1] and cell_len(rows[-1] + word.rstrip()) >= width - len(COMMAND_INDENT):
            rows.append("")
        rows[-1] += word
    return f"\n{COMMAND_INDENT}".join(rows)
