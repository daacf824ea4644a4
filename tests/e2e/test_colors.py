"""A real terminal of 256 colors, of 16, and with NO_COLOR: diffs, the selection, and the bytes that are written."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.running import KEY, KEY_VARIABLES, CliRunner
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Turn

_EDIT = {"path": "cart.py", "old_text": "total = 0\nold = 1\n", "new_text": "count = 2\nfresh = 7\n"}


def diff_colors(cli: CliRunner, term: str, *, theme: str = "") -> dict[str, tuple[str, str]]:
    """Return the colors of code on an added, a removed and an unchanged line of a diff in the approval panel."""
    (cli.work / "cart.py").write_text("same = 3\ntotal = 0\nold = 1\n")
    if theme:
        (cli.home / "q").mkdir()
        (cli.home / "q/config.toml").write_text(f'[ui]\ntheme = "{theme}"\n')
    script = [
        Turn(text="Reading.", calls=[Call("read", json.dumps({"path": "cart.py"}), "call_1")]),
        Turn(text="Editing.", calls=[Call("edit", json.dumps(_EDIT), "call_2")]),
    ]
    env = {KEY_VARIABLES["openai"]: KEY, "TERM": term, "NO_COLOR": "", "COLORTERM": "", "COLORFGBG": ""}
    if theme:
        env["QCODE_HOME"] = str(cli.home / "q")
    with FakeServer("openai", script) as server:
        flags = ("-m", "openai/test-model", "--base-url", server.base_url, "--trust")
        with Terminal(cli, *flags, env=env, columns=100, rows=40) as terminal:
            terminal.wait_for("Ask ·")
            terminal.press("change the cart\r")
            terminal.wait_for(lambda text: "1 Yes" in text and "+ fresh" in text)
            shown = {"added": "fresh", "removed": "old = 1", "same": "same = 3"}
            return {kind: terminal.colors_of(text) for kind, text in shown.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("theme", "added", "removed"), [("dark", "005f00", "5f0000"), ("light", "d7ffd7", "ffd7d7")])
def test_diff_backgrounds_are_green_and_red_in_256_colors(cli: CliRunner, theme: str, added: str, removed: str) -> None:
    colors = diff_colors(cli, "xterm-256color", theme=theme)
    assert colors["added"][1] == added
    assert colors["removed"][1] == removed
    assert colors["same"][1] not in (added, removed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("theme", ["", "dark", "light"])
def test_diff_lines_are_green_and_red_in_16_colors(cli: CliRunner, theme: str) -> None:
    colors = diff_colors(cli, "xterm", theme=theme)
    assert "green" in colors["added"][0], colors
    assert "red" in colors["removed"][0], colors
    assert colors["added"][1] == colors["removed"][1] == colors["same"][1]


def test_terminal_of_16_colors_gets_its_own_palette(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--trust", env={"TERM": "xterm", "NO_COLOR": "", "COLORTERM": ""}) as it:
        it.wait_for("qcode 0")
        assert it.colors_of("qcode 0")[1] == "default"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("theme", ["light", "tokyo-night"])
def test_theme_of_other_colors_keeps_the_ground_of_a_terminal_of_16_colors(cli: CliRunner, theme: str) -> None:
    env = {"TERM": "xterm", "NO_COLOR": "", "COLORTERM": "", "COLORFGBG": "", "QCODE_HOME": str(cli.home / "q")}
    (cli.home / "q").mkdir()
    (cli.home / "q/config.toml").write_text(f'[ui]\ntheme = "{theme}"\n')
    with Terminal(cli, "-m", "demo/demo", "--trust", env=env) as terminal:
        terminal.wait_for("qcode 0")
        assert terminal.colors_of("qcode 0")[1] == "default"
        assert "Unknown theme" not in terminal.text
        terminal.press("/theme\r")
        terminal.wait_for(f"● {theme}")
        assert "needs 256 colors" in terminal.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("redraw", ["true", "false"])
def test_no_color_gives_attributes_only(cli: CliRunner, redraw: str) -> None:
    (cli.home / "q").mkdir()
    (cli.home / "q/config.toml").write_text(f'[ui]\ntheme = "tokyo-night"\npartial_redraw = {redraw}\n')
    (cli.work / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    env = {"TERM": "xterm-256color", "NO_COLOR": "1", "COLORTERM": "truecolor", "QCODE_HOME": str(cli.home / "q")}
    with Terminal(cli, "-m", "demo/demo", "--trust", env=env, rows=30) as terminal:
        terminal.wait_for("Ask ·")
        terminal.press("add a docstring to cart.py\r")
        terminal.wait_for(lambda text: all(part in text for part in ("1 Yes", "2 Yes", "def total")))
        assert _is_reverse(terminal, "1 Yes")
        assert not _is_reverse(terminal, "2 Yes")
        assert not _is_reverse(terminal, "def total")
        terminal.press("\x1b")
        terminal.wait_for("interrupted")
        terminal.press("/theme\r")
        terminal.wait_for(lambda text: "› ● tokyo-night" in text and "Esc close" in text)
        assert _is_reverse(terminal, "tokyo-night")
        terminal.press("\x1b")
        terminal.wait_for(lambda text: "Esc close" not in text)
        terminal.press("/mo")
        terminal.wait_for("/model")
        assert _colors_written(terminal.raw) == set()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arguments", [("-m", "demo/demo", "-p", "hi"), ("models", "demo"), ("doctor",), ("--help",)])
def test_no_color_gives_no_colors_outside_the_app(cli: CliRunner, arguments: tuple[str, ...]) -> None:
    env = {"TERM": "xterm-256color", "NO_COLOR": "1", "COLORTERM": "truecolor"}
    with Terminal(cli, *arguments, env=env) as terminal:
        terminal.wait_for_end()
        assert _colors_written(terminal.raw) == set()


def _is_reverse(terminal: Terminal, text: str) -> bool:
    row = next(number for number, line in enumerate(terminal.screen.display) if text in line)
    return bool(terminal.screen.buffer[row][terminal.screen.display[row].index(text)].reverse)


def _colors_written(output: str) -> set[int]:
    """Return the parameters of SGR sequences that set a color."""
    numbers = {int(number) for found in re.findall(r"\x1b\[([\d;]*)m", output) for number in found.split(";") if number}
    return numbers & {*range(30, 39), *range(40, 49), *range(90, 108)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("theme", ["terminal", "light"])
def test_message_of_the_user_has_a_band_in_16_colors(cli: CliRunner, theme: str) -> None:
    env = {"TERM": "xterm", "NO_COLOR": "", "COLORTERM": "", "COLORFGBG": "", "QCODE_HOME": str(cli.home / "q")}
    (cli.home / "q").mkdir()
    (cli.home / "q/config.toml").write_text(f'[ui]\ntheme = "{theme}"\n')
    with Terminal(cli, "-m", "demo/demo", "--trust", env=env) as terminal:
        terminal.wait_for("Ask ·")
        terminal.press("hello\r")
        terminal.wait_for("> hello")
        assert terminal.colors_of("> hello") == ("brightwhite", "brightblack")
        assert terminal.colors_of("qcode 0")[1] != "brightblack"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("term", ["xterm-256color", "xterm"])
def test_the_mark_of_a_chosen_card_is_seen_in_few_colors(cli: CliRunner, term: str) -> None:
    (cli.work / "cart.py").write_text("old = 1\n")
    script = [Turn(text="Reading.", calls=[Call("read", '{"path": "cart.py"}', "call_1")]), Turn(text="Done.")]
    env = {KEY_VARIABLES["openai"]: KEY, "TERM": term, "NO_COLOR": "", "COLORTERM": "", "COLORFGBG": ""}
    with FakeServer("openai", script) as server:
        flags = ("-m", "openai/test-model", "--base-url", server.base_url, "--trust")
        with Terminal(cli, *flags, env=env) as terminal:
            terminal.wait_for("Ask ·")
            terminal.press("read the cart\r")
            terminal.wait_for("Done.")
            terminal.press("\x1bo")
            terminal.wait_for("✓›Read")
            row = next(number for number, line in enumerate(terminal.screen.display) if "✓›Read" in line)
            chosen, other = terminal.screen.buffer[row], terminal.screen.buffer[row - 1]
            assert {(cell.bg, cell.reverse) for cell in (chosen[3], chosen[60])} == (
                {("005f5f", False)} if term == "xterm-256color" else {("default", True)}
            )
            assert (other[3].bg, other[3].reverse) != (chosen[3].bg, chosen[3].reverse)
