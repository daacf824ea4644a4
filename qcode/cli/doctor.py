"""`qcode doctor`: what this machine and folder give to work with, found by looking. Changes nothing, sends nothing."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from qcode import __version__
from qcode.cli.auth_status import rows_of
from qcode.cli.learned import learned_lines
from qcode.cli.surroundings import Surroundings
from qcode.cli.trusting import why_restricted
from qcode.providers.catalog import catalog_source
from qcode.runtime.limits import LimitStore
from qcode.runtime.trust import TrustStore
from qcode.safety.sandbox.finding import find_sandbox
from qcode.tools.environment import find_program
from qcode.tools.workspace import Workspace
from qcode.tui.terminal_facts import Terminal, terminal_lines

_PROGRAMS = {
    "git": "the branch and the state of the repository; without it neither is known",
    "rg": "ripgrep: searches are faster with it",
    "bash": "the shell tool; without it no command runs",
}


def report(around: Surroundings, *, is_in_app: bool = False, is_trusted: bool | None = None) -> list[str]:
    """Return the report as lines, titles at the margin; `is_trusted` where that has changed since the start."""
    if is_trusted is not None:
        around = replace(around, is_trusted=is_trusted)
    sections: dict[str, Iterator[str]] = {
        "qcode": _itself(),
        "terminal": _terminal(around, is_in_app),
        "folder": _folder(around),
        "configuration": _configuration(around),
        "credentials": (f"{row.provider}: {row.text}" for row in rows_of(around.settings, around.keys)),
        "sandbox": _sandbox(around),
        "programs": _programs(around),
        "learned limits": iter(learned_lines(LimitStore(around.paths.state_dir)) or ["nothing learned yet"]),
    }
    lines: list[str] = []
    for title, found in sections.items():
        lines += [title, *(f"  {line}" for line in found)]
    return [*lines, *around.keys.complaints]


def _itself() -> Iterator[str]:
    yield f"version {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield f"models: {catalog_source()}"


def _terminal(around: Surroundings, is_in_app: bool) -> Iterator[str]:
    # The app has put its own streams in the place of the terminal's.
    output = sys.__stdout__ if is_in_app else sys.stdout
    is_terminal = is_in_app or (output is not None and output.isatty())
    if not is_terminal:
        yield "standard output is no terminal: qcode runs in pipe mode here"
    encoding = (output.encoding if output is not None else "") or "unknown"
    yield from terminal_lines(Terminal(around.env, encoding, _size(is_terminal), around.settings.ui.mouse))


def _size(is_terminal: bool) -> tuple[int, int] | None:
    if not is_terminal:
        return None
    for descriptor in (1, 0, 2):
        try:
            size = os.get_terminal_size(descriptor)
        except OSError:
            continue
        return size.columns, size.lines
    return None


def _folder(around: Surroundings) -> Iterator[str]:
    yield f"root: {around.root}"
    standing = TrustStore(around.paths.state_dir).look(around.root)
    why = why_restricted(standing)
    if around.is_trusted:
        yield "trusted"
        yield from (f"pinned: {name}" for name in standing.pieces)
    else:
        yield f"restricted: {why or 'not trusted; /trust in the app, or --trust, trusts it'}"
    yield f"permission mode: {around.settings.permissions.mode}"


def _configuration(around: Surroundings) -> Iterator[str]:
    files = {"yours": around.paths.config_file, "the project's": around.root / ".qcode" / "config.toml"}
    for whose, path in files.items():
        if not path.is_file():
            yield f"{whose}: {path}, not there"
        elif whose != "yours" and not around.is_trusted:
            yield f"{whose}: {path}, not read, the folder is not trusted"
        else:
            yield f"{whose}: {path}"
    yield f"state: {around.paths.state_dir}{'' if _is_private(around.paths.state_dir) else ', READABLE BY OTHERS'}"
    yield from around.settings.warnings


def _is_private(folder: Path) -> bool:
    try:
        return folder.stat().st_mode & 0o077 == 0
    except OSError:
        return True


def _sandbox(around: Surroundings) -> Iterator[str]:
    wanted = around.settings.tools.sandbox
    if wanted == "off":
        yield "off (tools.sandbox)"
        return
    found = find_sandbox()
    if found is None:
        yield "none works here (tried bubblewrap, then Landlock): commands run without walls, and auto mode asks"
        return
    yield found.description


def _programs(around: Surroundings) -> Iterator[str]:
    workspace = Workspace(around.folder)
    try:
        for name, purpose in _PROGRAMS.items():
            found = find_program(name, around.env, workspace)
            yield f"{name}: {found}" if found else f"{name}: not found ({purpose})"
    finally:
        workspace.close()
    editor = around.env.get("VISUAL") or around.env.get("EDITOR")
    yield f"editor: {editor}" if editor else "editor: neither VISUAL nor EDITOR is set"


def run() -> list[str]:
    """Return the report for the folder the program was started in; raise `StartError` where that cannot be."""
    from qcode.cli.arguments import parse
    from qcode.cli.folder import working_folder
    from qcode.cli.surroundings import surroundings

    return report(surroundings(parse([]), working_folder(None), is_attended=False))
