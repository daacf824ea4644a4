"""The transcript in an app: its rows, its scroll position, and theme changes."""

from __future__ import annotations

import asyncio

import pytest
from textual.pilot import Pilot
from textual.strip import Strip
from textual.theme import Theme

from qcode.providers.demo.guide import guide
from qcode.tui.transcript.cards import CardUpdate
from tests.tui.transcript.transcript_app import TranscriptApp, fill, play, settle

pytestmark = pytest.mark.frames


def test_all_messages_are_shown_in_order() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_welcome(["qcode", "a folder"])
        transcript.add_user("do **this**\nand [that]")
        transcript.append_reasoning("hm")
        app.now += 3
        transcript.append_text("Some **bold** text")
        transcript.settle()
        transcript.add_card("1", "shell", "ls")
        transcript.add_notice("warning", "careful")
        await settle(app, pilot)
        expected = ["qcode · a folder", "", "> do **this**", "  and [that]", "", "∴ thought for 3 s · Ctrl+O", ""]
        expected += ["Some bold text", "", "○ Run    ls  waiting", "", "! careful"]
        assert transcript.plain_text().split("\n") == expected
        assert [row for row in app.view() if row] == [row for row in expected if row]

    play(scene, (60, 20))


def test_lines_of_the_welcome_wrap_below_their_text() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        note = "Model   a model with a long name of many words"
        app.transcript.add_welcome(["qcode", note, "        and more of the same to say about it", "· a tip"])
        await settle(app, pilot)
        assert app.transcript.plain_text().split("\n") == [
            "qcode",
            "Model   a model with a long",
            "        name of many words",
            "        and more of the",
            "        same to say about",
            "        it",
            "· a tip",
        ]
        app.screen.text_select_all()
        assert f"\n{note}\n" in (app.screen.get_selected_text() or "")

    play(scene, (28, 20))


def test_text_added_before_the_first_paint_is_shown() -> None:
    async def run() -> None:
        app = TranscriptApp()
        app.transcript.add_user("early")
        assert app.transcript.plain_text() == "> early"
        async with app.run_test(size=(40, 8)) as pilot:
            await settle(app, pilot)
            assert app.view()[0] == "> early"

    asyncio.run(run())


def test_changes_appear_by_themselves_within_a_frame() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        for piece in ("one ", "two ", "three"):
            app.transcript.append_text(piece)
            await pilot.pause()
        while app.view()[0] != "one two three":
            await pilot.pause()
        assert app.transcript.plain_text() == "one two three"

    play(scene)


def test_end_stays_in_view_until_the_user_scrolls_up() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 20)
        await settle(app, pilot)
        assert app.view()[-1] == "• end 19"
        transcript.scroll_page_up()
        await pilot.pause()
        assert not app.is_anchored()
        before = app.view()
        for piece in ("more\n\n", "and more\n\n", "- a\n- b\n") * 4:
            transcript.append_text(piece)
            await settle(app, pilot)
            assert app.view() == before
        transcript.settle()
        transcript.add_user("another")
        await settle(app, pilot)
        assert app.view() == before
        transcript.scroll_end()
        await settle(app, pilot)
        assert app.is_anchored()
        assert app.view()[-1] == "> another"
        transcript.append_text("the end")
        await settle(app, pilot)
        assert app.view()[-1] == "the end"

    play(scene)


def test_manual_scroll_to_the_end_anchors_again() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 10)
        await settle(app, pilot)
        transcript.scroll_up()
        await pilot.pause()
        assert not app.is_anchored()
        transcript.scroll_down()
        await pilot.pause()
        assert app.is_anchored()

    play(scene)


def test_keys_scroll_by_pages_and_to_both_ends() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 50)
        await settle(app, pilot)
        transcript.focus()
        await pilot.press("home")
        assert app.view()[0] == "• reply 0"
        await pilot.press("pagedown")
        assert app.view()[0] == "• reply 3"
        await pilot.press("end")
        assert app.view()[-1] == "• end 49"
        await pilot.press("pageup", "pagedown")
        assert app.is_anchored()

    play(scene)


