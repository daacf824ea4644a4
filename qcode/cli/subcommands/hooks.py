"""`qcode hooks`: lists the hooks that apply in this folder, and tests their answers to an event.

`test` runs the hooks, with the input on stdin.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from qcode.agent.hooks.answers import HookAnswer
from qcode.agent.hooks.events import EVENTS, HookInput
from qcode.agent.hooks.runner import HookRunner
from qcode.agent.hooks.sources import configured_hooks
from qcode.agent.options import Options, RunContext
from qcode.cli.arguments import CommandLineError, invalid_arguments, missing_argument, parse_subcommand
from qcode.cli.context import folder_context, report_problem
from qcode.cli.terminal import read_standard_input, standard_input, write_stderr, write_stdout
from qcode.cli.trust import untrusted_text
from qcode.config.paths import CLAUDE_SETTINGS, exists_or_unknown, project_file
from qcode.protocol.approvals import claude_mode
from qcode.protocol.errors import InputError
from qcode.protocol.events import HookEnded, HookStarted
from qcode.text.clean import clean
from qcode.text.json import JsonObject

_USE = "use: qcode hooks [list], or: qcode hooks test EVENT [--tool TOOL] < input.json"
_SUBJECTS = {
    "SessionStart": "source",
    "SessionEnd": "reason",
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
    "StopFailure": "error",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "Notification": "notification_type",
}
"""The field that a matcher is compared with, for events that are not about a tool."""


def run_hooks(arguments: Sequence[str]) -> int:
    """Print the answer and return the exit code; raise `CommandLineError` or `QcodeError`."""
    options, words, flags = parse_subcommand("hooks", arguments, _USE)
    match words:
        case [] | ["list"] if "tool" not in flags:
            return _list(options, is_json="json" in flags)
        case ["test", event]:
            if event not in EVENTS:
                from qcode.text.match import nearest_hint

                raise CommandLineError(f'unknown hook event "{event}"; {nearest_hint(event, EVENTS)}')
            return _test(options, event, flags)
        case ["test"]:
            raise missing_argument(_USE)
        case _:
            raise invalid_arguments(words, _USE)


def _list(options: Options, *, is_json: bool) -> int:
    from qcode.agent.hooks.listing import NO_HOOKS, hook_lines, hook_rows

    context, problem = folder_context(options)
    code = report_problem(problem)
    hooks = configured_hooks(context)
    for line in hooks.problems:
        if not any(hook.reason in line for hook in hooks.unused):  # the list contains the reason already
            write_stderr(line)
    if is_json:
        write_stdout(json.dumps(hook_rows(hooks.handlers, hooks.unused)) + "\n")
        return code
    lines = hook_lines(hooks.handlers, hooks.unused)
    write_stdout("".join(f"{clean(line)}\n" for line in lines) or f"{NO_HOOKS}\n")
    files = (project_file(context.root), *(context.root / name for name in CLAUDE_SETTINGS))
    if not context.is_trusted and any(map(exists_or_unknown, files)):
        write_stdout(f"{untrusted_text('its own hooks are not read')}\n")
    return code


def _test(options: Options, event: str, flags: Mapping[str, Any]) -> int:
    """Run the hooks of an event with the input on stdin, and print their answers and the decision."""
    typed_input = _read_object()
    context, problem = folder_context(options)
    code = report_problem(problem)
    hooks = configured_hooks(context)
    for line in hooks.problems:
        write_stderr(line)
    hook_input = _hook_input(event, typed_input, flags.get("tool", ""), context)
    runner = HookRunner(hooks.handlers, folder=context.folder, root=context.root, environment=context.env)
    ended: list[HookEnded] = []

    async def collect(event: HookStarted | HookEnded) -> None:
        if isinstance(event, HookEnded):
            ended.append(event)

    answer = asyncio.run(runner.run(event, [hook_input], collect))
    if "json" in flags:
        write_stdout(json.dumps(_as_json(answer, ended)) + "\n")
    else:
        write_stdout("".join(f"{clean(line)}\n" for line in _answer_lines(answer, ended)))
    return code


def _read_object() -> JsonObject:
    text = read_standard_input(standard_input(), note=write_stderr)
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise InputError(f"standard input is not JSON: {reason}") from None
    if not isinstance(value, dict):
        raise InputError("standard input is not a JSON object")
    return value


def _hook_input(event: str, typed_input: JsonObject, tool: str, context: RunContext) -> HookInput:
    """Return an event for the hooks.

    `typed_input` is the object on stdin: with a `tool`, the input of its call; otherwise fields of the event.
    """
    from qcode.agent.claude.tool_names import claude_input, claude_name, claude_names, qcode_name

    mode = context.settings.permissions.mode
    fields: JsonObject = {
        "session_id": "test",
        "prompt_id": "",
        "transcript_path": "",
        "cwd": str(context.folder),
        "permission_mode": claude_mode(mode),
        "hook_event_name": event,
    }
    if tool:
        name = qcode_name(tool)
        values = typed_input if tool != name else claude_input(name, typed_input, str(context.folder))
        fields |= {"tool_name": claude_name(name), "tool_input": values, "tool_use_id": "test"}
    else:
        fields |= typed_input
        name = qcode_name(str(fields.get("tool_name", "")))
    subject = _SUBJECTS.get(event)
    if subject is not None:
        names: tuple[str, ...] = (str(fields.get(subject, "")),)
    else:
        names = claude_names(name) if name else ()
    return HookInput(fields, names, tool_use_id="test")


def _answer_lines(answer: HookAnswer, ended: Sequence[HookEnded]) -> list[str]:
    lines = []
    for hook_ended in ended:
        code = "" if hook_ended.exit_code is None else f", exit {hook_ended.exit_code}"
        failure = f": {hook_ended.failure}" if hook_ended.failure else ""
        lines.append(f"{hook_ended.decision} ({hook_ended.seconds:.1f} s{code}): {hook_ended.command}{failure}")
    if not ended and not answer.decision:
        lines.append("no hook matches")
    decision, reason = _decision_and_reason(answer)
    lines.append(f"decision: {decision}: {reason}" if reason else f"decision: {decision}")
    if answer.input is not None:
        lines.append(f"input: {json.dumps(answer.input)}")
    lines += [f"context: {text}" for text in answer.context]
    return [*lines, *(f"message: {text}" for text in answer.messages)]


def _decision_and_reason(answer: HookAnswer) -> tuple[str, str]:
    if answer.stops_turn:
        return "stop", answer.stop_reason
    return answer.decision or "none", answer.reason


def _as_json(answer: HookAnswer, ended: Sequence[HookEnded]) -> JsonObject:
    decision, reason = _decision_and_reason(answer)
    return {
        "decision": decision,
        "reason": reason or None,
        "input": answer.input,
        "context": list(answer.context),
        "messages": list(answer.messages),
        "hooks": [
            {
                "command": hook_ended.command,
                "decision": hook_ended.decision,
                "exit_code": hook_ended.exit_code,
                "seconds": round(hook_ended.seconds, 3),
                "failure": hook_ended.failure or None,
            }
            for hook_ended in ended
        ],
    }
