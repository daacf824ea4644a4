"""Splits streaming Markdown into chunks that are rendered once, and renders the growing chunk at a constant cost.

A chunk is a top-level fenced block, a list item, or the text between blank lines. Its end depends only on complete
lines, so streamed text is split exactly like complete text. Example: "# Title\\n\\nSome text\\n- one\\n- two" has the
chunks "# Title", "Some text", "- one" and "- two".

A long chunk that still grows is divided where this most likely does not change its rows. The finished chunk is rendered
as a whole, which corrects a wrong division.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace

from qcode.text.fences import fence_after
from qcode.tui.transcript.line import PLAIN, Line, Span, tidy, tidy_keeping_tabs, wrap
from qcode.values import dataclass

_TOP_LEVEL_FENCE = re.compile(r"(?P<indent> {0,3})(?P<marker>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_TOP_LEVEL_ITEM = re.compile(r" {0,3}(?:[-*+]|(?P<number>\d{1,9})[.)])(?:\s+(?P<text>\S)|\s*$)")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")


@dataclass(slots=True)
class Chunk:
    """Consecutive lines of the source, without the fences of a code chunk."""

    lines: list[str] = field(default_factory=list)
    has_gap: bool = False
    """A blank line precedes the chunk."""
    fence: str = ""
    """The opening marker of a code chunk, such as three backticks; empty for prose."""
    indent: int = 0
    """The number of spaces before `fence`."""
    info: str = ""
    """The text after `fence`, which names the language."""
    is_list: bool = False
    """The chunk is an item of a list."""
    number: int | None = None
    """The number of an ordered item on screen; None for other chunks."""
    source_number: int | None = None
    """The number of an ordered item in the source, which may repeat a number ("1. 1. 1.")."""
    is_single_line: bool = False
    """The chunk is a heading or a rule, to which no further line can belong."""

    @property
    def is_code(self) -> bool:
        return bool(self.fence)

    def closes(self, line: str) -> bool:
        """Return whether `line` closes this code chunk."""
        marker = line.strip()
        is_fence = len(marker) >= len(self.fence) and marker == self.fence[0] * len(marker)
        without_spaces = line.lstrip(" ")
        spaces = len(line) - len(without_spaces)
        # A marker that is indented by more than three spaces, or by a tab, is a line of the code.
        is_code = spaces > 3 or without_spaces.startswith("\t")
        return is_fence and not is_code

    def add(self, line: str) -> None:
        """Add a line of the source; code loses the indent of its fence."""
        self.lines.append(undent(line, self.indent) if self.is_code else line)

    def with_line(self, line: str) -> Chunk:
        """Return a copy of this chunk with one more line."""
        return replace(self, lines=[*self.lines, undent(line, self.indent) if self.is_code else line])


@dataclass(frozen=True, slots=True)
class SplitterState:
    """The state of a `Splitter` at the start of a part of a text; without arguments, at the start of the text."""

    previous_chunk: Chunk | None = None
    is_after_blank: bool = False
    """A blank line precedes the part."""


class Splitter:
    """Splits complete lines into chunks."""

    def __init__(self, start: SplitterState) -> None:
        self.open_chunk: Chunk | None = None
        """The chunk that still grows, None between chunks."""
        self._previous_chunk = start.previous_chunk
        self._is_after_blank = start.is_after_blank

    def clean_line(self, line: str) -> str:
        """Return the next source line without control characters, as `feed` expects it; only code keeps its tabs."""
        is_in_code = self.open_chunk is not None and self.open_chunk.is_code
        return tidy_keeping_tabs(line) if is_in_code else tidy(line)

    def start_of_open_chunk(self) -> SplitterState | None:
        """Return the start of a part that begins with the last line fed; None if that line does not begin a chunk."""
        chunk = self.open_chunk
        if chunk is None or self._previous_chunk is None:
            return None
        lines_at_start = 0 if chunk.is_code else 1  # the opening fence of code is not among its lines
        if len(chunk.lines) > lines_at_start:
            return None
        return SplitterState(replace(self._previous_chunk, lines=[]), chunk.has_gap)

    def feed(self, line: str) -> Chunk | None:
        """Add one line, without its line break; return the chunk that this line completes, None if there is none."""
        chunk = self.open_chunk
        if chunk is not None and chunk.is_code:
            if not chunk.closes(line):
                chunk.add(line)
                return None
            return self.close()
        if not line.strip():
            self._is_after_blank = True
            if chunk is not None:
                chunk.add("")
            return None
        new_chunk = self.chunk_started_by(line)
        if new_chunk is None:
            assert chunk is not None
            chunk.add(line)
            self._is_after_blank = False
            return None
        completed_chunk = self.close() if chunk is not None else None
        self.open_chunk = new_chunk
        self._is_after_blank = False
        return completed_chunk

    def close(self) -> Chunk:
        """End the open chunk and return it."""
        chunk = self.open_chunk
        assert chunk is not None
        self._previous_chunk = chunk
        self.open_chunk = None
        return chunk

    def chunk_started_by(self, line: str) -> Chunk | None:
        """Return the chunk that the non-blank `line` would start; None if it belongs to the open chunk."""
        chunk = self.open_chunk
        if chunk is not None and chunk.is_code:
            return None
        indent = len(line) - len(line.lstrip(" "))
        has_gap = self._is_after_blank and (chunk is not None or self._previous_chunk is not None)
        is_inside = chunk is not None and chunk.is_list and indent > 0
        fence = None if is_inside else _TOP_LEVEL_FENCE.fullmatch(line)
        if fence is not None:
            info = fence["info"].strip()
            return Chunk([], has_gap, fence=fence["marker"], indent=len(fence["indent"]), info=info)
        if chunk is not None and not self._ends(chunk, line, indent):
            return None
        return self._prose_chunk(line, has_gap)

    def _prose_chunk(self, line: str, has_gap: bool) -> Chunk:
        """Return the list item or other prose that begins with `line`."""
        is_rule = bool(_RULE.match(line))
        item = None if is_rule else _TOP_LEVEL_ITEM.match(line)
        if item is None:
            return Chunk([line], has_gap, is_single_line=is_rule or bool(_HEADING.match(line)))
        chunk = Chunk([line], has_gap, is_list=True)
        if item["number"]:
            chunk.source_number = int(item["number"])
            chunk.number = self._number(chunk.source_number)
        return chunk

    def _ends(self, chunk: Chunk, line: str, indent: int) -> bool:
        """Return whether `line` ends the open prose `chunk`."""
        if chunk.is_single_line:
            return True
        # After a blank line, an indented line continues a list item, and four spaces continue indented code.
        continuing_indent = 1 if chunk.is_list else 4
        if self._is_after_blank and indent < continuing_indent:
            return True
        if indent == 0 and _HEADING.match(line):
            return True
        item = None if _RULE.match(line) else _TOP_LEVEL_ITEM.match(line)
        if item is None:
            return False
        if chunk.is_list:
            return indent == 0
        # In Markdown only a bullet or the number 1, followed by text, ends a paragraph without a blank line.
        return bool(item["text"]) and item["number"] in (None, "1")

    def _number(self, number: int) -> int:
        """Return the number that an item shows: as written, or one more if the source repeats a number ("1. 1. 1.")."""
        previous = self.open_chunk or self._previous_chunk
        if previous is not None and previous.number is not None and previous.source_number == number:
            return previous.number + 1
        return number


class PartFinder:
    """Finds where to divide a long text: between two chunks, so that both parts can be rendered separately.

    `min_chars` is the minimum length of a part. Example: with 8, "# Title\\nSome text\\n\\nMore" is divided before
    "Some text", and `tail` is 15.
    """

    def __init__(self, start: SplitterState, min_chars: int) -> None:
        self.tail = 0
        """The number of characters at the end of the text that belong to the next part."""
        self._splitter = Splitter(start)
        self._min_chars = min_chars
        self._partial_line = ""
        self._fed_chars = 0

    def feed(self, text: str) -> SplitterState | None:
        """Add text; return the start of the next part if it begins in this text. Do not add more after that."""
        *complete, partial_line = (self._partial_line + text).split("\n")
        remaining_chars = sum(len(line) + 1 for line in complete) + len(partial_line)
        for line in complete:
            self._splitter.feed(self._splitter.clean_line(line))
            start = self._splitter.start_of_open_chunk() if self._fed_chars >= self._min_chars else None
            if start is not None:
                self.tail = remaining_chars
                return start
            self._fed_chars += len(line) + 1
            remaining_chars -= len(line) + 1
        self._partial_line = partial_line
        return None


def undent(line: str, indent: int) -> str:
    """Remove up to `indent` leading spaces from `line`."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