def test_page_up_through_estimated_rows_misses_none() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for number in range(60):
            transcript.append_text(f"- n{number} " + "word " * (number % 7 * 20) + "\n\n# h\n\n\n\ntext\n")
            transcript.settle()
        await settle(app, pilot)
        seen: list[str] = app.view()
        while app.top > 0:
            above = app.view()
            transcript.scroll_page_up()
            await pilot.pause()
            rows = app.view()
            overlap = next(count for count in range(13) if rows[len(rows) - count :] == above[:count] or count == 12)
            seen = rows[: len(rows) - overlap] + seen if overlap < 12 else rows + seen
        assert "\n".join(seen).split() == transcript.plain_text().split()

    play(scene)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(30, 12), (90, 12), (60, 7), (24, 30)])
def test_resize_keeps_the_text_at_the_top_of_the_view(size: tuple[int, int]) -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for number in range(12):
            transcript.append_text(" ".join(f"w{number}x{index}" for index in range(200)))
            transcript.settle()
        await settle(app, pilot)
        await pilot.pause()
        transcript.scroll_to(y=app.end - 60)
        await pilot.pause()
        before = app.view()
        first = before[0].split()[0]
        assert not first.endswith("x0")
        for width, height in (size, (50, 9), size):
            await pilot.resize_terminal(width, height)
            await settle(app, pilot)
            assert first in app.view()[0].split()
        await pilot.resize_terminal(60, 12)
        await settle(app, pilot)
        assert app.view() == before

    play(scene)


def test_resize_near_the_end_of_a_long_entry_shows_the_entry_after_it() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for number in range(4):
            transcript.append_text(" ".join(f"w{number}x{index}" for index in range(400)))
            transcript.settle()
        transcript.lay_out_all()
        await settle(app, pilot)
        transcript.scroll_to(y=transcript.row_layout.top(2) - 4)
        await settle(app, pilot)
        assert any("w2x0" in row for row in app.view())
        await pilot.resize_terminal(80, 12)
        await settle(app, pilot)
        assert any("w1x399" in row for row in app.view())
        assert any("w2x0" in row for row in app.view())
        assert app.view().count("") == 1  # between the two entries

    play(scene)


def test_resize_at_the_end_stays_at_the_end() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        fill(app.transcript, 30)
        await settle(app, pilot)
        for size in ((20, 5), (70, 30), (40, 8)):
            await pilot.resize_terminal(*size)
            await settle(app, pilot)
            assert app.view()[-1] == "• end 29"
            assert app.is_anchored()

    play(scene)


def test_live_reply_survives_a_resize() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("```py\nx = 1\ny =")
        await settle(app, pilot)
        await pilot.resize_terminal(30, 12)
        await settle(app, pilot)
        transcript.append_text(" 2\n```\nafter")
        transcript.settle()
        assert transcript.plain_text().split("\n") == [" py", " x = 1", " y = 2", "after"]

    play(scene)


def test_clear_removes_all_text() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        fill(app.transcript, 30)
        app.transcript.scroll_home()
        await settle(app, pilot)
        app.transcript.clear()
        await settle(app, pilot)
        assert app.transcript.plain_text() == ""
        assert set(app.view()) == {""}
        assert app.is_anchored()
        app.transcript.append_text("new")
        await settle(app, pilot)
        assert app.view()[0] == "new"

    play(scene)


def test_theme_change_recolors_and_moves_nothing() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("# Title\n\n" + "text\n\n" * 20)
        await settle(app, pilot)
        transcript.scroll_home()
        await pilot.pause()

        def color() -> object:
            return next(
                segment.style.color
                for segment in transcript.render_line(0)
                if segment.style and segment.text == "Title"
            )

        rows, before = app.view(), color()
        app.register_theme(Theme("other", primary="#ff0000", background="#ffffff", dark=False))
        app.theme = "other"
        await settle(app, pilot)
        assert app.view() == rows
        assert color() != before

    play(scene)


def test_no_timer_runs_while_nothing_happens() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("x")
        transcript.settle()
        transcript.add_card("1", "shell", "ls")
        transcript.update_card("1", CardUpdate(state="running"))
        await settle(app, pilot)
        assert app.is_ticking()
        transcript.update_card("1", CardUpdate(state="done"))
        await settle(app, pilot)
        while app.is_frame_due():
            await pilot.pause()
        assert not app.is_ticking()

    play(scene)


def test_repaint_between_frames_shows_the_previous_frame() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("some text")
        await settle(app, pilot)
        transcript.append_text(" and more")
        assert app.view()[0] == "some text"
        await settle(app, pilot)
        assert app.view()[0] == "some text and more"

    play(scene)


