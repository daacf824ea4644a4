"""The table of programs that may run without approval, and the parser of their arguments. Reads only its data file.

`commands.toml` is the table; its header explains every key. A program or option outside the table needs approval.
`languages` checks scripts (sed, awk, jq) and tests. tests/safety/shell/test_table_against_programs.py compares every
row with the installed program.
"""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from qcode.safety.shell.ast import Word
from qcode.safety.shell.characters import foreign_characters
from qcode.text.clean import quoted
from qcode.values import dataclass

Role: TypeAlias = Literal[
    "read", "file", "list", "names", "tree", "text", "pattern", "format", "number", "seconds", "date", "word", "name",
    "sed", "awk", "jq", "test", "printf", "revision", "path",
]  # fmt: skip
"""The meaning of a word for its program, such as a file to read. The header of commands.toml explains each role."""
# The meaning of each style is in the header of commands.toml, at the key `style`; "getopt" is the default.
Arity: TypeAlias = Literal["none", "required", "optional"]
Style: TypeAlias = Literal["getopt", "words", "find", "text"]

PATH_ROLES: frozenset[Role] = frozenset({"read", "file", "list", "names", "tree", "path", "revision"})
"""Roles of words that name files or folders."""

LANGUAGES: frozenset[Role] = frozenset({"sed", "awk", "jq", "test", "printf"})
"""Roles of words that are (part of) a script, test or format, which the table cannot describe."""

NUMBER = "-NUMBER"
"""The name under which an option such as `-5` is recorded; its value is the number."""

_ANY_TEXT: frozenset[Role] = LANGUAGES | {"text", "pattern"}
_NO_RESPONSE_FILE: frozenset[Role] = _ANY_TEXT | {"date", "revision", "path"}
"""Roles of words that no program reads as `@file`, a file of options. In git, `@` means HEAD."""

_FORMATS: Mapping[Role, re.Pattern[str]] = {
    "format": re.compile(r"\+.*", re.DOTALL),
    "number": re.compile(r"[+-]?\d{1,12}(\.\d{1,9})?[a-zA-Z%]{0,3}", re.ASCII),
    "seconds": re.compile(r"(10(\.0{1,9})?|\d(\.\d{1,9})?)s?", re.ASCII),
    # No `=` and quotes: a date that begins with TZ="/a/file" would read this file.
    "date": re.compile(r"[A-Za-z0-9_,.:+@/ ()-]*"),
    "word": re.compile(r"[A-Za-z0-9_,.:=+%@/-]+"),
    "name": re.compile(r"[A-Za-z0-9_,.:=+%@-]+"),
}

_FORMAT_PROBLEM = "qcode does not know what {program} does with {word}"
_FORMAT_PROBLEMS: Mapping[Role, str] = {
    "number": "{program} expects a number, not {word}",
    "seconds": "{program} may wait longer than 10 seconds",
}
"""Why a word that does not have the format of its role needs approval."""


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """The values that an option takes."""

    arity: Arity
    role: Role = "text"
    """The role of the value; unused if the option has none."""
    second: Role | None = None
    """The role of a second value."""


