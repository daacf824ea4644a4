"""Markdown that streams: text in, screen lines out, everything that is complete rendered once.

Text that comes in pieces gives the same rows
as the same text at once: pieces only ever decide when a row is shown, never what it is.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from qcode.tui.transcript.blocks import ProseView
from qcode.tui.transcript.chunks import Chunk, Splitter
from qcode.tui.transcript.code import CodeBlock
from qcode.tui.transcript.line import Line, crop, ink, keep_tabs, tidy

# A line that so far is only the beginning of a mark: shown once it is clear what it marks.
_UNDECIDED = re.compile(r" {0,3}(?:[`~#*+=|>:-][`~#*+=|>: -]*+|\d{1,9}[.)]?) *")

_MARK_RULE = 24


class MarkdownStream:
    """The rows of a growing Markdown text at one width.

    `settled` of `lines` will not change any more. `lines` is owned by the stream until `finish`.
    """

    def __init__(self, width: int) -> None:
        self.lines: list[Line] = []
        self._width = width
        self._splitter = Splitter()
        self._rest = ""
        self._view: CodeBlock | ProseView | None = None
        self._next: CodeBlock | ProseView | None = None
        self.settled = 0
        self._bare = 0
        self._marks: list[tuple[int, str]] = []

    def feed(self, text: str) -> None:
        """Take more text; what it completes is in `lines` afterwards, the rest after `show`."""
        del self.lines[self.settled :]
        *complete, self._rest = (self._rest + text).split("\n")
        for line in complete:
            self._take(line)

    def show(self) -> None:
        """Bring the rows of the unfinished end up to date."""
        del self.lines[self.settled :]
        self.lines += self._with_marks(self._open_rows(), is_last=True)

    def mark(self, label: str) -> None:
        """Put a thin line with `label` after what is shown so far; the text goes on below it, in the same block."""
        self._marks.append((self._bare + len(self._open_rows()), label))

    def finish(self) -> None:
        """The text is complete."""
        del self.lines[self.settled :]
        rest, self._rest = self._rest, ""
        if rest:
            self._take(rest)
        if self._splitter.open is not None:
            self._settle(self._splitter.close())
        self.lines += self._with_marks([], is_last=True)
        self.settled = len(self.lines)

    def _take(self, line: str) -> None:
        done = self._splitter.feed(self._clean(line))
        if done is not None:
            self._settle(done)
        begun = self._splitter.open
        if begun is not None and not begun.is_code and len(begun.lines) == 1:
            self._view = self._next
        self._next = None

    def _clean(self, line: str) -> str:
        """Return a line of the source for the splitter: a block of code keeps its tabs."""
        chunk = self._splitter.open
        return keep_tabs(line) if chunk is not None and chunk.is_code else tidy(line)

    def _settle(self, chunk: Chunk) -> None:
        rows = self._rows(chunk, None)
        self.lines += self._with_marks(rows, is_last=False)
        self._marks = [mark for mark in self._marks if mark[0] > self._bare + len(rows)]
        self._bare += len(rows)
        self.settled = len(self.lines)
        self._view = None

    def _open_rows(self) -> list[Line]:
        """Return the rows of what is not settled: the open chunk and the line being written."""
        chunk = self._splitter.open
        rest = self._clean(self._rest)
        if not rest.strip() or _UNDECIDED.fullmatch(rest):
            rest = ""
        begun = self._splitter.begin(rest) if rest else None
        rows: list[Line] = []
        if chunk is not None:
            if self._view is None:
                self._view = self._new_view(chunk)
            shown = chunk
            if rest and begun is None:
                shown = chunk.longer(rest)
            rows = self._rows(shown, self._view)
        if begun is not None:
            if begun.is_code or not isinstance(self._next, ProseView):
                self._next = self._new_view(begun)
            rows = rows + self._rows(begun, self._next)
        return rows

    def _new_view(self, chunk: Chunk) -> CodeBlock | ProseView:
        return CodeBlock(chunk.info, self._width) if chunk.is_code else ProseView(self._width)

    def _rows(self, chunk: Chunk, view: CodeBlock | ProseView | None) -> list[Line]:
        """Return the rows of `chunk`: of its view while it is live, of a whole new one when it is finished."""
        live = view or self._new_view(chunk)
        if isinstance(live, CodeBlock):
            rows = live.finish(chunk.lines) if view is None else live.grow(chunk.lines)
        else:
            rows = live.render(chunk, is_live=view is not None)
        return [Line(), *rows] if chunk.has_gap else rows

    def _with_marks(self, rows: list[Line], *, is_last: bool) -> list[Line]:
        """Return `rows`, which begin where the settled ones end, with the marks that belong among them."""
        if not self._marks:
            return rows
        result: list[Line] = []
        cursor = 0
        for place, label in self._marks:
            after = max(0, place - self._bare)
            if after > len(rows) and not is_last:
                break
            result += rows[cursor : min(after, len(rows))]
            cursor = max(cursor, min(after, len(rows)))
            result.append(mark_line(label, self._width))
        return result + rows[cursor:]


def mark_line(label: str, width: int) -> Line:
    """Return a thin line across the text with `label` in it."""
    text = f"── {crop(tidy(label.replace(chr(10), ' ')), max(1, width - 6))} "
    rule = "─" * min(_MARK_RULE, width - cell_len(text))
    return Line(((crop(text.rstrip(), width) if width < 8 else text + rule, ink("mark")),), is_mark=True)
