"""Unified diffs as rows."""

from __future__ import annotations

import re
from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from qcode.text.clean import visible_rows
from qcode.tui.transcript.diff import MIN_SIDE_BY_SIDE_CELLS, near_changes, parse_diff, render_diff
from qcode.tui.transcript.line import shown_text, source_text
from qcode.tui.transcript.transcript import find_matches

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
    return shown_text(render_diff(parse_diff(diff), width)).split("\n")


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


def test_invisible_characters_are_shown_as_in_an_approval() -> None:
    hidden = "# zero\u200bwidth \u202eevil\u202c \x1b[31mred\x1b[0m\ttab \\u200b é ⚠"
    shown = r"# zero\u200bwidth \u202eevil\u202c \x1b[31mred\x1b[0m   tab \u200b é ⚠"
    assert rows(f"@@ -1 +1,2 @@\n-a\n+{hidden}\n+b\r\n", 120)[1:] == [f"1 + {shown}", "2 + b"]
    assert rows(f"@@ -1 +1 @@\n-a\n+{visible_rows(hidden[:19])}\n", 120)[1:] == [f"1 + {shown[:34]}"]


def test_only_changed_words_are_marked() -> None:
    marked = [
        (text, style_of.slots[-1])
        for line in render_diff(parse_diff(DIFF), 60)
        for text, style_of in line.spans
        if style_of.slots and style_of.slots[-1].endswith("-word")
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
    strings = [style_of.slots for line in lines for text, style_of in line.spans if text == "'"]
    assert strings[0] == ("code-string", "diff-remove")
    assert ("code-string", "diff-add") in strings


def test_string_over_several_lines_is_highlighted_as_one() -> None:
    diff = '--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n text = """\n-def f\n+def g\n """\n'
    styles = [
        style_of.slots[0]
        for line in render_diff(parse_diff(diff), 60)
        for text, style_of in line.spans
        if "def" in text
    ]
    assert styles == ["code-string", "code-string"]


def test_only_the_lines_near_a_change_are_kept() -> None:
    text = shown_text(render_diff(near_changes(parse_diff(DIFF), 0), 60)).split("\n")
    assert text == ["  9 -     name = 'x'", "  9 +     name = 'y'", " 10 +     more", "  ⋮", "100 - gone"]


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


WIDE = MIN_SIDE_BY_SIDE_CELLS
HALF = (WIDE - 3) // 2


def halves(diff: str, width: int = WIDE) -> list[tuple[str, str]]:
    """Return the columns of each row."""
    halves_of_rows = [(text[:HALF].rstrip(), text[HALF + 3 :]) for text in rows(diff, width)]
    assert all(text[HALF : HALF + 3] in (" │ ", " │", "") for text in rows(diff, width))
    return halves_of_rows


def test_wide_screen_has_the_old_text_beside_the_new_one() -> None:
    assert halves(DIFF) == [
        ("  8   same", "  8   same"),
        ("  9 -     name = 'x'", "  9 +     name = 'y'"),
        ("", " 10 +     more"),
        (" 10   end", " 11   end"),
        ("  ⋮", ""),
        ("100 - gone", ""),
        ("101   last", "101   last"),
    ]
    assert not any("│" in row for row in rows(DIFF, WIDE - 1))


def test_both_columns_have_word_marks_syntax_and_a_background_to_their_end() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,1 @@\n-def old(): return 1\n+def new(): return 1\n"
    (line,) = render_diff(parse_diff(diff), WIDE)
    spans = {text: style.slots for text, style in line.spans}
    assert spans["old"][-1] == "diff-remove-word"
    assert spans["new"][-1] == "diff-add-word"
    keywords = [style.slots for text, style in line.spans if text == "def"]
    assert keywords == [("code-keyword", "diff-remove"), ("code-keyword", "diff-add")]
    blank = next(style for text, style in line.spans if len(text) > 20 and not text.strip())
    assert blank.slots == line.spans[0][1].slots[:1] == ("diff-remove",)
    assert line.fill.slots == ("diff-add",)


def test_change_with_one_side_only_stays_in_one_column() -> None:
    for sign in "+-":
        diff = f"@@ -1,1 +1,1 @@\n same\n{sign}only one side\n"
        assert not any("│" in row for row in rows(diff, 200))


def test_columns_wrap_on_their_own_and_lose_no_character() -> None:
    old, new = "o" * 150, "n" * 90
    columns = halves(f"@@ -7,1 +7,1 @@\n-{old}\n+{new}\n")
    assert "".join(left[4:] for left, _ in columns) == old
    assert "".join(right[4:] for _, right in columns) == new
    assert len(columns) == 3


def test_only_the_new_text_of_two_columns_is_copied_and_both_are_found() -> None:
    lines = render_diff(parse_diff(DIFF), WIDE)
    assert source_text(lines) == "same\n    name = 'y'\n    more\nend\nlast"
    found = [find_matches(lines, re.compile(word)) for word in ("'x'", "'y'", "gone", "same")]
    assert [len(places) for places in found] == [1, 1, 1, 1]


@given(st.lists(st.text("ab \t界é", max_size=90)), st.lists(st.text("ab \t界é", max_size=90)))
def test_any_two_texts_fit_into_a_wide_row(old: list[str], new: list[str]) -> None:
    diff = "\n".join(unified_diff(old, new, "a", "b", lineterm=""))
    assert all(line.width <= WIDE for line in render_diff(parse_diff(diff), WIDE))
