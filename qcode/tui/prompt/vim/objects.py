"""Text objects of vim: the range of a word, a quoted text, a block in brackets or a paragraph. Pure.

`count` selects several objects; `is_around` (`a` instead of `i`) includes white space or the delimiters. In visual mode
an object replaces the selection, except that words and paragraphs extend a selection of more than one character.
"""

from __future__ import annotations

from typing import Literal

from qcode.tui.prompt.vim.motions import (
    BLANK,
    any_class,
    is_in_indent,
    is_line_end,
    line_end,
    line_start,
    unmatched,
    word_end,
    word_forward,
)
from qcode.values import dataclass

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


def more_words(text: str, index: int, count: int, *, is_around: bool, is_big: bool) -> tuple[int, bool] | None:
    """Extend a range that ends at `index` by `count` words; return its new end, and whether that end is inclusive.

    Return None if the text has too few words. Without `is_around`, a run of white space counts as a word.
    """
    is_inclusive = True
    for remaining in reversed(range(count)):
        after = _past_line_end(text, index)
        if after is None:
            return None
        index, is_inclusive = after, True
        is_blank = _kind(text, index, is_big) == BLANK
        if is_around and not is_blank:
            index, is_done = word_forward(text, index, 1, is_big=is_big, stops_at_line_end=True)
            if not is_done and remaining:
                return None
            if index == line_start(text, index):
                is_inclusive = False
            else:
                index -= 1
        elif is_blank and not is_around:
            while _kind(text, index, is_big) == BLANK and not is_line_end(text, index):
                index += 1
            index = max(index - 1, line_start(text, index))
        else:
            index, is_done = word_end(text, index, 1, is_big=is_big, may_stay=True, stops_at_empty=True)
            if not is_done:
                return None
    return index, is_inclusive


def _kind(text: str, index: int, is_big: bool) -> int:
    return any_class(text[index], is_big=is_big) if index < len(text) else BLANK


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
    kind, start = _kind(text, index, is_big), line_start(text, index)
    while index > start and _kind(text, index - 1, is_big) == kind:
        index -= 1
    return index


def _word(text: str, index: int, count: int, *, is_around: bool, is_big: bool) -> Extent | None:
    """Return `count` words from `index` on. `aw` also takes the white space after them, or before if none follows."""
    start = end = _run_start(text, index, is_big)
    has_white_after = False
    is_blank = _kind(text, start, is_big) == BLANK
    # `iw` on a word takes the word, and `aw` on white space takes it with the word after it. Otherwise, `iw` takes the
    # white space, and `aw` takes the word with the white space after it.
    if is_blank == is_around:
        end, is_done = word_end(text, start, 1, is_big=is_big, may_stay=True, stops_at_empty=True)
        if not is_done:
            return None
    else:
        end, _ = word_forward(text, start, 1, is_big=is_big, stops_at_line_end=True)
        end = max(end - 1, 0) if end > line_start(text, end) else _before_line(text, end)
        has_white_after = is_around
    is_inclusive = True
    if count > 1:
        more = more_words(text, end, count - 1, is_around=is_around, is_big=is_big)
        if more is None:
            return None
        end, is_inclusive = more
    is_without_white = _kind(text, end, is_big) != BLANK or (end == line_start(text, end) and not is_inclusive)
    if has_white_after and is_without_white and start > line_start(text, start):
        before = _run_start(text, start - 1, is_big)
        if _kind(text, before, is_big) == BLANK and before > line_start(text, before):
            start = before
    return Extent(start, end, is_inclusive)


def _before_line(text: str, index: int) -> int:
    """Return the last character of the line above the line that starts at `index`, or the start of an empty line."""
    if index == 0:
        return 0
    return index - 1 if index - 1 == line_start(text, index - 1) else index - 2


def _quoted(text: str, index: int, quote: str, count: int, *, is_around: bool) -> Extent | None:
    """Return the text between quotes; with a count above 1, also the quotes.

    `a"` takes the quotes and the white space after them, or before them if none follows.
    """
    first, last = line_start(text, index), line_end(text, index)
    pair = _quotes_at(text, index, quote, first, last)
    if pair is None:
        return None
    start, end = pair
    if is_around:
        if _is_white(text, end + 1, last):
            while _is_white(text, end + 1, last):
                end += 1
        else:
            while start > first and text[start - 1] in " \t":
                start -= 1
    if is_around or count > 1:
        return Extent(start, end)
    return Extent(start + 1, end, is_inclusive=False)


