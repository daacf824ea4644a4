"""The JSON Schema of `config.toml` accepts what the program accepts, and finds what an editor can find."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from qcode.config.json_schema import config_schema
from qcode.config.kinds import ValueKind
from qcode.config.schema import KEYS
from tests.docs.blocks import PAGES, blocks_of

SCHEMA = Draft7Validator(config_schema())
EXAMPLES = [block for page in PAGES for block in blocks_of(page) if block.info == "config"]
VALUES: list[Any] = [
    True, 0, 1, -1, 2.5, 10**6, "", " ", "text", "default", "auto", "https://host.test/v1", "NAME", "9-x",
    [], ["quota"], ["a/b"], ["a", "b", "c", "d"], [1], {}, {"rule": "read"}, [{"rule": "read", "examples": ["x"]}],
    [{"rule": "read", "other": 1}],
]  # fmt: skip


def problems(text: str) -> list[str]:
    return [error.message for error in SCHEMA.iter_errors(tomllib.loads(text))]


def test_schema_is_valid() -> None:
    Draft7Validator.check_schema(config_schema())


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_schema_accepts_the_examples_of_the_pages(block: Any) -> None:
    assert problems(block.text) == []


@pytest.mark.parametrize("kind", {key.kind.expected: key.kind for key in KEYS}.values(), ids=lambda kind: kind.expected)
def test_schema_accepts_each_value_that_the_program_accepts(kind: ValueKind) -> None:
    validator = Draft7Validator(dict(kind.schema))
    for value in VALUES:
        try:
            kind.convert(value)
        except (ValueError, TypeError):
            continue
        assert validator.is_valid(value), value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[output]\nmax_token = 1", "'max_token' was unexpected"),
        ("[output]\nmax_tokens = 0", "less than the minimum"),
        ('[permissions]\nmode = "bypass"', "is not one of"),
        ('[providers.x]\nbase_url = "host"', "does not match"),
        ('[providers.x]\nnetwork = { max_retries = "many" }', "is not of type 'integer'"),
        ('[models."a/b"]\nprice = { input = -1 }', "less than the minimum"),
        ("[no_such_table]", "was unexpected"),
    ],
)
def test_schema_refuses_a_mistake_in_a_config_file(text: str, problem: str) -> None:
    assert problem in problems(text)[0]


def test_names_that_the_user_chooses_are_accepted() -> None:
    assert problems('[providers.mine]\nheaders = { X-Any = "a" }\n[ui.keys]\n"app.help" = "f1"\n') == []


def test_schema_is_shipped_for_every_key() -> None:
    text = (Path(__file__).parents[2] / "docs" / "config.schema.json").read_text(encoding="utf-8")
    assert all(f'"{key.path[-1]}"' in text for key in KEYS if key.path[-1] != "*")


def test_every_kind_describes_its_values() -> None:
    assert [key.name for key in KEYS if not key.kind.schema] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[hooks.Stop]]\ncommand = "x"\nargv = ["y"]', "is valid under each of"),
        ('[[hooks.Stop]]\nmatcher = "x"', "is not valid under any of"),
        ('[[hooks.Stop]]\ncommand = "x"\nenv = ["A-B"]', "does not match"),
        ('[[hooks.Stop]]\ncommand = "x"\ntimeout = 1', "was unexpected"),
        ('mcp.defer = "yes"', "is not one of"),
    ],
)
def test_schema_refuses_a_mistake_in_a_hook(text: str, problem: str) -> None:
    assert any(problem in item for item in problems(text))


def test_hook_with_every_field_is_accepted() -> None:
    hook = 'argv = ["x", ""]\nmatcher = "shell"\ntimeout_s = 2.5\non_failure = "block"\nmay_allow = true\nenv = ["A"]'
    assert problems(f"[[hooks.PreToolUse]]\n{hook}\n") == []
