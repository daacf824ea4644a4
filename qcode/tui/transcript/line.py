"""Screen lines of the transcript: styled text, and wrapping by terminal cells.

A style is a list of names. `palette` turns it into colors, so a change of theme needs no new layout. Text is wrapped
between words, between wide characters, and inside words that are longer than a row. `shorten` cuts text of a model, a
tool or a file to one row. No text is parsed as markup. Imports neither Textual nor Rich styles.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len

from qcode.text.clean import clean, one_line
from qcode.text.pattern import lazy_pattern

TAB = 4
"""The distance between tab stops in cells."""
# An expanded tab is one head character and up to three rest characters, from a private plane of Unicode. They are shown
# as spaces, and the head is copied as a tab.
_TAB_HEAD, _TAB_REST = "\U0010ff09", "\U0010ff20"
_TABS_TO_SPACES = {ord(_TAB_HEAD): " ", ord(_TAB_REST): " "}
_TABS_TO_SOURCE = {ord(_TAB_HEAD): "\t", ord(_TAB_REST): ""}
SPACE_CLASS = rf"[\s{_TAB_HEAD}{_TAB_REST}]"
"""A regular expression for one white space character in the text of lines, including those of expanded tabs."""


class TextStyle(NamedTuple):
    """The style of a text by names, which `palette` looks up in the theme."""

    slots: tuple[str, ...] = ()
    """Names of `SLOT_STYLES`. A later one overrides an earlier one: `("code-block", "code-keyword")`."""
    href: str = ""
    """The http(s) address that the text links to; empty if it links to nothing."""


PLAIN = TextStyle()
Span: TypeAlias = tuple[str, TextStyle]


@lru_cache(maxsize=2048)
def style_of(*slots: str, href: str = "") -> TextStyle:
    """Return the shared `TextStyle` of these slots."""
    return TextStyle(slots, href)


@lru_cache(maxsize=4096)
def add_slot(base: TextStyle, slot: str) -> TextStyle:
    """Return `base` with `slot` on top of it."""
    return style_of(*base.slots, slot, href=base.href)


def tidy(text: str) -> str:
    """Return text of a model, tool or file for the screen, without control characters.

    Tabs become spaces up to the next tab stop, and Unicode line separators become spaces.
    """
    text = clean(text)
    if text.isascii():
        return text.expandtabs(TAB) if "\t" in text else text
    return text.expandtabs(TAB).replace("\u2028", " ").replace("\u2029", " ")


def tidy_keeping_tabs(text: str) -> str:
    """Return `text` as `tidy` does, but with its tabs, which `expand_tabs` expands later."""
    text = clean(text)
    return text if text.isascii() else text.replace("\u2028", " ").replace("\u2029", " ")


def expand_tabs(spans: Sequence[Span]) -> list[Span]:
    """Return the spans of one source line with tabs expanded to the next tab stop; `source_text` restores the tabs."""
    if not any("\t" in text for text, _ in spans):
        return list(spans)
    column = 0
    result: list[Span] = []
    for text, style in spans:
        parts: list[str] = []
        for index, part in enumerate(text.split("\t")):
            if index:
                cells = TAB - column % TAB
                parts.append(_TAB_HEAD + _TAB_REST * (cells - 1))
                column += cells
            parts.append(part)
            column += cell_len(part)
        result.append(("".join(parts), style))
    return result


def terminal_text(text: str) -> str:
    """Return the text of a line as it is sent to the terminal: with spaces for expanded tabs."""
    return text if text.isascii() else text.translate(_TABS_TO_SPACES)


@dataclass(slots=True, eq=False)
class Line:
    """One row of the screen, or a part of one."""

    spans: tuple[Span, ...] = ()
    lead: int = 0
    """The number of characters at the start that are decoration (gutter, indent, padding) and are not copied."""
    joint: str | None = None
    """The source text between the previous line and this one if wrapping divided them (mostly a space); None if the
    source has a line break there."""
    fill: TextStyle = PLAIN
    """The style of the cells to the right of the text."""
    is_decoration: bool = False
    """The whole line is decoration."""
    search_start: int | None = None
    """The index of the first character that a search reads; None stands for `lead`. A diff in two columns is searched
    in both, but only the second column is copied."""

    @property
    def text(self) -> str:
        return "".join([text for text, _ in self.spans])

    @property
    def width(self) -> int:
        """The width of the text in cells."""
        return sum([cell_len(text) for text, _ in self.spans])


def prefix(lines: Iterable[Line], first: Span, others: Span) -> list[Line]:
    """Return `lines` with decoration in front: `first` on the first line, `others` on the others."""
    result: list[Line] = []
    decoration = first
    for line in lines:
        spans = (decoration, *line.spans) if decoration[0] else line.spans
        length = len(decoration[0])
        search_start = None if line.search_start is None else line.search_start + length
        result.append(Line(spans, line.lead + length, line.joint, line.fill, line.is_decoration, search_start))
        decoration = others
    return result


def with_style(line: Line, style: TextStyle) -> Line:
    """Return `line` in a single style."""
    return replace(line, spans=((line.text, style),) if line.spans else (), fill=PLAIN)


def shown_text(lines: Sequence[Line]) -> str:
    """Return the text of `lines` as it is on screen, with a line break between rows."""
    return "\n".join([terminal_text(line.text).rstrip() for line in lines])


def source_text(lines: Sequence[Line], start: int = 0, end: int | None = None) -> str:
    """Return the source text of `lines`: without decoration, and with wrapped lines joined.

    `start` is a character index into the first line, `end` into the last one.
    """
    pieces: list[str] = []
    last = len(lines) - 1
    for index, line in enumerate(lines):
        if line.is_decoration:
            continue
        text = line.text
        begin = max(start if index == 0 else 0, line.lead)
        piece = text[begin : end if index == last else None]
        if pieces:
            pieces.append("\n" if line.joint is None else line.joint)
        pieces.append(piece)
    text = "".join(pieces)
    return text if text.isascii() else text.translate(_TABS_TO_SOURCE)


# In `see (src/a.py:12): no`, this matches `see`, `src/a.py:12` and `no`.
_WORD_OR_PATH = lazy_pattern(r"(?<![\w./~@:-])[\w./~@:-]*\w[\w/~@-]*")


def word_at(text: str, index: int) -> tuple[int, int]:
    """Return the range of the word or path at a character, or of that character alone if it is in no word."""
    for match in _WORD_OR_PATH.finditer(with_marks_as_letters(text)):
        if match.start() <= index < match.end():
            return match.span()
    return index, cluster_end(text, index)


def with_marks_as_letters(text: str) -> str:
    """Return `text` with `_` for each combining mark and joiner in a word, so that `\\w+` matches the whole word.

    The other characters keep their indexes. Marks are in words of Hindi and Thai, and in decomposed accents.
    """
    if text.isascii():
        return text
    characters: list[str] = []
    is_in_word = False
    for character in text:
        is_mark = character in _WORD_JOINERS or unicodedata.category(character)[0] == "M"
        characters.append("_" if is_mark and is_in_word else character)
        if not is_mark:
            is_in_word = character.isalnum() or character == "_"
    return "".join(characters)


def href_at(line: Line, index: int) -> str:
    """Return the target of the link at a character of `line`, empty if there is none."""
    for text, style in line.spans:
        if index < len(text):
            return style.href
        index -= len(text)
    return ""


_WIDE_CHARACTERS = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd"
)
_CLOSING = "、。，．：；！？）］｝」』】〉》〕々ー"
"""Characters that must not begin a row."""
_LONE = frozenset(")]}>\"'.,;:!?")
"""Characters that must not be the only one of a row."""
_PLAIN_WORD = lazy_pattern("[^ ]+ *| +")
WORD_JOINER = "\u2060"
"""Text is not wrapped at this character, which has no width."""
UNBROKEN_SPACE = "\u00a0"
"""A space at which `wrap` does not break; `without_wrap_marks` turns it into a space."""
_JOINER = "\u200d"
_WORD_JOINERS = f"\u200c{_JOINER}"
"""The zero-width non-joiner, which is in words of Persian, and the joiner."""


class RowRange(NamedTuple):
    """A row of a wrapped text, as character indexes."""

    start: int
    end: int
    next_start: int
    """The start of the next row. The characters from `end` up to it are not shown."""


def clusters(text: str) -> Iterator[str]:
    """Yield the grapheme clusters of `text`: a character with its combining marks and the characters joined to it."""
    begin = 0
    for index in range(1, len(text)):
        character = text[index]
        if text[index - 1] == _JOINER or character == _JOINER or cell_len(character) == 0:
            continue
        yield text[begin:index]
        begin = index
    if text:
        yield text[begin:]


def cluster_end(text: str, index: int) -> int:
    """Return the index after the grapheme cluster that begins at `index`; the length of `text` at its end."""
    return index + len(next(clusters(text[index:]), ""))


@cache
def _word_pattern() -> re.Pattern[str]:
    """Return the pattern of words in text with wide characters. Each wide character is a separate word.

    The pattern is large, so it is compiled only when a text needs it.
    """
    # An ending such as `.py` stays with the last character of a file name.
    wide = rf"[{_WIDE_CHARACTERS}](?:\.[A-Za-z0-9]{{1,5}}(?![A-Za-z0-9]))?[{_CLOSING})]*"
    part = rf"(?:{wide}|[^ {WORD_JOINER}{_WIDE_CHARACTERS}]+[{_CLOSING}]*)"
    return re.compile(rf"(?:{part}{WORD_JOINER})*{part} *| +")


def break_text(text: str, width: int) -> list[RowRange]:
    """Wrap one line of text between words; return its rows, at least one.

    The white space between the end of a row and the start of the next one is not shown. A row is at most `width` cells
    wide, unless a single character is wider. Example: `break_text("ab cd", 3)` is `[(0, 2, 3), (3, 5, 5)]`.
    """
    if cell_len(text) <= width:
        return [RowRange(0, len(text), len(text))]
    rows: list[RowRange] = []
    # The current row begins at `start`, its last word ends at `end`, and it is `used_cells` wide.
    start = end = used_cells = 0
    pattern = _PLAIN_WORD if text.isascii() else _word_pattern()
    for match in pattern.finditer(text):
        begin = match.start()
        word = match.group()
        bare = word.rstrip(" ")
        cells = cell_len(bare)
        if used_cells and used_cells + cells > width:
            rows.append(RowRange(start, end, begin))
            start, used_cells = begin, 0
        if cells > width:
            for cut in _cut_indexes(bare, width):
                rows.append(RowRange(start, begin + cut, begin + cut))
                start = begin + cut
            used_cells = cell_len(text[start : begin + len(bare)])
        else:
            used_cells += cells
        used_cells += len(word) - len(bare)
        end = begin + len(bare)
    rows.append(RowRange(start, max(start, end), len(text)))
    return rows


def break_code(text: str, width: int) -> list[RowRange]:
    """Wrap one line of code at a space in the second half of the row, otherwise exactly at `width`.

    One space at the break is not shown; others are kept.
    Example: `break_code("f(alpha, beta)", 10)` is `[(0, 8, 9), (9, 14, 14)]`.
    """
    if cell_len(text) <= width:
        return [RowRange(0, len(text), len(text))]
    row_end = _row_ends(text, max(1, width))
    rows: list[RowRange] = []
    start = 0
    while start < len(text):
        end = following = row_end(start)
        if end < len(text):
            half = start + (end - start) // 2
            # The space may follow the full row, but the last character of the text is never left out.
            space = text.rfind(" ", half, min(end + 1, len(text) - 1))
            if space > start and not text[start:space].isspace():
                end, following = space, space + 1
        rows.append(RowRange(start, end, following))
        start = following
    return rows


def _row_ends(text: str, width: int) -> Callable[[int], int]:
    """Return a function that takes the index at which a row starts and returns the index at which it must end.

    The row is at most `width` cells wide, but has at least one grapheme cluster. Example: in "a漢b" with a `width` of
    2, `edges` is [0, 1, 2, 3] and `cells` is [0, 1, 3, 4]. The row from 0 ends at 1: two clusters would take 3 cells.
    """
    if text.isascii():
        return lambda start: min(len(text), start + width)
    # Both lists have one number for each cluster end: the characters, and the cells, before it.
    edges = [0, *accumulate(len(cluster) for cluster in clusters(text))]
    cells = [0, *accumulate(cell_len(cluster) for cluster in clusters(text))]

    def row_end(start: int) -> int:
        first = bisect_left(edges, start)
        last = bisect_right(cells, cells[first] + width) - 1
        return edges[min(max(last, first + 1), len(edges) - 1)]

    return row_end


def _cut_indexes(text: str, width: int) -> list[int]:
    """Return the indexes at which a word longer than a row must be cut, without its start and end.

    The last row is not a lone closing character: `(main)` is cut into `(mai` and `n)` if five cells are free.
    """
    if text.isascii():
        cuts = list(range(max(1, width), len(text), max(1, width)))
        if cuts[-1] == len(text) - 1 and text[-1] in _LONE and width > 1:
            cuts[-1] -= 1
        return cuts
    cuts = []
    position = previous = used_cells = 0
    for cluster in clusters(text):
        cells = cell_len(cluster)
        if used_cells and used_cells + cells > width:
            is_lone = position == len(text) - 1 and cluster in _LONE and width > 1
            cuts.append(previous if is_lone and previous > max(cuts, default=0) else position)
            used_cells = 0
        used_cells += cells
        previous, position = position, position + len(cluster)
    return cuts


def wrap(spans: Sequence[Span], width: int, *, is_code: bool = False) -> list[Line]:
    """Wrap `spans` into rows of at most `width` cells; a newline in their text is a line break of the source.

    Code is wrapped by `break_code`, other text by `break_text`.
    """
    lines: list[Line] = []
    for line in _split_lines(spans):
        text = "".join([piece for piece, _ in line])
        rows = break_code(text, width) if is_code else break_text(text, width)
        if len(rows) == 1 and rows[0].end == len(text):
            lines.append(Line(tuple(line)))
            continue
        joint: str | None = None
        for row, pieces in zip(rows, _split_spans(line, rows), strict=True):
            lines.append(Line(pieces, joint=joint))
            joint = text[row.end : row.next_start]
    return lines


def without_wrap_marks(row: Line) -> Line:
    """Return a wrapped row without the characters that prevented a break."""
    spans = [(text.replace(UNBROKEN_SPACE, " ").replace(WORD_JOINER, ""), style) for text, style in row.spans]
    return replace(row, spans=tuple(spans))


def _split_lines(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the spans of each line, without the newlines."""
    lines: list[list[Span]] = [[]]
    for text, style in spans:
        first, *others = text.split("\n")
        if first:
            lines[-1].append((first, style))
        lines.extend([(piece, style)] if piece else [] for piece in others)
    return lines