def _quotes_at(text: str, index: int, quote: str, first: int, last: int) -> tuple[int, int] | None:
    """Return the positions of the quotes around `index`, or of the first pair after it in the line."""
    if index < last and text[index] == quote:
        # On a quote: pair them from the start of the line to know whether it opens or closes.
        start = first
        while True:
            start = _next_quote(text, start, quote, last, has_escapes=False)
            if start < 0 or start > index:
                return None
            end = _next_quote(text, start + 1, quote, last)
            if end < 0:
                return None
            if start <= index <= end:
                return start, end
            start = end + 1
    start = _previous_quote(text, index, quote, first)
    if text[start : start + 1] != quote:
        start = _next_quote(text, start, quote, last, has_escapes=False)
        if start < 0:
            return None
    end = _next_quote(text, start + 1, quote, last)
    return None if end < 0 else (start, end)


def _next_quote(text: str, index: int, quote: str, last: int, *, has_escapes: bool = True) -> int:
    """Return the next quote before `last`, -1 without one. `has_escapes`: skip a quote after a backslash."""
    while index < last:
        if text[index] == "\\" and has_escapes:
            index += 1
        elif text[index] == quote:
            return index
        index += 1
    return -1


def _previous_quote(text: str, index: int, quote: str, first: int) -> int:
    """Return the last quote before `index` that is not after a backslash, or `first` without one."""
    while index > first:
        index -= 1
        escapes = 0
        while index - escapes > first and text[index - escapes - 1] == "\\":
            escapes += 1
        if escapes % 2:
            index -= escapes
        elif text[index] == quote:
            break
    return index


def _is_white(text: str, index: int, last: int) -> bool:
    return index < last and text[index] in " \t"


def _block(text: str, index: int, opening: str, closing: str, count: int, *, is_around: bool) -> Extent | None:
    """Return the `count`th block around `index`, or after `index` if none is around it."""
    position = index
    if opening == "{":
        while (
            position < len(text)
            and text[position] in " \t"
            and is_in_indent(text, position)
            and not is_line_end(text, position)
        ):
            position += 1
    inside = position + 1 if text[position : position + 1] == opening else position
    start = _opening_bracket(text, inside - 1, opening, closing, count, -1)
    if start is None and unmatched(text, inside - 1, opening, closing, -1) is None:
        start = _opening_bracket(text, position + 1, opening, closing, count, 1)
    if start is None:
        return None
    end = unmatched(text, start + 1, opening, closing, 1)
    if end is None:
        return None
    return Extent(start, end) if is_around else _between_brackets(text, start, end, opening)


def _opening_bracket(text: str, index: int, opening: str, closing: str, count: int, step: Literal[1, -1]) -> int | None:
    """Return the `count`th opening bracket before `index` (`step` -1) or after it. Pairs in between are skipped."""
    # Forward, `unmatched` searches for its argument `closing`, so that one must be the opening bracket.
    first, second = (opening, closing) if step < 0 else (closing, opening)
    bracket: int | None = None
    for _ in range(count):
        bracket = unmatched(text, index, first, second, step)
        if bracket is None:
            return None
        index = bracket + step
    return bracket


def _between_brackets(text: str, start: int, end: int, opening: str) -> Extent:
    """Return the range between two brackets. If the closing one is alone in its line, that line stays."""
    start += 1
    if is_line_end(text, start) and start < end:
        start += 1
    if opening == "{" and is_in_indent(text, end):
        end = line_start(text, end)
    return Extent(start, max(start, end), is_inclusive=False)


def _paragraph(text: str, index: int, count: int, *, is_around: bool) -> Extent | None:
    lines = text.split("\n")
    rows = paragraph_rows(lines, text.count("\n", 0, index), count, is_around=is_around)
    if rows is None:
        return None
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    first, last = rows
    return Extent(starts[first], starts[last], is_lines=True)


def paragraph_rows(lines: list[str], row: int, count: int, *, is_around: bool) -> tuple[int, int] | None:
    """Return the first and last row of `count` paragraphs from `row` on, None if there are too few.

    For `ip`, a run of blank lines counts as a paragraph. `ap` takes the blank lines after a paragraph, or those before
    it if no blank line follows.
    """

    def is_white(number: int) -> bool:
        return not lines[number].strip(" \t")

    last = len(lines) - 1
    first, starts_white = row, is_white(row)
    while first > 0 and is_white(first - 1) == starts_white:
        first -= 1
    end = first - 1
    while end < last and is_white(end + 1):
        end += 1
    # `ip` on a blank line has already taken the first one: the run of blank lines.
    paragraphs_left = count - 1 if starts_white and not is_around else count
    for remaining in reversed(range(paragraphs_left)):
        if end == last:
            return None
        takes_white = is_around or is_white(end + 1)
        if is_around or not takes_white:
            end += 1
            while end < last and not is_white(end + 1):
                end += 1
        if remaining == 0 and starts_white and is_around:
            break
        if takes_white:
            while end < last and is_white(end + 1):
                end += 1
    if not starts_white and is_around and not is_white(end):
        while first > 0 and is_white(first - 1):
            first -= 1
    return first, end
