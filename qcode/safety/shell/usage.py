"""How a program reads its arguments: which options it has, which take a value, and what operands mean. Pure.

The table of programs is `programs`; `shell` applies it. An option that is not listed, or is abbreviated, is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from qcode.protocol.values import dataclass
from qcode.safety.shell.forms import Word

Role: TypeAlias = Literal["text", "number", "file", "tree", "tracked"]
"""What a word is to a program: any text, a number, a file or folder it reads, a folder it reads all of, a revision or
path of git, which reads it from the repository or the work tree."""

_NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,6})?[a-zA-Z%]{0,3}")


@dataclass(frozen=True, slots=True)
class Use:
    """The arguments of one command as its program reads them."""

    options: tuple[tuple[str, Word | None], ...] = ()
    operands: tuple[Word, ...] = ()

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(word.text for name, word in self.options if name in names and word is not None)


Roles: TypeAlias = Callable[[Use], tuple[Role, ...]]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that only reads when it is used like this.

    `flags` take no value, `values` map an option to what its value is. `operands` are the roles of the operands in
    order, the last for all that follow; `most` bounds their number; `roles` decides them from the options instead.
    `exact` are whole words that are options although they are not spelled like the rest. `is_ordered`: options end
    with the first operand. `check` returns what is wrong, or nothing. `whole` reads all words itself. `helpers` are
    programs that it starts itself. `is_mild`: no option of it, whatever its name, can do more than it does. `is_inert`:
    what is text to it is only printed, compared or looked for, so that any will do. `is_tame`: no option of it that is
    the name of a file can.
    """

    flags: frozenset[str] = frozenset()
    values: Mapping[str, Role] = field(default_factory=dict)
    operands: tuple[Role, ...] = ()
    most: int | None = None
    exact: frozenset[str] = frozenset()
    helpers: tuple[str, ...] = ()
    has_number_flag: bool = False
    is_ordered: bool = False
    is_mild: bool = False
    is_inert: bool = False
    is_tame: bool = False
    roles: Roles | None = None
    check: Callable[[Use], str] | None = None
    whole: Callable[[tuple[Word, ...]], tuple[Use, tuple[Role, ...]] | str] | None = None

    def all_roles(self, use: Use) -> tuple[Role, ...]:
        """Return the roles that operands would have, were there enough of them."""
        return self.roles(use) if self.roles is not None else self.operands

    def roles_of(self, use: Use) -> tuple[Role, ...]:
        """Return one role for each operand."""
        roles = self.all_roles(use)
        missing = len(use.operands) - len(roles)
        return (*roles, *roles[-1:] * missing)[: len(use.operands)]


def program(
    short: str = "",
    long: str = "",
    values: str = "",
    operands: tuple[Role, ...] = (),
    *,
    exact: str = "",
    **more: object,
) -> Program:
    """Return a `Program` from compact text.

    `short` are letters, `long` names without dashes (with `=` at the end: takes a value only so spelled, of no
    meaning); `values` are `name|alias:role`; `exact` are words.
    """
    flags = {f"-{letter}" for letter in short} | {f"--{name}" for name in long.split()}
    taking: dict[str, Role] = {}
    for item in values.split():
        names, _, role = item.partition(":")
        for name in names.split("|"):
            taking[f"-{name}" if len(name) == 1 else f"--{name}"] = _ROLES[role or "text"]
    return Program(frozenset(flags), taking, operands, exact=frozenset(exact.split()), **more)  # type: ignore[arg-type]  # named by the table below


_ROLES: dict[str, Role] = {"text": "text", "number": "number", "file": "file", "tree": "tree", "tracked": "tracked"}


def read_use(program: Program, words: tuple[Word, ...]) -> Use | str:
    """Return how `program` reads `words` (without its name), or what it does not know among them."""
    options: list[tuple[str, Word | None]] = []
    operands: list[Word] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        is_safe = program.is_mild or (program.is_tame and word.found is not None)
        if not word.is_known and (word.text.startswith("-") or (word.may_lead and not is_safe)):
            return "what is not known could become an option"
        if word.text == "--" and not word.has_glob:
            operands += rest
            break
        if word.text in program.exact and not word.has_glob:
            options.append((word.text, None))
            continue
        if not word.text.startswith("-") or word.text == "-":
            operands.append(word)
            if program.is_ordered:
                operands += rest
                break
            continue
        complaint = _read_option(program, word, rest, options)
        if complaint:
            return complaint
    if program.most is not None and len(operands) > program.most:
        return f"the operand {operands[program.most].text!r} is not known"
    if program.most is not None and any(word.may_be_several for word in operands):
        return "a word that could become several operands"
    if operands and not program.operands and program.roles is None:
        return f"the operand {operands[0].text!r} is not known"
    return Use(tuple(options), tuple(operands))


def is_number(text: str) -> bool:
    """Return whether `text` is a plain number, with a unit at most."""
    return _NUMBER.fullmatch(text) is not None


def _read_option(program: Program, word: Word, rest: list[Word], options: list[tuple[str, Word | None]]) -> str:
    text = word.text
    if text.startswith("--"):
        return _read_long(program, word, rest, options)
    if program.has_number_flag and text[1:].isdigit():
        options.append(("-NUMBER", None))
        return ""
    for index, letter in enumerate(text[1:], start=1):
        name = f"-{letter}"
        if name in program.values:
            value = text[index + 1 :]
            if not value and (not rest or rest[0].may_be_several):
                return f"the option {name} has no value of its own"
            options.append((name, _attached(program, name, word, value) if value else rest.pop(0)))
            return ""
        if name not in program.flags:
            return f"the option {text} is not known to only read"
        options.append((name, None))
    return "a wildcard that could become an option" if word.has_glob else ""


def _read_long(program: Program, word: Word, rest: list[Word], options: list[tuple[str, Word | None]]) -> str:
    name, equals, value = word.text.partition("=")
    if equals:
        if name in program.values:
            options.append((name, _attached(program, name, word, value)))
            return ""
        is_known = f"{name}=" in program.flags
    else:
        if name in program.values and rest and not word.has_glob and not rest[0].may_be_several:
            options.append((name, rest.pop(0)))
            return ""
        is_known = name in program.flags
    if not is_known or word.has_glob:
        return f"the option {name} is not known to only read"
    options.append((name, None))
    return ""


def _attached(program: Program, name: str, word: Word, value: str) -> Word:
    """Return a value spelled in one word with its option; a wildcard in it can only become other text there."""
    return Word(value, word.is_quoted, has_glob=word.has_glob and program.values[name] != "text")
