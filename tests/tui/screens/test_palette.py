"""The palette: commands, and then their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from qcode.config.definitions import CustomCommand
from qcode.config.saved_choices import Choices
from qcode.tui.screens.models import ModelPicker
from qcode.tui.screens.palette import ArgumentPicker, PalettePicker
from tests.tui.harness import Running, drive
from tests.tui.scripted_models import FULL, ScriptedModelsService


async def opened(run: Running) -> PalettePicker:
    await run.pilot.press("ctrl+p")
    await run.until(lambda: isinstance(run.app.screen, PalettePicker))
    await run.pilot.pause()
    screen = run.app.screen
    assert isinstance(screen, PalettePicker)
    return screen


def painted(run: Running) -> str:
    return "\n".join("".join(segment.text for segment in strip) for strip in run.app.screen._compositor.render_strips())


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_commands_are_listed_with_their_typed_form(size: tuple[int, int]) -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"switch", "space", *"theme")
        await run.pilot.pause()
        assert "Switch the theme" in painted(run)
        assert "/theme" in painted(run)

    drive(test, size=size)


def test_palette_shows_the_users_own_keys() -> None:
    async def test(run: Running) -> None:
        picker = await opened(run)
        assert next(row.cells for row in picker.rows if row.id == "fold") == ("Ctrl+Y",)

    drive(test, keys={"fold": "ctrl+y"})


def test_recent_commands_come_first_in_the_next_run(tmp_path: Path) -> None:
    usage = Choices(tmp_path)

    async def use(run: Running) -> None:
        await run.send("/copy")
        await run.send("/clear")

    async def look(run: Running) -> None:
        picker = await opened(run)
        assert [row.id for row in picker.rows[:2]] == ["clear", "copy"]
        await run.pilot.press("down", "enter")
        await run.until(lambda: "No reply to copy" in run.text)
        assert usage.recent_commands == ("copy", "clear")

    drive(use, choices=usage)
    drive(look, choices=usage)


def test_command_with_choices_asks_for_one() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"/help", "enter")
        await run.until(lambda: isinstance(run.app.screen, ArgumentPicker))
        await run.pilot.press(*"demo", "enter")
        await run.until(lambda: run.app.widgets.help.is_open)
        assert run.app.widgets.help.heading == "Demo model"

    drive(test)


def test_command_with_an_optional_argument_runs_without_one() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"/help", "enter")
        await run.until(lambda: isinstance(run.app.screen, ArgumentPicker))
        await run.pilot.press("enter")
        await run.until(lambda: run.app.widgets.help.is_open)
        assert run.app.widgets.help.heading == "Help"

    drive(test)


def test_command_with_a_screen_opens_it() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"/model", "enter")
        await run.until(lambda: isinstance(run.app.screen, ModelPicker))

    drive(test, models=ScriptedModelsService(*FULL))


def test_command_that_needs_an_argument_is_put_into_the_prompt() -> None:
    async def test(run: Running) -> None:
        await run.type("half a thought")
        await opened(run)
        await run.pilot.press(*"/rename", "enter")
        await run.until(lambda: run.app.widgets.prompt.text == "/rename ")
        await run.pilot.press("ctrl+c", "up")
        assert run.app.widgets.prompt.text in ("/rename ", "half a thought")

    drive(test)


def test_custom_commands_are_listed() -> None:
    command = CustomCommand("fix:it", "Fix it.", Path("fix.toml"), "Fixes [it]")

    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"/fix:it", "enter")
        await run.until(lambda: bool(run.conversation.prompts))
        assert run.conversation.prompts == ["Fix it."]

    drive(test, commands=(command,))


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_closing_runs_nothing(key: str) -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(key)
        await run.until(lambda: len(run.app.screen_stack) == 1)
        assert run.app.focused is run.app.widgets.prompt

    drive(test)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("typed", "first"), [("mo", "model"), ("th", "theme"), ("/di", "diff"), ("exp", "export"), ("back", "background")]
)
def test_command_whose_name_starts_with_the_filter_comes_first(typed: str, first: str) -> None:
    async def test(run: Running) -> None:
        picker = await opened(run)
        picker.finder.query_one("SteadyInput", Input).value = typed
        await run.pilot.pause()
        assert picker.rows[0].id == first

    drive(test)


def test_whole_description_of_the_highlighted_command_is_shown() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+p")
        await run.pilot.pause()
        await run.pilot.press(*"suspend")
        await run.pilot.pause()
        text = " ".join(run.screen.replace("▌", " ").split())
        assert "If the prompt has changes to undo, Ctrl+Z undoes them first." in text

    drive(test)
