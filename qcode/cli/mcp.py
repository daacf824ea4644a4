"""`qcode mcp list|show|approve`: the tool servers of this folder and what waits for the person. Starts none of them."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from qcode.cli.arguments import UsageError
from qcode.cli.failure import StartError
from qcode.cli.folder import working_folder
from qcode.cli.output import one_line, put, say
from qcode.cli.servers import named_servers
from qcode.config.errors import ConfigError
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.runtime.briefing.project import find_project_root
from qcode.runtime.mcp.pins import Pins
from qcode.runtime.mcp.spec import ServerSpec
from qcode.runtime.trust import TrustStore
from qcode.tools.visible import visible

FLAGS: dict[str, tuple[str, ...] | None] = {"-C": None, "--cwd": None, "--mcp-config": None}
"""Flags that take a value; None: any."""
SWITCHES = ("--trust",)

_USE = "use: qcode mcp list, show NAME, or approve NAME; with -C DIR, --trust, --mcp-config FILE"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {_USE}")


def run_mcp(rest: Sequence[str]) -> int:
    """List, show or approve, and return 0; raise `UsageError` or `StartError`."""
    parser = _Parser(prog="qcode mcp", add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-C", "--cwd", type=Path)
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--mcp-config", type=Path, action="append", default=[])
    given = parser.parse_intermixed_args(list(rest))
    match given.words:
        case [] | ["list"]:
            wanted = ""
        case ["show" | "approve", str(wanted)]:
            pass
        case _:
            raise UsageError(_USE)
    specs, pins = _servers(given.cwd, given.mcp_config, is_trusted=given.trust)
    if not wanted:
        put("".join(f"{line}\n" for line in _rows(specs, pins)) or "no tool servers are set\n")
        return 0
    spec = _named(specs, wanted)
    put(f"{_detail(spec, pins)}\n")
    return _approve(spec, pins) if given.words[0] == "approve" else 0


def _servers(cwd: Path | None, files: Sequence[Path], *, is_trusted: bool) -> tuple[tuple[ServerSpec, ...], Pins]:
    root = find_project_root(working_folder(cwd))
    try:
        paths = ConfigPaths.from_env(os.environ)
        trusts = is_trusted or TrustStore(paths.state_dir).is_trusted(root)
        settings = load(paths, os.environ, {}, root, trusts)
    except ConfigError as error:
        raise StartError(str(error), 52) from None
    named = named_servers(settings, files, root, is_trusted=trusts)
    for complaint in named.complaints:
        say(complaint)
    if not trusts:
        say("this folder is not trusted: servers of the project are left out, and none is started (--trust trusts it)")
    return named.specs, Pins(paths.state_dir)


def _rows(specs: Sequence[ServerSpec], pins: Pins) -> list[str]:
    width = max((len(spec.name) for spec in specs), default=0)
    return [f"{spec.name:<{width}}  {_state(spec, pins)}  {one_line(spec.what)}  ({spec.origin})" for spec in specs]


def _state(spec: ServerSpec, pins: Pins) -> str:
    if not spec.config.enabled:
        return "off"
    if not pins.is_approved(spec):
        return "not approved"
    waiting, tools = len(pins.pending(spec)), pins.tools(spec)
    if waiting:
        return f"{waiting} changed tools not approved"
    return "never started" if tools is None else f"{len(tools)} tools"


def _named(specs: Sequence[ServerSpec], wanted: str) -> ServerSpec:
    names = {spec.name: spec for spec in specs}
    if wanted not in names:
        near = difflib.get_close_matches(wanted, list(names), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else "; qcode mcp list shows them"
        raise StartError(f'there is no tool server "{one_line(wanted)}"{hint}', 2)
    return names[wanted]


def _detail(spec: ServerSpec, pins: Pins) -> str:
    """Return the whole of a server for a person; what foreign text would hide is spelled out."""
    # In the person's own files an argument may be a key; a project's file holds none of theirs.
    about = spec.detail() if spec.is_from_project else f"file:     {spec.origin}\nwhat:     {spec.what}"
    parts = [about, f"state:    {_state(spec, pins)}"]
    tools = pins.tools(spec)
    if tools:
        parts.append("approved tools:\n" + "\n".join(f"  {name}" for name in tools))
    parts += [change.shown() for change in pins.pending(spec)]
    return visible("\n\n".join(parts))


def _approve(spec: ServerSpec, pins: Pins) -> int:
    try:
        if not pins.is_approved(spec):
            pins.approve(spec)
            put(f"\napproved: {spec.name} may be started as it is above\n")
            return 0
        changes = pins.pending(spec)
        if changes:
            pins.accept(spec, changes)
            put(f"\napproved: these tools of {spec.name} may be offered as they are above\n")
        else:
            put(f"\nnothing of {spec.name} waits for approval\n")
    except OSError as error:
        raise StartError(f"the approval cannot be kept: {pins.path}: {error.strerror}", 1) from None
    return 0
