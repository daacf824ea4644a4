"""Live blocks in the widget: thinking, marks, a reply that starts over, a reply that comes back, folds."""

from __future__ import annotations

from typing import cast

import pytest
from textual.pilot import Pilot

from qcode.tui.transcript.cards import CardState, CardUpdate
from qcode.tui.transcript.content import Content, Thoughts
from qcode.tui.transcript.line import ink
from tests.tui.transcript.stage import Stage, fill, play, settle


def rows(stage: Stage) -> list[str]:
    return stage.transcript.plain_text().split("\n")


def test_thinking_is_one_live_row_with_its_last_words_and_unfolds() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_reasoning("first *thought* " * 9 + "\nsec")
        shown.append_reasoning("ond and last")
        assert rows(stage) == ["∴ thinking · *thought* first *thought* second and last…"]
        await settle(stage, pilot)
        assert stage.is_ticking()
        stage.now += 12
        shown._tick()
        assert rows(stage) == ["∴ thinking 12 s · first *thought* second and last…"]
        shown.toggle_folds()
        assert rows(stage)[0] == "∴ thinking 12 s…"
        assert rows(stage)[-1] == "│ second and last"
        shown.append_reasoning("\nmore")
        assert rows(stage)[-2:] == ["│ second and last", "│ more"]
        shown.toggle_folds()
        stage.now += 113
        shown.append_text("Answer")
        assert rows(stage) == ["∴ thought for 2 min 05 s", "", "Answer"]
        await settle(stage, pilot)
        assert not stage.is_ticking()
        shown.toggle_folds()
        assert rows(stage)[0] == "∴ thought for 2 min 05 s"
        assert rows(stage)[-4:] == ["│ second and last", "│ more", "", "Answer"]

    play(scene)


def test_long_thinking_never_takes_more_than_its_row_so_nothing_disappears_at_its_end() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        for number in range(40):
            shown.append_reasoning(f"thought {number}\n")
            await settle(stage, pilot)
            assert len(rows(stage)) == 1
        assert stage.view()[0].endswith("thought 39…")
        shown.append_text("Answer")
        assert rows(stage) == ["∴ thought", "", "Answer"]

    play(scene)


def test_a_click_on_its_row_unfolds_one_entry_and_the_row_stays_in_place() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        for number in range(8):
            shown.add_card(str(number), "shell", f"n{number}")
            shown.update_card(str(number), CardUpdate(state="done", output="\n".join(map(str, range(40)))))
        await settle(stage, pilot)
        at = next(row for row, text in enumerate(stage.view()) if "n7" in text)
        folded = rows(stage)
        await pilot.click(offset=(4, at))
        await settle(stage, pilot)
        assert stage.view()[at] == "✓ Run    n7"
        assert len(rows(stage)) == len(folded) + 31
        assert rows(stage)[: len(folded) - 10] == folded[:-10]
        await pilot.click(offset=(4, at))
        await settle(stage, pilot)
        assert rows(stage) == folded

    play(scene)


def test_text_after_thinking_is_a_block_of_its_own() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("one")
        shown.append_reasoning("hm")
        shown.append_text("two")
        shown.settle()
        assert rows(stage) == ["one", "", "∴ thought", "", "two"]

    play(scene)


def test_continued_text_goes_on_in_its_block_also_after_more_thinking() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("```\none\ntw")
        shown.add_mark("continued 1/3")
        shown.append_reasoning("hm")
        shown.append_text("o\n```\nend")
        shown.settle()
        text = [row for row in rows(stage) if not row.startswith("──")]
        assert text == [" one", " two", "end", "", "∴ thought"]

    play(scene)


def test_a_notice_between_two_pieces_of_text_does_not_cut_it() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("one **tw")
        shown.add_notice("info", "waiting")
        shown.append_text("o**")
        assert rows(stage) == ["one two", "", "• waiting"]

    play(scene)


