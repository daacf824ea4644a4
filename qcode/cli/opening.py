"""Makes the conversation of the app and its setup. It loads every room; the app runs it in a thread.

Deleted when the app opens an `Agent`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from qcode.agent.agent import Agent
from qcode.agent.choices import Choices
from qcode.agent.context.attachments import attachments
from qcode.agent.context.clipboard import read_clipboard
from qcode.agent.context.file_index import FileIndex
from qcode.agent.context.pictures import picture_at
from qcode.agent.models.selection import Selection
from qcode.agent.offered_tools import OfferedTool
from qcode.agent.options import RunContext
from qcode.agent.sessions.export import save_export
from qcode.agent.trust import TrustStore, why_restricted
from qcode.cli.context import with_chosen_session
from qcode.config.definitions import load_custom_commands
from qcode.config.schema import dotted
from qcode.config.settings import Settings
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.protocol.events import Notice
from qcode.protocol.provider import Provider
from qcode.tui.commands.command import typed_names
from qcode.tui.commands.help import problems
from qcode.tui.commands.table import COMMANDS
from qcode.tui.setup import AppSetup, Controls

_RESTRICTED = "This folder is restricted: everything but reading asks, whatever the mode. /trust trusts it."


def opened(context: RunContext, selection: Selection) -> Agent:
    """Return the conversation with what was attached by flags; raise `QcodeError` or `Left`."""
    _check_keys(context.settings)
    attached = attachments(context.options.files, "", context.folder)
    agent = Agent.begin(with_chosen_session(context), selection)
    agent.conversation.attach(attached)
    context.keys.be_brief()
    return agent


def _check_keys(settings: Settings) -> None:
    """Raise `QcodeError` for keys of a command that does not exist and the like: bad config, as for any other key."""
    for command_id, problem in problems(settings.ui.keys, COMMANDS):
        name = dotted(("ui", "keys", command_id))
        raise QcodeError(f"{settings.origin(name)}: {name}: {problem}", ExitCode.BAD_CONFIG)


def setup_of(context: RunContext, agent: Agent, first: AppSetup) -> AppSetup:
    """Return what the app is told of an opened conversation, beside what it was told `first`."""
    settings, arguments = context.settings, context.options
    notices = [
        Notice("warning", text)
        for text in (*settings.warnings, *context.keys.complaints, *agent.notices, *agent.prompts.instructions.notices)
    ]
    if not context.is_trusted:
        why = why_restricted(TrustStore(context.paths.state_dir).look(context.root))
        text = f"{why[:1].upper()}{why[1:]}. /trust shows more." if why else _RESTRICTED
        notices.append(Notice("warning" if why else "info", text))
    custom = load_custom_commands(
        context.paths.config_dir, context.root, is_trusted=context.is_trusted, taken=typed_names(COMMANDS)
    )
    notices += [Notice("warning", problem) for problem in custom.problems]
    folder, env, choices = context.folder, context.env, Choices(context.paths.state_dir)
    return replace(
        first,
        first_prompt=arguments.prompt or "",
        offering=agent.models,
        trust=agent.trust.accept,
        help_topics={"demo": _demo_help},
        keys=settings.ui.keys,
        configuring=agent.settings,
        connect=agent.keys,
        usage=choices,
        keep_theme=choices.keep_theme,
        files=FileIndex(folder, context.root, env, lambda: agent.conversation.policy.is_trusted),
        read_picture=lambda path: picture_at(path, folder),
        read_clipboard=lambda: read_clipboard(env, context.root, system=sys.platform),
        run_shell=agent.toolbox.run_line,
        custom_commands=custom.commands,
        warm_up=_warm_up(agent.provider),
        is_restricted=lambda: not agent.conversation.policy.is_trusted,
        has_sandbox=agent.toolbox.has_sandbox,
        save=lambda name, text: save_export(context.folder, name, text),
        servers=agent.servers,
        controls=controls_of(context, agent),
        notices=tuple(notices),
    )


def _warm_up(provider: Provider) -> Callable[[], None] | None:
    """Return what loads the SDK of the chosen model ahead of the first request; the demo has none."""
    warm_up: Callable[[], None] | None = getattr(provider, "warm_up", None)
    return warm_up


def _demo_help() -> str:
    from qcode.providers.demo.scenarios import SCENARIOS

    width = max(len(scenario.request) for scenario in SCENARIOS)
    rows = [f"  {scenario.request:<{width}}  {scenario.shows}" for scenario in SCENARIOS]
    return "\n".join(("The demo model plays these requests:", *rows))


def controls_of(context: RunContext, agent: Agent) -> Controls:
    """Return what the commands of one conversation act on."""
    conversation, toolbox = agent.conversation, agent.toolbox

    def tools() -> tuple[OfferedTool, ...]:
        from qcode.agent.offered_tools import offered_tools

        statuses = toolbox.servers.statuses() if toolbox.servers is not None else ()
        servers = {tool.name: status.name for status in statuses for tool in status.tools}
        return offered_tools(conversation.tools, conversation.policy, servers)

    def examine() -> tuple[str, ...]:
        from qcode.agent.doctor import report

        return tuple(report(context, is_in_app=True, is_trusted=conversation.policy.is_trusted))

    return Controls(conversation.permissions, agent.memory, tools, examine)
