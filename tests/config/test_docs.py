"""The page about the configuration and the schema name the same keys, values and defaults."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from qcode.config.load import CAP_VARIABLES
from qcode.config.schema import KEYS, Key
from tests.config.writing import Folders

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([^`|]+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
ROWS = {name: (value.strip(), default.strip(), meaning) for name, value, default, meaning in ROW.findall(PAGE)}


def test_the_page_lists_each_key_and_no_other() -> None:
    assert sorted(ROWS) == sorted(one.name for one in KEYS)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_the_page_gives_the_default_choices_and_flag_of_a_key(key: Key) -> None:
    value, default, meaning = ROWS[key.name]
    assert default == ("by name" if key.name == "providers.NAME.type" else _default(key.default))
    shown = {choice for choice in key.kind.choices if f'`"{choice}"`' in value}
    assert shown == set(key.kind.choices) - {"bypass"}
    assert not key.meta.flag or key.meta.flag in meaning


def test_each_key_is_in_the_page_only_once() -> None:
    names = [found[0] for found in ROW.findall(PAGE)]
    assert len(names) == len(set(names))


def test_the_variables_are_named() -> None:
    assert all(f"`{name}`" in PAGE for name in (*CAP_VARIABLES, "QCODE_HOME", "QCODE_MODEL", "OPENAI_BASE_URL"))


def test_the_example_of_the_page_can_be_loaded(folders: Folders) -> None:
    example = PAGE.split("```toml config\n", 1)[1].split("```", 1)[0]
    assert tomllib.loads(example)
    settings = folders.user(example).load()
    assert settings.output_for("local/qwen3-coder").max_continuations == 5
    assert settings.network_for("local").idle_timeout_s == 600


def _default(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return "`[]`"
    return f"`{value:g}`"