_FLAG = OptionSpec("none")


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands that a program takes."""

    roles: tuple[Role, ...] = ()
    """The roles of the operands, in order."""
    repeated_index: int | None = None
    """The index of the role that any number of operands may have."""
    minimum: int = 0
    maximum: int | None = None
    default: tuple[Word, Role] | None = None
    """The path that is read if no operand names a file or folder."""


@dataclass(frozen=True, slots=True)
class ConditionalOperands:
    """Operands that replace the usual ones if the command has at least one option of each group."""

    groups: tuple[frozenset[str], ...]
    operands: Operands


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """A row of the table. The header of commands.toml explains the fields in more detail."""

    name: str
    options: Mapping[str, OptionSpec]
    refused: Mapping[str, str]
    """The reason why each of these options needs approval."""
    operands: Operands
    when: tuple[ConditionalOperands, ...] = ()
    is_core: bool = False
    """The program may run without approval even if no sandbox works on this machine."""
    core_options: frozenset[str] = frozenset()
    """The options that are accepted without a sandbox."""
    has_number_option: bool = False
    """`-5` is an option."""
    has_plus_options: bool = False
    """A word that begins with `+` may be an option."""
    stops_at_operand: bool = False
    """Options end at the first operand."""
    style: Style = "getopt"
    takes_attached_values: bool = True
    """An option may have its value in the same word; otherwise the value is always the next word."""
    is_builtin: bool = False
    """A builtin of bash, so the search path does not matter."""
    choices: frozenset[str] = frozenset()
    """The only words that may be operands; empty: any."""
    consults: tuple[str, ...] = ()
    """Files that the program reads by itself; used by the tests of the table."""
    reads: str = ""
    """The data that a command of git reads; see `git.Reads`."""
    prefix: str = ""
    """The program whose command this is: `git`, or empty."""

    @property
    def label(self) -> str:
        """The name in messages: `git worktree list`."""
        return f"{self.prefix} {self.name.replace('/', ' ')}".lstrip()

    @property
    def only_prints_version(self) -> bool:
        """Whether the row accepts no use of the program but `--version`: it requires operands and allows none."""
        return not self.operands.roles and self.operands.minimum > 0


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments of one command as its program reads them."""

    options: tuple[tuple[str, Word | None], ...] = ()
    """In order, each as spelled in the command, with its value or None. An option with two values is listed twice."""
    operands: tuple[tuple[Word, Role], ...] = ()
    """In order, without the values of options."""
    roles: tuple[tuple[Word, Role], ...] = ()
    """Every value and operand, and the default if it applies, with its role."""

    def has(self, *names: str) -> bool:
        """Return whether one of these options was given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> tuple[str, ...]:
        """Return the values of these options in order."""
        return tuple(word.text for name, word in self.options if name in names and word is not None)

    def by_role(self, *roles: Role) -> tuple[Word, ...]:
        """Return the words of these roles: values of options, operands, and the default if it applies."""
        return tuple(word for word, role in self.roles if role in roles)


def programs() -> Mapping[str, ProgramSpec]:
    """Return the rows of the table by program name."""
    return read_table().programs


def git_commands() -> Mapping[str, ProgramSpec]:
    """Return the rows for the commands of git by name; `stash list` is `stash/list`."""
    return read_table().git_commands


def git_options() -> frozenset[str]:
    """Return the options without a value that may precede the command of git."""
    return read_table().git_options


def read_arguments(program: ProgramSpec, words: tuple[Word, ...]) -> ParsedArguments | str:
    """Parse `words`, the arguments of `program`, as the program would.

    If the result is not certain, return the reason in one line. A word with a wildcard may be an operand: the caller
    expands it and checks that no match begins with a dash.
    """
    reader = _OptionReader(program, words)
    try:
        match program.style:
            case "find":
                reader.read_expression()
            case "text":
                reader.read_text()
            case _:
                reader.read_options()
        return reader.arguments()
    except _UnknownUse as reason:
        return str(reason)


def has_option(program: ProgramSpec, text: str) -> bool:
    """Return whether the row lists every option in `text`, such as `-la`, `--color=never` or `-n5`."""
    if text.startswith("--"):
        return text == "--" or text.partition("=")[0] in program.options
    if text in program.options or (program.has_number_option and text[1:].isdigit()):
        return True
    for letter in text[1:]:
        option = program.options.get(f"-{letter}")
        if option is None:
            return False
        if option.arity != "none":
            return True
    return True


class _UnknownUse(Exception):  # noqa: N818  # a finding, not a failure
    """The program may interpret its arguments differently from the table; the text is the reason."""


class _OptionReader:
    """A parser of the words of one command that works like GNU getopt_long."""

    def __init__(self, program: ProgramSpec, words: tuple[Word, ...]) -> None:
        self._program = program
        self._pending_words = deque(words)
        self._options: list[tuple[str, Word | None]] = []
        self._values: list[tuple[Word, Role]] = []
        self._operands: list[Word] = []

    def read_options(self) -> None:
        """Read options and operands in any order, up to a `--`."""
        while self._pending_words:
            word = self._pending_words.popleft()
            if word.text == "--" and word.is_known and "--" not in self._program.refused:
                break
            if not self._is_operand(word):
                self._read_option(word)
                continue
            self._operands.append(word)
            if self._program.stops_at_operand:
                break
        self._operands += self._pending_words

    def read_text(self) -> None:
        """Read every word as an operand, even if it begins with a dash."""
        self._operands += self._pending_words

    def read_expression(self) -> None:
        """Read the starting points of find, then its expression."""
        while self._pending_words and self._pending_words[0].text == "-P":
            self._options.append((self._pending_words.popleft().text, None))
        while self._pending_words and not _begins_expression(self._pending_words[0]):
            self._operands.append(self._pending_words.popleft())
        while self._pending_words:
            word = self._pending_words.popleft()
            if not word.is_known or word.has_glob or word.text == "-P":
                raise _UnknownUse(f"qcode does not know {quoted(word.text)} in this {self._program.label} command")
            self._add(word.text, self._option(word.text))

    def arguments(self) -> ParsedArguments:
        """Return the arguments, with a role for every operand and value. Raise if one does not fit its role."""
        options = frozenset(name for name, _ in self._options)
        form = self._program.operands
        for case in self._program.when:
            if all(group & options for group in case.groups):
                form = case.operands
                break
        operands = tuple(zip(self._operands, _roles(form, self._operands, self._program.label), strict=True))
        for word, role in (*self._values, *operands):
            _check_format(word, role, self._program.label)
        for word, _ in operands:
            self._check_operand(word)
        roles = [*self._values, *operands]
        # An operand that may expand to nothing does not replace the default.
        is_named = any(role in PATH_ROLES and not _may_vanish(word) for word, role in operands)
        if form.default is not None and not is_named:
            roles.append(form.default)
        return ParsedArguments(tuple(self._options), operands, tuple(roles))

    def _check_operand(self, word: Word) -> None:
        choices = self._program.choices
        if choices and not (word.text in choices and word.is_known):
            raise _UnknownUse(f"{self._program.label} {word.text} may do more than read")
        if word.text == "-" and "-" in self._program.refused:
            raise _UnknownUse(f"the input - of {self._program.label} {self._program.refused['-']}")

    def _is_operand(self, word: Word) -> bool:
        """Return whether a word before any `--` is an operand; raise if an unknown word could be an option."""
        if _may_become_option(word):
            raise _UnknownUse(
                f"a value that is known only when it runs could become an option of {self._program.label}"
            )
        if word.text.startswith("+") and self._program.has_plus_options:
            raise _UnknownUse(f"{self._program.label} may read {word.text} as an option")
        return word.text == "-" or not word.text.startswith("-")

    def _read_option(self, word: Word) -> None:
        text = word.text
        if self._program.has_number_option and text[1:].isascii() and text[1:].isdigit():
            self._add_value(NUMBER, Word(text[1:]), "number")
        elif self._program.style == "words":
            self._add(text, self._option(text))
        elif text.startswith("--"):
            self._read_long(word)
        else:
            self._read_cluster(word)

    def _read_long(self, word: Word) -> None:
        name, equals, value = word.text.partition("=")
        option = self._option(name)
        if not equals:
            self._add(name, option)
        elif option.arity == "none" or not self._program.takes_attached_values:
            raise _UnknownUse(f"qcode does not know a value of the option {name} of {self._program.label}")
        else:
            self._add_value(name, _attached_value(word, value, option.role), option.role)

    def _read_cluster(self, word: Word) -> None:
        """Read short options in one word, such as `-la` or `-n5`."""
        for index, letter in enumerate(word.text[1:], start=1):
            name = f"-{letter}"
            option = self._option(name)
            value = word.text[index + 1 :]
            if option.arity == "none":
                self._add(name, option)
                continue
            if len(word.text) > 2 and not self._program.takes_attached_values:
                raise _UnknownUse(f"qcode does not know how {self._program.label} reads {word.text}")
            if value:
                self._add_value(name, _attached_value(word, value, option.role), option.role)
            else:
                self._add(name, option)
            return

    def _add(self, name: str, option: OptionSpec) -> None:
        """Record an option without an attached value. The next words are its required values."""
        if option.arity != "required":
            self._options.append((name, None))
            return
        self._add_value(name, self._next_value(name), option.role)
        if option.second is not None:
            self._add_value(name, self._next_value(name), option.second)

    def _add_value(self, name: str, value: Word, role: Role) -> None:
        self._options.append((name, value))
        self._values.append((value, role))

    def _option(self, name: str) -> OptionSpec:
        """Return the spec of an option; raise if the table refuses it or does not list it."""
        refused = self._program.refused.get(name)
        if refused is not None:
            raise _UnknownUse(f"the option {name} of {self._program.label} {refused}")
        option = self._program.options.get(name)
        if option is None:
            foreign = foreign_characters(name)
            why = f"contains {foreign}" if foreign else "may do more than read"
            raise _UnknownUse(f"the option {name} of {self._program.label} {why}")
        return option

    def _next_value(self, name: str) -> Word:
        if not self._pending_words:
            raise _UnknownUse(f"the option {name} of {self._program.label} has no value")
        if self._pending_words[0].may_be_several:
            raise _UnknownUse(f"the value of {name} is known only when {self._program.label} runs")
        return self._pending_words.popleft()


def _may_become_option(word: Word) -> bool:
    """Return whether a word with an unknown part may be an option, or several words of which one is an option."""
    if word.is_known:
        return False
    return word.text.startswith("-") or word.may_begin_with_dash or word.unknown == "words"


def _begins_expression(word: Word) -> bool:
    """Return whether the expression of find begins with `word`; raise if that is not certain."""
    if _may_become_option(word):
        raise _UnknownUse("a value that is known only when it runs could change what find does")
    if word.text in (")", ",", "-", "--"):
        raise _UnknownUse(f"qcode does not know where find starts with {quoted(word.text)}")
    return word.text.startswith("-") or word.text in ("(", "!")


def _attached_value(word: Word, value: str, role: Role) -> Word:
    """Return a value that is in the same word as its option.

    A wildcard in it is harmless unless the value names files: every match of `--include=*.py` begins with the option.
    """
    return Word(value, word.is_quoted, has_glob=word.has_glob and role not in _ANY_TEXT)


def _roles(form: Operands, words: list[Word], label: str) -> list[Role]:
    """Return the role of each operand.

    Raise if there are too few or too many, or if an operand may expand to several and shift the roles of the others.
    """
    count = len(words)
    max_operands = len(form.roles) if form.repeated_index is None else form.maximum
    if max_operands is not None and count > max_operands:
        raise _UnknownUse(f"qcode does not know what {label} does with {quoted(words[max_operands].text)}")
    if count - sum(_may_vanish(word) for word in words) < form.minimum:
        raise _UnknownUse(f"{label} lacks an argument")
    roles = form.roles
    first_open_index = count  # from here on, any number of operands has the same role
    if form.repeated_index is not None:
        before, after = form.roles[: form.repeated_index], form.roles[form.repeated_index + 1 :]
        repeats = max(count - len(before) - len(after), 0)
        roles = (*before, *(form.roles[form.repeated_index],) * repeats, *after)
        if not after and form.maximum is None:
            first_open_index = form.repeated_index
    for index, word in enumerate(words):
        if word.may_be_several and index < first_open_index:
            raise _UnknownUse(f"{quoted(word.text)} could become several arguments of {label}")
    return list(roles[:count])


def _may_vanish(word: Word) -> bool:
    """Return whether the word may expand to nothing. A wildcard without a match stays as it is."""
    return word.may_be_several and not word.is_known


def _check_format(word: Word, role: Role, label: str) -> None:
    """Raise if the word does not have the format of its role."""
    if word.text.startswith("@") and role not in _NO_RESPONSE_FILE:
        raise _UnknownUse(f"{label} may read its options from the file {quoted(word.text[1:])}")
    pattern = _FORMATS.get(role)
    if pattern is None or (role == "number" and word.unknown == "number"):
        return
    if not word.is_known or word.has_glob or word.is_home or not pattern.fullmatch(word.text):
        raise _UnknownUse(_FORMAT_PROBLEMS.get(role, _FORMAT_PROBLEM).format(program=label, word=repr(word.text)))


@dataclass(frozen=True, slots=True)
class ProgramTable:
    """The content of commands.toml."""

    programs: Mapping[str, ProgramSpec]
    git_commands: Mapping[str, ProgramSpec]
    git_options: frozenset[str]
    """The options without a value that may precede the command of git."""


@cache
def read_table() -> ProgramTable:
    data = tomllib.loads(files(__package__).joinpath("commands.toml").read_text("utf-8"))
    git = data["git"]
    commands = {names: _with_groups(row, git["options"]) for names, row in git["commands"].items()}
    return ProgramTable(_rows(data["programs"]), _rows(commands, "git"), frozenset(git["before"].split()))


def _with_groups(row: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a row with the options of the groups that it uses."""
    parts = [row, *(groups[name] for name in row.get("uses", "").split())]
    merged: dict[str, Any] = dict(row)
    merged["none"] = " ".join(part.get("none", "") for part in parts)
    for key in ("required", "optional", "refused"):
        merged[key] = {names: value for part in parts for names, value in part.get(key, {}).items()}
    return merged


