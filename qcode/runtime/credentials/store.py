"""Stores keys by name, finds them again and forgets them: the keyring first, the file where no keyring works.

A key is in one place only. The file knows which, so nothing of the keyring loads before a key in it is wanted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from qcode.protocol.values import dataclass
from qcode.runtime.credentials.errors import CredentialError, KeyringError
from qcode.runtime.credentials.file import KeyFile
from qcode.runtime.credentials.ring import Keyring
from qcode.safety.secret import Secret

Place: TypeAlias = Literal["keyring", "file"]


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a key was put. `where` names the keyring or the file; `why_no_keyring` completes "the keyring ..."."""

    place: Place
    where: str
    why_no_keyring: str = ""


class KeyStore:
    """The keys of one person. What the keyring answered is kept for this process."""

    def __init__(self, state_dir: Path, keyring: Keyring) -> None:
        self.file = KeyFile(state_dir)
        self.keyring = keyring
        self._read: dict[str, Secret] = {}
        self._seen: set[Secret] | None = None

    def places(self) -> dict[str, Place]:
        """Return where each stored key is, without reading one from the keyring; raise `CredentialError`."""
        return {name: "keyring" if key is None else "file" for name, key in self.file.read().items()}

    def get(self, name: str) -> Secret | None:
        """Return the key, None where none is stored; raise `CredentialError`, `KeyringError` where it is locked in."""
        rows = self.file.read()
        if name not in rows:
            self._read.pop(name, None)
            return None
        key = rows[name]
        if key is not None:
            self._note(key)
            return key
        if name not in self._read:
            found = self.keyring.get(name)
            if found is None:
                raise KeyringError("does not hold the key any more; store it again")
            self._note(found)
            self._read[name] = found
        return self._read[name]

    def known(self) -> frozenset[Secret]:
        """Return what must not be shown anywhere: the keys in the file, and each that passed through here."""
        return frozenset(self._note())

    def note(self, key: Secret) -> None:
        """Count `key` among the known ones before it is stored."""
        self._note(key)

    def put(self, name: str, key: Secret) -> Stored:
        """Store the key in the place of an older one; raise `CredentialError` where it can be kept nowhere."""
        self._note(key)
        reason = ""
        try:
            title = self.keyring.put(name, key)
        except KeyringError as error:
            reason = str(error)
        with self.file.changing() as rows:
            was_in_keyring = name in rows and rows[name] is None
            rows[name] = key if reason else None
        self._read[name] = key
        if not reason:
            return Stored("keyring", title)
        if was_in_keyring:
            self._forget_in_keyring(name)
        return Stored("file", str(self.file.path), reason)

    def remove(self, name: str) -> tuple[Place, ...]:
        """Forget the key wherever it is; return where it was. Raise `KeyringError` where the keyring still holds it."""
        found: list[Place] = []
        self._read.pop(name, None)
        is_in_keyring = False
        with self.file.changing() as rows:
            if name in rows:
                is_in_keyring = rows[name] is None
                if not is_in_keyring:
                    found.append("file")
                    del rows[name]
        # Also where the file knows of none: it may have been lost, or a write may have come late.
        if self._forget_in_keyring(name, is_needed=is_in_keyring):
            found.append("keyring")
        if is_in_keyring:
            with self.file.changing() as rows:
                rows.pop(name, None)
        return tuple(found)

    def _note(self, *keys: Secret) -> set[Secret]:
        """Add to what was seen, which begins with what lies in the file."""
        if self._seen is None:
            try:
                self._seen = {key for key in self.file.read().values() if key is not None}
            except CredentialError:
                self._seen = set()
        self._seen.update(keys)
        return self._seen

    def _forget_in_keyring(self, name: str, *, is_needed: bool = False) -> bool:
        try:
            return self.keyring.remove(name)
        except KeyringError:
            if is_needed:
                raise
            return False
