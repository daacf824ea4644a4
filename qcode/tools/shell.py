"""The `shell` tool: one command in bash, bounded in time and output, and nothing of it left behind."""

from __future__ import annotations

import os
import re
from functools import partial

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools.arguments import Arguments, check
from qcode.tools.environment import passed_on, required_program
from qcode.tools.foreground import wait_for
from qcode.tools.jobs_tool import left_behind, started
from qcode.tools.processes import Ended
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, failed, off_loop
from qcode.tools.visible import visible
from qcode.tools.workspace import Workspace

LONGEST_S = 3_600
_WANTS_TERMINAL = re.compile(
    r"not (?:a|from a) (?:tty|terminal)|not a tty|inappropriate ioctl|cannot open /dev/tty|no such device or address"
    r"|EOF when reading a line|Input is not|terminal is (?:dumb|not fully functional)|could not read Username"
    r"|there was a problem with the editor|requires? an interactive",
    re.IGNORECASE,
)
_STOPPED_BY_WALLS = re.compile(
    r"read-only file system|permission denied|operation not permitted|network is unreachable|could not resolve"
    r"|name resolution|connection refused|no route to host|unable to (?:access|connect)|getaddrinfo|EAI_AGAIN"
    r"|EROFS|EPERM|ENETUNREACH",
    re.IGNORECASE,
)
_NO_TERMINAL = (
    "[there is no terminal and no input here: give what it asks for as arguments or in a file, such as -y, -m TEXT or "
    "--no-edit]"
)


class Shell:
    spec = ToolSpec(
        name="shell",
        description=(
            "Run a command with bash in the workspace folder and return its output, errors included, and its exit "
            "code. Every call starts afresh: cd and variables do not last. There is no terminal and no input, and "
            "pagers are off. Long output is shortened in the middle. Processes left behind with & are ended when the "
            "command returns: for a server or a watcher set background, and look after it with jobs. Use read, edit, "
            "glob and grep rather than cat, sed, find and grep where they do."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command, as one would type it into bash."},
                "timeout_s": {
                    "type": "number",
                    "minimum": 1,
                    "maximum": LONGEST_S,
                    "description": "Seconds after which the command is ended. Default 120.",
                },
                "unconfined": {
                    "type": "boolean",
                    "description": (
                        "Ask the person to run it outside the sandbox, where a result says that the sandbox stopped it."
                    ),
                },
                "background": {
                    "type": "boolean",
                    "description": "Return at once and let the command go on, until the session ends at the latest.",
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        can_go_on=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            command = _command_of(check(self.spec, arguments))
        except Refused as refused:
            return Preview("Run a command?", "", str(refused))
        return Preview("Run this command?", visible(command, marks_newlines=True))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        try:
            checked = check(self.spec, arguments)
            command = _command_of(checked)
            environment = os.environ if context.environment is None else context.environment
            bash = await off_loop(partial(required_program, "bash", environment, workspace))
            argv = await off_loop(lambda: context.wrap([bash, "--noprofile", "--norc", "-c", command]))
            passed = passed_on(environment)
            if context.shell_settings is not None:
                passed |= await off_loop(partial(context.shell_settings, command))
            if checked.flag("background"):
                return _start(argv, command, passed, workspace, context)
            timeout_s = checked.number("timeout_s", context.shell_timeout_s)
            return await _run(argv, command, timeout_s, passed, workspace, context)
        except Refused as refused:
            return failed(str(refused))


def _command_of(arguments: Arguments) -> str:
    command = arguments.text("command")
    if not command.strip():
        raise Refused("shell: the command is empty")
    if "\0" in command:
        raise Refused("shell: the command holds a NUL character")
    return command


def _start(
    argv: list[str], command: str, environment: dict[str, str], workspace: Workspace, context: ToolContext
) -> ToolOutcome:
    if context.jobs is None:
        raise Refused("shell: nothing can go on in the background here; run it without background")
    job = context.jobs.start(
        argv,
        command,
        cwd=workspace.root,
        environment=environment,
        scratch=workspace.scratch,
        limit=context.max_output_chars,
    )
    return started(job, context.output)


async def _run(
    argv: list[str],
    command: str,
    timeout_s: float,
    environment: dict[str, str],
    workspace: Workspace,
    context: ToolContext,
) -> ToolOutcome:
    try:
        waited = await wait_for(
            argv,
            command,
            timeout_s,
            cwd=workspace.root,
            environment=environment,
            scratch=workspace.scratch,
            context=context,
        )
    except OSError as error:
        raise Refused(f"shell: the command could not be started: {os.strerror(error.errno or 0)}") from None
    if waited.job is not None:
        return left_behind(waited.job, waited.text)
    assert waited.ended is not None
    return _outcome(waited.text, waited.ended, timeout_s, context.walls)


def _outcome(text: str, ended: Ended, timeout_s: float, walls: str = "") -> ToolOutcome:
    notes = []
    if ended.had_leftovers:
        notes.append("[processes it left in the background were ended]")
    if ended.is_timed_out:
        summary = f"ended after {timeout_s:g} s"
        notes.append(f"[timed out: it and everything it started were ended after {timeout_s:g} s]")
    elif ended.exit_code < 0:
        summary = f"ended by signal {-ended.exit_code}"
        notes.append(f"[{summary}]")
    else:
        summary = f"exit {ended.exit_code}"
        notes.append(f"[exit code {ended.exit_code}]")
    if (ended.is_timed_out or ended.exit_code != 0) and _WANTS_TERMINAL.search(text):
        notes.append(_NO_TERMINAL)
    if walls and ended.exit_code != 0 and _STOPPED_BY_WALLS.search(text):
        notes.append(f"[it ran in a sandbox ({walls}). If that stopped it, call shell again with unconfined: true]")
    body = text.removesuffix("\n") if text.strip() else "[no output]"
    is_error = ended.is_timed_out or ended.exit_code != 0
    return ToolOutcome("\n".join([body, *notes]), is_error=is_error, summary=summary)
