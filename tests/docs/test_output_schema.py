"""The shipped schemas of the output: up to date, and every line of real runs is valid under them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from qcode.config.paths import CONFIG_NAME
from qcode.protocol.reply import StopReason
from scripts import reference
from scripts.output_schema import SYSTEM, result_schema, schemas, stream_schema
from tests.e2e.running import KEY, CliRunner, Finished
from tests.fakes.replies import call, calls, declined, text, truncated
from tests.fakes.server import FakeServer
from tests.fakes.turns import Faults, Script, Turn, refused

LINE = stream_schema()
RESULT = result_schema()
PAGE = (reference.DOCS / "output-formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", schemas())
def test_shipped_schema_is_up_to_date(name: str) -> None:
    assert (reference.SCHEMAS / name).read_text(encoding="utf-8") == schemas()[name], "run: python -m scripts.reference"


def test_page_and_schema_name_the_same_system_lines() -> None:
    table = PAGE.split("| `system` subtype | fields | sent when |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]*) \|", table, re.MULTILINE))
    assert set(rows) == set(SYSTEM)
    for name, fields in rows.items():
        assert set(re.findall(r"`([A-Za-z_]+)`", fields)) == set(SYSTEM[name]), name


def test_page_and_schema_name_the_same_fields_of_a_result() -> None:
    table = PAGE.split("## The `result` object")[1].split("\n\n")[1]
    named = {
        name for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert set(result_schema()["properties"]) - {"resets_at"} == named


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    """Return the problems of a line, those of a union under the alternative for its type and subtype."""
    for item in schema.get("anyOf", []):
        constants = {name: field["const"] for name, field in item["properties"].items() if "const" in field}
        if all(value.get(name) == expected for name, expected in constants.items()):
            schema = item
    return [f"{error.json_path}: {error.message[:300]}" for error in Draft202012Validator(schema).iter_errors(value)]


RUNS: dict[str, tuple[Script, tuple[str, ...], str]] = {
    "text": ([text("Hello ", "you", reasoning="hm")], (), ""),
    "no usage": ([Turn(text="ok", usage=None)], (), ""),
    "calls": ([calls(call("shell", command="ls"), call("read", path="no-such-file")), text("ok")], ("--trust",), ""),
    "denied": ([calls(call("write", path="a", content="b")), text("no")], ("--trust",), ""),
    "denied only": ([calls(call("write", path="a", content="b")), Turn(text="")], ("--trust",), ""),
    "edit": (
        [calls(call("write", path="a", content="b")), text("ok")],
        ("--trust", "--permission-mode", "accept-edits"),
        "",
    ),
    "truncated": ([truncated("a " * 50), truncated("a " * 60), text("b", "c")], (), ""),
    "still truncated": ([truncated("a " * (50 + n)) for n in range(6)], (), ""),
    "refused": ([declined("no")], (), ""),
    "limit": ([calls(call("shell", command="ls"))] * 3, ("--trust", "--max-turns", "1"), ""),
    "error": ([refused(400, "bad")], (), ""),
    "rate limit": ([refused(429, "slow down", retry_after=9_000)], (), ""),
    "retried": ([refused(503, "busy"), text("ok")], (), ""),
    "broken off": ([Turn(text=("a b c ", "d e f"), faults=Faults(cut_after=4)), text("more")], (), ""),
    "schema": ([text('{"n": 1}')], ("--json-schema", '{"type": "object"}'), ""),
    "schema never met": ([text("x")] * 3, ("--json-schema", '{"type": "object"}'), ""),
    "hooks": ([text("ok")], ("--trust",), '[[hooks.Stop]]\ncommand = "exit 3"\n'),
    "usage error": ([], ("--max-turns", "x"), ""),
    "config error": ([], (), "modle = 1\n"),
    "no credential": ([], ("-m", "anthropic/x"), ""),
}


def run(cli: CliRunner, name: str, form: str) -> Finished:
    script, flags, config = RUNS[name]
    (cli.home / CONFIG_NAME).write_text(f"[network]\nmax_retries = 1\n{config}" if config != "modle = 1\n" else config)
    with FakeServer("openai", script) as server:
        given = () if "-m" in flags else ("-m", "openai/m", "--base-url", server.base_url)
        env = {"QCODE_HOME": str(cli.home), "OPENAI_API_KEY": KEY}
        return cli.run(*given, "-p", "hi", "-o", form, *flags, env=env)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", RUNS)
def test_lines_of_a_run_are_valid(cli: CliRunner, name: str) -> None:
    script, flags, config = RUNS[name]
    RUNS["partial"] = (script, (*flags, "--include-partial-messages"), config)
    lines = run(cli, "partial", "stream-json").lines
    del RUNS["partial"]
    assert [found for line in lines for found in problems(LINE, line)] == []


@pytest.mark.parametrize("name", ["text", "calls", "error", "schema never met"])
def test_result_of_a_run_is_valid(cli: CliRunner, name: str) -> None:
    assert problems(RESULT, run(cli, name, "json").result) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"subtype": "fine"}, "'fine' is not one of"), ({"extra": 1}, "'extra' was unexpected"), ({"usage": 1}, "type")],
)
def test_schema_can_fail(cli: CliRunner, change: dict[str, Any], problem: str) -> None:
    result = run(cli, "text", "json").result
    assert problem in problems(RESULT, result | change)[0]


def test_stop_reasons_are_those_of_the_program() -> None:
    assert set(SYSTEM["stop_reason_observed"]["reason"]["enum"]) == {str(item) for item in StopReason}


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def test_schemas_are_json_schemas() -> None:
    for content in schemas().values():
        Draft202012Validator.check_schema(json.loads(content))
