"""The limits of a wildcard in an allow rule, for programs that are not in the table of the judge. Pure.

A wildcard does not cover options that write, send a file or run a program. `wildcards.toml` lists these options; its
header explains every key. Unlisted options are judged by the words in their names: `--coverage-directory` is not
covered either. Separate from `rules`, its only importer, because it is loaded only if a wildcard may cover a command.
"""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from qcode.values import dataclass

_WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def may_run_or_write(name: str, words: Sequence[str]) -> bool:
    """Return whether one of `words` may be an option that makes a program run another program or write.

    `words` are the arguments that a wildcard matched, in order. Arguments that the rule spells out are empty strings.
    """
    table = _table()
    program = table.programs.get(name, _Program(table.everywhere))
    if name == "go":  # its options have one dash or two, and `-test.x` is `-x`
        words = [re.sub(r"^--?(?:test\.)?", "-", word) if word.startswith("-") else word for word in words]
    if name == "tar":  # its first word contains options even without a dash
        words = [*(f"-{word}" for word in words[:1] if word), *words]
    return any(_is_refused(word, program, table) for word in _without_values(words, program) if word)


@dataclass(frozen=True, slots=True)
class _Program:
    """A program of the table. The fields are the keys of wildcards.toml, whose header explains them in more detail."""

    refused: tuple[str, ...]
    """Options that write or run something."""
    harmless: frozenset[str] = frozenset()
    """Options and words that are covered although they resemble refused ones."""
    only: frozenset[str] = frozenset()
    """The only options that are covered; empty: all that are not refused."""
    whole: bool = False
    """An option is a whole word, which is refused if it begins with one of `refused`. Otherwise it may be letters."""
    words: re.Pattern[str] | None = None
    """Matches the words without a dash that are covered; None if all are that are not refused."""
    values: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """For each option that is covered only with certain values, the pattern of these values."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The content of wildcards.toml, whose header explains the fields."""

    everywhere: tuple[str, ...]
    parts: frozenset[str]
    narrowing: frozenset[str]
    settings: frozenset[str]
    programs: Mapping[str, _Program]

    def has_risky_name(self, option: str) -> bool:
        """Return whether an option writes or runs something by its name: `--coverage-directory`, `-outFile`."""
        parts = [part.lower() for part in _WORDS_OF_NAME.findall(option)]
        is_setting = bool(parts) and (parts[0] in self.narrowing or parts[-1] in self.settings)
        return not is_setting and not self.parts.isdisjoint(parts)


def _without_values(words: Sequence[str], program: _Program) -> list[str]:
    """Return the words without options that have a harmless value: `-o /dev/null`, `-sSo /dev/null`, `-qO-`."""
    pending = deque(words)
    remaining: list[str] = []
    while pending:
        word = pending.popleft()
        option = _valued_option(word, program.values, program.only)
        pattern = program.values.get(option.name)
        if pattern is not None and pattern.fullmatch(option.value or (pending[0] if pending else "")):
            if not option.value:
                pending.popleft()
        else:
            remaining.append(word)
    return remaining


class _ValuedOption(NamedTuple):
    """An option with a value."""

    name: str = ""
    """Empty if the word has no such option."""
    value: str = ""
    """Empty if the value is the next word."""


def _valued_option(word: str, known_options: Collection[str], flags: Collection[str]) -> _ValuedOption:
    """Return the option in a word that takes a value: `-o` with `/dev/null` for `-sSo/dev/null`.

    A letter is such an option if it is in `known_options`; all letters before it must be in `flags`.
    """
    if word.startswith("--"):
        name, _, value = word.partition("=")
        return _ValuedOption(name, value)
    for index, letter in enumerate(word[1:], start=2):
        if f"-{letter}" in known_options:
            return _ValuedOption(f"-{letter}", word[index:])
        if f"-{letter}" not in flags:
            break
    return _ValuedOption()


def _is_refused(text: str, program: _Program, table: _Table) -> bool:
    """Return whether a word may be an option that writes or runs a program, or another word that the row refuses."""
    name = text.partition("=")[0]
    if program.harmless and (text in program.harmless or name in program.harmless):
        return False
    if not text.startswith("-") or text == "-":
        if program.words is not None and program.words.fullmatch(text) is None:
            return True
        # Two entries stand for a kind of word: `@` for `@file`, and `=` for an assignment such as `A=x`.
        kinds = {"@": text.startswith("@"), "=": "=" in text}
        return any(kinds.get(option, option == text) for option in program.refused)
    if program.only:
        return not _is_one_of(text, program.only)
    if text == "--":
        return False
    if table.has_risky_name(name):
        return True
    if program.whole:
        return any(name.startswith(option) for option in program.refused)
    return (
        _matches_long_option(name, program.refused, table)
        if text.startswith("--")
        else _matches_short_option(text, name, program.refused)
    )


def _is_one_of(text: str, options: Collection[str]) -> bool:
    """Return whether a word is one of these options or a cluster of several letters."""
    return text in options or (text[1] != "-" and all(f"-{letter}" in options for letter in text[1:]))


def _matches_long_option(name: str, options: Collection[str], table: _Table) -> bool:
    """Return whether a long option is one of these, an abbreviation, or an extended name: `--delete-after`."""
    is_setting = name.rpartition("-")[2] in table.settings
    return any(option.startswith(name) or (name.startswith(f"{option}-") and not is_setting) for option in options)


def _matches_short_option(text: str, name: str, options: Collection[str]) -> bool:
    """Return whether a word is one of these options or has one among its letters: `-exec=x`, `-xvI`."""
    letters = {f"-{letter}" for letter in text[1:]}
    return any(option in letters or option == name for option in options)


@cache
def _table() -> _Table:
    data = tomllib.loads(files(__package__).joinpath("wildcards.toml").read_text("utf-8"))
    everywhere = tuple(data["everywhere"].split())
    rows: dict[str, Any] = {name: row for names, row in data["programs"].items() for name in names.split()}
    parts, narrowing, settings = (frozenset(data[key].split()) for key in ("parts", "narrowing", "settings"))
    programs = {name: _program(row, rows, everywhere) for name, row in rows.items()}
    return _Table(everywhere, parts, narrowing, settings, programs)


def _program(row: Mapping[str, Any], rows: Mapping[str, Any], everywhere: tuple[str, ...]) -> _Program:
    merged = (row, rows[row["uses"]]) if "uses" in row else (row,)
    refused = [option for item in merged for option in item.get("refused", "").split()]
    harmless = [option for item in merged for option in item.get("harmless", "").split()]
    only = frozenset(row.get("only", "").split())
    words = re.compile(row["words"], re.DOTALL) if "words" in row else None
    written = row.get("values", {}).items()
    values = {name: re.compile(value) for names, value in written for name in names.split()}
    return _Program((*everywhere, *refused), frozenset(harmless), only, bool(row.get("whole")), words, values)
