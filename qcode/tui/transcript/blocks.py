"""Block-level Markdown to screen lines, over the tokens of markdown-it.

Blank lines are shown where the source has them. HTML is text, reference definitions are not resolved: either would
let a later line change what stands above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from qcode.tui.transcript.code import CodeBlock
from qcode.tui.transcript.growing import STEP, GrowingLines, GrowingParagraph
from qcode.tui.transcript.inline import inline_spans
from qcode.tui.transcript.line import PLAIN, Ink, Line, Span, over, prefix, tidy
from qcode.tui.transcript.splitter import Chunk
from qcode.tui.transcript.table import Align, Cell, Table, render_table
from qcode.tui.transcript.wrap import wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_NARROWEST = 8
_BULLETS = "•◦▪"
_TASKS = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_DEEPEST = 40


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    return parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])


class ProseView:
    """The rows of one chunk of prose at one width, while it grows and when it is finished."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._codes: dict[int, CodeBlock] = {}
        self._lines: GrowingLines | None = None
        self._paragraph: GrowingParagraph | None = None

    def render(self, chunk: Chunk, *, is_live: bool) -> list[Line]:
        """Return the rows of `chunk`. A live one may come again with more at its end."""
        if is_live and sum(map(len, chunk.lines)) > 2 * STEP:
            return self._grow(chunk)
        return self._whole(chunk.lines, self._codes if is_live else None, chunk.number)

    def _whole(
        self, source: Sequence[str], codes: dict[int, CodeBlock] | None = None, number: int | None = None
    ) -> list[Line]:
        text = "\n".join(source)
        tokens = _parser().parse(text)
        if any(token.level >= _DEEPEST - 1 for token in tokens):
            # The parser leaves out what is nested deeper; nothing of a reply may be missing on screen.
            return wrap([(text, PLAIN)], self._width)
        walk = _Walk(source, tokens, codes)
        if number is not None:
            walk.first_number = number
        return walk.blocks(0, len(walk.tokens), self._width, PLAIN)

    def _grow(self, chunk: Chunk) -> list[Line]:
        """Return the rows of a long chunk that is still being written."""
        if self._lines is None:
            if self._paragraph is None:
                self._paragraph = GrowingParagraph(self._width, _paragraph_spans)
            rows = self._paragraph.grow("\n".join(chunk.lines))
            if rows is not None:
                return rows
            number = chunk.number
            self._lines = GrowingLines(lambda lines: self._whole(lines, number=number))
        return self._lines.grow(chunk.lines)


def _paragraph_spans(text: str) -> list[Span] | None:
    """Return the spans of `text` as a paragraph; None where it is something else, or more than that."""
    tokens = _parser().parse(text)
    if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
        return None
    return inline_spans(tokens[1].children or [], PLAIN)


