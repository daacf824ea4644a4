"""Tool names and inputs, translated between the formats of Claude Code and qcode. Pure.

`to_claude` translates a call of qcode, `from_claude` a call that a hook or a host has sent back. The result of
`from_claude` is not validated: check it against the schema of its tool and judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

APPLY_PATCH = "apply_patch"
MCP_PREFIX = "mcp__"
_MAX_HEADER_CHARS = 12


@dataclass(frozen=True, slots=True)
class ClaudeCall:
    """A call in Claude Code's format."""

    name: str
    input: JsonObject
    is_patch_part: bool = False
    """The call stands for one file of a patch, so its input cannot replace the input of the whole patch."""


class UntranslatableError(ValueError):
    """A call in Claude Code's format has no equivalent here. The text is one line."""


@dataclass(frozen=True, slots=True)
class _ToolMapping:
    """Claude Code's name of a tool, and the differences between the two formats of its input."""

    name: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Claude Code's names of fields by qcode's names, if they differ."""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By Claude Code's name of a field: Claude Code's values by qcode's values, if they differ."""
    paths: tuple[str, ...] = ()
    """Claude Code's names of fields that contain absolute paths."""
    encode: Callable[[JsonObject], JsonObject] | None = None
    """Converts an input to Claude Code's format after its fields are renamed."""
    decode: Callable[[JsonObject], JsonObject] | None = None
    """Converts an input from Claude Code's format before its fields are renamed."""


def _encode_timeout(values: JsonObject) -> JsonObject:
    return _scale_number(values, "timeout", 1000)


def _decode_timeout(values: JsonObject) -> JsonObject:
    return _scale_number(values, "timeout", 1 / 1000)


def _scale_number(values: JsonObject, name: str, factor: float) -> JsonObject:
    number = values.get(name)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return values
    try:
        scaled = float(number) * factor
    except OverflowError:  # an integer with hundreds of digits; the check of the arguments refuses it
        return values
    return {**values, name: int(scaled) if scaled.is_integer() else scaled}


def _rename_item_fields(values: JsonObject, name: str, fields: Mapping[str, str]) -> JsonObject:
    """Return `values` with the fields of the objects in the list `name` renamed."""
    items = values.get(name)
    if not isinstance(items, list):
        return values
    return {**values, name: [_rename_fields(item, fields) if isinstance(item, dict) else item for item in items]}


def _rename_fields(values: JsonObject, fields: Mapping[str, str]) -> JsonObject:
    return {fields.get(name, name): value for name, value in values.items()}


def _encode_edits(values: JsonObject) -> JsonObject:
    return _rename_item_fields(values, "edits", _EDIT_FIELDS)


def _decode_edits(values: JsonObject) -> JsonObject:
    return _rename_item_fields(values, "edits", _inverted(_EDIT_FIELDS))


def _encode_todos(values: JsonObject) -> JsonObject:
    return _translate_item_values(_rename_item_fields(values, "todos", _TODO_FIELDS), "todos", "status", _TODO_STATES)


def _decode_todos(values: JsonObject) -> JsonObject:
    """Translate the items, without `activeForm`: the text that Claude Code shows while it works on an item."""
    values = _translate_item_values(values, "todos", "status", _inverted(_TODO_STATES))
    items = values.get("todos")
    if isinstance(items, list):
        todos = [
            {name: value for name, value in item.items() if name != "activeForm"} if isinstance(item, dict) else item
            for item in items
        ]
        values = {**values, "todos": todos}
    return _rename_item_fields(values, "todos", _inverted(_TODO_FIELDS))


def _translate_item_values(values: JsonObject, name: str, key: str, translation: Mapping[str, str]) -> JsonObject:
    items = values.get(name)
    if not isinstance(items, list):
        return values
    return {
        **values,
        name: [_translate_value(item, key, translation) if isinstance(item, dict) else item for item in items],
    }


def _translate_value(values: JsonObject, key: str, translation: Mapping[str, str]) -> JsonObject:
    value = values.get(key)
    return {**values, key: translation[value]} if isinstance(value, str) and value in translation else values


