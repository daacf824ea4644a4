"""Values a server sent: a value of an unexpected type counts as absent."""

from __future__ import annotations

import json

import pytest

from qcode.text.json import Json, count_in, object_in, objects_in, sum_of, text_in


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("7", 7), ("7.9", 7), ("0", 0), ("-1", None), ("true", None), ("null", None), ('"7"', None), ("[7]", None),
        ("NaN", None), ("Infinity", None), ("1e999", None), ("1" * 300, int("1" * 300)),
    ],
)  # fmt: skip
def test_count_is_a_valid_non_negative_integer(sent: str, expected: int | None) -> None:
    assert count_in(json.loads(sent)) == expected


@pytest.mark.parametrize("value", [None, 7, True, "x", [1]])
def test_value_that_is_not_an_object_becomes_an_empty_one(value: Json) -> None:
    assert object_in(value) == {}


def test_list_keeps_its_objects_and_a_single_object_becomes_a_list() -> None:
    assert objects_in([{"a": 1}, None, 7, {"b": 2}]) == [{"a": 1}, {"b": 2}]
    assert objects_in({"a": 1}) == [{"a": 1}]
    assert objects_in("x") == []
    assert (text_in("x"), text_in(None), text_in({"x": 1})) == ("x", "", "")


def test_sum_without_values_is_missing() -> None:
    assert (sum_of(None, None), sum_of(None, 2), sum_of(1, 2)) == (None, 2, 3)
