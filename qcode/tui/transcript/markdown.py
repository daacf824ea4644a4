"""Renders streamed Markdown to screen lines. Complete chunks are rendered only once.

The final rows do not depend on how the text is divided into deltas; only the time at which a row appears does.

Example: after `feed("# Title\\n\\nSome *te")` the heading is settled and the paragraph is open. `render_open_end`
renders the paragraph; the next `feed` discards its rows, so that only the paragraph is rendered again.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from qcode.tui.transcript.blocks import ProseView
from qcode.tui.transcript.chunks import Chunk, Splitter, SplitterState
from qcode.tui.transcript.code import CodeBlock
from qcode.tui.transcript.line import Line, crop, source_text, style_of, tidy

# A line such as "-" or "1." may still become a list item, a fence or a rule. It is not shown before that is certain.
_UNDECIDED = re.compile(r" {0,3}(?:[`~#*+=|>:-][`~#*+=|>: -]*+|\d{1,9}[.)]?) *")

_MAX_RULE_CELLS = 24
"""The maximum length of the line after the label of a labeled rule."""


_PLAIN_CELLS = 110
"""The width at which `text_of_markdown` lays out tables."""


class MarkdownStream:
    """The rows of a growing Markdown text at one width. `start` is given for a later part of a divided text."""

    def __init__(self, width: int, start: SplitterState | None = None) -> None:
        self.lines: list[Line] = []
        """The rows. The caller must not change the list before `finish`."""
        self.settled_count = 0
        """The number of rows at the start of `lines` that are final."""
        self._width = width
        self._splitter = Splitter(start or SplitterState())
        self._partial_line = ""
        # The view of the open chunk, and that of the chunk which the incomplete last line begins, if it does.
        self._live_view: CodeBlock | ProseView | None = None
        self._next_view: CodeBlock | ProseView | None = None
        self._unmarked_rows = 0  # the settled rows without those of marks
        self._marks: list[tuple[int, str]] = []  # each with the number of rows above it, those of marks not counted

    def feed(self, text: str) -> None:
        """Add text. `lines` then has the rows of complete chunks; `render_open_end` adds the rows of the open end."""
        del self.lines[self.settled_count :]
        *complete, self._partial_line = (self._partial_line + text).split("\n")
        for line in complete:
            self._add_line(line)

    def render_open_end(self) -> None:
        """Update the rows of the open chunk and of the incomplete last line."""
        del self.lines[self.settled_count :]
        self.lines += self._with_marks(self._open_rows(), is_last=True)

    def add_mark(self, label: str) -> None:
        """Insert a thin labeled line after the current rows; the text continues below it, in the same block."""
        self._marks.append((self._unmarked_rows + len(self._open_rows()), label))

    def drop_end(self, count: int) -> None:
        """Remove characters at the end of the incomplete last line, because they belong to the next part."""
        self._partial_line = self._partial_line[:-count]

    def finish(self) -> None:
        """End the text and render its last chunk."""
        del self.lines[self.settled_count :]
        last_line = self._partial_line
        self._partial_line = ""
        if last_line:
            self._add_line(last_line)
        if self._splitter.open_chunk is not None:
            self._settle(self._splitter.close())
        self.lines += self._with_marks([], is_last=True)
        self.settled_count = len(self.lines)

    def _add_line(self, line: str) -> None:
        completed_chunk = self._splitter.feed(self._splitter.clean_line(line))
        if completed_chunk is not None:
            self._settle(completed_chunk)
        chunk = self._splitter.open_chunk
        if chunk is not None and not chunk.is_code and len(chunk.lines) == 1:
            # The line began this chunk, so the view that showed the incomplete line shows the chunk from now on.
            self._live_view = self._next_view
        self._next_view = None

    def _settle(self, chunk: Chunk) -> None:
        """Add the final rows of a completed chunk."""
        rows = self._rows(chunk, None)
        self.lines += self._with_marks(rows, is_last=False)
        self._marks = [(row, label) for row, label in self._marks if row > self._unmarked_rows + len(rows)]
        self._unmarked_rows += len(rows)
        self.settled_count = len(self.lines)
        self._live_view = None

    def _open_rows(self) -> list[Line]:
        """Return the rows of the open chunk and of the incomplete last line."""
        chunk = self._splitter.open_chunk
        last_line = self._splitter.clean_line(self._partial_line)
        if not last_line.strip() or _UNDECIDED.fullmatch(last_line):
            last_line = ""
        next_chunk = self._splitter.chunk_started_by(last_line) if last_line else None
        rows: list[Line] = []
        if chunk is not None:
            if self._live_view is None:
                self._live_view = self._new_view(chunk)
            open_chunk = chunk
            if last_line and next_chunk is None:
                open_chunk = chunk.with_line(last_line)
            rows = self._rows(open_chunk, self._live_view)
        if next_chunk is not None:
            if next_chunk.is_code or not isinstance(self._next_view, ProseView):
                self._next_view = self._new_view(next_chunk)
            rows = rows + self._rows(next_chunk, self._next_view)
        return rows

    def _new_view(self, chunk: Chunk) -> CodeBlock | ProseView:
        return CodeBlock(chunk.info, self._width) if chunk.is_code else ProseView(self._width)

    def _rows(self, chunk: Chunk, view: CodeBlock | ProseView | None) -> list[Line]:
        """Return the rows of `chunk`. `view` is its live view; without one, the chunk is finished."""
        is_live = view is not None
        view = view or self._new_view(chunk)
        if isinstance(view, CodeBlock):
            rows = view.grow(chunk.lines) if is_live else view.finish(chunk.lines)
        else:
            rows = view.render(chunk, is_live=is_live)
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


def text_of_markdown(markdown: str) -> str:
    """Return the text of `markdown` without its syntax: `**done**` becomes `done`, and each paragraph is one line."""
    stream = MarkdownStream(_PLAIN_CELLS)
    stream.feed(markdown)
    stream.finish()
    return source_text(stream.lines)


def labeled_rule(label: str, width: int) -> Line:
    """Return a thin horizontal line with `label` in it."""
    # The two dashes and the blank before the label, the blank after it, and at least two dashes take 6 cells.
    label = tidy(label.replace("\n", " "))
    text = f"── {crop(label, max(1, width - 6))} "
    rule = "─" * min(_MAX_RULE_CELLS, width - cell_len(text))
    row = crop(text.rstrip(), width) if width < 8 else text + rule
    return Line(((row, style_of("mark")),), is_decoration=True)
