"""What both front ends begin with: settings, the model, the conversation. Every failure becomes a `StartError`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from qcode.cli.arguments import LATEST, Arguments
from qcode.cli.failure import StartError
from qcode.cli.selection import choose
from qcode.cli.wiring import Surroundings, Wired, Wirer
from qcode.config.errors import ConfigError
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.tools import ToolSpec
from qcode.runtime.briefing.project import find_project_root
from qcode.runtime.store.errors import SessionError
from qcode.runtime.store.store import SessionStore


def surroundings(arguments: Arguments, folder: Path, *, is_attended: bool) -> Surroundings:
    """Read the settings of this run."""
    env = dict(os.environ)
    root = find_project_root(folder)
    try:
        paths = ConfigPaths.from_env(env)
        settings = load(
            paths, env, arguments.flags(), root, arguments.is_trusted, settings_file=arguments.settings_file
        )
    except ConfigError as error:
        raise StartError(str(error), 52) from None
    return Surroundings(arguments, env, paths, settings, folder, root, is_attended, _exit_tools(arguments.exit_tools))


def wired(around: Surroundings) -> Wired:
    """Choose the model and put the conversation together."""
    arguments = around.arguments
    if arguments.chooses_session:
        arguments = _with_chosen_session(around)
        around = Surroundings(
            arguments, around.env, around.paths, around.settings, around.folder, around.root, around.is_attended,
            around.exit_tools,
        )  # fmt: skip
    try:
        selection = choose(
            around.settings, around.env, arguments.model, arguments.base_url, has_demo=around.is_attended
        )
        return Wirer(around).wire(selection)
    except ProviderError as error:
        is_credential = error.kind in (ErrorKind.NO_CREDENTIAL, ErrorKind.AUTH)
        raise StartError(error.message, 41 if is_credential else 2) from None
    except SessionError as error:
        raise StartError(str(error), 42) from None
    except ValueError as error:
        raise StartError(str(error), 52) from None
    except OSError as error:
        raise StartError(f"{error.filename or 'a file'}: {error.strerror}", 42) from None


def _with_chosen_session(around: Surroundings) -> Arguments:
    """Ask on the terminal which session to go on with; the newest is the default."""
    from dataclasses import replace

    summaries = SessionStore(around.paths.state_dir, around.root).summaries()[:9]
    if not summaries or not around.is_attended:
        return around.arguments
    for number, summary in enumerate(summaries, start=1):
        sys.stderr.write(f"  {number}  {summary.session_id}  {summary.title}\n")
    sys.stderr.write("Which session? [1] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip() or "1"
    if answer.isdigit() and 1 <= int(answer) <= len(summaries):
        return replace(around.arguments, resume=summaries[int(answer) - 1].session_id)
    return replace(around.arguments, resume=answer or LATEST)


def _exit_tools(path: Path | None) -> tuple[ToolSpec, ...]:
    """Read one-way tools from a JSON list of `{"name", "description", "parameters"}`."""
    if path is None:
        return ()
    try:
        rows = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise StartError(f"--exit-tools {path}: {error.strerror}", 42) from None
    except ValueError as error:
        raise StartError(f"--exit-tools {path} is not JSON: {error}", 42) from None
    if not isinstance(rows, list):
        raise StartError(f"--exit-tools {path} must hold a JSON list", 42)
    return tuple(_exit_tool(row, path) for row in rows)


def _exit_tool(row: object, path: Path) -> ToolSpec:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise StartError(f'--exit-tools {path}: every tool needs a "name"', 42)
    description, parameters = row.get("description", ""), row.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(description, str) or not isinstance(parameters, dict):
        raise StartError(f'--exit-tools {path}: "{row["name"]}" has a wrong "description" or "parameters"', 42)
    return ToolSpec(row["name"], description, parameters, is_one_way=True)
