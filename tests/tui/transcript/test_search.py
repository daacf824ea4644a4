"""Searching the transcript, and going from one message of the person to another."""

from __future__ import annotations

from textual.pilot import Pilot

from qcode.tui.transcript.cards import CardUpdate
from qcode.tui.transcript.line import ink
from qcode.tui.transcript.transcript import SearchPosition
from tests.tui.transcript.stage import Stage, fill, play, settle


def test_a_search_goes_upwards_from_where_one_is_and_brings_each_place_into_view() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        fill(shown, 30)
        await settle(stage, pilot)
        assert shown.search("no such thing") == SearchPosition(0, 0)
        assert shown.search("REPLY 1") == SearchPosition(11, 11)
        assert [shown.search_on().number for _ in range(2)] == [10, 9]
        await settle(stage, pilot)
        assert stage.screen.get_selected_text() == "reply 1"
        assert "• reply 17" in stage.view()
        assert shown.search_on(is_upwards=False) == SearchPosition(10, 11)
        assert not shown.is_anchored

    play(scene)


def test_a_search_goes_around_at_both_ends() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("one two one")
        await settle(stage, pilot)
        assert shown.search("one") == SearchPosition(2, 2)
        assert [shown.search_on().number for _ in range(3)] == [1, 2, 1]
        assert shown.search_on(is_upwards=False) == SearchPosition(2, 2)

    play(scene)


def test_leaving_a_search_is_being_where_one_was() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        fill(shown, 40)
        await settle(stage, pilot)
        shown.scroll_to(y=50)
        await settle(stage, pilot)
        before = stage.view()
        shown.search("reply 3")
        shown.search("reply 39")
        await settle(stage, pilot)
        assert stage.view() != before
        shown.end_search(is_going_back=True)
        await settle(stage, pilot)
        assert stage.view() == before
        shown.scroll_end()
        shown.search("reply 2")
        shown.end_search(is_going_back=True)
        await settle(stage, pilot)
        assert shown.is_anchored
        assert stage.view()[-1] == "• end 39"
        assert stage.screen.get_selected_text() is None

    play(scene)


def test_a_place_in_folded_output_is_unfolded_when_one_comes_to_it_and_folded_again() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_card("c", "shell", "ls")
        shown.update_card("c", CardUpdate(state="done", output="\n".join(f"file {n}" for n in range(60))))
        shown.append_text("no file 30 here")
        shown.settle()
        await settle(stage, pilot)
        folded = shown.plain_text()
        assert "52 more lines" in folded
        assert shown.search("file 30") == SearchPosition(2, 2)
        assert shown.plain_text() == folded
        assert shown.search_on() == SearchPosition(1, 2)
        await settle(stage, pilot)
        assert "  │ file 30" in stage.view()
        assert stage.screen.get_selected_text() == "file 30"
        shown.end_search(is_going_back=True)
        await settle(stage, pilot)
        assert shown.plain_text() == folded

    play(scene)


def test_a_place_in_what_a_fold_shows_anyway_unfolds_nothing() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_card("c", "shell", "ls")
        shown.update_card("c", CardUpdate(state="done", output="\n".join(f"file {n}" for n in range(60))))
        await settle(stage, pilot)
        assert shown.search("file 1") != SearchPosition()
        shown.search("file 2")
        while shown.search_on().number != 1:
            continue
        shown.end_search(is_going_back=False)
        shown.search("file 0")
        assert stage.screen.get_selected_text() == "file 0"

    play(scene)


def test_a_phrase_is_found_over_the_end_of_a_row_and_whatever_its_spaces() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_user("one two three four five six seven eight nine ten")
        await settle(stage, pilot)
        assert len(stage.view()[0]) < 30
        for start in range(9):
            words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"][start : start + 2]
            assert shown.search("  ".join(words)) == SearchPosition(1, 1)
            assert stage.screen.get_selected_text() == " ".join(words)

    play(scene, (24, 12))


def test_gutters_are_not_found() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_card("c", "shell", "ls")
        shown.update_card("c", CardUpdate(state="done", output="a\nb"))
        await settle(stage, pilot)
        assert shown.search("│") == SearchPosition(0, 0)

    play(scene)


def test_search_match_is_highlighted_until_search_closes() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("one two\n\none two")
        await settle(stage, pilot)

        def marked() -> list[str]:
            found = shown._colours.style(ink("found")).bgcolor
            return [s.text for y in range(3) for s in shown.render_line(y) if s.style and s.style.bgcolor == found]

        shown.search("two")
        assert marked()[0] == "two"
        shown.end_search(is_going_back=True)
        assert marked() == []

    play(scene)


def test_a_search_goes_on_while_text_comes() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("one word here\n\n")
        await settle(stage, pilot)
        assert shown.search("word") == SearchPosition(1, 1)
        shown.append_text("another word\n\n" * 40)
        await settle(stage, pilot)
        assert stage.screen.get_selected_text() == "word"
        assert shown.search_on(is_upwards=False) == SearchPosition(2, 41)

    play(scene)


def test_one_goes_from_one_message_of_ones_own_to_the_next() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        assert not shown.jump(-1)
        for number in range(4):
            shown.add_user(f"question {number}")
            fill(shown, 6)
        await settle(stage, pilot)
        tops = []
        while shown.jump(-1):
            await settle(stage, pilot)
            tops.append(stage.view()[0])
        assert tops == ["> question 3", "> question 2", "> question 1", "> question 0"]
        assert shown.jump(1)
        await settle(stage, pilot)
        assert stage.view()[0] == "> question 1"
        assert [shown.jump(1) for _ in range(4)] == [True, True, True, False]
        assert shown.is_anchored

    play(scene)


def test_new_text_below_view_is_indicated_until_scrolled_to() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        fill(shown, 20)
        await settle(stage, pilot)
        shown.scroll_page_up()
        await settle(stage, pilot)
        last = shown.size.height - 1
        assert "new text" not in shown.render_line(last).text
        shown.append_text("more")
        await settle(stage, pilot)
        assert "new text" in shown.render_line(last).text
        assert len(shown.render_line(last).text) == shown.text_width
        shown.scroll_end()
        await settle(stage, pilot)
        assert "new text" not in shown.render_line(last).text

    play(scene)
