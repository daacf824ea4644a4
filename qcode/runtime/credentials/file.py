"""The file of stored keys: mode 0600 in a folder of mode 0700, replaced as a whole, never followed through a link.

It holds the keys themselves where no keyring works, and where one does only a note that the key is there: so what is
stored is known without asking, and without loading, the keyring.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from qcode.protocol.json import JsonObject, parse_object
from qcode.protocol.values import dataclass
from qcode.runtime.credentials.errors import CredentialError
from qcode.safety.secret import Secret

FOLDER_NAME = "credentials"
FILE_NAME = "keys.json"

_VERSION = 1
_LARGEST = 1 << 20
_TEMPORARY = ".keys-"
_LOCK_S = 5.0
_AGAIN_S = 0.02
_UNSUPPORTED = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Rows: TypeAlias = "dict[str, Secret | None]"
"""What is stored, by name; None where the keyring holds the key."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The file below `state_dir`. Every call reads it: another process may have stored something meanwhile."""

    state_dir: Path

    @property
    def folder(self) -> Path:
        return self.state_dir / FOLDER_NAME

    @property
    def path(self) -> Path:
        return self.folder / FILE_NAME

    def read(self) -> Rows:
        """Return what is stored, nothing where there is no file; raise `CredentialError` where it cannot be trusted.

        A file or a folder that others could look into is closed to them first.
        """
        try:
            folder = self._open_folder()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unusable(self.folder, error) from None
        try:
            return self._rows(folder)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def changing(self) -> Iterator[Rows]:
        """Hand out what is stored and keep what became of it, with other processes kept out meanwhile.

        What cannot be understood counts as nothing stored, and is replaced. Raise `CredentialError` where nothing can
        be kept, with the old file untouched.
        """
        try:
            self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            folder = self._open_folder()
        except OSError as error:
            raise _unusable(self.folder, error) from None
        try:
            self._lock(folder)
            rows = self._rows(folder, is_lenient=True)
            yield rows
            self._write(folder, rows)
        except OSError as error:
            raise _unusable(self.path, error) from None
        finally:
            os.close(folder)

    def _open_folder(self) -> int:
        handle = os.open(self.folder, _FOLDER)
        try:
            _close_to_others(handle, self.folder, 0o700)
        except (OSError, CredentialError):
            os.close(handle)
            raise
        return handle

    def _lock(self, folder: int) -> None:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise CredentialError(f"{self.folder} is in use by another qcode; try again") from None
                time.sleep(_AGAIN_S)
            except OSError as error:
                if error.errno in _UNSUPPORTED:
                    return
                raise

    def _rows(self, folder: int, *, is_lenient: bool = False) -> Rows:
        try:
            handle = os.open(FILE_NAME, _READ, dir_fd=folder)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unusable(self.path, error) from None
        with os.fdopen(handle, "rb") as file:
            _close_to_others(file.fileno(), self.path, 0o600)
            try:
                found = _parsed(file.read(_LARGEST + 1))
            except OSError as error:
                raise _unusable(self.path, error) from None
        if found is None and not is_lenient:
            raise CredentialError(f"{self.path} is damaged and is not used; store the keys again with qcode auth login")
        return found or {}

    def _write(self, folder: int, rows: Mapping[str, Secret | None]) -> None:
        self._sweep(folder)
        if not rows:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(FILE_NAME, dir_fd=folder)
            os.fsync(folder)
            return
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=_TEMPORARY)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"version": _VERSION, "keys": {name: _row(key) for name, key in sorted(rows.items())}}, file)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
            os.fsync(folder)
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def _sweep(self, folder: int) -> None:
        """Remove what a process that died while writing left: it holds keys. The lock says that nobody is writing."""
        for name in os.listdir(folder):
            if name.startswith(_TEMPORARY):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def _row(key: Secret | None) -> JsonObject:
    return {"in": "keyring"} if key is None else {"in": "file", "key": key.reveal()}


def _parsed(content: bytes) -> Rows | None:
    """Return the rows of a file, None where it is none of ours."""
    try:
        stored = parse_object(content.decode("utf-8")) if len(content) <= _LARGEST else None
    except UnicodeDecodeError:
        return None
    keys = stored.get("keys") if stored is not None and stored.get("version") == _VERSION else None
    if not isinstance(keys, dict):
        return None
    rows: Rows = {}
    for name, row in keys.items():
        if not isinstance(row, dict):
            return None
        key = row.get("key")
        if row.get("in") == "keyring":
            rows[name] = None
        elif row.get("in") == "file" and isinstance(key, str) and key:
            rows[name] = Secret(key)
        else:
            return None
    return rows


def _close_to_others(handle: int, path: Path, mode: int) -> None:
    """Take the rights of everybody else away; raise `CredentialError` where it is not this user's to decide."""
    state = os.fstat(handle)
    if not stat.S_ISDIR(state.st_mode) and not stat.S_ISREG(state.st_mode):
        raise CredentialError(f"{path} is no plain file and is not used; remove it")
    if state.st_uid != os.geteuid():
        raise CredentialError(f"{path} belongs to somebody else and is not used; remove it")
    if stat.S_IMODE(state.st_mode) != mode:
        try:
            os.fchmod(handle, mode)
        except OSError as error:
            raise CredentialError(f"{path} cannot be closed to others: {error.strerror}") from None


def _unusable(path: Path, error: OSError) -> CredentialError:
    if path.is_symlink():
        return CredentialError(f"{path} is a link and is not followed; remove it")
    return CredentialError(f"{path} cannot be used: {error.strerror or error}")
