"""The base of all pickers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

import pytest
from textual.app import App
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.widgets import Input

from qcode.agent.models.offered import OfferedProvider
from qcode.tui.app import QcodeApp
from qcode.tui.main_widgets import PANEL_STYLES
from qcode.tui.panels.picker_list import Column, PickerList, PickerRow
from qcode.tui.screens.palette import PalettePicker
from qcode.tui.screens.picker import Finder, ListScreen, Picker
from qcode.tui.shared_widgets import SteadyInput, key_hints
from tests.tui.harness import Running, drive
from tests.tui.scripted_models import FULL, ScriptedModelsService

ROWS = tuple(PickerRow(f"id{n}", f"name {n}", f"detail [b]{n}", n == 3) for n in range(40))


class Recording(Picker):
    """Records the rows that are reported as highlighted."""

    def __init__(self, rows: tuple[PickerRow, ...] = ROWS, empty: str = "Nothing yet.") -> None:
        super().__init__("Things", rows, empty=empty)
        self.seen: list[str] = []

    def show_row(self, row: PickerRow | None) -> None:
        self.seen.append(row.id if row is not None else "")


class PickerApp(App[None]):
    CSS_PATH: ClassVar = [QcodeApp.CSS_PATH, PANEL_STYLES]

    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self.picker = picker
        self.results: list[str | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.picker, self.results.append)

    def lines(self) -> list[str]:
        """Return the rows on screen."""
        return [
            "".join(segment.text for segment in strip).rstrip() for strip in self.screen._compositor.render_strips()
        ]


Scene = Callable[[PickerApp, Pilot[None]], Awaitable[None]]


def play(scene: Scene, picker: Picker | None = None, size: tuple[int, int] = (80, 24)) -> None:
    async def run() -> None:
        app = PickerApp(picker or Recording())
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await scene(app, pilot)

    asyncio.run(run())


def test_current_row_is_highlighted_and_enter_selects_it() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        assert app.picker.row == ROWS[3]
        await pilot.press("down", "enter")
        assert app.results == ["id4"]

    play(scene)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_escape_selects_nothing(key: str) -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        assert app.results == [None]

    play(scene)


def test_typing_filters_and_escape_clears_first() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"39")
        await pilot.pause()
        assert [row.id for row in app.picker.rows] == ["id39"]
        assert any("1 of 40" in line for line in app.lines())
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.picker.rows) == 40
        assert app.results == []
        await pilot.press("escape")
        assert app.results == [None]

    play(scene)


def test_enter_without_a_match_reports_reason() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"zzz", "enter")
        await pilot.pause()
        assert app.results == []
        assert any("No match" in line for line in app.lines())

    play(scene)


def test_list_without_rows_says_so() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        assert any("No sessions yet." in line for line in app.lines())
        await pilot.press("down", "enter", "up", "pagedown")
        assert app.results == []

    play(scene, Recording((), "No sessions yet."))


def test_each_highlighted_row_is_reported_once() -> None:
    picker = Recording()

    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "up", "home", "home", "end", "ctrl+end", "ctrl+home")
        assert picker.seen == ["id3", "id4", "id3", "id0", "id39", "id0"]

    play(scene, picker)


def test_highlighted_row_is_always_in_view() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        for key in ("ctrl+end", "pageup", "pageup", "pagedown", "ctrl+home", "pagedown", "down"):
            await pilot.press(key)
            await pilot.pause()
            row = app.picker.row
            assert row is not None
            mark = f"› {'● ' if row.is_current else '  '}{row.label} "
            assert any(mark in line for line in app.lines())

    play(scene)


def test_list_that_does_not_fit_says_how_many_rows_it_shows_and_where_more_are() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press("home")
        await pilot.pause()
        assert [line.strip("▌ ") for line in app.lines() if " of 40" in line] == ["↓ 12 of 40"]
        await pilot.press(*["down"] * 14)
        await pilot.pause()
        assert [line.strip("▌ ") for line in app.lines() if " of 40" in line] == ["↑↓ 12 of 40"]
        await pilot.click(PickerList, offset=(5, 12))
        assert app.results == []
        await pilot.press("end")
        await pilot.pause()
        assert [line.strip("▌ ") for line in app.lines() if " of 40" in line] == ["↑ 12 of 40"]

    play(scene)


def test_title_and_mark_leave_out_the_same_rows() -> None:
    rows = [
        PickerRow("all", "All", is_summary=True),
        *(PickerRow(f"{number}", f"row {number}") for number in range(30)),
    ]

    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert any(line.split() == ["▌", "Rows", "30"] for line in app.lines())
        assert [line.strip("▌ ") for line in app.lines() if " of " in line] == ["↓ 11 of 30"]

    play(scene, Picker("Rows", rows))


def test_list_that_fits_has_no_mark() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        assert not any(" of " in line for line in app.lines())

    play(scene, Recording(ROWS[:13]))


def test_mouse_highlights_the_row_below_it_and_a_click_selects_it() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.hover(PickerList, offset=(5, 2))
        assert app.picker.row == ROWS[2]
        assert app.results == []
        await pilot.click(PickerList, offset=(5, 1))
        assert app.results == ["id1"]

    play(scene)


def test_heading_of_the_first_row_stays_in_view() -> None:
    rows = tuple(PickerRow(f"id{n}", f"name {n}", group=f"group {n // 20}") for n in range(40))

    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        def listed() -> list[str]:
            return [line.strip(" ▌›") for line in app.lines() if "group" in line or "name" in line]

        assert listed()[:2] == ["group 0", "name 0"]
        await pilot.press(*["down"] * 15)
        assert listed()[0] == "group 0"
        assert listed()[-1] == "name 15"
        second = listed()[1].replace("name ", "id")
        await pilot.click(PickerList, offset=(5, 1))
        assert app.results == [second]

    play(scene, Recording(rows))


def test_heading_without_a_visible_row_is_not_shown() -> None:
    rows = tuple(PickerRow(f"id{n}", f"name {n}", group=f"group {n // 10}") for n in range(40))

    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        for _ in range(40):
            listed = [line.strip(" ▌›") for line in app.lines() if "group" in line or "name" in line]
            assert listed[0].startswith("group")
            assert listed[-1].startswith("name")
            await pilot.press("down")

    play(scene, Recording(rows))


def test_view_does_not_scroll_while_the_highlight_moves_inside_it() -> None:
    rows = tuple(PickerRow(f"id{n}", f"name {n}", group=f"group {n // 20}") for n in range(40))

    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        last = [line.replace("›", " ") for line in app.lines()]
        assert any("group 1" in line for line in last)
        await pilot.press("up", "up")
        assert [line.replace("›", " ") for line in app.lines()] == last
        await pilot.press("home")
        assert any("group 0" in line for line in app.lines())

    play(scene, Recording(rows))


def test_replaced_rows_keep_the_highlight_on_the_same_row() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        app.picker.set_rows(ROWS[2:])
        assert app.picker.row == ROWS[4]
        app.picker.set_rows([row for row in ROWS[2:] if row.id != "id4"])
        assert app.picker.row == ROWS[5]

    play(scene)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(80, 24), (40, 24), (40, 12), (30, 10)])
def test_rows_fit_the_width_and_brackets_are_text(size: tuple[int, int]) -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        lines = app.lines()
        assert all(len(line) <= size[0] for line in lines)
        text = "\n".join(lines)
        assert "Things  40" in text
        assert "name 3 " in text
        assert "Enter select" in text
        if size[0] >= 40:
            assert "detail [b]3" in text
        assert isinstance(app.focused, Input)

    play(scene, size=size)


def test_arrows_wrap_around_and_page_keys_do_not() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press("home", "up")
        assert app.picker.row == ROWS[-1]
        await pilot.press("pagedown")
        assert app.picker.row == ROWS[-1]
        await pilot.press("down", "pageup")
        assert app.picker.row == ROWS[0]

    play(scene)


def test_mouse_wheel_moves_the_highlight() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot._post_mouse_events([MouseScrollDown], PickerList, offset=(3, 2))
        assert app.picker.row == ROWS[4]
        await pilot._post_mouse_events([MouseScrollUp], PickerList, offset=(3, 2))
        assert app.picker.row == ROWS[3]

    play(scene)


GROUPED = (
    PickerRow("a", "alpha", cells=("200k", "64k", "$3 / $15"), group="one · ready"),
    PickerRow("b", "beta [b]", cells=("8k", "", ""), group="one · ready"),
    PickerRow("c", "alpine", cells=("1M", "128k", ""), search_text="two/alpine", group="two"),
    PickerRow("d", "delta", "/connect", group="more", is_dim=True),
)


class Grouped(Picker):
    COLUMNS = (Column("window", 3), Column("output", 2), Column("price", 1))

    def __init__(self) -> None:
        super().__init__("Grouped", GROUPED)


def test_groups_have_headings_and_aligned_columns() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        lines = app.lines()
        head = next(line for line in lines if "window" in line)
        first = next(line for line in lines if "alpha" in line)
        last = next(line for line in lines if "alpine" in line)
        assert head.index("window") + len("window") == first.index("200k") + 4 == last.index("1M") + 2
        assert first.endswith("$3 / $15")
        order = [
            line.strip(" ▌›█▊") for line in lines if any(word in line for word in ("one ·", "beta", "two", "delta"))
        ]
        assert [text.split()[0] for text in order] == ["one", "beta", "two", "delta"]

    play(scene, Grouped())


def test_narrow_list_drops_the_least_important_columns_first() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        text = "\n".join(app.lines())
        assert "window" in text and "200k" in text
        assert "price" not in text

    play(scene, Grouped(), size=(30, 20))


MODES = (
    PickerRow("plan", "plan", "reads only"),
    PickerRow("accept", "accept-edits", "edits inside the folder run without asking"),
)


def test_detail_is_cut_between_words_and_shown_in_full_below_the_list() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        assert any(line.endswith("accept-edits  edits inside the…") for line in app.lines())
        await pilot.press("down")
        await pilot.pause()
        text = " ".join(" ".join(app.lines()).replace("▌", "").split())
        assert "edits inside the folder run without asking Enter" in text

    play(scene, Picker("Mode", MODES), size=(40, 20))


def test_details_that_fit_are_not_repeated_below_the_list() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        assert "\n".join(app.lines()).count("reads only") == 1

    play(scene, Picker("Mode", MODES))


def test_short_details_leave_their_room_to_the_labels() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        assert any("w" * 60 in line and line.endswith("+3 -1") for line in app.lines())

    play(scene, Picker("Changes", [PickerRow("a", "w" * 60, "+3 -1")]))


def test_single_long_detail_does_not_cut_the_labels_of_all_rows() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        text = "\n".join(app.lines())
        assert text.count("w" * 50) == 5
        assert "a_very_long" in text

    rows = [PickerRow(str(number), "w" * 50, "a.py" if number % 2 else "") for number in range(4)]
    play(scene, Picker("Rewind", [*rows, PickerRow("x", "w" * 50, "a_very_long_name_" * 4 + ".py")]), size=(80, 20))


def test_filter_keeps_groups_together_and_matches_hidden_text() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"al")
        await pilot.pause()
        assert [row.id for row in app.picker.rows][:2] == ["a", "c"]
        await pilot.press("escape", *"two/")
        await pilot.pause()
        assert [row.id for row in app.picker.rows] == ["c"]

    play(scene, Grouped())


def test_click_on_a_heading_selects_nothing() -> None:
    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.click(PickerList, offset=(5, 0))
        await pilot.click(PickerList, offset=(5, 1))
        assert (app.picker.row, app.results) == (GROUPED[0], [])
        await pilot.click(PickerList, offset=(5, 5))
        assert app.results == [GROUPED[2].id]

    play(scene, Grouped())


def test_footer_shows_as_many_complete_keys_as_fit() -> None:
    keys = [("Enter", "keep"), ("Esc", "leave"), ("Ctrl+R", "rename")]
    assert key_hints(keys, 80).plain == "Enter keep  ·  Esc leave  ·  Ctrl+R rename"
    assert key_hints(keys, 30).plain == "Enter keep  ·  Esc leave"
    assert key_hints(keys, 3).plain == "Enter keep"
    assert key_hints(keys, 30, 2).plain == "Enter keep  ·  Esc leave\nCtrl+R rename"


@pytest.mark.parametrize("size", [(80, 24), (40, 20), (30, 14), (100, 60)])
@pytest.mark.parametrize("command", ["/config", "/model", "palette"])
def test_long_list_covers_the_screen_or_leaves_rows_that_say_something(command: str, size: tuple[int, int]) -> None:
    async def test(run: Running) -> None:
        if command == "palette":
            await run.pilot.press("ctrl+p")
        else:
            await run.send(command)
        await run.until(lambda: isinstance(run.app.screen, ListScreen))
        await run.pilot.pause()
        screen = run.app.screen
        uncovered = screen.query_one("#picker").region.y
        assert uncovered <= 1 or uncovered >= 6
        foot = screen.query_one("#picker-foot")
        assert foot.region.bottom == size[1]
        assert "Esc close" in run.screen.split("\n")[foot.region.y]

    drive(
        test,
        size=size,
        models=ScriptedModelsService(*FULL, *(OfferedProvider(f"p{n}", is_ready=False) for n in range(40))),
    )


def test_cursor_of_the_terminal_stays_in_the_filter_when_the_list_shrinks() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+p")
        await run.until(lambda: isinstance(run.app.screen, PalettePicker))
        await run.pilot.press(*"theme")
        await run.pilot.pause()
        field = run.app.screen.query_one(SteadyInput)
        assert len(run.app.screen.query_one(Finder).rows) < 5
        assert run.app.cursor_position == field.cursor_screen_offset

    drive(test)


def test_cursor_of_the_terminal_is_written_at_the_filter_when_a_list_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Offset] = []

    async def test(run: Running) -> None:
        monkeypatch.setattr(App, "post_display_hook", lambda app: written.append(app.cursor_position))
        await run.pilot.press("ctrl+p")
        await run.until(lambda: isinstance(run.app.screen, PalettePicker))
        field = run.app.screen.query_one(SteadyInput)
        await run.until(lambda: written[-1] == field.cursor_screen_offset != (0, 0))

    drive(test)


@pytest.mark.parametrize("letters", ["abcdefghij", "日本語でした文字列"])
def test_long_filter_marks_its_hidden_ends_and_shows_its_cursor(letters: str) -> None:
    text = letters * 5

    async def scene(app: PickerApp, pilot: Pilot[None]) -> None:
        field = app.screen.query_one(SteadyInput)

        def shown() -> tuple[str, str]:
            """Return the text of the field before and after the cursor."""
            row = app.screen._compositor.render_strips()[field.region.y]
            assert app.cursor_position == field.cursor_screen_offset
            before, after = row.crop(0, app.cursor_position.x), row.crop(app.cursor_position.x)
            return before.text.removeprefix("▌ "), after.text.rstrip()

        def check(cursor: int, *, is_cut: tuple[bool, bool]) -> None:
            before, after = shown()
            assert (before.startswith("…"), after.endswith("…")) == is_cut
            assert text[:cursor].endswith(before.strip("… "))
            assert text[cursor:].startswith(after.strip("… "))
            assert after.strip("… ") or cursor == len(text), "the character at the cursor is in view"

        app.screen.query_one(Finder).set_filter(text)
        await pilot.pause()
        check(len(text), is_cut=(True, False))
        for _ in text[20:]:
            await pilot.press("left")
        await pilot.pause()
        check(20, is_cut=(True, True))
        await pilot.resize_terminal(20, 24)
        await pilot.pause()
        check(20, is_cut=(True, True))
        for _ in text[:20]:
            await pilot.press("left")
        await pilot.pause()
        check(0, is_cut=(False, True))

    play(scene, size=(30, 24))
