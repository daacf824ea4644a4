"""Types as JSON Schema, and JSON as values of the types."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema
import pytest

from qcode.agent.programs.hints import schema_of, value_of


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Problem:
    """One problem."""

    line: int
    text: Annotated[str, "one sentence"]
    level: Level = Level.LOW


@dataclass
class Report:
    problems: list[Problem]
    by_file: dict[str, int] = field(default_factory=dict)


class Place(TypedDict):
    path: str
    line: NotRequired[int]


@dataclass
class Node:
    children: list[Node]


CASES: list[tuple[Any, Any, Any]] = [
    (str, "a", "a"),
    (int, 3, 3),
    (int, 3.0, 3),
    (float, 3, 3.0),
    (bool, True, True),
    (None, None, None),
    (int | None, None, None),
    (str | int, 3, 3),
    (Literal["a", 1], 1, 1),
    (Level, "high", Level.HIGH),
    (list[int], [1, 2], [1, 2]),
    (tuple[int, ...], [1, 2], (1, 2)),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (Annotated[int, "the number"], 3, 3),
    (Problem, {"line": 1, "text": "t"}, Problem(1, "t")),
    (Report, {"problems": [{"line": 1, "text": "t", "level": "high"}]}, Report([Problem(1, "t", Level.HIGH)])),
    (Place, {"path": "a"}, {"path": "a"}),
]
FAULTS: list[tuple[Any, Any, str]] = [
    (str, 3, "the value must be a string, not an integer"),
    (int, True, "the value must be an integer, not true or false"),
    (int, 3.5, "the value must be an integer, not a number"),
    (int | None, "a", "the value must be an integer, not a string; or the value must be null, not a string"),
    (Literal["a", "b"], "c", "the value must be one of 'a', 'b'"),
    (Literal[1], True, "the value must be one of 1"),
    (Level, "middle", "the value must be one of 'low', 'high'"),
    (list[int], [1, "a"], r"\[1\] must be an integer, not a string"),
    (Report, {"problems": [{"line": "1", "text": "t"}]}, r"problems\[0\]\.line must be an integer"),
    (Problem, {"line": 1}, "text is missing"),
    (Problem, {"line": 1, "text": "t", "x": 1}, "x is not a field of Problem; its fields are line, text, level"),
    (Place, {}, "path is missing"),
]


@pytest.mark.parametrize(("hint", "given", "expected"), CASES)
def test_value_that_fits_the_schema_becomes_the_type(hint: Any, given: Any, expected: Any) -> None:
    jsonschema.validate(given, schema_of(hint))
    assert value_of(hint, given) == expected


@pytest.mark.parametrize(("hint", "given", "fault"), FAULTS)
def test_value_of_another_type_is_refused_with_its_path(hint: Any, given: Any, fault: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(given, schema_of(hint))
    with pytest.raises(ValueError, match=f"^{fault}"):
        value_of(hint, given)


def test_schema_has_descriptions_and_no_references() -> None:
    assert schema_of(Report)["properties"] == {
        "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "line": {"type": "integer"},
                    "text": {"type": "string", "description": "one sentence"},
                    "level": {"enum": ["low", "high"]},
                },
                "required": ["line", "text"],
                "additionalProperties": False,
                "description": "One problem.",
            },
        },
        "by_file": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    assert "description" not in schema_of(Report)


@pytest.mark.parametrize("hint", [bytes, dict[int, str], tuple[int, str], set[int], object, Node])
def test_unsupported_type_is_a_type_error(hint: Any) -> None:
    with pytest.raises(TypeError, match="is not supported"):
        schema_of(hint)
