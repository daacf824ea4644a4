"""Data that a run of a program needs beside the table: values of its options, operands, exit codes.

The data is samples.toml. `make_scratch` makes a file for every value, so that a value which the program takes for an
operand is seen to be read.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from qcode.safety.shell.table import Role
from qcode.values import dataclass

Words = tuple[str, ...]

BY_ROLE: Mapping[Role, Words] = {
    "read": ("data.txt", "other.txt"),
    "file": ("data.txt", "other.txt"),
    "list": ("data.txt", "src"),
    "names": ("src", "docs"),
    "tree": ("src", "docs"),
    "text": ("line", "a"),
    "pattern": ("line",),
    "format": ("+%F",),
    "number": ("3", "1"),
    "seconds": ("0.01",),
    "date": ("yesterday",),
    "word": ("abc",),
    "name": ("abc",),
    "sed": ("p",),
    "awk": ("{print $1}",),
    "jq": (".",),
    "printf": ("%s",),
    "test": ("-n",),
}
"""Operands and values that fit a role."""

HELP: Words = ("--help", "--version")
"""Options under which every program prints something about itself and reads nothing."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one program; the header of samples.toml explains the fields."""

    operands: tuple[Words, ...] = ()
    cases: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)
    values: Mapping[str, Words] = field(default_factory=dict)
    companions: Mapping[str, Words] = field(default_factory=dict)
    phrases: Mapping[str, Words] = field(default_factory=dict)
    codes: frozenset[int] = frozenset({0})
    ends: Words = ()
    skips: Words = ()
    accepts: str = ""
    looks_on_path: bool = False


def samples_of(program: str) -> Samples:
    """Return the samples of the program of this name."""
    return _samples().get(program, Samples())


def entry_of(entries: Mapping[str, Words], option: str) -> Words:
    """Return the entry whose key names the option, empty if there is none."""
    return next((entry for names, entry in entries.items() if option in names.split()), ())


@cache
def _samples() -> Mapping[str, Samples]:
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {name: _made(entry) for names, entry in data.items() for name in names.split()}


def _made(entry: Mapping[str, Any]) -> Samples:
    return Samples(
        _lists(entry.get("operands", ())),
        {names: _lists(lists) for names, lists in entry.get("cases", {}).items()},
        {names: tuple(values) for names, values in entry.get("values", {}).items()},
        {names: tuple(shlex.split(words)) for names, words in entry.get("with", {}).items()},
        {names: tuple(phrases) for names, phrases in entry.get("phrases", {}).items()},
        frozenset(entry.get("codes", (0,))),
        tuple(entry.get("ends", "").split()),
        tuple(entry.get("skips", "").split()),
        entry.get("accepts", ""),
        entry.get("looks_on_path", False),
    )


def _lists(texts: list[str]) -> tuple[Words, ...]:
    return tuple(tuple(shlex.split(text)) for text in texts)
