"""Findings about this machine, terminal and folder, for `qcode doctor` and `/doctor`. Sends nothing.

Collecting them changes only the permissions of the key file, if other users could read it. The abilities of a terminal
are derived from environment variables; the terminal itself is not queried.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from qcode import __version__
from qcode.agent.keys.connect import credential_rows
from qcode.agent.models.limits import LimitStore, learned_lines
from qcode.agent.options import RunContext
from qcode.agent.trust.store import TrustStore, why_restricted
from qcode.config.paths import exists_or_unknown
from qcode.protocol.approvals import mode_label
from qcode.protocol.errors import QcodeError
from qcode.providers.catalog import catalog_source
from qcode.safety.sandbox.detection import find_sandbox
from qcode.text.clean import visible
from qcode.text.json import JsonObject
from qcode.tools.processes import find_program
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

_PROGRAMS = {
    "git": "needed to show the branch and state of the repository",
    "rg": "optional: ripgrep makes searches faster",
    "bash": "needed to run commands",
}
_PACKAGE_NAMES = {"rg": "ripgrep"}
"""The name of the package that contains a program, if it differs from the program."""


Mark: TypeAlias = Literal["", "ok", "attention", "broken"]
MARKS: Mapping[Mark, str] = {"": " ", "ok": "✓", "attention": "!", "broken": "✗"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the report: a fact about `label`, and the fix if the fact is a problem."""

    label: str
    text: str
    mark: Mark = ""
    fix: str = ""
    """How to solve the problem; empty if there is no problem or no known fix."""


Report: TypeAlias = Mapping[str, Sequence[Finding]]
"""The findings by section."""


def report(
    context: RunContext, *, is_in_app: bool = False, is_trusted: bool | None = None, problem: QcodeError | None = None
) -> Report:
    """Return the findings by section.

    `is_in_app`: the app has replaced the standard streams. `is_trusted` replaces the trust of `context`, which may have
    changed since the start. `problem` is the error of a configuration that could not be read; `context` then has only
    default settings.
    """
    if is_trusted is not None:
        context = replace(context, is_trusted=is_trusted)
    learned = learned_lines(LimitStore(context.paths.state_dir)) or ["nothing learned yet"]
    return {
        "qcode": list(_installation()),
        "folder": list(_folder(context)),
        "configuration": list(_configuration(context, problem)),
        "credentials": list(_credentials(context)),
        "sandbox": [_sandbox(context)],
        "programs": list(_programs(context)),
        "checks after edits": list(_after_edit(context)),
        "terminal": list(_terminal(context, is_in_app=is_in_app)),
        "learned limits": [Finding("", line) for line in learned],
    }


def report_lines(sections: Report) -> list[str]:
    """Return the lines of a report: the problems, then the other facts by section; titles have no indent."""
    all_findings = [finding for findings in sections.values() for finding in findings]
    problems = [finding for finding in all_findings if finding.mark in ("attention", "broken")]
    problems.sort(key=lambda finding: finding.mark != "broken")
    lines = ["needs attention" if problems else "nothing needs attention"]
    for finding in problems:
        lines += _aligned([finding])
        if finding.fix:
            lines.append(f"      {finding.fix}")
    for title, findings in sections.items():
        others = [finding for finding in findings if finding not in problems]
        if others:
            lines += [title, *_aligned(others)]
    return lines


def _aligned(findings: Sequence[Finding]) -> list[str]:
    width = max(len(finding.label) for finding in findings)
    gap = "  " if width else ""
    return [f"  {MARKS[finding.mark]} {finding.label:<{width}}{gap}{finding.text}" for finding in findings]


def report_json(sections: Report) -> JsonObject:
    """Return the report for programs. The marks are `ok`, `attention`, `broken`, or empty for a plain fact."""
    rows: JsonObject = {
        title: [
            {"label": finding.label, "text": finding.text, "mark": finding.mark, "fix": finding.fix or None}
            for finding in findings
        ]
        for title, findings in sections.items()
    }
    marks = [finding.mark for findings in sections.values() for finding in findings]
    return {"needs_attention": marks.count("attention") + marks.count("broken"), "sections": rows}


