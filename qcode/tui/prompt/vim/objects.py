"""Text objects of vim: the range of a word, a quoted text, a block in brackets or a paragraph. Pure.

`count` selects several objects; `is_around` (`a` instead of `i`) includes white space or the delimiters. In visual mode
an object replaces the selection, except that words and paragraphs extend a selection of more than one character.
"""

from __future__ import annotations

from itertools import groupby
from typing import Literal

from qcode.tui.prompt.vim.motions import (
    BLANK,
    class_at,
    find_unpaired,
    is_in_indent,
    is_line_end,
    line_end,
    line_start,
    next_word_end,
    next_word_start,
    nth_line,
)
from qcode.values import dataclass

_SPACE = " \t"
_PAIRS = (("(", ")", "()b"), ("[", "]", "[]"), ("{", "}", "{}B"), ("<", ">", "<>"))
BRACKETS = {name: (opening, closing) for opening, closing, names in _PAIRS for name in names}
QUOTES = "\"'`"
OBJECTS = frozenset({"w", "W", "p", *QUOTES, *BRACKETS})


@dataclass(frozen=True, slots=True)
class Extent:
    """The range of a text object."""

    start: int
    end: int
    is_inclusive: bool = True
    """The character at `end` belongs to the range."""
    is_lines: bool = False
    """The range consists of whole lines."""


def text_object(text: str, index: int, name: str, count: int, *, is_around: bool) -> Extent | None:
    """Return the text object `name` at `index`, None if there is none."""
    if name in "wW":
        return _word(text, index, count, is_around=is_around, is_big=name == "W")
    if name in QUOTES:
        return _quoted(text, index, name, count, is_around=is_around)
    if name == "p":
        return _paragraph(text, index, count, is_around=is_around)
    opening, closing = BRACKETS[name]
    return _block(text, index, opening, closing, count, is_around=is_around)


def more_words(text: str, index: int, count: int, *, is_around: bool, is_big: bool) -> Extent | None:
    """Return the range from `index`, which is the last character of a selection, to the end of `count` more words.

    Return None if the text has too few words. Without `is_around`, a run of white space counts as a word.
    """
    end, is_inclusive = index, True
    for remaining in reversed(range(count)):
        next_position = _past_line_end(text, end)
        if next_position is None:
            return None
        end, is_inclusive = next_position, True
        is_blank = class_at(text, end, is_big=is_big) == BLANK
        if is_around and not is_blank:
            word = next_word_start(text, end, 1, is_big=is_big, stops_at_line_end=True)
            if not word.is_complete and remaining:
                return None
            # The word and the white space after it end before the next word.
            is_inclusive = word.position > line_start(text, word.position)
            end = word.position - 1 if is_inclusive else word.position
        elif is_blank and not is_around:
            while class_at(text, end, is_big=is_big) == BLANK and not is_line_end(text, end):
                end += 1
            end = max(end - 1, line_start(text, end))
        else:
            word = next_word_end(text, end, 1, is_big=is_big, may_stay=True, stops_at_empty_line=True)
            if not word.is_complete:
                return None
            end = word.position
    return Extent(index, end, is_inclusive)


def _past_line_end(text: str, index: int) -> int | None:
    """Return the position of the next character or empty line after `index`; None at the end of the text."""
    if index >= len(text):
        return None
    index += 1
    if text[index - 1] != "\n" and is_line_end(text, index):
        return index + 1 if index < len(text) else None
    return index


def _run_start(text: str, index: int, is_big: bool) -> int:
    """Return the start of the run of one class around `index`, within the line."""
    kind = class_at(text, index, is_big=is_big)
    first = line_start(text, index)
    while index > first and class_at(text, index - 1, is_big=is_big) == kind:
        index -= 1
    return index