def _rows(data: Mapping[str, Mapping[str, Any]], prefix: str = "") -> dict[str, ProgramSpec]:
    return {name: program_of(name, row, prefix) for names, row in data.items() for name in names.split()}


def program_of(name: str, row: Mapping[str, Any], prefix: str = "") -> ProgramSpec:
    """Return a row of the data file as a `ProgramSpec`."""
    options = dict.fromkeys(row.get("none", "").split(), _FLAG)
    all_options_are_core = "core_options" not in row
    arities: tuple[Arity, ...] = ("required", "optional")
    for arity in arities:
        for names, roles in row.get(arity, {}).items():
            options |= dict.fromkeys(names.split(), OptionSpec(arity, *roles.split()))
    return ProgramSpec(
        name,
        options,
        dict(_one_by_one(row.get("refused", {}))),
        _operands(row),
        tuple(ConditionalOperands(_groups(case["options"]), _operands(case)) for case in row.get("when", ())),
        is_core=row.get("core", False),
        core_options=frozenset((*options, NUMBER) if all_options_are_core else row["core_options"].split()),
        has_number_option=row.get("number", False),
        has_plus_options=row.get("plus", False),
        stops_at_operand=row.get("stops", False),
        style=row.get("style", "getopt"),
        takes_attached_values=row.get("attached", True),
        is_builtin=row.get("builtin", False),
        choices=frozenset(row.get("choices", "").split()),
        consults=tuple(row.get("consults", "").split()),
        reads=row.get("reads", ""),
        prefix=prefix,
    )


def _one_by_one(entries: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for names, value in entries.items():
        for name in names.split():
            yield name, value


def _groups(text: str) -> tuple[frozenset[str], ...]:
    """Return groups of options: `-a -b + -c` is the group of `-a` and `-b`, and the group of `-c`."""
    return tuple(frozenset(group.split()) for group in text.split(" + "))


def _operands(row: Mapping[str, Any]) -> Operands:
    """Return the operands of a row: `["pattern", "read..."]` is a pattern and any number of files."""
    listed: list[str] = row.get("operands", [])
    roles: Any = tuple(role.removesuffix("...") for role in listed)
    repeated = next((index for index, role in enumerate(listed) if role.endswith("...")), None)
    role, _, path = row.get("default", "").partition(":")
    default: Any = (Word(path), role) if role else None
    return Operands(roles, repeated, row.get("minimum", 0), row.get("maximum"), default)
