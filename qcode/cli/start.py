"""What both front ends begin with: settings, the model, the conversation. Every failure becomes a `StartError`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from qcode.cli.arguments import LATEST, Arguments
from qcode.cli.asking import ask
from qcode.cli.exit_tools import read_exit_tools
from qcode.cli.failure import StartError
from qcode.cli.keys import ATTENDED_S, UNATTENDED_S, Keys, key_store
from qcode.cli.output import one_line, say
from qcode.cli.selection import choose
from qcode.cli.surroundings import Surroundings
from qcode.cli.trusting import is_trusted
from qcode.cli.wiring import Wired, Wirer
from qcode.config.errors import ConfigError
from qcode.config.layers import flag_layer
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.runtime.briefing.project import find_project_root
from qcode.runtime.choices import Choices
from qcode.runtime.store.errors import SessionError
from qcode.runtime.store.store import SessionStore
from qcode.safety.rules import parse_rule

_SESSIONS_OFFERED = 9


def surroundings(arguments: Arguments, folder: Path, *, is_attended: bool) -> Surroundings:
    """Read the settings of this run, after finding out whether the folder is trusted."""
    env = dict(os.environ)
    root = find_project_root(folder)
    arguments = replace(arguments, add_dirs=tuple(_added(path) for path in arguments.add_dirs))
    _check_flags(arguments)
    one_way = read_exit_tools(arguments.exit_tools)
    try:
        paths = ConfigPaths.from_env(env)
        trusts = is_trusted(folder, root, paths.state_dir, by_flag=arguments.is_trusted, is_attended=is_attended)
        settings = load(paths, env, arguments.flags(), root, trusts, settings_file=arguments.settings_file)
    except ConfigError as error:
        raise StartError(str(error), 52) from None
    on_wait = _ask_for_patience if is_attended else None
    patience_s = ATTENDED_S if is_attended else UNATTENDED_S
    keys = Keys(env, key_store(paths.state_dir, env, patience_s=patience_s, on_wait=on_wait))
    return Surroundings(arguments, env, paths, settings, keys, folder, root, is_attended, trusts, one_way)


def _ask_for_patience() -> None:
    say("waiting for the keyring, which may have to be unlocked; Ctrl+C leaves")


def wired(around: Surroundings) -> Wired:
    """Choose the model and put the conversation together."""
    arguments = around.arguments
    if arguments.chooses_session:
        around = replace(around, arguments=_with_chosen_session(around))
    try:
        selection = choose(
            around.settings,
            around.keys,
            arguments.model,
            arguments.base_url,
            has_demo=around.is_attended,
            connected=Choices(around.paths.state_dir).model,
        )
        return Wirer(around).wire(selection)
    except ProviderError as error:
        if error.kind in (ErrorKind.NO_CREDENTIAL, ErrorKind.AUTH):
            raise StartError("\n".join((error.message, *around.keys.complaints)), 41) from None
        raise StartError(error.message, 2) from None
    except SessionError as error:
        raise StartError(str(error), 42) from None


def _check_flags(arguments: Arguments) -> None:
    """Raise `StartError` for a flag whose value cannot be: that is wrong usage, the same in a file is bad config."""
    for flag, rules in (("--allowed-tools", arguments.allowed), ("--disallowed-tools", arguments.disallowed)):
        for rule in rules:
            try:
                parse_rule(rule)
            except ValueError as error:
                raise StartError(f"{flag}: {error}", 2) from None
    try:
        flag_layer(arguments.flags())
    except ConfigError as error:
        raise StartError(str(error), 2) from None


def _added(path: Path) -> Path:
    """Return an added folder as a full path."""
    try:
        real = path.expanduser().absolute()
    except RuntimeError as error:
        raise StartError(f"--add-dir {path}: {error}", 42) from None
    if not real.is_dir():
        what = "is no folder" if real.exists() else "does not exist"
        raise StartError(f"--add-dir {path} {what}", 42)
    return real


def _with_chosen_session(around: Surroundings) -> Arguments:
    """Ask on the terminal which session to go on with; the newest is the default."""
    if not around.is_attended:
        raise StartError("-r needs the id of a session where nobody can choose one: -r ID, or -c for the latest", 2)
    summaries = SessionStore(around.paths.state_dir, around.root).summaries()[:_SESSIONS_OFFERED]
    if not summaries:
        return around.arguments
    rows = [f"  {number}  {one.session_id}  {one_line(one.title)}\n" for number, one in enumerate(summaries, start=1)]
    answer = ask("".join((*rows, "Which session? [1] "))) or "1"
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(summaries):
        answer = summaries[int(answer) - 1].session_id
    return replace(around.arguments, resume=answer or LATEST)
