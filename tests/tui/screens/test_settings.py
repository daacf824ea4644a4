"""The settings screen, over real files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Static

from qcode.agent.settings import SettingsService
from qcode.cli.arguments import parse
from qcode.cli.context import run_context
from qcode.config.saved_choices import Choices
from qcode.config.schema import KEYS
from qcode.tui.screens.settings import LABELS, SettingsScreen, value_text
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation

FILE = '# mine\n[ui]\nbell = false  # quiet\n\n[providers.lab]\ntype = "openai"\nbase_url = "http://localhost:1/v1"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    for variable in ("QCODE_MODEL", "QCODE_MAX_OUTPUT_TOKENS"):
        monkeypatch.delenv(variable, raising=False)
    found = tmp_path / "home" / "config.toml"
    found.parent.mkdir()
    found.write_text(FILE)
    return found


def configuring(file: Path, *argv: str) -> SettingsService:
    project = file.parent.parent / "project"
    project.mkdir(exist_ok=True)
    return SettingsService(run_context(parse([*argv, "--trust"]), project, is_attended=True))


def play(
    test: Callable[[Running, SettingsScreen], Awaitable[None]],
    source: SettingsService,
    expected: str = "",
    size: tuple[int, int] = (80, 24),
) -> None:
    async def body(run: Running) -> None:
        await run.send(f"/config {expected}".rstrip())
        await run.until(lambda: isinstance(run.app.screen, SettingsScreen))
        await run.pilot.pause()
        screen = run.app.screen
        assert isinstance(screen, SettingsScreen)
        await test(run, screen)

    drive(body, ScriptedConversation(), size=size, settings=source)


def about(screen: SettingsScreen) -> str:
    return " ".join(str(screen.query_one("#setting-about", Static).content).split())


def cells(screen: SettingsScreen, name: str) -> tuple[str, ...]:
    return next(row.cells for row in screen.rows if row.id == name)


def test_every_setting_is_listed_with_value_and_origin(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        assert cells(screen, "ui.bell") == ("false", "yours")
        assert cells(screen, "ui.theme") == ("light", "--theme")
        assert cells(screen, "network.max_retries") == ("5", "default")
        assert any(row.id == "providers.lab.base_url" and row.is_dim for row in screen.rows)

    play(test, configuring(file, "--theme", "light"))


def test_screen_and_permissions_come_first_in_words(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        rows = [(row.group, row.label, row.id) for row in screen.rows]
        assert rows[0] == ("Screen and prompt", "Theme", "ui.theme")
        groups = list(dict.fromkeys(group for group, _, _ in rows))
        assert groups[:3] == ["Screen and prompt", "Permissions", "Model"]
        assert len(groups) == len({*groups}), "every group is in one place"
        assert "Vim keys in the prompt" in run.screen
        await run.pilot.press(*"ui.vim")
        await run.pilot.pause()
        assert screen.rows[0].id == "ui.vim", "the name of the key finds it"
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert run.status.startswith("INSERT")
        assert "vim = true" in file.read_text()

    play(test, configuring(file))


def test_every_setting_has_a_label() -> None:
    assert {key.name for key in KEYS if not {"*", "COMMAND"} & {*key.path}} == LABELS.keys()
    assert len({*LABELS.values()}) == len(LABELS)


def test_setting_that_is_not_set_shows_what_applies(file: Path) -> None:
    values = {setting.name: value_text(setting) for setting in configuring(file).settings()}
    assert not [name for name, value in values.items() if value in ("(not set)", "(none)", "")]
    assert values["tools.tool_timeout_s"] == "per tool"
    assert values["sessions.retention_days"] == "never"
    assert values["permissions.mode"] == "ask"


def test_boolean_setting_toggles_in_the_file_and_applies_at_once(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        await run.pilot.press("enter")
        await run.pilot.pause()
        rings.append(run.app.terminal_title.has_bell)
        assert file.read_text() == FILE.replace("bell = false", "bell = true")
        assert about(screen) == "ui.bell = true; it applies now."
        await run.pilot.press("right")
        assert file.read_text() == FILE
        rings.append(run.app.terminal_title.has_bell)

    rings: list[bool | None] = []
    play(test, configuring(file), "ui.bell")
    assert rings == [True, False]


def test_choices_cycle_back_to_the_default(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        seen = []
        for key in ("right", "right", "right", "left", "ctrl+x"):
            await run.pilot.press(key)
            await run.pilot.pause()
            seen.append(cells(screen, "ui.show_thinking"))
        expanded, hidden, folded = ("expanded", "yours"), ("hidden", "yours"), ("folded", "yours")
        assert seen == [expanded, hidden, folded, hidden, ("folded", "default")]
        assert run.app.widgets.transcript.content.thinking == "folded"
        assert file.read_text() == FILE

    play(test, configuring(file), "ui.show_thinking")


def test_number_is_typed_and_a_wrong_one_is_refused_in_place(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        await run.pilot.press("enter", *"-3", "enter")
        await run.pilot.pause()
        assert "a whole number of at least 0" in about(screen)
        assert file.read_text() == FILE
        await run.pilot.press("ctrl+u", *"12", "left", "1", "enter")
        await run.pilot.pause()
        assert cells(screen, "network.max_retries") == ("112", "yours")
        assert about(screen) == "network.max_retries = 112; it applies after a restart."
        await run.pilot.press("enter", "ctrl+u", "enter")
        await run.pilot.pause()
        assert cells(screen, "network.max_retries") == ("5", "default")

    play(test, configuring(file), "network.max_retries")


@pytest.mark.parametrize(("number", "typed"), [("30.0", "30"), ("0.3000001", "0.3000001"), ("1234567.5", "1234567.5")])
def test_number_in_the_file_is_offered_for_editing_without_rounding(file: Path, number: str, typed: str) -> None:
    file.write_text(f"[tools]\ntool_timeout_s = {number}\n")
    (setting,) = [found for found in configuring(file).settings() if found.name == "tools.tool_timeout_s"]
    assert setting.typed_value == typed


def test_text_in_the_file_is_offered_for_editing_unchanged(file: Path) -> None:
    file.write_text('model = "local/llama-3.0"\n')
    (setting,) = [found for found in configuring(file).settings() if found.name == "model"]
    assert setting.typed_value == "local/llama-3.0"


def test_all_keys_are_named_on_a_small_screen(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        await run.pilot.resize_terminal(40, 20)
        await run.until(lambda: "Ctrl+X default" in run.screen and "↑↓ move" in run.screen)
        assert "Settings" in run.screen

    play(test, configuring(file), "ui.theme")


def test_escape_closes_the_field_and_then_the_screen(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        assert "Enter change  ·  Esc close" in run.screen
        await run.pilot.press("enter", "9")
        await run.until(lambda: "Enter save  ·  Esc cancel" in run.screen)
        await run.pilot.press("escape")
        await run.until(lambda: "Enter change  ·  Esc close" in run.screen)
        assert run.app.screen is screen
        assert cells(screen, "network.max_retries") == ("5", "default")
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)

    play(test, configuring(file), "network.max_retries")


def test_overridden_setting_names_the_flag(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        await run.pilot.press("right")
        await run.pilot.pause()
        assert '--theme takes precedence over your file: ui.theme is still "light"' in about(screen)
        assert "theme = " in file.read_text()

    play(test, configuring(file, "--theme", "light"), "ui.theme")


def test_lists_and_tables_are_edited_in_an_editor(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        for key in ("enter", "right", "ctrl+x"):
            await run.pilot.press(key)
        await run.pilot.pause()
        assert "edit it in" in about(screen)
        assert file.read_text() == FILE

    play(test, configuring(file), "permissions.allow")


def test_mode_changes_at_once_unless_only_a_flag_may_set_it(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        assert (run.conversation.mode, cells(screen, "permissions.mode")[0]) == ("default", "ask")
        await run.pilot.press("right")
        await run.pilot.pause()
        assert (run.conversation.mode, cells(screen, "permissions.mode")[0]) == ("accept-edits", "accept-edits")
        await run.pilot.press("right")
        await run.pilot.pause()
        assert (run.conversation.mode, cells(screen, "permissions.mode")[0]) == ("accept-edits", "auto")
        assert "after a restart" in about(screen)

    play(test, configuring(file), "permissions.mode")


def test_search_covers_the_descriptions(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        await run.pilot.press(*"ring", "space", *"turn")
        await run.pilot.pause()
        assert screen.rows[0].id == "ui.bell"

    play(test, configuring(file), size=(40, 20))


def test_project_file_is_shown_and_never_written(file: Path) -> None:
    project = file.parent.parent / "project" / ".qcode" / "config.toml"
    project.parent.mkdir(parents=True)
    project.write_text("[ui]\nmouse = false\n")

    async def test(run: Running, screen: SettingsScreen) -> None:
        assert cells(screen, "ui.mouse") == ("false", "project")
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert project.read_text() == "[ui]\nmouse = false\n"
        assert "mouse = true" in file.read_text()
        assert "takes precedence over your file" in about(screen)

    play(test, configuring(file), "ui.mouse")


def test_invalid_file_is_reported_and_no_screen_opens(file: Path) -> None:
    source = configuring(file)
    file.write_text("[ui\n")

    async def test(run: Running) -> None:
        await run.send("/config")
        await run.pilot.pause()
        assert "not valid TOML" in run.text
        assert len(run.app.screen_stack) == 1

    drive(test, settings=source)


def test_setting_can_be_changed_by_a_typed_command(file: Path) -> None:
    async def test(run: Running) -> None:
        await run.send("/config ui.bell true")
        assert run.app.terminal_title.has_bell
        assert "ui.bell = true; it applies now." in run.text
        await run.send("/config ui.bxll")
        assert "Did you mean ui.bell?" in run.text
        await run.type_over("/config ui.bell perhaps")
        assert run.text.endswith("! ui.bell must be true or false.")

    drive(test, settings=configuring(file))


def test_unknown_theme_is_not_written(file: Path) -> None:
    async def test(run: Running) -> None:
        await run.send("/config ui.theme drak")
        await run.pilot.pause()
        assert 'Unknown theme "drak". Did you mean dark?' in run.text
        assert file.read_text() == FILE

    drive(test, ScriptedConversation(), settings=configuring(file))


def test_description_keeps_the_name_of_the_setting_on_a_narrow_screen(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        rows = [row.strip(" ▌") for row in run.screen.split("\n")]
        assert any(row.startswith("output.learn_first_cap · ") for row in rows), run.screen

    play(test, configuring(file), "output.learn_first_cap", size=(40, 20))


def test_removed_setting_is_reported_as_not_set(file: Path) -> None:
    async def test(run: Running, screen: SettingsScreen) -> None:
        await run.pilot.press("ctrl+x")
        await run.pilot.pause()
        assert about(screen) == "ui.bell is no longer set; the default applies now."

    play(test, configuring(file), "ui.bell")


def test_removed_theme_gives_way_to_the_last_choice_immediately(file: Path) -> None:
    file.write_text('ui.theme = "light"\n', encoding="utf-8")

    async def test(run: Running, screen: SettingsScreen) -> None:
        state_dir = file.parent / "state"
        Choices(state_dir).save_theme("gruvbox-dark")
        paths = replace(run.app.context.paths, state_dir=state_dir)
        run.app.context = replace(run.app.context, paths=paths)
        run.app.apply_theme("light")
        await run.pilot.press("ctrl+x")
        await run.until(lambda: about(screen) == "ui.theme is no longer set; the default applies now.")
        assert run.app.theme == "gruvbox-dark"

    play(test, configuring(file), "ui.theme")


def test_theme_of_a_flag_is_not_announced_for_the_next_start(file: Path) -> None:
    async def test(run: Running) -> None:
        await run.send("/theme light")
        await run.until(lambda: "Theme: light." in run.text)

    drive(test, settings=configuring(file, "--theme", "dark"))


def test_theme_that_does_not_last_or_show_says_why(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('ui.theme = "dark"\n', encoding="utf-8")

    async def test(run: Running) -> None:
        await run.send("/theme light")
        await run.until(lambda: "next start" in run.text)
        text = " ".join(run.text.split())
        assert "Theme: light, for this session; ui.theme (config.toml) sets dark at the next start." in text
        await run.send("/theme dark")
        await run.until(lambda: "Theme: dark." in run.text)
        monkeypatch.setattr(type(run.app), "has_few_colors", True)
        await run.send("/theme light")
        await run.until(lambda: "light (needs 256 colors; this terminal has 16 or fewer)" in " ".join(run.text.split()))

    drive(test, settings=configuring(file), choices=Choices(file.parent))
