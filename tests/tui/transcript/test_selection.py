"""Selection with the mouse, and the copied text."""

from __future__ import annotations

import asyncio

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import SELECT_ALL, Selection

from qcode.tui.transcript.cards import CardUpdate
from qcode.tui.transcript.line import word_at
from tests.tui.transcript.transcript_app import TranscriptApp, fill, play, settle


def test_drag_selects_the_text_under_it() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.append_text("alpha beta gamma\n\ndelta epsilon\n")
        await settle(app, pilot)
        await pilot.mouse_down(app.transcript, offset=(6, 0))
        await pilot.hover(app.transcript, offset=(4, 2))
        await pilot.mouse_up(app.transcript, offset=(4, 2))
        assert app.screen.get_selected_text() == "beta gamma\n\ndelta"

    play(scene)


def test_move_within_the_pressed_cell_does_not_start_a_drag() -> None:
    """A terminal that reports pixels sends several moves for one cell."""

    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.append_text("alpha beta gamma\n")
        await settle(app, pilot)
        await pilot.mouse_down(app.transcript, offset=(6, 0))
        await pilot.hover(app.transcript, offset=(6, 0))
        await pilot.mouse_up(app.transcript, offset=(6, 0))
        assert app.screen.get_selected_text() is None
        assert app.transcript.is_anchored

    play(scene)


def test_second_drag_selects_if_it_ends_in_the_cell_of_the_first() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.append_text("alpha beta gamma\n")
        await settle(app, pilot)
        for start, selected in ((6, "beta"), (0, "alpha beta")):
            await pilot.mouse_down(app.transcript, offset=(start, 0))
            await pilot.hover(app.transcript, offset=(9, 0))
            await pilot.mouse_up(app.transcript, offset=(9, 0))
            assert app.screen.get_selected_text() == selected

    play(scene)


def test_announced_text_is_the_copied_one_if_the_drag_ends_in_a_blank_row() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.append_text("alpha beta gamma\n\ndelta epsilon\n")
        await settle(app, pilot)
        await pilot.mouse_down(app.transcript, offset=(6, 0))
        await pilot.hover(app.transcript, offset=(4, 1))
        await pilot.mouse_up(app.transcript, offset=(4, 1))
        await pilot.pause()
        assert app.selected == ["beta gamma"] == [app.screen.get_selected_text()]

    play(scene)


def test_only_the_selection_is_highlighted() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("alpha **beta** gamma")
        await settle(app, pilot)
        app.screen.selections = {transcript: Selection(Offset(3, 0), Offset(8, 0))}
        await pilot.pause()
        marked = app.screen.get_component_rich_style("screen--selection").bgcolor
        painted = [
            segment.text for segment in transcript.render_line(0) if segment.style and segment.style.bgcolor == marked
        ]
        assert "".join(painted) == "ha be"
        assert all(style.color != style.bgcolor for _, style, _ in transcript.render_line(0) if style)

    play(scene)


def test_selection_in_scrolled_rows_belongs_to_the_text() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        fill(app.transcript, 40)
        await settle(app, pilot)
        await pilot.mouse_down(app.transcript, offset=(0, 11))
        await pilot.hover(app.transcript, offset=(20, 11))
        await pilot.mouse_up(app.transcript, offset=(20, 11))
        assert app.screen.get_selected_text() == "• end 39"

    play(scene)


def test_copied_text_has_neither_gutters_nor_wraps_nor_marks() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_user("please")
        transcript.append_text("a text that is rather long and")
        transcript.add_mark("continued 1/3")
        transcript.append_text(" wraps somewhere here\n")
        await pilot.resize_terminal(24, 12)
        await settle(app, pilot)
        selected = transcript.get_selection(SELECT_ALL)
        assert selected == ("please\n\na text that is rather long and wraps somewhere here", "\n")

    play(scene)


def test_double_click_selects_a_word_and_triple_click_a_line() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("open src/app.py, then\n\nother")
        await settle(app, pilot)
        await pilot.click(transcript, offset=(9, 0), times=2)
        assert app.screen.get_selected_text() == "src/app.py"
        await pilot.click(transcript, offset=(9, 0), times=3)
        assert app.screen.get_selected_text() == "open src/app.py, then"

    play(scene)


