"""Renders Markdown blocks, tables and inline text to screen lines, from the tokens of markdown-it.

Blank lines appear as in the source. HTML is shown as text and reference definitions are not resolved, because both
would let a later line change earlier rows. Table columns are narrowed to fit; a table that is still too wide becomes a
list of records. Links show their real target, and only http(s) targets can be opened. Images are never fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len

from qcode.text.addresses import split_addresses
from qcode.tui.transcript.chunks import STEP, Chunk, GrowingLines, GrowingParagraph
from qcode.tui.transcript.code import CodeBlock
from qcode.tui.transcript.line import PLAIN, Ink, Line, Span, add_slot, ink, prefix, tidy, wrap
from qcode.values import dataclass

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MIN_BLOCK_CELLS = 8
MAX_PROSE_CELLS = 110
"""The width of paragraphs on a wide screen. Code and tables may be wider."""
_BULLETS = "•◦▪"
_TASKS = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_MAX_LEVELS = 40


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_LEVELS})
    return parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])


class ProseView:
    """The rows of one prose chunk at one width, while it grows and after it is finished."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._codes: dict[int, CodeBlock] = {}
        self._lines: GrowingLines | None = None
        self._paragraph: GrowingParagraph | None = None

    def render(self, chunk: Chunk, *, is_live: bool) -> list[Line]:
        """Return the rows of `chunk`. A live chunk may be passed again with more text at its end."""
        if is_live and sum(map(len, chunk.lines)) > 2 * STEP:
            return self._grow(chunk)
        return self._whole(chunk.lines, self._codes if is_live else None, chunk.number)

    def _whole(
        self, source: Sequence[str], codes: dict[int, CodeBlock] | None = None, number: int | None = None
    ) -> list[Line]:
        text = "\n".join(source)
        tokens = _parser().parse(text)
        if any(token.level >= _MAX_LEVELS - 1 for token in tokens):
            # The parser drops deeper nesting, and no text of a reply may be missing: show it as plain text.
            return wrap([(text, PLAIN)], self._width)
        token_pass = _TokenPass(source, tokens, codes)
        if number is not None:
            token_pass.first_number = number
        return token_pass.blocks(0, len(token_pass.tokens), self._width, PLAIN)

    def _grow(self, chunk: Chunk) -> list[Line]:
        """Return the rows of a long chunk that still grows."""
        if self._lines is None:
            if self._paragraph is None:
                self._paragraph = GrowingParagraph(min(self._width, MAX_PROSE_CELLS), _paragraph_spans)
            rows = self._paragraph.grow("\n".join(chunk.lines))
            if rows is not None:
                return rows
            number = chunk.number
            self._lines = GrowingLines(lambda lines: self._whole(lines, number=number))
        return self._lines.grow(chunk.lines)


def _paragraph_spans(text: str) -> list[Span] | None:
    """Return the spans of `text` if it is exactly one paragraph, otherwise None."""
    tokens = _parser().parse(text)
    if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
        return None
    return inline_spans(tokens[1].children or [], PLAIN)


class _TokenPass:
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
        """Return the index of the token that closes the block opened at `index`."""
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
        return wrap(self._spans(index + 1, base), min(width, MAX_PROSE_CELLS))

    def _heading(self, index: int, _close: int, width: int, base: Ink) -> list[Line]:
        paint = add_slot(base, "heading")
        paint = add_slot(paint, f"heading-{min(int(self.tokens[index].tag[1]), 3)}")
        return wrap(self._spans(index + 1, paint), min(width, MAX_PROSE_CELLS))

    def _rule(self, _index: int, _close: int, width: int, base: Ink) -> list[Line]:
        return [Line((("─" * width, add_slot(base, "rule")),), is_decoration=True)]

    def _code(self, index: int, _close: int, width: int, _base: Ink) -> list[Line]:
        token = self.tokens[index]
        source = tidy(token.content.removesuffix("\n")).split("\n")
        if self._codes is None:
            return CodeBlock(token.info, width).finish(source)
        row = token.map[0] if token.map else 0
        return self._codes.setdefault(row, CodeBlock(token.info, width)).grow(source)

    def _quote(self, index: int, close: int, width: int, base: Ink) -> list[Line]:
        bar: Span = ("│ ", add_slot(base, "quote-mark"))
        room = width - len(bar[0])
        if room < _MIN_BLOCK_CELLS:
            return self.blocks(index + 1, close, width, add_slot(base, "quote"))
        return prefix(self.blocks(index + 1, close, room, add_slot(base, "quote")), bar, bar)

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
        first: Span = (mark, add_slot(base, "bullet"))
        room = width - len(mark)
        if room < _MIN_BLOCK_CELLS:
            return [Line(((mark[:width], first[1]),)), *self.blocks(index + 1, close, width, base)]
        lines = prefix(self.blocks(index + 1, close, room, base) or [Line()], first, (" " * len(mark), base))
        lines[0].lead -= len(mark)
        return lines

    def _take_task(self, index: int) -> str:
        """Remove the checkbox of a task item from its text and return it; empty for any other item."""
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
                header.append(self._spans(at + 1, add_slot(base, "table-head")))
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


Align = Literal["left", "center", "right"]
Cell = list[Span]

_MIN_COLUMN_CELLS = 6
_COLUMN_GAP = 3


@dataclass(frozen=True, slots=True)
class Table:
    """A table of cells as spans. Every row, and `aligns`, has as many elements as `header`."""

    header: list[Cell]
    rows: list[list[Cell]]
    aligns: list[Align]
    base: Ink


