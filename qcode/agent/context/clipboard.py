"""Reads an image or text from the system clipboard through its command-line programs (`wl-paste`, `pngpaste`, ...).

Terminals paste only text, so an image must be read this way. Programs come from PATH, never from the folder.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from qcode.agent.context.attachments import MAX_IMAGE_BYTES
from qcode.safety.launcher import ProgramUnavailable, find_program, run
from qcode.values import dataclass

_TIMEOUT_S = 5.0
_MAX_TEXT_BYTES = 8 * 1024 * 1024
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
# AppleScript prints an image as `«data PNGf89504E47...»`.
_MAC_DATA = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb")
_MAC_SCRIPT = "get the clipboard as \u00abclass PNGf\u00bb"
_WINDOWS_IMAGE = (
    "Add-Type -AssemblyName System.Windows.Forms; $i = [Windows.Forms.Clipboard]::GetImage(); if ($i) {"
    " $m = New-Object IO.MemoryStream; $i.Save($m, [Drawing.Imaging.ImageFormat]::Png);"
    " [Convert]::ToBase64String($m.ToArray()) }"
)


@dataclass(frozen=True, slots=True)
class ClipboardContent:
    """The content of the clipboard: an image, a text, or neither if reading failed."""

    image: bytes = b""
    text: str = ""
    problem: str = ""
    """Why the clipboard could not be read, in one line; otherwise empty."""


def read_clipboard(env: Mapping[str, str], excluded_folder: Path, *, system: str) -> ClipboardContent:
    """Return the image in the clipboard, otherwise its text. May block for a few seconds.

    Programs in `excluded_folder`, the project, are not run. `system` is a value of `sys.platform`.
    """
    programs = _Programs(env, excluded_folder)
    readers = [
        _read_wayland if env.get("WAYLAND_DISPLAY") else None,
        _read_x11 if env.get("DISPLAY") else None,
        _read_mac if system == "darwin" else None,
        _read_windows if env.get("WSL_DISTRO_NAME") else None,
    ]
    problems: list[str] = []
    for reader in filter(None, readers):
        clip = reader(programs)
        if not clip.problem:
            return clip
        problems.append(clip.problem)
    return ClipboardContent(problem=problems[0] if problems else "no clipboard is available here (no display)")


class _Programs:
    """The programs that read the clipboard: finding and running them."""

    def __init__(self, env: Mapping[str, str], excluded_folder: Path) -> None:
        self._env = dict(env)
        self._excluded_folder = excluded_folder

    def find(self, name: str) -> str | None:
        return find_program(name, self._env.get("PATH", ""), self._excluded_folder)

    def run(self, *argv: str) -> bytes:
        """Return the output of a program; empty if it fails, takes too long or prints too much."""
        try:
            result = run(argv, self._env, _TIMEOUT_S)
        except ProgramUnavailable:
            return b""
        is_usable = result.exit_code == 0 and len(result.output) <= 2 * MAX_IMAGE_BYTES
        return result.output if is_usable else b""


def _read_wayland(programs: _Programs) -> ClipboardContent:
    paste = programs.find("wl-paste")
    if paste is None:
        return ClipboardContent(problem="reading the clipboard needs wl-paste (package wl-clipboard)")
    types = programs.run(paste, "--list-types")
    return _read_best_type(
        types, lambda kind: programs.run(paste, "--type", kind), lambda: programs.run(paste, "--no-newline")
    )


def _read_x11(programs: _Programs) -> ClipboardContent:
    xclip = programs.find("xclip")
    if xclip is None:
        return ClipboardContent(problem="reading the clipboard needs xclip")
    command = (xclip, "-selection", "clipboard", "-o")
    types = programs.run(*command, "-t", "TARGETS")
    return _read_best_type(types, lambda kind: programs.run(*command, "-t", kind), lambda: programs.run(*command))


def _read_best_type(types: bytes, image: Callable[[str], bytes], text: Callable[[], bytes]) -> ClipboardContent:
    """Return the image in the best of the offered types, otherwise the text."""
    offered = types.decode("utf-8", "replace").split()
    kind = next((kind for kind in _IMAGE_TYPES if kind in offered), None)
    data = image(kind) if kind is not None else b""
    return ClipboardContent(data) if data else ClipboardContent(text=_text(text()))


def _read_mac(programs: _Programs) -> ClipboardContent:
    pngpaste, osascript, pbpaste = (programs.find(name) for name in ("pngpaste", "osascript", "pbpaste"))
    data = programs.run(pngpaste, "-") if pngpaste is not None else b""
    if not data and osascript is not None:
        match = _MAC_DATA.search(programs.run(osascript, "-e", _MAC_SCRIPT))
        data = bytes.fromhex(match[1].decode("ascii")) if match is not None and len(match[1]) % 2 == 0 else b""
    if data:
        return ClipboardContent(data)
    if pbpaste is not None:
        return ClipboardContent(text=_text(programs.run(pbpaste)))
    return ClipboardContent(problem="reading the clipboard needs pbpaste, or pngpaste for images")


def _read_windows(programs: _Programs) -> ClipboardContent:
    powershell = programs.find("powershell.exe")
    if powershell is None:
        return ClipboardContent(problem="reading the clipboard needs powershell.exe on PATH")
    command = (powershell, "-NoProfile", "-NonInteractive", "-Command")
    try:
        data = base64.b64decode(programs.run(*command, _WINDOWS_IMAGE).strip(), validate=True)
    except binascii.Error:
        data = b""
    if data:
        return ClipboardContent(data)
    return ClipboardContent(text=_text(programs.run(*command, "Get-Clipboard -Raw")))


def _text(data: bytes) -> str:
    return data[:_MAX_TEXT_BYTES].decode("utf-8", "replace")