MIN_OPEN_CHARS = 800
"""At least this many characters at the end of a growing chunk are rendered again with each frame."""

_MAX_OPEN_STEPS = 4
"""A paragraph is divided at this multiple of `MIN_OPEN_CHARS` even if a mark such as `**` may still be unclosed."""
_NESTED_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+\S")
_NESTED_FENCE = re.compile(r"(?:\s|>|[-*+] |\d{1,9}[.)] )*(`{3,}|~{3,})")
_QUOTE = re.compile(r"\s*>[\s>]*")
_TABLE_RULE = re.compile(r"\s*+\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*")
# A paragraph is divided after the matched character. The text after it begins with a letter, so it cannot look like the
# start of a list, a heading or another block.
_BETWEEN_WORDS = re.compile(r"\w(?=\s+[^\W\d_])")
_BEFORE_WORD = re.compile(r"\S(?=\s+[^\W\d_])")
_INSIDE_WORD = re.compile(r"\w(?=[^\W\d_])")
_DELIMITERS = frozenset("*_`[~<")
"""Characters of inline marks. In plain text, such a character may belong to a mark that is closed later."""

RenderLines = Callable[[Sequence[str]], list[Line]]
ParseParagraph = Callable[[str], "list[Span] | None"]


class GrowingLines:
    """The rows of a long list, quote or table that still grows. `render_lines` renders a part of its lines.

    The lines before a cut are rendered once. The lines after the cut are rendered with a context: the lines above it
    that give them their meaning, such as the header of a table. The rows of the context are then dropped.

    Example: a table has 100 rows of source, and the cut is before row 80. The rows 80 to 100 are rendered as a table
    with the two lines of the header, which give 2 rows on screen. These 2 rows are dropped, and the others follow the
    rows of the first part.
    """

    def __init__(self, render_lines: RenderLines) -> None:
        self._render_lines = render_lines
        self._rows: list[Line] = []
        self._settled_lines = 0
        self._context: list[str] = []
        self._context_rows = 0

    def grow(self, lines: Sequence[str]) -> list[Line]:
        """Return the rows of `lines`, which are those of the last call with text added at their end."""
        while (cut := self._find_cut(lines)) is not None:
            self._rows += self._render_after_context(lines[self._settled_lines : cut])
            self._settled_lines = cut
            self._context = context_of(lines, cut)
            self._context_rows = self._rows_of_context(is_after_blank=not lines[cut - 1].strip())
        return self._rows + self._render_after_context(lines[self._settled_lines :])

    def _render_after_context(self, lines: Sequence[str]) -> list[Line]:
        return self._render_lines([*self._context, *lines])[self._context_rows :]

    def _rows_of_context(self, *, is_after_blank: bool) -> int:
        if not self._context:
            return 0
        rows = len(self._render_lines(self._context))
        if _NESTED_FENCE.match(self._context[-1]):
            return rows - 1  # A fence without content shows a blank row.
        # A blank line at the end of the context is shown above the lines after it, unless the lines have it already.
        has_blank_row = self._context[-1] == "" and not is_after_blank
        return rows + 1 if has_blank_row else rows

    def _find_cut(self, lines: Sequence[str]) -> int | None:
        """Return the index of the line before which the open end can be cut, None while it is short.

        The best cut is before an item or after a blank line; otherwise it is as near the end as possible. Both sides of
        it have at least `MIN_OPEN_CHARS`. Example: with 800, 30 lines of 100 characters without items are cut before
        line 22, because the 8 lines from there on have 800 characters.
        """
        cut = None
        open_chars = 0
        for index in range(len(lines) - 1, self._settled_lines, -1):
            open_chars += len(lines[index]) + 1
            if open_chars < MIN_OPEN_CHARS:
                continue
            cut = cut or index
            if _NESTED_ITEM.match(lines[index]) or not lines[index - 1].strip(" >\t"):
                cut = index
                break
        if cut is None:
            return None
        newly_settled_chars = sum(len(line) + 1 for line in lines[self._settled_lines : cut])
        return cut if newly_settled_chars >= MIN_OPEN_CHARS else None


