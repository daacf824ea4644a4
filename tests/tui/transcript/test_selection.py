"""Selecting with the mouse, and what is copied."""

from __future__ import annotations

from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import SELECT_ALL, Selection

from qcode.tui.transcript.column import word_at
from qcode.tui.transcript.line import Line, ink
from tests.tui.transcript.stage import Stage, fill, play, settle


def test_a_drag_selects_what_is_under_it() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        stage.transcript.append_text("alpha beta gamma\n\ndelta epsilon\n")
        await settle(stage, pilot)
        await pilot.mouse_down(stage.transcript, offset=(6, 0))
        await pilot.hover(stage.transcript, offset=(4, 2))
        await pilot.mouse_up(stage.transcript, offset=(4, 2))
        assert stage.screen.get_selected_text() == "beta gamma\n\ndelta"

    play(scene)


def test_a_selection_is_painted_and_only_it() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("alpha **beta** gamma")
        await settle(stage, pilot)
        stage.screen.selections = {shown: Selection(Offset(3, 0), Offset(8, 0))}
        await pilot.pause()
        marked = stage.screen.get_component_rich_style("screen--selection").bgcolor
        painted = [
            segment.text for segment in shown.render_line(0) if segment.style and segment.style.bgcolor == marked
        ]
        assert "".join(painted) == "ha be"
        assert all(style.color != style.bgcolor for _, style, _ in shown.render_line(0) if style)

    play(scene)


def test_a_selection_in_scrolled_rows_is_that_of_the_text_not_of_the_screen() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        fill(stage.transcript, 40)
        await settle(stage, pilot)
        await pilot.mouse_down(stage.transcript, offset=(0, 11))
        await pilot.hover(stage.transcript, offset=(20, 11))
        await pilot.mouse_up(stage.transcript, offset=(20, 11))
        assert stage.screen.get_selected_text() == "• end 39"

    play(scene)


def test_copied_text_has_neither_gutters_nor_wraps_nor_marks() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_user("please")
        shown.append_text("a text that is rather long and")
        shown.add_mark("continued 1/3")
        shown.append_text(" wraps somewhere here\n")
        await pilot.resize_terminal(24, 12)
        await settle(stage, pilot)
        selected = shown.get_selection(SELECT_ALL)
        assert selected == ("please\n\na text that is rather long and wraps somewhere here", "\n")

    play(scene)


def test_two_clicks_select_a_word_and_three_a_line() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("open src/app.py, then\n\nother")
        await settle(stage, pilot)
        await pilot.click(shown, offset=(9, 0), times=2)
        assert stage.screen.get_selected_text() == "src/app.py"
        await pilot.click(shown, offset=(9, 0), times=3)
        assert stage.screen.get_selected_text() == "open src/app.py, then"

    play(scene)


def test_a_resize_drops_a_selection_whose_rows_are_gone() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("word " * 30)
        await settle(stage, pilot)
        stage.screen.selections = {shown: Selection(Offset(3, 0), Offset(8, 1))}
        await pilot.resize_terminal(30, 12)
        await settle(stage, pilot)
        assert stage.screen.get_selected_text() is None

    play(scene)


def test_a_word_ends_where_a_path_ends() -> None:
    line = Line((("see ~/a-b/c.py: done.", ink()),))
    assert word_at(line, 6) == (4, 14)
    assert word_at(line, 3) == (3, 4)
    assert word_at(line, 17) == (16, 20)


def test_find_goes_from_one_place_to_the_next_and_brings_it_into_view() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        fill(shown, 30)
        await settle(stage, pilot)
        assert shown.find("no such thing") == (0, 0)
        assert [shown.find("REPLY 1")[0] for _ in range(3)] == [11, 10, 9]
        await settle(stage, pilot)
        assert stage.screen.get_selected_text() == "reply 1"
        assert "• reply 17" in stage.view()
        assert shown.find("reply 1", is_upwards=False) == (10, 11)
        assert not shown.is_anchored

    play(scene)


def test_find_goes_around_at_both_ends() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("one two one")
        await settle(stage, pilot)
        assert [shown.find("one") for _ in range(3)] == [(2, 2), (1, 2), (2, 2)]
        assert shown.find("one", is_upwards=False) == (1, 2)

    play(scene)
