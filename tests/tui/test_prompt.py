"""The prompt: pastes, history, completion, height."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual import events

from qcode.tui.prompt.history import PromptHistory
from qcode.tui.prompt.labels import Pastes, clean_paste
from qcode.tui.screens.palette import ThemePicker
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation


async def _paste(run: Running, text: str) -> None:
    run.app.widgets.prompt.post_message(events.Paste(text))
    await run.pilot.pause()


def test_paste_with_line_breaks_never_sends() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await _paste(run, "one\r\ntwo\rthree\n")
        assert run.app.widgets.prompt.text == "one\ntwo\nthree\n"
        assert conversation.prompts == []

    drive(test, conversation)


def test_large_paste_is_collapsed_and_sent_completely() -> None:
    conversation = ScriptedConversation()
    lines = "\n".join(f"row {number}" for number in range(120))

    async def test(run: Running) -> None:
        await run.type("see ")
        await _paste(run, lines)
        assert run.app.widgets.prompt.text == "see [Pasted text #1 +120 lines]"
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.prompts == [f"see {lines}"]
        assert "[Pasted text #1 +120 lines]" in run.text
        assert "row 77" not in run.text

    drive(test, conversation)


def test_tab_expands_a_paste_and_backspace_removes_all_of_it() -> None:
    async def test(run: Running) -> None:
        await _paste(run, "x" * 2_000)
        assert run.app.widgets.prompt.text == "[Pasted text #1 +2,000 chars]"
        await run.pilot.press("backspace")
        assert run.app.widgets.prompt.text == ""
        await _paste(run, "y" * 2_000)
        assert run.app.widgets.prompt.text == "[Pasted text #2 +2,000 chars]"
        await run.pilot.press("tab")
        assert run.app.widgets.prompt.text == "y" * 2_000

    drive(test)


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [
        ((0, 0), "one {a} two {2} three"),
        ((0, 27), "one {a} two {2} three"),
        ((0, 35), "one {a} two {2} three"),
        ((0, 64), "one {1} two {b} three"),
    ],
)
def test_tab_expands_the_last_paste_before_the_cursor_or_the_next_one(cursor: tuple[int, int], expected: str) -> None:
    first, second = "a\n" * 12, "b\n" * 12

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type("one ")
        prompt.paste_text(first)
        await run.type(" two ")
        prompt.paste_text(second)
        await run.type(" three")
        labels = prompt.pastes.labels.labels_in(prompt.text)
        prompt.move_cursor(cursor)
        await run.pilot.press("tab")
        assert prompt.text == expected.format(None, *labels, a=first, b=second)

    drive(test)


def test_only_labels_of_this_run_are_expanded() -> None:
    pastes = Pastes()
    label = pastes.fold("long " * 400)
    assert pastes.expand(f"{label} and [Pasted text #9 +12 lines]") == "long " * 400 + " and [Pasted text #9 +12 lines]"


def test_label_inside_a_paste_is_not_expanded_again() -> None:
    pastes = Pastes()
    first = pastes.fold("a" * 1_001)
    second = pastes.fold(first + "b" * 1_001)
    assert pastes.expand(second) == first + "b" * 1_001


def test_ten_lines_and_a_thousand_characters_are_not_collapsed() -> None:
    for text in ("\n".join("abcdefghij"), "z" * 1_000, "a\n" * 10):
        assert Pastes().fold(text) == text
    assert Pastes().fold("a\n" * 11) == "[Pasted text #1 +11 lines]"


def test_all_line_endings_become_line_feeds() -> None:
    assert clean_paste("a\r\nb\rc\nd") == "a\nb\nc\nd"


def test_up_and_down_walk_the_history_and_keep_the_draft() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        for text in ("first", "second"):
            await run.send(text)
            await run.until_idle()
        await run.type("draft")
        await run.pilot.press("up")
        assert prompt.text == "second"
        await run.pilot.press("up")
        assert prompt.text == "first"
        await run.pilot.press("up")
        assert prompt.text == "first"
        await run.pilot.press("down", "down")
        assert prompt.text == "draft"

    drive(test)


def test_up_moves_inside_the_text_before_it_recalls_history() -> None:
    async def test(run: Running) -> None:
        await run.send("old")
        await run.until_idle()
        await run.pilot.press("a", "ctrl+j", "b", "up")
        assert run.app.widgets.prompt.text == "a\nb"
        await run.pilot.press("up")
        assert run.app.widgets.prompt.text == "old"

    drive(test)


def test_history_is_kept_across_runs_in_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    PromptHistory(path).add("two\nlines ✓")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert PromptHistory(path).older("") == "two\nlines ✓"


def test_truncated_line_of_the_history_file_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text('"one"\n{"no": 1}\n"tor\n"two"\n', encoding="utf-8")
    assert PromptHistory(path).entries == ("one", "two")


def test_unwritable_history_still_works_for_this_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    history = PromptHistory(tmp_path / "file" / "history")
    history.add("kept")
    assert not history.is_stored
    assert history.older("") == "kept"


def test_history_that_is_only_read_does_not_trim_its_file(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"{json.dumps(str(n))}\n" for n in range(3_000)))
    before = path.read_bytes()
    history = PromptHistory(path, is_stored=False)
    history.add("not written")
    assert history.older("") == "not written"
    assert history.older("") == "2999"
    assert path.read_bytes() == before


def test_history_file_does_not_grow_without_bound(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f'"entry {number}"\n' for number in range(5_000)), encoding="utf-8")
    history = PromptHistory(path)
    assert len(history.entries) == 1_000
    assert history.entries[-1] == "entry 4999"
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1_000


def test_prompt_sent_twice_in_a_row_is_one_history_entry() -> None:
    history = PromptHistory()
    history.add("a")
    history.add("a")
    history.add("  ")
    assert history.entries == ("a",)


@pytest.mark.parametrize(("size", "detail_rows"), [((80, 24), 1), ((120, 40), 0)])
def test_slash_menu_has_a_narrow_left_column_frequent_commands_first_and_a_count(
    size: tuple[int, int], detail_rows: int
) -> None:
    async def test(run: Running) -> None:
        menu = run.app.widgets.menu
        await run.type("/")
        assert [choice.label for choice in menu.choices[:4]] == ["/help", "/model", "/clear", "/resume"]
        assert max(len(choice.left_column) for choice in menu.choices) == 24
        rows = menu.render().plain.split("\n")
        assert rows[-1] == f"  ↓ 8 of {len(menu.choices)}"
        # Below the list, rows are reserved for the whole help of a highlighted command, if the list cuts any.
        assert (len(rows), menu.size.height) == (9, 9 + detail_rows)
        helps = [row.index(choice.help[:12]) for row, choice in zip(rows[:-1], menu.choices, strict=False)]
        assert set(helps) == {2 + 24 + 2}

    drive(test, size=size)


def test_typed_command_shows_its_argument_as_a_hint_that_no_key_inserts() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        seen = {}
        for typed in ("/mode", "l", " ", "x", "y"):
            await run.type(typed)
            seen[prompt.text] = prompt.suggestion
        assert seen == {"/mode": " [name]", "/model": " [name]", "/model ": "[name]", "/model x": "", "/model xy": ""}
        await run.pilot.press("ctrl+u", *"/model")
        await run.pilot.pause()
        assert prompt.suggestion == " [name]"
        await run.pilot.press("right", "end")
        assert prompt.text == "/model"

    drive(test)


def test_slash_menu_follows_the_typed_text() -> None:
    async def test(run: Running) -> None:
        menu = run.app.widgets.menu
        await run.type("/")
        assert len(menu.choices) >= 8
        await run.type("mo")
        assert [choice.left_column for choice in menu.choices] == ["/model [name]", "/mode [name]"]
        seen = []
        for keys in (("escape",), ("backspace",), ("backspace", "backspace")):
            await run.pilot.press(*keys)
            seen.append(menu.is_open)
        assert seen == [False, True, False]

    drive(test)


def test_tab_completes_a_command_and_then_its_argument() -> None:
    async def test(run: Running) -> None:
        await run.type("/th")
        await run.pilot.press("tab")
        assert run.app.widgets.prompt.text == "/theme "
        await run.type("li")
        await run.pilot.press("tab")
        assert run.app.widgets.prompt.text == "/theme light"
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert run.app.theme == "light"

    drive(test)


def test_enter_on_a_menu_row_runs_it_opens_its_screen_or_offers_its_choices() -> None:
    async def test(run: Running) -> None:
        await run.type("/k")
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert run.app.widgets.help.is_open
        await run.type("/the")
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, ThemePicker))
        assert run.app.widgets.prompt.text == ""
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        await run.type("/expo")
        await run.pilot.press("enter")
        assert run.app.widgets.prompt.text == "/export "
        assert run.app.widgets.menu.is_open

    drive(test)


def test_path_is_not_a_command() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("/etc/hosts is what?")
        await run.until_idle()
        assert conversation.prompts == ["/etc/hosts is what?"]

    drive(test, conversation)


def test_prompt_grows_to_a_third_of_the_screen() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        assert prompt.size.height == 1
        await run.pilot.press("a", "ctrl+j", "b", "ctrl+j", "c")
        await run.pilot.pause()
        assert prompt.size.height == 3
        await run.pilot.press(*(["ctrl+j"] * 30))
        await run.pilot.pause()
        assert prompt.size.height == 10
        assert run.app.widgets.transcript.size.height >= 15

    drive(test, size=(80, 30))


def test_text_after_unknown_command_is_kept() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("slash", "h", "l", "p", "x", "enter", "a", "b")
        await run.pilot.pause()
        assert "Unknown command /hlpx. Did you mean /help?" in run.text
        assert run.app.widgets.prompt.text in ("/hlpx\nab", "ab")

    drive(test)


def test_enter_right_after_typing_sends_the_complete_text() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.pilot.press("slash", "h", "e")
        await run.until(lambda: run.app.widgets.menu.is_open)
        for character in "lp demo":
            prompt.post_message(events.Key("space" if character == " " else character, character))
        prompt.post_message(events.Key("enter", "\r"))
        await run.until(lambda: run.app.widgets.help.heading == "Demo model")
        assert prompt.text == ""

    drive(test)


def test_refilled_text_is_replaced_by_typing_and_kept_by_a_movement() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        for keys, text in [
            (("slash", "r"), "/r"),
            (("backspace",), ""),
            (("end", "x"), "hello\nworldx"),
            (("right", "x"), "hello\nworldx"),
            (("ctrl+j", "x"), "hello\nworld\nx"),
            (("x", "ctrl+z"), "hello\nworld"),
            (("ctrl+c",), ""),
        ]:
            prompt.replace_text("")
            run.app.view.put_in_prompt("hello\nworld")
            assert "type to replace the text" in run.status
            await run.pilot.press(*keys)
            assert prompt.text == text, keys
        prompt.replace_text("")
        prompt.refill("hello")
        await _paste(run, "pasted")
        assert prompt.text == "pasted"

    drive(test)


def test_text_is_refilled_for_editing_in_vim_mode() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        prompt.use_vim(True)
        prompt.refill("hello")
        await run.pilot.press("slash", "r")
        assert prompt.text == "/r"
        await run.pilot.press("escape", "u")
        assert prompt.text == "hello"
        prompt.replace_text("")
        prompt.refill("hello")
        assert not prompt.is_refilled
        await run.pilot.press("A", "x")
        assert prompt.text == "hellox"

    drive(test)


def test_history_search_asks_for_words() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+r")
        assert "history: type part of an earlier prompt" in run.screen
        await run.pilot.press("x")
        assert "history: x  no match" in run.screen

    drive(test)
