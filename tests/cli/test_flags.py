"""The table of flags agrees with `Options`, the configuration and the pages, and every part of the program reads it."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path

import pytest

from qcode.agent.options import Options
from qcode.agent.sessions.export import EXPORT_FORMATS
from qcode.cli.arguments import parse
from qcode.cli.flags import FLAGS, SUBCOMMANDS, Flag
from qcode.cli.help_text import help_text
from qcode.config.schema import KEYS, Key
from qcode.protocol.provider import Provider

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
NAMES = {name for flag in FLAGS for name in flag.names}
OF_SUBCOMMANDS = {name for command in SUBCOMMANDS.values() for flag in command.flags for name in flag.names}
VALUES = {
    "text": "x",
    "texts": "x",
    "path": "x",
    "paths": "x",
    "rules": "read",
    "positive": "7",
    "natural": "7",
    "money": "0.5",
    "duration": "90s",
}


def test_no_name_and_no_field_is_declared_twice() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    fields = [flag.field for flag in FLAGS if flag.field and flag.kind != "shown"]
    assert (len(names), len(fields)) == (len(set(names)), len(set(fields)))


@pytest.mark.parametrize(
    "flag", [flag for flag in FLAGS if flag.field and flag.kind != "shown"], ids=lambda flag: flag.key
)
def test_flag_sets_its_field_and_no_other(flag: Flag) -> None:
    default = dataclasses.asdict(Options())
    argv = [flag.names[-1]]
    if flag.takes_value:
        argv.append(flag.choices[-1] if flag.choices else VALUES[flag.kind])
    # A format is not taken alone.
    beside = {"include_partial_messages": "output_format", "input_format": "output_format", "fork_session": "resume"}
    needed = {"output_format": ["-o", "stream-json"], "resume": ["-c"]}.get(beside.get(flag.field, ""), [])
    changed = {name for name, value in dataclasses.asdict(parse([*argv, *needed])).items() if value != default[name]}
    assert changed - {beside.get(flag.field)} == {flag.field}


@pytest.mark.parametrize(
    "flag",
    [flag for flag in FLAGS if flag.choices and flag.field and flag.key != "completion"],
    ids=lambda flag: flag.key,
)
def test_choices_of_a_flag_match_its_field(flag: Flag) -> None:
    (own, *rest) = _choices(typing.get_type_hints(Options, localns={"Provider": Provider})[flag.field])
    assert flag.choices == (own, *rest)
    default = getattr(Options(), flag.field)
    assert default == (own if flag.has_default else None)


def _choices(hint: object) -> tuple[str, ...]:
    found = typing.get_args(hint)
    return found if all(isinstance(item, str) for item in found) else _choices(found[0])


def test_formats_of_an_export_match_its_flag() -> None:
    assert SUBCOMMANDS["sessions"].flags[0].choices == EXPORT_FORMATS


def test_help_names_every_flag_and_no_other() -> None:
    words = {word.strip(",:[]()").partition("[")[0] for line in help_text().splitlines() for word in line.split()}
    found = {word for word in words if re.fullmatch("--?[a-zA-Z][-a-zA-Z]*", word)}
    assert found - (OF_SUBCOMMANDS - NAMES) == NAMES
    assert all(len(line) <= 120 for line in help_text().splitlines())


def test_flags_that_the_configuration_names_exist() -> None:
    assert {key.meta.flag for key in KEYS if key.meta.flag} <= NAMES


@pytest.mark.parametrize(
    "key", [key for key in KEYS if key.meta.flag and "*" not in key.path], ids=lambda key: key.meta.flag
)
def test_flag_sets_the_key_that_names_it(key: Key) -> None:
    flag = next(flag for flag in FLAGS if key.meta.flag in flag.names)
    value = [flag.choices[0] if flag.choices else VALUES[flag.kind]] if flag.takes_value else []
    assert list(parse([key.meta.flag, *value]).flags()) == [key.name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_only_flags_that_exist(page: Path) -> None:
    commands = re.findall(r"\bqcode(?: [^`\n|&]*)? --[^`\n|&]*", page.read_text(encoding="utf-8"))
    found = {name for command in commands for name in re.findall(r"(?<![-\w])--[a-z][-a-zA-Z]*", command)}
    assert found - NAMES - OF_SUBCOMMANDS == set()