def test_reading_the_text_does_not_prevent_its_display() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("one")
        await settle(app, pilot)
        transcript.append_text(" two")
        assert transcript.plain_text() == "one two"
        await settle(app, pilot)
        assert "one\xa0two" in app.export_screenshot().replace("&#160;", "\xa0")

    play(scene)


def test_repaint_right_after_a_restart_shows_the_old_text() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_user("go")
        transcript.append_reasoning("hm")
        transcript.append_text("one\n\ntwo")
        await settle(app, pilot)
        transcript.restart("again")
        assert app.view()[3:6] == ["", "one", ""]
        transcript.restore("one\n\ntwo")
        assert app.view()[:5] == ["> go", "", "one", "", "two"]

    play(scene)


def test_no_character_is_under_the_scroll_bar() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        text = "".join(chr(ord("a") + number % 26) for number in range(400))
        app.transcript.add_user(text)
        await settle(app, pilot)
        seen = ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]
        letters = "".join(character for row in seen for character in row if character.isalpha())
        assert letters == text

    play(scene, (40, 30))


def test_welcome_collapses_to_one_row_with_the_first_message() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_welcome(("qcode 1.0", "Model   demo/demo", "Folder  ~/x", "", "· a tip"))
        assert len(transcript.plain_text().split("\n")) == 5
        transcript.add_notice("info", "still there")
        assert "a tip" in transcript.plain_text()
        transcript.add_user("go")
        await settle(app, pilot)
        assert app.view()[0] == "qcode 1.0 · demo/demo"
        assert "a tip" not in transcript.plain_text()
        await pilot.resize_terminal(18, 10)
        await settle(app, pilot)
        assert app.view()[0] == "qcode 1.0 · demo…"

    play(scene)


def test_collapsed_welcome_shows_the_reason_for_the_model_in_full_or_not_at_all() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.add_welcome(("qcode 1.0", "Model   demo/demo (no key is set or stored)"))
        app.transcript.add_user("go")
        await settle(app, pilot)
        assert app.view()[0] == "qcode 1.0 · demo/demo (no key is set or stored)"
        await pilot.resize_terminal(40, 10)
        await settle(app, pilot)
        assert app.view()[0] == "qcode 1.0 · demo/demo"

    play(scene)


def test_user_message_is_a_band_across_the_width() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.add_user("go\non")
        app.transcript.append_text("yes")
        await settle(app, pilot)
        grounds = [{segment.style.bgcolor for segment in strip if segment.style} for strip in strips(app, 4)]
        band, text = grounds[0], grounds[3]
        assert len(band) == len(text) == 1
        assert grounds[1] == band != text

    def strips(app: TranscriptApp, count: int) -> list[Strip]:
        width = app.transcript.text_width
        return [app.transcript.render_line(row).crop(0, width) for row in range(count)]

    play(scene)


def test_scroll_bar_is_painted_only_if_it_looks_different(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        bar = app.transcript.vertical_scrollbar
        painted: list[float] = []
        paint = bar.render

        def render() -> object:
            painted.append(bar.position)
            return paint()

        monkeypatch.setattr(bar, "render", render)
        app.transcript.append_text("row\n\n" * 1_000)
        await settle(app, pilot)
        assert painted
        painted.clear()
        for _ in range(5):
            app.transcript.append_text("row\n\n")
            await settle(app, pilot)
        assert painted == []
        assert app.transcript.scroll_y == app.transcript.max_scroll_y
        app.transcript.scroll_home(animate=False)
        await settle(app, pilot)
        assert painted[-1] == 0
        app.transcript.scroll_end(animate=False)
        await settle(app, pilot)
        assert painted[-1] == app.transcript.max_scroll_y

    play(scene)


def test_resize_lays_out_only_the_part_of_a_long_reply_that_is_near_the_view() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text(guide(60_000))
        transcript.settle()
        transcript.lay_out_all()
        transcript.scroll_to(y=transcript.row_layout.height // 2, immediate=True)
        await settle(app, pilot)
        top = next(transcript.row_layout.lines(app.top, app.top + 1)).text
        before = transcript.row_layout.width
        await pilot.resize_terminal(52, 12)
        async with asyncio.timeout(5):
            while transcript.row_layout.width == before:
                await pilot.pause()
        entries = transcript.row_layout.entries
        current = [entry for entry in entries if entry.is_laid_out(transcript.row_layout.width)]
        assert 0 < len(current) < len(entries) / 4
        assert next(transcript.row_layout.lines(app.top, app.top + 1)).text.startswith(top[:20])

    play(scene)
