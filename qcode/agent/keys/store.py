"""The stored API keys by name: in the keyring, or in a private file if no keyring works.

A key is never stored in both. The file has mode 0600 in a folder of mode 0700, is written atomically, and is
never opened through a link. The file also lists the names of the keys in the keyring, so that the keyring package is
imported only if needed. This module does not read the environment, knows no provider, and shows no key.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.agent.keys.ring import Keyring
from qcode.config import state_file
from qcode.protocol.errors import KeyringError, KeyStoreError
from qcode.safety.secret import Secret
from qcode.text.json import JsonObject, parse_object
from qcode.values import dataclass

KeyLocation: TypeAlias = Literal["keyring", "file"]


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A report of where a key was stored."""

    location: KeyLocation
    location_name: str
    """The name of the keyring, or the path of the file."""
    why_no_keyring: str = ""
    """Why the keyring was not used; completes the sentence "the keyring …". Empty if it was used."""


class KeyStore:
    """The keys of one user. Keys read from the keyring are cached for this process."""

    def __init__(self, state_dir: Path, keyring: Keyring) -> None:
        self.file = KeyFile(state_dir)
        self.keyring = keyring
        self._cached_keys: dict[str, Secret] = {}
        self._known_keys: set[Secret] = set()
        self._known_file_version: tuple[int, int, int] | None = None
        """The version of the file whose keys are in `_known_keys`."""

    def locations(self) -> dict[str, KeyLocation]:
        """Return the location of each stored key, without using the keyring; raise `KeyStoreError`."""
        return {name: "keyring" if key is None else "file" for name, key in self.file.read().items()}

    def get(self, name: str, *, skips_cache: bool = False) -> Secret | None:
        """Return the key, None if no key is stored; raise `KeyStoreError`, or `KeyringError` if the keyring fails.

        `skips_cache`: read the keyring again, because another process may have replaced the key.
        """
        entries = self.file.read()
        if skips_cache:
            self._cached_keys.pop(name, None)
        if name not in entries:
            self._cached_keys.pop(name, None)
            return None
        key = entries[name]
        if key is not None:
            self._known_keys.add(key)
            return key
        if name not in self._cached_keys:
            key_in_keyring = self.keyring.get(name)
            if key_in_keyring is None:
                raise KeyringError("no longer has the key; store it again")
            self._known_keys.add(key_in_keyring)
            self._cached_keys[name] = key_in_keyring
        return self._cached_keys[name]

    def known_keys(self) -> frozenset[Secret]:
        """Return the keys to redact everywhere: all keys in the file, and every key that was read or added.

        The file is read again only if another process may have changed it: this is called for each text to redact.
        """
        version = self.file.version()
        if version != self._known_file_version:
            self._known_file_version = version
            with contextlib.suppress(KeyStoreError):
                self._known_keys.update(key for key in self.file.read().values() if key is not None)
        return frozenset(self._known_keys)

    def add_known_key(self, key: Secret) -> None:
        """Add `key` to the known keys before it is stored."""
        self._known_keys.add(key)

    def store(self, name: str, key: Secret) -> StoredKey:
        """Store or replace a key; raise `KeyStoreError` if the file cannot be written.

        The file stores the key if the keyring fails, otherwise only its name.
        """
        self._known_keys.add(key)
        reason = ""
        try:
            keyring_name = self.keyring.store(name, key)
        except KeyringError as error:
            reason = str(error)
        with self.file.edit() as entries:
            was_in_keyring = name in entries and entries[name] is None
            entries[name] = key if reason else None
        self._cached_keys[name] = key
        if not reason:
            return StoredKey("keyring", keyring_name)
        if was_in_keyring:
            self._forget_in_keyring(name)
        return StoredKey("file", str(self.file.path), reason)

    def remove(self, name: str) -> tuple[KeyLocation, ...]:
        """Delete the key everywhere; return the locations from which it was deleted.

        Raise `KeyStoreError` if the file cannot be written. Raise `KeyringError` if the keyring cannot delete a key
        that the file lists.
        """
        locations: list[KeyLocation] = []
        self._cached_keys.pop(name, None)
        is_in_keyring = False
        with self.file.edit() as entries:
            if name in entries:
                is_in_keyring = entries[name] is None
                if not is_in_keyring:
                    locations.append("file")
                    del entries[name]
        # The keyring may have a key that the file does not list: the file may be lost, or `store` may have been
        # interrupted before it wrote the file.
        if self._forget_in_keyring(name, must_succeed=is_in_keyring):
            locations.append("keyring")
        if is_in_keyring:
            with self.file.edit() as entries:
                entries.pop(name, None)
        return tuple(locations)

    def _forget_in_keyring(self, name: str, *, must_succeed: bool = False) -> bool:
        try:
            return self.keyring.remove(name)
        except KeyringError:
            if must_succeed:
                raise
            return False


FOLDER_NAME = "credentials"
FILE_NAME = "keys.json"