def _word(text: str, index: int, count: int, *, is_around: bool, is_big: bool) -> Extent | None:
    """Return `count` words from `index` on. `aw` also takes the white space after them, or before if none follows."""
    start = _run_start(text, index, is_big)
    is_blank = class_at(text, start, is_big=is_big) == BLANK
    if is_blank == is_around:
        # `iw` on a word takes the word; `aw` on white space takes it with the word after it.
        word = next_word_end(text, start, 1, is_big=is_big, may_stay=True, stops_at_empty_line=True)
        if not word.is_complete:
            return None
        end = word.position
    else:
        # `iw` on white space takes it; `aw` on a word takes the word with the white space after it.
        end = _last_before(text, next_word_start(text, start, 1, is_big=is_big, stops_at_line_end=True).position)
    is_inclusive = True
    if count > 1:
        more = more_words(text, end, count - 1, is_around=is_around, is_big=is_big)
        if more is None:
            return None
        end, is_inclusive = more.end, more.is_inclusive
    ends_before_line = end == line_start(text, end) and not is_inclusive
    ends_with_space = class_at(text, end, is_big=is_big) == BLANK and not ends_before_line
    if is_around and not is_blank and not ends_with_space:
        start = _start_with_space(text, start)
    return Extent(start, end, is_inclusive)


def _last_before(text: str, index: int) -> int:
    """Return the position before `index`. Before the first position of a line, it is the last one of the line above."""
    if index == 0:
        return 0
    if index > line_start(text, index):
        return index - 1
    line_break = index - 1
    is_line_above_empty = line_break == line_start(text, line_break)
    return line_break if is_line_above_empty else line_break - 1


def _start_with_space(text: str, start: int) -> int:
    """Return the start of the white space between the word at `start` and the one before it; `start` without one.

    The indent of a line does not count.
    """
    if start == line_start(text, start):
        return start
    space_start = _run_start(text, start - 1, is_big=False)
    is_space = class_at(text, space_start, is_big=False) == BLANK
    is_indent = space_start == line_start(text, space_start)
    return space_start if is_space and not is_indent else start


def _quoted(text: str, index: int, quote: str, count: int, *, is_around: bool) -> Extent | None:
    """Return the text between quotes; with a count above 1, also the quotes.

    `a"` takes the quotes and the white space after them, or before them if none follows.
    """
    first = line_start(text, index)
    last = line_end(text, index)
    quotes = _quotes_at(text, index, quote, first, last)
    if quotes is None:
        return None
    start, end = quotes.start, quotes.end
    if not is_around:
        return quotes if count > 1 else Extent(start + 1, end, is_inclusive=False)
    space_end = end
    while space_end + 1 < last and text[space_end + 1] in _SPACE:
        space_end += 1
    if space_end == end:
        while start > first and text[start - 1] in _SPACE:
            start -= 1
    return Extent(start, space_end)


def _quotes_at(text: str, index: int, quote: str, first: int, last: int) -> Extent | None:
    """Return the range of the quotes around `index`, or of the first pair after it in the line, with the quotes."""
    if index < last and text[index] == quote:
        return _quotes_on(text, index, quote, first, last)
    position = _previous_quote(text, index, quote, first)
    opening = _next_quote(text, position, quote, last, has_escapes=False)
    closing = None if opening is None else _next_quote(text, opening + 1, quote, last)
    return None if opening is None or closing is None else Extent(opening, closing)


def _quotes_on(text: str, index: int, quote: str, first: int, last: int) -> Extent | None:
    """Return the pair to which the quote at `index` belongs. Pairs are counted from `first`, the start of the line."""
    position = first
    while True:
        opening = _next_quote(text, position, quote, last, has_escapes=False)
        if opening is None or opening > index:
            return None
        closing = _next_quote(text, opening + 1, quote, last)
        if closing is None:
            return None
        if closing >= index:
            return Extent(opening, closing)
        position = closing + 1


