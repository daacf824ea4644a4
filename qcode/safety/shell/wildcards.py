"""Uses of a program that the wildcard of an allow rule covers, if the program is not in the table of the judge. Pure.

`wildcards.toml` lists options that write, send a file or run a program; its header explains every key. The rest is
recognized by the name of the option, so an unknown option such as `--coverage-directory` is not covered either.
Separate from `rules`, its only importer: it loads with the first command that a wildcard may cover.
"""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from qcode.values import dataclass

_WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def may_run_or_write(name: str, words: Sequence[str]) -> bool:
    """Return whether a program may read one of `words` as an option that runs or writes.

    `words` are the arguments that a wildcard matched, in order; those that the rule spells out are empty.
    """
    table = _table()
    program = table.programs.get(name, _Program(table.everywhere))
    if name == "go":  # its options have one dash or two, and `-test.x` is `-x`
        words = [re.sub(r"^--?(?:test\.)?", "-", word) if word.startswith("-") else word for word in words]
    if name == "tar":  # it reads its first word as options even without a dash
        words = [*(f"-{word}" for word in words[:1] if word), *words]
    return any(_is_refused(word, program, table) for word in _without_values(words, program) if word)


@dataclass(frozen=True, slots=True)
class _Program:
    refused: tuple[str, ...]
    harmless: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    whole: bool = False
    words: re.Pattern[str] | None = None
    values: tuple[tuple[str, re.Pattern[str]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Table:
    everywhere: tuple[str, ...]
    parts: frozenset[str]
    narrowing: frozenset[str]
    settings: frozenset[str]
    programs: Mapping[str, _Program]

    def says_more(self, option: str) -> bool:
        """Return whether the name of an option says that it writes or runs: `--coverage-directory`, `-outFile`."""
        parts = [part.lower() for part in _WORDS_OF_NAME.findall(option)]
        is_setting = bool(parts) and (parts[0] in self.narrowing or parts[-1] in self.settings)
        return not is_setting and not self.parts.isdisjoint(parts)


def _without_values(words: Sequence[str], program: _Program) -> list[str]:
    """Return the words without options that have a harmless value: `-o /dev/null`, `-sSo /dev/null`, `-qO-`."""
    rest, left, harmless = deque(words), list[str](), dict(program.values)
    while rest:
        word = rest.popleft()
        option, value = _option_with_value(word, harmless, program.only)
        pattern = harmless.get(option)
        if pattern is not None and pattern.fullmatch(value or (rest[0] if rest else "")):
            if not value:
                rest.popleft()
        else:
            left.append(word)
    return left


def _option_with_value(word: str, known: Collection[str], flags: Collection[str]) -> tuple[str, str]:
    """Return the option in a word that has a value, if it is `known`, and the value, empty if it is the next word."""
    if word.startswith("--"):
        name, _, value = word.partition("=")
        return name, value
    for index, letter in enumerate(word[1:], start=2):
        if f"-{letter}" in known:
            return f"-{letter}", word[index:]
        if f"-{letter}" not in flags:
            break
    return "", ""


def _is_refused(text: str, program: _Program, table: _Table) -> bool:
    name = text.partition("=")[0]
    if program.harmless and (text in program.harmless or name in program.harmless):
        return False
    if not text.startswith("-") or text == "-":
        if program.words is not None and program.words.fullmatch(text) is None:
            return True
        kinds = {"@": text.startswith("@"), "=": "=" in text}
        return any(kinds.get(option, option == text) for option in program.refused)
    if program.only:
        return not _is_one_of(text, program.only)
    if text == "--":
        return False
    if table.says_more(name):
        return True
    if program.whole:
        return any(name.startswith(option) for option in program.refused)
    return _is_long(name, program.refused, table) if text.startswith("--") else _has_letter(text, name, program.refused)


def _is_one_of(text: str, options: Collection[str]) -> bool:
    """Return whether a word is one of these options, or letters of several."""
    return text in options or (text[1] != "-" and all(f"-{letter}" in options for letter in text[1:]))


def _is_long(name: str, options: Collection[str], table: _Table) -> bool:
    """Return whether a long option is one of these, abbreviated, or one with a longer name: `--delete-after`."""
    is_setting = name.rpartition("-")[2] in table.settings
    return any(option.startswith(name) or (name.startswith(f"{option}-") and not is_setting) for option in options)


def _has_letter(text: str, name: str, options: Collection[str]) -> bool:
    """Return whether one of these options is among the letters of a word, or the word: `-xvI`, `-exec=x`."""
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
    values = tuple((name, re.compile(value)) for names, value in written for name in names.split())
    return _Program((*everywhere, *refused), frozenset(harmless), only, bool(row.get("whole")), words, values)
