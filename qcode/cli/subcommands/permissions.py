"""`qcode permissions`: lists the rules and their origins, checks calls, and serves as a hook of other programs.

Calls are judged as in a session, and never run. With `--jsonl` each line gets an answer, and an invalid line does not
end the stream. `hook` answers an event of another program, and never allows a call that it cannot read.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from qcode.agent.options import Options, RunContext
from qcode.agent.permissions import CHECKED_KINDS, CheckedKind, Permissions, permissions_of, verdict_on
from qcode.cli.arguments import CommandLineError, as_text, invalid_arguments, parse_subcommand, usage_of
from qcode.cli.context import context_without_config, folder_context, run_context
from qcode.cli.terminal import working_folder, write_lines, write_stderr, write_stdout
from qcode.config.paths import with_tilde
from qcode.protocol.approvals import mode_label
from qcode.protocol.errors import ConfigError, ExitCode, QcodeError
from qcode.safety.policy import Policy
from qcode.safety.verdict import SandboxSupport, Verdict
from qcode.text.clean import quoted, visible
from qcode.text.json import JsonObject
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.hooks.permission_hook import HookProgram

_USES = {
    "": "use: qcode permissions [list], check KIND VALUE, or hook --for PROGRAM; qcode help permissions explains them",
    "list": "use: qcode permissions [list] [--json]",
    "check": "use: qcode permissions check shell CMD | read PATH | write PATH | fetch URL | --jsonl (lines on stdin)",
    "hook": "use: qcode permissions hook --for claude|codex|gemini|qwen [--print]",
}


def run_permissions(arguments: Sequence[str]) -> int:
    """Print the answer and return 0, for every verdict; raise `CommandLineError` or `QcodeError`.

    If the configuration is invalid, `list` returns its exit code. `check` raises its error, because a verdict without
    the configured rules could be wrong.
    """
    usage = usage_of(arguments, _USES)
    options, words, flags = parse_subcommand("permissions", arguments, usage)
    has_lines = "jsonl" in flags
    if words == ["hook"] and not has_lines and "for" in flags:
        # On a terminal there is no event to read: the user looks for the settings.
        return _hook(options, flags["for"], only_prints="print" in flags or os.isatty(0))
    if "for" in flags or "print" in flags:
        raise CommandLineError(f"--for and --print only work with hook, which needs --for; {_USES['hook']}")
    if words in ([], ["list"]):
        if has_lines:
            raise CommandLineError(f"--jsonl only works with check; {_USES['check']}")
        return _list(options, is_json="json" in flags)
    if "json" in flags:
        raise CommandLineError(f"--json only works with list; {_USES['list']}")
    if words == ["hook"] and not has_lines:
        raise CommandLineError(f"hook needs --for; {usage}")
    if words[0] != "check":
        raise invalid_arguments(words, usage)
    if has_lines and words[1:]:
        raise CommandLineError(f"with --jsonl, calls are read from standard input; {usage}")
    if not has_lines:
        return _check(options, words[1:])
    judge = permission_check(_context(options))
    for line in sys.stdin.buffer:
        if line.strip():
            write_stdout(json.dumps(_answer(judge, line)) + "\n")
    return 0


def _list(options: Options, *, is_json: bool) -> int:
    """Print the rules in force. If the configuration is invalid, print only valid rules of flags."""
    context, problem = folder_context(options)
    try:
        permissions = permissions_of(context)
    except ConfigError:
        permissions = permissions_of(context_without_config(options))
    if is_json:
        write_lines(json.dumps(_listed_json(permissions)))
    else:
        write_lines(*list_lines(permissions, is_complete=problem is None))
    if problem is None:
        return ExitCode.OK
    write_stderr(f"{problem}; no rule of the configuration is listed")
    return problem.exit_code


def _check(options: Options, words: Sequence[str]) -> int:
    """Print the verdict on one call; raise `CommandLineError` for invalid words."""
    kind = next((known for known in CHECKED_KINDS if words and words[0] == known), None)
    if words and kind is None:
        raise CommandLineError(f"unknown kind {quoted(words[0])}; {_USES['check']}")
    if kind is None or len(words) < 2:
        raise CommandLineError(f"a kind and one value are needed; {_USES['check']}")
    if len(words) > 2:
        raise CommandLineError(
            f"a kind and one value are needed; put a command with spaces in quotes; {_USES['check']}"
        )
    judge = permission_check(_context(options))
    verdict = judge(kind, as_text(words[1]))
    write_lines(f"{verdict.verdict}: {visible(verdict.reason)} [{visible(verdict.decided_by)}]")
    write_lines(*(f"  - {visible(reason)}" for reason in verdict.all_reasons))
    if note := judge.note(kind, verdict):
        write_lines(note)
    if verdict.verdict == "ask" and verdict.proposed_rule:
        write_lines(f"a rule that would allow it: {visible(verdict.proposed_rule)}")
    return 0


def _hook(options: Options, program: HookProgram, *, only_prints: bool) -> int:
    """Print the settings for a program (`only_prints`), or read its event and print the answer; return 0.

    The other program treats exit code 2 as a denial, and decides by its own rules after any other code but 0.
    """
    from qcode.agent.hooks.permission_hook import (
        MAX_EVENT_BYTES,
        EventVerdict,
        UnreadableEventError,
        format_answer,
        hook_settings,
        judge_event,
        read_event,
    )

    if only_prints:
        settings = hook_settings(program, _command_line(program))
        sys.stderr.write(f"Add this to {settings.file}, next to its other settings:\n")
        write_stdout(f"{settings.text}\n")
        return 0
    try:
        event = read_event(program, sys.stdin.buffer.read(MAX_EVENT_BYTES + 1))
        if event is None:
            write_stdout("{}\n")
            return 0
        policy = permissions_of(_context(replace(options, cwd=event.folder))).policy
        # The other program runs the command without qcode's sandbox, so only commands that need none are allowed:
        # the probe `SandboxSupport()` returns the support of a machine without a sandbox.
        policy = replace(policy, probes=replace(policy.probes, sandbox=SandboxSupport))
        verdict = judge_event(policy, event)
    except (UnreadableEventError, QcodeError) as problem:
        verdict = EventVerdict("ask", str(problem))
    write_stdout(f"{format_answer(program, verdict)}\n")
    return 0


def _command_line(program: HookProgram) -> str:
    """Return the command of the hook, with the path of qcode, because the other program may have another PATH."""
    qcode = shutil.which(sys.argv[0]) or shutil.which("qcode") or "qcode"
    if "/" in qcode:
        qcode = os.path.abspath(qcode)  # noqa: PTH100  # text
    return f"{shlex.quote(qcode)} permissions hook --for {program}"


def _context(options: Options) -> RunContext:
    """Return the context of a session with these options."""
    return run_context(options, working_folder(options.cwd), is_attended=False)


def permission_check(context: RunContext) -> PermissionCheck:
    """Return a check with the rules of a session. The sandbox of this machine is detected for the first command."""
    # Imported here, because `qcode permissions hook` needs neither and must answer quickly.
    from qcode.safety.sandbox.detection import find_sandbox
    from qcode.safety.sandbox.index import WorkspaceIndex

    policy = permissions_of(context).policy
    has_mode = context.settings.origin("permissions.mode").kind != "default"
    setting = context.settings.tools.sandbox
    index = WorkspaceIndex(tuple(os.path.realpath(folder) for folder in (policy.root, *policy.added_folders)))

    def support() -> SandboxSupport:
        sandbox = find_sandbox() if setting != "off" else None
        return SandboxSupport() if sandbox is None else sandbox.support

    return PermissionCheck(
        replace(policy, probes=replace(policy.probes, sandbox=support, contents=index.refresh)), has_mode
    )


def _listed_json(permissions: Permissions) -> JsonObject:
    return {
        "mode": permissions.mode,
        "mode_origin": permissions.mode_origin,
        "is_trusted": permissions.is_trusted,
        "rules": [{"effect": rule.effect, "rule": rule.text, "origin": rule.origin} for rule in permissions.rules()],
    }


def list_lines(permissions: Permissions, *, is_complete: bool = True) -> Iterator[str]:
    """Yield the mode and every rule as lines, each with its origin; `is_complete`: the configuration is valid."""
    yield visible(f"mode {mode_label(permissions.mode)} ({with_tilde(permissions.mode_origin)})")
    if not permissions.is_trusted:
        yield "restricted folder: qcode asks before anything but reading; allow rules do not apply"
    rules = permissions.rules()
    for rule in rules:
        yield visible(f"{rule.effect} {rule.text} ({with_tilde(rule.origin)})")
    if not rules and is_complete:
        yield "no rules: everything that the mode does not allow needs approval"


@dataclass(frozen=True, slots=True)
class PermissionCheck:
    """Judges calls of one run.

    If no mode was chosen and no rule decides, paths are judged in accept-edits mode: default mode asks before every
    edit, so its verdict would say nothing about the path.
    """

    policy: Policy
    has_mode: bool
    """A setting or flag chooses the mode."""

    def __call__(self, kind: CheckedKind, value: str) -> Verdict:
        verdict = verdict_on(self.policy, kind, value)
        is_path = kind in ("read", "write")
        if verdict.verdict == "ask" and is_path and not self.has_mode:
            return verdict_on(self.policy.with_mode("accept-edits"), kind, value)
        return verdict

    def note(self, kind: CheckedKind, verdict: Verdict) -> str:
        """Return a note about a verdict that depends on the mode, if no mode was chosen; otherwise empty."""
        if kind == "write" and verdict.decided_by == "mode:accept-edits" and not self.has_mode:
            return "this applies in every mode; default mode still asks before each change"
        return ""


def _answer(judge: PermissionCheck, line: bytes) -> JsonObject:
    """Return the verdict on the call in a line of JSON, or an object with `error`."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return {"error": "the line is not valid JSON"}
    if not isinstance(request, dict):
        return {"error": 'the line is not an object such as {"kind": "shell", "value": "ls"}'}
    kind, value = request.get("kind"), request.get("value")
    if kind not in CHECKED_KINDS:
        return {"error": f"kind must be one of {', '.join(CHECKED_KINDS)}"}
    if not isinstance(value, str):
        return {"error": "value must be a string"}
    verdict = judge(kind, value)
    note = judge.note(kind, verdict)
    row: JsonObject = {"verdict": verdict.verdict, "reason": verdict.reason, "rule": verdict.decided_by}
    return {**row, "note": note} if note else row
