"""Reads the plain part of bash: words, quotes, pipes, lists and the redirections that write nothing. Pure.

What it returns is what bash would run. Everything else (expansion, substitution, assignment by operator, background
jobs, here-documents, any character that could look like another) is `NotPlain`: not wrong, only not understood.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Literal, TypeAlias

LONGEST = 20_000
"""Characters of a command that are looked at; a longer one is not plain."""

_BARE = frozenset(string.ascii_letters + string.digits + "_@%+=:,./^-")
_ESCAPABLE = frozenset(" ()[]{}*?;&|<>#!$'\"`~\\")
_STOPS = frozenset(" \t\n|&;<>()`")

Operator: TypeAlias = Literal["|", "&&", "||", ";", "\n"]


class NotPlain(Exception):  # noqa: N818  # a finding, not a failure
    """The command holds something this reader does not take on; the text is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word after unquoting. `~` at its start is still spelled so where `is_home` says that bash expands it."""

    text: str
    is_quoted: bool = False
    is_home: bool = False
    has_glob: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: at least one word, and the files it reads through `<`."""

    words: tuple[Word, ...]
    inputs: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Redirection:
    kind: Literal["<", ">", ">&"]


Token: TypeAlias = Word | Redirection | Operator


def parse(text: str) -> tuple[Command, ...]:
    """Return the simple commands of a pipe or list in order; raise `NotPlain` for anything else."""
    if len(text) > LONGEST:
        raise NotPlain("the command is very long")
    commands: list[Command] = []
    words: list[Word] = []
    inputs: list[Word] = []
    redirection: Redirection | None = None
    is_open = False  # an operator waits for the command after it
    for token in [*_Lexer(text).tokens(), "\n"]:
        if isinstance(token, Redirection):
            if redirection is not None:
                raise NotPlain("a redirection without a target")
            redirection = token
        elif isinstance(token, Word):
            if redirection is None:
                words.append(token)
            else:
                inputs += _target(redirection, token)
                redirection = None
        else:
            if redirection is not None:
                raise NotPlain("a redirection without a target")
            if words:
                commands.append(Command(tuple(words), tuple(inputs)))
                is_open = token in ("|", "&&", "||")
            elif inputs or token != "\n":  # noqa: S105  # a token of the shell
                raise NotPlain("an operator without a command")
            words, inputs = [], []
    if is_open or not commands:
        raise NotPlain("the command is incomplete")
    return tuple(commands)


def _target(redirection: Redirection, word: Word) -> list[Word]:
    """Return the file that is read, if one is."""
    if redirection.kind == "<":
        return [word]
    if redirection.kind == ">&" and word == Word(word.text) and word.text in ("1", "2"):
        return []
    if redirection.kind == ">" and word == Word("/dev/null"):
        return []
    raise NotPlain("it writes to a file")


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif char == "#":
                end = self.text.find("\n", self.at)
                self._inert(self.text[self.at : end if end >= 0 else None])
                self.at = end if end >= 0 else len(self.text)
            elif char in "|&;\n":
                found.append(self._operator())
            elif char in "<>":
                found.append(self._redirection())
            else:
                found += self._word()
        return found

    def _operator(self) -> Operator | Redirection:
        rest = self.text[self.at : self.at + 2]
        if rest == "&>":
            self.at += 1
            return self._redirection()
        for operator in _OPERATORS:
            if rest.startswith(operator):
                self.at += len(operator)
                follower = self.text[self.at : self.at + 1]
                if follower and follower in "|&;" and operator != "\n":
                    raise NotPlain("an operator that is not understood")
                return operator
        raise NotPlain("it would run in the background")

    def _redirection(self) -> Redirection:
        for spelling, kind in _REDIRECTIONS:
            if self.text.startswith(spelling, self.at):
                self.at += len(spelling)
                if self.text[self.at : self.at + 1] in ("<", ">", "&", "|", "("):
                    break
                return Redirection(kind)
        raise NotPlain("a redirection that is not understood")

    def _word(self) -> list[Token]:
        """Return the word here, or nothing for the number of a stream before `>`."""
        start, parts, is_quoted = self.at, list[str](), False
        is_home = self._starts_at_home()
        while self.at < len(self.text) and self.text[self.at] not in _STOPS:
            char = self.text[self.at]
            if char in "'\"\\":
                is_quoted = True
                parts.append(self._quoted(char))
            else:
                parts.append(self._bare(char, is_first=self.at == start))
        if self.at == start:
            raise NotPlain("a subshell or substitution")
        raw, text = self.text[start : self.at], "".join(parts)
        if raw in ("1", "2") and self.text[self.at : self.at + 1] == ">":
            return []
        if raw.isdigit() and self.text[self.at : self.at + 1] in ("<", ">"):
            raise NotPlain("a redirection that is not understood")
        _check_braces(raw, is_quoted=is_quoted)
        has_glob = not is_quoted and ("*" in raw or "?" in raw)
        return [Word(text, is_quoted, is_home, has_glob)]

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


_OPERATORS: tuple[Operator, ...] = ("&&", "||", "|", ";", "\n")
_REDIRECTIONS: tuple[tuple[str, Literal["<", ">", ">&"]], ...] = ((">&", ">&"), (">>", ">"), (">", ">"), ("<", "<"))


def _check_braces(raw: str, *, is_quoted: bool) -> None:
    """Braces are plain only as `{}` and as in `HEAD@{1}`, where bash has nothing to expand."""
    if is_quoted and ("*" in raw or "?" in raw or "{" in raw) and _has_bare_special(raw):
        raise NotPlain("quotes and wildcards in one word")
    if is_quoted or raw == "{}" or ("{" not in raw and "}" not in raw):
        return
    before, _, inside = raw.partition("@{")
    name, _, after = inside.partition("}")
    if "{" in before or "}" in before or not name.replace("-", "").isalnum() or set(after) & set("{}"):
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
