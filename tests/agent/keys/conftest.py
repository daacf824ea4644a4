"""A state folder, and a keyring that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend

from tests.agent.keys.backends import FOLDER_VARIABLE

UseKeyring = Callable[[KeyringBackend], Path]


@pytest.fixture
def use_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UseKeyring]:
    """Install a keyring; return the folder in which a working one stores its keys."""
    folder = tmp_path / "ring"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    before = keyring.get_keyring()

    def use(backend: KeyringBackend) -> Path:
        keyring.set_keyring(backend)
        return folder

    yield use
    keyring.set_keyring(before)