def _encode_question(values: JsonObject) -> JsonObject:
    """Return the input of AskUserQuestion: a list with one question."""
    text, choices = values.get("question"), values.get("choices")
    options: list[Json] = [
        {"label": choice.get("label", ""), "description": choice.get("detail", "")}
        for choice in (choices if isinstance(choices, list) else [])
        if isinstance(choice, dict)
    ]
    header = " ".join(text.split())[:_MAX_HEADER_CHARS].rstrip() if isinstance(text, str) else ""
    is_multi_select = values.get("multi_select") is True
    return {"questions": [{"question": text, "header": header, "options": options, "multiSelect": is_multi_select}]}


def _decode_question(values: JsonObject) -> JsonObject:
    questions = values.get("questions")
    if not isinstance(questions, list) or len(questions) != 1 or not isinstance(questions[0], dict):
        raise UntranslatableError("AskUserQuestion: qcode asks one question per call")
    question = questions[0]
    decoded: JsonObject = {"question": question.get("question")}
    options = question.get("options")
    choices: list[Json] = []
    for option in options if isinstance(options, list) else []:
        if not isinstance(option, dict):
            raise UntranslatableError("AskUserQuestion: an option is not an object")
        choice: JsonObject = {"label": option.get("label")}
        if option.get("description"):
            choice["detail"] = option["description"]
        choices.append(choice)
    if choices:
        decoded["choices"] = choices
    if question.get("multiSelect") is True:
        decoded["multi_select"] = True
    return decoded


def _inverted(translation: Mapping[str, str]) -> dict[str, str]:
    return {value: key for key, value in translation.items()}


_FILE_FIELDS = {"path": "file_path"}
_EDIT_FIELDS = {"old_text": "old_string", "new_text": "new_string"}
_TODO_FIELDS = {"task": "content", "state": "status"}
_TODO_STATES = {"done": "completed"}
_MAPPINGS: Mapping[str, _ToolMapping] = {
    "shell": _ToolMapping(
        "Bash",
        {"timeout_s": "timeout", "background": "run_in_background", "unconfined": "dangerouslyDisableSandbox"},
        encode=_encode_timeout,
        decode=_decode_timeout,
    ),
    "read": _ToolMapping("Read", _FILE_FIELDS, paths=("file_path",)),
    "write": _ToolMapping("Write", _FILE_FIELDS, paths=("file_path",)),
    "edit": _ToolMapping("Edit", {**_FILE_FIELDS, **_EDIT_FIELDS}, paths=("file_path",)),
    "multi_edit": _ToolMapping(
        "MultiEdit", _FILE_FIELDS, paths=("file_path",), encode=_encode_edits, decode=_decode_edits
    ),
    "notebook_edit": _ToolMapping(
        "NotebookEdit",
        {"path": "notebook_path", "cell": "cell_id", "source": "new_source", "mode": "edit_mode"},
        paths=("notebook_path",),
    ),
    "ls": _ToolMapping("LS"),
    "glob": _ToolMapping("Glob"),
    "grep": _ToolMapping(
        "Grep", {"output": "output_mode", "ignore_case": "-i"}, {"output_mode": {"files": "files_with_matches"}}
    ),
    "fetch": _ToolMapping("WebFetch"),
    "web_search": _ToolMapping("WebSearch"),
    "todo": _ToolMapping("TodoWrite", {"items": "todos"}, encode=_encode_todos, decode=_decode_todos),
    "agent": _ToolMapping("Agent", {"kind": "subagent_type"}),
    "ask_person": _ToolMapping("AskUserQuestion", encode=_encode_question, decode=_decode_question),
    "exit_plan_mode": _ToolMapping("ExitPlanMode"),
    "skill": _ToolMapping("Skill", {"name": "skill", "arguments": "args"}),
}
_QCODE_NAMES = {mapping.name: name for name, mapping in _MAPPINGS.items()} | {"Task": "agent"}


def claude_name(name: str, server_tools: Mapping[str, str] | None = None) -> str:
    """Return Claude Code's name of a tool, or `name` for a tool that Claude Code does not have.

    `server_tools` maps the names of the tools of servers, as a model calls them, to the names the servers gave them.
    """
    if name in _MAPPINGS:
        return _MAPPINGS[name].name
    server, separator, tool = name.partition("__")
    if not separator or not server or not tool:
        return name
    return f"{MCP_PREFIX}{server}__{(server_tools or {}).get(name, tool)}"


