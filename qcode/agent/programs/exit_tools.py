"""The one-way tools of `--exit-tools`: they are offered to the model, and their calls are recorded and never run.

Separate from `options` because few runs have such tools.
"""

from __future__ import annotations

import json
from pathlib import Path

from qcode.protocol.errors import InputError
from qcode.protocol.tools import ToolSpec
from qcode.text.pattern import lazy_pattern
from qcode.tools.registry import all_names

# The function names that every provider accepts.
_TOOL_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def read_exit_tools(path: Path) -> tuple[ToolSpec, ...]:
    """Read a JSON list of `{"name", "description", "parameters"}`; raise `QcodeError` for anything else."""
    try:
        rows = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read --exit-tools {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"--exit-tools {path} is not JSON: {error}") from None
    if not isinstance(rows, list):
        raise InputError(f"--exit-tools {path} must hold a JSON list")
    specs = tuple(_exit_tool(row, path) for row in rows)
    _check_unused_names([spec.name for spec in specs], path)
    return specs


def _exit_tool(row: object, path: Path) -> ToolSpec:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise InputError(f'--exit-tools {path}: every tool needs a "name"')
    name = row["name"]
    if not _TOOL_NAME.fullmatch(name):
        raise InputError(f'--exit-tools {path}: "{name}" is not a valid name: use letters, digits, _ and -, at most 64')
    description = row.get("description", "")
    if not isinstance(description, str):
        raise InputError(f'--exit-tools {path}: tool "{name}": "description" must be a string')
    parameters = row.get("parameters", {})
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise InputError(f'--exit-tools {path}: tool "{name}": "parameters" must be a JSON Schema object')
    return ToolSpec(name, description, {"type": "object", "properties": {}, **parameters}, is_one_way=True)


def _check_unused_names(names: list[str], path: Path) -> None:
    used_names = set(all_names())
    for name in names:
        if name in used_names:
            raise InputError(f'--exit-tools {path}: the name "{name}" is already used, here or by a built-in tool')
        used_names.add(name)
