"""Splits streaming Markdown into chunks that are rendered once, and renders the growing chunk at a constant cost.

A chunk is a top-level fenced block, a list item, or the text between blank lines. Its end depends only on complete
lines, so streamed text is split exactly like complete text. Example: "# Title\\n\\nSome text\\n- one\\n- two" has the
chunks "# Title", "Some text", "- one" and "- two".

A long chunk that still grows is divided at a place that most likely changes nothing. When it is finished, it is
rendered as a whole, which replaces the guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace

from qcode.text.fences import fence_after
from qcode.tui.transcript.line import PLAIN, Line, Span, tidy, tidy_keeping_tabs, wrap
from qcode.values import dataclass

_TOP_LEVEL_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)")
_TOP_LEVEL_ITEM = re.compile(r"( {0,3})(?:([-*+])|(\d{1,9})[.)])(?:\s+(\S)|\s*$)")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")


@dataclass(slots=True)
class Chunk:
    """Consecutive lines of the source. `has_gap`: a blank line precedes the chunk.

    `fence` is the opening marker of a code chunk, with its `indent` and `info` string; it is empty for prose. `number`
    is the number that the first item of an ordered list shows, `source_number` is its number in the source. `is_over`:
    the next line cannot belong to the chunk.
    """

    lines: list[str] = field(default_factory=list)
    has_gap: bool = False
    fence: str = ""
    indent: int = 0
    info: str = ""
    is_list: bool = False
    number: int | None = None
    source_number: int | None = None
    is_over: bool = False

    @property
    def is_code(self) -> bool:
        return bool(self.fence)

    def closes(self, line: str) -> bool:
        """Return whether `line` closes this code chunk."""
        mark = line.strip()
        is_decoration = len(mark) >= len(self.fence) and mark == self.fence[0] * len(mark)
        return is_decoration and len(line) - len(line.lstrip(" ")) <= 3 and not line.lstrip(" ").startswith("\t")

    def add(self, line: str) -> None:
        self.lines.append(undent(line, self.indent) if self.is_code else line)

    def with_line(self, line: str) -> Chunk:
        """Return a copy of this chunk with one more line."""
        return replace(self, lines=[*self.lines, undent(line, self.indent) if self.is_code else line])


@dataclass(frozen=True, slots=True)
class PartStart:
    """The state at the start of a part of a text: the chunk before it, and whether a blank line follows that one."""

    before: Chunk | None = None
    is_after_blank: bool = False


class Splitter:
    """Splits complete lines into chunks. `open` is the chunk that still grows, None between chunks."""

    def __init__(self, start: PartStart) -> None:
        self.open: Chunk | None = None
        self._before = start.before
        self._blank = start.is_after_blank

    def clean(self, line: str) -> str:
        """Return a source line as `feed` takes it; only code keeps its tabs."""
        return tidy_keeping_tabs(line) if self.open is not None and self.open.is_code else tidy(line)

    def start_of_open(self) -> PartStart | None:
        """Return the start of a part that begins with the last line fed, if a chunk begins there; otherwise None."""
        chunk = self.open
        if chunk is None or self._before is None or len(chunk.lines) > (0 if chunk.is_code else 1):
            return None
        return PartStart(replace(self._before, lines=[]), chunk.has_gap)

    def feed(self, line: str) -> Chunk | None:
        """Add one line, without its line break; return the chunk that it completes, None if there is none."""
        chunk = self.open
        if chunk is not None and chunk.is_code:
            if not chunk.closes(line):
                chunk.add(line)
                return None
            return self.close()
        if not line.strip():
            self._blank = True
            if chunk is not None:
                chunk.add("")
            return None
        new_chunk = self.begin(line)
        if new_chunk is None:
            assert chunk is not None
            chunk.add(line)
            self._blank = False
            return None
        done = self.close() if chunk is not None else None
        self.open = new_chunk
        self._blank = False
        return done

    def close(self) -> Chunk:
        """End the open chunk and return it."""
        chunk = self.open
        assert chunk is not None
        self._before, self.open = chunk, None
        return chunk

    def begin(self, line: str) -> Chunk | None:
        """Return the chunk that the non-blank `line` would start; None if it belongs to the open chunk."""
        chunk = self.open
        if chunk is not None and chunk.is_code:
            return None
        indent = len(line) - len(line.lstrip(" "))
        has_gap = self._blank and (chunk is not None or self._before is not None)
        is_inside = chunk is not None and chunk.is_list and indent > 0
        fence = None if is_inside else _TOP_LEVEL_FENCE.fullmatch(line)
        if fence is not None:
            return Chunk([], has_gap, fence.group(2), len(fence.group(1)), fence.group(3).strip())
        if chunk is not None and not self._ends(chunk, line, indent):
            return None
        new_chunk = Chunk([line], has_gap)
        item = None if _RULE.match(line) else _TOP_LEVEL_ITEM.match(line)
        if item is not None:
            new_chunk.is_list = True
            if item.group(3):
                new_chunk.source_number = int(item.group(3))
                new_chunk.number = self._number(new_chunk.source_number)
        new_chunk.is_over = item is None and bool(_HEADING.match(line) or _RULE.match(line))
        return new_chunk

    def _ends(self, chunk: Chunk, line: str, indent: int) -> bool:
        """Return whether `line` ends the open prose `chunk`."""
        if chunk.is_over:
            return True
        if self._blank and indent <= (0 if chunk.is_list else 3):
            return True
        if indent == 0 and _HEADING.match(line):
            return True
        item = None if _RULE.match(line) else _TOP_LEVEL_ITEM.match(line)
        if item is None:
            return False
        if chunk.is_list:
            return indent == 0
        return bool(item.group(4)) and item.group(3) in (None, "1")

    def _number(self, number: int) -> int:
        """Return the number that an item shows: as written, or one more if the source repeats a number ("1. 1. 1.")."""
        last = self.open or self._before
        if last is not None and last.number is not None and last.source_number == number:
            return last.number + 1
        return number


class PartFinder:
    """Divides a long text between two chunks, into parts that look the same if they are rendered separately.

    `size` is the minimum length of a part in characters; `tail` is the number of characters at the end of the text
    that belong to the next part. Example: with a `size` of 8, "# Title\\nSome text\\n\\nMore" is divided before
    "Some text", and `tail` is 15. The next part starts after a heading, with no blank line between.
    """

    def __init__(self, start: PartStart, size: int) -> None:
        self.tail = 0
        self._splitter = Splitter(start)
        self._size = size
        self._rest = ""
        self._done = 0

    def feed(self, text: str) -> PartStart | None:
        """Add text; return the start of the next part if it begins in this text. Do not add more after that."""
        *complete, rest = (self._rest + text).split("\n")
        left = sum(len(line) + 1 for line in complete) + len(rest)
        for line in complete:
            self._splitter.feed(self._splitter.clean(line))
            if self._done >= self._size and (start := self._splitter.start_of_open()) is not None:
                self.tail = left
                return start
            self._done += len(line) + 1
            left -= len(line) + 1
        self._rest = rest
        return None


def undent(line: str, indent: int) -> str:
    """Remove up to `indent` leading spaces from `line`."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


