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


@dataclass(frozen=True, slots=True)
class Motion:
    """The position that a motion reaches, and the range that an operator takes with it."""

    end: int
    is_inclusive: bool = False
    """An operator also takes the character at `end`."""
    is_lines: bool = False
    """An operator takes whole lines."""
    start: int | None = None
    """The start of a text object, None for a motion: it starts at the cursor."""


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
    start = line_start(text, index)
    end = line_end(text, index)
    for position in range(start, end):
        if text[position] not in " \t":
            return position
    return max(start, end - 1)


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


BLANK, PUNCTUATION, WORD, EMOJI, LABEL = range(5)
"""The classes of characters. A label of the prompt, such as `[Image #1 a.png]`, is one character here (see `units`)."""

FIRST_UNIT, LAST_UNIT = 0xF0000, 0xFFFFD
UNITS_PER_CLASS = 0x3F00
"""The private characters, from `FIRST_UNIT` to `LAST_UNIT`, by which `units` replaces graphemes and labels.

They are divided into blocks of `UNITS_PER_CLASS`, one for each class from `PUNCTUATION` to `LABEL`.
"""

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
        block = (code - FIRST_UNIT) // UNITS_PER_CLASS
        return min(PUNCTUATION + block, LABEL)
    for first, last, script_class in _SCRIPTS:
        if first <= code <= last:
            return script_class
    category = unicodedata.category(character)
    if category[0] == "Z":
        return BLANK
    if category == "So" and (code >= 0x1F000 or 0x2600 <= code <= 0x27BF):
        return EMOJI
    return PUNCTUATION if category[0] in "PS" else WORD


def class_at(text: str, index: int, *, is_big: bool) -> int:
    """Return the class of the character at `index`; the end of the text is a blank.

    For `W` (`is_big`), all characters except blanks have one class.
    """
    kind = char_class(text[index]) if index < len(text) else BLANK
    return PUNCTUATION if is_big and kind != BLANK else kind


@dataclass(frozen=True, slots=True)
class WordMotion:
    """The end of a word motion."""

    position: int
    is_complete: bool
    """False: the text has too few words, and `position` is as far as the motion could go."""


class _Scanner:
    """A position that moves over the characters of a text."""

    def __init__(self, text: str, index: int, is_big: bool) -> None:
        self.text = text
        self.index = index
        self._is_big = is_big
        """All characters except blanks have the same class, as for `W`."""

    @property
    def kind(self) -> int:
        """The class of the character at the position."""
        return class_at(self.text, self.index, is_big=self._is_big)

    @property
    def is_on_empty_line(self) -> bool:
        return is_empty_line(self.text, self.index)

    @property
    def is_at_line_boundary(self) -> bool:
        """Whether the position is the start or the end of a line. Only valid after a step forward."""
        return self.text[self.index - 1] == "\n" or is_line_end(self.text, self.index)

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

    def skip_word(self, step: Callable[[], bool]) -> bool:
        """Call `step` while the class stays the same; return False if the text ended before another class."""
        kind = self.kind
        while self.kind == kind:
            if not step():
                return False
        return True

    def skip_blanks(self, step: Callable[[], bool], *, stops_at_empty_line: bool = True) -> bool:
        """Call `step` until a word or an empty line is reached; return False if the text ended before it."""
        while self.kind == BLANK and not (stops_at_empty_line and self.is_on_empty_line):
            if not step():
                return False
        return True

    def motion(self, *, is_complete: bool) -> WordMotion:
        return WordMotion(self.index, is_complete)


def next_word_start(text: str, index: int, count: int, *, is_big: bool, stops_at_line_end: bool) -> WordMotion:
    """Return the motion to the start of the `count`th next word (`w`).

    It is incomplete if a step begins at the end of the text. `stops_at_line_end`: the last step ends at the end of its
    line, as for operators.
    """
    scanner = _Scanner(text, index, is_big)
    for remaining in reversed(range(count)):
        stops_here = stops_at_line_end and remaining == 0
        is_last_line = text.find("\n", scanner.index) < 0
        kind = scanner.kind
        if not scanner.forward() or (is_last_line and scanner.is_at_line_boundary):
            return scanner.motion(is_complete=False)
        if stops_here and scanner.is_at_line_boundary:
            break
        while scanner.kind == kind != BLANK:
            if not scanner.forward() or (stops_here and scanner.is_at_line_boundary):
                return scanner.motion(is_complete=True)
        while scanner.kind == BLANK and not scanner.is_on_empty_line:
            if not scanner.forward() or ((stops_here or is_last_line) and scanner.is_at_line_boundary):
                return scanner.motion(is_complete=True)
    return scanner.motion(is_complete=True)


