"""qcode's permission check as a hook of other programs: their events, their answers and their settings.

`_FORMATS` follows their documentation and sources. An event of another kind gets an empty answer, so the program
decides. An event that cannot be read raises `UnreadableEventError`, so its call is never allowed. Separate, because
only `qcode permissions hook` needs it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from qcode.agent.permissions import CheckedKind, verdict_on
from qcode.protocol.tools import ToolSpec
from qcode.safety.policy import Policy
from qcode.safety.verdict import Verdict
from qcode.text.clean import visible_line
from qcode.text.json import DuplicateKeyError, Json, JsonObject, parse_arguments
from qcode.text.patch import PatchError, patch_paths
from qcode.values import dataclass

HookProgram: TypeAlias = Literal["claude", "codex", "gemini", "qwen"]
_Action: TypeAlias = Literal["shell", "read", "write", "search", "fetch", "patch", "read-many"]
EventDecision: TypeAlias = Literal["", "allow", "ask", "deny"]
"""Empty: the program decides by its own rules and modes."""
_ORDER: tuple[EventDecision, ...] = ("allow", "", "ask", "deny")
"""From the least to the most strict: of several decisions on one call, the strictest is the answer."""

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""The maximum size of an event in bytes."""
TIMEOUT_S = 30
"""The time limit that the other program gets for this hook."""
_SEARCHES: Mapping[str, _Action] = dict.fromkeys(
    ("list_directory", "glob", "grep_search", "search_file_content"), "search"
)


@dataclass(frozen=True, slots=True)
class _HookFormat:
    """The format of hooks of one program."""

    event: str
    """The event before a call."""
    tools: Mapping[str, _Action]
    """The tools whose calls are judged."""
    settings: str
    """The settings file, for display."""
    matcher: str
    """The matcher that selects `tools`."""
    is_in_milliseconds: bool = False
    """A timeout is in milliseconds instead of seconds."""


_CLAUDE_TOOLS: Mapping[str, _Action] = {
    "Bash": "shell", "Read": "read", "Write": "write", "Edit": "write", "MultiEdit": "write", "NotebookEdit": "write",
    "LS": "search", "Glob": "search", "Grep": "search", "WebFetch": "fetch",
}  # fmt: skip
_CODEX_TOOLS: Mapping[str, _Action] = {"Bash": "shell", "apply_patch": "patch"}
_GEMINI_TOOLS: Mapping[str, _Action] = {
    "run_shell_command": "shell", "read_file": "read", "read_many_files": "read-many", "write_file": "write",
    "replace": "write", **_SEARCHES,
}  # fmt: skip
_QWEN_TOOLS: Mapping[str, _Action] = {
    "run_shell_command": "shell", "read_file": "read", "write_file": "write", "edit": "write", "web_fetch": "fetch",
    **_SEARCHES,
}  # fmt: skip
# Claude Code: https://code.claude.com/docs/en/hooks (`permissionDecision` allow, deny, ask; timeout in seconds). Codex:
# https://developers.openai.com/codex/hooks and codex-rs/hooks/src/engine/output_parser.rs. Codex accepts a denial with
# a reason; otherwise it reports "PreToolUse hook returned unsupported permissionDecision:allow" and continues. Its
# `cwd` is the folder of the turn (core/src/hook_runtime.rs), not of the command. Gemini CLI: docs/hooks/reference.md of
# google-gemini/gemini-cli (`decision` deny with `reason`, only JSON on stdout, timeout in milliseconds), `ask` with
# `systemMessage` since pull request 21146. After `allow`, Gemini CLI still asks its question. qwen-code:
# docs/users/features/hooks.md of QwenLM/qwen-code (answers as for Claude Code, timeout in milliseconds).
_FORMATS: Mapping[HookProgram, _HookFormat] = {
    "claude": _HookFormat("PreToolUse", _CLAUDE_TOOLS, "~/.claude/settings.json", "|".join(_CLAUDE_TOOLS)),
    "codex": _HookFormat("PreToolUse", _CODEX_TOOLS, "~/.codex/hooks.json", f"^({'|'.join(_CODEX_TOOLS)})$"),
    "gemini": _HookFormat(
        "BeforeTool",
        _GEMINI_TOOLS,
        "~/.gemini/settings.json",
        f"^({'|'.join(_GEMINI_TOOLS)})$",
        is_in_milliseconds=True,
    ),
    "qwen": _HookFormat(
        "PreToolUse", _QWEN_TOOLS, "~/.qwen/settings.json", f"^({'|'.join(_QWEN_TOOLS)})$", is_in_milliseconds=True
    ),
}

