"""Keyrings for tests: a working one, which stores keys in a folder for other processes too, and broken ones."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

FOLDER_VARIABLE = "TEST_KEYRING_FOLDER"
NAME = f"{__name__}.Working"


def make(kind: type[KeyringBackend]) -> KeyringBackend:
    return kind()


class Working(KeyringBackend):
    """Stores every key."""

    priority = 5.0

    def _path(self, service: str, username: str) -> Path:
        return Path(os.environ[FOLDER_VARIABLE]) / f"{service}~{username}".replace("/", "_")

    def get_password(self, service: str, username: str) -> str | None:
        path = self._path(service, username)
        return path.read_text() if path.exists() else None

    def set_password(self, service: str, username: str, password: str) -> None:
        self._path(service, username).write_text(password)

    def delete_password(self, service: str, username: str) -> None:
        path = self._path(service, username)
        if not path.exists():
            raise PasswordDeleteError("not found")
        path.unlink()


class Weak(Working):
    """Works, but is rated as unsafe."""

    priority = 0.5


class PlaintextKeyring(Working):
    """Claims the highest priority."""


class Forgetful(Working):
    """Accepts every key and stores none."""

    def set_password(self, service: str, username: str, password: str) -> None:
        return None


class Locked(Working):
    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked(f"no {username} here")

    set_password = get_password  # type: ignore[assignment]  # called by the base class only


class Quoting(Working):
    """Fails with the key in its error message."""

    def set_password(self, service: str, username: str, password: str) -> None:
        raise ValueError(f"cannot store {password}")


class Stuck(Working):
    """Never answers."""

    never = threading.Event()

    def get_password(self, service: str, username: str) -> str | None:
        self.never.wait()
        return None

    def set_password(self, service: str, username: str, password: str) -> None:
        self.never.wait()
