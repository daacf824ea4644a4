"""Unified diffs: made of two documents, and read line by line."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.text.diff import FileDiff, count_changes, diff_lines, file_diffs, unified_diff
from qcode.tools.text_file import diff_of, from_text

LINES = st.lists(
    st.sampled_from(["", "a", "- a/x", "-- a/x", "++ b/x", "@ -1 +1 @@", "@@ -1 +1 @@", "\\ b"]), max_size=8
)


@given(LINES, LINES)
def test_no_line_of_a_file_passes_for_a_header(before: list[str], after: list[str]) -> None:
    diff = diff_of("x", from_text("\n".join(before)), from_text("\n".join(after)))
    found = list(diff_lines(diff.split("\n")))
    assert [line.text for line in found if line.kind == "outside"] in ([""], ["--- a/x", "+++ b/x", ""])
    assert {line.text[:2] for line in found if line.kind == "hunk"} <= {"@@"}
    assert {line.text[0] for line in found if line.kind == "note"} <= {"\\"}
    lines_by_kind = {kind: [line for line in found if line.kind == kind] for kind in ("add", "remove", "same")}
    assert all(before[line.number - 1] == line.text[1:] for line in lines_by_kind["remove"])
    assert all(after[line.number - 1] == line.text[1:] for line in (*lines_by_kind["add"], *lines_by_kind["same"]))
    assert count_changes(diff) == f"+{len(lines_by_kind['add'])} -{len(lines_by_kind['remove'])} lines"


@pytest.mark.parametrize(
    ("diff", "kinds"),
    [
        ("@@ -1 +1 @@\n--- a/x\n+++ b/x\n--- a/y", ["hunk", "remove", "add", "outside"]),
        ("@@ -0,0 +1,2 @@ f\n+a\n+b\n+c", ["hunk", "add", "add", "outside"]),
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b", ["hunk", "remove", "note", "add"]),
        ("a text\n+without a header", ["outside", "outside"]),
    ],
)
def test_hunk_has_the_line_counts_of_its_header(diff: str, kinds: list[str]) -> None:
    assert [line.kind for line in diff_lines(diff.split("\n"))] == kinds


@pytest.mark.parametrize("character", ["\f", "\u2028", "\x85", "\r"])
def test_changes_of_a_file_keep_characters_that_python_takes_for_line_ends(character: str) -> None:
    before, after = f"a{character}b\nc\nd\n", f"a{character}b\nC\nd\n"
    diff = diff_of("x", from_text(before), from_text(after))
    assert file_diffs([diff]) == (FileDiff("x", 1, 1, diff),)


def test_diff_keeps_frequent_lines_between_changed_ones() -> None:
    old = [line for number in range(100) for line in (f"value = {number}", f"print(value, {number})", "")]
    new = [line.replace("value", "total") for line in old]
    rows = list(unified_diff(old, new, "a", "b"))[2:]
    assert Counter(row[0] for row in rows) == {"@": 1, "-": 200, "+": 200, " ": 100}


def test_diff_of_a_thousand_equal_lines_has_only_the_added_line() -> None:
    old = ["- a"] * 1_000
    diff = list(unified_diff(old, [*old, "end"], "a", "b", context=0))
    assert diff[2:] == ["@@ -1000,0 +1001 @@", "+end"]