def _split_spans(spans: Sequence[Span], rows: Sequence[RowRange]) -> list[tuple[Span, ...]]:
    """Split `spans` at the boundaries of `rows`, in one pass.

    Example: the spans "ab" and "cd ef" with the rows (0, 4, 5) and (5, 7, 7) give ("ab", "cd") and ("ef",).
    """
    result: list[tuple[Span, ...]] = []
    index = offset = 0
    for start, end, _ in rows:
        pieces: list[Span] = []
        while index < len(spans) and offset + len(spans[index][0]) <= start:
            offset += len(spans[index][0])
            index += 1
        # A span may reach into the next row, so `index` stays at the span in which this row begins.
        position, cursor = offset, index
        while cursor < len(spans) and position < end:
            text, style = spans[cursor]
            piece = text[max(0, start - position) : end - position]
            if piece:
                pieces.append((piece, style))
            position += len(text)
            cursor += 1
        result.append(tuple(pieces))
    return result


def estimate_rows(text: str, width: int) -> int:
    """Return about how many rows a text takes, by the number of its characters and line breaks."""
    return 1 + text.count("\n") + len(text) // max(1, width)


def crop(text: str, width: int) -> str:
    """Return `text` in at most `width` cells, with an ellipsis if it was cut. `shorten` also cleans it."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    end = used_cells = 0
    for cluster in clusters(text):
        used_cells += cell_len(cluster)
        if used_cells > width - cell_len("…"):
            break
        end += len(cluster)
    return text[:end].removesuffix("…") + "…"


def clip(rows: Sequence[Line], count: int, width: int) -> list[Line]:
    """Return the first `count` rows of a text wrapped at `width`, with an ellipsis at the end if more follow."""
    if len(rows) <= count or count < 1:
        return list(rows[: max(0, count)])
    *complete_rows, last = rows[:count]
    text = last.text.rstrip(" …")
    if cell_len(text) >= width:
        # The added space makes the text too long, so that `crop` makes room for the ellipsis.
        text = crop(f"{text} ", width).removesuffix("…")
    (pieces,) = _split_spans(last.spans, [RowRange(0, len(text), len(text))])
    style = pieces[-1][1] if pieces else PLAIN
    return [*complete_rows, replace(last, spans=(*pieces, ("…", style)))]


def shorten(text: str, width: int) -> str:
    """Return cleaned `text` on one line of at most `width` cells, with an ellipsis if it was cut."""
    return crop(one_line(text), width)


def shorten_start(path: str, width: int) -> str:
    """Return a cleaned `path` in at most `width` cells, without its start if it is too long: `…/tui/prompt/menu.py`."""
    line = one_line(path, len(path))
    if cell_len(line) <= width:
        return line
    end = line[start_of_end(line, width - cell_len("…")) :]
    # Begin with a complete name, unless that leaves less than half of the width.
    return "…" + end[max(0, end.find("/", 0, len(end) // 2)) :]


def start_of_end(text: str, width: int) -> int:
    """Return the index of the longest end of `text` that fits into `width` cells; the length of `text` if none does."""
    start, free_cells = len(text), width
    for cluster in reversed(list(clusters(text))):
        free_cells -= cell_len(cluster)
        if free_cells < 0:
            break
        start -= len(cluster)
    return start


_CLAUSE_END = lazy_pattern(r"(?=[.,;:]? · |[.,;:] )")
_FACT_END = lazy_pattern(r"(?= · )")
_WORD_END = lazy_pattern(r"(?=[.,;:]? )")
_MIN_TITLE_SHARE = 0.6
"""The share of the width that a title must fill after a cut between words. Otherwise a word is cut."""


def _longest_start(line: str, width: int, end_pattern: re.Pattern[str], suffix: str = "") -> str:
    """Return the longest start of `line` that ends at a match and fits with `suffix`; empty if none does."""
    longest = ""
    for match in end_pattern.finditer(line):
        start = line[: match.start()] + suffix
        if cell_len(start) > width:
            break
        longest = start
    return longest


def shorten_to_clauses(text: str, width: int, min_cells: int = 0) -> str:
    """Return `text` on one line, without its last clauses if it is too long.

    Example: `truncated, retrying: waiting` becomes `truncated, retrying`. If no clause fits, or the clauses that fit
    have less than `min_cells`, return the first words and an ellipsis; empty if the first word does not fit.
    """
    line = one_line(text)
    if cell_len(line) <= width:
        return line
    clauses = _longest_start(line, width, _CLAUSE_END)
    if clauses and cell_len(clauses) >= min_cells:
        return clauses
    return _longest_start(line, width, _WORD_END, suffix="…")


def shorten_to_words(text: str, width: int) -> str:
    """Return `text` on one line, without its last words if it is too long: `follows the…`.

    A fact after ` · ` is kept or left out as a whole: `dark · your config.toml` becomes `dark`. A first word that is
    too wide is cut.
    """
    line = one_line(text)
    if cell_len(line) <= width:
        return line
    facts = _longest_start(line, width, _FACT_END)
    return facts or _longest_start(line, width, _WORD_END, suffix="…") or crop(line, width)


def shorten_title(text: str, width: int) -> str:
    """Return `text` as `shorten` does, but cut it between words if the rest fills most of the width."""
    words = shorten_to_words(text, width)
    return words if cell_len(words) > _MIN_TITLE_SHARE * width else shorten(text, width)


def shorten_to_rows(text: str, width: int, max_rows: int) -> str:
    """Return `text` in at most `max_rows` rows of `width` cells; a longer text is cut between words."""
    line = one_line(text)
    rows = break_text(line, width)
    shown = [line[start:end] for start, end, _ in rows[:max_rows]]
    if len(rows) > max_rows:
        shown[-1] = shorten_to_words(line[rows[max_rows - 1].start :], width)
    return "\n".join(shown)


def count_letters(rows: Iterable[Line]) -> int:
    """Return the number of letters and digits in `rows`, which is nearly the same at every width."""
    return sum(character.isalnum() for line in rows for character in line.text)


def row_of_letter(rows: Sequence[Line], count: int) -> int:
    """Return the index of the row with the letter or digit number `count`, counted from 0; otherwise the last row."""
    letters = 0
    for index, line in enumerate(rows):
        letters += count_letters((line,))
        if letters > count:
            return index
    return max(0, len(rows) - 1)