def _installation() -> Iterator[Finding]:
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield Finding("version", f"{__version__}, {machine}")
    yield Finding("catalog", f"{catalog_source()} (limits and prices of models)")


def _terminal(context: RunContext, *, is_in_app: bool) -> Iterator[Finding]:
    # The app has replaced `sys.stdout`.
    output = sys.__stdout__ if is_in_app else sys.stdout
    is_terminal = is_in_app or (output is not None and output.isatty())
    if not is_terminal:
        yield Finding("output", "standard output is not a terminal: qcode runs in pipe mode here")
    encoding = (output.encoding if output is not None else "") or "unknown"
    size = _terminal_size() if is_terminal else None
    yield from terminal_findings(Terminal(context.env, encoding, size, context.settings.ui.mouse))


def _terminal_size() -> tuple[int, int] | None:
    """Return the columns and rows of the terminal, None if they are unknown."""
    for descriptor in (1, 0, 2):
        try:
            size = os.get_terminal_size(descriptor)
        except OSError:
            continue
        return size.columns, size.lines
    return None


def _folder(context: RunContext) -> Iterator[Finding]:
    yield Finding("root", str(context.root))
    status = TrustStore(context.paths.state_dir, context.folder).status_of(context.root)
    if context.is_trusted and not status.is_trusted:
        names = ", ".join(visible(change.name) for change in status.changes)
        unpinned_note = f"; not pinned, so qcode asks at the next start: {names}" if names else ""
        yield Finding("trust", f"trusted for this run{unpinned_note}", "ok")
    elif context.is_trusted:
        yield Finding("trust", "trusted", "ok")
        yield from (Finding("pinned", name) for name in status.files)
    else:
        reason = why_restricted(status) or "restricted: not trusted; qcode asks before anything but reading"
        yield Finding("trust", reason, "attention", "to trust it: qcode trust accept, or /trust in the app")
    mode = context.settings.permissions.mode
    yield Finding("mode", mode_label(mode))


def _configuration(context: RunContext, problem: QcodeError | None) -> Iterator[Finding]:
    if problem is not None:
        yield Finding("error", str(problem), "broken", "fix that line; until then qcode does not start")
    files = {"yours": context.paths.config_file, "the project's": context.root / ".qcode" / "config.toml"}
    for owner, path in files.items():
        if not exists_or_unknown(path):
            yield Finding(owner, f"{path}, does not exist")
        elif owner != "yours" and not context.is_trusted:
            yield Finding(owner, f"{path}, ignored because the folder is not trusted")
        else:
            yield Finding(owner, str(path), "" if problem else "ok")
    state = context.paths.state_dir
    if not _is_writable(state):
        fix = "set QCODE_HOME to a writable folder; until then sessions, keys and choices are not saved"
        yield Finding("state", f"{state}, cannot be written", "broken", fix)
    elif _is_private(state):
        yield Finding("state", str(state))
    else:
        yield Finding("state", f"{state}, other users can read it", "broken", f"chmod 700 {shlex.quote(str(state))}")
    yield from (Finding("warning", warning, "attention") for warning in context.settings.warnings)


def _is_writable(folder: Path) -> bool:
    """Return whether a folder can be written; for a missing folder, whether the nearest existing parent can be."""
    existing = next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent)), folder)
    return os.access(existing, os.W_OK | os.X_OK)


def _is_private(folder: Path) -> bool:
    """Return whether only the owner can read a folder; a missing folder counts as private."""
    try:
        return folder.stat().st_mode & 0o077 == 0
    except OSError:
        return True