def previous_word_start(text: str, index: int, count: int, *, is_big: bool) -> WordMotion:
    """Return the motion to the start of the `count`th word before `index` (`b`).

    It is incomplete if a step begins at the start of the text.
    """
    scanner = _Scanner(text, index, is_big)
    for _ in range(count):
        if not scanner.back():
            return scanner.motion(is_complete=False)
        if not scanner.skip_blanks(scanner.back):
            break
        if scanner.is_on_empty_line:
            continue  # an empty line is a word
        if not scanner.skip_word(scanner.back):
            break
        scanner.forward()
    return scanner.motion(is_complete=True)


def next_word_end(
    text: str, index: int, count: int, *, is_big: bool, may_stay: bool = False, stops_at_empty_line: bool = False
) -> WordMotion:
    """Return the motion to the end of the `count`th next word (`e`). It is incomplete if the text ends first.

    `may_stay`: the end of a word at `index` counts as the first one, as for `cw` and text objects.
    `stops_at_empty_line`: an empty line counts as a word.
    """
    scanner = _Scanner(text, index, is_big)
    for number in range(count):
        kind = scanner.kind
        if not scanner.forward():
            return scanner.motion(is_complete=False)
        was_at_word_end = kind != BLANK and scanner.kind != kind
        if not (was_at_word_end and may_stay and number == 0):
            if not scanner.skip_blanks(scanner.forward, stops_at_empty_line=stops_at_empty_line):
                return scanner.motion(is_complete=False)
            if scanner.kind == BLANK:
                continue  # on an empty line
            scanner.skip_word(scanner.forward)
        scanner.back()
    return scanner.motion(is_complete=True)


def previous_word_end(text: str, index: int, count: int, *, is_big: bool) -> WordMotion:
    """Return the motion to the end of the `count`th word before `index` (`ge`).

    It is incomplete if a step begins at the start of the text.
    """
    scanner = _Scanner(text, index, is_big)
    for _ in range(count):
        kind = scanner.kind
        if not scanner.back():
            return scanner.motion(is_complete=False)
        is_inside_word = scanner.kind == kind != BLANK
        if is_inside_word and not scanner.skip_word(scanner.back):
            break
        if not scanner.skip_blanks(scanner.back):
            break
    return scanner.motion(is_complete=True)


def paragraph_motion(text: str, index: int, step: Literal[1, -1], count: int) -> Motion | None:
    """Return the motion to the `count`th empty line after `index` (`}`), or with `step` -1 before it (`{`).

    The end or the start of the text counts as such a line, once. Return None if there are too few lines.
    """
    lines = text.split("\n")
    last_row = len(lines) - 1
    row = text.count("\n", 0, index)
    for remaining in reversed(range(count)):
        has_seen_text = bool(lines[row])
        while True:
            if not 0 <= row + step <= last_row:
                if remaining:
                    return None
                break
            row += step
            if has_seen_text and not lines[row]:
                break
            has_seen_text = has_seen_text or bool(lines[row])
    start = nth_line(text, row + 1)
    if step > 0 and row == last_row and lines[row]:
        return Motion(len(text) - 1, is_inclusive=True)
    return Motion(start)


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
    start = line_start(text, index)
    end = line_end(text, index)
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
    for position in range(index, line_end(text, index)):
        bracket = text[position]
        if bracket in "([{":
            return find_unpaired(text, position + 1, _CLOSING[bracket], bracket, 1)
        if bracket in ")]}":
            return find_unpaired(text, position - 1, _OPENING[bracket], bracket, -1)
    return None


def find_unpaired(text: str, index: int, bracket: str, partner: str, step: Literal[1, -1]) -> int | None:
    """Return the first `bracket`, from `index` on in the direction `step`, whose `partner` is not passed before it.

    For example, the first unpaired `)` from index 1 of `(a (b) c)` is at index 8: the pair around `b` is skipped.
    """
    depth = 0
    while 0 <= index < len(text):
        if text[index] == partner:
            depth += 1
        elif text[index] == bracket:
            if depth == 0:
                return index
            depth -= 1
        index += step
    return None