def _next_quote(text: str, index: int, quote: str, last: int, *, has_escapes: bool = True) -> int | None:
    """Return the next quote before `last`, None without one. `has_escapes`: skip a quote after a backslash."""
    while index < last:
        if text[index] == "\\" and has_escapes:
            index += 1
        elif text[index] == quote:
            return index
        index += 1
    return None


def _previous_quote(text: str, index: int, quote: str, first: int) -> int:
    """Return the last quote before `index` that is not after a backslash, or `first` without one."""
    while index > first:
        index -= 1
        backslashes = 0
        while index - backslashes > first and text[index - backslashes - 1] == "\\":
            backslashes += 1
        if backslashes % 2:
            index -= backslashes
        elif text[index] == quote:
            break
    return index


def _block(text: str, index: int, opening: str, closing: str, count: int, *, is_around: bool) -> Extent | None:
    """Return the `count`th block around `index`, or after `index` if none is around it."""
    position = index
    if opening == "{" and is_in_indent(text, index):
        while position < len(text) and text[position] in _SPACE:
            position += 1
    is_on_opening = text[position : position + 1] == opening
    before = position if is_on_opening else position - 1
    start = _opening_bracket(text, before, opening, closing, count, -1)
    if start is None and find_unpaired(text, before, opening, closing, -1) is None:
        start = _opening_bracket(text, position + 1, opening, closing, count, 1)
    if start is None:
        return None
    end = find_unpaired(text, start + 1, closing, opening, 1)
    if end is None:
        return None
    return Extent(start, end) if is_around else _between_brackets(text, start, end, opening)


def _opening_bracket(text: str, index: int, opening: str, closing: str, count: int, step: Literal[1, -1]) -> int | None:
    """Return the `count`th opening bracket from `index` on, backward or forward (`step`), without those of pairs."""
    bracket: int | None = None
    for _ in range(count):
        bracket = find_unpaired(text, index, opening, closing, step)
        if bracket is None:
            return None
        index = bracket + step
    return bracket


def _between_brackets(text: str, start: int, end: int, opening: str) -> Extent:
    """Return the range between two brackets. A `}` that is alone in its line stays there."""
    start += 1
    if is_line_end(text, start) and start < end:
        start += 1
    if opening == "{" and is_in_indent(text, end):
        end = line_start(text, end)
    return Extent(start, max(start, end), is_inclusive=False)


def _paragraph(text: str, index: int, count: int, *, is_around: bool) -> Extent | None:
    lines = text.split("\n")
    row = text.count("\n", 0, index)
    rows = paragraph_rows(lines, row, count, is_around=is_around)
    if rows is None:
        return None
    return Extent(nth_line(text, rows.first + 1), nth_line(text, rows.last + 1), is_lines=True)


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of lines."""

    first: int
    last: int
    """The last line of the range."""
    is_blank: bool = False
    """Every line is blank."""


def paragraph_rows(lines: list[str], row: int, count: int, *, is_around: bool) -> Rows | None:
    """Return the rows of `count` paragraphs from `row` on, None if there are too few.

    For `ip`, a run of blank lines counts as a paragraph. `ap` takes the blank lines after a paragraph, or those before
    it if no blank line follows; from a blank line on, it takes the blank lines before each paragraph.
    """
    runs = _runs_of(lines)
    first = next(index for index, run in enumerate(runs) if row <= run.last)
    last = first + (2 * count if is_around else count) - 1
    if is_around and last == len(runs) and not runs[first].is_blank:
        # No blank lines follow the last paragraph.
        last -= 1
        first = max(0, first - 1)
    return Rows(runs[first].first, runs[last].last) if last < len(runs) else None


def _runs_of(lines: list[str]) -> list[Rows]:
    """Return the runs of blank lines and of other lines, in order."""
    runs: list[Rows] = []
    row = 0
    for is_blank, run in groupby(lines, key=lambda line: not line.strip(_SPACE)):
        end = row + len(list(run))
        runs.append(Rows(row, end - 1, is_blank))
        row = end
    return runs
