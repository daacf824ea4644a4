"""Motions of vim: the position that a motion reaches in a text. Pure.

A position is an offset into the text. The end of a line (its `\\n`, or the end of the text) is a position, too. The
cursor passes it, and rests on it only in an empty line or in visual mode. A motion counts characters, so `units` first
replaces graphemes and labels by single characters. `tests/tui/vim` compares all of this with vim itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal, TypeAlias

from qcode.values import dataclass

Width: TypeAlias = Callable[[str], int]
"""Returns the number of cells of a character."""


def line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def line_end(text: str, index: int) -> int:
    """Return the position of the `\\n` of the line, or the end of the text."""
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def is_line_end(text: str, index: int) -> bool:
    return index >= len(text) or text[index] == "\n"


def is_empty_line(text: str, index: int) -> bool:
    return is_line_end(text, index) and line_start(text, index) == index


def first_non_blank(text: str, index: int) -> int:
    """Return the first character of the line that is not blank; in a blank line its last character."""
    start, end = line_start(text, index), line_end(text, index)
    non_blank = next((index for index in range(start, end) if text[index] not in " \t"), None)
    return max(start, end - 1) if non_blank is None else non_blank


def normal_cursor(text: str, index: int) -> int:
    """Return the cursor of normal mode nearest to `index`: on a character of the line, never after its last one."""
    index = max(0, min(index, len(text)))
    return index - 1 if is_line_end(text, index) and index > line_start(text, index) else index


def is_in_indent(text: str, index: int) -> bool:
    """Return whether only blanks are before `index` in its line."""
    return not text[line_start(text, index) : index].strip(" \t")


def nth_line(text: str, number: int) -> int:
    """Return the start of line `number` (from 1), the last line if there are fewer."""
    index = 0
    for _ in range(number - 1):
        end = text.find("\n", index)
        if end < 0:
            break
        index = end + 1
    return index


def lines_below(text: str, index: int, count: int) -> int | None:
    """Return the start of the line `count` lines below, above if negative. None if the cursor cannot move that way.

    If there are fewer lines, return the start of the last (or first) line: vim moves as far as it can.
    """
    position = line_start(text, index)
    for step in range(abs(count)):
        if count > 0:
            end = line_end(text, position)
            after = None if end == len(text) else end + 1
        else:
            after = None if position == 0 else line_start(text, position - 1)
        if after is None:
            return None if step == 0 else position
        position = after
    return position


END_OF_LINE = 1 << 30
"""The wanted column after `$`: the end of every line."""


def column_of(text: str, index: int, width: Width) -> int:
    """Return the number of cells before `index` in its line."""
    before = text[line_start(text, index) : index]
    return len(before) if before.isascii() and before.isprintable() else sum(map(width, before))


def index_at_column(text: str, start: int, column: int, width: Width, *, is_visual: bool) -> int:
    """Return the position at cell `column` of the line that starts at `start`; the last position of a shorter line."""
    end = line_end(text, start)
    index, cells = start, 0
    while index < end:
        cells += width(text[index])
        if cells > column:
            return index
        index += 1
    return end if is_visual else max(start, end - 1)


BLANK, PUNCTUATION, WORD, EMOJI = range(4)

_SCRIPTS = (
    (0x3040, 0x309F, 0x3040),
    (0x30A0, 0x30FF, 0x30A0),
    (0x3300, 0x9FFF, 0x4E00),
    (0xAC00, 0xD7A3, 0xAC00),
    (0xF900, 0xFAFF, 0x4E00),
    (0x20000, 0x2FA1F, 0x4E00),
)
"""Scripts written without spaces: first and last code point, and the class. Hiragana, Katakana, ideographs, Hangul."""


def char_class(character: str) -> int:
    """Return the class of a character: a run of one class is a word."""
    if character in " \t\n":
        return BLANK
    if character.isascii():
        return WORD if character.isalnum() or character == "_" else PUNCTUATION
    code = ord(character)
    if code >= FIRST_UNIT:
        if code > LAST_UNIT:
            return WORD
        # The blocks of `units` are those of punctuation, words, emoji and labels.
        return PUNCTUATION + min((code - FIRST_UNIT) // UNITS_PER_CLASS, 3)
    script = next((name for low, high, name in _SCRIPTS if low <= code <= high), 0)
    if script:
        return script
    category = unicodedata.category(character)
    if category[0] == "Z":
        return BLANK
    if category == "So" and (code >= 0x1F000 or 0x2600 <= code <= 0x27BF):
        return EMOJI
    return PUNCTUATION if category[0] in "PS" else WORD


def any_class(character: str, *, is_big: bool) -> int:
    """Return the class of a character; for `W` (`is_big`), all characters except blanks have one class."""
    kind = char_class(character)
    return PUNCTUATION if is_big and kind != BLANK else kind


FIRST_UNIT, UNITS_PER_CLASS, LAST_UNIT = 0xF0000, 0x3F00, 0xFFFFD
"""The private characters that stand for units of several characters, in blocks of one class (see `units`)."""


class _Walk:
    """A position that moves by characters."""

    def __init__(self, text: str, index: int, is_big: bool) -> None:
        self.text = text
        self.index = index
        self._is_big = is_big
        """All characters except blanks have the same class, as for `W`."""

    @property
    def kind(self) -> int:
        """The class of the character at the position."""
        if self.index >= len(self.text):
            return BLANK
        return any_class(self.text[self.index], is_big=self._is_big)

    @property
    def is_on_empty_line(self) -> bool:
        return is_empty_line(self.text, self.index)

    def forward(self) -> bool:
        """Move by one character; return False at the end of the text."""
        if self.index >= len(self.text):
            return False
        self.index += 1
        return True

    def back(self) -> bool:
        """Move back by one character; return False at the start of the text."""
        if self.index == 0:
            return False
        self.index -= 1
        return True

    @property
    def has_crossed(self) -> bool:
        """Whether the last step forward reached the end of a line or the next line."""
        return self.text[self.index - 1] == "\n" or is_line_end(self.text, self.index)

    def skip(self, kind: int, step: Callable[[], bool]) -> bool:
        """Call `step` while the class is `kind`; return False if the text ended before another class."""
        while self.kind == kind:
            if not step():
                return False
        return True


def word_forward(text: str, index: int, count: int, *, is_big: bool, stops_at_line_end: bool) -> tuple[int, bool]:
    """Return the start of the `count`th next word (`w`), and False if a step begins at the end of the text.

    `stops_at_line_end`: the last step stops at the end of its line, as for operators.
    """
    walk = _Walk(text, index, is_big)
    for remaining in reversed(range(count)):
        stops = stops_at_line_end and remaining == 0
        kind, is_last_line = walk.kind, text.find("\n", walk.index) < 0
        if not walk.forward() or (walk.has_crossed and is_last_line):
            return walk.index, False
        if walk.has_crossed and stops:
            return walk.index, True
        while kind and walk.kind == kind:
            if not walk.forward() or (walk.has_crossed and stops):
                return walk.index, True
        while walk.kind == BLANK and not walk.is_on_empty_line:
            if not walk.forward() or (walk.has_crossed and (is_last_line or stops)):
                return walk.index, True
    return walk.index, True


def word_back(text: str, index: int, count: int, *, is_big: bool) -> tuple[int, bool]:
    """Return the start of the `count`th word before `index` (`b`), and False if a step begins at index 0."""
    walk = _Walk(text, index, is_big)
    for _ in range(count):
        if not walk.back():
            return walk.index, False
        while walk.kind == BLANK and not walk.is_on_empty_line:
            if not walk.back():
                return walk.index, True
        if walk.kind == BLANK:
            continue
        if not walk.skip(walk.kind, walk.back):
            return walk.index, True
        walk.forward()
    return walk.index, True


def word_end(
    text: str, index: int, count: int, *, is_big: bool, may_stay: bool = False, stops_at_empty: bool = False
) -> tuple[int, bool]:
    """Return the end of the `count`th next word (`e`), and False if the text ended first.

    `may_stay`: the end of a word at `index` counts as the first one, as for `cw` and text objects. `stops_at_empty`: an
    empty line counts as a word.
    """
    walk = _Walk(text, index, is_big)
    for _ in range(count):
        kind = walk.kind
        if not walk.forward():
            return walk.index, False
        if walk.kind == kind != BLANK:
            if not walk.skip(kind, walk.forward):
                return walk.index, False
        elif not may_stay or kind == BLANK:
            while walk.kind == BLANK:
                if stops_at_empty and walk.is_on_empty_line:
                    break
                if not walk.forward():
                    return walk.index, False
            if walk.kind == BLANK:
                may_stay = False
                continue
            if not walk.skip(walk.kind, walk.forward):
                return walk.index, False
        walk.back()
        may_stay = False
    return walk.index, True


def word_end_back(text: str, index: int, count: int, *, is_big: bool) -> tuple[int, bool]:
    """Return the end of the `count`th word before `index` (`ge`), and False if a step begins at index 0."""
    walk = _Walk(text, index, is_big)
    for _ in range(count):
        kind = walk.kind
        if not walk.back():
            return walk.index, False
        while kind and walk.kind == kind:
            if not walk.back():
                return walk.index, True
        while walk.kind == BLANK and not walk.is_on_empty_line:
            if not walk.back():
                return walk.index, True
    return walk.index, True


def paragraph(text: str, index: int, step: Literal[1, -1], count: int) -> tuple[int, bool] | None:
    """Return the `count`th empty line after `index` (`}`), or with `step` -1 before it (`{`).

    The end or the start of the text counts as one; return None if there are too few. The second value is True at the
    end of the text: an operator then takes the character at that position, too.
    """
    lines = text.split("\n")
    row = text.count("\n", 0, index)
    for remaining in reversed(range(count)):
        has_skipped, is_first = False, True
        while True:
            has_skipped = has_skipped or bool(lines[row])
            if not is_first and has_skipped and not lines[row]:
                break
            is_first = False
            if not 0 <= row + step < len(lines):
                if remaining:
                    return None
                break
            row += step
    start = sum(map(len, lines[:row])) + row
    if row == len(lines) - 1 and step > 0 and lines[row]:
        return start + len(lines[row]) - 1, True
    return start, False


@dataclass(frozen=True, slots=True)
class Find:
    """A search in the line (`f`, `F`, `t`, `T`), which `;` and `,` repeat."""

    character: str
    step: Literal[1, -1]
    is_until: bool
    """The cursor stops before the character (`t`, `T`)."""

    @property
    def reversed(self) -> Find:
        return Find(self.character, -1 if self.step > 0 else 1, self.is_until)


def find_in_line(text: str, index: int, find: Find, count: int, *, is_repeated: bool) -> int | None:
    """Return the position of the `count`th match. A `t` that is repeated once skips a match next to the cursor."""
    start, end = line_start(text, index), line_end(text, index)
    may_stop = not (is_repeated and find.is_until and count == 1)
    position = index
    for _ in range(count):
        while True:
            position += find.step
            if not start <= position < end:
                return None
            if text[position] == find.character and may_stop:
                break
            may_stop = True
    return position - find.step if find.is_until else position


_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}


def matching_bracket(text: str, index: int) -> int | None:
    """Return the partner of the first bracket at or after `index` in its line (`%`)."""
    position = next((number for number in range(index, line_end(text, index)) if text[number] in "()[]{}"), None)
    if position is None:
        return None
    bracket = text[position]
    if bracket in _CLOSING:
        return unmatched(text, position + 1, bracket, _CLOSING[bracket], 1)
    return unmatched(text, position - 1, _OPENING[bracket], bracket, -1)


def unmatched(text: str, index: int, opening: str, closing: str, step: Literal[1, -1]) -> int | None:
    """Return the first bracket from `index` on that has no partner in between: `closing` forward, `opening` backward.

    For example, forward from index 1 of `(a (b) c)` it is index 8: the pair around `b` is skipped.
    """
    target, other = (closing, opening) if step > 0 else (opening, closing)
    depth = 0
    while 0 <= index < len(text):
        if text[index] == target:
            if depth == 0:
                return index
            depth -= 1
        elif text[index] == other:
            depth += 1
        index += step
    return None
