"""Unified diffs as rows."""

from __future__ import annotations

from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from qcode.tui.transcript.diff import near_changes, parse_diff, render_diff
from qcode.tui.transcript.line import join

DIFF = """--- a/src/x.py
+++ b/src/x.py
@@ -8,3 +8,4 @@ class A:
 same
-    name = 'x'
+    name = 'y'
+    more
 end
@@ -100,2 +101,1 @@
-gone
 last
"""


def rows(diff: str, width: int = 60) -> list[str]:
    return join(render_diff(parse_diff(diff), width)).split("\n")


def test_rows_have_the_numbers_of_their_file() -> None:
    assert rows(DIFF) == [
        "  8   same",
        "  9 -     name = 'x'",
        "  9 +     name = 'y'",
        " 10 +     more",
        " 11   end",
        "  ⋮",
        "100 - gone",
        "101   last",
    ]


def test_only_changed_words_are_marked() -> None:
    marked = [
        (text, ink.slots[-1])
        for line in render_diff(parse_diff(DIFF), 60)
        for text, ink in line.spans
        if ink.slots and ink.slots[-1].endswith("-word")
    ]
    assert marked == [("x", "diff-remove-word"), ("y", "diff-add-word")]


def test_lines_with_nothing_in_common_have_no_marks() -> None:
    diff = "@@ -1 +1 @@\n-completely different words\n+nothing(shared, at=all)\n"
    assert all(not row.changed for row in parse_diff(diff))


def test_removed_line_that_looks_like_a_header_is_a_removed_line() -> None:
    diff = "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,1 @@\n--- a comment\n kept\n"
    assert rows(diff) == ["1 - -- a comment", "1   kept"]


def test_names_of_several_files_are_shown() -> None:
    two = DIFF + "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n"
    assert "src/x.py" in rows(two)
    assert rows(two)[-2:] == ["new.py", "  1 + x"]


def test_note_about_a_missing_line_end_is_not_a_line() -> None:
    noted = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    assert rows(noted) == ["1 - a  no line break", "1 + b"]


def test_deleted_new_and_moved_files_are_labeled() -> None:
    files = "--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/y.py\n@@ -0,0 +1 @@\n+y\n"
    moved = "--- a/old.py\n+++ b/new.py\n@@ -1 +1 @@\n-z\n+zz\n"
    assert [row for row in rows(files + moved) if "." in row] == ["x.py (deleted)", "y.py", "old.py → new.py"]


def test_blanks_around_changed_words_are_not_marked() -> None:
    diff = "@@ -1 +1 @@\n-return first(value)\n+    return first(value, other)  # checked\n"
    for row in parse_diff(diff):
        marked = [row.text[start:end] for start, end in row.changed]
        assert marked == [text.strip() for text in marked]


def test_code_is_highlighted_on_the_background_of_its_change() -> None:
    lines = render_diff(parse_diff(DIFF), 60)
    strings = [ink.slots for line in lines for text, ink in line.spans if text == "'"]
    assert strings[0] == ("code-string", "diff-remove")
    assert ("code-string", "diff-add") in strings


def test_string_over_several_lines_is_highlighted_as_one() -> None:
    diff = '--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n text = """\n-def f\n+def g\n """\n'
    inks = [ink.slots[0] for line in render_diff(parse_diff(diff), 60) for text, ink in line.spans if "def" in text]
    assert inks == ["code-string", "code-string"]


def test_only_the_lines_near_a_change_are_kept() -> None:
    shown = join(render_diff(near_changes(parse_diff(DIFF), 0), 60)).split("\n")
    assert shown == ["  9 -     name = 'x'", "  9 +     name = 'y'", " 10 +     more", "  ⋮", "100 - gone"]


def test_long_rows_wrap_beside_their_number() -> None:
    assert rows("@@ -1 +1 @@\n-a\n+" + "x" * 20 + "\n", 16)[1:] == ["1 + " + "x" * 12, "    " + "x" * 8]


def test_text_that_is_not_a_diff_is_shown_unchanged() -> None:
    assert rows("Binary files differ\n") == ["0   Binary files differ".replace("0", " ", 1)]


LINES = st.lists(st.text(alphabet="ab -+@\\", max_size=6), max_size=8)


@given(LINES, LINES)
def test_rows_contain_both_sides(old: list[str], new: list[str]) -> None:
    diff = "\n".join(unified_diff(old, new, "a/f", "b/f", lineterm="", n=100))
    parsed = [row for row in parse_diff(diff) if row.kind not in ("file", "hunk")] if diff else []
    if old != new:
        assert [row.text for row in parsed if row.kind != "add"] == old
        assert [row.text for row in parsed if row.kind != "remove"] == new
