"""Choices are stored, and an invalid file is ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.config.saved_choices import Choices


def test_saved_choices_are_read_back(tmp_path: Path) -> None:
    choices = Choices(tmp_path / "state")
    assert (choices.theme, choices.is_set_up) == ("", False)
    choices.save_set_up()
    choices.save_theme("light")
    again = Choices(tmp_path / "state")
    assert (again.theme, again.is_set_up) == ("light", True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"theme": 7, "set_up": "yes"}'])
def test_invalid_file_gives_no_choices(content: str, tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    choices.path.write_text(content)
    assert (choices.theme, choices.is_set_up) == ("", False)
    choices.save_theme("dark")
    assert choices.theme == "dark"


def test_unwritable_home_breaks_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    Choices(file).save_theme("dark")
    assert Choices(file).theme == ""


def test_unknown_effort_is_ignored(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    choices.path.write_text('{"effort": "enormous", "recent": ["a", 7]}')
    assert (choices.effort, choices.recent_commands) == (None, ("a",))


def test_last_used_command_comes_first_and_old_ones_are_dropped(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    for number in range(20):
        choices.save_recent_command(f"c{number}")
    choices.save_recent_command("c15")
    assert choices.recent_commands[:3] == ("c15", "c19", "c18")
    assert len(choices.recent_commands) == 12