_BYPASS_MODES = frozenset({"bypassPermissions", "yolo"})
_PATH_FIELDS = ("file_path", "absolute_path", "notebook_path", "path", "dir_path")
_PATTERN_FIELDS = ("include", "paths")
_FOLDER_FIELDS = ("directory", "dir_path")
_HARMLESS_FIELDS = frozenset(
    {"command", "description", "timeout", "run_in_background", "is_background", *_FOLDER_FIELDS}
)
"""The fields of a shell call that cannot widen what its command does."""


class UnreadableEventError(ValueError):
    """An event cannot be read, so its call is not allowed. The text is one line."""


@dataclass(frozen=True, slots=True)
class JudgedUse:
    """One use of a command, file, address or server tool by a call."""

    kind: CheckedKind | Literal["mcp"]
    target: str
    """The command, path, address, or name of the tool."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """A call of another program."""

    folder: str
    """The working folder."""
    uses: tuple[JudgedUse, ...] = ()
    """All commands, files, addresses and server tools that the call uses."""
    has_hidden_effects: bool = False
    """The call may have effects that `uses` does not list, so it is never allowed."""
    is_bypassed: bool = False
    """The program is in a mode in which it does not ask."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The settings with which a program runs a hook."""

    file: str
    """The settings file, for display."""
    text: str
    """The JSON to add to the file."""


def hook_settings(program: HookProgram, command: str) -> HookSettings:
    """Return the settings with which a program runs `command` as a hook before each call."""
    hook_format = _FORMATS[program]
    timeout = TIMEOUT_S * 1000 if hook_format.is_in_milliseconds else TIMEOUT_S
    hook: JsonObject = {"type": "command", "command": command, "timeout": timeout}
    group: JsonObject = {"matcher": hook_format.matcher, "hooks": [hook]}
    return HookSettings(hook_format.settings, json.dumps({"hooks": {hook_format.event: [group]}}, indent=2))


def read_event(program: HookProgram, data: bytes) -> HookEvent | None:
    """Return the call of an event; None if events of this kind, or calls of this tool, are not judged.

    Raise `UnreadableEventError` for anything that is not an event of the program.
    """
    values = _parse_event(data)
    hook_format = _FORMATS[program]
    if values.get("hook_event_name") != hook_format.event:
        return None
    name, tool_input, folder = values.get("tool_name"), values.get("tool_input"), values.get("cwd")
    if not isinstance(name, str) or not isinstance(tool_input, dict):
        raise UnreadableEventError("the event has no tool name or no tool input")
    if not isinstance(folder, str) or not folder.startswith("/") or "\0" in folder:
        raise UnreadableEventError("the event names no working folder")
    action = hook_format.tools.get(name)
    mode = values.get("permission_mode")
    is_bypassed = isinstance(mode, str) and mode in _BYPASS_MODES
    event = HookEvent(folder, has_hidden_effects=program == "codex", is_bypassed=is_bypassed)
    if name.startswith("mcp__"):
        return replace(event, uses=(JudgedUse("mcp", name.removeprefix("mcp__")),))
    if action is None:
        return None
    if action == "shell":
        return _with_command(event, tool_input)
    if action == "patch":
        paths = _patched_paths(_text(tool_input, "command", "input"))
        return replace(event, uses=tuple(JudgedUse("write", path) for path in paths))
    if action == "fetch":
        return replace(event, uses=(JudgedUse("fetch", _text(tool_input, "url")),))
    if action == "read-many":
        paths = tuple(path for key in _PATTERN_FIELDS for path in _texts(tool_input, key))
        if not paths:
            raise UnreadableEventError(f"the input has no {_PATTERN_FIELDS[0]}")
        # A pattern may match files that its text does not name.
        return replace(event, uses=tuple(JudgedUse("read", path) for path in paths), has_hidden_effects=True)
    if action == "search":
        has_path = any(tool_input.get(key) is not None for key in _PATH_FIELDS)
        path = _text(tool_input, *_PATH_FIELDS) if has_path else "."
        return replace(event, uses=(JudgedUse("read", path),), has_hidden_effects=True)
    return replace(event, uses=(JudgedUse(action, _text(tool_input, *_PATH_FIELDS)),))


