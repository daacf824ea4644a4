"""The commands of `[after_edit]`: the formatter, the check and the tests of the user or of a trusted project.

The rules judge these commands like commands of the shell tool, and the verdict determines the sandbox. If the rules
ask, the user is asked once per session about the configured command, not about every file.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.config.kinds import FILE_PLACEHOLDER, CommandConfig
from qcode.config.paths import with_tilde
from qcode.config.settings import Settings
from qcode.protocol.approvals import Ask, Choice
from qcode.protocol.tools import ToolOutcome
from qcode.safety.policy import Policy
from qcode.safety.rules import exact_shell_rule, is_rule, parse_rule, why_not_allow
from qcode.safety.verdict import Level
from qcode.text.clean import one_line, visible, visible_lines
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

EditStep: TypeAlias = Literal["format", "check", "test"]

STEPS: tuple[EditStep, ...] = ("format", "check", "test")
LIMITS_S: dict[EditStep, float | None] = {"format": 10.0, "check": 60.0, "test": None}
"""The time limit of one run in seconds; None: the limit of the shell tool."""
YES, NO = "Run it after edits in this session", "Do not run it in this session"
_WHEN = {
    "format": "each time the model has edited a file",
    "check": "each time the model has edited a file",
    "test": "when the model is done with its edits",
}


RunCommand: TypeAlias = Callable[[str, Level | None, float | None, bool], Awaitable[ToolOutcome]]
"""Runs a command line as the shell tool does.

The arguments are the command line, its sandbox level (None: no sandbox), its time limit in seconds, and whether changed
files are recorded.
"""


@dataclass(frozen=True, slots=True)
class CommandScope:
    """The context of one call that edits files; the commands of `[after_edit]` run in it after the edits."""

    policy: Policy
    workspace: Workspace
    """The workspace of the call, or of the sub-agent that made the call."""
    run_command: RunCommand
    ask: Ask | None
    """Asks the user; None if no user can answer."""


@dataclass(frozen=True, slots=True)
class EditCommandRun:
    """A command of `[after_edit]` that ran."""

    line: str
    failure: str = ""
    """The output if the command failed, otherwise empty."""


class EditCommands:
    """The commands of a session, and the user's answers about them."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self._settings = settings
        self._workspace = workspace
        self._answers: dict[tuple[EditStep, str], bool] = {}
        self._warnings: list[str] = []
        self._warned_about: set[tuple[EditStep, str]] = set()

    async def ask_approval(self, scope: CommandScope, paths: Sequence[str]) -> None:
        """Ask the user to approve the commands that will run after edits of these files, if the rules require it."""
        for step in STEPS:
            for path in paths:
                command = self._command(step, path)
                if command is None or scope.ask is None or (step, command.line) in self._answers:
                    continue
                if scope.policy.judge_command(self._command_line(command, path)).verdict != "ask":
                    continue
                origin = self._settings.origin(f"after_edit.{step}")
                question = f"Run the {step} command {_WHEN[step]}? ({visible(with_tilde(str(origin)))})"
                choices = (Choice(YES), Choice(NO))
                answer = await scope.ask(question, visible_lines(command.line), choices, accepts_text=False)
                self._answers[step, command.line] = answer == YES

    def has(self, step: EditStep, path: str) -> bool:
        """Return whether there is a command of a step for a file."""
        return self._command(step, path) is not None

    async def run(self, step: EditStep, path: str, scope: CommandScope) -> EditCommandRun | None:
        """Run the command of a step for a file; return None if there is no command, or if it may not run."""
        command = self._command(step, path)
        if command is None:
            return None
        command_line, key = self._command_line(command, path), (step, command.line)
        verdict = scope.policy.judge_command(command_line)
        is_approved = verdict.verdict == "ask" and self._answers.get(key, False)
        if not verdict.is_allowed and not is_approved:
            if key not in self._warned_about and key not in self._answers:
                self._warned_about.add(key)
                label = one_line(visible(command.line), 120)
                can_allow = verdict.is_undecided_command and scope.policy.is_trusted
                rule = _allowing_rule(scope.policy, command.line, command_line) if can_allow else ""
                hint = f"; to allow it, add {rule} to permissions.allow" if rule else ""
                self._warnings.append(f"after_edit.{step} did not run ({label}): {verdict.reason}{hint}")
            return None
        level = verdict.confinement if verdict.is_allowed else None
        records_changes = step == "test"
        outcome = await scope.run_command(command_line, level, LIMITS_S[step], records_changes)
        return EditCommandRun(command_line, outcome.content if outcome.is_error else "")

    def take_warnings(self) -> tuple[str, ...]:
        """Return and clear the warnings about commands that did not run, one line each."""
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    def _command(self, step: EditStep, path: str) -> CommandConfig | None:
        commands: tuple[CommandConfig, ...] = getattr(self._settings.after_edit, step)
        name = self._relative_name(path)
        # The tests run once for all edited files, so there is no path to match.
        return next((command for command in commands if step == "test" or _matches(command.pattern, name)), None)

    def _command_line(self, command: CommandConfig, path: str) -> str:
        name = self._relative_name(path)
        # `./` keeps a file called `-x` from being read as an option.
        return command.line.replace(FILE_PLACEHOLDER, shlex.quote(f"./{name}" if name.startswith("-") else name))

    def _relative_name(self, path: str) -> str:
        root = self._workspace.root
        return Path(path).relative_to(root).as_posix() if path and Path(path).is_relative_to(root) else path


def _allowing_rule(policy: Policy, configured: str, command_line: str) -> str:
    """Return the rule that allows a command for every file, or for this file if a rule for all would allow too much.

    `command_line` is the `configured` command for one file. No single rule covers `ruff check && ruff format`.
    """
    for_all = f"shell({configured.replace(FILE_PLACEHOLDER, '*')})" if FILE_PLACEHOLDER in configured else ""
    if not is_rule(for_all) or why_not_allow(parse_rule(for_all)):
        for_all = ""
    for rule in filter(None, (for_all, exact_shell_rule(command_line))):
        if policy.with_allow(rule).judge_command(command_line).is_allowed:
            return visible(rule)
    return "a shell(...) rule for each command"


def _matches(pattern: str, name: str) -> bool:
    """Return whether a pattern covers a path. As in .gitignore, `*.py` without a slash covers files in any folder."""
    return not pattern or fnmatch(name if "/" in pattern else name.rpartition("/")[2], pattern)
