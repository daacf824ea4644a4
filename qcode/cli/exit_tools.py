"""One-way tools from a file: offered to the model, recorded as signals, never run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from qcode.cli.failure import StartError
from qcode.protocol.tools import ToolSpec

# What every provider takes as the name of a function.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def read_exit_tools(path: Path | None) -> tuple[ToolSpec, ...]:
    """Read a JSON list of `{"name", "description", "parameters"}`; raise `StartError` for what is none."""
    if path is None:
        return ()
    try:
        rows = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise StartError(f"--exit-tools {path}: {error.strerror}", 42) from None
    except (ValueError, RecursionError) as error:
        raise StartError(f"--exit-tools {path} is not JSON: {error}", 42) from None
    if not isinstance(rows, list):
        raise StartError(f"--exit-tools {path} must hold a JSON list", 42)
    specs = tuple(_spec(row, path) for row in rows)
    _check_names([spec.name for spec in specs], path)
    return specs


def _spec(row: object, path: Path) -> ToolSpec:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise StartError(f'--exit-tools {path}: every tool needs a "name"', 42)
    name = row["name"]
    if not _NAME.fullmatch(name):
        raise StartError(f'--exit-tools {path}: "{name}" is no name: letters, digits, _ and -, at most 64', 42)
    description, parameters = row.get("description", ""), row.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(description, str):
        raise StartError(f'--exit-tools {path}: the "description" of "{name}" is no text', 42)
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise StartError(f'--exit-tools {path}: the "parameters" of "{name}" are no JSON Schema of an object', 42)
    return ToolSpec(name, description, {"type": "object", "properties": {}, **parameters}, is_one_way=True)


def _check_names(names: list[str], path: Path) -> None:
    from qcode.tools.registry import BUILTIN

    taken = {tool.spec.name for tool in BUILTIN}
    for name in names:
        if name in taken:
            raise StartError(f'--exit-tools {path}: "{name}" is used already, here or by a tool of qcode', 42)
        taken.add(name)
