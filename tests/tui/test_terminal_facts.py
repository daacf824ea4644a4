"""Facts about a terminal from its environment alone."""

from __future__ import annotations

import pytest

from qcode.agent.doctor import Terminal, terminal_findings, terminal_program
from qcode.tui.terminal.clipboard import has_osc52


def lines_of(terminal: Terminal) -> str:
    """Return each finding as a line with its label, text and fix."""
    return "\n".join(f"{finding.label}: {finding.text}; {finding.fix}" for finding in terminal_findings(terminal))


def report(encoding: str = "utf-8", size: tuple[int, int] | None = (80, 24), **env: str) -> str:
    return lines_of(Terminal(env, encoding, size))


@pytest.mark.parametrize(
    ("env", "program"),
    [
        ({"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "ghostty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "wezterm"),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x,1,0", "TERM_PROGRAM": "tmux", "KITTY_WINDOW_ID": "1"}, "tmux"),
        ({"TERM": "screen", "STY": "1.pts"}, "screen"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "vte"),
        ({"TERM": "xterm-256color"}, "xterm"),
        ({"TERM_PROGRAM": "e\x1b]0;vil"}, "e??0?vil"),
        ({}, ""),
    ],
)
def test_terminal_program_is_the_innermost_one(env: dict[str, str], program: str) -> None:
    assert terminal_program(env) == program


def test_capable_terminal_has_its_features_listed() -> None:
    text = report(TERM="xterm-kitty", COLORTERM="truecolor", LANG="de_DE.UTF-8")
    assert "colors: 16 million" in text
    assert "keys: Kitty keyboard protocol; Shift+Enter" in text
    assert "clipboard: yes (OSC 52)" in text
    assert "links: yes (OSC 8)" in text
    assert "notifications: yes (OSC 9)" in text
    assert "80 x 24" in text
    assert "small" not in text
    assert "kind: kitty (TERM=xterm-kitty, COLORTERM=truecolor)" in text


def test_unknown_terminal_features_are_shown_as_unknown() -> None:
    text = report(TERM="xterm-256color", size=(40, 20), LANG="C.UTF-8")
    assert "colors: 256" in text
    assert "Kitty keyboard protocol unknown for this terminal" in text
    assert "links: OSC 8 unknown" in text
    assert "40 x 20: small" in text
    assert "kind: xterm (TERM=xterm-256color, COLORTERM is not set)" in text
    assert "Kitty" not in report(TERM="dumb")


def test_tmux_and_ssh_name_their_requirements() -> None:
    text = report(TERM="tmux-256color", TMUX="x", SSH_CONNECTION="a b")
    for expected in ("set-clipboard on", "allow-passthrough on", "extended-keys on", "terminal-features", "over SSH"):
        assert expected in text
    assert "clipboard: OSC 52 through tmux, see below" in text


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"TERM": "st-256color"}, "clipboard: OSC 52 is used"),
        ({"TERM": "vt100"}, "clipboard: OSC 52 is used"),
        ({"TERM": "screen-256color", "STY": "1.pts"}, "screen: copying bypasses screen and uses the terminal"),
        ({"TERM": "linux"}, "copies go to a file"),
        ({}, "copies go to a file"),
    ],
)
def test_clipboard_finding_agrees_with_the_clipboard_of_the_app(env: dict[str, str], expected: str) -> None:
    text = lines_of(Terminal(env))
    assert expected in text
    assert has_osc52(env) is ("copies go to a file" not in text)


@pytest.mark.parametrize(
    ("encoding", "env", "expected"),
    [
        ("ascii", {}, "set LANG to a UTF-8 locale"),
        ("utf-8", {"LANG": "C"}, "LANG=C; programs may not write characters outside ASCII"),
        ("utf-8", {}, "no locale is set; programs may not write characters outside ASCII"),
        ("utf-8", {"LANG": "ja_JP.SJIS"}, "the locale is not UTF-8, so shell commands run with C.UTF-8 instead"),
        ("utf-8", {"LC_ALL": "en_US.utf8"}, "text: utf-8, LC_ALL=en_US.utf8"),
        ("utf-8", {"XMODIFIERS": "@im=ibus"}, "input method: @im=ibus"),
    ],
)
def test_text_and_input_methods_are_reported(encoding: str, env: dict[str, str], expected: str) -> None:
    assert expected in lines_of(Terminal({"TERM": "xterm", **env}, encoding))


def test_no_color_is_reported() -> None:
    assert "colors: none (NO_COLOR is set)" in report(TERM="xterm-256color", NO_COLOR="")
