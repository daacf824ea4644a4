"""The types of a parsed shell command: words, simple commands, lists, pipelines and loops. Pure.

`parser` creates them, `flow` lists the simple commands that bash would run, and `judge` judges each of these.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.values import dataclass

PLACEHOLDER = "\ue000"
"""A character that stands for an expansion in the text of a word. The parser rejects a command that contains it."""

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
"""How much of a word is unknown until bash runs it.

Empty: nothing. `number`: a number in the word. `text`: any text in it. `words`: any text in it, and how many words it
becomes.
"""

HERE_DOCUMENT = "it contains a here-document"
REDIRECTED_LIST = "it redirects several commands at once"
UNREADABLE = "qcode cannot read its syntax"
"""Reasons why the parser rejects a command.

Some here-documents are `UNREADABLE`, because tree-sitter cannot parse their commands: it loses the `-` of
`python3 - <<EOF`.
"""


class UnsupportedSyntax(Exception):  # noqa: N818  # a finding, not a failure
    """The command contains something that the parser does not accept; the text is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """An expansion: the value of a variable, or the output of a script. If neither is set, it is `$((…))`."""

    name: str = ""
    """The name of the variable."""
    script: Script | None = None
    """The script in `$(…)`."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word after unquoting. `flow` replaces its expansions by their values."""

    text: str
    is_quoted: bool = False
    """A part of the word was quoted or is the value of an expansion. `"show"` is not equal to `Word("show")`."""
    is_home: bool = False
    """Bash expands the `~` at its start."""
    has_glob: bool = False
    """Bash expands its `*` and `?`."""
    expansions: tuple[Expansion, ...] = ()
    """The expansions in order. `text` has one `PLACEHOLDER` for each."""
    is_split: bool = False
    """One of the expansions is outside quotes, so that bash splits its value into words."""
    unknown: Unknown = ""
    """The part that is still unknown after `flow` replaced the expansions."""
    is_one_match: bool = False
    """The word stands for one file that its wildcard matches, such as `$f` in `for f in *.py; do cat $f; done`."""

    @property
    def is_known(self) -> bool:
        """Whether the text is what the program receives, or a wildcard that can be matched against the disk."""
        return not (self.expansions or self.unknown)

    @property
    def may_differ(self) -> bool:
        """Whether the program may receive another text, so that a rule may match although `text` does not."""
        return not self.is_known or self.is_one_match

    @property
    def may_be_several(self) -> bool:
        """Whether the program may receive more than one word for this one, or none."""
        # In `for f in *; do cat $f; done`, bash splits the value of $f if the file name contains a blank.
        return self.unknown == "words" or (self.has_glob and (self.is_split or not self.is_one_match))

    @property
    def may_begin_with_dash(self) -> bool:
        """Whether the word may begin with a dash because its start is unknown."""
        return bool(self.unknown) and self.unknown != "number" and self.text.startswith(PLACEHOLDER)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command."""

    words: tuple[Word, ...]
    inputs: tuple[Word, ...] = ()
    """The files that it reads through `<`."""
    outputs: tuple[Word, ...] = ()
    """The files that it writes through `>`."""


@dataclass(frozen=True, slots=True)
class ListItem:
    """A script in a list."""

    operator: Operator
    """The operator before the script; `;` for the first script and after a newline."""
    script: Script


@dataclass(frozen=True, slots=True)
class CommandList:
    """Scripts joined by operators, which bash runs from left to right."""

    items: tuple[ListItem, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Scripts that run concurrently, each in a subshell. A subshell alone is a pipeline of one part."""

    parts: tuple[Script, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """`! SCRIPT`."""

    inner: Script


@dataclass(frozen=True, slots=True)
class Loop:
    """A `for` loop."""

    name: str
    words: tuple[Word, ...]
    """The body runs once for each value of these words."""
    body: Script


Script: TypeAlias = "SimpleCommand | CommandList | Pipeline | Negation | Loop"
