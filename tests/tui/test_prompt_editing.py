"""Editing in the prompt: readline's keys, undo, graphemes, labels as one unit."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from qcode.protocol.messages import Text
from qcode.tui.prompt.editing import EDITING_KEYS, KillRing, grapheme_end, grapheme_start
from qcode.tui.prompt.labels import MAX_UNFOLDED_CHARS
from tests.tui.harness import Running, drive

FAMILY = "👨‍👩‍👧"
BIG = "row\n" * 50
LABEL = "[Pasted text #1 +50 lines]"


async def keys(run: Running, *pressed: str) -> str:
    await run.pilot.press(*pressed)
    await run.pilot.pause()
    return run.app.widgets.prompt.text


async def paste(run: Running, text: str) -> None:
    run.app.widgets.prompt.post_message(events.Paste(text))
    await run.pilot.pause()


def test_words_are_killed_and_yanked_as_in_a_shell() -> None:
    async def test(run: Running) -> None:
        await run.type("git commit --amend now")
        assert await keys(run, "ctrl+w", "ctrl+w") == "git commit "
        assert await keys(run, "ctrl+y") == "git commit --amend now"
        assert await keys(run, "alt+backspace") == "git commit --amend "
        assert await keys(run, "alt+backspace") == "git commit --"
        assert await keys(run, "ctrl+a", "alt+d") == " commit --"
        assert await keys(run, "ctrl+e", "ctrl+u") == ""
        assert await keys(run, "ctrl+y", "alt+y") == "git"
        assert await keys(run, "alt+y") == "amend now"

    drive(test)


def test_rest_of_a_line_is_killed_and_then_the_line_break() -> None:
    async def test(run: Running) -> None:
        await run.type("one\ntwo")
        run.app.widgets.prompt.move_cursor((0, 1))
        assert await keys(run, "ctrl+k") == "o\ntwo"
        assert await keys(run, "ctrl+k") == "otwo"
        assert await keys(run, "ctrl+y") == "one\ntwo"
        run.app.widgets.prompt.move_cursor((1, 0))
        assert await keys(run, "ctrl+u") == "onetwo"

    drive(test)


def test_cursor_moves_by_words_and_to_line_ends() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("alpha beta.gamma")
        seen = []
        for key in ("alt+b", "alt+b", "ctrl+left", "alt+f", "ctrl+right", "ctrl+a", "ctrl+e", "ctrl+b"):
            await run.pilot.press(key)
            seen.append(prompt.cursor_location[1])
        assert seen == [11, 6, 0, 5, 10, 0, 16, 15]

    drive(test)


@pytest.mark.parametrize("deletion", [("ctrl+u",), ("backspace",) * 5])
def test_ctrl_z_in_an_emptied_prompt_undoes_the_deletion(deletion: tuple[str, ...]) -> None:
    async def test(run: Running) -> None:
        await run.type("hello")
        assert await keys(run, *deletion) == ""
        assert await keys(run, "ctrl+z") == "hello"

    drive(test)


def test_undo_and_redo_cover_edits_completions_and_history() -> None:
    async def test(run: Running) -> None:
        await run.send("sent before")
        await run.until_idle()
        await run.type("draft")
        await run.pilot.press("up")
        assert run.app.widgets.prompt.text == "sent before"
        assert await keys(run, "ctrl+z") == "draft"
        assert await keys(run, "alt+z") == "sent before"
        assert await keys(run, "ctrl+underscore") == "draft"
        assert await keys(run, "ctrl+shift+z") == "sent before"

    drive(test)


def test_cursor_moves_by_grapheme() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type(f"a{FAMILY}e\u0301🇩🇪🇫🇷")
        for left in (f"a{FAMILY}e\u0301🇩🇪", f"a{FAMILY}e\u0301", f"a{FAMILY}", "a"):
            await run.pilot.press("backspace")
            assert prompt.text == left
        await run.type(f"{FAMILY}b")
        await run.pilot.press("left", "left")
        assert prompt.cursor_location == (0, 1)
        await run.pilot.press("right")
        assert prompt.cursor_location == (0, 1 + len(FAMILY))
        await run.pilot.press("left", "delete")
        assert prompt.text == "ab"

    drive(test)


NINE_LINES = "\n".join(f"line {number}" for number in range(9))
"""One line more than the prompt shows at 24 rows, so that it has a scroll bar."""


def test_undo_and_redo_keep_the_draft_when_the_scroll_bar_appears_and_disappears() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        has_bar = []
        await paste(run, NINE_LINES)
        has_bar.append(prompt.show_vertical_scrollbar)
        assert await keys(run, "ctrl+z") == ""
        has_bar.append(prompt.show_vertical_scrollbar)
        assert has_bar == [True, False]
        assert await keys(run, "alt+z") == NINE_LINES
        assert prompt.cursor_location == (8, 6)
        assert prompt.scroll_offset.y == 1
        await paste(run, "!")
        assert await keys(run, "ctrl+z", "ctrl+z", "alt+z", "alt+z") == NINE_LINES + "!"

    drive(test)


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
def test_mark_shows_that_rows_of_the_prompt_are_above_its_view(size: tuple[int, int]) -> None:
    async def test(run: Running) -> None:
        assert "› Ask" in run.screen
        run.app.widgets.prompt.post_message(events.Paste(NINE_LINES))
        await run.until(lambda: "↑ " in run.screen)
        assert "›" not in run.screen
        await run.pilot.press(*["up"] * 8)
        await run.until(lambda: "› line 0" in run.screen)
        await run.pilot.press("ctrl+end", "ctrl+u", "escape", "escape")
        await run.until(lambda: "› Ask" in run.screen)

    drive(test, size=size)


def test_undo_restores_a_recalled_prompt_and_the_draft_before_it_in_a_scrolled_prompt() -> None:
    async def test(run: Running) -> None:
        run.app.widgets.prompt.prompt_history.add(NINE_LINES)
        await run.type("draft")
        assert await keys(run, "up") == NINE_LINES
        await run.pilot.press("ctrl+a", "shift+down", "shift+down", "shift+end")
        assert await keys(run, "backspace") == "\n".join(NINE_LINES.splitlines()[3:]).join(("\n", ""))
        assert await keys(run, "ctrl+z") == NINE_LINES
        assert await keys(run, "ctrl+z") == "draft"

    drive(test)


def test_undo_works_in_a_prompt_that_was_scrolled_and_then_resized() -> None:
    async def test(run: Running) -> None:
        await paste(run, "\n".join("word " * 12 for _ in range(9)))
        for size in ((30, 12), (120, 50), (80, 24)):
            await run.pilot.resize_terminal(*size)
            await run.pilot.pause()
            assert await keys(run, "ctrl+z") == ""
            assert (await keys(run, "alt+z")).count("\n") == 8

    drive(test)


def test_cut_without_a_selection_removes_the_last_line() -> None:
    async def test(run: Running) -> None:
        await run.type("one\ntwo")
        assert await keys(run, "ctrl+x") == "one\n"
        assert run.app.clipboard == "two"
        assert await keys(run, "ctrl+x", "ctrl+x") == "one\n"
        assert await keys(run, "up", "ctrl+x", "ctrl+x") == ""
        assert await keys(run, "ctrl+underscore", "ctrl+z") == "one\ntwo"

    drive(test)


def test_alt_with_a_letter_is_a_key_in_terminals_that_report_the_letter_too() -> None:
    async def test(run: Running) -> None:
        async def press(letter: str) -> str:
            run.app.post_message(events.Key(f"alt+{letter}", letter))
            await run.pilot.pause()
            return run.app.widgets.prompt.text

        for text in ("one", "two"):
            await run.pilot.press(*text, "ctrl+u")
        assert await keys(run, "ctrl+y") == "two"
        assert await press("y") == "one"
        assert await keys(run, "ctrl+z") == "two"
        assert await press("z") == "one"
        assert await press("x") == "one"
        await press("b")
        assert await press("d") == ""

    drive(test)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
def test_no_sequence_of_editing_keys_fails_in_a_scrolled_prompt(seed: int) -> None:
    chosen = random.Random(seed)
    pressed = [key for names, *_ in EDITING_KEYS for key in names.split(",")[:1] if key not in ("up", "down")]

    async def test(run: Running) -> None:
        for number in range(60):
            if number % 6 == 0:
                text = "\n".join("word " * chosen.randint(0, 25) for _ in range(chosen.randint(1, 12)))
                await paste(run, text)
            await run.pilot.press(chosen.choice([*pressed, "ctrl+z", "ctrl+z", "alt+z", "shift+up", "shift+down"]))

    drive(test)


@given(st.text(st.sampled_from(list("aé\u0301\u200d👩👧🏽🇩🇪ש漢")), min_size=1, max_size=20))
def test_cursor_stops_at_the_same_positions_in_both_directions(line: str) -> None:
    right, left = [0], [len(line)]
    while right[-1] < len(line):
        right.append(grapheme_end(line, right[-1]))
    while left[-1] > 0:
        left.append(grapheme_start(line, left[-1]))
    assert right == left[::-1]


def test_cursor_moves_over_a_word_with_combining_marks_at_once() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("यह किताब cafe\u0301s")
        for column in (9, 3, 0):
            await run.pilot.press("alt+b")
            assert prompt.cursor_location == (0, column)
        for column in (2, 8, 15):
            await run.pilot.press("alt+f")
            assert prompt.cursor_location == (0, column)

    drive(test)


def test_label_is_skipped_and_deleted_as_one_character() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("see ")
        await paste(run, BIG)
        await run.type(" end")
        start, end = 4, 4 + len(LABEL)
        prompt.move_cursor((0, end))
        await run.pilot.press("left")
        assert prompt.cursor_location == (0, start)
        await run.pilot.press("right")
        assert prompt.cursor_location == (0, end)
        prompt.move_cursor((0, start + 3))
        assert prompt.cursor_location[1] in (start, end)
        for key, at in (
            ("backspace", end),
            ("ctrl+w", end),
            ("alt+backspace", end),
            ("delete", start),
            ("alt+d", start),
        ):
            prompt.move_cursor((0, at))
            assert await keys(run, key) == "see  end", key
            assert await keys(run, "ctrl+z") == f"see {LABEL} end"

    drive(test)


def test_double_click_selects_a_word_or_a_label_and_triple_click_the_line() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("open src/app.py now\nand ")
        await paste(run, BIG)
        for offset, times, selected in (
            ((8, 0), 2, "src/app.py"),
            ((8, 0), 3, "open src/app.py now"),
            ((10, 1), 2, LABEL),
            ((1, 1), 3, f"and {LABEL}"),
        ):
            await run.pilot.click(prompt, offset=offset, times=times)
            await run.pilot.pause()
            assert prompt.selected_text == selected

    drive(test)


def test_kill_through_a_label_removes_all_of_it() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await paste(run, BIG)
        await run.type("tail")
        prompt.selection = type(prompt.selection)((0, 5), (0, len(LABEL) + 1))
        assert await keys(run, "backspace") in ("ail", "il", f"{LABEL}ail")
        assert "[Pasted" not in prompt.text or prompt.text.startswith(LABEL)

    drive(test)


def test_word_kill_inside_a_label_removes_all_of_it() -> None:
    async def test(run: Running) -> None:
        await run.type("keep ")
        await paste(run, BIG)
        await run.type("tail")
        assert await keys(run, "ctrl+w") == "keep "
        assert await keys(run, "ctrl+y") == f"keep {LABEL}tail"

    drive(test)


def test_restored_label_keeps_its_text() -> None:
    async def test(run: Running) -> None:
        await paste(run, BIG)
        await run.pilot.press("backspace", "ctrl+underscore", "enter")
        await run.until_idle()
        assert run.conversation.prompts == [BIG]
        await run.pilot.press("up")
        assert run.app.widgets.prompt.text == LABEL
        await run.pilot.press("enter")
        await run.until_idle()
        assert run.conversation.prompts == [BIG, BIG]

    drive(test)


def test_paste_that_quotes_a_label_is_sent_unchanged() -> None:
    paste_text = "row\n" * 20 + "[Aside #1 which?] was here"

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        prompt.add_aside("which?", Text("The third."))
        await paste(run, paste_text)
        assert prompt.portable_text == paste_text
        await run.pilot.press("enter")
        await run.until_idle()
        assert run.conversation.prompts == [paste_text]

    drive(test)


def test_huge_text_is_put_back_folded() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        prompt.put_back("x" * (MAX_UNFOLDED_CHARS + 1))
        assert prompt.text == "[Pasted text #1 +100,001 chars]"

    drive(test)


def test_consecutive_kills_are_joined_until_other_input() -> None:
    ring = KillRing()
    ring.kill("b", is_backwards=True)
    ring.kill("a", is_backwards=True)
    ring.kill("c", is_backwards=False)
    assert ring.yank() == "abc"
    ring.end_run()
    ring.kill("d", is_backwards=False)
    assert (ring.yank(), ring.rotate(), ring.rotate()) == ("d", "abc", "d")


def test_control_characters_in_a_paste_are_removed_and_tabs_kept() -> None:
    async def test(run: Running) -> None:
        await paste(run, "a\tb\x1b[31mred\x1b[0m\x07\x00\r\nc")
        assert run.app.widgets.prompt.text == "a\tbred\nc"

    drive(test)


def test_huge_paste_is_collapsed_at_once_and_not_expanded_by_tab() -> None:
    huge = "x" * 5_000_000

    async def test(run: Running) -> None:
        await paste(run, huge)
        assert await keys(run, "tab") == "[Pasted text #1 +5,000,000 chars]"
        assert "too long to show here; Ctrl+G opens it" in run.status
        await run.pilot.press("enter")
        await run.until_idle()
        assert run.conversation.prompts == [huge]

    drive(test)


def test_terminal_cursor_follows_the_prompt() -> None:
    """Input methods draw at it; a resize and rows above or below the prompt move the prompt."""

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("hello")
        for size in ((60, 30), (100, 20)):
            await run.pilot.resize_terminal(*size)
            await run.until(lambda size=size: run.app.size == size)  # type: ignore[misc]  # bound now
            await run.pilot.pause()
            assert run.app.cursor_position == prompt.cursor_screen_offset
            assert run.app.cursor_position.y == size[1] - 2

    drive(test)