def _credentials(context: RunContext) -> Iterator[Finding]:
    """Yield a row for each provider with a credential, and one row for all others."""
    rows = credential_rows(context.settings, context.keys)
    usable = [row for row in rows if row.is_ready and row.source != "not needed"]
    if not usable:
        text = "no provider has a key; without one, only local servers and the demo model can be used"
        yield Finding("keys", text, "attention", "to store a key: qcode auth login PROVIDER, or /connect in the app")
    yield from (Finding(row.provider, row.text, "ok") for row in usable)
    without_key = ", ".join(row.provider for row in rows if row.source == "none")
    if without_key:
        yield Finding("no key", f"{without_key}; qcode auth status lists their variables")
    local = ", ".join(row.provider for row in rows if row.source == "not needed")
    if local:
        yield Finding("local", f"{local}; needs no key")
    yield from (Finding("keys", problem, "attention") for problem in context.keys.problems)


_WITHOUT_SANDBOX = (
    "only basic read-only commands (cat, grep, ls and similar) run without asking; git, recursive searches and "
    "auto mode ask"
)


def _sandbox(context: RunContext) -> Finding:
    if context.settings.tools.sandbox == "off":
        return Finding("off", _WITHOUT_SANDBOX, "attention", 'set tools.sandbox = "auto" in the configuration')
    sandbox = find_sandbox()
    if sandbox is None:
        text = f"bubblewrap and Landlock do not work here; {_WITHOUT_SANDBOX}"
        return Finding("none", text, "attention", "install bubblewrap, for example apt install bubblewrap")
    name, _, promise = sandbox.description.partition(": ")
    return Finding(name, promise, "ok")


def _programs(context: RunContext) -> Iterator[Finding]:
    workspace = Workspace(context.folder)
    try:
        for name, purpose in _PROGRAMS.items():
            path = find_program(name, context.env, workspace)
            if path:
                yield Finding(name, str(path), "ok")
            else:
                yield Finding(name, f"not found; {purpose}", "attention", f"install {_PACKAGE_NAMES.get(name, name)}")
    finally:
        workspace.close()
    editor = context.env.get("VISUAL") or context.env.get("EDITOR")
    yield Finding("editor", editor or "VISUAL and EDITOR are not set; nano, vim or vi is used")


def _after_edit(context: RunContext) -> Iterator[Finding]:
    """Yield the language servers that check edits, and the commands that run after edits."""
    from qcode.agent.after_edit.commands import STEPS
    from qcode.agent.after_edit.servers import NOT_FOUND, server_choices

    settings = context.settings.after_edit
    if settings.diagnostics is False:
        yield Finding("diagnostics", "off (after_edit.diagnostics)")
    elif settings.diagnostics == "auto" and (context.settings.tools.sandbox == "off" or find_sandbox() is None):
        text = "off, because there is no sandbox for checkers; after_edit.diagnostics = true uses them without one"
        yield Finding("diagnostics", text)
    else:
        workspace = Workspace(context.folder)
        try:
            choices = server_choices(settings.servers, context.env, workspace)
        finally:
            workspace.close()
        for choice in choices:
            command = shlex.join(choice.argv)
            yield Finding(choice.language.name, command or choice.reason, "ok" if command else "")
        if any(choice.reason.endswith(NOT_FOUND) for choice in choices):
            yield Finding("", "a program inside this folder is not used")
    for step in STEPS:
        yield from (Finding(step, visible(str(item))) for item in getattr(settings, step))


