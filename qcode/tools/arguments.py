"""Checks the arguments of a call against the parameters of its tool, and says what is wrong in words a model can use.

It reads the part of JSON Schema that tool parameters use: an object of strings, integers, numbers, booleans and
arrays, with `required`, `enum`, `minimum` and `maximum`. A null for an optional argument counts as left out.
"""

from __future__ import annotations

from difflib import get_close_matches

from qcode.protocol.json import Json, JsonObject
from qcode.protocol.tools import ToolSpec
from qcode.tools.refusal import Refused

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class Arguments:
    """Checked arguments. A getter for a name that the parameters do not have is a mistake of the tool."""

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

    def has(self, name: str) -> bool:
        return name in self._values


def check(spec: ToolSpec, arguments: JsonObject) -> Arguments:
    """Return the arguments if they fit the parameters of `spec`; raise `Refused` naming the first that does not."""
    properties = spec.parameters.get("properties")
    assert isinstance(properties, dict)
    values: JsonObject = {}
    for name, value in arguments.items():
        schema = properties.get(name)
        if not isinstance(schema, dict):
            near = get_close_matches(name, properties, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Refused(f"{spec.name}: unknown argument {name!r}{hint} {_expected(spec, properties)}")
        if value is None and name not in spec.required:
            continue
        values[name] = _checked(spec, name, value, schema)
    missing = [name for name in spec.required if name not in values]
    if missing:
        raise Refused(f"{spec.name}: missing argument {missing[0]!r} {_expected(spec, properties)}")
    return Arguments(values)


def _checked(spec: ToolSpec, name: str, value: Json, schema: JsonObject) -> Json:
    kind = str(schema.get("type", "string"))
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    is_right = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not is_right:
        raise Refused(f"{spec.name}: argument {name!r} must be {_article(kind)}, not {_type_of(value)}")
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise Refused(f"{spec.name}: argument {name!r} must be one of {known}, not {value!r}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, (int, float)) and value < low:
            raise Refused(f"{spec.name}: argument {name!r} must be at least {low}, not {value}")
        if isinstance(high, (int, float)) and value > high:
            raise Refused(f"{spec.name}: argument {name!r} must be at most {high}, not {value}")
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise Refused(f"{spec.name}: argument {name!r} holds half of a character (a lone surrogate); send it again")
    return value


def _expected(spec: ToolSpec, properties: JsonObject) -> str:
    parts = []
    for name, schema in properties.items():
        kind = schema.get("type", "string") if isinstance(schema, dict) else "string"
        parts.append(f"{name} ({kind}{'' if name in spec.required else ', optional'})")
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
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"
