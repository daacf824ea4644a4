"""Two columns at any width: wrapped text stays in its column."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from qcode.tui.commands.command import table_text
from qcode.tui.shared_widgets import HangingText, hanging_rows
from tests.tui.harness import Running, drive

LINE = "  rate limit     the provider refuses, qcode counts down and retries"


def test_line_that_fits_is_unchanged() -> None:
    assert list(hanging_rows(LINE, 80)) == [LINE]


def test_wrapped_text_stays_in_its_column() -> None:
    assert list(hanging_rows(LINE, 50)) == [
        "  rate limit     the provider refuses, qcode",
        "                 counts down and retries",
    ]


def test_right_column_moves_below_if_too_narrow() -> None:
    assert list(hanging_rows(LINE, 36)) == [
        "  rate limit",
        "      the provider refuses, qcode",
        "      counts down and retries",
    ]


def test_line_without_columns_keeps_its_indent() -> None:
    assert list(hanging_rows("  keys: one and another", 15)) == ["  keys: one and", "  another"]


@pytest.mark.parametrize("line", [LINE, "日本語  " + "幅の広い文字" * 9, "x" * 90, "", "   ", "a  " + "b" * 50])
@pytest.mark.parametrize("width", [12, 30, 41, 80])
def test_no_row_is_wider_than_the_screen_and_no_word_is_lost(line: str, width: int) -> None:
    rows = list(hanging_rows(line, width))
    assert all(cell_len(row) <= width for row in rows if row.strip())
    assert "".join("".join(rows).split()) == "".join(line.split())


def test_one_long_left_side_does_not_move_the_other_right_columns() -> None:
    rows = [("/a", "one"), ("/bcd [x]", "two"), ("/long " + "[argument] " * 4, "three")]
    assert table_text(rows).splitlines() == [
        "/a        one",
        "/bcd [x]  two",
        "/long " + "[argument] " * 4,
        "          three",
    ]


def test_wide_characters_on_the_left_do_not_move_the_right_column() -> None:
    assert table_text([("/日本", "one"), ("/model", "two")]).splitlines() == ["/日本   one", "/model  two"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [40, 80])
def test_help_scrolls_to_its_end_at_every_width(width: int) -> None:
    async def test(run: Running) -> None:
        await run.send("/help")
        await run.until(lambda: run.app.widgets.help.is_open)
        scroll = run.app.query_one("#help-scroll")
        assert scroll.max_scroll_y > 0
        while scroll.scroll_y < scroll.max_scroll_y:
            before = scroll.scroll_y
            await run.pilot.press("pagedown")
            await run.pilot.pause()
            assert scroll.scroll_y > before
        text = run.app.query_one(HangingText)
        assert scroll.scroll_y + scroll.size.height == len(text.rows(text.content_size.width))

    drive(test, size=(width, 24))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("size", "rows"), [((80, 24), 16), ((120, 40), 32), ((40, 16), 12)])
def test_help_uses_the_rows_of_the_screen(size: tuple[int, int], rows: int) -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("f1")
        await run.pilot.pause()
        scroll = run.app.query_one("#help-scroll")
        assert scroll.size.height == rows
        run.app.widgets.prompt.replace_text("\n" * 20)
        status = run.app.widgets.status
        await run.until(lambda: scroll.size.height < rows and status.region.bottom == size[1])

    drive(test, size=size)


def test_help_has_two_columns_if_it_is_longer_than_a_wide_screen() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("f1")
        await run.pilot.pause()
        text = run.app.query_one("#help-text", HangingText)
        assert run.app.query_one("#help-scroll").max_scroll_y == 0, "all of it is in view"
        assert {*text.plain.split()} <= {*run.screen.split()}
        await run.send("/context")
        await run.pilot.pause()
        assert text.rows(156) == text.rows(80), "a short text has one"

    drive(test, size=(160, 50))
