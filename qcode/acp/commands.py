"""The slash commands of a session: those of qcode, and custom ones from files.

A prompt that begins with `/name` runs the command. If there is no such command, the prompt is sent to the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from qcode.agent.permissions import NO_RULES, Permissions
from qcode.config.paths import with_tilde
from qcode.protocol.approvals import NO_OPTIONS, TurnOptions, effective_mode, mode_label
from qcode.protocol.errors import QcodeError
from qcode.protocol.tools import Refused
from qcode.text.clean import one_line, visible
from qcode.text.json import JsonObject
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.skills.skill import Skill
    from qcode.config.definitions import CustomCommands

BUILT_IN = {
    "compact": ("Replace older messages by a summary.", "what to keep"),
    "context": ("Show what fills the context window.", ""),
    "cost": ("Show tokens and cost of this session.", ""),
    "undo": ("Undo the last turn and its changes to files.", ""),
    "redo": ("Redo the last undone turn.", ""),
    "init": ("Write or improve the project's AGENTS.md.", "what matters"),
    "memory": ("Show the instruction files, or add a line.", "project: TEXT"),
    "permissions": ("Show the permission mode, the rules and the latest decisions.", ""),
    "skills": ("List the skills, or run one by name.", "name"),
    "trust": ("Show what this folder contains; with accept: trust it.", "accept"),
}
"""The description of each command, and the hint about its argument, empty if it has none."""
_MAX_DECISIONS = 20


class TypedCommand(NamedTuple):
    """A command as the user typed it."""

    name: str
    """Without the slash."""
    argument: str


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The command is done; `text` is for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class CompactCommand:
    """The command is a turn that compacts the conversation."""

    focus: str


@dataclass(frozen=True, slots=True)
class PromptCommand:
    """The command is a prompt for the model."""

    text: str
    options: TurnOptions = NO_OPTIONS


CommandOutcome: TypeAlias = CommandOutput | CompactCommand | PromptCommand


class SessionCommands:
    """The commands of one session."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def available_commands_update(self) -> JsonObject:
        """Return the update that lists all commands."""
        rows = [_command_row(name, description, hint) for name, (description, hint) in BUILT_IN.items()]
        for custom in self._read_custom_commands().commands:
            description = custom.description or custom.prompt.strip().split("\n", 1)[0]
            rows.append(_command_row(custom.name, one_line(description, 200), one_line(custom.argument, 100)))
        rows += [
            _command_row(skill.handle, one_line(skill.description, 200), one_line(skill.hint, 100))
            for skill in self._agent.skill_commands(self._command_names())
        ]
        used_names = {row["name"] for row in rows}
        rows += [row for row in self._server_prompt_rows() if row["name"] not in used_names]
        return {"sessionUpdate": "available_commands_update", "availableCommands": [*rows]}

    def _server_prompt_rows(self) -> Iterator[JsonObject]:
        """Yield the prompts of running tool servers. A turn expands such a prompt when it begins."""
        if self._agent.servers is None:
            return
        from qcode.agent.mcp.mentions import prompts_of

        for prompt in prompts_of(self._agent.servers):
            description = prompt.description or f"A prompt of {prompt.server}."
            yield _command_row(prompt.handle, description, prompt.hint)

    def _read_custom_commands(self) -> CustomCommands:
        """Read the custom commands from files, without those that have the name of a built-in one."""
        return self._agent.custom_commands(tuple(BUILT_IN))

    def match_command(self, text: str) -> TypedCommand | None:
        """Return the command at the start of a prompt; None if there is no such command."""
        if not text.startswith("/"):
            return None
        name, _, argument = text[1:].partition(" ")
        if name.strip() in BUILT_IN:
            return TypedCommand(name.strip(), argument.strip())
        custom = self._read_custom_commands().match_command(text)
        exists = custom is not None or self._skill(name) is not None
        return TypedCommand(name, argument) if exists else None

    def _command_names(self) -> tuple[str, ...]:
        """Return the names of all commands that are not skills."""
        return (*BUILT_IN, *(command.name.lower() for command in self._read_custom_commands().commands))

    def _skill(self, name: str) -> Skill | None:
        """Return the skill that `/name` runs."""
        skills = self._agent.skill_commands(self._command_names())
        return next((skill for skill in skills if skill.handle.lower() == name.lower()), None)

    async def run(self, command: TypedCommand) -> CommandOutcome:
        """Run a command that `match_command` returned; return its outcome."""
        agent, name, argument = self._agent, command.name, command.argument
        match name:
            case "compact":
                return CompactCommand(argument)
            case "context":
                from qcode.agent.context.window import context_text

                return CommandOutput(context_text(agent.conversation.context_report()))
            case "cost":
                from qcode.agent.usage import usage_report_text

                return CommandOutput(usage_report_text(agent.conversation.usage(), agent.conversation.metrics))
            case "undo" | "redo":
                return CommandOutput(await self._undo_or_redo(name))
            case "init":
                try:
                    return PromptCommand(
                        agent.memory.init_prompt(argument), TurnOptions(shown_prompt=f"/init {argument}".rstrip())
                    )
                except ValueError as refusal:
                    return CommandOutput(str(refusal))
            case "memory":
                return CommandOutput(self._show_or_add_memory(argument))
            case "permissions":
                return CommandOutput(_permissions_text(agent.permissions))
            case "trust":
                return CommandOutput(await asyncio.to_thread(self._show_or_accept_trust, argument))
            case "skills":
                return await self._list_or_run_skill(argument)
            case _:
                skill = self._skill(name)
                return self._run_custom(name, argument) if skill is None else await self._run_skill(skill, argument)

    async def _list_or_run_skill(self, argument: str) -> CommandOutcome:
        skills = self._agent.skills
        if skills is None:
            from qcode.agent.skills.listing import no_skills_text

            return CommandOutput(no_skills_text(self._agent.context))
        if not argument:
            from qcode.agent.skills.listing import list_text

            return CommandOutput(list_text(skills, self._agent.context))
        name, _, skill_argument = argument.partition(" ")
        try:
            return await self._run_skill(skills.find(name), skill_argument.strip())
        except Refused as refused:
            return CommandOutput(str(refused))

    async def _run_skill(self, skill: Skill, argument: str) -> CommandOutcome:
        try:
            prompt = await self._agent.skill_prompt(skill, argument)
        except QcodeError as refusal:
            return CommandOutput(str(refusal))
        return PromptCommand(prompt.text, prompt.options)

    async def _undo_or_redo(self, name: str) -> str:
        """Undo or redo a turn, except for files that were edited since; return a report."""
        checkpoints = self._agent.conversation.checkpoints
        try:
            plan = await (checkpoints.plan_undo() if name == "undo" else checkpoints.plan_redo())
            report = await checkpoints.perform(plan)
        except ValueError as refusal:
            return str(refusal)
        doubts = [f"{file.path}: {file.doubt}" for file in plan.doubtful]
        lines = [report.text, *(f"Not changed: {one_line(line, 400)}" for line in doubts)]
        lines += [one_line(problem, 300) for problem in report.problems]
        lines.append("The editor still shows the removed messages; the model no longer sees them.")
        return "\n".join(lines)

    def _show_or_add_memory(self, argument: str) -> str:
        from qcode.agent.context.memory import memory_text, split_memory_line

        memory = self._agent.memory
        if not argument:
            return memory_text(memory)
        line = split_memory_line(argument, memory.editable_files())
        if len(line.files) != 1:
            return "Choose the file: /memory project: TEXT or /memory yours: TEXT."
        try:
            return memory.append(line.files[0].path, line.text)
        except ValueError as refusal:
            return str(refusal)

    def _show_or_accept_trust(self, argument: str) -> str:
        """Show the files that trust would cover; trust the folder only if exactly these were shown before."""
        trust, folder = self._agent.trust, self._agent.context.folder
        return trust.accept_shown(folder) if argument == "accept" else trust.show(folder)

    def _run_custom(self, name: str, argument: str) -> CommandOutcome:
        prompt = f"/{name} {argument}".rstrip()
        match = self._read_custom_commands().match_command(prompt)
        if match is None:
            return PromptCommand(prompt)  # the file of the command was deleted meanwhile
        custom, arguments = match
        options = TurnOptions(
            custom.model,
            custom.output,
            external_spans=custom.project_ranges(arguments),
            shown_prompt=f"/{custom.name} {arguments}".rstrip(),
        )
        return PromptCommand(custom.expand(arguments), options)


def _command_row(name: str, description: str, argument_hint: str) -> JsonObject:
    row: JsonObject = {"name": name, "description": description}
    return {**row, "input": {"hint": argument_hint}} if argument_hint else row


def _permissions_text(permissions: Permissions) -> str:
    """Return the mode, the rules and the latest decisions as lines."""
    trust = "" if permissions.is_trusted else " (restricted folder: allow rules do not apply)"
    rules = [
        f"  {rule.effect} {visible(rule.text)} ({visible(with_tilde(rule.origin))})" for rule in permissions.rules()
    ]
    calls = [
        f"  {record.decision}: {visible(record.call.name)}" + (f" ({visible(record.reason)})" if record.reason else "")
        for record in permissions.decisions()[-_MAX_DECISIONS:]
    ]
    return "\n".join(
        [
            f"Mode {mode_label(effective_mode(permissions.mode, is_trusted=permissions.is_trusted))}{trust}",
            "Rules:",
            *(rules or [f"  {NO_RULES}"]),
            "Decisions of this session:",
            *(calls or ["  none yet"]),
        ]
    )
