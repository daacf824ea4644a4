"""The JSON Schema of `config.toml`, with which an editor completes and checks the file.

Generated from the list of keys. The schema accepts every file that qcode accepts, and rejects unknown keys. Separate
from the module `schema`, because only `qcode config schema` and the reference pages need it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qcode.config.schema import KEYS, Key

_DIALECT = "http://json-schema.org/draft-07/schema#"


def config_schema() -> dict[str, Any]:
    """Return the schema, with the keys in the order of the reference page."""
    schema: dict[str, Any] = {"$schema": _DIALECT, "title": "config.toml of qcode", **_table()}
    for key in KEYS:
        table = schema
        for part in key.path[:-1]:
            table = _subtable(table, part)
        _put_property(table, key.path[-1], _value_schema(key))
        # A provider accepts the keys of `[network]` directly, and also in a table `network`.
        match key.path:
            case ("providers", "*", name) if ("network", name) in _PATHS:
                _put_property(_subtable(table, "network"), name, _value_schema(key))
    return schema


_PATHS = {key.path for key in KEYS}


def _table() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _subtable(table: dict[str, Any], part: str) -> dict[str, Any]:
    """Return the table below `part`, created if it does not exist; `*` is any name."""
    parent, name = (table, "additionalProperties") if part == "*" else (table["properties"], part)
    if not parent.get(name):
        parent[name] = _table()
    subtable: dict[str, Any] = parent[name]
    return subtable


def _put_property(table: dict[str, Any], part: str, value: Mapping[str, Any]) -> None:
    if part == "*":
        table["additionalProperties"] = value
    else:
        table["properties"][part] = value


def _value_schema(key: Key) -> dict[str, Any]:
    schema: dict[str, Any] = {**key.kind.schema, "description": key.meta.meaning}
    if key.choices:
        # Without the choices of the kind that this key does not allow in a file, such as the mode `bypass`.
        not_allowed = set(key.kind.choices) - set(key.choices)
        schema["enum"] = [choice for choice in schema["enum"] if choice not in not_allowed]
    if key.default not in (None, ()):
        schema["default"] = key.default
    return schema


def schema_text() -> str:
    """Return the schema as JSON."""
    return json.dumps(config_schema(), indent=1, ensure_ascii=False) + "\n"
