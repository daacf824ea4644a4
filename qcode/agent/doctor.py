"""Findings about this machine, terminal and folder, for `qcode doctor` and `/doctor`. Changes nothing, sends nothing.

The abilities of a terminal are derived from environment variables; the terminal itself is not queried.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from qcode import __version__
from qcode.agent.keys.connect import rows_of
from qcode.agent.models.limits import LimitStore, learned_lines
from qcode.agent.options import RunContext
from qcode.agent.trust import TrustStore, why_restricted
from qcode.providers.catalog import catalog_source
from qcode.safety.sandbox.detection import find_sandbox
from qcode.tools.processes import find_program
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

_PROGRAMS = {
    "git": "needed for the branch and state of the repository",
    "rg": "ripgrep: makes searches faster",
    "bash": "needed to run commands",
}


def report(context: RunContext, *, is_in_app: bool = False, is_trusted: bool | None = None) -> list[str]:
    """Return the lines of the report, titles without indent; `is_trusted` if trust has changed since the start."""
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
    # The app has replaced the streams of the terminal with its own.
    output = sys.__stdout__ if is_in_app else sys.stdout
    is_terminal = is_in_app or (output is not None and output.isatty())
    if not is_terminal:
        yield "standard output is not a terminal: qcode runs in pipe mode here"
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
    status = TrustStore(context.paths.state_dir, context.folder).look(context.root)
    why = why_restricted(status)
    if context.is_trusted:
        yield "trusted"
        yield from (f"pinned: {name}" for name in status.files)
    else:
        yield f"restricted: {why or 'not trusted; to trust it, type /trust in the app or use --trust'}"
    yield f"permission mode: {context.settings.permissions.mode}"


def _configuration(context: RunContext) -> Iterator[str]:
    files = {"yours": context.paths.config_file, "the project's": context.root / ".qcode" / "config.toml"}
    for whose, path in files.items():
        if not path.is_file():
            yield f"{whose}: {path}, does not exist"
        elif whose != "yours" and not context.is_trusted:
            yield f"{whose}: {path}, ignored because the folder is not trusted"
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
    "only basic read-only commands (cat, grep, ls and similar) run without asking; git, recursive searches and "
    "auto mode ask"
)


def _sandbox(context: RunContext) -> Iterator[str]:
    wanted = context.settings.tools.sandbox
    if wanted == "off":
        yield f"off (tools.sandbox): {_WITHOUT_SANDBOX}"
        return
    found = find_sandbox()
    if found is None:
        yield f"none available (tried bubblewrap, then Landlock): {_WITHOUT_SANDBOX}"
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


_ENHANCED_KEYS = {
    "kitty": "kitty", "ghostty": "Ghostty", "wezterm": "WezTerm", "foot": "foot", "alacritty": "Alacritty",
    "iterm.app": "iTerm2", "rio": "Rio", "konsole": "Konsole", "warpterminal": "Warp", "contour": "Contour",
}  # fmt: skip
"""Terminals that support the Kitty keyboard protocol, as sw.kovidgoyal.net/kitty/keyboard-protocol lists them."""

_CLIPBOARD = _ENHANCED_KEYS.keys() | {"xterm", "mintty", "windows terminal", "vscode"}
_LINKS = _ENHANCED_KEYS.keys() | {"vte", "windows terminal", "vscode", "mintty", "tmux"}
_NOTICES = frozenset({"kitty", "ghostty", "wezterm", "foot", "iterm.app", "windows terminal", "rio", "warpterminal"})
_MAX_PLAIN_COLORS = 256


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal of a run. `size` is columns and rows, None if unknown; `is_mouse_on` is the setting of the mouse."""

    env: Mapping[str, str]
    encoding: str = "utf-8"
    size: tuple[int, int] | None = None
    is_mouse_on: bool = True


def terminal_lines(terminal: Terminal) -> Iterator[str]:
    """Yield findings for the user, each problem with its remedy."""
    env = terminal.env
    term = env.get("TERM", "")
    name = program_of(env)
    yield f"TERM={term or 'not set'}, COLORTERM={env.get('COLORTERM') or 'not set'}" + (f", {name}" if name else "")
    if terminal.size is not None:
        columns, rows = terminal.size
        small = ": small, so some text is shortened" if columns < 80 or rows < 24 else ""
        yield f"size: {columns} x {rows}{small}"
    yield f"colours: {_colours(env)}"
    yield f"mouse: {'on (hold Shift to select text with the terminal)' if terminal.is_mouse_on else 'off (ui.mouse)'}"
    yield from _plain_terminal(term) if term in ("dumb", "linux", "vt100") else _abilities(env, name)
    yield from _layers(env)
    yield from _text(env, terminal.encoding)


