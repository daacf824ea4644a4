"""Validation of a call's arguments against the parameters of its tool, with error messages that a model can act on.

It supports the part of JSON Schema that tool parameters use: the types string, integer, number, boolean, array and
object, and `required`, `enum`, `minimum`, `maximum`, `minItems`, `maxItems` and `items`. A null for an optional
argument counts as missing. An array or object that the model sends as a JSON string is decoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from qcode.protocol.tools import Refused, ToolSpec
from qcode.text.clean import quoted
from qcode.text.json import Json, JsonObject

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class Arguments:
    """The checked arguments of a call. A missing optional argument has the default that the caller names."""

    def __init__(self, values: JsonObject) -> None:
        self._values = values

    def text(self, name: str, default: str = "") -> str:
        value = self._values.get(name, default)
        assert isinstance(value, str)
        return value

    def integer(self, name: str, default: int) -> int:
        value = self._values.get(name, default)
        assert isinstance(value, (int, float))
        return int(value)

    def number(self, name: str, default: float) -> float:
        value = self._values.get(name, default)
        assert isinstance(value, (int, float))
        return float(value)

    def flag(self, name: str) -> bool:
        return self._values.get(name, False) is True

    def texts(self, name: str) -> list[str]:
        """Return a list of strings, empty if it is missing."""
        return [value for value in self._list(name) if isinstance(value, str)]

    def objects(self, name: str) -> list[Arguments]:
        """Return a list of objects, empty if it is missing."""
        return [Arguments(value) for value in self._list(name) if isinstance(value, dict)]

    def _list(self, name: str) -> list[Json]:
        value = self._values.get(name, [])
        assert isinstance(value, list)
        return value

    def has(self, name: str) -> bool:
        return name in self._values


def validate_arguments(spec: ToolSpec, arguments: JsonObject) -> Arguments:
    """Return the validated arguments. Raise `Refused`, which names the first invalid argument."""
    return Arguments(_check_object(spec.name, "", arguments, spec.parameters))


def _check_object(tool: str, prefix: str, arguments: JsonObject, schema: Mapping[str, Json]) -> JsonObject:
    """Return the object with checked values. `prefix` is its path, such as `edits[0].`, empty at the top level."""
    properties = schema.get("properties")
    assert isinstance(properties, dict)
    names = schema.get("required", [])
    required = [str(name) for name in names] if isinstance(names, list) else []
    values: JsonObject = {}
    for name, value in arguments.items():
        item_schema = properties.get(name)
        if not isinstance(item_schema, dict):
            from qcode.text.match import suggestion

            nearest = suggestion(name, properties, label='"{}"')
            hint = f"; {nearest}" if nearest else ""
            raise Refused(
                f"{tool}: unknown argument {quoted(prefix + name)}{hint} {_expected_text(required, properties)}"
            )
        if value is None and name not in required:
            continue
        values[name] = _check_value(tool, prefix + name, value, item_schema)
    missing = [name for name in required if name not in values]
    if missing:
        raise Refused(f"{tool}: missing argument {quoted(prefix + missing[0])} {_expected_text(required, properties)}")
    return values


def _check_value(tool: str, name: str, value: Json, schema: JsonObject) -> Json:
    """Return a value that matches its schema; raise `Refused` with the first mismatch."""
    kind = str(schema.get("type", "string"))
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind in ("array", "object") and isinstance(value, str):
        value = _decode_json(value)
    is_unwanted_bool = isinstance(value, bool) and kind != "boolean"  # in Python, True is also an integer
    if not isinstance(value, _TYPES[kind]) or is_unwanted_bool:
        raise Refused(f"{tool}: argument {quoted(name)} must be {_article(kind)}, not {_type_of(value)}")
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        allowed = ", ".join(quoted(str(choice)) for choice in choices)
        raise Refused(f"{tool}: argument {quoted(name)} must be one of {allowed}, not {quoted(str(value))}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_range(tool, name, value, schema)
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise Refused(f"{tool}: argument {quoted(name)} contains half of a character (a lone surrogate); send it again")
    if isinstance(value, list):
        return _check_items(tool, name, value, schema)
    if isinstance(value, dict):
        return _check_object(tool, f"{name}.", value, schema)
    return value


def _check_range(tool: str, name: str, value: float, schema: JsonObject) -> None:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, (int, float)) and value < low:
        raise Refused(f"{tool}: argument {quoted(name)} must be at least {low}, not {value}")
    if isinstance(high, (int, float)) and value > high:
        raise Refused(f"{tool}: argument {quoted(name)} must be at most {high}, not {value}")


def _check_items(tool: str, name: str, values: list[Json], schema: JsonObject) -> Json:
    min_items, max_items = schema.get("minItems"), schema.get("maxItems")
    if isinstance(min_items, int) and len(values) < min_items:
        raise Refused(f"{tool}: argument {quoted(name)} must have at least {min_items} items, not {len(values)}")
    if isinstance(max_items, int) and len(values) > max_items:
        raise Refused(f"{tool}: argument {quoted(name)} must have at most {max_items} items, not {len(values)}")
    item_schema = schema.get("items")
    assert isinstance(item_schema, dict)
    return [_check_value(tool, f"{name}[{index}]", value, item_schema) for index, value in enumerate(values)]


def _decode_json(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _expected_text(required: list[str], properties: JsonObject) -> str:
    parts = []
    for name, schema in properties.items():
        kind = schema.get("type", "string") if isinstance(schema, dict) else "string"
        parts.append(f"{name} ({kind}{'' if name in required else ', optional'})")
    return f"(expected: {', '.join(parts)})"


def _type_of(value: Json) -> str:
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return names[type(value)]


def _article(kind: str) -> str:
    """Return a type of JSON Schema with its article, such as `an array`."""
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"
