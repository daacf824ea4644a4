"""The page of commands and keys in the documentation is the one the table makes."""

from __future__ import annotations

from tests.tui.reference import PAGE, page


def test_the_page_of_commands_and_keys_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.tui.reference"
