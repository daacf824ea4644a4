"""The key of each provider and its source: the environment, then the keys that `qcode auth login` stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.protocol.errors import KeyringError, KeyStoreError
from qcode.providers import registry
from qcode.providers.registry import ProviderSpec
from qcode.safety.secret import Secret

if TYPE_CHECKING:
    from qcode.agent.keys.store import KeyStore, Place

SERVICE = "qcode"
ATTENDED_S = 20.0
UNATTENDED_S = 5.0
LOGIN_PREFIX = "mcp:"
"""The names of stored logins of tool servers begin with this; no provider has such a name."""


class Keys:
    """The credentials of this run. `open_store` is called on the first request that the environment cannot satisfy.

    If it is None, only the environment is used. `complaints` are lines for the user, one for each stored key that could
    not be read.
    """

    def __init__(self, env: Mapping[str, str], open_store: Callable[[], KeyStore] | None = None) -> None:
        self.env = env
        self._open_store = open_store
        self._is_brief = False
        self._complaints: dict[str, None] = {}

    @cached_property
    def store(self) -> KeyStore | None:
        """The stored keys; None without a store."""
        store = None if self._open_store is None else self._open_store()
        if store is not None and self._is_brief:
            store.keyring.be_brief()
        return store

    @property
    def complaints(self) -> tuple[str, ...]:
        return tuple(self._complaints)

    def key_of(self, spec: ProviderSpec) -> tuple[str, str]:
        """Return the key and its source, a variable or the command that stored it; both empty if there is none."""
        key, variable = registry.key_of(spec, self.env)
        if key:
            return key, variable
        stored = self._stored(spec)
        return (stored.reveal(), registry.login_command(spec)) if stored is not None else ("", "")

    def credential_of(self, spec: ProviderSpec) -> str:
        """Return the source of a usable credential, empty if there is none."""
        return registry.credential_of(spec, self.env) or (self.key_of(spec)[1] if registry.takes_key(spec) else "")

    def source_of(self, spec: ProviderSpec) -> str:
        """Return the same as `credential_of` without reading the keyring, so a key stored there may be unusable."""
        found = registry.credential_of(spec, self.env)
        return found or (registry.login_command(spec) if self.place_of(spec) is not None else "")

    def place_of(self, spec: ProviderSpec) -> Place | None:
        """Return where a key of `spec` is stored, None if there is none."""
        return self._places().get(registry.key_name(spec)) if registry.takes_key(spec) else None

    def stored_names(self) -> tuple[str, ...]:
        """Return the names of the stored keys."""
        return tuple(self._places())

    def note(self, key: Secret) -> None:
        """Add `key`, which the user just entered, to the known keys."""
        if self.store is not None:
            self.store.note(key)

    def be_brief(self) -> None:
        """Use the keyring silently and with a short timeout from now on, because the app is on screen."""
        self._is_brief = True
        store = vars(self).get("store")
        if store is not None:
            store.keyring.be_brief()

    def known(self) -> frozenset[Secret]:
        """Return every stored key that this process has read, so that it can be redacted."""
        store = vars(self).get("store")  # a store that was not opened has returned no key
        return frozenset() if store is None else store.known()

    def _places(self) -> Mapping[str, Place]:
        try:
            return self.store.places() if self.store is not None else {}
        except KeyStoreError as error:
            self._complaints[str(error)] = None
            return {}

    def _stored(self, spec: ProviderSpec) -> Secret | None:
        if self.place_of(spec) is None or self.store is None:
            return None
        try:
            key = self.store.get(registry.key_name(spec))
        except KeyringError as error:
            command = registry.login_command(spec)
            self._complaints[f"cannot read the key of {spec.name}: the keyring {error} ({command})"] = None
            return None
        except KeyStoreError as error:
            self._complaints[str(error)] = None
            return None
        if key is not None:
            from qcode.agent.crash import keep_out

            keep_out(key)
        return key


def key_store(
    state_dir: Path,
    env: Mapping[str, str],
    *,
    patience_s: float = UNATTENDED_S,
    on_wait: Callable[[], None] | None = None,
) -> KeyStore:
    """Return the store of the user's keys; with `QCODE_HOME`, that folder has its own keyring service."""
    from qcode.agent.keys.ring import Keyring
    from qcode.agent.keys.store import KeyStore

    service = f"{SERVICE} {state_dir}" if env.get("QCODE_HOME", "").strip() else SERVICE
    return KeyStore(state_dir, Keyring(service, patience_s=patience_s, on_wait=on_wait))