async def _resize(app: TranscriptApp, pilot: Pilot[None], width: int, height: int = 12) -> None:
    """Resize the terminal, and wait until the rows have the new width: the size arrives with some later message."""
    before = app.transcript.row_layout.width
    await pilot.resize_terminal(width, height)
    async with asyncio.timeout(5):
        while app.transcript.row_layout.width == before:
            await pilot.pause()


@pytest.mark.parametrize("has_anchors", [True, False])
def test_selection_survives_a_resize(has_anchors: bool) -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 3)
        transcript.append_text(" ".join(f"word{number}," for number in range(30)) + "\n\n- first\n- second item\n")
        transcript.settle()
        await settle(app, pilot)
        rows = [line.text for line in transcript.row_layout.lines(0, transcript.row_layout.height)]
        first = next(index for index, row in enumerate(rows) if "word9" in row)
        last = next(index for index, row in enumerate(rows) if "second" in row)
        start, end = Offset(rows[first].index("word9") + 2, first), Offset(rows[last].index("item") + 2, last)
        if has_anchors:
            transcript.select(start, end)
        else:
            app.screen.selections = {transcript: Selection(start, end)}
        selected = app.screen.get_selected_text()
        assert selected is not None
        assert selected.startswith("rd9, word10")
        assert selected.endswith("second it")
        for width in (30, 17, 90, 60):
            await _resize(app, pilot, width)
            assert app.screen.get_selected_text() == selected
        await pilot.resize_terminal(60, 5)
        await settle(app, pilot)
        assert app.screen.get_selected_text() == selected

    play(scene)


def test_drag_continues_after_a_resize() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("one two three four five six seven eight nine ten eleven twelve")
        await settle(app, pilot)
        await pilot.mouse_down(transcript, offset=(4, 0))
        await pilot.hover(transcript, offset=(8, 0))
        await _resize(app, pilot, 20)
        await pilot.hover(transcript, offset=(3, 2))
        await pilot.mouse_up(transcript, offset=(3, 2))
        selected = app.screen.get_selected_text()
        assert selected is not None
        assert selected.startswith("two three four")
        assert len(selected) > len("two three four five")

    play(scene)


def test_resize_drops_a_selection_whose_text_gets_another_order() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        cells = " | ".join("some words that have to wrap in a narrow table" for _ in range(2))
        transcript.append_text(f"| a | b |\n|---|---|\n| {cells} |\n")
        transcript.settle()
        await settle(app, pilot)
        app.screen.selections = {transcript: Selection(Offset(8, 3), Offset(40, 3))}
        await _resize(app, pilot, 24)
        assert app.screen.get_selected_text() is None

    play(scene)


def test_word_ends_where_a_path_ends() -> None:
    line = "see ~/a-b/c.py: done."
    assert word_at(line, 6) == (4, 14)
    assert word_at(line, 3) == (3, 4)
    assert word_at(line, 17) == (16, 20)


def test_word_includes_its_combining_marks() -> None:
    assert word_at("two cafe\u0301s", 5) == (4, 10)
    assert word_at("यह किताब है", 3) == (3, 8)


def test_drag_selects_an_accent_with_its_letter_and_a_joined_emoji_as_one_character() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.append_text("👨\u200d👩\u200d👧 cafe\u0301 no\n")  # the emoji has two cells
        await settle(app, pilot)
        await pilot.mouse_down(app.transcript, offset=(3, 0))
        await pilot.hover(app.transcript, offset=(6, 0))
        await pilot.mouse_up(app.transcript, offset=(6, 0))
        assert app.screen.get_selected_text() == "cafe\u0301"
        await pilot.mouse_down(app.transcript, offset=(1, 0))
        await pilot.hover(app.transcript, offset=(0, 0))
        await pilot.mouse_up(app.transcript, offset=(0, 0))
        assert app.screen.get_selected_text() == "👨\u200d👩\u200d👧"

    play(scene)


