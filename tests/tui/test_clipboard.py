"""The methods of copying to the clipboard, and their messages."""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path

import pytest

from qcode.tui.terminal.clipboard import MAX_TERMINAL_BYTES, Clipboard, osc52, programs_for, run_program

XTERM = {"TERM": "xterm-256color"}


class Tools:
    """Programs, some of them installed; records their input."""

    def __init__(self, *there: str) -> None:
        self.there = there
        self.given: list[tuple[str, bytes]] = []

    def __call__(self, argv: tuple[str, ...], data: bytes) -> bool:
        if argv[0] in self.there:
            self.given.append((argv[0], data))
        return argv[0] in self.there


def copied(
    text: str, environ: dict[str, str], run: Tools, folder: Path | None = None, platform: str = "linux"
) -> tuple[str, str]:
    written: list[str] = []
    report = Clipboard(environ, platform, written.append, folder, run).copy(text).report("it")
    return report, "".join(written)


@pytest.mark.parametrize(
    ("environ", "platform", "first"),
    [
        ({}, "darwin", "pbcopy"),
        ({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux", "wl-copy"),
        ({"DISPLAY": ":0"}, "linux", "xclip"),
        ({"WSL_DISTRO_NAME": "Ubuntu", "DISPLAY": ":0"}, "linux", "clip.exe"),
        ({"TMUX": "x"}, "linux", "tmux"),
    ],
)
def test_system_clipboard_tool_comes_first(environ: dict[str, str], platform: str, first: str) -> None:
    assert programs_for(environ, platform)[0].argv[0] == first
    report, written = copied("hé", {**XTERM, **environ}, Tools(first), platform=platform)
    assert report == f"copied it with {first}"
    assert written == ""


def test_clipboard_tool_of_a_remote_machine_is_not_used_over_ssh() -> None:
    environ = {**XTERM, "SSH_CONNECTION": "a b", "DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}
    tools = Tools("wl-copy", "xclip")
    report, written = copied("x", environ, tools)
    assert report == "copied it through the terminal (OSC 52)"
    assert tools.given == []
    assert written == "\x1b]52;c;eA==\x07"


def test_missing_or_failing_tool_is_followed_by_the_next() -> None:
    tools = Tools("xsel")
    assert copied("x", {**XTERM, "DISPLAY": ":0"}, tools)[0] == "copied it with xsel"


def test_windows_clipboard_gets_its_encoding() -> None:
    tools = Tools("clip.exe")
    copied("hé漢", {"WSL_DISTRO_NAME": "U"}, tools)
    assert tools.given[0][1].decode("utf-16") == "hé漢"


def test_tmux_gets_the_sequence_and_passes_it_on() -> None:
    sequence = osc52("é", {"TMUX": "x"})
    data = base64.b64encode("é".encode()).decode()
    assert sequence == f"\x1b]52;c;{data}\x07\x1bPtmux;\x1b\x1b]52;c;{data}\x07\x1b\\"


def test_screen_gets_the_sequence_wrapped_in_parts() -> None:
    sequence = osc52("x" * 900, {"TERM": "screen-256color"})
    pieces = re.findall("\x1bP(.*?)\x1b\\\\", sequence, re.DOTALL)
    assert len(pieces) > 1
    assert "".join(pieces) == osc52("x" * 900, XTERM)


def test_text_too_long_for_osc52_is_copied_to_a_named_file(tmp_path: Path) -> None:
    text = "long\n" * MAX_TERMINAL_BYTES
    report, written = copied(text, XTERM, Tools(), tmp_path / "state")
    path = tmp_path / "state" / "copied.txt"
    assert report == f"copied it to {path} (too long for the terminal's clipboard)"
    assert written == ""
    assert path.read_text(encoding="utf-8") == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("term", ["dumb", "linux", ""])
def test_text_is_copied_to_a_file_without_a_clipboard(term: str) -> None:
    report, written = copied("x", {"TERM": term}, Tools())
    path = Path(report.removeprefix("copied it to ").partition(" (")[0])
    try:
        assert path.read_text(encoding="utf-8") == "x"
        assert written == ""
        assert report.endswith("(this terminal has no clipboard)")
    finally:
        path.unlink()


def test_copy_without_any_method_reports_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    report, _ = copied("x", {"TERM": "dumb"}, Tools(), tmp_path / "file")
    assert report == "could not copy it: this terminal has no clipboard, and no file could be written (File exists)"


def test_real_tool_gets_the_text_and_a_failure_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(f"#!/bin/sh\ncat > {tmp_path}/got\n", encoding="utf-8")
    bad.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    good.chmod(0o755)
    bad.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert run_program(("good",), b"text")
    assert (tmp_path / "got").read_bytes() == b"text"
    assert not run_program(("bad",), b"text")
    assert not run_program(("no-such-program",), b"text")