def program_of(env: Mapping[str, str]) -> str:
    """Return the name of the terminal program from the environment, in lower case; empty if it is unknown."""
    if env.get("TMUX"):
        return "tmux"
    said = env.get("TERM_PROGRAM", "").strip().lower()
    if said and said != "tmux":
        return re.sub(r"[^a-z0-9 ._-]", "?", said)[:40]
    marks = {
        "KITTY_WINDOW_ID": "kitty", "WEZTERM_PANE": "wezterm", "GHOSTTY_RESOURCES_DIR": "ghostty",
        "WT_SESSION": "windows terminal", "KONSOLE_VERSION": "konsole", "VTE_VERSION": "vte",
        "ALACRITTY_WINDOW_ID": "alacritty", "STY": "screen",
    }  # fmt: skip
    found = next((name for variable, name in marks.items() if env.get(variable)), "")
    term = env.get("TERM", "").lower()
    return found or next((name for name in ("kitty", "ghostty", "foot", "alacritty", "xterm") if name in term), "")


def _colours(env: Mapping[str, str]) -> str:
    if "NO_COLOR" in env:
        return "none (NO_COLOR is set)"
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or "direct" in env.get("TERM", ""):
        return "16 million"
    if "256" in env.get("TERM", ""):
        return f"{_MAX_PLAIN_COLORS}; if the terminal supports more, set COLORTERM=truecolor"
    return '16 according to TERM; the theme "auto" uses only those'


def _plain_terminal(term: str) -> Iterator[str]:
    yield f"limited terminal ({term}): no links, no clipboard, few keys; set ui.linear to print plain lines instead"


def _abilities(env: Mapping[str, str], name: str) -> Iterator[str]:
    through = name in ("tmux", "screen")
    yield "bracketed paste: requested; pasted text is never sent by itself"
    if name in _ENHANCED_KEYS:
        yield "keys: Kitty keyboard protocol; Shift+Enter inserts a new line"
    else:
        why = f"if {name} passes it on" if through else "unknown for this terminal"
        yield (
            f"keys: Kitty keyboard protocol {why}; Alt+Enter, Ctrl+J or \\ at the end of a line always insert a "
            "new line"
        )
    known = (
        "yes"
        if name in _CLIPBOARD
        else "through tmux, see below"
        if through
        else ("unknown; otherwise copies go to a file")
    )
    yield f"clipboard (OSC 52): {known}"
    yield f"links (OSC 8): {'yes' if name in _LINKS else 'unknown; the address is always shown'}"
    yield f"notifications (OSC 9): {'yes' if name in _NOTICES else 'unknown; ui.bell works everywhere'}"


def _layers(env: Mapping[str, str]) -> Iterator[str]:
    if env.get("TMUX"):
        yield (
            "inside tmux: `set -g set-clipboard on` for copying, `set -g allow-passthrough on` for notifications, "
            "`set -g extended-keys on` for Shift+Enter, `set -as terminal-features ',*:RGB'` for all colours"
        )
    elif env.get("STY"):
        yield "inside screen: copies go to a file, and colours are limited to 256"
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        yield "over SSH: copying uses the terminal (OSC 52), links are copied and not opened, images come from paths"


def _text(env: Mapping[str, str], encoding: str) -> Iterator[str]:
    setting = next((f"{name}={env[name]}" for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    is_utf8 = "utf8" in encoding.lower().replace("-", "")
    yield f"text: {encoding}{f', {setting}' if setting else ', no locale is set'}" + (
        "" if is_utf8 else "; symbols and borders may not be displayed: set LANG to a UTF-8 locale such as C.UTF-8"
    )
    if is_utf8 and re.search(r"utf-?8", setting, re.IGNORECASE) is None:
        yield "the locale is not UTF-8: output of shell commands may be decoded incorrectly"
    method = next((env[name] for name in ("GTK_IM_MODULE", "QT_IM_MODULE", "XMODIFIERS") if env.get(name)), "")
    said = f" ({re.sub(r'[^ -~]', '?', method)[:40]})" if method else ""
    yield f"input methods{said}: supported in the prompt, shown at the cursor"