def test_selection_stays_on_its_text_while_rows_above_move() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_reasoning("one\ntwo\nthree")
        transcript.append_text("alpha beta gamma\n\ndelta")
        await settle(app, pilot)
        y = app.view().index("alpha beta gamma")
        await pilot.click(transcript, offset=(7, y), times=2)
        assert app.screen.get_selected_text() == "beta"
        transcript.toggle_folds()
        transcript.toggle_folds()
        await pilot.click(transcript, offset=(7, app.view().index("alpha beta gamma")), times=2)
        transcript.append_text(" and more\n" * 30)
        await settle(app, pilot)
        assert app.screen.get_selected_text() == "beta"

    play(scene)


def test_thinking_collapsed_above_a_selection_moves_it() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_card("c", "tool", "x")
        transcript.add_user("alpha beta gamma")
        await settle(app, pilot)
        await pilot.click(transcript, offset=(9, app.view().index("> alpha beta gamma")), times=2)
        assert app.screen.get_selected_text() == "beta"
        transcript.update_card("c", CardUpdate(output="1\n2\n3\n4\n"))
        await settle(app, pilot)
        assert app.screen.get_selected_text() == "beta"

    play(scene)


def test_selection_of_removed_text_is_dropped() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("alpha beta")
        await settle(app, pilot)
        await pilot.click(transcript, offset=(7, 0), times=2)
        transcript.restore("something else")
        await settle(app, pilot)
        assert app.screen.get_selected_text() is None

    play(scene)


def test_view_does_not_scroll_during_selection() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 20)
        await settle(app, pilot)
        before = app.view()
        await pilot.mouse_down(transcript, offset=(2, 5))
        await pilot.hover(transcript, offset=(6, 5))
        fill(transcript, 3)
        await settle(app, pilot)
        assert app.view() == before
        await pilot.mouse_up(transcript, offset=(6, 5))
        assert app.screen.get_selected_text()
        transcript.scroll_end()
        await settle(app, pilot)
        assert app.view()[-1] == "• end 2"

    play(scene)


def test_drag_past_the_edge_scrolls_and_extends_the_selection() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 20)
        await settle(app, pilot)
        await pilot.mouse_down(transcript, offset=(2, 11))
        await pilot.hover(transcript, offset=(2, 0))
        while (app.screen.get_selected_text() or "").count("\n") < 20:
            await pilot.pause(0.02)
        await pilot.mouse_up(transcript, offset=(2, 0))
        text = app.screen.get_selected_text() or ""
        assert text.endswith("• e")
        stopped = app.top
        await pilot.pause()
        assert app.top == stopped
        assert transcript.scroll_timer is None

    play(scene)


def test_triple_click_selects_the_complete_line_across_wraps() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_user("one two three four five six seven eight nine ten eleven twelve thirteen")
        await settle(app, pilot)
        await pilot.click(transcript, offset=(4, 1), times=3)
        selected = app.screen.get_selected_text()
        assert selected == "one two three four five six seven eight nine ten eleven twelve thirteen"

    play(scene, (30, 12))


def test_wide_characters_are_selected_at_their_columns() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("漢字 text")
        await settle(app, pilot)
        await pilot.mouse_down(transcript, offset=(3, 0))
        await pilot.hover(transcript, offset=(6, 0))
        await pilot.mouse_up(transcript, offset=(6, 0))
        assert app.screen.get_selected_text() == "字 te"

    play(scene)


def test_code_block_is_copied_as_written() -> None:
    source = "all:\n\tcc -o x \\\n\t  x.c  # " + "long " * 20 + "end\n\nclean:\n\trm -f x"

    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text(f"```make\n{source}\n```\n")
        transcript.settle()
        await settle(app, pilot)
        assert all("\t" not in row for row in app.view())
        selected = transcript.get_selection(SELECT_ALL)
        assert selected is not None
        assert selected[0] == source

    play(scene, (40, 30))


def test_click_on_a_link_is_reported_and_one_beside_it_is_not() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("see [docs](https://e.example/x) now")
        await settle(app, pilot)
        await pilot.click(transcript, offset=(1, 0))
        await pilot.click(transcript, offset=(5, 0))
        await pilot.pause()
        assert app.links == ["https://e.example/x"]

    play(scene)
