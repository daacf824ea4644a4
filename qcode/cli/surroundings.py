"""Where a run takes place and what was set for it: read at the start by both front ends, before anything heavy loads.

Every failure becomes a `StartError`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.cli.arguments import Arguments
from qcode.cli.exit_tools import read_exit_tools
from qcode.cli.failure import StartError
from qcode.cli.keys import ATTENDED_S, UNATTENDED_S, Keys, key_store
from qcode.cli.output import say
from qcode.cli.trusting import is_trusted
from qcode.config.errors import ConfigError
from qcode.config.layers import flag_layer
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.config.settings import Settings
from qcode.protocol.values import dataclass
from qcode.runtime.briefing.project import find_project_root

if TYPE_CHECKING:
    from qcode.engine.review import AnswerCheck
    from qcode.protocol.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where this run takes place and what was set for it."""

    arguments: Arguments
    env: Mapping[str, str]
    paths: ConfigPaths
    settings: Settings
    keys: Keys
    folder: Path
    root: Path
    is_attended: bool
    is_trusted: bool
    exit_tools: tuple[ToolSpec, ...] = ()
    check: AnswerCheck | None = None


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


def _check_flags(arguments: Arguments) -> None:
    """Raise `StartError` for a flag whose value cannot be: that is wrong usage, the same in a file is bad config."""
    given = (*arguments.allowed, *arguments.disallowed)
    if given:
        from qcode.safety.rules import parse_rule
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
