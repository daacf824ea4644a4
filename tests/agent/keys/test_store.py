"""Stored keys: each in one store only, and removed from all stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from keyring.backends import fail

from qcode.agent.keys.ring import Keyring
from qcode.agent.keys.store import KeyStore
from qcode.protocol.errors import KeyringError
from qcode.safety.secret import REDACTED, Secret
from tests.agent.keys import backends
from tests.agent.keys.backends import make
from tests.agent.keys.conftest import UseKeyring

CANARY = "sk-canary-0123456789abcdef"
KEY = Secret(CANARY)


def store(base: Path) -> KeyStore:
    return KeyStore(base / "state", Keyring("qcode test"))


def files_with_key(base: Path) -> list[str]:
    """Return the files below `base` that contain the key."""
    files = [path for path in base.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if CANARY.encode() in path.read_bytes())


def test_working_keyring_gets_the_key_and_the_file_does_not(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(backends.Working))
    stored = store(tmp_path).store("openai", KEY)
    assert (stored.location, stored.why_no_keyring) == ("keyring", "")
    assert files_with_key(tmp_path) == ["qcode test~openai"]
    assert store(tmp_path).locations() == {"openai": "keyring"}
    assert store(tmp_path).get("openai") == KEY


def test_key_goes_to_the_file_without_a_keyring(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(fail.Keyring))
    stored = store(tmp_path).store("openai", KEY)
    assert stored.location == "file"
    assert "not available" in stored.why_no_keyring
    assert files_with_key(tmp_path) == ["keys.json"]
    assert store(tmp_path).get("openai") == KEY


def test_key_stored_again_is_removed_from_its_old_location(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(fail.Keyring))
    store(tmp_path).store("openai", KEY)
    use_keyring(make(backends.Working))
    store(tmp_path).store("openai", KEY)
    assert files_with_key(tmp_path) == ["qcode test~openai"]


def test_removed_key_is_gone_from_keyring_and_file(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(backends.Working))
    store(tmp_path).store("openai", KEY)
    mine = store(tmp_path)
    # A file from before, restored by a backup, say.
    mine.file.path.write_text(json.dumps({"version": 1, "keys": {"openai": {"in": "file", "key": CANARY}}}))
    assert mine.remove("openai") == ("file", "keyring")
    assert files_with_key(tmp_path) == []
    assert mine.get("openai") is None
    assert mine.remove("openai") == ()


def test_removing_a_key_clears_a_damaged_file(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(fail.Keyring))
    store(tmp_path).store("openai", KEY)
    path = store(tmp_path).file.path
    path.write_text(path.read_text()[:-1])
    store(tmp_path).remove("openai")
    assert files_with_key(tmp_path) == []


def test_key_in_a_locked_keyring_is_not_reported_as_removed(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(backends.Working))
    store(tmp_path).store("openai", KEY)
    use_keyring(make(backends.Locked))
    with pytest.raises(KeyringError, match="locked"):
        store(tmp_path).remove("openai")
    assert store(tmp_path).locations() == {"openai": "keyring"}
    with pytest.raises(KeyringError, match="locked"):
        store(tmp_path).get("openai")


def test_key_missing_from_the_keyring_is_reported(tmp_path: Path, use_keyring: UseKeyring) -> None:
    folder = use_keyring(make(backends.Working))
    store(tmp_path).store("openai", KEY)
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(KeyringError, match="no longer has"):
        store(tmp_path).get("openai")


def test_keyring_is_read_once_per_run(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(backends.Working))
    mine = store(tmp_path)
    mine.store("openai", KEY)
    use_keyring(make(backends.Locked))
    assert mine.get("openai") == KEY


def test_key_stored_later_by_another_process_is_known(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(fail.Keyring))
    mine = store(tmp_path)
    assert mine.known_keys() == frozenset()
    store(tmp_path).store("openai", KEY)
    assert mine.known_keys() == {KEY}
    store(tmp_path).store("gemini", Secret("another-key-1"))
    assert mine.known_keys() == {KEY, Secret("another-key-1")}


def test_keys_read_in_this_run_are_redacted_after_their_removal(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(fail.Keyring))
    store(tmp_path).store("openai", KEY)
    mine = store(tmp_path)
    assert mine.known_keys() == {KEY}
    mine.store("gemini", Secret("another-key-1"))
    mine.remove("openai")
    assert mine.known_keys() == {KEY, Secret("another-key-1")}
    assert CANARY not in f"{mine.known_keys()!r} {KEY} {KEY!r} {KEY:>30} {REDACTED}"
