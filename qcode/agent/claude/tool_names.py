"""Tool names and inputs in Claude Code's form and in qcode's, translated both ways. Pure.

`to_claude` translates a call of qcode, `from_claude` one that a hook or a host has sent back. The result of
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
_MAX_HEADER = 12


@dataclass(frozen=True, slots=True)
class ClaudeCall:
    """A call in Claude's form.

    `is_part`: it is one file of a patch, so its input does not replace the input of the call.
    """

    name: str
    input: JsonObject
    is_part: bool = False


class UntranslatableError(ValueError):
    """A call in Claude's form has no equivalent here. The text is one line."""


@dataclass(frozen=True, slots=True)
class _Form:
    """The form of one tool: its name, its fields under Claude's names, and the values that are written differently.

    `inward` and `outward` convert an input after, or before, its fields are renamed.
    """

    name: str
    fields: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    outward: Callable[[JsonObject], JsonObject] | None = None
    inward: Callable[[JsonObject], JsonObject] | None = None


def _timeout_outward(values: JsonObject) -> JsonObject:
    return _scaled(values, "timeout", 1000)


def _timeout_inward(values: JsonObject) -> JsonObject:
    return _scaled(values, "timeout", 1 / 1000)


def _scaled(values: JsonObject, name: str, factor: float) -> JsonObject:
    number = values.get(name)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return values
    scaled = number * factor
    return {**values, name: int(scaled) if scaled == int(scaled) else scaled}


def _renamed_items(values: JsonObject, name: str, fields: Mapping[str, str]) -> JsonObject:
    """Return `values` with the fields of the objects in the list `name` renamed."""
    items = values.get(name)
    if not isinstance(items, list):
        return values
    return {**values, name: [_renamed(item, fields) if isinstance(item, dict) else item for item in items]}


def _renamed(values: JsonObject, fields: Mapping[str, str]) -> JsonObject:
    return {fields.get(name, name): value for name, value in values.items()}


def _edits_outward(values: JsonObject) -> JsonObject:
    return _renamed_items(values, "edits", _PASSAGE)


def _edits_inward(values: JsonObject) -> JsonObject:
    return _renamed_items(values, "edits", _reversed(_PASSAGE))


def _todos_outward(values: JsonObject) -> JsonObject:
    return _with_item_values(_renamed_items(values, "todos", _TODO), "todos", "status", _STATES)


def _todos_inward(values: JsonObject) -> JsonObject:
    """Translate the items; `activeForm`, the wording that Claude Code shows while an item is worked on, is left out."""
    values = _with_item_values(values, "todos", "status", _reversed(_STATES))
    items = values.get("todos")
    if isinstance(items, list):
        todos = [
            {name: value for name, value in item.items() if name != "activeForm"} if isinstance(item, dict) else item
            for item in items
        ]
        values = {**values, "todos": todos}
    return _renamed_items(values, "todos", _reversed(_TODO))


def _with_item_values(values: JsonObject, name: str, key: str, words: Mapping[str, str]) -> JsonObject:
    items = values.get(name)
    if not isinstance(items, list):
        return values
    return {**values, name: [_with_words(item, key, words) if isinstance(item, dict) else item for item in items]}


def _with_words(values: JsonObject, key: str, words: Mapping[str, str]) -> JsonObject:
    value = values.get(key)
    return {**values, key: words[value]} if isinstance(value, str) and value in words else values


def _question_outward(values: JsonObject) -> JsonObject:
    """Return the list of one question that AskUserQuestion takes."""
    text, choices = values.get("question"), values.get("choices")
    options: list[Json] = [
        {"label": choice.get("label", ""), "description": choice.get("detail", "")}
        for choice in (choices if isinstance(choices, list) else [])
        if isinstance(choice, dict)
    ]
    header = " ".join(text.split())[:_MAX_HEADER].rstrip() if isinstance(text, str) else ""
    return {"questions": [{"question": text, "header": header, "options": options, "multiSelect": False}]}


def _question_inward(values: JsonObject) -> JsonObject:
    questions = values.get("questions")
    if not isinstance(questions, list) or len(questions) != 1 or not isinstance(questions[0], dict):
        raise UntranslatableError("AskUserQuestion: qcode asks one question per call")
    question = questions[0]
    if question.get("multiSelect") is True:
        raise UntranslatableError("AskUserQuestion: several answers to one question are not supported")
    asked: JsonObject = {"question": question.get("question")}
    options = question.get("options")
    choices: list[Json] = []
    for option in options if isinstance(options, list) else []:
        if not isinstance(option, dict):
            raise UntranslatableError("AskUserQuestion: an option is not an object")
        choice: JsonObject = {"label": option.get("label")}
        if option.get("description"):
            choice["detail"] = option["description"]
        choices.append(choice)
    return {**asked, "choices": choices} if choices else asked


def _reversed(words: Mapping[str, str]) -> dict[str, str]:
    return {theirs: ours for ours, theirs in words.items()}


