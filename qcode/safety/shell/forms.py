"""What a shell command is once it was read: words, simple commands, and how they are put together. Pure values.

`grammar` makes them, `script` follows them to the simple commands that bash would run, `judge` judges those.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.protocol.values import dataclass

MARK = "\ue000"
"""Stands in the text of a word for what bash fills in; no command that is read holds this character itself."""

TELLING = frozenset(
    {
        "HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TERM", "HOSTNAME", "UID",
        "EUID", "PPID", "SHLVL", "BASH_VERSION", "OSTYPE", "HOSTTYPE", "MACHTYPE", "RANDOM", "SECONDS", "LINENO",
        "EPOCHSECONDS", "COLUMNS", "LINES", "TMPDIR", "EDITOR", "VIRTUAL_ENV", "CI",
    }
)  # fmt: skip
"""Variables of the environment that hold no secret."""

Operator: TypeAlias = Literal["&&", "||", ";"]
Bounds: TypeAlias = Literal["nul", "line", "word"]
"""What ends the name of a file where it is read: a NUL, a new line, or all that bash and xargs split at."""
Unknown: TypeAlias = Literal["", "number", "text", "words"]
"""What nobody can say of a word: nothing, a number, any text, or even how many words and file names it becomes."""


class NotPlain(Exception):  # noqa: N818  # a finding, not a failure
    """The command holds something this reader does not take on; the text is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Hole:
    """What bash fills in: the value of `name`, or what `script` prints, or a file to read that from, or a number."""

    name: str = ""
    script: Script | None = None
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Names of files that another command printed: those at or below `starts`, spelled with them in front.

    They are relative to `place`, or to where they are used when it is empty. `names` are patterns of which each name
    fits one, any where there are none. `is_plain`: no links and no folders. `is_bare`: the starts are not in front.
    `bounds` is where a name ends.
    """

    starts: tuple[str, ...]
    names: tuple[str, ...] = ()
    is_plain: bool = False
    is_bare: bool = False
    bounds: Bounds = "line"
    place: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """One word after unquoting. `~` at its start is still spelled so where `is_home` says that bash expands it.

    `holes` are what its marks stand for, `is_split` whether one of them is outside quotes. When a script was followed
    there are none left: the word is known, `unknown`, one of the names that were `found` (several with `is_many`), or,
    with `is_one`, one of those that its wildcard matches.
    """

    text: str
    is_quoted: bool = False
    is_home: bool = False
    has_glob: bool = False
    holes: tuple[Hole, ...] = ()
    is_split: bool = False
    unknown: Unknown = ""
    found: Found | None = None
    is_many: bool = False
    is_one: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the text is what the program gets, or a wildcard that can be tried."""
        return not (self.holes or self.unknown or self.found)

    @property
    def is_open(self) -> bool:
        """Whether a rule that names its text may or may not be about it: the program may get another text."""
        return not self.is_known or self.is_one

    @property
    def may_be_several(self) -> bool:
        """Whether the program may get more than one word for this one, or none."""
        return self.is_many or self.unknown == "words" or (self.has_glob and not self.is_one)

    @property
    def may_lead(self) -> bool:
        """Whether what nobody knows of it may begin with a dash."""
        is_open = bool(self.unknown) or (self.found is not None and self.found.is_bare)
        return is_open and self.text.startswith(MARK)


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: at least one word, the files it reads through `<`, and those it writes through `>`.

    `texts` are what it gets to read through `<<<`.
    """

    words: tuple[Word, ...]
    inputs: tuple[Word, ...] = ()
    outputs: tuple[Word, ...] = ()
    texts: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Scripts joined by operators, from left to right; a new line is a `;`."""

    first: Script
    rest: tuple[tuple[Operator, Script], ...]


@dataclass(frozen=True, slots=True)
class Piping:
    """Scripts that run beside one another, each in a shell of its own; a subshell is a pipe of one."""

    parts: tuple[Script, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    inner: Script


@dataclass(frozen=True, slots=True)
class Choice:
    """`if`: the condition, what follows where it holds, and what follows where it does not."""

    condition: Script
    then: Script
    otherwise: Script | None


@dataclass(frozen=True, slots=True)
class Loop:
    """`for`: the body once for each value that the words become."""

    name: str
    words: tuple[Word, ...]
    body: Script


@dataclass(frozen=True, slots=True)
class Reading:
    """`while read`: the body once for each line, or each piece up to a NUL, of what the loop gets to read.

    `source` reads what the loop gets through `<`, and does nothing else; None where that is piped into it. `is_whole`:
    the one name gets each piece, at most without blanks at its ends. `bounds` is where one ends.
    """

    names: tuple[str, ...]
    body: Script
    source: Command | None = None
    is_whole: bool = False
    bounds: Bounds = "line"


Script: TypeAlias = "Command | Listing | Piping | Negation | Choice | Loop | Reading"
