"""Opens the app on a conversation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from qcode import __version__
from qcode.cli.arguments import Arguments
from qcode.cli.asking import Left
from qcode.cli.configuring import AppConfiguring
from qcode.cli.connecting import AppConnecting
from qcode.cli.exporting import save_export
from qcode.cli.failure import StartError
from qcode.cli.folder import working_folder
from qcode.cli.offering import AppOffering
from qcode.cli.start import surroundings, wired
from qcode.cli.surroundings import Surroundings
from qcode.cli.trusting import remember
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
from qcode.tui.app import QcodeApp
from qcode.tui.commands.command import typed_names
from qcode.tui.commands.keymap import problems
from qcode.tui.commands.table import COMMANDS
from qcode.tui.linear import run_linear
from qcode.tui.setup import AppSetup

DEMO_NOTE = (
    "This is the built-in demo model: it works offline and plays every feature. /help demo lists what to ask.",
    "For a real model: /connect adds a key, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.",
)


LEFT = 130


def run_app(arguments: Arguments) -> int:
    """Open the app, after asking on the terminal what has to be known before, and return its exit code."""
    folder = working_folder(arguments.cwd)
    try:
        around = surroundings(arguments, folder, is_attended=True)
        attached = attachments(arguments.files, "", folder)
        ready = wired(around)
    except Left:
        return LEFT
    except InputError as error:
        raise StartError(str(error), 42) from None
    _check_keys(around.settings)
    ready.conversation.attach(attached)
    around.keys.be_brief()
    try:
        setup = _setup(around, ready)
        if around.settings.ui.linear or os.environ.get("TERM") == "dumb":
            return run_linear(ready.conversation, setup)
        return QcodeApp(ready.conversation, setup=setup).run(mouse=around.settings.ui.mouse)
    finally:
        ready.conversation.release()


def _check_keys(settings: Settings) -> None:
    """Raise `StartError` for keys of a command that does not exist and the like: bad config, as for any other key."""
    for command_id, problem in problems(settings.ui.keys, COMMANDS):
        name = dotted(("ui", "keys", command_id))
        raise StartError(f"{settings.origin(name)}: {name}: {problem}", 52)


def _setup(around: Surroundings, ready: Wired) -> AppSetup:
    settings, arguments = around.settings, around.arguments
    is_demo = ready.selection.spec.name == "demo"
    note = (f"{ready.selection.name} ({ready.selection.note})", *(DEMO_NOTE if is_demo else ()))
    notices = [
        Notice("warning", text)
        for text in (*settings.warnings, *around.keys.complaints, *ready.notices, *ready.instructions.notices)
    ]
    if not around.is_trusted:
        text = "This folder is restricted: everything but reading asks, whatever the mode. /trust trusts it."
        notices.append(Notice("info", text))
    git, choices = ready.environment.git, Choices(around.paths.state_dir)
    custom = load_custom_commands(
        around.paths.config_dir, around.root, is_trusted=around.is_trusted, taken=typed_names(COMMANDS)
    )
    notices += [Notice("warning", problem) for problem in custom.problems]
    folder, env = around.folder, around.env
    return AppSetup(
        version=__version__,
        cwd=_short(around.folder),
        model_note=note,
        instructions=tuple(file.shown for file in ready.instructions.files),
        first_prompt=arguments.prompt or "",
        theme=settings.ui.theme or choices.theme or "auto",
        git_branch=git.branch,
        user_themes=around.paths.config_dir / "themes",
        history_file=around.paths.state_dir / "history.jsonl",
        offering=AppOffering(around),
        trust=lambda: _trust(around, ready),
        help_topics={"demo": _demo_help},
        keys=settings.ui.keys,
        max_continuations=settings.output.max_continuations,
        has_title=settings.ui.title,
        has_bell=settings.ui.bell,
        configuring=AppConfiguring(around),
        connect=AppConnecting(around, ready.selection),
        usage=choices,
        keep_theme=choices.keep_theme,
        show_thinking=settings.ui.show_thinking,
        files=FileIndex(folder, around.root, env, lambda: ready.conversation.policy.is_trusted),
        read_picture=lambda path: picture_at(path, folder),
        read_clipboard=lambda: read_clipboard(env, around.root, system=sys.platform),
        run_shell=ready.toolbox.run_line,
        custom_commands=custom.commands,
        warm_up=_warm_up(ready.provider),
        save=lambda name, text: save_export(around.folder, name, text),
        servers=ready.servers,
        notices=tuple(notices),
    )


def _trust(around: Surroundings, ready: Wired) -> str:
    """Trust the folder from now on; return what that changes."""
    if ready.conversation.policy.is_trusted:
        return "This folder is trusted."
    ready.conversation.trust_folder()
    complaint = remember(around.root, around.paths.state_dir)
    if complaint:
        return complaint
    return "This folder is trusted now: your rules and modes hold. What it brings is read from the next start on."


def _warm_up(provider: Provider) -> Callable[[], None] | None:
    """Return what loads the SDK of the chosen model ahead of the first request; the demo has none."""
    warm_up: Callable[[], None] | None = getattr(provider, "warm_up", None)
    return warm_up


def _demo_help() -> str:
    from qcode.providers.demo import SCENARIOS

    width = max(len(scenario.request) for scenario in SCENARIOS)
    rows = [f"  {scenario.request:<{width}}  {scenario.shows}" for scenario in SCENARIOS]
    return "\n".join(("The demo model plays these requests:", *rows))


def _short(folder: Path) -> str:
    try:
        return f"~/{folder.relative_to(Path.home())}".removesuffix("/.")
    except (ValueError, RuntimeError):
        return str(folder)