def test_identical_notices_are_one_with_a_count() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        for text in ("Nothing to undo.", "Nothing to undo.", "Nothing to undo.", "Other."):
            shown.add_notice("info", text)
        shown.add_notice("warning", "Other.")
        shown.add_notice("info", "Nothing to undo.")
        notices = [row for row in rows(stage) if row]
        assert notices == ["• Nothing to undo. (×3)", "• Other.", "! Other.", "• Nothing to undo."]

    play(scene)


def test_a_mark_without_live_text_is_a_row_of_its_own() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("text")
        shown.settle()
        shown.add_mark("interrupted")
        assert rows(stage)[1].startswith("── interrupted ─")
        assert rows(stage)[0] == "text"

    play(scene)


OLD = "\n\n".join(f"old {number}" for number in range(6))


def test_a_reply_that_starts_over_takes_the_place_of_the_old_text_row_by_row() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_user("go")
        shown.append_text(OLD)
        height = len(rows(stage))
        shown.restart("cut; asking again")
        assert len(rows(stage)) == height
        assert rows(stage)[1].startswith("── cut; asking again ─")
        assert rows(stage)[2:] == OLD.split("\n")
        shown.append_text("new 0\n\nnew 1\n")
        assert len(rows(stage)) == height
        assert rows(stage)[1:5] == ["", "new 0", "", "new 1"]
        assert rows(stage)[5].startswith("── cut; asking again ─")
        assert rows(stage)[6:] == OLD.split("\n")[4:]
        shown.append_text("\nnew 2\n\nnew 3\n\nnew 4\n\nnew 5\n\nnew 6\n")
        assert rows(stage)[2:] == [row for number in range(7) for row in (f"new {number}", "")][:-1]

    play(scene)


def test_the_old_text_is_dimmed() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("**old**\n\nmore")
        shown.restart("again")
        await settle(stage, pilot)
        old = shown._colours.style(ink("old"))
        styles = [segment.style for segment in shown.render_line(2) if segment.text.strip()]
        assert stage.view()[2] == "more"
        assert [style.color for style in styles if style] == [old.color]

    play(scene)


def test_a_shorter_new_attempt_ends_the_hold_when_it_settles() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text(OLD)
        shown.restart("again")
        shown.append_text("short")
        shown.settle()
        assert rows(stage) == ["short"]

    play(scene)


@pytest.mark.parametrize("up", [0, 3, 15])
def test_nothing_moves_while_a_reply_is_written_anew(up: int) -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        fill(shown, 5)
        text = "\n\n".join(f"row {number}" for number in range(30))
        shown.append_text(text)
        await settle(stage, pilot)
        shown.scroll_to(y=stage.top - up)
        await pilot.pause()
        top = stage.top
        shown.restart("again")
        for number in range(30):
            shown.append_text(f"new {number}\n\n")
            await settle(stage, pilot)
            assert stage.top == top
        shown.settle()
        await settle(stage, pilot)
        assert stage.top == top

    play(scene)


@pytest.mark.parametrize("width", [33, 24, 95])
def test_a_resize_keeps_the_text_in_view_while_a_reply_is_written_anew(width: int) -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        fill(shown, 5)
        shown.append_text(" ".join(f"w{number:03}" for number in range(700)))
        await settle(stage, pilot)
        shown.scroll_to(y=stage.top - 24)
        await pilot.pause()
        shown.restart("again")
        shown.append_text(" ".join(f"n{number:03}" for number in range(60)))
        await settle(stage, pilot)
        first = stage.view()[0].split()[0]
        assert first.startswith("w")
        for columns in (width, 60, width + 7):
            await pilot.resize_terminal(columns, 12)
            await settle(stage, pilot)
            assert first in stage.view()[0].split()
            shown.append_text(" n")
            await settle(stage, pilot)
            assert first in stage.view()[0].split()

    play(scene)


