"""Renders streamed Markdown to screen lines. Complete chunks are rendered only once.

The rows do not depend on the division of the text into deltas, only the time at which a row appears does.

Example: after `feed("# Title\\n\\nSome *te")` the heading is settled and the paragraph is open. `show` renders the open
part; the next `feed` discards those rows and renders only the open part again.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from qcode.tui.transcript.blocks import ProseView
from qcode.tui.transcript.chunks import Chunk, PartStart, Splitter
from qcode.tui.transcript.code import CodeBlock
from qcode.tui.transcript.line import Line, crop, ink, tidy

# A line such as "-" or "1." may still become a list item, a fence or a rule. It is shown once its kind is certain.
_UNDECIDED = re.compile(r" {0,3}(?:[`~#*+=|>:-][`~#*+=|>: -]*+|\d{1,9}[.)]?) *")

_MARK_RULE = 24


class MarkdownStream:
    """The rows of a growing Markdown text at one width, or of a part of one with this `start`.

    The first `settled` of its `lines` are final. The stream owns `lines` until `finish`.
    """

    def __init__(self, width: int, start: PartStart | None = None) -> None:
        self.lines: list[Line] = []
        self._width = width
        self._splitter = Splitter(start or PartStart())
        self._rest = ""
        self._live_view: CodeBlock | ProseView | None = None
        self._next_view: CodeBlock | ProseView | None = None
        self.settled = 0
        self._unmarked_rows = 0
        self._marks: list[tuple[int, str]] = []

    def feed(self, text: str) -> None:
        """Add text. Rows of complete chunks are then in `lines`; call `show` for the rest."""
        del self.lines[self.settled :]
        *complete, self._rest = (self._rest + text).split("\n")
        for line in complete:
            self._add_line(line)

    def show(self) -> None:
        """Update the rows of the unfinished end."""
        del self.lines[self.settled :]
        self.lines += self._with_marks(self._open_rows(), is_last=True)

    def mark(self, label: str) -> None:
        """Insert a thin labeled line after the current rows; the text continues below it, in the same block."""
        self._marks.append((self._unmarked_rows + len(self._open_rows()), label))

    def drop_end(self, count: int) -> None:
        """Remove characters at the end of the incomplete last line, because they belong to the next part."""
        self._rest = self._rest[:-count]

    def finish(self) -> None:
        """End the text and render its last chunk."""
        del self.lines[self.settled :]
        rest, self._rest = self._rest, ""
        if rest:
            self._add_line(rest)
        if self._splitter.open is not None:
            self._settle(self._splitter.close())
        self.lines += self._with_marks([], is_last=True)
        self.settled = len(self.lines)

    def _add_line(self, line: str) -> None:
        done = self._splitter.feed(self._splitter.clean(line))
        if done is not None:
            self._settle(done)
        chunk = self._splitter.open
        if chunk is not None and not chunk.is_code and len(chunk.lines) == 1:
            self._live_view = self._next_view
        self._next_view = None

    def _settle(self, chunk: Chunk) -> None:
        rows = self._rows(chunk, None)
        self.lines += self._with_marks(rows, is_last=False)
        self._marks = [mark for mark in self._marks if mark[0] > self._unmarked_rows + len(rows)]
        self._unmarked_rows += len(rows)
        self.settled = len(self.lines)
        self._live_view = None

    def _open_rows(self) -> list[Line]:
        """Return the rows of the open chunk and of the incomplete last line."""
        chunk = self._splitter.open
        rest = self._splitter.clean(self._rest)
        if not rest.strip() or _UNDECIDED.fullmatch(rest):
            rest = ""
        start = self._splitter.begin(rest) if rest else None
        rows: list[Line] = []
        if chunk is not None:
            if self._live_view is None:
                self._live_view = self._new_view(chunk)
            open_chunk = chunk
            if rest and start is None:
                open_chunk = chunk.with_line(rest)
            rows = self._rows(open_chunk, self._live_view)
        if start is not None:
            if start.is_code or not isinstance(self._next_view, ProseView):
                self._next_view = self._new_view(start)
            rows = rows + self._rows(start, self._next_view)
        return rows

    def _new_view(self, chunk: Chunk) -> CodeBlock | ProseView:
        return CodeBlock(chunk.info, self._width) if chunk.is_code else ProseView(self._width)

    def _rows(self, chunk: Chunk, view: CodeBlock | ProseView | None) -> list[Line]:
        """Return the rows of `chunk`: from its live view, or rendered as a whole if it is finished."""
        live = view or self._new_view(chunk)
        if isinstance(live, CodeBlock):
            rows = live.finish(chunk.lines) if view is None else live.grow(chunk.lines)
        else:
            rows = live.render(chunk, is_live=view is not None)
        return [Line(), *rows] if chunk.has_gap else rows

    def _with_marks(self, rows: list[Line], *, is_last: bool) -> list[Line]:
        """Return `rows`, which follow the settled ones, with their marks inserted.

        The position of a mark counts the rows without marks above it. Example: with 10 settled rows, a mark at 12 is
        inserted after the second of `rows`. If there is only one row yet, the mark waits, unless `is_last` is set.
        """
        if not self._marks:
            return rows
        result: list[Line] = []
        cursor = 0
        for position, label in self._marks:
            after = max(0, position - self._unmarked_rows)
            if after > len(rows) and not is_last:
                break
            result += rows[cursor : min(after, len(rows))]
            cursor = max(cursor, min(after, len(rows)))
            result.append(labeled_rule(label, self._width))
        return result + rows[cursor:]


def labeled_rule(label: str, width: int) -> Line:
    """Return a thin horizontal line with `label` in it."""
    text = f"── {crop(tidy(label.replace(chr(10), ' ')), max(1, width - 6))} "
    rule = "─" * min(_MARK_RULE, width - cell_len(text))
    return Line(((crop(text.rstrip(), width) if width < 8 else text + rule, ink("mark")),), is_decoration=True)