STEP = 800
"""At least this many characters at the end of a growing chunk are rendered again with each frame."""

_LATEST = 4
_NESTED_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+\S")
_NESTED_FENCE = re.compile(r"(?:\s|>|[-*+] |\d{1,9}[.)] )*(`{3,}|~{3,})")
_QUOTE = re.compile(r"\s*>[\s>]*")
_TABLE_RULE = re.compile(r"\s*+\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*")
# The matched character stays before the division; the text after it must not look like the start of a block.
_BETWEEN_WORDS = re.compile(r"\w(?=\s+[^\W\d_])")
_BEFORE_WORD = re.compile(r"\S(?=\s+[^\W\d_])")
_INSIDE_WORD = re.compile(r"\w(?=[^\W\d_])")
_DELIMITERS = frozenset("*_`[~<")

Blocks = Callable[[Sequence[str]], list[Line]]
Paragraph = Callable[[str], "list[Span] | None"]


class GrowingLines:
    """The rows of a long list, quote or table that still grows. `blocks` renders a part of its lines.

    The lines before a cut are rendered once. The lines after it are rendered with a context: the lines above that give
    them their meaning, such as the header of a table; the rows of the context are then dropped.

    Example: a table has 100 rows of source, and the cut is before row 80. The rows 80 to 100 are rendered as a table
    with the two lines of the header, which give 2 rows on screen; these are dropped, and the others follow the rows of
    the first part.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._rows: list[Line] = []
        self._done_lines = 0
        self._context: list[str] = []
        self._context_rows = 0

    def grow(self, lines: Sequence[str]) -> list[Line]:
        """Return the rows of `lines`: those of the last call, with lines added, and the last line possibly longer."""
        while (cut := self._cut(lines)) is not None:
            self._rows += self._render(lines[self._done_lines : cut])
            self._done_lines = cut
            self._context = context_of(lines, cut)
            self._context_rows = self._rows_of_context(is_after_blank=not lines[cut - 1].strip())
        return self._rows + self._render(lines[self._done_lines :])

    def _render(self, lines: Sequence[str]) -> list[Line]:
        return self._blocks([*self._context, *lines])[self._context_rows :]

    def _rows_of_context(self, *, is_after_blank: bool) -> int:
        if not self._context:
            return 0
        rows = len(self._blocks(self._context))
        if _NESTED_FENCE.match(self._context[-1]):
            return rows - 1  # A fence without content shows a blank row.
        return rows + (self._context[-1] == "" and not is_after_blank)

    def _cut(self, lines: Sequence[str]) -> int | None:
        """Return the index of the line before which the open end can be divided, None while it is short."""
        size = 0
        latest = None
        for index in range(len(lines) - 1, self._done_lines, -1):
            size += len(lines[index]) + 1
            if size < STEP:
                continue
            latest = latest or index
            if _NESTED_ITEM.match(lines[index]) or not lines[index - 1].strip(" >\t"):
                break
        else:
            index = latest or self._done_lines
        return index if latest is not None and self._size(lines, index) >= STEP else None

    def _size(self, lines: Sequence[str], end: int) -> int:
        return sum(len(line) + 1 for line in lines[self._done_lines : end])


def context_of(lines: Sequence[str], at: int) -> list[str]:
    """Return the lines above `at` that give the lines after it their meaning: list items, a table header, a fence.

    Example: before the last of the lines "- one", "  - two", "    text", "    more", the context is "- one", "  - two"
    and an empty line: without it, "    more" would be a code block.
    """
    if len(lines) > 1 and "|" in lines[0] and _TABLE_RULE.fullmatch(lines[1]):
        return list(lines[:2])
    context: list[str] = []
    indent = _indent(lines[at])
    for line in reversed(lines[:at]):
        item = _NESTED_ITEM.match(line)
        if item is not None and _indent(line) < indent:
            context.insert(0, line)
            indent = _indent(line)
    opening = _open_fence(lines[:at])
    if opening:
        return context if opening in context else [*context, opening]
    quoted = _QUOTE.match(lines[at - 1])
    if not context and quoted is not None and not lines[at - 1][quoted.end() :].strip():
        # A blank line is shown only between two blocks, so a block is put before it.
        return [f"{quoted[0]} x", lines[at - 1]]
    # The blank line is needed: a list that starts with a number other than 1 cannot directly follow text.
    return [*context, ""] if context else []


def _open_fence(lines: Sequence[str]) -> str:
    """Return the opening line of the fence that is open after `lines`, empty if none is."""
    opening, marker = "", None
    for line in lines:
        mark = _NESTED_FENCE.match(line)
        if mark is None:
            continue
        is_open = marker is not None
        marker = fence_after(marker, line.strip(" >\t") if is_open else line[mark.start(1) :])
        if not is_open:
            opening = line
    return opening if marker is not None else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class GrowingParagraph:
    """The rows of one long paragraph that still grows. `spans_of` parses a text, None if it is not one paragraph.

    `_at` is the index in the source at which the open end begins. Example: the text before `_at` was wrapped to 20
    rows. The first 19 are final. The last one is not full, so its spans are in `_carry`, and each frame wraps them
    together with the open end; `_joint` says how that row continues the one before it.
    """

    def __init__(self, width: int, spans_of: Paragraph) -> None:
        self._width = width
        self._spans_of = spans_of
        self._rows: list[Line] = []
        self._at = 0
        self._carry: list[Span] = []
        self._joint: str | None = None

    def grow(self, source: str) -> list[Line] | None:
        """Return the rows of `source`, which extends the last one; None if it is no longer one paragraph."""
        while len(source) - self._at > 2 * STEP:
            if not self._settle(source):
                break
        spans = self._spans_of(source[self._at :])
        return None if spans is None else self._rows + self._wrap(spans, source)

    def _settle(self, source: str) -> bool:
        """Wrap the complete part for the last time; return whether the open end became shorter."""
        cut = _last_division(source, self._at, len(source) - STEP)
        if cut is None:
            return False
        spans = self._spans_of(source[self._at : cut])
        if spans is None:
            return False
        is_closed = not any(_DELIMITERS.intersection(text) for text, paint in spans if paint == PLAIN)
        if not is_closed and len(source) - self._at < _LATEST * STEP:
            return False
        rows = self._wrap(spans, source)
        self._rows += rows[:-1]
        self._carry, self._joint = list(rows[-1].spans), rows[-1].joint
        self._at = cut
        return True

    def _wrap(self, spans: list[Span], source: str) -> list[Line]:
        """Return the rows of the open end; its first row continues the last row before it."""
        between: list[Span] = []
        if self._at and source[self._at].isspace():
            between = [("\n" if source.startswith("  \n", self._at) else " ", PLAIN)]
        rows = wrap([*self._carry, *between, *spans], self._width)
        rows[0].joint = self._joint
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