def test_a_second_restart_holds_what_is_on_screen() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text(OLD)
        shown.restart("first")
        shown.append_text("new 0\n\nnew 1\n")
        height = len(rows(stage))
        shown.restart("second")
        assert len(rows(stage)) == height
        assert rows(stage)[0].startswith("── second ─")
        assert "new 1" in rows(stage)
        shown.append_text("third")
        shown.settle()
        assert rows(stage) == ["third"]

    play(scene)


def test_restored_text_replaces_both_attempts_and_may_continue() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_user("go")
        shown.append_reasoning("hm")
        shown.append_text(OLD)
        shown.restart("again")
        shown.append_text("new")
        shown.restore("old 0 and", "hm")
        assert rows(stage) == ["> go", "", "∴ thought", "", "old 0 and"]
        shown.append_text(" more")
        shown.settle()
        assert rows(stage) == ["> go", "", "∴ thought", "", "old 0 and more"]

    play(scene)


def test_the_card_of_a_call_cut_in_the_old_attempt_goes_with_it() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.append_text("text")
        shown.add_card("1", "write_file", "")
        shown.update_card("1", CardUpdate(state="writing", argument="8k characters"))
        shown.restart("again")
        assert any("write_file" in row for row in rows(stage))
        shown.update_card("1", CardUpdate(state="cancelled"))
        shown.append_text("new")
        shown.add_card("1", "write_file", "a.py")
        shown.settle()
        assert rows(stage) == ["new", "", "○ write_file a.py  waiting"]

    play(scene)


def test_a_restart_with_nothing_shown_only_says_so() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_user("go")
        shown.restart("asking again")
        shown.append_text("text")
        assert rows(stage)[1].startswith("── asking again")
        assert rows(stage)[-1] == "text"

    play(scene)


def test_a_card_counts_its_seconds_while_it_runs() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        shown.add_card("1", "shell", "sleep 9")
        shown.update_card("1", CardUpdate(state="running"))
        await settle(stage, pilot)
        stage.now += 5
        shown._tick()
        await settle(stage, pilot)
        assert stage.view()[0] == "● Run    sleep 9  running 5 s"

    play(scene)


def test_calls_that_share_an_id_have_cards_of_their_own() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        for argument in ("a", "b"):
            shown.add_card("call_1", "read", argument)
            shown.update_card("call_1", CardUpdate(state="done"))
        assert rows(stage) == ["✓ Read   a", "✓ Read   b"]

    play(scene)


def test_a_state_that_is_none_is_refused() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        stage.transcript.add_card("1", "shell", "ls")
        with pytest.raises(ValueError, match="no state 'sleeping'"):
            stage.transcript.update_card("1", CardUpdate(state=cast("CardState", "sleeping")))

    play(scene)


def test_folds_open_and_close_without_losing_the_place() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = stage.transcript
        for number in range(12):
            shown.add_card(str(number), "shell", f"n{number}")
            shown.update_card(str(number), CardUpdate(state="done", output="\n".join(map(str, range(40)))))
        await settle(stage, pilot)
        shown.scroll_to(y=stage.end // 2)
        await pilot.pause()
        place = next(row for row in stage.view() if "Run" in row)
        at = stage.view().index(place)
        shown.scroll_to(y=stage.top + at)
        await pilot.pause()
        for _ in range(2):
            shown.toggle_folds()
            await settle(stage, pilot)
            assert stage.view()[0] == place

    play(scene)


def test_thinking_may_stay_open_or_never_show() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        cases: list[tuple[Thoughts, list[str]]] = [
            ("expanded", ["∴ thought", "│ because", "", "yes"]),
            ("hidden", ["yes"]),
        ]
        for thinking, seen in cases:
            stage.transcript.show(Content(lambda: stage.now, thinking))
            stage.transcript.append_reasoning("because")
            stage.transcript.append_text("yes")
            stage.transcript.settle()
            assert rows(stage) == seen
            stage.transcript.append_reasoning("half")
            stage.transcript.restore("first", "why")
            stage.transcript.settle()
            assert rows(stage) == [*seen, *(["", "∴ thought", "│ why"] if thinking == "expanded" else []), "", "first"]

    play(scene)
