"""Unquotes plain words as bash does. Pure.

Any character that could look like another or mean more than itself is `NotPlain`: not wrong, only not understood. What
bash fills in is found by `grammar`, which puts a mark in its place; a rule of the person is plain words only.
"""

from __future__ import annotations

import re
import string

from qcode.safety.shell.forms import MARK, Hole, NotPlain, Operator, Word

_BARE = frozenset(string.ascii_letters + string.digits + "_@%+=:,./^-")
_ESCAPABLE = frozenset(" ()[]{}*?;&|<>#!$'\"`~\\")
_PLAIN_BRACES = re.compile(r"[@^]\{[A-Za-z0-9-]*\}|\{\}")
_STOPS = frozenset(" \t\n|&;<>()`")
_BRACED = re.compile(
    r"(?P<before>[\w@%+=:,./^*?-]*)\{(?:(?P<list>[\w@%+=:./^*?-]*(?:,[\w@%+=:./^*?-]*)+)"
    r"|(?P<low>0|[1-9]\d{0,5})\.\.(?P<high>0|[1-9]\d{0,5}))\}(?P<after>[\w@%+=:,./^*?-]*)",
    re.ASCII,
)
_MOST_EXPANDED = 100


def read_words(text: str, holes: tuple[Hole, ...] = ()) -> tuple[Word, ...]:
    """Return the words that `text`, one word with a mark for each hole, becomes: more than one only through a brace."""
    braced = None if holes else _BRACED.fullmatch(text)
    return tuple(read_word(one) for one in _expanded(braced)) if braced else (read_word(text, holes),)


def read_word(text: str, holes: tuple[Hole, ...] = ()) -> Word:
    """Return the one word that all of `text` is; raise `NotPlain` where it is none or more."""
    lexer = _Lexer(text, holes)
    word = lexer.word()
    if lexer.at != len(text) or lexer.holes:
        raise NotPlain("a word whose end is not certain")
    return word


def split_words(text: str) -> tuple[Word, ...]:
    """Return the words of `text`, which holds nothing else; raise `NotPlain` for any operator."""
    (_, words), *more = split_tests(text)
    if more:
        raise NotPlain("it holds an operator where a word is expected")
    return words


def split_tests(text: str, holes: tuple[Hole, ...] = ()) -> list[tuple[Operator, tuple[Word, ...]]]:
    """Return the words between each two of `&&` and `||`, with the operator before them, `;` for the first."""
    lexer = _Lexer(text, holes)
    found: list[tuple[Operator, tuple[Word, ...]]] = []
    operator: Operator = ";"
    words: list[Word] = []
    while lexer.skips_blanks():
        joint = text[lexer.at : lexer.at + 3]
        if joint in ("&& ", "|| "):
            found.append((operator, tuple(words)))
            operator, words = "&&" if joint == "&& " else "||", []
            lexer.at += 3
        elif text[lexer.at] == "#":
            raise NotPlain("a comment")
        else:
            words.append(lexer.word())
    if lexer.holes:
        raise NotPlain("it holds an expansion")
    return [*found, (operator, tuple(words))]


def read_call(words: tuple[Word, ...]) -> tuple[bool, bool, tuple[str, ...]]:
    """Return what a plain call of `read` does: does it keep backslashes, does NUL end a piece, and names it sets."""
    if words[:1] != (Word("read"),) or any(word.holes or word.has_glob or word.is_home for word in words):
        raise NotPlain("it holds a loop that may have no end")
    rest = [word.text for word in words[1:]]
    is_raw = is_apart = False
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        is_raw = is_raw or option in ("-r", "-rd")
        if option in ("-d", "-rd") and rest[:1] == [""]:
            is_apart = rest.pop(0) == ""
        elif option != "-r":
            raise NotPlain("a form of read that is not understood")
    if not rest:
        raise NotPlain("a form of read that is not understood")
    return is_raw, is_apart, tuple(rest)


def _expanded(braced: re.Match[str]) -> list[str]:
    """Return what bash makes of one brace with a list or with numbers in it."""
    if braced["list"] is not None:
        middles = braced["list"].split(",")
    else:
        low, high = int(braced["low"]), int(braced["high"])
        step = 1 if low <= high else -1
        middles = [str(number) for number in range(low, high + step, step)[: _MOST_EXPANDED + 1]]
    words = [f"{braced['before']}{middle}{braced['after']}" for middle in middles]
    if len(words) > _MOST_EXPANDED or "" in words:
        raise NotPlain("it holds a brace expansion")
    return words


class _Lexer:
    def __init__(self, text: str, holes: tuple[Hole, ...] = ()) -> None:
        self.text = text
        self.holes = holes
        self.at = 0

    def skips_blanks(self) -> bool:
        """Go on to the next word; return whether there is one."""
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        return self.at < len(self.text)

    def word(self) -> Word:
        start, parts, is_quoted, is_split = self.at, list[str](), False, False
        if start == len(self.text):
            raise NotPlain("a word is missing")
        is_home = self._starts_at_home()
        while self.at < len(self.text) and self.text[self.at] not in _STOPS:
            char = self.text[self.at]
            if char in "'\"\\":
                is_quoted = True
                parts.append(self._quoted(char))
            else:
                is_split = is_split or char == MARK
                parts.append(self._bare(char, is_first=self.at == start))
        if self.at == start:
            raise NotPlain("it holds an operator where a word is expected")
        raw = self.text[start : self.at]
        _check_braces(raw, is_quoted=is_quoted)
        has_glob = not is_quoted and ("*" in raw or "?" in raw)
        word = "".join(parts)
        count = word.count(MARK)
        if count > len(self.holes):
            raise NotPlain("it holds an expansion")
        holes, self.holes = self.holes[:count], self.holes[count:]
        return Word(word, is_quoted, is_home, has_glob, holes, is_split)

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
        if char == MARK:
            self.at += 1
            return char
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
                self._inert("".join(parts).replace(MARK, ""))
                return "".join(parts)
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
    """Braces are plain only as `{}`, and as in `HEAD@{1}` and `HEAD^{tree}`, where bash has nothing to expand."""
    if is_quoted and ("*" in raw or "?" in raw or "{" in raw) and _has_bare_special(raw):
        raise NotPlain("quotes and wildcards in one word")
    if not is_quoted and set(_PLAIN_BRACES.sub("", raw)) & set("{}"):
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
