"""Validates messages of the agent against the vendored schema of the protocol."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).parent / "schema" / "schema.json"
LEGACY = frozenset({"session/set_model"})
"""Methods that are answered although the stable schema does not have them."""


@cache
def _definitions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))
    return found


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = _definitions()
    return Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"})


@cache
def _names() -> dict[tuple[str, str, str], str]:
    """Return the definition for a method, the side that answers it, and the kind of message."""
    found = {}
    for name, one in _definitions()["$defs"].items():
        if "x-method" in one:
            kind = next(kind for kind in ("Request", "Response", "Notification") if name.endswith(kind))
            found[one["x-method"], one["x-side"], kind] = name
    return found


def complaints(message: dict[str, Any], answered: str = "") -> list[str]:
    """Return the errors in a message of the agent; `answered` is the method of the request it answers."""
    if message.get("jsonrpc") != "2.0":
        return ["no version of JSON-RPC"]
    if "method" in message:
        kind = "Request" if "id" in message else "Notification"
        return _against(_names()[message["method"], "client", kind], message["params"])
    if "error" in message:
        return _against("Error", message["error"])
    if answered in LEGACY:
        return [] if message["result"] == {} else ["a result"]
    return _against(_names()[answered, "agent", "Response"], message["result"])


def _against(name: str, value: object) -> list[str]:
    return [f"{name}: {error.json_path}: {error.message[:300]}" for error in _validator(name).iter_errors(value)]
