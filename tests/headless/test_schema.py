from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from qcode.agent.programs.answer_schema import AnswerSchema, InvalidSchemaError

COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TREE = {
    "$defs": {"node": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]}},
    "$ref": "#/$defs/node",
}


def schema(value: Any) -> AnswerSchema:
    return AnswerSchema(json.dumps(value))


@pytest.mark.parametrize(
    "answer",
    [
        '{"n": 1}',
        ' \n{"n": 1}\n',
        '```json\n{"n": 1}\n```',
        '```\n{"n": 1}\n```',
        '~~~\n{"n": 1}\n~~~',
        '\ufeff{"n": 1}',
    ],
)
def test_one_value_is_read_with_or_without_a_fence(answer: str) -> None:
    found = schema(COUNT).read(answer)
    assert found is not None
    assert (found.text, found.value) == ('{"n": 1}', {"n": 1})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no text"),
        ("```json\n\n```", "no text"),
        ('Here it is: {"n": 1}', "not a single JSON value"),
        ('{"n": 1}\n{"n": 2}', "not a single JSON value"),
        ('```\n{"n": 1}\n```\n```\n{"n": 2}\n```', "not a single JSON value"),
        ("NaN", "NaN is not JSON"),
        ('{"n": 1e999}', "too large"),
        ("[" * 65 + "]" * 65, "64 levels"),
        ("[" * 100_000, "64 levels"),
        ("{}", "$: 'n' is a required property"),
        ('{"n": "x"}', "$.n: 'x' is not of type 'integer'"),
    ],
)
def test_invalid_answer_gets_an_error_for_the_model(answer: str, reason: str) -> None:
    asked = schema(COUNT)
    invalid = asked.validate(answer)
    assert asked.read(answer) is None
    assert invalid is not None
    assert reason in invalid.reason
    assert reason in invalid.request
    assert "\n" not in invalid.reason


def test_integer_that_the_validator_cannot_divide_is_invalid() -> None:
    invalid = schema({"multipleOf": 0.1}).validate("1" + "0" * 400)
    assert invalid is not None
    assert invalid.reason == "a number is too large"


def test_first_errors_are_named_within_bounds() -> None:
    invalid = schema({"items": {"enum": ["x" * 5_000]}}).validate(json.dumps([1] * 50))
    assert invalid is not None
    assert invalid.reason.count("$[") == 5
    assert len(invalid.reason) < 5 * 400


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("nonsense", "is not JSON"),
        ("[1]", "is not a valid JSON Schema"),
        ('{"type": "nonsense"}', "is not a valid JSON Schema: $.type"),
        ('{"pattern": "("}', "regex"),
        ('{"$schema": "http://example.com/mine"}', "unsupported"),
        ('{"$ref": "http://127.0.0.1:9/x"}', "external references"),
        ('{"$ref": "#/$defs/missing"}', "external references"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "external references"),
        ('{"a": {"b": {"$ref": "http://127.0.0.1:9/x"}}, "$ref": "#/a/b"}', "external references"),
        ('{"$ref": "#/x", "x": {"type": "nonsense"}}', "is not a valid JSON Schema"),
        ('{"$ref": "#"}', "refers to itself"),
        ('{"$defs": {"a": {"anyOf": [{"not": {"$ref": "#/$defs/a"}}]}}}', "refers to itself"),
        ('{"if": {"$ref": "#"}}', "refers to itself"),
    ],
)
def test_unusable_schema_is_refused_at_once(given: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=re.escape(reason)):
        AnswerSchema(given)


@pytest.mark.parametrize(
    ("given", "good", "bad"),
    [
        (TREE, "[1, [2, []]]", '[1, ["x"]]'),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, '{"type": "string"}', '{"type": "nonsense"}'),
        ({"$defs": {"a": {"$anchor": "here", "type": "string"}}, "$ref": "#here"}, '"x"', "1"),
        ({"$id": "http://me/x", "$defs": {"a": {"$id": "b", "type": "string"}}, "$ref": "b"}, '"x"', "1"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}, '["x"]', "[1]"),
        ({"$dynamicAnchor": "n", "properties": {"c": {"items": {"$dynamicRef": "#n"}, "type": "array"}}},
         '{"c": [{"c": []}]}', '{"c": [{"c": 1}]}'),
        ({"const": {"$ref": "http://127.0.0.1:9/x"}}, '{"$ref": "http://127.0.0.1:9/x"}', "{}"),
        (True, "1", "x"),
    ],
)  # fmt: skip
def test_references_inside_the_schema_are_resolved(given: Any, good: str, bad: str) -> None:
    asked = schema(given)
    assert asked.read(good) is not None
    assert asked.read(bad) is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"pattern": "^(a+)+$"}, json.dumps("a" * 60 + "!")),
        ({"patternProperties": {"^(a+)+$": False}, "required": ["b"]}, json.dumps({"a" * 60 + "!": 1})),
        ({"additionalProperties": False, "patternProperties": {"^(a+)+$": True}}, json.dumps({"a" * 60 + "!": 1})),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": {"$ref": "#"}, "pattern": "^(a+)+$"},
         json.dumps(["a" * 60 + "!"])),
    ],
)  # fmt: skip
def test_pattern_that_backtracks_does_not_block(given: Any, answer: str) -> None:
    assert schema(given).read(answer) is None


def test_pattern_that_takes_too_long_makes_the_answer_invalid() -> None:
    invalid = schema({"pattern": "^(a|aa)+$"}).validate(json.dumps("a" * 90 + "!"))
    assert invalid is not None
    assert "the pattern '^(a|aa)+$' took longer than 0.5 s" in invalid.reason


@pytest.mark.parametrize(
    ("given", "good", "bad"),
    [
        ({"pattern": "^[0-9a-f]{8}$"}, '"12ab34cd"', '"12ab34cg"'),
        ({"pattern": "^x"}, "5", '"y"'),
        ({"patternProperties": {"^n": {"type": "integer"}}}, '{"n1": 1, "m": "x"}', '{"n1": "x"}'),
        (
            {"patternProperties": {"^n": {}}, "additionalProperties": {"type": "null"}},
            '{"n": 1, "m": null}',
            '{"m": 1}',
        ),
    ],
)
def test_patterns_of_texts_and_names_are_checked(given: Any, good: str, bad: str) -> None:
    assert schema(given).read(good) is not None
    assert schema(given).read(bad) is None


def test_value_of_maximum_depth_is_validated_against_a_deep_schema() -> None:
    layers: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/node"}}
    for _ in range(8):
        layers = {"allOf": [layers]}
    before = sys.getrecursionlimit()
    asked = schema({"$defs": {"node": layers}, "$ref": "#/$defs/node"})
    assert asked.read("[" * 64 + "]" * 64) is not None
    assert asked.read("[" * 63 + '"x"' + "]" * 63) is None
    assert sys.getrecursionlimit() == before
