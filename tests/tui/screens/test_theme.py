"""Previewing themes."""

from __future__ import annotations

from pathlib import Path

from qcode.agent.choices import Choices
from qcode.tui.screens.palette import ThemePicker
from tests.tui.harness import Running, drive


async def opened(run: Running) -> ThemePicker:
    await run.send("/theme")
    await run.pilot.pause()
    screen = run.app.screen
    assert isinstance(screen, ThemePicker)
    return screen


def test_a_theme_is_on_while_it_is_highlighted_and_enter_keeps_it(tmp_path: Path) -> None:
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


def test_leaving_puts_the_old_theme_back_also_from_a_filter(tmp_path: Path) -> None:
    choices = Choices(tmp_path)

    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"light")
        await run.pilot.pause()
        assert run.app.theme == "light"
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert run.app.theme == "dark"
        assert not isinstance(run.app.screen, ThemePicker)
        assert run.app.focused is run.app.parts.prompt
        assert choices.theme == ""

    drive(test, choices=choices)


def test_a_filter_that_finds_nothing_shows_the_old_theme() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"lightzz")
        await run.pilot.pause()
        assert run.app.theme == "dark"

    drive(test)


def test_a_theme_named_needs_no_picker() -> None:
    async def test(run: Running) -> None:
        await run.send("/theme light")
        assert run.app.theme == "light"
        await run.send("/theme lihgt")
        assert "Did you mean light?" in run.text

    drive(test)