def render_table(table: Table, width: int) -> list[Line]:
    """Return the rows of `table`, each at most `width` terminal cells wide."""
    widths = fit([_column_width(table, column) for column in range(len(table.header))], width)
    if widths is None:
        return _records(table, width)
    rule = "─┼─".join("─" * cells for cells in widths)
    lines = _table_row(table, table.header, widths)
    lines.append(Line(((rule, add_slot(table.base, "rule")),), is_decoration=True))
    for row in table.rows:
        lines.extend(_table_row(table, row, widths))
    return lines


def fit(natural: Sequence[int], width: int) -> list[int] | None:
    """Return column widths that fit into `width`, shrinking the widest columns first; None if they get too narrow.

    Example: `fit([30, 10], 33)` is `[20, 10]`, because the gap between two columns takes 3 cells.
    """
    room = width - _COLUMN_GAP * (len(natural) - 1)
    if room < sum(min(cells, _MIN_COLUMN_CELLS) for cells in natural):
        return None
    widths = list(natural)
    excess = sum(widths) - room
    while excess > 0:
        top = max(widths)
        widest = [index for index, cells in enumerate(widths) if cells == top]
        below = max([cells for cells in widths if cells < top] + [_MIN_COLUMN_CELLS])
        step = max(1, min(top - below, excess // len(widest)))
        for index in widest:
            cut = min(step, excess)
            widths[index] -= cut
            excess -= cut
    return widths


def _column_width(table: Table, column: int) -> int:
    cells = [table.header[column], *(row[column] for row in table.rows)]
    rows = [row for cell in cells for row in "".join(text for text, _ in cell).split("\n")]
    return max(1, max(cell_len(row) for row in rows))


def _table_row(table: Table, cells: Sequence[Cell], widths: Sequence[int]) -> list[Line]:
    """Return one row of the table, as high as its highest cell."""
    columns = [wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    separator: Span = (" │ ", add_slot(table.base, "rule"))
    lines: list[Line] = []
    for level in range(max(len(column) for column in columns)):
        spans: list[Span] = []
        for index, column in enumerate(columns):
            line = column[level] if level < len(column) else Line()
            before, after = _padding(widths[index] - line.width, table.aligns[index])
            spans += [(" " * before, table.base), *line.spans, (" " * after, table.base)]
            spans.append(separator)
        lines.append(Line(tuple(span for span in spans[:-1] if span[0])))
    return lines


def _padding(room: int, align: Align) -> tuple[int, int]:
    room = max(0, room)
    before = {"left": 0, "right": room, "center": room // 2}[align]
    return before, room - before


def _records(table: Table, width: int) -> list[Line]:
    """Return each row as a record: one line for each cell, after the name of its column."""
    lines: list[Line] = []
    for row in table.rows or [[[] for _ in table.header]]:
        if lines:
            lines.append(Line((("─" * min(width, 8), add_slot(table.base, "rule")),), is_decoration=True))
        for name, cell in zip(table.header, row, strict=True):
            spans = [*name, (": ", add_slot(table.base, "strong")), *cell] if name else cell
            lines.extend(prefix(wrap(spans, max(1, width - 2)), ("", table.base), ("  ", table.base)))
    return lines


_INLINE_SLOTS = {"strong_open": "strong", "em_open": "emphasis", "s_open": "strike", "link_open": "link"}
_HTML_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def inline_spans(tokens: Sequence[Token], base: Ink) -> list[Span]:
    """Return the spans of inline `tokens`, painted over `base`; a hard break is a newline in the text."""
    spans: list[Span] = []
    inks = [base]
    links: list[tuple[str, int]] = []
    for token in tokens:
        kind = token.type
        if kind == "text":
            _add_text(spans, tidy(token.content), inks[-1])
        elif kind in ("softbreak", "hardbreak"):
            spans.append((" " if kind == "softbreak" else "\n", inks[-1]))
        elif kind == "code_inline":
            spans.append((tidy(token.content), add_slot(inks[-1], "code")))
        elif kind == "image":
            spans.extend(_image(token, inks[-1]))
        elif kind in _INLINE_SLOTS:
            paint = add_slot(inks[-1], _INLINE_SLOTS[kind])
            if kind == "link_open":
                target = str(token.attrs.get("href", ""))
                links.append((target, len(spans)))
                paint = ink(*paint.slots, href=target if is_web(target) else "")
            inks.append(paint)
        elif token.nesting == -1:
            inks.pop()
            if kind == "link_close":
                target, first = links.pop()
                spans.extend(_target("".join(text for text, _ in spans[first:]), target, inks[-1]))
        elif token.content:
            spans.append((tidy(token.content), inks[-1]))
    return spans


def is_web(target: str) -> bool:
    return target.startswith(("https://", "http://"))


def _add_text(spans: list[Span], text: str, paint: Ink) -> None:
    if "<" in text:
        text = _HTML_BREAK.sub("\n", text)
    if "link" in paint.slots:
        if text:
            spans.append((text, paint))
        return
    for part, is_address in split_addresses(text):
        if part:
            spans.append((part, ink(*paint.slots, "link", href=part) if is_address else paint))


def _target(label: str, target: str, base: Ink) -> list[Span]:
    """Return the spans that show a link's target after `label`; none if the label is the target."""
    shown_target = tidy(target)
    if label.rstrip("/") == shown_target.removeprefix("mailto:").rstrip("/") or not shown_target:
        return []
    return [(f" ({shown_target})" if label.strip() else shown_target, add_slot(base, "target"))]


def _image(token: Token, base: Ink) -> list[Span]:
    label = tidy(token.content) or "image"
    source = str(token.attrs.get("src", ""))
    paint = ink(*base.slots, "link", href=source if is_web(source) else "")
    return [(f"[image: {label}]" if label != "image" else "[image]", paint), *_target(label, source, base)]
