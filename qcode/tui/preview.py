"""What a call would do, as a person reads it before allowing it: every character, and where it stands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from textual.content import Content

from qcode.tui.text import visible
from qcode.tui.transcript.diff import Row, parse_diff

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_COLORS = {"+": "success", "-": "error"}


def preview_content(preview: str) -> Content:
    """Return the command or unified diff. Nothing is left out; what cannot be seen is spelled out."""
    text = visible(preview.rstrip("\n"))
    if preview.startswith(("--- ", "diff ", "@@ ")) and _HUNK.search(preview):
        return Content("\n").join(_diff_lines(text))
    return Content("\n").join(_command_lines(text))


def _command_lines(text: str) -> Iterator[Content]:
    """Mark line ends, so that a line that was wrapped by the screen does not look like two."""
    *lines, last = text.split("\n")
    for line in lines:
        yield Content.assemble(line, (" ⏎", "$muted"))
    yield Content(last)


def _diff_lines(text: str) -> Iterator[Content]:
    """Add line numbers and mark the words that changed."""
    changed = iter([row for row in parse_diff(text) if row.kind in ("add", "remove")])
    lines = text.split("\n")
    width = len(
        str(len(lines) + max((int(number) for hunk in _HUNK.finditer(text) for number in hunk.groups()), default=0))
    )
    old = new = 0
    is_inside = False
    for line in lines:
        sign, hunk = line[:1], _HUNK.match(line)
        if hunk is not None:
            old, new, is_inside = int(hunk[1]), int(hunk[2]), True
            yield Content.styled(line, "$text-primary")
        elif not is_inside or sign not in ("+", "-", " "):
            yield Content.styled(line, "bold" if not is_inside else "$muted")
        else:
            number = old if sign == "-" else new
            old, new = old + (sign != "+"), new + (sign != "-")
            row = next(changed, None) if sign != " " else None
            yield Content.assemble((f"{number:>{width}} ", "$muted"), _changed_line(line, row))


def _changed_line(line: str, row: Row | None) -> Content:
    color = _COLORS.get(line[:1])
    if color is None:
        return Content(line)
    content = Content.styled(line, f"$text-{color}")
    if row is not None and row.text == line[1:]:
        for start, end in row.changed:
            content = content.stylize("reverse", start + 1, end + 1)
    return content
