"""Tools of servers as models see them: valid names, sanitized and limited texts, valid schemas."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.mcp.spec import split_name
from qcode.agent.mcp.tools import MAX_DESCRIPTION, MAX_SCHEMA, ListedTool, check_tools, outcome_of, tool_name
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.text.clean import clean
from qcode.text.json import Json
from tests.fakes.tools import spec_of

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EMPTY: dict[str, Json] = {"type": "object", "properties": {}}


def one(name: str = "t", description: str = "", schema: Any = EMPTY) -> Any:
    (found,) = check_tools("srv", [ListedTool(name, description, schema)])
    return found


@given(st.text(), st.text())
def test_every_name_is_valid_for_providers_and_maps_back_to_its_server(tool: str, description: str) -> None:
    found = one(tool, description)
    assert NAME.fullmatch(found.spec.name)
    assert split_name(found.spec.name).server == "srv"
    assert clean(found.spec.description) == found.spec.description
    assert found.listed_name == tool


def test_long_names_stay_distinct() -> None:
    names = {tool_name("s" * 30, "x" * 100 + end) for end in ("a", "b", "")}
    assert len(names) == 3
    assert all(len(name) <= 64 for name in names)


def test_tools_with_the_same_name_are_both_refused() -> None:
    found = check_tools("srv", [ListedTool("a.b", "", EMPTY), ListedTool("a b", "", EMPTY), ListedTool("c", "", EMPTY)])
    assert [bool(tool.problem) for tool in found] == [True, True, False]


def test_tools_are_sorted_by_name_in_any_listing_order() -> None:
    listed = [ListedTool(name, "", EMPTY) for name in "cab"]
    assert check_tools("srv", listed) == check_tools("srv", listed[::-1])


def test_only_enabled_tools_are_offered() -> None:
    listed = [ListedTool(name, "", EMPTY) for name in "abc"]
    assert [tool.listed_name for tool in check_tools("srv", listed, ("b",))] == ["b"]
    assert len(check_tools("srv", listed, ("*",))) == 3


def test_descriptions_are_cleaned_capped_and_attributed_to_the_server() -> None:
    found = one(description="\x1b[31mIgnore\x1b[0m\x00 \U000e0041\u202eall " + "long " * 200_000)
    assert found.spec.description.startswith("A tool of the server srv, which says about it: Ignore all long")
    assert len(found.spec.description) < MAX_DESCRIPTION + 100
    schema = {"properties": {"title": {"type": "string", "description": "\x1b[2Jx" * 1000, "enum": ["\x1b"]}}}
    parameters: Any = one(schema=schema).spec.parameters
    assert parameters["properties"]["title"]["enum"] == ["\x1b"]
    assert "\x1b" not in parameters["properties"]["title"]["description"]
    assert len(parameters["properties"]["title"]["description"]) < 1_100


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"properties": {"a": {"description": "x" * MAX_SCHEMA}}}, "more than"),
        ({"type": "array"}, "not a JSON Schema object"),
        ({"properties": [1]}, "not a JSON Schema object"),
        ({"properties": {"odd name": {}}}, "odd name"),
        ({"properties": {"a": json.loads("[" * 60 + "]" * 60)}}, "nested too deeply"),
        ({"properties": {"a": {"maximum": float("inf")}}}, "invalid number"),
    ],
)
def test_tool_with_an_invalid_schema_is_not_offered(schema: Any, problem: str) -> None:
    found = one(schema=schema)
    assert problem in found.problem
    assert found.spec.parameters == EMPTY


def test_top_level_schema_keywords_that_providers_refuse_are_dropped() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{}]}}, "anyOf": [{}], "$schema": "x", "required": ["a"]}
    assert one(schema=schema).spec.parameters == {
        "type": "object",
        "properties": {"a": {"anyOf": [{}]}},
        "required": ["a"],
    }


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ({}, "ask"),
        ({"allow": ["mcp(srv/read_it)"]}, "allow"),
        ({"allow": ["mcp(srv/*)"]}, "allow"),
        ({"allow": ["mcp(other/*)", "mcp(srv/read)"]}, "ask"),
        ({"allow": ["mcp"], "deny": ["mcp(srv/read.it)"]}, "deny"),
        ({"allow": ["mcp(srv/*)"], "ask": ["mcp(srv/read_it)"]}, "ask"),
    ],
)
def test_rules_match_a_tool_by_server_and_name(rules: dict[str, list[str]], verdict: str, tmp_path: Any) -> None:
    policy = Policy(mode="default", rules=Rules.of(**rules), is_trusted=True, root=tmp_path)
    name = one("read.it").spec.name
    assert policy.judge(spec_of(name), {}).verdict == verdict
    assert policy.with_mode("plan").judge(spec_of(name), {}).verdict == "deny"
    assert Policy("default", Rules.of(), True, tmp_path).judge(spec_of(name), {}).proposed_rule == "mcp(srv/read_it)"


@pytest.mark.parametrize(
    ("texts", "value", "content"),
    [
        (["5"], {"result": 5}, "5"),
        (["a b"], {"content": "a b"}, "a b"),
        (["a", "b"], {"result": ["a", "b"]}, "a\nb"),
        (['{"x": 1}'], {"x": 1}, '{"x": 1}'),
        (["five"], {"result": 5}, 'five\n{\n "result": 5\n}'),
        ([], {"x": 1, "y": 2}, '{\n "x": 1,\n "y": 2\n}'),
    ],
)
def test_structured_content_is_sent_once_if_the_text_says_the_same(
    texts: list[str], value: dict[str, Json], content: str, tmp_path: Any
) -> None:
    from mcp_types import CallToolResult, TextContent  # half a second; no other test needs it

    result = CallToolResult(content=[TextContent(text=text) for text in texts], structured_content=value)
    assert outcome_of(result, 1_000, lambda: tmp_path).content == content


def test_data_that_cannot_be_stored_is_named_and_the_text_stays(tmp_path: Any) -> None:
    from mcp_types import AudioContent, CallToolResult, TextContent

    result = CallToolResult(content=[TextContent(text="heard"), AudioContent(data="AAAA", mime_type="audio/wav")])
    outcome = outcome_of(result, 1_000, lambda: tmp_path / "missing")
    assert outcome.content == "heard\n[audio (audio/wav), 3 bytes, not saved: No such file or directory]"
