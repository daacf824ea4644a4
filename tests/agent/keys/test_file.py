"""The key file: private, replaced atomically, and never opened through a link."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from qcode.agent.keys.store import KeyFile
from qcode.protocol.errors import KeyStoreError
from qcode.safety.secret import Secret

KEY = Secret("sk-canary-0123456789abcdef")


def put(state: Path, name: str = "openai", key: Secret | None = KEY) -> KeyFile:
    file = KeyFile(state)
    with file.edit() as entries:
        entries[name] = key
    return file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_key_file_is_private_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = put(tmp_path / "state")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "state"), mode(file.folder), mode(file.path)) == (0o700, 0o700, 0o600)
    assert file.read() == {"openai": KEY}


def test_reading_and_writing_make_a_public_key_file_private(tmp_path: Path) -> None:
    file = put(tmp_path)
    for touch in (lambda: file.read(), lambda: put(tmp_path, "gemini")):
        file.path.chmod(0o644)
        file.folder.chmod(0o755)
        touch()
        assert (mode(file.folder), mode(file.path)) == (0o700, 0o600)


def test_linked_key_file_is_not_followed(tmp_path: Path) -> None:
    file, other = put(tmp_path), tmp_path / "other.json"
    file.path.rename(other)
    file.path.symlink_to(other)
    before = other.read_bytes()
    with pytest.raises(KeyStoreError, match="link"):
        file.read()
    with pytest.raises(KeyStoreError, match="link"):
        put(tmp_path, "gemini")
    assert other.read_bytes() == before


def test_linked_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    put(elsewhere)
    state = tmp_path / "state"
    state.mkdir()
    (state / "credentials").symlink_to(elsewhere / "credentials")
    with pytest.raises(KeyStoreError, match="link"):
        KeyFile(state).read()
    with pytest.raises(KeyStoreError, match="link"):
        put(state, "gemini")
    assert list(KeyFile(elsewhere).read()) == ["openai"]


def test_special_file_is_refused_without_blocking(tmp_path: Path) -> None:
    file = put(tmp_path)
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(KeyStoreError, match="not a regular file"):
        file.read()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"version": 9, "keys": {}}', b'{"version": 1, "keys": {"a": {"in": "file"}}}', b"\xff\xfe"],
)
def test_damaged_file_is_reported_and_can_be_replaced(content: bytes, tmp_path: Path) -> None:
    file = put(tmp_path)
    file.path.write_bytes(content)
    with pytest.raises(KeyStoreError, match="corrupted"):
        file.read()
    put(tmp_path, "gemini")
    assert list(file.read()) == ["gemini"]


def test_failed_write_leaves_the_old_file_and_no_temporary_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(KeyStoreError, match="No space left"):
            put(tmp_path, "gemini")
    assert file.read() == {"openai": KEY}
    assert [path.name for path in file.folder.iterdir()] == ["keys.json"]


def test_temporary_files_of_a_crashed_process_are_removed(tmp_path: Path) -> None:
    file = put(tmp_path)
    (file.folder / ".keys-abc").write_text("sk-canary")
    put(tmp_path, "gemini")
    assert [path.name for path in file.folder.iterdir()] == ["keys.json"]


def test_file_is_deleted_with_the_last_key(tmp_path: Path) -> None:
    file = put(tmp_path)
    with file.edit() as entries:
        entries.clear()
    assert not file.path.exists()
    assert file.read() == {}


def test_file_lists_a_keyring_key_without_its_value(tmp_path: Path) -> None:
    file = put(tmp_path, key=None)
    assert json.loads(file.path.read_text())["keys"] == {"openai": {"in": "keyring"}}
    assert file.read() == {"openai": None}


def test_concurrent_writers_lose_no_key(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(4)]
    threads = [threading.Thread(target=put, args=(tmp_path, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(KeyFile(tmp_path).read()) == names
