"""A tool call in one line: the argument that tells a person what it does. Pure."""

from __future__ import annotations

from qcode.protocol.json import Json, parse_object
from qcode.protocol.messages import ToolCall
from qcode.tui.text import one_line

EXIT_PLAN_MODE = "exit_plan_mode"
_TELLING = ("command", "path", "file_path", "pattern", "query", "url", "name")


def plan_of(call: ToolCall) -> str:
    """Return the plan that a call hands in, as Markdown; empty for every other call."""
    return _as_text((parse_object(call.arguments) or {}).get("plan")) if call.name == EXIT_PLAN_MODE else ""


def main_argument(call: ToolCall) -> str:
    """Return the argument that matters, cleaned and on one line; empty where the call has none."""
    plan = plan_of(call).strip()
    if plan:
        return one_line(plan.partition("\n")[0].lstrip("# "))
    arguments = parse_object(call.arguments) or {}
    for key in _TELLING:
        text = _as_text(arguments.get(key))
        if text:
            return one_line(text)
    return next((one_line(text) for text in map(_as_text, arguments.values()) if text), "")


def _as_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return " ".join(str(item) for item in value)
    return ""
