"""Makes the conversation of the app, and what the app is told about it. It loads every room; the app runs it aside."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from qcode.cli.app_trust import AppTrust
from qcode.cli.configuring import AppConfiguring
from qcode.cli.connecting import AppConnecting
from qcode.cli.controls import controls_of
from qcode.cli.exporting import save_export
from qcode.cli.failure import StartError
from qcode.cli.offering import AppOffering
from qcode.cli.selection import Selection
from qcode.cli.start import wired
from qcode.cli.surroundings import Surroundings
from qcode.cli.trusting import why_restricted
from qcode.cli.wiring import Wired
from qcode.config.custom_commands import load_custom_commands
from qcode.config.schema import dotted
from qcode.config.settings import Settings
from qcode.protocol.events import Notice
from qcode.protocol.provider import Provider
from qcode.runtime.attachments import InputError, attachments
from qcode.runtime.choices import Choices
from qcode.runtime.clipboard import read_clipboard
from qcode.runtime.file_index import FileIndex
from qcode.runtime.pictures import picture_at
from qcode.runtime.trust import TrustStore
from qcode.tui.commands.command import typed_names
from qcode.tui.commands.keymap import problems
from qcode.tui.commands.table import COMMANDS
from qcode.tui.setup import AppSetup

_RESTRICTED = "This folder is restricted: everything but reading asks, whatever the mode. /trust trusts it."


def opened(around: Surroundings, selection: Selection) -> Wired:
    """Return the conversation with what was attached by flags; raise `StartError` or `Left`."""
    _check_keys(around.settings)
    try:
        attached = attachments(around.arguments.files, "", around.folder)
    except InputError as error:
        raise StartError(str(error), 42) from None
    ready = wired(around, selection)
    ready.conversation.attach(attached)
    around.keys.be_brief()
    return ready


def _check_keys(settings: Settings) -> None:
    """Raise `StartError` for keys of a command that does not exist and the like: bad config, as for any other key."""
    for command_id, problem in problems(settings.ui.keys, COMMANDS):
        name = dotted(("ui", "keys", command_id))
        raise StartError(f"{settings.origin(name)}: {name}: {problem}", 52)


def setup_of(around: Surroundings, ready: Wired, first: AppSetup) -> AppSetup:
    """Return what the app is told of an opened conversation, beside what it was told `first`."""
    settings, arguments = around.settings, around.arguments
    notices = [
        Notice("warning", text)
        for text in (*settings.warnings, *around.keys.complaints, *ready.notices, *ready.instructions.notices)
    ]
    if not around.is_trusted:
        why = why_restricted(TrustStore(around.paths.state_dir).look(around.root))
        text = f"{why[:1].upper()}{why[1:]}. /trust shows more." if why else _RESTRICTED
        notices.append(Notice("warning" if why else "info", text))
    custom = load_custom_commands(
        around.paths.config_dir, around.root, is_trusted=around.is_trusted, taken=typed_names(COMMANDS)
    )
    notices += [Notice("warning", problem) for problem in custom.problems]
    folder, env, choices = around.folder, around.env, Choices(around.paths.state_dir)
    return replace(
        first,
        first_prompt=arguments.prompt or "",
        offering=AppOffering(around),
        trust=AppTrust(around, ready),
        help_topics={"demo": _demo_help},
        keys=settings.ui.keys,
        configuring=AppConfiguring(around),
        connect=AppConnecting(around, ready.selection),
        usage=choices,
        keep_theme=choices.keep_theme,
        files=FileIndex(folder, around.root, env, lambda: ready.conversation.policy.is_trusted),
        read_picture=lambda path: picture_at(path, folder),
        read_clipboard=lambda: read_clipboard(env, around.root, system=sys.platform),
        run_shell=ready.toolbox.run_line,
        custom_commands=custom.commands,
        warm_up=_warm_up(ready.provider),
        is_restricted=lambda: not ready.conversation.policy.is_trusted,
        has_sandbox=ready.toolbox.has_sandbox,
        save=lambda name, text: save_export(around.folder, name, text),
        servers=ready.servers,
        controls=controls_of(around, ready),
        notices=tuple(notices),
    )


def _warm_up(provider: Provider) -> Callable[[], None] | None:
    """Return what loads the SDK of the chosen model ahead of the first request; the demo has none."""
    warm_up: Callable[[], None] | None = getattr(provider, "warm_up", None)
    return warm_up


def _demo_help() -> str:
    from qcode.providers.demo import SCENARIOS

    width = max(len(scenario.request) for scenario in SCENARIOS)
    rows = [f"  {scenario.request:<{width}}  {scenario.shows}" for scenario in SCENARIOS]
    return "\n".join(("The demo model plays these requests:", *rows))
