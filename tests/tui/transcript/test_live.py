"""Live blocks in the widget: thinking, marks, a reply that starts over, a reply that comes back, folds."""

from __future__ import annotations

from typing import cast

import pytest
from textual.pilot import Pilot

from qcode.tui.transcript.cards import CardState, CardUpdate
from qcode.tui.transcript.content import Content, ThinkingMode
from qcode.tui.transcript.line import style_of
from tests.tui.transcript.transcript_app import TranscriptApp, fill, play, settle


def rows(app: TranscriptApp) -> list[str]:
    return app.transcript.plain_text().split("\n")


def test_thinking_is_one_live_row_with_its_last_words_and_expands() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_reasoning("first *thought* " * 9 + "\nsec")
        transcript.append_reasoning("ond and last")
        assert rows(app) == ["∴ thinking · *thought* first *thought* second and last…"]
        await settle(app, pilot)
        assert app.is_ticking()
        app.now += 12
        transcript.tick()
        assert rows(app) == ["∴ thinking 12 s · first *thought* second and last…"]
        transcript.toggle_folds()
        assert rows(app)[0] == "∴ thinking 12 s…"
        assert rows(app)[-1] == "│ second and last"
        transcript.append_reasoning("\nmore")
        assert rows(app)[-2:] == ["│ second and last", "│ more"]
        transcript.toggle_folds()
        app.now += 113
        transcript.append_text("Answer")
        assert rows(app) == ["∴ thought for 2 min 05 s · Ctrl+O", "", "Answer"]
        await settle(app, pilot)
        assert not app.is_ticking()
        transcript.toggle_folds()
        assert rows(app)[0] == "∴ thought for 2 min 05 s"
        assert rows(app)[-4:] == ["│ second and last", "│ more", "", "Answer"]

    play(scene)


def test_long_thinking_never_takes_more_than_one_row() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for number in range(40):
            transcript.append_reasoning(f"thought {number}\n")
            await settle(app, pilot)
            assert len(rows(app)) == 1
        assert app.view()[0].endswith("thought 39…")
        transcript.append_text("Answer")
        assert rows(app) == ["∴ thought · Ctrl+O", "", "Answer"]

    play(scene)


def test_click_expands_one_thinking_entry_and_the_row_stays_in_place() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for number in range(8):
            transcript.add_card(str(number), "shell", f"n{number}")
            transcript.update_card(str(number), CardUpdate(state="done", output="\n".join(map(str, range(40)))))
        await settle(app, pilot)
        at = next(row for row, text in enumerate(app.view()) if "n7" in text)
        folded = rows(app)
        await pilot.click(offset=(4, at))
        await settle(app, pilot)
        assert app.view()[at] == "✓ Run    n7"
        assert len(rows(app)) == len(folded) + 31
        assert rows(app)[: len(folded) - 10] == folded[:-10]
        await pilot.click(offset=(4, at))
        await settle(app, pilot)
        assert rows(app) == folded

    play(scene)


def test_text_after_thinking_is_a_separate_block() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("one")
        transcript.append_reasoning("hm")
        transcript.append_text("two")
        transcript.settle()
        assert rows(app) == ["one", "", "∴ thought · Ctrl+O", "", "two"]

    play(scene)


def test_continued_text_stays_in_its_block_after_more_thinking() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("```\none\ntw")
        transcript.add_mark("continued 1/3")
        transcript.append_reasoning("hm")
        transcript.append_text("o\n```\nend")
        transcript.settle()
        text = [row for row in rows(app) if not row.startswith("──")]
        assert text == [" one", " two", "end", "", "∴ thought · Ctrl+O"]

    play(scene)


def test_notice_between_two_parts_of_a_text_does_not_split_it() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("one **tw")
        transcript.add_notice("info", "waiting")
        transcript.append_text("o**")
        assert rows(app) == ["one two", "", "• waiting"]

    play(scene)


def test_identical_notices_are_merged_with_a_count() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for text in ("Nothing to undo.", "Nothing to undo.", "Nothing to undo.", "Other."):
            transcript.add_notice("info", text)
        transcript.add_notice("warning", "Other.")
        transcript.add_notice("info", "Nothing to undo.")
        notices = [row for row in rows(app) if row]
        assert notices == ["• Nothing to undo. (×3)", "• Other.", "! Other.", "• Nothing to undo."]

    play(scene)


