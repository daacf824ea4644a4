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

from qcode.text.links import split_at_addresses
from qcode.tui.transcript.chunks import MIN_OPEN_CHARS, Chunk, GrowingLines, GrowingParagraph
from qcode.tui.transcript.code import CodeBlock
from qcode.tui.transcript.line import PLAIN, Line, Span, TextStyle, add_slot, prefix, style_of, tidy, wrap
from qcode.values import dataclass

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MIN_BLOCK_CELLS = 8
"""The minimum width of a block in a quote or list item; if it is narrower, the block is not indented."""
MAX_PROSE_CELLS = 110
"""The width of paragraphs on a wide screen. Code and tables may be wider."""
_BULLETS = "•◦▪"
_CHECKBOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_MAX_NESTING = 40
"""The maximum depth of blocks inside blocks."""


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    return parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])


class ProseView:
    """The rows of one prose chunk at one width, while it grows and after it is finished."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._code_blocks: dict[int, CodeBlock] = {}
        self._growing_lines: GrowingLines | None = None
        self._growing_paragraph: GrowingParagraph | None = None

    def render(self, chunk: Chunk, *, is_live: bool) -> list[Line]:
        """Return the rows of `chunk`. A live chunk may be passed again with more text at its end."""
        # Only a long chunk is divided: its last `MIN_OPEN_CHARS` or more are rendered again with each frame anyway.
        if is_live and sum(map(len, chunk.lines)) > 2 * MIN_OPEN_CHARS:
            return self._grow(chunk)
        return self._render_all(chunk.lines, self._code_blocks if is_live else None, chunk.number)

    def _render_all(
        self, source: Sequence[str], code_blocks: dict[int, CodeBlock] | None = None, number: int | None = None
    ) -> list[Line]:
        """Return the rows of `source`, which is a whole chunk or the part of a growing one.

        `number` is the number on screen of its first ordered item.
        """
        text = "\n".join(source)
        tokens = _parser().parse(text)
        if any(token.level >= _MAX_NESTING - 1 for token in tokens):
            # The parser drops deeper blocks, such as a text after 50 `>`. No text of a reply may be missing, so show
            # all of it as plain text.
            return wrap([(text, PLAIN)], self._width)
        token_pass = _TokenPass(source, tokens, code_blocks, number)
        return token_pass.render_blocks(0, len(token_pass.tokens), self._width, PLAIN)

    def _grow(self, chunk: Chunk) -> list[Line]:
        """Return the rows of a long chunk that still grows."""
        if self._growing_lines is None:
            if self._growing_paragraph is None:
                self._growing_paragraph = GrowingParagraph(min(self._width, MAX_PROSE_CELLS), _paragraph_spans)
            rows = self._growing_paragraph.grow("\n".join(chunk.lines))
            if rows is not None:
                return rows
            number = chunk.number
            self._growing_lines = GrowingLines(lambda lines: self._render_all(lines, number=number))
        return self._growing_lines.grow(chunk.lines)


def _paragraph_spans(text: str) -> list[Span] | None:
    """Return the spans of `text` if it is exactly one paragraph, otherwise None."""
    tokens = _parser().parse(text)
    if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
        return None
    return inline_spans(tokens[1].children or [], PLAIN)


class _TokenPass:
    """Converts tokens to rows, once: those of a chunk in one frame, or of a part of a growing chunk.

    `code_blocks` are those of earlier frames, by their first line in the chunk; None if the chunk is finished.
    `first_item_number` is the number on screen of the first ordered item; None means the number in the source.
    """

    def __init__(
        self,
        source: Sequence[str],
        tokens: Sequence[Token],
        code_blocks: dict[int, CodeBlock] | None,
        first_item_number: int | None,
    ) -> None:
        self.tokens = tokens
        self._source = source
        self._code_blocks = code_blocks
        self._first_item_number = first_item_number
        self._list_depth = 0
        self._renderers: dict[str, Callable[[int, int, int, TextStyle], list[Line]]] = {
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

    def render_blocks(self, start: int, end: int, width: int, base: TextStyle) -> list[Line]:
        """Return the rows of the sibling blocks in `tokens[start:end]`."""
        lines: list[Line] = []
        index = start
        while index < end:
            token = self.tokens[index]
            close = self._closing_index(index)
            if index > start and self._has_gap(token):
                lines.append(Line())
            render = self._renderers.get(token.type)
            if render is not None:
                lines += render(index, close, width, base)
            index = close + 1
        return lines

    def _closing_index(self, index: int) -> int:
        """Return the index of the token that closes the block opened at `index`: itself if it is a whole block."""
        token = self.tokens[index]
        if token.nesting != 1:
            return index
        close = index + 1
        while self.tokens[close].level != token.level:
            close += 1
        return close

    def _has_gap(self, token: Token) -> bool:
        """Return whether the source has a blank line before `token`; in a quote, that is a line such as `>`."""
        line_before = token.map[0] - 1 if token.map else -1
        return line_before >= 0 and not self._source[line_before].strip(" >")

    def _spans(self, index: int, base: TextStyle) -> Cell:
        """Return the spans of the inline token at `index`; empty if there is another token, as in an empty cell."""
        token = self.tokens[index]
        return inline_spans(token.children or [], base) if token.type == "inline" else []

    def _paragraph(self, index: int, _close: int, width: int, base: TextStyle) -> list[Line]:
        return wrap(self._spans(index + 1, base), min(width, MAX_PROSE_CELLS))

    def _heading(self, index: int, _close: int, width: int, base: TextStyle) -> list[Line]:
        style = add_slot(base, "heading")
        style = add_slot(style, f"heading-{min(int(self.tokens[index].tag[1]), 3)}")
        return wrap(self._spans(index + 1, style), min(width, MAX_PROSE_CELLS))

    def _rule(self, _index: int, _close: int, width: int, base: TextStyle) -> list[Line]:
        return [Line((("─" * width, add_slot(base, "rule")),), is_decoration=True)]

    def _code(self, index: int, _close: int, width: int, _base: TextStyle) -> list[Line]:
        token = self.tokens[index]
        source = tidy(token.content.removesuffix("\n")).split("\n")
        if self._code_blocks is None:
            return CodeBlock(token.info, width).finish(source)
        first_line = token.map[0] if token.map else 0
        return self._code_blocks.setdefault(first_line, CodeBlock(token.info, width)).grow(source)

    def _quote(self, index: int, close: int, width: int, base: TextStyle) -> list[Line]:
        bar: Span = ("│ ", add_slot(base, "quote-mark"))
        inner_width = width - len(bar[0])
        if inner_width < _MIN_BLOCK_CELLS:
            return self.render_blocks(index + 1, close, width, add_slot(base, "quote"))
        return prefix(self.render_blocks(index + 1, close, inner_width, add_slot(base, "quote")), bar, bar)

    def _list(self, index: int, close: int, width: int, base: TextStyle) -> list[Line]:
        token = self.tokens[index]
        is_ordered = token.type == "ordered_list_open"
        number = int(token.attrs.get("start", 1)) if is_ordered else 0
        if is_ordered and self._first_item_number is not None:
            number = self._first_item_number
            self._first_item_number = None
        bullet = _BULLETS[min(self._list_depth, len(_BULLETS) - 1)]
        self._list_depth += 1
        lines: list[Line] = []
        item = index + 1
        while item < close:
            item_close = self._closing_index(item)
            if lines and self._has_gap(self.tokens[item]):
                lines.append(Line())
            # `markup` is the character after the number in the source: "1." or "1)".
            mark = f"{number}{self.tokens[item].markup or '.'} " if is_ordered else f"{bullet} "
            lines += self._item(item, item_close, width, base, mark)
            number += 1
            item = item_close + 1
        self._list_depth -= 1
        return lines

    def _item(self, index: int, close: int, width: int, base: TextStyle, mark: str) -> list[Line]:
        mark = self._take_checkbox(index) or mark
        bullet_style = add_slot(base, "bullet")
        inner_width = width - len(mark)
        if inner_width < _MIN_BLOCK_CELLS:
            return [Line(((mark[:width], bullet_style),)), *self.render_blocks(index + 1, close, width, base)]
        rows = self.render_blocks(index + 1, close, inner_width, base) or [Line()]
        lines = prefix(rows, (mark, bullet_style), (" " * len(mark), base))
        # `prefix` counts the mark as indent, which is left out of copied text. But the mark is text: `• one` is copied.
        lines[0].lead -= len(mark)
        return lines

    def _take_checkbox(self, index: int) -> str:
        """Remove the checkbox of a task item from its text and return it; empty for any other item."""
        inline = self.tokens[index + 2] if self.tokens[index + 1].type == "paragraph_open" else None
        if inline is None or not inline.children or inline.children[0].type != "text":
            return ""
        child = inline.children[0]
        box = _CHECKBOXES.get(child.content[:4], "")
        if box:
            child.content = child.content[4:]
        return box

    def _table(self, index: int, close: int, width: int, base: TextStyle) -> list[Line]:
        header: list[Cell] = []
        alignments: list[Align] = []
        rows: list[list[Cell]] = []
        for token_index in range(index + 1, close):
            token = self.tokens[token_index]
            if token.type == "th_open":
                header.append(self._spans(token_index + 1, add_slot(base, "table-head")))
                alignments.append(_alignment(str(token.attrs.get("style", ""))))
            elif token.type == "tr_open" and header:
                rows.append([])
            elif token.type == "td_open":
                rows[-1].append(self._spans(token_index + 1, base))
        return render_table(Table(header, rows, alignments, base), width)


def _alignment(style: str) -> Align:
    """Return the alignment of a column from the CSS that markdown-it gives a header cell: `text-align:right`."""
    if style.endswith("right"):
        return "right"
    return "center" if style.endswith("center") else "left"


Align = Literal["left", "center", "right"]
Cell = list[Span]

_MIN_COLUMN_CELLS = 6
_COLUMN_GAP = 3


@dataclass(frozen=True, slots=True)
class Table:
    """A table of cells as spans. Each row has as many cells as `header`, and `alignments` has one for each column."""

    header: list[Cell]
    rows: list[list[Cell]]
    alignments: list[Align]
    base: TextStyle


def render_table(table: Table, width: int) -> list[Line]:
    """Return the rows of `table`, each at most `width` terminal cells wide."""
    widths = fit_columns([_column_width(table, column) for column in range(len(table.header))], width)
    if widths is None:
        return _records(table, width)
    rule = "─┼─".join("─" * cells for cells in widths)
    lines = _table_row(table, table.header, widths)
    lines.append(Line(((rule, add_slot(table.base, "rule")),), is_decoration=True))
    for row in table.rows:
        lines.extend(_table_row(table, row, widths))
    return lines


def fit_columns(natural_widths: Sequence[int], width: int) -> list[int] | None:
    """Return column widths that fit into `width`, shrinking the widest columns first; None if they get too narrow.

    `natural_widths` are the widths at which no cell is wrapped. Example: `fit_columns([30, 10], 33)` is `[20, 10]`,
    because the gap between two columns takes 3 cells. `fit_columns([30, 20, 10], 52)` is `[18, 18, 10]`: the first
    column is shrunk to 20, then both columns of 20 are.
    """
    available = width - _COLUMN_GAP * (len(natural_widths) - 1)
    if available < sum(min(cells, _MIN_COLUMN_CELLS) for cells in natural_widths):
        return None
    widths = list(natural_widths)
    excess = sum(widths) - available
    while excess > 0:
        # Shrink the widest columns together: down to the next narrower column, or until the table fits.
        largest = max(widths)
        widest_columns = [index for index, cells in enumerate(widths) if cells == largest]
        next_smaller = max([cells for cells in widths if cells < largest] + [_MIN_COLUMN_CELLS])
        step = max(1, min(largest - next_smaller, excess // len(widest_columns)))
        for index in widest_columns:
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
    for row in range(max(len(column) for column in columns)):
        spans: list[Span] = []
        for index, column in enumerate(columns):
            line = column[row] if row < len(column) else Line()
            before, after = _padding(widths[index] - line.width, table.alignments[index])
            spans += [(" " * before, table.base), *line.spans, (" " * after, table.base)]
            spans.append(separator)
        spans.pop()  # no separator follows the last column
        lines.append(Line(tuple(span for span in spans if span[0])))
    return lines


def _padding(free_cells: int, align: Align) -> tuple[int, int]:
    """Return the number of blanks before and after a cell's text."""
    free_cells = max(0, free_cells)
    before = {"left": 0, "right": free_cells, "center": free_cells // 2}[align]
    return before, free_cells - before


def _records(table: Table, width: int) -> list[Line]:
    """Return each row as a record, with one line for each cell: the name of the column, a colon, and the cell."""
    lines: list[Line] = []
    # A table without rows shows its header as a record of empty cells.
    for row in table.rows or [[[] for _ in table.header]]:
        if lines:
            lines.append(Line((("─" * min(width, 8), add_slot(table.base, "rule")),), is_decoration=True))
        for name, cell in zip(table.header, row, strict=True):
            spans = [*name, (": ", add_slot(table.base, "strong")), *cell] if name else cell
            lines.extend(prefix(wrap(spans, max(1, width - 2)), ("", table.base), ("  ", table.base)))
    return lines


_INLINE_SLOTS = {"strong_open": "strong", "em_open": "emphasis", "s_open": "strike", "link_open": "link"}
_HTML_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def inline_spans(tokens: Sequence[Token], base: TextStyle) -> list[Span]:
    """Return the spans of inline `tokens`, painted over `base`; a hard break is a newline in the text."""
    spans: list[Span] = []
    styles = [base]  # a stack: the last style is that of the innermost open mark
    links: list[tuple[str, int]] = []  # the target of each open link, and the index of its first span
    for token in tokens:
        kind = token.type
        if kind == "text":
            _add_text(spans, tidy(token.content), styles[-1])
        elif kind in ("softbreak", "hardbreak"):
            spans.append((" " if kind == "softbreak" else "\n", styles[-1]))
        elif kind == "code_inline":
            spans.append((tidy(token.content), add_slot(styles[-1], "code")))
        elif kind == "image":
            spans.extend(_image_spans(token, styles[-1]))
        elif kind in _INLINE_SLOTS:
            style = add_slot(styles[-1], _INLINE_SLOTS[kind])
            if kind == "link_open":
                target = str(token.attrs.get("href", ""))
                links.append((target, len(spans)))
                style = style_of(*style.slots, href=target if is_web(target) else "")
            styles.append(style)
        elif token.nesting == -1:
            styles.pop()
            if kind == "link_close":
                target, first = links.pop()
                spans.extend(_target_spans("".join(text for text, _ in spans[first:]), target, styles[-1]))
        elif token.content:
            spans.append((tidy(token.content), styles[-1]))
    return spans


def is_web(target: str) -> bool:
    """Return whether `target` is a web address, which a click may open."""
    return target.startswith(("https://", "http://"))


def _add_text(spans: list[Span], text: str, style: TextStyle) -> None:
    """Add `text` to `spans`: addresses become links, and `<br>`, which is common in tables, becomes a newline."""
    if "<" in text:
        text = _HTML_BREAK.sub("\n", text)
    if "link" in style.slots:
        if text:
            spans.append((text, style))
        return
    for part in split_at_addresses(text):
        part_style = style_of(*style.slots, "link", href=part.text) if part.is_address else style
        spans.append((part.text, part_style))


def _target_spans(label: str, target: str, base: TextStyle) -> list[Span]:
    """Return the spans that show the target of a link after its `label`; empty if the label is already the target."""
    shown_target = tidy(target)
    if label.rstrip("/") == shown_target.removeprefix("mailto:").rstrip("/") or not shown_target:
        return []
    return [(f" ({shown_target})" if label.strip() else shown_target, add_slot(base, "target"))]


def _image_spans(token: Token, base: TextStyle) -> list[Span]:
    label = tidy(token.content) or "image"
    source = str(token.attrs.get("src", ""))
    style = style_of(*base.slots, "link", href=source if is_web(source) else "")
    shown_label = "[image]" if label == "image" else f"[image: {label}]"
    return [(shown_label, style), *_target_spans(label, source, base)]
