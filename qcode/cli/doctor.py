"""`qcode doctor`: what this machine and folder give to work with, found by looking. Changes nothing, sends nothing."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from qcode import __version__
from qcode.agent.doctor import Terminal, terminal_lines
from qcode.agent.keys.connect import rows_of
from qcode.agent.models.limits import LimitStore, learned_lines
from qcode.agent.options import Options, RunContext
from qcode.agent.trust import TrustStore, why_restricted
from qcode.providers.catalog import catalog_source
from qcode.safety.sandbox.detection import find_sandbox
from qcode.tools.processes import find_program
from qcode.tools.workspace import Workspace

_PROGRAMS = {
    "git": "the branch and the state of the repository; without it neither is known",
    "rg": "ripgrep: searches are faster with it",
    "bash": "the shell tool; without it no command runs",
}


def report(context: RunContext, *, is_in_app: bool = False, is_trusted: bool | None = None) -> list[str]:
    """Return the report as lines, titles at the margin; `is_trusted` where that has changed since the start."""
    if is_trusted is not None:
        context = replace(context, is_trusted=is_trusted)
    sections: dict[str, Iterator[str]] = {
        "qcode": _itself(),
        "terminal": _terminal(context, is_in_app),
        "folder": _folder(context),
        "configuration": _configuration(context),
        "credentials": (f"{row.provider}: {row.text}" for row in rows_of(context.settings, context.keys)),
        "sandbox": _sandbox(context),
        "programs": _programs(context),
        "learned limits": iter(learned_lines(LimitStore(context.paths.state_dir)) or ["nothing learned yet"]),
    }
    lines: list[str] = []
    for title, found in sections.items():
        lines += [title, *(f"  {line}" for line in found)]
    return [*lines, *context.keys.complaints]


def _itself() -> Iterator[str]:
    yield f"version {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield f"models: {catalog_source()}"


def _terminal(context: RunContext, is_in_app: bool) -> Iterator[str]:
    # The app has put its own streams in the place of the terminal's.
    output = sys.__stdout__ if is_in_app else sys.stdout
    is_terminal = is_in_app or (output is not None and output.isatty())
    if not is_terminal:
        yield "standard output is no terminal: qcode runs in pipe mode here"
    encoding = (output.encoding if output is not None else "") or "unknown"
    yield from terminal_lines(Terminal(context.env, encoding, _size(is_terminal), context.settings.ui.mouse))


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


def _folder(context: RunContext) -> Iterator[str]:
    yield f"root: {context.root}"
    standing = TrustStore(context.paths.state_dir).look(context.root)
    why = why_restricted(standing)
    if context.is_trusted:
        yield "trusted"
        yield from (f"pinned: {name}" for name in standing.pieces)
    else:
        yield f"restricted: {why or 'not trusted; /trust in the app, or --trust, trusts it'}"
    yield f"permission mode: {context.settings.permissions.mode}"


def _configuration(context: RunContext) -> Iterator[str]:
    files = {"yours": context.paths.config_file, "the project's": context.root / ".qcode" / "config.toml"}
    for whose, path in files.items():
        if not path.is_file():
            yield f"{whose}: {path}, not there"
        elif whose != "yours" and not context.is_trusted:
            yield f"{whose}: {path}, not read, the folder is not trusted"
        else:
            yield f"{whose}: {path}"
    yield f"state: {context.paths.state_dir}{'' if _is_private(context.paths.state_dir) else ', READABLE BY OTHERS'}"
    yield from context.settings.warnings


def _is_private(folder: Path) -> bool:
    try:
        return folder.stat().st_mode & 0o077 == 0
    except OSError:
        return True


_WITHOUT_SANDBOX = (
    "only the core of the table (cat, grep, ls and the like) runs without asking; git, "
    "searches through folders and auto mode ask"
)


def _sandbox(context: RunContext) -> Iterator[str]:
    wanted = context.settings.tools.sandbox
    if wanted == "off":
        yield f"off (tools.sandbox): {_WITHOUT_SANDBOX}"
        return
    found = find_sandbox()
    if found is None:
        yield f"none works here (tried bubblewrap, then Landlock): {_WITHOUT_SANDBOX}"
        return
    yield found.description


def _programs(context: RunContext) -> Iterator[str]:
    workspace = Workspace(context.folder)
    try:
        for name, purpose in _PROGRAMS.items():
            found = find_program(name, context.env, workspace)
            yield f"{name}: {found}" if found else f"{name}: not found ({purpose})"
    finally:
        workspace.close()
    editor = context.env.get("VISUAL") or context.env.get("EDITOR")
    yield f"editor: {editor}" if editor else "editor: neither VISUAL nor EDITOR is set"


def run() -> list[str]:
    """Return the report for the folder the program was started in; raise `QcodeError` where that cannot be."""
    from qcode.cli.context import run_context
    from qcode.cli.terminal import working_folder

    return report(run_context(Options(), working_folder(None), is_attended=False))
