"""The preview of a change to a secret file hides its old content and shows the new text."""

from __future__ import annotations

import pytest

from qcode.text.diff import MASK, mask_diff
from qcode.tools import text_file


def diff(name: str, old: str | None, new: str | None) -> str:
    before, after = (None if item is None else text_file.from_text(item) for item in (old, new))
    return text_file.diff_of(name, before, after)


def masked(shown: str) -> str:
    return mask_diff(shown, lambda path: path == ".env")


def test_removed_and_unchanged_lines_are_masked_and_added_ones_are_not() -> None:
    output = masked(
        diff(".env", "# mine\nexport A=old-a\nB=old-b\nplain-c\n\n", "# mine\nexport A=new-a\nB=old-b\nplain-c\n\n")
    )
    assert output.split("\n")[3:] == [
        f" {MASK}", f"-export A={MASK}", "+export A=new-a", f" B={MASK}", f" {MASK}", " ", "",
    ]  # fmt: skip


def test_ordinary_files_are_not_masked() -> None:
    ordinary = diff("app.py", "a = 1\n", "a = 2\n")
    assert masked(ordinary) == ordinary
    both = masked(diff(".env", "A=secret\n", None) + ordinary)
    assert "secret" not in both
    assert both.endswith(ordinary)


@pytest.mark.parametrize(
    "old", ["-- a/app.py\nA=secret\n", "@@ -1 +1 @@\nA=secret\n", "++ b/app.py\nsecret\n", "x\u2028secret\n"]
)
def test_no_line_of_a_file_passes_for_a_header(old: str) -> None:
    assert "secret" not in masked(diff(".env", old, None))
    assert "secret" not in masked(diff(".env", old, f"{old}new\n"))


def test_text_other_than_a_diff_is_unchanged() -> None:
    assert masked("rm -rf build\n--- not a header") == "rm -rf build\n--- not a header"
