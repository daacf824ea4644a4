"""Finds the line and the position of each key in a TOML text, which `tomllib` does not report.

Expects a text that `tomllib` has accepted, and parses TOML 1.0 only as far as needed to find keys and values:
https://toml.io/en/v1.0.0.
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
_WHITE = " \t\r\n"
_ESCAPED = lazy_pattern(r'(?:[^"\\]|\\.)*', re.DOTALL)


def find_lines(text: str) -> dict[TomlPath, int]:
    """Return the line (from 1) on which each key and table first appears. Keys inside lists are omitted."""
    return dict(_scan(text).lines)


def find_item_lines(text: str) -> dict[TomlPath, tuple[int, ...]]:
    """Return the line of each item, for each key whose value is a list."""
    scanner = _scan(text)
    return {path: tuple(lines) for path, lines in scanner.items.items()}


def parse_key(raw: str) -> TomlPath:
    """Return the parts of a dotted TOML key. Raise `ValueError` if it is invalid."""
    plain = raw.replace("_", "a").replace("-", "a")
    if plain.isascii() and all(map(str.isalnum, plain.split("."))):  # nearly all of them, and much quicker
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
class Pair:
    """The position of a key in a text, as offsets: its start, and the start and end of its value."""

    key: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class KeyPositions:
    """The positions of all keys by path; `sections` maps the root, and each table with a header, to its end."""

    pairs: Mapping[TomlPath, Pair]
    sections: Mapping[TomlPath, int]


def find_positions(text: str) -> KeyPositions:
    """Return the position of each key. Keys inside lists are omitted."""
    scanner = _scan(text)
    return KeyPositions(scanner.pairs, scanner.sections)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[TomlPath, int] = {}
        self.pairs: dict[TomlPath, Pair] = {}
        self.sections: dict[TomlPath, int] = {}
        self.items: dict[TomlPath, list[int]] = {}

    def document(self) -> None:
        table: TomlPath = ()
        self._skip(_WHITE)
        while self.at < len(self.text):
            if self._peek() == "[":
                is_list = self.text.startswith("[[", self.at)
                self.at += 2 if is_list else 1
                line = self.text.count("\n", 0, self.at) + 1
                table = self._key(())
                if is_list:
                    self.items.setdefault(table, []).append(line)
                self.at += 2 if is_list else 1
            else:
                self._pair(table, is_kept=True)
            self.sections[table] = self.at
            self._skip(_WHITE)

    def _pair(self, table: TomlPath, *, is_kept: bool) -> None:
        self._skip(_BLANK)
        key = self.at
        path = self._key(table, is_kept=is_kept)
        self.at += 1
        self._skip(_BLANK)
        value = self.at
        self._value(path, is_kept=is_kept)
        if is_kept:
            end = value + len(self.text[value : self.at].rstrip())
            self.pairs[path] = Pair(key, value, end)

    def _key(self, table: TomlPath, *, is_kept: bool = True) -> TomlPath:
        """Parse a dotted key up to its `=` or `]`, and record its line and those of the tables it creates."""
        self._skip(_BLANK)
        start = self.at
        parts = self._parts()
        if is_kept:
            line = self.text.count("\n", 0, start) + 1
            for size in range(1, len(parts) + 1):
                self.lines.setdefault((*table, *parts[:size]), line)
        return (*table, *parts)

    def _parts(self) -> TomlPath:
        """Return the parts of the dotted key at the current position."""
        start, text = self.at, self.text
        line = text.find("\n", start)
        line = len(text) if line < 0 else line
        ends = [at for at in (text.find("=", start, line), text.find("]", start, line)) if at >= 0]
        if ends and '"' not in (bare := text[start : min(ends)]) and "'" not in bare:  # nearly all of them
            self.at = min(ends)
            return parse_key(bare.strip())
        while (char := self._peek()) not in ("=", "]"):
            self.at += 1
            if char in ('"', "'"):
                self._rest_of_string(char)
        return parse_key(text[start : self.at].strip())

    def _value(self, path: TomlPath, *, is_kept: bool) -> None:
        char = self._peek()
        if char in ('"', "'"):
            self._string(char)
        elif char == "[":
            lines = self.items.setdefault(path, []) if is_kept else []
            self._sequence("]", lambda: self._item(path, lines))
        elif char == "{":
            self._sequence("}", lambda: self._pair(path, is_kept=is_kept))
        else:
            while self._peek() not in ("", ",", "]", "}", "#", "\n"):
                self.at += 1

    def _item(self, path: TomlPath, lines: list[int]) -> None:
        lines.append(self.text.count("\n", 0, self.at) + 1)
        self._value(path, is_kept=False)

    def _sequence(self, end: str, item: Callable[[], None]) -> None:
        self.at += 1
        self._skip(_WHITE)
        while self._peek() != end:
            item()
            self._skip(_WHITE)
            if self._peek() == ",":
                self.at += 1
                self._skip(_WHITE)
        self.at += 1

    def _string(self, quote: str) -> None:
        if not self.text.startswith(quote * 3, self.at):
            self.at += 1
            self._rest_of_string(quote)
            return
        self.at += 3
        while not self.text.startswith(quote * 3, self.at):
            self.at += 2 if quote == '"' and self._peek() == "\\" else 1
        self.at += 3
        # One or two quotes may directly precede the three that end a string.
        while self._peek() == quote:
            self.at += 1

    def _rest_of_string(self, quote: str) -> None:
        at = self.text.index(quote, self.at)
        if quote == '"' and "\\" in self.text[self.at : at]:
            found = _ESCAPED.match(self.text, self.at)
            assert found is not None
            at = found.end()
        self.at = at + 1

    def _skip(self, chars: str) -> None:
        """Skip `chars`, and comments if a line may end here."""
        text, at = self.text, self.at
        while at < len(text):
            if text[at] in chars:
                at += 1
            elif text[at] == "#" and "\n" in chars:
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
            else:
                break
        self.at = at

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]


@lru_cache(maxsize=2)
def _scan(text: str) -> _Scanner:
    """Return the scanner of a text that it has read. Lines and items of the same file are asked for in turn."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner
