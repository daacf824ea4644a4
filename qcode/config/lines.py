"""The line and the position of each key in a TOML text, which `tomllib` does not report.

The text must be valid TOML. TOML 1.0 (https://toml.io/en/v1.0.0) is parsed only as far as needed to
find keys and values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

TomlPath: TypeAlias = "tuple[str, ...]"

_BLANK = " \t"
_WHITESPACE = " \t\r\n"
_STRING_CONTENT = lazy_pattern(r'(?:[^"\\]|\\.)*', re.DOTALL)


def find_lines(text: str) -> dict[TomlPath, int]:
    """Return the line (from 1) on which each key and table first appears.

    Keys inside a `[...]` list are omitted, those below a `[[table]]` header are included.
    """
    return dict(_scan(text).lines)


def find_item_lines(text: str) -> dict[TomlPath, tuple[int, ...]]:
    """Return the line of each item, for each key whose value is a list."""
    scanner = _scan(text)
    return {path: tuple(lines) for path, lines in scanner.items.items()}


def parse_key(raw: str) -> TomlPath:
    """Return the parts of a dotted TOML key. Raise `ValueError` if it is invalid."""
    alphanumeric = raw.replace("_", "a").replace("-", "a")
    if alphanumeric.isascii() and all(map(str.isalnum, alphanumeric.split("."))):  # most keys; faster than `tomllib`
        return tuple(raw.split("."))
    import tomllib

    parts: list[str] = []
    value: object = tomllib.loads(f"{raw} = 0")
    while isinstance(value, dict):
        (part,) = value
        parts.append(part)
        value = value[part]
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class KeyPosition:
    """The offsets of a key and its value in a text."""

    start: int
    """The start of the key."""
    value_start: int
    value_end: int


@dataclass(frozen=True, slots=True)
class KeyPositions:
    """The positions of all keys by path."""

    keys: Mapping[TomlPath, KeyPosition]
    section_ends: Mapping[TomlPath, int]
    """Maps the root, and each table with a header, to its end."""


def find_positions(text: str) -> KeyPositions:
    """Return the position of each key. Keys inside a `[...]` list are omitted.

    If several `[[table]]` headers have the same key, its position is that of the last one.
    """
    scanner = _scan(text)
    return KeyPositions(scanner.key_positions, scanner.section_ends)


class _Scanner:
    """One pass over a TOML text. Each method starts at `position` and moves it to the end of the text that it reads.

    A method with `is_recorded` records the lines and positions of keys. Keys inside a `[...]` list are not recorded.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[TomlPath, int] = {}
        self.key_positions: dict[TomlPath, KeyPosition] = {}
        self.section_ends: dict[TomlPath, int] = {}
        self.items: dict[TomlPath, list[int]] = {}
        """The line of each item, for each key whose value is a list."""

    def read_document(self) -> None:
        """Read the whole text."""
        table: TomlPath = ()
        self._skip(_WHITESPACE)
        while self.position < len(self.text):
            if self._peek() == "[":
                is_list = self.text.startswith("[[", self.position)
                self.position += 2 if is_list else 1
                line = self.text.count("\n", 0, self.position) + 1
                table = self._read_key(())
                if is_list:
                    self.items.setdefault(table, []).append(line)
                self.position += 2 if is_list else 1
            else:
                self._read_pair(table, is_recorded=True)
            self.section_ends[table] = self.position
            self._skip(_WHITESPACE)

    def _read_pair(self, table: TomlPath, *, is_recorded: bool) -> None:
        """Read `key = value`."""
        self._skip(_BLANK)
        start = self.position
        path = self._read_key(table, is_recorded=is_recorded)
        self.position += 1
        self._skip(_BLANK)
        value_start = self.position
        self._read_value(path, is_recorded=is_recorded)
        if is_recorded:
            value_end = value_start + len(self.text[value_start : self.position].rstrip())
            self.key_positions[path] = KeyPosition(start, value_start, value_end)

    def _read_key(self, table: TomlPath, *, is_recorded: bool = True) -> TomlPath:
        """Parse a dotted key up to its `=` or `]`, and record its line and the lines of the tables that it creates."""
        self._skip(_BLANK)
        start = self.position
        parts = self._read_parts()
        if is_recorded:
            line = self.text.count("\n", 0, start) + 1
            for size in range(1, len(parts) + 1):
                self.lines.setdefault((*table, *parts[:size]), line)
        return (*table, *parts)

    def _read_parts(self) -> TomlPath:
        """Return the parts of the dotted key at the current position."""
        start, text = self.position, self.text
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        ends = [end for end in (text.find("=", start, line_end), text.find("]", start, line_end)) if end >= 0]
        if ends:
            end = min(ends)
            key = text[start:end]
            if '"' not in key and "'" not in key:  # most keys; in a quoted one, `=` and `]` may be part of the name
                self.position = end
                return parse_key(key.strip())
        while (char := self._peek()) not in ("=", "]"):
            self.position += 1
            if char in ('"', "'"):
                self._read_rest_of_string(char)
        return parse_key(text[start : self.position].strip())

    def _read_value(self, path: TomlPath, *, is_recorded: bool) -> None:
        char = self._peek()
        if char in ('"', "'"):
            self._read_string(char)
        elif char == "[":
            lines = self.items.setdefault(path, []) if is_recorded else []
            self._read_sequence("]", lambda: self._read_item(path, lines))
        elif char == "{":
            self._read_sequence("}", lambda: self._read_pair(path, is_recorded=is_recorded))
        else:
            while self._peek() not in ("", ",", "]", "}", "#", "\n"):
                self.position += 1

    def _read_item(self, path: TomlPath, lines: list[int]) -> None:
        lines.append(self.text.count("\n", 0, self.position) + 1)
        self._read_value(path, is_recorded=False)

    def _read_sequence(self, end: str, read_entry: Callable[[], None]) -> None:
        """Read a list or an inline table up to `end`; `read_entry` reads one of its entries."""
        self.position += 1
        self._skip(_WHITESPACE)
        while self._peek() != end:
            read_entry()
            self._skip(_WHITESPACE)
            if self._peek() == ",":
                self.position += 1
                self._skip(_WHITESPACE)
        self.position += 1

    def _read_string(self, quote: str) -> None:
        """Read a string in one or three quotes."""
        if not self.text.startswith(quote * 3, self.position):
            self.position += 1
            self._read_rest_of_string(quote)
            return
        self.position += 3
        while not self.text.startswith(quote * 3, self.position):
            self.position += 2 if quote == '"' and self._peek() == "\\" else 1
        self.position += 3
        # One or two quotes may directly precede the three that end a string.
        while self._peek() == quote:
            self.position += 1

    def _read_rest_of_string(self, quote: str) -> None:
        """Read a string on one line, after its opening quote."""
        position = self.text.index(quote, self.position)
        if quote == '"' and "\\" in self.text[self.position : position]:
            escaped = _STRING_CONTENT.match(self.text, self.position)
            assert escaped is not None
            position = escaped.end()
        self.position = position + 1

    def _skip(self, chars: str) -> None:
        """Skip `chars`, and comments if `chars` contains a line end."""
        text, position = self.text, self.position
        while position < len(text):
            if text[position] in chars:
                position += 1
            elif text[position] == "#" and "\n" in chars:
                end = text.find("\n", position)
                position = len(text) if end < 0 else end
            else:
                break
        self.position = position

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]


@lru_cache(maxsize=2)
def _scan(text: str) -> _Scanner:
    """Return a scanner that has read `text`. Cached, because callers need lines and items of the same text."""
    scanner = _Scanner(text)
    scanner.read_document()
    return scanner