_VERSION = 1
_MAX_FILE_BYTES = 1 << 20
_TEMPORARY_PREFIX = ".keys-"
"""The prefix that `state_file.replace` gives the temporary files of `FILE_NAME`."""
_LOCK_TIMEOUT_S = 5.0
_LOCK_RETRY_S = 0.02
_LOCK_UNSUPPORTED = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Entries: TypeAlias = "dict[str, Secret | None]"
"""The stored keys by name; None for a key in the keyring."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The file below `state_dir`. Every call reads it, because another process may have changed it."""

    state_dir: Path

    @property
    def folder(self) -> Path:
        return self.state_dir / FOLDER_NAME

    @property
    def path(self) -> Path:
        return self.folder / FILE_NAME

    def read(self) -> Entries:
        """Return the stored keys, empty without a file; raise `KeyStoreError` if the file cannot be trusted.

        If other users could read the file or the folder, their permissions are removed first.
        """
        try:
            folder = self._open_folder()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unusable(self.folder, error) from None
        try:
            return self._load(folder)
        finally:
            os.close(folder)

    def version(self) -> tuple[int, int, int] | None:
        """Return a value that changes with the content of the file, None without a file."""
        try:
            state = self.path.lstat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_ino, state.st_size

    @contextlib.contextmanager
    def edit(self) -> Iterator[Entries]:
        """Yield the stored keys to change, and write them after the block, under a lock against other processes.

        An invalid file counts as empty and is replaced. If writing fails, raise `KeyStoreError` and leave the old
        file unchanged.
        """
        try:
            self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            folder = self._open_folder()
        except OSError as error:
            raise _unusable(self.folder, error) from None
        try:
            self._lock(folder)
            entries = self._load(folder, is_lenient=True)
            yield entries
            self._write(folder, entries)
        except OSError as error:
            raise _unusable(self.path, error) from None
        finally:
            os.close(folder)

    def _open_folder(self) -> int:
        handle = os.open(self.folder, _FOLDER_FLAGS)
        try:
            _make_private(handle, self.folder, 0o700)
        except (OSError, KeyStoreError):
            os.close(handle)
            raise
        return handle

    def _lock(self, folder: int) -> None:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise KeyStoreError(f"{self.folder} is in use by another qcode; try again") from None
                time.sleep(_LOCK_RETRY_S)
            except OSError as error:
                if error.errno in _LOCK_UNSUPPORTED:
                    return
                raise

    def _load(self, folder: int, *, is_lenient: bool = False) -> Entries:
        try:
            handle = os.open(FILE_NAME, _READ_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unusable(self.path, error) from None
        with os.fdopen(handle, "rb") as file:
            _make_private(file.fileno(), self.path, 0o600)
            try:
                entries = _parse_entries(file.read(_MAX_FILE_BYTES + 1))
            except OSError as error:
                raise _unusable(self.path, error) from None
        if entries is None and not is_lenient:
            raise KeyStoreError(f"{self.path} is corrupted and was ignored; store the keys again with qcode auth login")
        return entries or {}

    def _write(self, folder: int, entries: Mapping[str, Secret | None]) -> None:
        self._remove_temporary_files(folder)
        if not entries:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(FILE_NAME, dir_fd=folder)
            os.fsync(folder)
            return
        content = {"version": _VERSION, "keys": {name: _entry_json(key) for name, key in sorted(entries.items())}}
        data = json.dumps(content).encode("ascii")
        if len(data) > _MAX_FILE_BYTES:
            raise KeyStoreError(f"{self.path} would become larger than {_MAX_FILE_BYTES:,} bytes; nothing was stored")
        state_file.replace(self.path, data, is_synced=True)
        os.fsync(folder)

    def _remove_temporary_files(self, folder: int) -> None:
        """Remove temporary files of a process that crashed while writing; they hold keys. Call it under the lock."""
        for name in os.listdir(folder):
            if name.startswith(_TEMPORARY_PREFIX):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def _entry_json(key: Secret | None) -> JsonObject:
    return {"in": "keyring"} if key is None else {"in": "file", "key": key.reveal()}


def _parse_entries(content: bytes) -> Entries | None:
    """Return the entries of a file, None for a file in another format."""
    try:
        stored = parse_object(content.decode("utf-8")) if len(content) <= _MAX_FILE_BYTES else None
    except UnicodeDecodeError:
        return None
    keys = stored.get("keys") if stored is not None and stored.get("version") == _VERSION else None
    if not isinstance(keys, dict):
        return None
    entries: Entries = {}
    for name, entry in keys.items():
        if not isinstance(entry, dict):
            return None
        key = entry.get("key")
        if entry.get("in") == "keyring":
            entries[name] = None
        elif entry.get("in") == "file" and isinstance(key, str) and key:
            entries[name] = Secret(key)
        else:
            return None
    return entries


def _make_private(handle: int, path: Path, mode: int) -> None:
    """Set the permissions to `mode`, which excludes other users.

    Raise `KeyStoreError` if that fails, or if `handle` is a special file or belongs to another user.
    """
    state = os.fstat(handle)
    if not stat.S_ISDIR(state.st_mode) and not stat.S_ISREG(state.st_mode):
        raise KeyStoreError(f"{path} is not a regular file and was ignored; remove it")
    if state.st_uid != os.geteuid():
        raise KeyStoreError(f"{path} belongs to another user and was ignored; remove it")
    if stat.S_IMODE(state.st_mode) != mode:
        try:
            os.fchmod(handle, mode)
        except OSError as error:
            raise KeyStoreError(f"cannot make {path} private: {error.strerror}") from None


def _unusable(path: Path, error: OSError) -> KeyStoreError:
    if path.is_symlink():
        return KeyStoreError(f"{path} is a symbolic link, which is not followed; remove it")
    return KeyStoreError(f"cannot use {path}: {error.strerror or error}")
