"""The base of all pickers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.app import App
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot
from textual.widgets import Input

from qcode.tui.app import QcodeApp
from qcode.tui.screens.picker import Column, Picker, PickerList, PickerRow, foot

ROWS = tuple(PickerRow(f"id{n}", f"name {n}", f"detail [b]{n}", n == 3) for n in range(40))


class Recording(Picker):
    """Notes which rows it was told of."""

    def __init__(self, rows: tuple[PickerRow, ...] = ROWS, empty: str = "Nothing yet.") -> None:
        super().__init__("Things", rows, empty=empty)
        self.seen: list[str] = []

    def show_row(self, row: PickerRow | None) -> None:
        self.seen.append(row.id if row is not None else "")


class Stage(App[None]):
    CSS_PATH = QcodeApp.CSS_PATH

    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self.picker = picker
        self.results: list[str | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.picker, self.results.append)

    def lines(self) -> list[str]:
        """Return what is on screen."""
        return [
            "".join(segment.text for segment in strip).rstrip() for strip in self.screen._compositor.render_strips()
        ]


Scene = Callable[[Stage, Pilot[None]], Awaitable[None]]


def play(scene: Scene, picker: Picker | None = None, size: tuple[int, int] = (80, 24)) -> None:
    async def run() -> None:
        stage = Stage(picker or Recording())
        async with stage.run_test(size=size) as pilot:
            await pilot.pause()
            await scene(stage, pilot)

    asyncio.run(run())


def test_the_current_row_is_highlighted_and_enter_takes_it() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        assert stage.picker.row == ROWS[3]
        await pilot.press("down", "enter")
        assert stage.results == ["id4"]

    play(scene)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_leaving_chooses_nothing(key: str) -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        assert stage.results == [None]

    play(scene)


def test_typing_filters_and_escape_clears_first() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press(*"39")
        await pilot.pause()
        assert [row.id for row in stage.picker.rows] == ["id39"]
        assert any("1 of 40" in line for line in stage.lines())
        await pilot.press("escape")
        await pilot.pause()
        assert len(stage.picker.rows) == 40
        assert stage.results == []
        await pilot.press("escape")
        assert stage.results == [None]

    play(scene)


def test_enter_without_a_match_reports_reason() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press(*"zzz", "enter")
        await pilot.pause()
        assert stage.results == []
        assert any("No match" in line for line in stage.lines())

    play(scene)


def test_a_list_without_rows_says_so() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        assert any("No sessions yet." in line for line in stage.lines())
        await pilot.press("down", "enter", "up", "pagedown")
        assert stage.results == []

    play(scene, Recording((), "No sessions yet."))


def test_each_row_that_is_highlighted_is_told_once() -> None:
    picker = Recording()

    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press("down", "up", "home", "home", "end", "ctrl+end", "ctrl+home")
        assert picker.seen == ["id3", "id4", "id3", "id0", "id39", "id0"]

    play(scene, picker)


def test_the_highlighted_row_is_always_in_view() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        for key in ("ctrl+end", "pageup", "pageup", "pagedown", "ctrl+home", "pagedown", "down"):
            await pilot.press(key)
            await pilot.pause()
            row = stage.picker.row
            assert row is not None
            mark = f"› {'● ' if row.is_current else '  '}{row.label} "
            assert any(mark in line for line in stage.lines())

    play(scene)


def test_a_click_highlights_and_a_click_on_the_highlight_takes() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.click(PickerList, offset=(5, 1))
        assert stage.picker.row == ROWS[1]
        assert stage.results == []
        await pilot.click(PickerList, offset=(5, 1))
        assert stage.results == ["id1"]

    play(scene)


def test_other_rows_keep_the_highlight_on_the_same_one() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        stage.picker.set_rows(ROWS[2:])
        assert stage.picker.row == ROWS[4]
        stage.picker.set_rows([row for row in ROWS[2:] if row.id != "id4"])
        assert stage.picker.row == ROWS[5]

    play(scene)


@pytest.mark.parametrize("size", [(80, 24), (40, 24), (40, 12), (30, 10)])
def test_everything_fits_and_brackets_are_text(size: tuple[int, int]) -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        lines = stage.lines()
        assert all(len(line) <= size[0] for line in lines)
        shown = "\n".join(lines)
        assert "Things  40" in shown
        assert "name 3 " in shown
        assert "Enter select" in shown
        if size[0] >= 40:
            assert "detail [b]3" in shown
        assert isinstance(stage.focused, Input)

    play(scene, size=size)


def test_arrows_go_around_the_ends_and_pages_do_not() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press("home", "up")
        assert stage.picker.row == ROWS[-1]
        await pilot.press("pagedown")
        assert stage.picker.row == ROWS[-1]
        await pilot.press("down", "pageup")
        assert stage.picker.row == ROWS[0]

    play(scene)


def test_the_wheel_moves_the_highlight() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot._post_mouse_events([MouseScrollDown], PickerList, offset=(3, 2))
        assert stage.picker.row == ROWS[4]
        await pilot._post_mouse_events([MouseScrollUp], PickerList, offset=(3, 2))
        assert stage.picker.row == ROWS[3]

    play(scene)


GROUPED = (
    PickerRow("a", "alpha", cells=("200k", "64k", "$3 / $15"), group="one · ready"),
    PickerRow("b", "beta [b]", cells=("8k", "", ""), group="one · ready"),
    PickerRow("c", "alpine", cells=("1M", "128k", ""), also="two/alpine", group="two"),
    PickerRow("d", "delta", "/connect", group="more", is_dim=True),
)


class Grouped(Picker):
    COLUMNS = (Column("window", 3), Column("output", 2), Column("price", 1))

    def __init__(self) -> None:
        super().__init__("Grouped", GROUPED)


def test_groups_have_headings_and_columns_line_up() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        lines = stage.lines()
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


def test_narrow_lists_leave_the_least_telling_columns_out_first() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        shown = "\n".join(stage.lines())
        assert "window" in shown and "200k" in shown
        assert "price" not in shown

    play(scene, Grouped(), size=(30, 20))


def test_a_filter_keeps_groups_together_and_finds_what_is_not_shown() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press(*"al")
        await pilot.pause()
        assert [row.id for row in stage.picker.rows][:2] == ["a", "c"]
        await pilot.press("escape", *"two/")
        await pilot.pause()
        assert [row.id for row in stage.picker.rows] == ["c"]

    play(scene, Grouped())


def test_a_click_on_a_heading_takes_nothing() -> None:
    async def scene(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.click(PickerList, offset=(5, 0))
        await pilot.click(PickerList, offset=(5, 1))
        assert (stage.picker.row, stage.results) == (GROUPED[0], [])
        await pilot.click(PickerList, offset=(5, 5))
        assert stage.picker.row == GROUPED[2]

    play(scene, Grouped())


def test_the_foot_has_as_many_keys_as_fit_and_never_half_a_key() -> None:
    keys = [("Enter", "keep"), ("Esc", "leave"), ("Ctrl+R", "rename")]
    assert foot(keys, 80).plain == "Enter keep  ·  Esc leave  ·  Ctrl+R rename"
    assert foot(keys, 30).plain == "Enter keep  ·  Esc leave"
    assert foot(keys, 3).plain == "Enter keep"