_KITTY_KEYBOARD_TERMINALS = {
    "kitty": "kitty", "ghostty": "Ghostty", "wezterm": "WezTerm", "foot": "foot", "alacritty": "Alacritty",
    "iterm.app": "iTerm2", "rio": "Rio", "konsole": "Konsole", "warpterminal": "Warp", "contour": "Contour",
}  # fmt: skip
"""Terminals that support the Kitty keyboard protocol, as sw.kovidgoyal.net/kitty/keyboard-protocol lists them."""
_CLIPBOARD_TERMINALS = _KITTY_KEYBOARD_TERMINALS.keys() | {"xterm", "mintty", "windows terminal", "vscode"}
"""Terminals that support copying (OSC 52)."""
_TERMS_WITHOUT_CLIPBOARD = ("", "dumb", "linux")
"""The values of `TERM` for which the app does not copy with OSC 52."""
_LINK_TERMINALS = _KITTY_KEYBOARD_TERMINALS.keys() | {"vte", "windows terminal", "vscode", "mintty", "tmux"}
"""Terminals that support links (OSC 8)."""
_NOTIFICATION_TERMINALS = frozenset(
    {"kitty", "ghostty", "wezterm", "foot", "iterm.app", "windows terminal", "rio", "warpterminal"}
)
"""Terminals that support desktop notifications (OSC 9)."""
_PALETTE_COLORS = 256


@dataclass(frozen=True, slots=True)
class Terminal:
    """The properties of a terminal that `terminal_findings` reads."""

    env: Mapping[str, str]
    encoding: str = "utf-8"
    size: tuple[int, int] | None = None
    """The columns and rows, None if unknown."""
    is_mouse_on: bool = True
    """The setting `ui.mouse`."""


def terminal_findings(terminal: Terminal) -> Iterator[Finding]:
    """Yield the abilities of the terminal, and each problem with its fix."""
    env = terminal.env
    term = env.get("TERM", "")
    name = terminal_program(env)
    variables = f"{_variable_text(env, 'TERM')}, {_variable_text(env, 'COLORTERM')}"
    yield Finding("kind", f"{name or 'unknown'} ({variables})")
    if terminal.size is not None:
        columns, rows = terminal.size
        small = ": small, so some text is shortened" if columns < 80 or rows < 24 else ""
        yield Finding("size", f"{columns} x {rows}{small}")
    yield Finding("colors", _colors(env))
    mouse = "on (hold Shift to select text with the terminal)" if terminal.is_mouse_on else "off (ui.mouse)"
    yield Finding("mouse", mouse)
    if term in ("dumb", "linux", "vt100"):
        text = f"limited ({term}): no links, few keys"
        yield Finding("features", text, "attention", "set ui.linear to print plain lines instead")
    else:
        yield from _terminal_features(name)
    yield _clipboard(term, name)
    yield from _multiplexer_and_ssh(env)
    yield from _encoding(env, terminal.encoding)


def _variable_text(env: Mapping[str, str], name: str) -> str:
    """Return `TERM=xterm` or `TERM is not set`, for the variable `name`."""
    value = env.get(name)
    return f"{name}={value}" if value else f"{name} is not set"


def terminal_program(env: Mapping[str, str]) -> str:
    """Return the name of the terminal program from the environment, in lower case; empty if it is unknown."""
    if env.get("TMUX"):
        return "tmux"
    program = env.get("TERM_PROGRAM", "").strip().lower()
    if program and program != "tmux":
        return re.sub(r"[^a-z0-9 ._-]", "?", program)[:40]
    programs = {
        "KITTY_WINDOW_ID": "kitty", "WEZTERM_PANE": "wezterm", "GHOSTTY_RESOURCES_DIR": "ghostty",
        "WT_SESSION": "windows terminal", "KONSOLE_VERSION": "konsole", "VTE_VERSION": "vte",
        "ALACRITTY_WINDOW_ID": "alacritty", "STY": "screen",
    }  # fmt: skip
    detected = next((name for variable, name in programs.items() if env.get(variable)), "")
    term = env.get("TERM", "").lower()
    return detected or next((name for name in ("kitty", "ghostty", "foot", "alacritty", "xterm") if name in term), "")


