"""The page about local models names the limits of the code."""

from __future__ import annotations

from pathlib import Path

from qcode.providers.local import SMALL_WINDOW

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "local-models.md").read_text("utf-8")


def test_page_names_the_window_that_causes_a_warning() -> None:
    assert f"fewer than {SMALL_WINDOW:,} tokens" in PAGE