class _Walk:
    """One pass over the tokens of a chunk."""

    def __init__(self, source: Sequence[str], tokens: Sequence[Token], codes: dict[int, CodeBlock] | None) -> None:
        self.tokens = tokens
        self.first_number: int | None = None
        self._source = source
        self._codes = codes
        self._depth = 0
        self._views: dict[str, Callable[[int, int, int, Ink], list[Line]]] = {
            "paragraph_open": self._paragraph,
            "heading_open": self._heading,
            "bullet_list_open": self._list,
            "ordered_list_open": self._list,
            "blockquote_open": self._quote,
            "table_open": self._table,
            "fence": self._code,
            "code_block": self._code,
            "hr": self._rule,
        }

    def blocks(self, start: int, end: int, width: int, base: Ink) -> list[Line]:
        """Return the rows of the sibling blocks in `tokens[start:end]`."""
        lines: list[Line] = []
        index = start
        while index < end:
            token = self.tokens[index]
            close = self._close(index)
            if index > start and self._has_gap(token):
                lines.append(Line())
            view = self._views.get(token.type)
            if view is not None:
                lines += view(index, close, width, base)
            index = close + 1
        return lines

    def _close(self, index: int) -> int:
        """Return the index of the token that ends the block begun at `index`."""
        token = self.tokens[index]
        if token.nesting != 1:
            return index
        close = index + 1
        while self.tokens[close].level != token.level:
            close += 1
        return close

    def _has_gap(self, token: Token) -> bool:
        """Whether the source has a blank line before `token`, inside quotes too."""
        row = token.map[0] - 1 if token.map else -1
        return row >= 0 and not self._source[row].strip(" >")

    def _spans(self, index: int, base: Ink) -> Cell:
        token = self.tokens[index]
        return inline_spans(token.children or [], base) if token.type == "inline" else []

    def _paragraph(self, index: int, _close: int, width: int, base: Ink) -> list[Line]:
        return wrap(self._spans(index + 1, base), width)

    def _heading(self, index: int, _close: int, width: int, base: Ink) -> list[Line]:
        paint = over(base, "heading")
        if self.tokens[index].tag in ("h1", "h2"):
            paint = over(paint, f"heading-{self.tokens[index].tag[1]}")
        return wrap(self._spans(index + 1, paint), width)

    def _rule(self, _index: int, _close: int, width: int, base: Ink) -> list[Line]:
        return [Line((("─" * width, over(base, "rule")),), is_mark=True)]

    def _code(self, index: int, _close: int, width: int, _base: Ink) -> list[Line]:
        token = self.tokens[index]
        source = tidy(token.content.removesuffix("\n")).split("\n")
        if self._codes is None:
            return CodeBlock(token.info, width).finish(source)
        row = token.map[0] if token.map else 0
        return self._codes.setdefault(row, CodeBlock(token.info, width)).grow(source)

    def _quote(self, index: int, close: int, width: int, base: Ink) -> list[Line]:
        bar: Span = ("│ ", over(base, "quote-mark"))
        room = width - len(bar[0])
        if room < _NARROWEST:
            return self.blocks(index + 1, close, width, over(base, "quote"))
        return prefix(self.blocks(index + 1, close, room, over(base, "quote")), bar, bar)

    def _list(self, index: int, close: int, width: int, base: Ink) -> list[Line]:
        token = self.tokens[index]
        is_ordered = token.type == "ordered_list_open"
        number = int(token.attrs.get("start", 1)) if is_ordered else 0
        if is_ordered and self.first_number is not None:
            number, self.first_number = self.first_number, None
        marks = _BULLETS[min(self._depth, len(_BULLETS) - 1)]
        self._depth += 1
        lines: list[Line] = []
        at = index + 1
        while at < close:
            end = self._close(at)
            if lines and self._has_gap(self.tokens[at]):
                lines.append(Line())
            mark = f"{number}{self.tokens[at].markup or '.'} " if is_ordered else f"{marks} "
            lines += self._item(at, end, width, base, mark)
            number += 1
            at = end + 1
        self._depth -= 1
        return lines

    def _item(self, index: int, close: int, width: int, base: Ink, mark: str) -> list[Line]:
        mark = self._take_task(index) or mark
        first: Span = (mark, over(base, "bullet"))
        room = width - len(mark)
        if room < _NARROWEST:
            return [Line(((mark[:width], first[1]),)), *self.blocks(index + 1, close, width, base)]
        lines = prefix(self.blocks(index + 1, close, room, base) or [Line()], first, (" " * len(mark), base))
        lines[0].lead -= len(mark)
        return lines

    def _take_task(self, index: int) -> str:
        """Return the box of a task item, taken off its text; nothing where it is none."""
        inline = self.tokens[index + 2] if self.tokens[index + 1].type == "paragraph_open" else None
        if inline is None or not inline.children or inline.children[0].type != "text":
            return ""
        child = inline.children[0]
        box = _TASKS.get(child.content[:4], "")
        if box:
            child.content = child.content[4:]
        return box

    def _table(self, index: int, close: int, width: int, base: Ink) -> list[Line]:
        header: list[Cell] = []
        aligns: list[Align] = []
        rows: list[list[Cell]] = []
        for at in range(index + 1, close):
            token = self.tokens[at]
            if token.type == "th_open":
                header.append(self._spans(at + 1, over(base, "table-head")))
                aligns.append(_align(str(token.attrs.get("style", ""))))
            elif token.type == "tr_open" and header:
                rows.append([])
            elif token.type == "td_open":
                rows[-1].append(self._spans(at + 1, base))
        return render_table(Table(header, rows, aligns, base), width)


def _align(style: str) -> Align:
    if style.endswith("right"):
        return "right"
    return "center" if style.endswith("center") else "left"