def test_mark_without_live_text_is_a_separate_row() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("text")
        transcript.settle()
        transcript.add_mark("interrupted")
        assert rows(app)[1].startswith("── interrupted ─")
        assert rows(app)[0] == "text"

    play(scene)


OLD = "\n\n".join(f"old {number}" for number in range(6))


def test_restarted_reply_replaces_the_old_text_row_by_row() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_user("go")
        transcript.append_text(OLD)
        height = len(rows(app))
        transcript.restart("cut; asking again")
        assert len(rows(app)) == height
        assert rows(app)[1].startswith("── cut; asking again ─")
        assert rows(app)[2:] == OLD.split("\n")
        transcript.append_text("new 0\n\nnew 1\n")
        assert len(rows(app)) == height
        assert rows(app)[1:5] == ["", "new 0", "", "new 1"]
        assert rows(app)[5].startswith("── cut; asking again ─")
        assert rows(app)[6:] == OLD.split("\n")[4:]
        transcript.append_text("\nnew 2\n\nnew 3\n\nnew 4\n\nnew 5\n\nnew 6\n")
        assert rows(app)[2:] == [row for number in range(7) for row in (f"new {number}", "")][:-1]

    play(scene)


def test_old_text_is_dimmed_after_a_restart() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("**old**\n\nmore")
        transcript.restart("again")
        await settle(app, pilot)
        old = transcript.palette.style(style_of("old"))
        styles = [segment.style for segment in transcript.render_line(2) if segment.text.strip()]
        assert app.view()[2] == "more"
        assert [style.color for style in styles if style] == [old.color]

    play(scene)


def test_long_old_text_ends_with_the_part_that_is_replaced_and_names_the_cause_once() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("\n\n".join(f"row {number}" for number in range(50)))
        transcript.restart("truncated at 8,000 tokens")
        transcript.append_text("\n\n".join(f"new {number}" for number in range(25)))
        await settle(app, pilot)
        text = transcript.plain_text()
        assert text.count("truncated at 8,000 tokens") == 1
        assert "── old text, 49% replaced ──" in text

    play(scene)


def test_old_text_is_removed_when_a_shorter_new_attempt_settles() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text(OLD)
        transcript.restart("again")
        transcript.append_text("short")
        transcript.settle()
        assert rows(app) == ["short"]

    play(scene)


@pytest.mark.parametrize("up", [0, 3, 15])
def test_rows_do_not_move_while_a_reply_is_rewritten(up: int) -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 5)
        text = "\n\n".join(f"row {number}" for number in range(30))
        transcript.append_text(text)
        await settle(app, pilot)
        transcript.scroll_to(y=app.top - up)
        await pilot.pause()
        top = app.top
        transcript.restart("again")
        for number in range(30):
            transcript.append_text(f"new {number}\n\n")
            await settle(app, pilot)
            assert app.top == top
        transcript.settle()
        await settle(app, pilot)
        assert app.top == top

    play(scene)


@pytest.mark.parametrize("ending", ["restart", "restore"])
def test_view_stays_when_a_fast_reply_with_unpainted_parts_is_replaced(ending: str) -> None:
    # All of it comes within one frame, so only the parts near the end are laid out and the height is an estimate.
    text = "\n\n".join(f"# h{number}\n\n- a{number}\n\n\n\n" + f"word{number} " * 40 for number in range(60))

    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text(text)
        await settle(app, pilot)
        transcript.scroll_to(y=app.top - 15)
        await pilot.pause()
        before = app.view()
        if ending == "restart":
            transcript.restart("again")
            transcript.append_text("new\n")
        else:
            transcript.restore(text)
        await settle(app, pilot)
        assert app.view() == before
        assert not app.is_anchored()

    play(scene)


@pytest.mark.parametrize("width", [33, 24, 95])
def test_resize_keeps_the_text_in_view_while_a_reply_is_written_anew(width: int) -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        fill(transcript, 5)
        transcript.append_text(" ".join(f"w{number:03}" for number in range(700)))
        await settle(app, pilot)
        transcript.scroll_to(y=app.top - 24)
        await pilot.pause()
        transcript.restart("again")
        transcript.append_text(" ".join(f"n{number:03}" for number in range(60)))
        await settle(app, pilot)
        first = app.view()[0].split()[0]
        assert first.startswith("w")
        for columns in (width, 60, width + 7):
            await pilot.resize_terminal(columns, 12)
            await settle(app, pilot)
            assert first in app.view()[0].split()
            transcript.append_text(" n")
            await settle(app, pilot)
            assert first in app.view()[0].split()

    play(scene)


