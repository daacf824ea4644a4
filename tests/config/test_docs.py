"""The page about the configuration names the keys of the schema; its tables are generated (`tests/docs`)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from qcode.config.load import OUTPUT_CAP_VARIABLES
from qcode.config.schema import KEYS
from tests.config.folders import Folders

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")


def test_page_lists_each_key_exactly_once() -> None:
    assert sorted(re.findall(r"^\| `([^`|]+)` \|", PAGE, re.MULTILINE)) == sorted(key.name for key in KEYS)


def test_page_names_the_variables() -> None:
    assert all(f"`{name}`" in PAGE for name in (*OUTPUT_CAP_VARIABLES, "QCODE_HOME", "QCODE_MODEL", "OPENAI_BASE_URL"))


def test_example_of_the_page_can_be_loaded(folders: Folders) -> None:
    example = PAGE.split("```toml config\n", 1)[1].split("```", 1)[0]
    assert tomllib.loads(example)
    settings = folders.user(example).load()
    assert settings.output_for("local/qwen3-coder").max_continuations == 5
    assert settings.network_for("local").idle_timeout_s == 600
