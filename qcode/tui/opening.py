"""Opens the agent for the app and the linear mode. The module imports every package, so the app runs it in a thread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from qcode.agent.agent import Agent
from qcode.agent.context.attachments import attach_files
from qcode.agent.models.selection import Selection
from qcode.agent.options import RunContext
from qcode.agent.sessions.resumption import restore_session
from qcode.config.schema import dotted
from qcode.config.settings import Settings
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.protocol.events import Notice
from qcode.tui.commands.command import Command, typed_names
from qcode.tui.commands.keymap import key_problems
from qcode.tui.commands.table import COMMANDS, as_custom_command, as_skill_command
from qcode.tui.failures import with_app_commands
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The commands of a new or resumed session, and the notices to show first."""

    commands: tuple[Command, ...]
    """The built-in commands, then those of files and skills. Tool servers may add others later."""
    notices: tuple[Notice, ...]


def open_agent(context: RunContext, selection: Selection) -> Agent:
    """Return the agent, with the files from flags attached; raise `QcodeError`."""
    _check_key_bindings(context.settings)
    attached = attach_files(map(Path, context.options.file), "", context.folder)
    agent = Agent.begin(context, selection)
    agent.conversation.attach(attached)
    context.keys.limit_waiting()  # a keyring that asks for a password must not block the app on screen
    return agent


def start_session(agent: Agent) -> SessionStart:
    """Restore the session to resume, if the user asked for one, and read the commands of files and skills."""
    custom = agent.custom_commands(typed_names(COMMANDS))
    options = agent.context.options
    restore_notices = restore_session(agent.conversation, options) if options.resume is not None else ()
    start_notices = [replace(notice, text=with_app_commands(notice.text)) for notice in agent.start_notices()]
    command_problems = [Notice("warning", problem) for problem in custom.problems]
    commands = (*COMMANDS, *map(as_custom_command, custom.commands))
    skills = map(as_skill_command, agent.skill_commands(typed_names(commands)))
    return SessionStart((*commands, *skills), (*restore_notices, *start_notices, *command_problems))


def _check_key_bindings(settings: Settings) -> None:
    """Raise `QcodeError` with the first invalid entry of `[ui.keys]`, such as an unknown command.

    The loader of settings cannot check it, because only the app knows the commands.
    """
    for command_id, problem in key_problems(settings.ui.keys, COMMANDS):
        name = dotted(("ui", "keys", command_id))
        raise QcodeError(f"{settings.origin(name)}: {name}: {problem}", ExitCode.BAD_CONFIG)
