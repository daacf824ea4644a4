"""Private state files: ownership, permissions and atomic replacement."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from qcode.agent.checkpoints.blobs import Blobs
from qcode.agent.models.limits import LimitStore
from qcode.config import state_file
from qcode.config.edit import change
from qcode.config.saved_choices import Choices
from qcode.engine.model_facts import HostKnowledge
from qcode.protocol.errors import ConfigError
from qcode.tui.prompt.history import PromptHistory


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_saved_state_is_loaded_from_a_private_file_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "state" / "some.json"
    state_file.save_json(path, {"name": "ü", "count": 3})
    assert state_file.load_json(path) == {"name": "ü", "count": 3}
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert names(path.parent) == ["some.json"]


def test_missing_parents_of_a_state_file_are_created_private(tmp_path: Path) -> None:
    state = tmp_path / "state" / "qcode"
    state_file.save_json(state / "drafts" / "1.json", {})
    state_file.append(state / "hooks" / "log.jsonl", b"{}")
    folders = (state.parent, state, state / "drafts", state / "hooks")
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_writable_by_others_is_not_read(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    state_file.save_json(path, {"name": "x"})
    path.chmod(mode)
    assert (state_file.read(path), state_file.load_json(path)) == (b"", {})


def test_file_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.json"
    state_file.save_json(path, {"name": "x"})
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert state_file.read(path) == b""


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff{}"])
def test_file_without_an_object_loads_as_empty(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    state_file.replace(path, content)
    assert state_file.load_json(path) == {}


def test_links_folders_and_missing_files_are_not_read(tmp_path: Path) -> None:
    state_file.save_json(tmp_path / "real.json", {"name": "x"})
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert [state_file.read(tmp_path / name) for name in ("link.json", ".", "missing.json")] == [b"", b"", b""]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a disk on which `os.replace` fails."""

    def refuse(self: Path, target: object) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", refuse)


@pytest.mark.usefixtures("full_disk")
def test_failed_write_keeps_the_file_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(b'{"name": "old"}')
    with pytest.raises(OSError, match="No space left"):
        state_file.save_json(path, {"name": "new"})
    assert (path.read_bytes(), names(tmp_path)) == (b'{"name": "old"}', ["some.json"])


@pytest.mark.usefixtures("full_disk")
def test_failed_writers_leave_no_temporary_file(tmp_path: Path) -> None:
    Choices(tmp_path).save_theme("dark")
    LimitStore(tmp_path).remember("host", "model", HostKnowledge(output=9_000))
    assert not Blobs(tmp_path).store(b"content")
    with pytest.raises(ConfigError, match="cannot write the file"):
        change(tmp_path / "config.toml", ("model",), "demo/demo")
    assert names(tmp_path) == []
    history = tmp_path / "history.jsonl"
    history.write_text('"prompt"\n' * 2_001, encoding="ascii")
    assert PromptHistory(history).entries == ("prompt",)
    assert (names(tmp_path), history.read_text(encoding="ascii").count("\n")) == (["history.jsonl"], 2_001)


def test_new_file_has_the_requested_permissions(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    state_file.replace(path, b"a = 1", mode=0o644)
    assert path.stat().st_mode & 0o777 == 0o644