def test_second_restart_keeps_the_rows_on_screen() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text(OLD)
        transcript.restart("first")
        transcript.append_text("new 0\n\nnew 1\n")
        height = len(rows(app))
        transcript.restart("second")
        assert len(rows(app)) == height
        assert rows(app)[0].startswith("── second ─")
        assert "new 1" in rows(app)
        transcript.append_text("third")
        transcript.settle()
        assert rows(app) == ["third"]

    play(scene)


def test_restored_text_replaces_both_attempts_and_may_continue() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_user("go")
        transcript.append_reasoning("hm")
        transcript.append_text(OLD)
        transcript.restart("again")
        transcript.append_text("new")
        transcript.restore("old 0 and", "hm")
        assert rows(app) == ["> go", "", "∴ thought · Ctrl+O", "", "old 0 and"]
        transcript.append_text(" more")
        transcript.settle()
        assert rows(app) == ["> go", "", "∴ thought · Ctrl+O", "", "old 0 and more"]

    play(scene)


def test_card_of_a_truncated_call_is_removed_with_its_attempt() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.append_text("text")
        transcript.add_card("1", "write_file", "")
        transcript.update_card("1", CardUpdate(state="writing", argument="8k characters"))
        transcript.restart("again")
        assert any("write_file" in row for row in rows(app))
        transcript.update_card("1", CardUpdate(state="cancelled"))
        transcript.append_text("new")
        transcript.add_card("1", "write_file", "a.py")
        transcript.settle()
        assert rows(app) == ["new", "", "○ write_file a.py  waiting"]

    play(scene)


def test_restart_without_shown_text_only_adds_a_note() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_user("go")
        transcript.restart("asking again")
        transcript.append_text("text")
        assert rows(app)[1].startswith("── asking again")
        assert rows(app)[-1] == "text"

    play(scene)


def test_card_counts_its_seconds_while_it_runs() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        transcript.add_card("1", "shell", "sleep 9")
        transcript.update_card("1", CardUpdate(state="running"))
        await settle(app, pilot)
        app.now += 5
        transcript.tick()
        await settle(app, pilot)
        assert app.view()[0] == "● Run    sleep 9  running 5 s"

    play(scene)


def test_calls_with_the_same_id_have_separate_cards() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for argument in ("a", "b"):
            transcript.add_card("call_1", "read", argument)
            transcript.update_card("call_1", CardUpdate(state="done"))
        assert rows(app) == ["✓ Read   a", "✓ Read   b"]

    play(scene)


def test_unknown_state_is_refused() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        app.transcript.add_card("1", "shell", "ls")
        with pytest.raises(ValueError, match="no state 'sleeping'"):
            app.transcript.update_card("1", CardUpdate(state=cast("CardState", "sleeping")))

    play(scene)


def test_folds_open_and_close_without_losing_the_scroll_position() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        transcript = app.transcript
        for number in range(12):
            transcript.add_card(str(number), "shell", f"n{number}")
            transcript.update_card(str(number), CardUpdate(state="done", output="\n".join(map(str, range(40)))))
        await settle(app, pilot)
        transcript.scroll_to(y=app.end // 2)
        await pilot.pause()
        place = next(row for row in app.view() if "Run" in row)
        at = app.view().index(place)
        transcript.scroll_to(y=app.top + at)
        await pilot.pause()
        for _ in range(2):
            transcript.toggle_folds()
            await settle(app, pilot)
            assert app.view()[0] == place

    play(scene)


def test_thinking_may_stay_open_or_hidden() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        cases: list[tuple[ThinkingMode, list[str]]] = [
            ("expanded", ["∴ thought", "│ because", "", "yes"]),
            ("hidden", ["yes"]),
        ]
        for thinking, seen in cases:
            app.transcript.show_content(Content(lambda: app.now, thinking))
            app.transcript.append_reasoning("because")
            app.transcript.append_text("yes")
            app.transcript.settle()
            assert rows(app) == seen
            app.transcript.append_reasoning("half")
            app.transcript.restore("first", "why")
            app.transcript.settle()
            assert rows(app) == [*seen, *(["", "∴ thought", "│ why"] if thinking == "expanded" else []), "", "first"]

    play(scene)