_FILE = {"path": "file_path"}
_PASSAGE = {"old_text": "old_string", "new_text": "new_string"}
_TODO = {"task": "content", "state": "status"}
_STATES = {"done": "completed"}
_FORMS: Mapping[str, _Form] = {
    "shell": _Form(
        "Bash",
        {"timeout_s": "timeout", "background": "run_in_background", "unconfined": "dangerouslyDisableSandbox"},
        outward=_timeout_outward,
        inward=_timeout_inward,
    ),
    "read": _Form("Read", _FILE, paths=("file_path",)),
    "write": _Form("Write", _FILE, paths=("file_path",)),
    "edit": _Form("Edit", {**_FILE, **_PASSAGE}, paths=("file_path",)),
    "multi_edit": _Form("MultiEdit", _FILE, paths=("file_path",), outward=_edits_outward, inward=_edits_inward),
    "notebook_edit": _Form(
        "NotebookEdit",
        {"path": "notebook_path", "cell": "cell_id", "source": "new_source", "mode": "edit_mode"},
        paths=("notebook_path",),
    ),
    "ls": _Form("LS"),
    "glob": _Form("Glob"),
    "grep": _Form(
        "Grep", {"output": "output_mode", "ignore_case": "-i"}, {"output_mode": {"files": "files_with_matches"}}
    ),
    "fetch": _Form("WebFetch"),
    "web_search": _Form("WebSearch"),
    "todo": _Form("TodoWrite", {"items": "todos"}, outward=_todos_outward, inward=_todos_inward),
    "agent": _Form("Agent", {"kind": "subagent_type"}),
    "ask_person": _Form("AskUserQuestion", outward=_question_outward, inward=_question_inward),
    "exit_plan_mode": _Form("ExitPlanMode"),
    "skill": _Form("Skill", {"name": "skill", "arguments": "args"}),
}
_OURS = {form.name: name for name, form in _FORMS.items()} | {"Task": "agent"}


def claude_name(name: str, server_tools: Mapping[str, str] | None = None) -> str:
    """Return Claude's name of a tool; a tool without one keeps its own.

    `server_tools` maps the names of the tools of servers, as a model calls them, to the names the servers gave them.
    """
    if name in _FORMS:
        return _FORMS[name].name
    server, separator, tool = name.partition("__")
    if not separator or not server or not tool:
        return name
    return f"{MCP_PREFIX}{server}__{(server_tools or {}).get(name, tool)}"


def qcode_name(name: str) -> str:
    """Return the name of a tool in qcode for one of Claude's; `Task`, the old name of `Agent`, is understood."""
    if not name.startswith(MCP_PREFIX):
        return _OURS.get(name, name)
    from qcode.agent.mcp.tools import tool_name  # few sessions have servers

    server, separator, tool = name.removeprefix(MCP_PREFIX).partition("__")
    return tool_name(server, tool) if separator and server and tool else name


def claude_names(name: str, server_tools: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return every name of a tool that a matcher may use: Claude's, its older ones, and qcode's."""
    older = ("Task",) if name == "agent" else ()
    return tuple(dict.fromkeys((claude_name(name, server_tools), *older, name)))


def to_claude(
    name: str, arguments: JsonObject, folder: str, server_tools: Mapping[str, str] | None = None
) -> tuple[ClaudeCall, ...]:
    """Return a call in Claude's form, with paths made absolute from `folder`; a patch becomes one call per file."""
    if name == APPLY_PATCH:
        return _patch_calls(arguments, folder)
    return (ClaudeCall(claude_name(name, server_tools), claude_input(name, arguments, folder)),)


def claude_input(name: str, arguments: JsonObject, folder: str) -> JsonObject:
    """Return the arguments of a call as the input of Claude's tool; those of a patch as Codex names them."""
    if name == APPLY_PATCH:
        return _renamed(arguments, {"input": "command"})
    form = _FORMS.get(name)
    if form is None:
        return dict(arguments)
    values = _renamed(arguments, form.fields)
    for key, words in form.values.items():
        values = _with_words(values, key, words)
    for key in form.paths:
        path = values.get(key)
        if isinstance(path, str) and path:
            values = {**values, key: absolute_path(path, folder)}
    return form.outward(values) if form.outward is not None else values


def from_claude(name: str, values: JsonObject) -> tuple[str, JsonObject]:
    """Return a call in Claude's form as the name and arguments of a tool of qcode.

    Raise `UntranslatableError` if there is no such call, such as for several questions at once.
    """
    ours = qcode_name(name)
    if ours == APPLY_PATCH:
        return ours, _renamed(values, {"command": "input"})
    form = _FORMS.get(ours)
    if form is None:
        return ours, dict(values)
    theirs = form.inward(values) if form.inward is not None else values
    for key, words in form.values.items():
        theirs = _with_words(theirs, key, _reversed(words))
    back = _reversed(form.fields)
    doubled = [key for key, own in back.items() if key in theirs and own in theirs]
    if doubled:
        raise UntranslatableError(f"{name}: {doubled[0]} and {back[doubled[0]]} are the same field; send one of them")
    return ours, _renamed(theirs, back)


def absolute_path(path: str, folder: str) -> str:
    """Return a path of a call as an absolute one. `..` stays: it may follow a link, so only the disk resolves it."""
    expanded = f"{Path.home()}{path[1:]}" if path == "~" or path.startswith("~/") else path
    return str(Path(folder) / expanded)


def _patch_calls(arguments: JsonObject, folder: str) -> tuple[ClaudeCall, ...]:
    """Return one call per file that a patch names: Write if it creates the file or moves it there, Edit otherwise."""
    from qcode.text.diff import AddedFile, PatchError, patch_sections  # loads with the first patch

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
    return ClaudeCall(name, {"file_path": absolute_path(path, folder), "patch": text}, is_part=True)