def qcode_name(name: str) -> str:
    """Return qcode's name of a tool of Claude Code, or `name` if qcode does not have it.

    `Task` is the older name of `Agent`.
    """
    if not name.startswith(MCP_PREFIX):
        return _QCODE_NAMES.get(name, name)
    from qcode.agent.mcp.tools import tool_name  # few sessions have servers

    server, separator, tool = name.removeprefix(MCP_PREFIX).partition("__")
    return tool_name(server, tool) if separator and server and tool else name


def claude_names(name: str, server_tools: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the names by which a hook may select a tool: Claude Code's current and older names, and qcode's."""
    older = ("Task",) if name == "agent" else ()
    return tuple(dict.fromkeys((claude_name(name, server_tools), *older, name)))


def to_claude(
    name: str, arguments: JsonObject, folder: str, server_tools: Mapping[str, str] | None = None
) -> tuple[ClaudeCall, ...]:
    """Return a call in Claude Code's format, with absolute paths from `folder`; a patch becomes one call per file."""
    if name == APPLY_PATCH:
        return _patch_calls(arguments, folder)
    return (ClaudeCall(claude_name(name, server_tools), claude_input(name, arguments, folder)),)


def claude_input(name: str, arguments: JsonObject, folder: str) -> JsonObject:
    """Return the arguments of a call as the input of Claude Code's tool.

    Claude Code has no tool for patches, so a patch gets the format that Codex uses.
    """
    if name == APPLY_PATCH:
        return _rename_fields(arguments, {"input": "command"})
    mapping = _MAPPINGS.get(name)
    if mapping is None:
        return dict(arguments)
    values = _rename_fields(arguments, mapping.fields)
    for key, translation in mapping.values.items():
        values = _translate_value(values, key, translation)
    for key in mapping.paths:
        path = values.get(key)
        if isinstance(path, str) and path:
            values = {**values, key: absolute_path(path, folder)}
    return mapping.encode(values) if mapping.encode is not None else values


def from_claude(name: str, values: JsonObject) -> tuple[str, JsonObject]:
    """Return a call in Claude Code's format as the name and arguments of a tool of qcode.

    Raise `UntranslatableError` if qcode has no such call, for example for several questions at once.
    """
    qcode_tool = qcode_name(name)
    if qcode_tool == APPLY_PATCH:
        return qcode_tool, _rename_fields(values, {"command": "input"})
    mapping = _MAPPINGS.get(qcode_tool)
    if mapping is None:
        return qcode_tool, dict(values)
    decoded = mapping.decode(values) if mapping.decode is not None else values
    for key, translation in mapping.values.items():
        decoded = _translate_value(decoded, key, _inverted(translation))
    qcode_fields = _inverted(mapping.fields)
    for field_name, qcode_field in qcode_fields.items():
        if field_name in decoded and qcode_field in decoded:
            raise UntranslatableError(f"{name}: {field_name} and {qcode_field} are the same field; send one of them")
    return qcode_tool, _rename_fields(decoded, qcode_fields)


def absolute_path(path: str, folder: str) -> str:
    """Return the absolute path of a path in a call. `..` remains, because it may follow a symbolic link."""
    expanded = f"{Path.home()}{path[1:]}" if path == "~" or path.startswith("~/") else path
    return str(Path(folder) / expanded)


def _patch_calls(arguments: JsonObject, folder: str) -> tuple[ClaudeCall, ...]:
    """Return a call for each file of a patch: Write for a file that is created or moved there, otherwise Edit."""
    from qcode.text.patch import AddedFile, PatchError, patch_sections  # loads with the first patch

    patch = arguments.get("input")
    try:
        sections = patch_sections(patch if isinstance(patch, str) else "")
    except PatchError:
        return (ClaudeCall(APPLY_PATCH, claude_input(APPLY_PATCH, arguments, folder)),)
    calls: list[ClaudeCall] = []
    for section, text in sections:
        name = "Write" if isinstance(section, AddedFile) else "Edit"
        calls.append(_patched_file(name, section.path, text, folder))
        moved_to = getattr(section, "moved_to", "")
        if moved_to:
            calls.append(_patched_file("Write", moved_to, text, folder))
    return tuple(calls)


def _patched_file(name: str, path: str, text: str, folder: str) -> ClaudeCall:
    return ClaudeCall(name, {"file_path": absolute_path(path, folder), "patch": text}, is_patch_part=True)
