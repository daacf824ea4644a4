"""Replaces graphemes and labels by single characters, because vim's grammar counts characters.

Each of these becomes one private character, from the block of its character class: a letter with its accent, an emoji
of several code points, a label such as `[Image #1 a.png]`. Most texts are returned unchanged. Separate from `keys`,
because it is pure and its tests need no text area.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rich.cells import cell_len

from qcode.tui.prompt.editing import grapheme_end
from qcode.tui.prompt.vim.motions import (
    EMOJI,
    FIRST_UNIT,
    LABEL,
    LAST_UNIT,
    PUNCTUATION,
    UNITS_PER_CLASS,
    WORD,
    char_class,
)

_MAX_CACHED_LINES = 4_000

_SINGLE = re.compile(
    "[\x00-\u02ff\u0370-\u0482\u048a-\u0590\u05d0-\u060f\u1e00-\u200a\u2010-\u2027\u2030-\u205f"
    "\u2500-\u25ff\u3000-\u3029\u3030-\u3098\u309b-\u9fff\uac00-\ud7a3\uff01-\uff9d]*"
)
"""Characters that never combine with the next one."""

_UNIT = re.compile(f"[{chr(FIRST_UNIT)}-{chr(LAST_UNIT)}]")


class Units:
    """The private characters of one prompt."""

    def __init__(self, label_spans: Callable[[str], Sequence[tuple[int, int]]]) -> None:
        self._label_spans = label_spans
        """Returns the start and end of each label in a line."""
        self._characters: dict[str, str] = {}
        """The private character of each grapheme or label."""
        self._meanings: dict[str, str] = {}
        """The grapheme or label of each private character."""
        self._next_numbers = [0, 0, 0, 0]
        """The number of private characters in use, for each class."""
        self._packed_lines: dict[str, str] = {}
        """A cache of packed lines."""

    def pack(self, text: str) -> str:
        """Return `text` with each grapheme and label as one character."""
        if "[" not in text and _SINGLE.fullmatch(text):
            return text
        return "\n".join(map(self._to_units, text.split("\n")))

    def unpack(self, text: str) -> str:
        """Return the original of a text that `pack` returned."""
        if not self._meanings:
            return text
        return _UNIT.sub(lambda match: self._meanings.get(match[0], match[0]), text)

    def width(self, character: str) -> int:
        """Return the number of cells of a packed character."""
        return cell_len(self._meanings.get(character, character))

    def _to_units(self, line: str) -> str:
        labels = self._label_spans(line)
        if not labels and _SINGLE.fullmatch(line):
            return line
        # A label can be typed and a paste folded later, so only lines without labels are cached.
        if not labels and line in self._packed_lines:
            return self._packed_lines[line]
        packed_line = ""
        text_start = 0
        for label_start, label_end in labels:
            packed_line += self._pack_graphemes(line[text_start:label_start])
            packed_line += self._unit(line[label_start:label_end], LABEL)
            text_start = label_end
        packed_line += self._pack_graphemes(line[text_start:])
        if not labels:
            if len(self._packed_lines) >= _MAX_CACHED_LINES:
                self._packed_lines.clear()
            self._packed_lines[line] = packed_line
        return packed_line

    def _pack_graphemes(self, text: str) -> str:
        """Return a text without labels with each grapheme as one character."""
        characters: list[str] = []
        start = 0
        while start < len(text):
            end = grapheme_end(text, start)
            characters.append(self._character(text[start:end]))
            start = end
        return "".join(characters)

    def _character(self, grapheme: str) -> str:
        """Return the character for a grapheme: itself, or a private one of the same class."""
        is_private = FIRST_UNIT <= ord(grapheme[0]) <= LAST_UNIT
        if len(grapheme) == 1 and not is_private:
            return grapheme
        kind = WORD if is_private else char_class(grapheme[0])
        has_block = kind in (PUNCTUATION, WORD, EMOJI)  # a script without spaces has another class
        return self._unit(grapheme, kind if has_block else WORD)

    def _unit(self, text: str, kind: int) -> str:
        unit = self._characters.get(text)
        if unit is None:
            block = kind - PUNCTUATION
            number = self._next_numbers[block]
            if number >= UNITS_PER_CLASS:
                return text  # no private character is free: this text is edited by its code points
            self._next_numbers[block] += 1
            unit = chr(FIRST_UNIT + block * UNITS_PER_CLASS + number)
            self._characters[text] = unit
            self._meanings[unit] = text
        return unit
