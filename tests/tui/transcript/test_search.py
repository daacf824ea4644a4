"""Searching the transcript, and jumping between messages of the user."""

from __future__ import annotations

from collections.abc import Callable

from textual.pilot import Pilot

from qcode.tui.transcript.cards import CardUpdate
from qcode.tui.transcript.line import style_of
from qcode.tui.transcript.transcript import SearchPosition
from tests.tui.transcript.transcript_app import TranscriptApp, fill, play, settle


def test_search_goes_up_from_the_current_position_and_scrolls_to_each_match() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 30)
        await settle(app, pilot)
        assert transcript.search("no such thing") == SearchPosition(0, 0)
        assert transcript.search("REPLY 1") == SearchPosition(11, 11)
        assert [transcript.search_next().number for _ in range(2)] == [10, 9]
        await settle(app, pilot)
        assert app.screen.get_selected_text() == "reply 1"
        assert "• reply 17" in app.view()
        assert transcript.search_next(is_upwards=False) == SearchPosition(10, 11)
        assert not transcript.is_anchored

    play(scene)


def test_search_wraps_around_at_both_ends() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("one two one")
        await settle(app, pilot)
        assert transcript.search("one") == SearchPosition(2, 2)
        assert [transcript.search_next().number for _ in range(3)] == [1, 2, 1]
        assert transcript.search_next(is_upwards=False) == SearchPosition(2, 2)

    play(scene)


def test_closed_search_restores_the_scroll_position() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 40)
        await settle(app, pilot)
        transcript.scroll_to(y=50)
        await settle(app, pilot)
        before = app.view()
        transcript.search("reply 3")
        transcript.search("reply 39")
        await settle(app, pilot)
        assert app.view() != before
        transcript.end_search(returns_to_start=True)
        await settle(app, pilot)
        assert app.view() == before
        transcript.scroll_end()
        transcript.search("reply 2")
        transcript.end_search(returns_to_start=True)
        await settle(app, pilot)
        assert transcript.is_anchored
        assert app.view()[-1] == "• end 39"
        assert app.screen.get_selected_text() is None

    play(scene)


def test_match_in_collapsed_output_is_expanded_and_collapsed_again() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_card("c", "shell", "ls")
        transcript.update_card("c", CardUpdate(state="done", output="\n".join(f"file {n}" for n in range(60))))
        transcript.append_text("no file 30 here")
        transcript.settle()
        await settle(app, pilot)
        folded = transcript.plain_text()
        assert "52 more lines" in folded
        assert transcript.search("file 30") == SearchPosition(2, 2)
        assert transcript.plain_text() == folded
        assert transcript.search_next() == SearchPosition(1, 2)
        await settle(app, pilot)
        assert "  │ file 30" in app.view()
        assert app.screen.get_selected_text() == "file 30"
        transcript.end_search(returns_to_start=True)
        await settle(app, pilot)
        assert transcript.plain_text() == folded

    play(scene)


def test_match_in_the_visible_part_of_a_fold_expands_nothing() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_card("c", "shell", "ls")
        transcript.update_card("c", CardUpdate(state="done", output="\n".join(f"file {n}" for n in range(60))))
        await settle(app, pilot)
        assert transcript.search("file 1") != SearchPosition()
        transcript.search("file 2")
        while transcript.search_next().number != 1:
            continue
        transcript.end_search(returns_to_start=False)
        transcript.search("file 0")
        assert app.screen.get_selected_text() == "file 0"

    play(scene)


def test_phrase_is_found_across_rows_and_with_any_spaces() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_user("one two three four five six seven eight nine ten")
        await settle(app, pilot)
        assert len(app.view()[0]) < 30
        for start in range(9):
            words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"][start : start + 2]
            assert transcript.search("  ".join(words)) == SearchPosition(1, 1)
            assert app.screen.get_selected_text() == " ".join(words)

    play(scene, (24, 12))


def test_gutters_are_not_found() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_card("c", "shell", "ls")
        transcript.update_card("c", CardUpdate(state="done", output="a\nb"))
        await settle(app, pilot)
        assert transcript.search("│") == SearchPosition(0, 0)

    play(scene)


def test_search_match_is_highlighted_until_search_closes() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("one two\n\none two")
        await settle(app, pilot)

        def marked() -> list[str]:
            found = transcript.palette.style(style_of("found")).bgcolor
            return [s.text for y in range(3) for s in transcript.render_line(y) if s.style and s.style.bgcolor == found]

        transcript.search("two")
        assert marked()[0] == "two"
        transcript.end_search(returns_to_start=True)
        assert marked() == []

    play(scene)


def test_search_stays_open_while_text_arrives() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("one word here\n\n")
        await settle(app, pilot)
        assert transcript.search("word") == SearchPosition(1, 1)
        transcript.append_text("another word\n\n" * 40)
        await settle(app, pilot)
        assert app.screen.get_selected_text() == "word"
        assert transcript.search_next(is_upwards=False) == SearchPosition(2, 41)

    play(scene)


def test_keys_jump_from_one_user_message_to_the_next() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        assert not transcript.jump_to_prompt(-1)
        for number in range(4):
            transcript.add_user(f"question {number}")
            fill(transcript, 6)
        await settle(app, pilot)
        tops = []
        while transcript.jump_to_prompt(-1):
            await settle(app, pilot)
            tops.append(app.view()[0])
        assert tops == ["> question 3", "> question 2", "> question 1", "> question 0"]
        assert transcript.jump_to_prompt(1)
        await settle(app, pilot)
        assert app.view()[0] == "> question 1"
        assert [transcript.jump_to_prompt(1) for _ in range(4)] == [True, True, True, False]
        assert transcript.is_anchored

    play(scene)


def test_notice_below_the_view_is_no_news_but_a_card_and_an_error_are() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 20)
        await settle(app, pilot)
        shown = []
        additions: tuple[Callable[[], object], ...] = (
            lambda: transcript.add_notice("info", "Job 1 ended."),
            lambda: transcript.add_notice("info", "Job 1 ended."),
            lambda: transcript.add_notice("error", "No answer."),
            lambda: transcript.add_card("c", "shell", "ls"),
        )
        for add in additions:
            transcript.scroll_end()
            transcript.scroll_page_up()
            await settle(app, pilot)
            add()
            await settle(app, pilot)
            shown.append(transcript.has_new_text_below)
        assert shown == [False, False, True, True]

    play(scene)


def test_new_text_below_view_is_indicated_until_scrolled_to() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 20)
        await settle(app, pilot)
        transcript.scroll_page_up()
        await settle(app, pilot)
        shown = [transcript.has_new_text_below]
        transcript.append_text("more")
        await settle(app, pilot)
        shown.append(transcript.has_new_text_below)
        transcript.scroll_end()
        await settle(app, pilot)
        shown.append(transcript.has_new_text_below)
        assert shown == [False, True, False]

    play(scene)
