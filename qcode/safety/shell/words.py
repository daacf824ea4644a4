"""Unquotes plain words as bash does. Pure.

Expansion, substitution, and any character that could look like another or mean more than itself is `NotPlain`: not
wrong, only not understood. `grammar` finds where the words of a command are; a rule of the person is words only.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

_BARE = frozenset(string.ascii_letters + string.digits + "_@%+=:,./^-")
_ESCAPABLE = frozenset(" ()[]{}*?;&|<>#!$'\"`~\\")
_REVISION = re.compile(r"[@^]\{[A-Za-z0-9-]*\}")
_STOPS = frozenset(" \t\n|&;<>()`")


class NotPlain(Exception):  # noqa: N818  # a finding, not a failure
    """The command holds something this reader does not take on; the text is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word after unquoting. `~` at its start is still spelled so where `is_home` says that bash expands it."""

    text: str
    is_quoted: bool = False
    is_home: bool = False
    has_glob: bool = False


def read_word(text: str) -> Word:
    """Return the one word that all of `text` is; raise `NotPlain` where it is none or more."""
    lexer = _Lexer(text)
    word = lexer.word()
    if lexer.at != len(text):
        raise NotPlain("a word whose end is not certain")
    return word


def split_words(text: str) -> tuple[Word, ...]:
    """Return the words of `text`, which holds nothing else; raise `NotPlain` for any operator."""
    lexer = _Lexer(text)
    found: list[Word] = []
    while lexer.skips_blanks():
        if text[lexer.at] == "#":
            raise NotPlain("a comment")
        found.append(lexer.word())
    return tuple(found)


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skips_blanks(self) -> bool:
        """Go on to the next word; return whether there is one."""
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        return self.at < len(self.text)

    def word(self) -> Word:
        start, parts, is_quoted = self.at, list[str](), False
        if start == len(self.text):
            raise NotPlain("a word is missing")
        is_home = self._starts_at_home()
        while self.at < len(self.text) and self.text[self.at] not in _STOPS:
            char = self.text[self.at]
            if char in "'\"\\":
                is_quoted = True
                parts.append(self._quoted(char))
            else:
                parts.append(self._bare(char, is_first=self.at == start))
        if self.at == start:
            raise NotPlain("it holds an operator where a word is expected")
        raw = self.text[start : self.at]
        _check_braces(raw, is_quoted=is_quoted)
        has_glob = not is_quoted and ("*" in raw or "?" in raw)
        return Word("".join(parts), is_quoted, is_home, has_glob)

    def _starts_at_home(self) -> bool:
        if self.text[self.at] != "~":
            return False
        follower = self.text[self.at + 1 : self.at + 2]
        if follower and follower != "/" and follower not in _STOPS:
            raise NotPlain("a home folder that is not understood")
        return True

    def _bare(self, char: str, *, is_first: bool) -> str:
        if char == "~" and not is_first and not (self.text[self.at - 1].isalnum() or self.text[self.at - 1] in "_.^-"):
            raise NotPlain("a ~ that may be a home folder")
        if char in "*?" or char in _BARE or char == "~" or char in "{}!":
            self.at += 1
            return char
        if char in "[]" and is_first and self._is_alone():
            self.at += 1
            return char
        if char == "$":
            raise NotPlain("it holds an expansion")
        if not char.isascii():
            raise NotPlain("it holds a character that looks like another")
        raise NotPlain(f"it holds {char!r} where its meaning is not certain")

    def _is_alone(self) -> bool:
        follower = self.text[self.at + 1 : self.at + 2]
        return not follower or follower in " \t\n;|&"

    def _quoted(self, char: str) -> str:
        if char == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            if escaped not in _ESCAPABLE:
                raise NotPlain("a backslash whose meaning is not certain")
            self.at += 2
            return escaped
        if char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise NotPlain("a quote is not closed")
            inside = self.text[self.at + 1 : end]
            self.at = end + 1
            return self._inert(inside)
        return self._double_quoted()

    def _double_quoted(self) -> str:
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                return self._inert("".join(parts))
            if char in "$`":
                raise NotPlain("it holds an expansion")
            if char == "\\":
                escaped = self.text[self.at : self.at + 1]
                if escaped == "\n":
                    raise NotPlain("a backslash whose meaning is not certain")
                if escaped and escaped in '$`"\\':
                    char = escaped
                    self.at += 1
            parts.append(char)
        raise NotPlain("a quote is not closed")

    def _inert(self, text: str) -> str:
        if not all(char.isprintable() or char in "\n\t" for char in text):
            raise NotPlain("it holds a control or invisible character")
        return text


def _check_braces(raw: str, *, is_quoted: bool) -> None:
    """Braces are plain only as `{}` and as in `HEAD@{1}` and `HEAD^{tree}`, where bash has nothing to expand."""
    if is_quoted and ("*" in raw or "?" in raw or "{" in raw) and _has_bare_special(raw):
        raise NotPlain("quotes and wildcards in one word")
    if not is_quoted and raw != "{}" and set(_REVISION.sub("", raw)) & set("{}"):
        raise NotPlain("it holds a brace expansion")


def _has_bare_special(raw: str) -> bool:
    """Return whether a wildcard or brace stands outside the quotes of `raw`, whose quotes are known to be closed."""
    quote, index = "", 0
    while index < len(raw):
        char = raw[index]
        if quote:
            if char == "\\" and quote == '"':
                index += 1
            elif char == quote:
                quote = ""
        elif char == "\\":
            index += 1
        elif char in "'\"":
            quote = char
        elif char in "*?{}":
            return True
        index += 1
    return False
