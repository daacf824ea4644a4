"""Vim mode in the prompt of the app: its keys, Esc, the mode in view, labels, history, paste, narrow screens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events

from qcode.protocol.reply import TextDelta
from qcode.tui.prompt.history import HistorySearch
from qcode.tui.prompt.menu import CompletionMenu
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation

BIG = "row\n" * 50
LABEL = "[Pasted text #1 +50 lines]"


def drive_vim(
    test: Callable[[Running], Awaitable[None]], conversation: ScriptedConversation | None = None, **given: Any
) -> None:
    drive(test, conversation, vim=True, **given)


async def press(run: Running, *keys: str) -> str:
    await run.pilot.press(*keys)
    await run.pilot.pause()
    return run.app.widgets.prompt.text


async def normal(run: Running, text: str, cursor: tuple[int, int] = (0, 0)) -> None:
    """Type a text and enter normal mode, with the cursor at `cursor`."""
    await run.type(text)
    await press(run, "escape")
    run.clock.now += 1
    run.app.widgets.prompt.move_cursor(cursor)
    await run.pilot.pause()


async def paste(run: Running, text: str) -> None:
    run.app.widgets.prompt.post_message(events.Paste(text))
    await run.pilot.pause()


def is_open(widget: CompletionMenu | HistorySearch) -> bool:
    return widget.is_open


def cursor(run: Running) -> tuple[int, int]:
    return run.app.widgets.prompt.cursor_location


def test_prompt_without_vim_mode_types_letters_and_shows_no_mode() -> None:
    async def test(run: Running) -> None:
        await press(run, "escape")
        assert await press(run, *"dw") == "dw"
        assert "INSERT" not in run.screen

    drive(test)


def test_vim_mode_begins_in_insert_mode_and_shows_each_mode_under_the_prompt() -> None:
    async def test(run: Running) -> None:
        assert run.status.startswith("INSERT")
        assert await press(run, *"one two") == "one two"
        await press(run, "escape")
        assert run.status.startswith("NORMAL")
        await press(run, "2", "d")
        assert run.status.startswith("NORMAL 2d")
        await press(run, "escape", "v")
        assert run.status.startswith("VISUAL ")
        await press(run, "V")
        assert run.status.startswith("VISUAL LINE")
        await press(run, "escape", "i")
        assert run.status.startswith("INSERT")

    drive_vim(test)


def test_commands_edit_the_prompt() -> None:
    async def test(run: Running) -> None:
        await normal(run, "one two three")
        assert await press(run, *"dw") == "two three"
        assert await press(run, "w", "c", "i", "w", *"four", "escape") == "two four"
        assert await press(run, "b", "b", ".") == "four four"
        assert await press(run, "u", "u", "u") == "one two three"
        assert await press(run, "ctrl+r") == "two three"
        assert await press(run, "$", "left", "left", "left", "x") == "two tree"

    drive_vim(test)


def test_letters_without_a_meaning_are_not_typed_in_normal_mode() -> None:
    async def test(run: Running) -> None:
        await normal(run, "text")
        assert await press(run, *"qZzH&") == "text"
        assert run.status.startswith("NORMAL")

    drive_vim(test)


def test_escape_in_insert_mode_never_interrupts_a_turn_and_in_normal_mode_does() -> None:
    gate = Gate()
    conversation = ScriptedConversation([TextDelta(0, "half a sen"), gate])

    async def test(run: Running) -> None:
        await run.send("work")
        await gate.reached.wait()
        assert run.status.startswith("INSERT")
        await press(run, *"more", "escape")
        assert run.app.turns.is_running
        await press(run, "escape")
        assert run.app.turns.is_running, "a second Esc out of habit interrupts nothing"
        run.clock.now += 1
        await press(run, "v", "escape")
        assert run.app.turns.is_running
        run.clock.now += 1
        await press(run, "escape")
        await run.until_idle()
        assert run.app.widgets.prompt.text == "more"

    drive_vim(test, conversation)


def test_escape_never_clears_the_prompt_in_vim_mode() -> None:
    async def test(run: Running) -> None:
        await normal(run, "a draft")
        for _ in range(4):
            run.clock.now += 1
            assert await press(run, "escape", "escape") == "a draft"

    drive_vim(test)


def test_enter_sends_in_every_mode_and_the_next_prompt_begins_in_insert_mode() -> None:
    async def test(run: Running) -> None:
        await normal(run, "first")
        await press(run, "enter")
        await run.until_idle()
        assert run.conversation.prompts == ["first"]
        assert run.status.startswith("INSERT")
        assert await press(run, *"second") == "second"
        await press(run, "escape", "u")
        assert run.app.widgets.prompt.text == "", "undo does not bring back what was sent"

    drive_vim(test)


def test_slash_at_and_bang_begin_typing_in_an_empty_prompt() -> None:
    async def test(run: Running) -> None:
        for key in "/!@":
            await press(run, "escape")
            run.clock.now += 1
            assert await press(run, key, "h") == f"{key}h"
            assert run.status.startswith("INSERT")
            await press(run, "backspace", "backspace")

    drive_vim(test)


def test_slash_menu_opens_while_typing_and_escape_closes_it_into_normal_mode() -> None:
    async def test(run: Running) -> None:
        await press(run, *"/he")
        assert is_open(run.app.widgets.menu)
        await press(run, "escape")
        assert not is_open(run.app.widgets.menu)
        assert run.status.startswith("NORMAL")
        assert await press(run, "h", "l") == "/he"
        assert not is_open(run.app.widgets.menu)

    drive_vim(test)


def test_j_and_k_move_in_the_text_and_recall_prompts_at_its_edges() -> None:
    async def test(run: Running) -> None:
        await run.send("older")
        await run.until_idle()
        await normal(run, "one\ntwo", (0, 1))
        await press(run, "j")
        assert cursor(run) == (1, 1)
        await press(run, "k")
        assert cursor(run) == (0, 1)
        assert await press(run, "k") == "older"
        assert run.status.startswith("NORMAL")
        assert cursor(run) == (0, 4)
        assert await press(run, "j") == "one\ntwo"
        assert await press(run, "g", "g", "d", "k") == "one\ntwo", "an operator does not recall"

    drive_vim(test)


def test_label_is_one_character_for_every_command() -> None:
    async def test(run: Running) -> None:
        await run.type("see ")
        await paste(run, BIG)
        await run.type(" now")
        await press(run, "escape", "0")
        assert await press(run, "w", "x") == "see  now"
        assert await press(run, "u") == f"see {LABEL} now"
        assert cursor(run) == (0, 4)
        await press(run, "l")
        assert cursor(run) == (0, 4 + len(LABEL))
        assert await press(run, "h", "y", "l", "$", "p") == f"see {LABEL} now{LABEL}"
        await press(run, "enter")
        await run.until_idle()
        assert run.conversation.prompts == [f"see {BIG} now{BIG}"]

    drive_vim(test)


def test_wide_characters_and_accents_are_one_character_for_commands() -> None:
    async def test(run: Running) -> None:
        await normal(run, "e\u0301a👨\u200d👩\u200d👧b日本\nabcdefgh", (0, 0))
        await press(run, "l", "l")
        assert cursor(run) == (0, 3)
        await press(run, "j")
        assert cursor(run) == (1, 2)
        await press(run, "$", "k")
        assert await press(run, "x") == "e\u0301a👨\u200d👩\u200d👧b日\nabcdefgh"
        assert await press(run, "0", "x", "l", "x") == "ab日\nabcdefgh"
        assert await press(run, "u", "u") == "e\u0301a👨\u200d👩\u200d👧b日\nabcdefgh"

    drive_vim(test)


def test_cursor_of_normal_mode_rests_on_a_character_after_moves_outside_vim() -> None:
    async def test(run: Running) -> None:
        await normal(run, "one\n\nthree")
        prompt = run.app.widgets.prompt
        prompt.move_cursor((0, 3))
        assert cursor(run) == (0, 2)
        prompt.move_cursor((1, 0))
        assert cursor(run) == (1, 0)
        await press(run, "ctrl+e", "down", "ctrl+e")
        assert cursor(run) == (2, 4)
        await press(run, "a")
        assert cursor(run) == (2, 5)

    drive_vim(test)


def test_selection_by_mouse_or_shift_continues_in_visual_mode() -> None:
    async def test(run: Running) -> None:
        await normal(run, "one two three", (0, 4))
        await press(run, "shift+right", "shift+right", "shift+right")
        assert run.app.widgets.prompt.selected_text == "two"
        assert await press(run, "U") == "one TWO three"
        prompt = run.app.widgets.prompt
        prompt.selection = type(prompt.selection)((0, 7), (0, 4))
        assert await press(run, "d") == "one  three"

    drive_vim(test)


def test_selected_line_end_does_not_mark_the_empty_line_below_it() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await paste(run, "ab\n\ncd")
        await normal(run, "", (0, 0))
        await press(run, "v", "$")
        assert [prompt.get_line(row).plain for row in range(3)] == ["ab", "", "cd"]
        await press(run, "j")
        assert [prompt.get_line(row).plain for row in range(3)] == ["ab", " ", "cd"]

    drive_vim(test)


def test_visual_selection_is_painted_copied_and_left_by_ctrl_c() -> None:
    async def test(run: Running) -> None:
        await normal(run, "one two\n\nlast line", (0, 4))
        await press(run, "v", "j", "j")
        prompt = run.app.widgets.prompt
        assert prompt.selected_text == "two\n\nlast "
        painted = [prompt.get_line(row).spans for row in range(3)]
        assert all(painted), painted
        await press(run, "ctrl+c")
        assert run.app.clipboard == "two\n\nlast "
        assert run.status.startswith("NORMAL") or "copied" in run.status
        assert prompt.get_line(0).spans == []
        await press(run, "V")
        assert prompt.selected_text == "last line"
        await press(run, "escape")
        assert prompt.get_line(2).spans == []

    drive_vim(test)


def test_paste_is_inserted_in_every_mode_and_undone() -> None:
    async def test(run: Running) -> None:
        await normal(run, "one two", (0, 4))
        await paste(run, "pasted ")
        assert run.app.widgets.prompt.text == "one pasted two"
        assert run.status.startswith("NORMAL")
        assert await press(run, "u") == "one two"
        await press(run, "v", "e")
        await paste(run, "again ")
        assert run.status.startswith("NORMAL")
        assert await press(run, "u") == "one two"

    drive_vim(test)


def test_ctrl_z_in_insert_mode_undoes_typed_text() -> None:
    async def test(run: Running) -> None:
        await normal(run, "one")
        await press(run, "A", *" two")
        assert await press(run, "ctrl+z") == "one"
        assert run.status.startswith("INSERT")
        assert await press(run, "alt+z") == "one two"
        assert await press(run, "!") == "one two!"

    drive_vim(test)


def test_ctrl_r_searches_the_history_while_typing_and_redoes_in_normal_mode() -> None:
    async def test(run: Running) -> None:
        await run.send("needle")
        await run.until_idle()
        await press(run, "ctrl+r", *"need")
        assert is_open(run.app.widgets.history_search)
        await press(run, "escape")
        assert not is_open(run.app.widgets.history_search)
        assert run.status.startswith("INSERT"), "Esc leaves the search only"
        await normal(run, "one")
        await press(run, "x", "u")
        assert await press(run, "ctrl+r") == "ne"
        assert not is_open(run.app.widgets.history_search)

    drive_vim(test)


def test_vim_command_switches_and_writes_the_setting(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await run.send("/vim")
        await run.pilot.pause()
        assert run.status.startswith("INSERT")
        assert "Vim mode on" in run.text
        assert "vim = true" in (tmp_path / "config.toml").read_text()
        await run.send("/vim")
        await run.pilot.pause()
        assert not run.status.startswith("INSERT")
        assert "vim = false" in (tmp_path / "config.toml").read_text()
        assert await press(run, "escape", "x") == "x"

    drive(test, config_dir=tmp_path)


def test_resize_in_visual_mode_keeps_the_selection_and_40_columns_show_the_mode() -> None:
    async def test(run: Running) -> None:
        await normal(run, "word " * 40, (0, 5))
        await press(run, "v", "3", "w")
        before = run.app.widgets.prompt.selected_text
        for size in ((40, 20), (20, 6), (160, 50), (40, 12)):
            await run.pilot.resize_terminal(*size)
            await run.pilot.pause()
            assert run.app.widgets.prompt.selected_text == before
        assert run.status.startswith("VISUAL")
        assert await press(run, "d") == "word " + "ord " + "word " * 35

    drive_vim(test)


@pytest.mark.broad
def test_huge_prompt_stays_editable() -> None:
    async def test(run: Running) -> None:
        await normal(run, "日本 word (pair)\n" * 4_000)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await press(run, "G", "d", "d", "g", "g", "d", "a", "p", "u", "v", "j", "d", "u", "i", "x", "escape", "u")
        assert loop.time() - started < 10
        assert run.app.widgets.prompt.document.line_count == 4_000

    drive_vim(test)


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_question_changes_neither_the_prompt_nor_its_vim_mode(size: tuple[int, int]) -> None:
    async def test(run: Running) -> None:
        await normal(run, "a draft", (0, 2))
        await press(run, "f1")
        await press(run, "escape")
        assert run.status.startswith("NORMAL")
        assert run.app.widgets.prompt.text == "a draft"

    drive_vim(test, size=size)