def context_of(lines: Sequence[str], cut: int) -> list[str]:
    """Return the lines before the index `cut` that give those after it their meaning: items, a table header, a fence.

    Example: before the last of the lines "- one", "  - two", "    text", "    more", the context is "- one", "  - two"
    and an empty line: without it, "    more" would be a code block.
    """
    if len(lines) > 1 and "|" in lines[0] and _TABLE_RULE.fullmatch(lines[1]):
        return list(lines[:2])
    context: list[str] = []
    indent = _indent(lines[cut])
    for line in reversed(lines[:cut]):
        item = _NESTED_ITEM.match(line)
        if item is not None and _indent(line) < indent:
            context.insert(0, line)
            indent = _indent(line)
    opening = _open_fence(lines[:cut])
    if opening:
        return context if opening in context else [*context, opening]
    quote_marks = _QUOTE.match(lines[cut - 1])
    if not context and quote_marks is not None and not lines[cut - 1][quote_marks.end() :].strip():
        # A blank line is shown only between two blocks, so a block is put before it.
        return [f"{quote_marks[0]} x", lines[cut - 1]]
    # The blank line is needed: a list that starts with a number other than 1 cannot directly follow text.
    return [*context, ""] if context else []


def _open_fence(lines: Sequence[str]) -> str:
    """Return the opening line of the fence that is open after `lines`, empty if none is."""
    opening, marker = "", None
    for line in lines:
        fence = _NESTED_FENCE.match(line)
        if fence is None:
            continue
        if marker is None:
            opening = line
            marker = fence_after(None, line[fence.start(1) :])
        else:
            marker = fence_after(marker, line.strip(" >\t"))
    return opening if marker is not None else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class GrowingParagraph:
    """The rows of one long paragraph that still grows. `spans_of` parses a text; None means it has other blocks.

    Example: the first `_settled_chars` characters were wrapped to 20 rows. The first 19 are final. The last row is not
    full, so its spans are in `_carried_spans`, and each frame wraps them together with the open end. `_carried_joint`
    is the joint of that row.
    """

    def __init__(self, width: int, spans_of: ParseParagraph) -> None:
        self._width = width
        self._spans_of = spans_of
        self._rows: list[Line] = []
        self._settled_chars = 0
        self._carried_spans: list[Span] = []
        self._carried_joint: str | None = None

    def grow(self, source: str) -> list[Line] | None:
        """Return the rows of `source`, which is that of the last call with text added; None if it has other blocks."""
        while len(source) - self._settled_chars > 2 * MIN_OPEN_CHARS:
            if not self._settle(source):
                break
        spans = self._spans_of(source[self._settled_chars :])
        return None if spans is None else self._rows + self._wrap(spans, source)

    def _settle(self, source: str) -> bool:
        """Wrap the open end up to a division for the last time; return whether the open end became shorter."""
        cut = _last_division(source, self._settled_chars, len(source) - MIN_OPEN_CHARS)
        if cut is None:
            return False
        spans = self._spans_of(source[self._settled_chars : cut])
        if spans is None:
            return False
        is_closed = not any(_DELIMITERS.intersection(text) for text, style in spans if style == PLAIN)
        if not is_closed and len(source) - self._settled_chars < _MAX_OPEN_STEPS * MIN_OPEN_CHARS:
            return False
        rows = self._wrap(spans, source)
        self._rows += rows[:-1]
        self._carried_spans = list(rows[-1].spans)
        self._carried_joint = rows[-1].joint
        self._settled_chars = cut
        return True

    def _wrap(self, spans: list[Span], source: str) -> list[Line]:
        """Return the rows of the open end; its first row continues the last row before it."""
        between: list[Span] = []
        if self._settled_chars and source[self._settled_chars].isspace():
            is_hard_break = source.startswith("  \n", self._settled_chars)
            between = [("\n" if is_hard_break else " ", PLAIN)]
        rows = wrap([*self._carried_spans, *between, *spans], self._width)
        rows[0].joint = self._carried_joint
        return rows


def _last_division(source: str, start: int, end: int) -> int | None:
    """Return the last index to divide at, preferring a space between words, then a space before a word.

    Example: "one two, three" is divided after "one", because "two" is followed by a comma.
    """
    for pattern in (_BETWEEN_WORDS, _BEFORE_WORD, _INSIDE_WORD):
        divisions = [match.start() + 1 for match in pattern.finditer(source, start, end)]
        if divisions:
            return divisions[-1]
    return None
