"""Titles of tool calls for display: a verb such as `Edit`, and the main argument.

The app, editors and exports of a session use the same titles. Loads with the first paint of the app.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from qcode.protocol.events import DECLINED, CallState
from qcode.protocol.messages import PLACEHOLDER_KEY, ToolCall
from qcode.protocol.tools import SandboxUse
from qcode.text.clean import one_line, shown_line, title_line
from qcode.text.json import Json, JsonObject, parse_object
from qcode.text.pattern import lazy_pattern
from qcode.tools.dialog import plan_of

VERBS: Mapping[str, str] = {
    "shell": "Run",
    "edit": "Edit",
    "multi_edit": "Edit",
    "apply_patch": "Edit",
    "notebook_edit": "Edit",
    "write": "Write",
    "read": "Read",
    "grep": "Search",
    "glob": "Find",
    "ls": "List",
    "fetch": "Fetch",
    "web_search": "Web",
    "ask_person": "Ask",
    "exit_plan_mode": "Plan",
    "agent": "Task",
    "todo": "Todo",
    "jobs": "Jobs",
    "diagnostics": "Check",
}
"""The display names of tools. A tool without an entry, such as the tool of a server, is shown by its name."""
DEFAULT_ARGUMENTS: Mapping[str, str] = {"ls": "."}
"""The main argument of a tool if a call names no path."""
_NOUNS: Mapping[str, str] = {
    "shell": "a command",
    "edit": "an edit",
    "multi_edit": "an edit",
    "apply_patch": "an edit",
    "notebook_edit": "an edit",
    "write": "a file",
    "agent": "a task",
    "todo": "the to-do list",
    "exit_plan_mode": "a plan",
    "ask_person": "a question",
}
INCOMPLETE = "incomplete arguments"
"""The main argument of a call whose arguments are truncated or malformed, unless they begin with a path."""
_MARKUP = lazy_pattern(r"`+|\*\*")
"""Markdown in the heading of a plan that a title leaves out."""
_MAX_NAME_CHARS = 80
_MAX_NOUN_CHARS = 40
_MAIN_ARGUMENTS = ("command", "path", "file_path", "pattern", "query", "url", "name", "description")
_SEARCH_ARGUMENTS = ("pattern", "path", "glob")
"""The arguments of `grep` and `glob` that a title shows together."""


def verb(name: str) -> str:
    """Return the display name of a tool, on one line."""
    return VERBS.get(name) or shown_line(name, _MAX_NAME_CHARS) or "tool"


def sandbox_note(sandbox: SandboxUse, *, has_failed: bool) -> str:
    """Return where a command ran, if that is not obvious: outside the sandbox, or inside with the right to write.

    A command that only reads always runs in the sandbox if there is one. The note names the sandbox only if the
    command failed, because the sandbox may be the cause.
    """
    if sandbox in ("outside", "protect"):  # `protect`, of bypass mode, permits everything but a few writes
        return "outside the sandbox"
    return "in the sandbox" if sandbox == "workspace" or (sandbox == "read-only" and has_failed) else ""


ShownState: TypeAlias = Literal[CallState, "declined", "unanswered"]
"""The displayed state of a call. A denial by the user is `declined`, or `unanswered` if the call is a question."""
STATE_TEXTS: Mapping[str, str] = {
    "done": "done",
    "failed": "failed",
    "denied": "denied",
    "declined": "declined",
    "unanswered": "not answered",
    "rejected": "not run",
    "cancelled": "cancelled",
}
"""The words for the states of a call."""


def shown_state(name: str, state: CallState, summary: str) -> ShownState:
    """Return the state to show for a call of the tool `name` with this state and summary."""
    if state != "denied" or summary != DECLINED:
        return state
    return "unanswered" if name == "ask_person" else "declined"


def state_text(name: str, state: CallState, summary: str) -> str:
    """Return the state of a call in words, such as `not answered`."""
    return STATE_TEXTS[shown_state(name, state, summary)]


def call_in_words(name: str) -> str:
    """Return a noun for a call of a tool, such as `a command` in the activity line `running a command`."""
    return _NOUNS.get(name) or one_line(name, _MAX_NOUN_CHARS)


def main_argument(call: ToolCall, limit: int = 400) -> str:
    """Return the main argument of a call on one line of at most `limit` characters; empty if there is no such argument.

    Invisible characters are escaped, except those of emoji.
    """
    plan = plan_of(call).strip()
    if plan:
        return title_line(_MARKUP.sub("", plan.partition("\n")[0].lstrip("# ")), limit)
    arguments = parse_object(call.arguments) or {}
    if PLACEHOLDER_KEY in arguments:
        return title_line(_argument_text(arguments.get("path")) or INCOMPLETE, limit)
    if call.name == "todo":
        return title_line(_current_task(arguments), limit)
    if call.name in ("grep", "glob"):
        return title_line(_search_text(arguments), limit)
    if call.name in DEFAULT_ARGUMENTS and not arguments.get("path"):
        return DEFAULT_ARGUMENTS[call.name]
    for key in _MAIN_ARGUMENTS:
        text = _argument_text(arguments.get(key))
        if text:
            return title_line(text, limit)
    return next((title_line(text, limit) for text in map(_argument_text, arguments.values()) if text), "")


def is_in_title(call_name: str, argument: str, value: Json, title: str) -> bool:
    """Return whether `title`, a main argument, already shows the `value` of `argument` in full."""
    if value == title:
        return True
    is_search = call_name in ("grep", "glob") and argument in _SEARCH_ARGUMENTS
    return is_search and isinstance(value, str) and value in title


def _search_text(arguments: JsonObject) -> str:
    """Return the pattern, folder and files of a search, such as `TODO in src (*.py)`."""
    pattern, path, glob = (_argument_text(arguments.get(name)) for name in _SEARCH_ARGUMENTS)
    text = f"{pattern} in {path}" if path and path != "." else pattern
    return f"{text} ({glob})" if glob else text


def _current_task(arguments: JsonObject) -> str:
    """Return the task in progress of a to-do list, empty if no task is in progress."""
    items = arguments.get("items")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("state") == "in_progress":
            return _argument_text(item.get("task"))
    return ""


def _argument_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return " ".join(str(item) for item in value)
    return ""
