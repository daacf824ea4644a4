"""Which key a provider gets and where it came from: the environment, then what `qcode auth login` stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.protocol.errors import CredentialError, KeyringError
from qcode.providers import registry
from qcode.providers.registry import ProviderSpec
from qcode.safety.secret import Secret

if TYPE_CHECKING:
    from qcode.agent.keys.store import KeyStore, Place

SERVICE = "qcode"
ATTENDED_S = 20.0
UNATTENDED_S = 5.0


class Keys:
    """The credentials of this run. `open_store` is called with the first question that the environment leaves open.

    Without it there is only the environment. `complaints` are lines for a person: stored keys that could not be read,
    each once.
    """

    def __init__(self, env: Mapping[str, str], open_store: Callable[[], KeyStore] | None = None) -> None:
        self.env = env
        self._open_store = open_store
        self._is_brief = False
        self._complaints: dict[str, None] = {}

    @cached_property
    def store(self) -> KeyStore | None:
        """The stored keys; None where none can be."""
        store = None if self._open_store is None else self._open_store()
        if store is not None and self._is_brief:
            store.keyring.be_brief()
        return store

    @property
    def complaints(self) -> tuple[str, ...]:
        return tuple(self._complaints)

    def key_of(self, spec: ProviderSpec) -> tuple[str, str]:
        """Return the key and its source, a variable or the command that stored it; both empty where there is none."""
        key, variable = registry.key_of(spec, self.env)
        if key:
            return key, variable
        stored = self._stored(spec)
        return (stored.reveal(), registry.login_command(spec)) if stored is not None else ("", "")

    def credential_of(self, spec: ProviderSpec) -> str:
        """Return the source of a credential that can be used now, empty where there is none."""
        return registry.credential_of(spec, self.env) or (self.key_of(spec)[1] if registry.takes_key(spec) else "")

    def source_of(self, spec: ProviderSpec) -> str:
        """Return the same as far as it can be told without asking the keyring."""
        found = registry.credential_of(spec, self.env)
        return found or (registry.login_command(spec) if self.place_of(spec) is not None else "")

    def place_of(self, spec: ProviderSpec) -> Place | None:
        """Return where a key of `spec` is stored, None where none is."""
        return self._places().get(registry.key_name(spec)) if registry.takes_key(spec) else None

    def stored_names(self) -> tuple[str, ...]:
        """Return the names keys are stored under."""
        return tuple(self._places())

    def note(self, key: Secret) -> None:
        """Count `key`, which a person just gave, among the known ones."""
        if self.store is not None:
            self.store.note(key)

    def be_brief(self) -> None:
        """From now on ask the keyring without a word and not for long: a screen is up."""
        self._is_brief = True
        store = vars(self).get("store")
        if store is not None:
            store.keyring.be_brief()

    def known(self) -> frozenset[Secret]:
        """Return every stored key this process has seen, for whoever keeps secrets out of texts."""
        store = vars(self).get("store")  # one that was not opened has shown nothing
        return frozenset() if store is None else store.known()

    def _places(self) -> Mapping[str, Place]:
        try:
            return self.store.places() if self.store is not None else {}
        except CredentialError as error:
            self._complaints[str(error)] = None
            return {}

    def _stored(self, spec: ProviderSpec) -> Secret | None:
        if self.place_of(spec) is None or self.store is None:
            return None
        try:
            key = self.store.get(registry.key_name(spec))
        except KeyringError as error:
            command = registry.login_command(spec)
            self._complaints[f"the key of {spec.name} cannot be read: the keyring {error} ({command})"] = None
            return None
        except CredentialError as error:
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
    """Return the store of this person's keys; with `QCODE_HOME` the keyring holds those of that folder apart."""
    from qcode.agent.keys.ring import Keyring
    from qcode.agent.keys.store import KeyStore

    service = f"{SERVICE} {state_dir}" if env.get("QCODE_HOME", "").strip() else SERVICE
    return KeyStore(state_dir, Keyring(service, patience_s=patience_s, on_wait=on_wait))