def _parse_event(data: bytes) -> JsonObject:
    if len(data) > MAX_EVENT_BYTES:
        raise UnreadableEventError("the event is too long")
    try:
        text = data.decode("utf-8")
        values = parse_arguments(text)
        json.dumps(values, ensure_ascii=False).encode("utf-8")  # a lone surrogate cannot be judged
    except DuplicateKeyError as error:
        raise UnreadableEventError(str(error)) from None
    except (ValueError, RecursionError):
        raise UnreadableEventError("the event is not valid text") from None
    if values is None:
        raise UnreadableEventError("the event is not a JSON object")
    return values


def _with_command(event: HookEvent, tool_input: JsonObject) -> HookEvent:
    """Return the event with the command of a shell call."""
    command = _text(tool_input, "command")
    folder = next((tool_input[key] for key in _FOLDER_FIELDS if tool_input.get(key)), None)
    if folder is not None:
        if not isinstance(folder, str):
            raise UnreadableEventError("the folder of the command is not a string")
        # On a separate line, because `cd x && a || b` means `(cd x && a) || b`, which may run b outside x.
        command = f"cd -- {shlex.quote(folder)}\n{command}"
    has_other_fields = not tool_input.keys() <= _HARMLESS_FIELDS
    has_hidden_effects = event.has_hidden_effects or has_other_fields
    return replace(event, uses=(JudgedUse("shell", command),), has_hidden_effects=has_hidden_effects)


def _text(tool_input: JsonObject, *names: str) -> str:
    """Return the first of these fields that has a value; raise `UnreadableEventError` unless it is text."""
    value = next((tool_input[name] for name in names if tool_input.get(name) is not None), None)
    if not isinstance(value, str) or not value:
        raise UnreadableEventError(f"the input has no {names[0]}")
    return value


def _texts(tool_input: JsonObject, name: str) -> list[str]:
    """Return the texts in a list, empty if the field has no value; raise `UnreadableEventError` for another type."""
    values = tool_input.get(name)
    if values is None:
        return []
    texts = [value for value in values if isinstance(value, str) and value] if isinstance(values, list) else []
    if not isinstance(values, list) or len(texts) < len(values):
        raise UnreadableEventError(f"{name} is not a list of texts")
    return texts


def _patched_paths(text: str) -> tuple[str, ...]:
    try:
        return patch_paths(text)
    except PatchError as problem:
        raise UnreadableEventError(str(problem)) from None


@dataclass(frozen=True, slots=True)
class EventVerdict:
    """The decision on a call, and its reason."""

    decision: EventDecision
    reason: str


def judge_event(policy: Policy, event: HookEvent) -> EventVerdict:
    """Return the verdict on a call. Runs nothing; may block.

    `policy` must have no sandbox, because commands of another program do not run in the sandbox of qcode.
    """
    policy = policy.with_mode("bypass" if event.is_bypassed else "default")
    verdicts = [_judge_use(policy, use) for use in event.uses]
    strictest = max(verdicts, key=lambda verdict: _ORDER.index(_decision(verdict, event)))
    return EventVerdict(_decision(strictest, event), strictest.reason)


def _judge_use(policy: Policy, use: JudgedUse) -> Verdict:
    if use.kind == "mcp":
        return policy.judge(ToolSpec(use.target, "", {}), {})
    return verdict_on(policy, use.kind, use.target)


def _decision(verdict: Verdict, event: HookEvent) -> EventDecision:
    """Return the decision for a verdict; empty if the other program decides."""
    if verdict.verdict == "deny":
        return "deny"
    # The other program has modes too, and asks before it uses a server or an address for the first time.
    if verdict.check.startswith("mode:") or verdict.check in ("mcp", "fetch"):
        return ""
    if verdict.verdict == "ask":
        return "ask"
    return "" if event.has_hidden_effects else "allow"


def format_answer(program: HookProgram, verdict: EventVerdict) -> str:
    """Return the answer of the hook in the format of a program, as one line of JSON."""
    decision = verdict.decision
    if program == "codex" and decision != "deny":  # Codex supports denials only
        decision = ""
    text = f"qcode: {visible_line(verdict.reason)}"
    values: dict[str, Json] = {}
    if decision and program == "gemini":
        values = {"decision": decision, "reason": text}
        if decision == "ask":
            values["systemMessage"] = text
    elif decision:
        event_output: JsonObject = {
            "hookEventName": _FORMATS[program].event,
            "permissionDecision": decision,
            "permissionDecisionReason": text,
        }
        values = {"hookSpecificOutput": event_output}
    return json.dumps(values)
