"""Follows one JSON object or list through pieces of text, to its last bracket. Pure; each character is read once.

It tells early that text is no JSON (a line break inside a string, a word where a comma belongs), so that nothing
waits for an end that cannot come. Whether a closed value is valid is for the strict parser to say.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

_Expected: TypeAlias = Literal["value", "value or end", "key", "key or end", "colon", "comma or end"]

_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]*')
_SPACE = re.compile(r"[ \t\r\n]*")
_ATOM_RUN = re.compile(r"[-+.0-9A-Za-z]+")
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_ESCAPED = '"\\/bfnrtu'
_MAX_DEPTH = 200
_MAX_ATOM = 400


class JsonScanner:
    """Fed from the opening bracket on.

    `keys` are those of the outermost object, or of the objects in the outermost list, without their escapes.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self.is_broken = False
        self.keys: list[str] = []
        self._stack: list[str] = []
        self._expected: _Expected = "value"
        self._is_in_string = self._is_escaped = self._is_key = False
        self._word = ""

    def feed(self, text: str) -> int:
        """Return how many characters of `text` belong to the value: all, unless it closed or broke in them."""
        at = 0
        while at < len(text) and not self.is_closed and not self.is_broken:
            at = self._read_string(text, at) if self._is_in_string else self._read_structure(text, at)
        return at

    def _read_string(self, text: str, at: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            self.is_broken = text[at] not in _ESCAPED
            return at + (not self.is_broken)
        run = _STRING_RUN.match(text, at)
        end = run.end() if run else at
        if self._is_key and len(self._word) < _MAX_ATOM:
            self._word += text[at:end]
        if end == len(text):
            return end
        match text[end]:
            case '"':
                self._end_string()
            case "\\":
                self._is_escaped = True
            case _:
                self.is_broken = True
                return end
        return end + 1

    def _end_string(self) -> None:
        self._is_in_string = False
        if not self._is_key:
            self._expected = "comma or end"
            return
        if len(self._stack) == (1 if self._stack[0] == "{" else 2):
            self.keys.append(self._word)
        self._word, self._is_key, self._expected = "", False, "colon"

    def _read_structure(self, text: str, at: int) -> int:
        atom = _ATOM_RUN.match(text, at)
        if atom:
            if self._word == "" and self._expected not in ("value", "value or end"):
                self.is_broken = True
                return at
            self._word += atom.group()
            self.is_broken = len(self._word) > _MAX_ATOM
            return atom.end()
        if self._word:
            self.is_broken = not self._stack or _ATOM.fullmatch(self._word) is None
            self._word, self._expected = "", "comma or end"
            return at
        space = _SPACE.match(text, at)
        if space and space.end() > at:
            return space.end()
        self._read_mark(text[at])
        return at + (not self.is_broken)

    def _read_mark(self, mark: str) -> None:
        expected = self._expected
        if mark in "{[" and expected in ("value", "value or end"):
            self._stack.append(mark)
            self._expected = "key or end" if mark == "{" else "value or end"
            self.is_broken = len(self._stack) > _MAX_DEPTH
        elif mark == '"' and self._stack and expected in ("value", "value or end", "key", "key or end"):
            self._is_in_string = True
            self._is_key = expected.startswith("key")
        elif mark == ":" and expected == "colon":
            self._expected = "value"
        elif mark == "," and expected == "comma or end":
            self._expected = "key" if self._stack[-1] == "{" else "value"
        elif mark in "}]" and expected.endswith("or end") and self._stack[-1] == ("{" if mark == "}" else "["):
            self._stack.pop()
            self._expected = "comma or end"
            self.is_closed = not self._stack
        else:
            self.is_broken = True
