"""Converts type hints to JSON Schema, and JSON values to the types of the hints.

Supported: `str`, `int`, `float`, `bool`, `None`, unions, `Literal`, enums, `list`, `tuple[X, ...]`, `dict[str, X]`,
dataclasses, `TypedDict`, and `Annotated[X, "description"]`. A schema has no references, so every provider accepts it.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

_JSON_TYPES: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_TYPE_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


def schema_of(hint: Any, enclosing: tuple[object, ...] = ()) -> JsonObject:
    """Return the JSON Schema of a type; raise `TypeError` for an unsupported type.

    `enclosing` are the types that contain `hint`; a type among them contains itself, which is not supported.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, *annotations = args
        schema = schema_of(inner, enclosing)
        if description := next((text for text in annotations if isinstance(text, str)), ""):
            schema["description"] = description
        return schema
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    if hint is None:
        return {"type": "null"}
    if origin in (typing.Required, typing.NotRequired):
        return schema_of(args[0], enclosing)
    if origin is Literal:
        return {"enum": _json_values(hint, args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(arg, enclosing) for arg in args]}
    if origin is list or hint is list:
        return {"type": "array", "items": schema_of(args[0], enclosing)} if args else {"type": "array"}
    if origin is tuple and args[1:] == (...,):
        return {"type": "array", "items": schema_of(args[0], enclosing)}
    if origin is dict and args[0] is str:
        return {"type": "object", "additionalProperties": schema_of(args[1], enclosing)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": _json_values(hint, [member.value for member in hint])}
    if hint in enclosing:
        raise TypeError(f"{_name(hint)} contains itself, which is not supported")
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)):
        return _object_schema(hint, (*enclosing, hint))
    raise TypeError(f"the type {_name(hint)} is not supported")


def _json_values(hint: Any, values: Sequence[object]) -> list[Json]:
    """Return the values of an enum or `Literal`; raise `TypeError` for a value that JSON does not have."""
    json_values: list[Json] = [
        value for value in values if isinstance(value, str | int | float | None) and type(value) in _JSON_TYPES
    ]
    if not json_values or len(json_values) < len(values):
        raise TypeError(f"{_name(hint)} has values that are neither strings nor numbers, which is not supported")
    return json_values


def accepts_null(hint: Any) -> bool:
    """Return whether None is a value of the type."""
    try:
        value_of(hint, None)
    except ValueError:
        return False
    return True


def _object_schema(hint: Any, enclosing: tuple[object, ...]) -> JsonObject:
    fields = _fields(hint)
    properties: dict[str, Json] = {name: schema_of(field.hint, enclosing) for name, field in fields.items()}
    required: list[Json] = [name for name, field in fields.items() if field.is_required]
    schema: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    doc = inspect.getdoc(hint) or ""
    # If a dataclass has no docstring, its decorator sets the signature as the docstring.
    if doc and not typing.is_typeddict(hint) and not doc.startswith(f"{hint.__name__}("):
        schema["description"] = doc
    return schema


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a dataclass or a `TypedDict`."""

    hint: Any
    is_required: bool


def _fields(hint: Any) -> dict[str, _Field]:
    """Return the fields of a dataclass or a `TypedDict`, by name."""
    hints = typing.get_type_hints(hint, include_extras=True)
    if typing.is_typeddict(hint):
        # `__required_keys__` ignores `Required` and `NotRequired` in annotations that are strings.
        required = {name for name in hint.__required_keys__ if get_origin(hints[name]) is not typing.NotRequired}
        required |= {name for name, item in hints.items() if get_origin(item) is typing.Required}
        return {name: _Field(item, name in required) for name, item in hints.items()}
    fields: dict[str, _Field] = {}
    for field in dataclasses.fields(hint):
        if field.init:
            has_default = field.default is not dataclasses.MISSING
            has_factory = field.default_factory is not dataclasses.MISSING
            fields[field.name] = _Field(hints[field.name], is_required=not (has_default or has_factory))
    return fields


def value_of(hint: Any, value: Json, path: str = "") -> Any:
    """Convert a JSON value to the type; raise `ValueError` with one line if it does not fit.

    `path` is the path of the value, such as `items[0].name`, for the error.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Annotated, typing.Required, typing.NotRequired):
        return value_of(args[0], value, path)
    if hint in _JSON_TYPES or hint is None:
        return _scalar(type(None) if hint is None else hint, value, path)
    if origin is Literal:
        return _choice(args, value, path)
    if origin in (Union, types.UnionType):
        return _union_value(args, value, path)
    if origin is list or hint is list:
        items = _require_type(list, value, path)
        return [value_of(args[0], item, f"{path}[{index}]") for index, item in enumerate(items)] if args else items
    if origin is tuple:
        items = _require_type(list, value, path)
        return tuple(value_of(args[0], item, f"{path}[{index}]") for index, item in enumerate(items))
    if origin is dict:
        members = _require_type(dict, value, path)
        return {name: value_of(args[1], item, _member_path(path, name)) for name, item in members.items()}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(_choice([member.value for member in hint], value, path))
    return _object(hint, _require_type(dict, value, path), path)


def _object(hint: Any, value: JsonObject, path: str) -> Any:
    """Convert a JSON object to a dataclass or `TypedDict`; raise `ValueError` for an unknown or missing field."""
    fields = _fields(hint)
    unknown = next((name for name in value if name not in fields), None)
    if unknown is not None:
        raise ValueError(
            f"{_member_path(path, unknown)} is not a field of {_name(hint)}; its fields are {', '.join(fields)}"
        )
    missing = next((name for name, field in fields.items() if field.is_required and name not in value), None)
    if missing is not None:
        raise ValueError(f"{_member_path(path, missing)} is missing")
    values = {name: value_of(fields[name].hint, item, _member_path(path, name)) for name, item in value.items()}
    return values if typing.is_typeddict(hint) else hint(**values)


def _scalar(hint: type, value: Json, path: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return _require_type(hint, value, path)


def _require_type(hint: type, value: Json, path: str) -> Any:
    # In Python a bool is an int, in JSON it is not.
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{path or 'the value'} must be {_TYPE_NAMES[hint]}, not {_TYPE_NAMES[type(value)]}")
    return value


def _choice(choices: Any, value: Json, path: str) -> Any:
    for choice in choices:
        # In Python 1 == True and 1 == 1.0.
        if choice == value and type(choice) is type(value):
            return choice
    raise ValueError(f"{path or 'the value'} must be one of {', '.join(map(repr, choices))}")


def _union_value(members: tuple[Any, ...], value: Json, path: str) -> Any:
    """Convert the value to the first member of the union that it fits; raise `ValueError` if it fits none."""
    problems: list[str] = []
    for member in members:
        try:
            return value_of(member, value, path)
        except ValueError as problem:
            problems.append(str(problem))
    raise ValueError("; or ".join(problems))


def _member_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)
