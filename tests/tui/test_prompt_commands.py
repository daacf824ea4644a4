"""History search, the editor, taking back queued prompts, rewinding, custom commands, custom keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

from qcode.config.definitions import CustomCommand
from qcode.protocol.approvals import NO_OPTIONS, TurnOptions
from qcode.protocol.events import SteeringAdded
from qcode.tui.commands.command import Command
from qcode.tui.commands.help import help_text
from qcode.tui.commands.keymap import key_problems, keymap
from qcode.tui.commands.table import COMMANDS
from qcode.tui.prompt.editor import EditorError, edit_text, editor_command
from qcode.tui.prompt.history import PromptHistory
from tests.agent.context.folders import make_executable
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, ended, said, says

KEY = "gsk_" + "a1B2" * 13


def test_api_key_is_held_back_and_not_remembered_until_enter_is_pressed_again(tmp_path: Path) -> None:
    path = tmp_path / "h"

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.send(KEY)
        await run.until(lambda: "looks like an API key" in run.text)
        assert run.conversation.prompts == []
        assert KEY not in run.text
        assert prompt.text == KEY
        prompt.save_draft()
        assert not any(KEY in file.read_text() for file in tmp_path.rglob("*") if file.is_file())
        await run.pilot.press("enter")
        await run.until(lambda: run.conversation.prompts == [KEY])
        assert KEY not in prompt.prompt_history.entries

    drive(test, history_file=path)


def history_of(path: Path, *texts: str) -> Path:
    history = PromptHistory(path, "~/project")
    for text in texts:
        history.add(text)
    return path


def test_history_search_follows_the_typed_text(tmp_path: Path) -> None:
    path = history_of(tmp_path / "h", "fix the parser", "run tests", "Fix the docs", "say hello")

    async def test(run: Running) -> None:
        prompt, search = run.app.widgets.prompt, run.app.widgets.history_search
        await run.type("my draft")
        await run.pilot.press("ctrl+r", *"fix")
        assert prompt.text == "Fix the docs"
        await run.pilot.press("ctrl+r")
        assert prompt.text == "fix the parser"
        await run.pilot.press("down")
        assert prompt.text == "Fix the docs"
        await run.pilot.press("x")
        assert prompt.text == "my draft"
        await run.pilot.press("backspace")
        assert prompt.text == "Fix the docs"
        await run.pilot.press("escape")
        assert (prompt.text, search.is_open) == ("my draft", False)
        await run.pilot.press("ctrl+r", *"tests", "enter")
        assert (prompt.text, search.is_open) == ("run tests", False)
        assert run.conversation.prompts == []
        await run.pilot.press("enter")
        await run.until_idle()
        assert run.conversation.prompts == ["run tests"]

    drive(test, history_file=path)


@pytest.mark.parametrize("is_vim", [False, True])
def test_undo_after_a_history_search_restores_the_draft_in_one_step(tmp_path: Path, is_vim: bool) -> None:
    path = history_of(tmp_path / "h", "one two", "one", "two")

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("draft")
        prompt.use_vim(is_vim)
        for key in ("escape", "enter"):
            await run.pilot.press("ctrl+r", *"one", "ctrl+r", *" tw", key)
            assert prompt.text == ("draft" if key == "escape" else "one two")
        prompt.action_undo()
        assert prompt.text == "draft"

    drive(test, history_file=path)


def test_ctrl_c_cancels_the_search_and_a_cursor_key_accepts_the_match(tmp_path: Path) -> None:
    path = history_of(tmp_path / "h", "one two")

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("draft")
        await run.pilot.press("ctrl+r", *"one", "ctrl+c")
        assert prompt.text == "draft"
        await run.pilot.press("ctrl+r", *"one", "left", "X")
        assert prompt.text == "one twXo"

    drive(test, history_file=path)


def test_history_of_this_folder_comes_before_that_of_others(tmp_path: Path) -> None:
    path = tmp_path / "h"
    for folder, text in (("/a", "here 1"), ("/b", "there"), ("/a", "here 2"), ("/b", "here 1")):
        PromptHistory(path, folder).add(text)
    assert PromptHistory(path, "/a").entries == ("there", "here 1", "here 2")
    assert PromptHistory(path, "/b").entries == ("here 2", "there", "here 1")


def test_editor_is_taken_from_the_environment() -> None:
    assert editor_command({"VISUAL": "code --wait 'a b'", "EDITOR": "vi"}) == ("code", "--wait", "a b")
    assert editor_command({"VISUAL": " ", "EDITOR": "vi"}) == ("vi",)
    with pytest.raises(EditorError, match="unclosed quote"):
        editor_command({"EDITOR": "vi '"})
    with pytest.raises(EditorError, match="set VISUAL or EDITOR"):
        editor_command({"PATH": "/nowhere"})


def test_editor_file_is_private_markdown_and_deleted_afterwards(tmp_path: Path) -> None:
    script = make_executable(
        tmp_path / "ed",
        f'stat -c %a "$1" > {tmp_path}/mode; echo "$1" > {tmp_path}/name\n'
        'printf "%s\\r\\nmore\\n" "$(cat "$1")" > "$1"',
    )
    assert edit_text("ünï\ntext", (str(script),)) == "ünï\ntext\nmore"
    assert (tmp_path / "mode").read_text() == "600\n"
    path = Path((tmp_path / "name").read_text().strip())
    assert path.suffix == ".md"
    assert not path.exists()
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "ended with code 3"),
        ('rm "$1"', "cannot read the edited text"),
        ('printf "\\377" > "$1"', "not UTF-8"),
        ("kill -9 $$", "signal 9"),
    ],
)
def test_reason_of_an_editor_failure_is_shown(tmp_path: Path, script: str, why: str) -> None:
    with pytest.raises(EditorError, match=why):
        edit_text("x", (str(make_executable(tmp_path / "ed", script)),))
    with pytest.raises(EditorError, match="could not be started"):
        edit_text("x", (str(tmp_path / "missing"),))


def test_up_on_an_empty_prompt_recalls_the_last_queued_text() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, *says("done"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("first")
        await run.send("second")
        await run.pilot.press("up")
        await run.pilot.pause()
        assert run.app.widgets.prompt.text == "second"
        assert (conversation.steered, run.app.widgets.queue.typed_texts) == (["first"], ("first",))
        await run.pilot.press("ctrl+u", "up")
        await run.pilot.pause()
        assert run.app.widgets.prompt.text == "first"
        await run.pilot.press("ctrl+u", "up")
        await run.pilot.pause()
        assert run.app.widgets.prompt.text == "second"
        gate.open()
        await run.until_idle()
        assert conversation.prompts == ["go"]

    drive(test, conversation)


def test_text_typed_directly_after_up_is_kept_below_the_recalled_text() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, *says("done"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("queued")
        run.app.post_message(events.Key("up", None))
        run.app.post_message(events.Key("x", "x"))
        await run.until(lambda: not run.app.widgets.queue.typed_texts)
        assert run.app.widgets.prompt.text == "queued\nx"
        gate.open()
        await run.until_idle()

    drive(test, conversation)


def test_prompt_that_joined_the_turn_is_not_recalled() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, SteeringAdded("late"), *says("done"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("late")
        conversation.delivered_steering.add("late")
        await run.pilot.press("up")
        await run.pilot.pause()
        assert run.app.widgets.queue.typed_texts == ("late",)
        gate.open()
        await run.until_idle()
        assert conversation.prompts == ["go"]

    drive(test, conversation)


def test_queued_prompt_that_is_part_of_another_stays_queued() -> None:
    gate, taken = Gate(), Gate()
    conversation = ScriptedConversation([gate, SteeringAdded("also test it"), taken, *says("done"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("test")
        await run.send("also test it")
        gate.open()
        await taken.reached.wait()
        assert run.app.widgets.queue.typed_texts == ("test",)
        taken.open()
        await run.until(lambda: len(conversation.prompts) == 2)
        await run.until_idle()
        assert conversation.prompts[1] == "test"

    drive(test, conversation)


@pytest.mark.parametrize("has_rewind", [True, False])
def test_double_escape_on_an_empty_prompt_rewinds_if_the_command_exists(
    monkeypatch: pytest.MonkeyPatch, has_rewind: bool
) -> None:
    ran: list[str] = []
    rewind = Command("rewind", "Rewind", "Rewind.", lambda host, argument: ran.append(argument), ("rewind",))
    others = tuple(command for command in COMMANDS if command.id != "rewind")
    monkeypatch.setattr("qcode.tui.opening.COMMANDS", (*others, rewind) if has_rewind else others)

    async def test(run: Running) -> None:
        await run.pilot.press("escape")
        assert ("press Esc again to rewind" in run.status) is has_rewind
        await run.pilot.press("escape")
        assert ran == ([""] if has_rewind else [])

    drive(test, ScriptedConversation(messages=said("before")))


REVIEW = CustomCommand(
    "git:review", "Review {{args}}.", Path("review.toml"), "Review code", "[path]", "", {"max_tokens": 99}
)


def test_custom_command_is_in_menu_and_help_and_sends_its_prompt() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.type("/rev")
        assert [choice.left_column for choice in run.app.widgets.menu.choices] == ["/git:review [path]"]
        await run.pilot.press("tab")
        await run.type("src\nand tests")
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.prompts == ["Review src\nand tests."]
        assert conversation.options == [TurnOptions("", {"max_tokens": 99}, shown_prompt="/git:review src\nand tests")]
        assert "/git:review src" in run.text
        await run.send("/help git:review")
        await run.pilot.pause()
        assert run.app.widgets.help.heading == "/git:review [path]"

    drive(test, conversation, commands=(REVIEW,))


def test_custom_command_with_capitals_runs_in_any_case() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("/Git:Review src")
        await run.until_idle()
        await run.send("/git:review tests")
        await run.until_idle()
        assert conversation.prompts == ["Review src.", "Review tests."]

    drive(test, conversation, commands=(replace(REVIEW, name="Git:Review"),))


def test_command_with_its_own_settings_waits_for_the_end_of_the_turn() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, *says("one"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("/git:review src")
        await run.send("then this")
        await run.pilot.pause()
        assert conversation.steered == ["then this"]
        gate.open()
        await run.until(lambda: len(conversation.prompts) == 3)
        await run.until_idle()
        assert conversation.prompts == ["go", "Review src.", "then this"]
        assert [options == NO_OPTIONS for options in conversation.options] == [True, False, True]

    drive(test, conversation, commands=(REVIEW,))


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ({"copyy": "f8"}, "unknown command copyy; the nearest is copy"),
        ({"copy": "ctrl+"}, 'unknown key "ctrl+"'),
        ({"copy": "control+y"}, "unknown key"),
        ({"copy": "banana"}, 'unknown key "banana"'),
        ({"copy": "shift+1"}, 'invalid key "shift+1"; write the character that it types, such as "!" for Shift+1'),
        ({"copy": "Shift+?"}, 'invalid key "Shift+?"; write the character that it types'),
        ({"copy": "alt+Y"}, 'invalid key "alt+Y"; write alt+y or alt+shift+y'),
        ({"copy": "f8", "fold": "f8"}, "f8 is already the key of copy"),
        ({"copy": "alt+ctrl+x", "fold": "ctrl+alt+x"}, "is already the key of copy"),
    ],
)
def test_invalid_key_reports_reason(own: dict[str, str], problem: str) -> None:
    (found,) = key_problems(own, COMMANDS)
    assert problem in found[1]


def test_every_key_of_the_table_is_valid() -> None:
    assert list(key_problems({command.id: ",".join(command.keys) or "none" for command in COMMANDS}, COMMANDS)) == []


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("+", "plus"),
        ("Ctrl++", "ctrl+plus"),
        ("ctrl+alt++", "alt+ctrl+plus"),
        ("Y", "Y"),
        ("shift+y", "Y"),
        ("Shift+Ctrl+Y", "ctrl+shift+y"),
        ("Alt+Y", "alt+y"),
        ("alt+shift+y", "alt+shift+y"),
        ("shift+tab", "shift+tab"),
        ("!", "exclamation_mark"),
        ("Shift+F5", "shift+f5"),
    ],
)
def test_plus_and_capital_letters_can_be_keys(typed: str, key: str) -> None:
    assert list(key_problems({"copy": typed}, COMMANDS)) == []
    assert keymap({"copy": typed}, COMMANDS)["copy"] == (key,)


def test_rebound_key_is_removed_from_its_old_command() -> None:
    keys = keymap({"copy": "ctrl+o", "redraw": "none"}, COMMANDS)
    assert (keys["copy"], keys["fold"], keys["redraw"]) == (("ctrl+o",), (), ())
    assert keys["escape"] == ("escape",)


def test_help_and_history_search_name_rebound_keys(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await run.send("/help")
        await run.until(lambda: run.app.widgets.help.is_open)
        text = help_text(run.app.commands)
        assert text.endswith("\n\n? or F9 shows the keys. Ctrl+Y opens the palette.")
        await run.pilot.press("escape", "f8", *"tests")
        await run.until(lambda: "1 of 1 · F8 older · Enter select" in run.screen)

    keys = {"keys": "f9", "palette": "ctrl+y", "history-search": "f8"}
    drive(test, history_file=history_of(tmp_path / "h", "run tests"), keys=keys)


def test_rebound_key_runs_only_its_new_command() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+l")
        assert run.app.widgets.help.is_open

    drive(test, keys={"keys": "ctrl+l"})


@pytest.mark.parametrize(("columns", "row"), [(40, "  /model        Choose a model"), (80, "  /model [name]  ")])
def test_narrow_menu_shows_descriptions_instead_of_arguments(columns: int, row: str) -> None:
    async def test(run: Running) -> None:
        await run.type("/")
        await run.until(lambda: "/model" in run.screen)
        assert row in run.screen

    drive(test, size=(columns, 24))


def test_menu_shows_the_whole_help_of_a_highlighted_row_that_is_cut() -> None:
    async def test(run: Running) -> None:
        await run.type("/com")
        await run.until(lambda: "/compact" in run.screen)
        menu, text = run.app.widgets.menu, " ".join(run.screen.split())
        assert menu.chosen is not None
        assert "…" in text
        assert text.count(menu.chosen.help) == 1

    drive(test, size=(80, 20))


def test_menu_keeps_its_height_when_the_highlight_moves_to_a_row_that_is_not_cut() -> None:
    async def test(run: Running) -> None:
        await run.type("/co")
        await run.until(lambda: "/compact" in run.screen)
        menu = run.app.widgets.menu
        height = menu.size.height
        assert height == len(menu.choices) + 1
        await run.pilot.press("down")
        assert menu.chosen is not None
        assert (menu.chosen.label, menu.size.height) == ("/copy", height)
        assert " ".join(run.screen.split()).count(menu.chosen.help) == 1

    drive(test, size=(80, 20))


def test_menu_on_a_low_screen_has_no_rows_below_its_list() -> None:
    async def test(run: Running) -> None:
        await run.type("/co")
        await run.until(lambda: "/compact" in run.screen)
        menu = run.app.widgets.menu
        assert menu.size.height == len(menu.choices)

    drive(test, size=(80, 19))


def test_menu_follows_pointer_wheel_and_clicks() -> None:
    async def test(run: Running) -> None:
        await run.type("/mo")
        menu = run.app.widgets.menu
        assert menu.chosen is not None
        assert menu.chosen.label == "/model"
        await run.pilot.hover("#menu", offset=(5, 1))
        assert menu.chosen.label == "/mode"
        await run.pilot._post_mouse_events([events.MouseScrollUp], "#menu", offset=(5, 1))
        assert menu.chosen.label == "/model"
        await run.pilot._post_mouse_events([events.MouseScrollUp], "#menu", offset=(5, 1))
        assert menu.chosen.label == "/model", "the wheel does not wrap around"
        await run.pilot.click("#menu", offset=(5, 1))
        await run.pilot.pause()
        assert "Permission mode" in run.screen

    drive(test)


def test_placeholder_of_a_choice_is_not_sent() -> None:
    async def test(run: Running) -> None:
        await run.type("/permissions deny sh")
        await run.pilot.press("enter")
        assert run.app.widgets.prompt.text == "/permissions deny shell("
        await run.type("rm *)")
        await run.pilot.press("enter")
        await run.until(lambda: "deny shell(rm *) applies" in run.text)

    drive(test)


@pytest.mark.parametrize("rows", [12, 10, 8, 6])
def test_menu_leaves_rows_for_prompt_and_status_on_a_low_screen(rows: int) -> None:
    async def test(run: Running) -> None:
        def lines() -> list[str]:
            return [line.strip() for line in run.screen.split("\n")]

        await run.type("/")
        await run.until(lambda: any("Show the commands" in line for line in lines()))
        await run.until(lambda: lines()[-2] == "› /" and lines()[-1].startswith("ask"))
        await run.pilot.press(*["down"] * 9)
        await run.pilot.pause()
        chosen = run.app.widgets.menu.chosen
        assert chosen is not None
        assert any(line.startswith(f"› {chosen.label}") for line in lines())
        assert lines()[-2] == "› /"

    drive(test, size=(60, rows))
