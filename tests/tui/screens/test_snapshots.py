"""Snapshots of the screens, dark, light and narrow, with their readable text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from textual.pilot import Pilot

from qcode.agent.settings import Setting, SettingsService
from qcode.tui.app import QcodeApp
from qcode.tui.screens.picker import ListScreen
from tests.tui.harness import make_app, until_ready
from tests.tui.scripted import ScriptedConversation
from tests.tui.scripted_models import ANTHROPIC, FULL, ScriptedModelsService
from tests.tui.staged_app import WELCOME

Compare: TypeAlias = Callable[..., bool]

LOOKS = [
    pytest.param({}, (80, 24), id="dark"),
    pytest.param({"theme": "light"}, (100, 30), id="light"),
    pytest.param({}, (40, 20), id="narrow"),
]


def opened(command: str, seen: list[Any], *keys: str) -> Callable[[Pilot[int]], Awaitable[None]]:
    """Return a function that opens the screen of a command, presses keys and records the rows."""

    async def run(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, QcodeApp)
        await until_ready(app, pilot)
        app.action_command(command)
        while not isinstance(app.screen, ListScreen):
            await pilot.pause()
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert isinstance(app.screen, ListScreen)
        seen.extend(app.screen.rows)

    return run


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_palette_looks_as_recorded(snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]) -> None:
    app = make_app(ScriptedConversation(), **changes)
    seen: list[Any] = []
    assert snap_compare(app, run_before=opened("palette", seen, *"mod"), terminal_size=size)
    assert seen[0].id == "model"


class _Settings(SettingsService):
    """Three settings that cannot be changed by a test of looks."""

    file = "~/.config/qcode/config.toml"

    def __init__(self) -> None:
        """Read nothing."""

    def settings(self) -> tuple[Setting, ...]:
        own = "/home/you/.config/qcode/config.toml:3"
        return (
            Setting("model", '"anthropic/claude-sonnet-4-5"', "", own, "yours", "the model to start with", "x"),
            Setting("ui.bell", "true", True, "--bell", "--bell", "ring when a turn ends", choices=("true", "false")),
            Setting("permissions.allow", "[]", (), "default", "default", "what runs", fixed_reason="a list: edit it"),
        )

    def change(self, name: str, typed: str | None) -> Setting:
        raise ValueError(f"{name} must be true or false")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_settings_look_as_recorded(snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]) -> None:
    app = make_app(ScriptedConversation(), settings=_Settings(), **changes)
    seen: list[Any] = []
    assert snap_compare(app, run_before=opened("config", seen), terminal_size=size)
    assert [row.label for row in seen] == ["Bell and notifications", "Runs without asking", "Model"]


def test_setting_typed_and_refused_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation(), settings=_Settings())
    seen: list[Any] = []
    assert snap_compare(
        app, run_before=opened("config", seen, "down", "down", "enter", "y", "enter"), terminal_size=(60, 20)
    )
    assert [row.id for row in seen] == ["ui.bell", "permissions.allow", "model"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_model_picker_looks_as_recorded(snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]) -> None:
    conversation = ScriptedConversation(model="anthropic/claude-sonnet-4-5")
    conversation.thinking_models = (conversation.model,)
    welcome = replace(WELCOME, model_lines=(f"{conversation.model} ({ANTHROPIC.credential})",))
    app = make_app(conversation, models=ScriptedModelsService(*FULL, effort="high"), welcome=welcome, **changes)
    seen: list[Any] = []
    assert snap_compare(app, run_before=opened("model", seen), terminal_size=size)
    assert [row.id for row in seen if row.is_current] == [conversation.model]
    assert seen[-1].label == "/connect groq"
