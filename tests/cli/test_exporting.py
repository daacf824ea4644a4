"""An export creates a new private file, or fails with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.sessions.export import save_export


def test_export_is_a_new_file_for_its_owner_only(tmp_path: Path) -> None:
    where = save_export(tmp_path, "out.md", "é\n")
    assert Path(where) == tmp_path / "out.md"
    assert Path(where).read_bytes() == "é\n".encode()
    assert Path(where).stat().st_mode & 0o777 == 0o600


def test_file_that_exists_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out.md").write_text("mine")
    with pytest.raises(ValueError, match=r"^out\.md already exists. Choose another file name\.$"):
        save_export(tmp_path, "out.md", "new")
    assert (tmp_path / "out.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["no/such/folder.md", "a\0b.md", "~nobody-of-this-name/x.md"])
def test_unwritable_export_is_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Cannot write") as refused:
        save_export(tmp_path, name, "text")
    assert "\n" not in str(refused.value)
    assert not str(refused.value).endswith("..")
    assert list(tmp_path.iterdir()) == []