def _colors(env: Mapping[str, str]) -> str:
    if "NO_COLOR" in env:
        return "none (NO_COLOR is set)"
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or "direct" in env.get("TERM", ""):
        return "16 million"
    if "256" in env.get("TERM", ""):
        return f"{_PALETTE_COLORS}; if the terminal supports more, set COLORTERM=truecolor"
    return "16 according to TERM; a theme with its own colors is replaced by `terminal` or `terminal-light`"


def _terminal_features(name: str) -> Iterator[Finding]:
    is_multiplexer = name in ("tmux", "screen")
    yield Finding("paste", "bracketed paste requested; pasted text is never submitted without Enter")
    if name in _KITTY_KEYBOARD_TERMINALS:
        yield Finding("keys", "Kitty keyboard protocol; Shift+Enter inserts a new line", "ok")
    else:
        reason = f"if {name} passes it on" if is_multiplexer else "unknown for this terminal"
        always = "Alt+Enter, Ctrl+J or \\ at the end of a line always insert a new line"
        yield Finding("keys", f"Kitty keyboard protocol {reason}; {always}")
    if name in _LINK_TERMINALS:
        yield Finding("links", "yes (OSC 8)", "ok")
    else:
        yield Finding("links", "OSC 8 unknown; addresses are shown in full")
    if name in _NOTIFICATION_TERMINALS:
        yield Finding("notifications", "yes (OSC 9)", "ok")
    else:
        yield Finding("notifications", "OSC 9 unknown; ui.bell works everywhere")


def _clipboard(term: str, name: str) -> Finding:
    if term in _TERMS_WITHOUT_CLIPBOARD:
        return Finding("clipboard", "no OSC 52; without a program such as wl-copy or xclip, copies go to a file")
    if name in _CLIPBOARD_TERMINALS:
        return Finding("clipboard", "yes (OSC 52)", "ok")
    if name in ("tmux", "screen"):
        return Finding("clipboard", f"OSC 52 through {name}, see below")
    return Finding("clipboard", "OSC 52 is used; whether this terminal supports it is unknown")


def _multiplexer_and_ssh(env: Mapping[str, str]) -> Iterator[Finding]:
    if env.get("TMUX"):
        yield Finding(
            "tmux",
            "add to tmux.conf: `set -g set-clipboard on` for copying, `set -g allow-passthrough on` for notifications, "
            "`set -g extended-keys on` for Shift+Enter, `set -as terminal-features ',*:RGB'` for all colors",
        )
    elif env.get("STY"):
        yield Finding("screen", "copying bypasses screen and uses the terminal; colors are limited to 256")
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        text = "copying uses the terminal (OSC 52), links are copied and not opened, images come from paths"
        yield Finding("over SSH", text)


def _encoding(env: Mapping[str, str], encoding: str) -> Iterator[Finding]:
    variable = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    locale = env.get(variable, "")
    details = f"{encoding}, {variable}={locale}" if locale else f"{encoding}, no locale is set"
    if "utf8" not in encoding.lower().replace("-", ""):
        fix = "set LANG to a UTF-8 locale such as C.UTF-8"
        yield Finding("text", f"{details}; symbols and borders may not be displayed", "attention", fix)
    elif locale in ("", "C", "POSIX"):
        text = f"{details}; programs may not write characters outside ASCII"
        yield Finding("text", text, "attention", "set LANG to a UTF-8 locale such as C.UTF-8")
    elif re.search(r"utf-?8", locale, re.IGNORECASE) is None:
        text = f"{details}; the locale is not UTF-8, so shell commands run with C.UTF-8 instead"
        yield Finding("text", text, "attention", "set LANG to a UTF-8 locale such as C.UTF-8")
    else:
        yield Finding("text", details, "ok")
    method = next((env[name] for name in ("GTK_IM_MODULE", "QT_IM_MODULE", "XMODIFIERS") if env.get(name)), "")
    if method:
        name = re.sub(r"[^ -~]", "?", method)[:40]
        yield Finding("input method", f"{name}: supported in the prompt, shown at the cursor")
