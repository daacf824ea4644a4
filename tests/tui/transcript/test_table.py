"""Tables at every width."""

from __future__ import annotations

from qcode.tui.transcript.blocks import fit_columns
from tests.tui.transcript.rendering import rows_of, slots_of

TABLE = (
    "| Name | Count | What it is |\n|:--|--:|:-:|\n| alpha | 1 | short |\n| 日本 | 22 | a longer text for this cell |\n"
)


def test_columns_are_aligned_by_cells_not_characters() -> None:
    assert rows_of(TABLE) == [
        "Name  │ Count │         What it is",
        "──────┼───────┼────────────────────────────",
        "alpha │     1 │            short",
        "日本  │    22 │ a longer text for this cell",
    ]


def test_widest_column_wraps_first() -> None:
    assert rows_of(TABLE, 32)[3:] == [
        "日本  │    22 │  a longer text",
        "      │       │  for this cell",
    ]


def test_table_that_is_too_wide_becomes_records() -> None:
    assert rows_of(TABLE, 20) == [
        "Name: alpha",
        "Count: 1",
        "What it is: short",
        "────────",
        "Name: 日本",
        "Count: 22",
        "What it is: a",
        "  longer text for",
        "  this cell",
    ]


def test_row_may_have_too_few_or_too_many_cells() -> None:
    assert rows_of("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |") == ["a │ b", "──┼──", "1 │", "1 │ 2"]


def test_cells_have_inline_marks_and_line_breaks() -> None:
    source = "| a |\n|---|\n| x<br>`y` |"
    assert rows_of(source) == ["a", "─", "x", "y"]
    assert slots_of(source, "y") == ("code",)


def test_fit_shrinks_the_widest_column_and_keeps_the_sum() -> None:
    assert fit_columns([4, 30, 20], 40) == [4, 15, 15]
    assert fit_columns([4, 5], 40) == [4, 5]
    assert fit_columns([20, 20, 20], 20) is None
