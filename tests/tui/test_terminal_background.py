"""Reports of the terminal about its background: taken out of the keys, followed by the theme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rich.console import COLOR_SYSTEMS
from textual import events

from qcode.tui.terminal.input import ReportParser, TerminalBackgroundChanged, can_query_background
from tests.e2e.running import CliRunner
from tests.e2e.terminal import Terminal
from tests.tui.harness import Running, drive
from tests.tui.scripted import FixedClock

LIGHT = "\x1b]11;rgb:ffff/fafa/f0f0\x1b\\"
DARK = "\x1b]11;rgb:1e/1e/2e\x07"


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ReportParser, FixedClock]]:
    clock = FixedClock()
    monkeypatch.setattr(ReportParser, "asked_at", clock.now)
    yield ReportParser(clock=clock), clock


def told(messages: Iterable[object]) -> list[object]:
    """Return keys by name, pastes as text, reports as whether the background is dark."""
    said: list[object] = []
    for message in messages:
        match message:
            case TerminalBackgroundChanged():
                said.append(message.is_dark)
            case events.Key():
                said.append(message.key)
            case events.Paste():
                said.append(message)
            case _:
                pass
    return said


@pytest.mark.parametrize(
    ("report", "is_dark"),
    [
        (LIGHT, False),
        (DARK, True),
        ("\x1b]11;rgba:0000/0000/0000/ffff\x1b\\", True),
        ("\x1b[?997;1n", True),
        ("\x1b[?997;2n", False),
    ],
)
def test_report_in_chunks_is_not_read_as_keys(report: str, is_dark: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(1, len(report)):
        clock = FixedClock()
        monkeypatch.setattr(ReportParser, "asked_at", clock.now)
        reading = ReportParser(clock=clock)
        seen = [*reading.feed("a" + report[:at]), *reading.tick(), *reading.feed(report[at:] + "b")]
        assert told(seen) == ["a", is_dark, "b"], at


def test_key_that_looks_like_the_start_of_a_report_is_delayed_briefly(
    parser: tuple[ReportParser, FixedClock],
) -> None:
    reading, clock = parser
    assert told([*reading.feed("\x1b"), *reading.tick()]) == []
    assert reading.held == "\x1b"
    clock.now += 0.3
    list(reading.tick())
    assert reading.held == ""
    # The key is decided, regardless of the next bytes.
    assert told(reading.feed("\x1bOP")) == ["escape", "f1"]


def test_no_key_is_delayed_without_a_pending_query(parser: tuple[ReportParser, FixedClock]) -> None:
    reading, clock = parser
    clock.now += 10
    assert told(list(reading.feed("\x1b]"))) == []
    assert reading.held == ""
    assert told(list(reading.feed("\x1b[A"))) != []


def test_report_in_a_paste_is_text(parser: tuple[ReportParser, FixedClock]) -> None:
    reading, _ = parser
    (pasted,) = told([*reading.feed(f"\x1b[200~x{LIGHT}"), *reading.feed(f"{DARK}y\x1b[201~")])
    assert isinstance(pasted, events.Paste)
    assert pasted.text == f"x{LIGHT}{DARK}y"


def test_report_directly_after_a_paste_is_not_read_as_keys(parser: tuple[ReportParser, FixedClock]) -> None:
    reading, _ = parser
    paste, dark, key = told(reading.feed(f"\x1b[200~text\x1b[201~{DARK}b"))
    assert isinstance(paste, events.Paste)
    assert (paste.text, dark, key) == ("text", True, "b")


def test_theme_follows_the_terminal_until_user_chooses_one() -> None:
    async def test(run: Running) -> None:
        seen = [run.app.theme]
        for is_dark in (False, True, False):
            run.app.post_message(TerminalBackgroundChanged(is_dark=is_dark))
            await run.pilot.pause()
            seen.append(run.app.theme)
        await run.send("/theme high-contrast")
        run.app.post_message(TerminalBackgroundChanged(is_dark=True))
        await run.pilot.pause()
        assert [*seen, run.app.theme] == ["dark", "light", "dark", "light", "high-contrast"]

    drive(test, theme="auto")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("theme", "seen"),
    [
        ("auto", ["terminal-light", "terminal"]),
        ("dark", ["terminal-light", "terminal"]),
        ("terminal", ["terminal", "terminal"]),
        ("terminal-light", ["terminal-light", "terminal-light"]),
    ],
)
def test_colors_of_a_terminal_of_16_colors_suit_its_background(theme: str, seen: list[str]) -> None:
    async def test(run: Running) -> None:
        run.app.console._color_system = COLOR_SYSTEMS["standard"]
        names = []
        for is_dark in (False, True):
            run.app.post_message(TerminalBackgroundChanged(is_dark=is_dark))
            await run.pilot.pause()
            names.append(run.app.theme)
        assert names == seen

    drive(test, theme=theme)


def test_auto_follows_the_terminal_after_a_start_with_another_theme() -> None:
    async def test(run: Running) -> None:
        run.app.post_message(TerminalBackgroundChanged(is_dark=False))
        await run.pilot.pause()
        seen = [run.app.theme]
        await run.send("/theme auto")
        seen.append(run.app.theme)
        run.app.post_message(TerminalBackgroundChanged(is_dark=True))
        await run.pilot.pause()
        assert [*seen, run.app.theme] == ["tokyo-night", "light", "dark"]

    drive(test, theme="tokyo-night")


@pytest.mark.parametrize(("theme", "marked"), [("auto", "auto"), ("dark", "dark")])
def test_theme_list_marks_the_choice_of_the_user(theme: str, marked: str) -> None:
    async def test(run: Running) -> None:
        await run.send("/theme")
        await run.until(lambda: f"● {marked}" in run.screen)

    drive(test, theme=theme)


@pytest.mark.parametrize(("term", "asked"), [("xterm-256color", True), ("linux", False), ("dumb", False), ("", False)])
def test_terminal_that_would_print_the_query_is_not_queried(term: str, asked: bool) -> None:
    assert can_query_background({"TERM": term}) is asked


@pytest.mark.broad
def test_answer_of_a_real_terminal_is_not_typed(tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    with Terminal(cli, "-m", "demo/demo") as terminal:
        terminal.wait_for("demo/demo")
        assert "\x1b]11;?" in terminal.raw
        assert terminal.modes[2031]
        terminal.press(f"{LIGHT}typed\x1b[?997;1n too")
        assert "rgb" not in terminal.wait_for("typed too")
        terminal.press("\x15")
        terminal.wait_for("Ask ·")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
        assert not terminal.modes[2031]


@pytest.mark.parametrize("chunks", [("é\nab\n", "c\n"), ("é\na", "b\nc\n"), ("é", "\na", "b\n", "c\n")])
def test_line_feed_is_enter_only_in_the_lines_typed_before_the_app(
    chunks: tuple[str, ...], parser: tuple[ReportParser, FixedClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReportParser, "early_bytes", len("é\nab\n".encode()))
    keys = [name for chunk in chunks for name in told(parser[0].feed(chunk))]
    assert keys == ["é", "enter", "a", "b", "enter", "c", "ctrl+j"]
