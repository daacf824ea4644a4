"""A shell command as values: words, simple commands, and how they are joined. Pure.

`parser` makes them, `flow` lists the simple commands that bash would run, `judge` judges those.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

MARK = "\ue000"
"""Placeholder in the text of a word for an expansion; no accepted command contains this character itself."""

UNSPLIT = lazy_pattern(r"[\w@%+=:,./^-]+", re.ASCII)
"""Text that bash leaves unchanged outside quotes: no blank, wildcard, brace, quote or home folder."""

SAFE_VARIABLES = frozenset(
    {
        "HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TERM", "HOSTNAME", "UID",
        "EUID", "PPID", "SHLVL", "BASH_VERSION", "OSTYPE", "HOSTTYPE", "MACHTYPE", "RANDOM", "SECONDS", "LINENO",
        "EPOCHSECONDS", "COLUMNS", "LINES", "TMPDIR", "EDITOR", "VIRTUAL_ENV", "CI",
    }
)  # fmt: skip
"""Environment variables that contain no secret, so they may be printed."""

Operator: TypeAlias = Literal["&&", "||", ";"]
Unknown: TypeAlias = Literal["", "number", "text", "words"]
"""The unknown part of a word before it runs: nothing, a number, its text, or even the number of words it becomes."""


class UnsupportedSyntax(Exception):  # noqa: N818  # a finding, not a failure
    """The command contains something that the parser does not accept; the text is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """An expansion: the value of the variable `name`, the output of `script`, or (if neither is set) a number."""

    name: str = ""
    script: Script | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """One word after unquoting.

    `is_home`: bash expands the `~` it begins with. `has_glob`: bash expands its `*` and `?`. `holes` are its expansions
    in order, `is_split` if one of them is outside quotes. `flow` fills the holes: the word is then known, or `unknown`,
    or (`is_one`) one of the names that its wildcard matches.
    """

    text: str
    is_quoted: bool = False
    is_home: bool = False
    has_glob: bool = False
    holes: tuple[Expansion, ...] = ()
    is_split: bool = False
    unknown: Unknown = ""
    is_one: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the text is what the program receives, or a wildcard that can be matched against the disk."""
        return not (self.holes or self.unknown)

    @property
    def is_open(self) -> bool:
        """Whether a rule about this text may or may not apply: the program may receive another text."""
        return not self.is_known or self.is_one

    @property
    def may_be_several(self) -> bool:
        """Whether the program may receive more than one word for this one, or none."""
        # One match of a wildcard outside quotes, `for f in *; do cat $f; done`, is split if its name holds a blank.
        return self.unknown == "words" or (self.has_glob and (self.is_split or not self.is_one))

    @property
    def may_lead(self) -> bool:
        """Whether the unknown part of the word may begin with a dash."""
        return bool(self.unknown) and self.unknown != "number" and self.text.startswith(MARK)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command: its words, the files it reads through `<`, and those it writes through `>`."""

    words: tuple[Word, ...]
    inputs: tuple[Word, ...] = ()
    outputs: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandList:
    """Scripts joined by operators, left to right; a newline is a `;`."""

    first: Script
    rest: tuple[tuple[Operator, Script], ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Scripts that run side by side, each in a subshell; a subshell alone is a pipe of one."""

    parts: tuple[Script, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    inner: Script


@dataclass(frozen=True, slots=True)
class Loop:
    """`for`: the body once for each value of the words."""

    name: str
    words: tuple[Word, ...]
    body: Script


Script: TypeAlias = "SimpleCommand | CommandList | Pipeline | Negation | Loop"
