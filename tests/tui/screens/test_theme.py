"""Previewing themes."""

from __future__ import annotations

from pathlib import Path

from qcode.config.saved_choices import Choices
from qcode.tui.screens.palette import ThemePicker
from qcode.tui.terminal.input import TerminalBackgroundChanged
from tests.tui.harness import Running, drive


async def opened(run: Running) -> ThemePicker:
    await run.send("/theme")
    await run.pilot.pause()
    screen = run.app.screen
    assert isinstance(screen, ThemePicker)
    return screen


def test_highlighted_theme_is_previewed_and_enter_keeps_it(tmp_path: Path) -> None:
    choices = Choices(tmp_path)

    async def test(run: Running) -> None:
        picker = await opened(run)
        names = [row.id for row in picker.rows]
        await run.pilot.press("down")
        assert run.app.theme == names[(names.index("dark") + 1)]
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert run.app.theme == names[(names.index("dark") + 1)]
        assert choices.theme == run.app.theme

    drive(test, choices=choices)


def test_escape_clears_the_filter_and_then_closes_with_the_old_theme(tmp_path: Path) -> None:
    choices = Choices(tmp_path)

    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"light")
        await run.pilot.pause()
        assert run.app.theme == "light"
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert run.app.theme == "dark"
        assert len(run.app.screen_stack) == 2
        await run.pilot.press("down", "escape")
        await run.pilot.pause()
        assert run.app.theme == "dark"
        assert not isinstance(run.app.screen, ThemePicker)
        assert run.app.focused is run.app.widgets.prompt
        assert choices.theme == ""

    drive(test, choices=choices)


def test_filter_without_matches_shows_the_old_theme() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"lightzz")
        await run.pilot.pause()
        assert run.app.theme == "dark"

    drive(test)


def test_named_theme_needs_no_picker() -> None:
    async def test(run: Running) -> None:
        await run.send("/theme light")
        assert run.app.theme == "light"
        await run.send("/theme lihgt")
        assert "Did you mean light?" in run.text

    drive(test)


def test_auto_is_in_the_list_and_follows_the_reported_background(tmp_path: Path) -> None:
    choices = Choices(tmp_path)

    async def test(run: Running) -> None:
        run.app.post_message(TerminalBackgroundChanged(is_dark=False))
        await run.pilot.pause()
        await run.send("/theme high-contrast")
        assert run.app.theme == "high-contrast"
        picker = await opened(run)
        assert picker.rows[0].id == "auto"
        await run.pilot.press(*"auto", "enter")
        await run.pilot.pause()
        assert run.app.theme == "light"
        assert choices.theme == "auto"
        run.app.post_message(TerminalBackgroundChanged(is_dark=True))
        await run.pilot.pause()
        assert run.app.theme == "dark"

    drive(test, choices=choices)
