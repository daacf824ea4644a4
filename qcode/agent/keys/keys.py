"""The key of each provider and its source: the environment, then a configured command, then the stored keys.

A command (`api_key_command`) runs at most once per process, and its key is redacted like a stored key.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.protocol.errors import KeyringError, KeyStoreError
from qcode.providers import registry
from qcode.providers.connection import Sourced
from qcode.providers.registry import ProviderSpec
from qcode.safety.secret import Secret

if TYPE_CHECKING:
    from qcode.agent.keys.store import KeyLocation, KeyStore
    from qcode.config.paths import ConfigPaths
    from qcode.config.settings import Settings

SERVICE = "qcode"
ATTENDED_TIMEOUT_S = 20.0
"""The time limit for a keyring that a user can unlock."""
UNATTENDED_TIMEOUT_S = 5.0
"""The time limit for a keyring without a user."""
LOGIN_PREFIX = "mcp:"
"""The prefix of the names of stored logins of tool servers. No provider has such a name."""


class Keys:
    """The credentials of this run.

    `open_store` is called for the first key that is not in the environment; without it, no stored key is used.
    `commands` are the key commands of the configuration.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        open_store: Callable[[], KeyStore] | None = None,
        commands: KeyCommands | None = None,
    ) -> None:
        self.env = env
        self._open_store = open_store
        self._commands = commands or KeyCommands({}, Path())
        self._is_waiting_limited = False
        self._problems: dict[str, None] = {}

    @cached_property
    def store(self) -> KeyStore | None:
        """The stored keys; None without a store."""
        store = None if self._open_store is None else self._open_store()
        if store is not None and self._is_waiting_limited:
            store.keyring.limit_waiting()
        return store

    @property
    def _opened_store(self) -> KeyStore | None:
        """The store if it was used already; this property does not open it."""
        opened: KeyStore | None = vars(self).get("store")  # the cached value of `store`
        return opened

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each stored key that could not be read, and for each command that failed."""
        return (*self._problems, *self._commands.failures.values())

    def key_of(self, spec: ProviderSpec) -> Sourced:
        """Return the key and its source: a variable, a setting, or `qcode auth login`; both empty without a key."""
        from_variable = registry.key_of(spec, self.env)
        if from_variable.value:
            return from_variable
        if setting := self._commands.setting_of(spec):
            return Sourced(self._commands.key_of(spec, self.env), setting)
        stored = self._stored_key(spec)
        return Sourced() if stored is None else Sourced(stored.reveal(), registry.login_command(spec))

    def credential_of(self, spec: ProviderSpec) -> str:
        """Return the source of a usable credential, empty if no credential is usable."""
        source = registry.credential_of(spec, self.env) or self._commands.setting_of(spec)
        if source or not registry.accepts_key(spec):
            return source
        return self.key_of(spec).source

    def source_of(self, spec: ProviderSpec) -> str:
        """Return the source of the credential without reading the keyring; a key in the keyring may be unusable."""
        source = registry.credential_of(spec, self.env) or self._commands.setting_of(spec)
        if not source and self.location_of(spec) is not None:
            source = registry.login_command(spec)
        return source

    def setting_of(self, spec: ProviderSpec) -> str:
        """Return the name of the setting with the key command, empty without one."""
        return self._commands.setting_of(spec)

    def failure_of(self, spec: ProviderSpec) -> str:
        """Return why the key command of `spec` failed, empty if it did not fail or did not run."""
        return self._commands.failures.get(self._commands.setting_of(spec), "")

    def location_of(self, spec: ProviderSpec) -> KeyLocation | None:
        """Return where a key of `spec` is stored, None if no key is stored."""
        return self._locations().get(registry.key_name(spec)) if registry.accepts_key(spec) else None

    def stored_names(self) -> tuple[str, ...]:
        """Return the names of the stored keys."""
        return tuple(self._locations())

    def add_known_key(self, key: Secret) -> None:
        """Add a key that the user just entered to the known keys, which are redacted."""
        if self.store is not None:
            self.store.add_known_key(key)

    def limit_waiting(self) -> None:
        """Use the keyring silently and with a short timeout from now on, because the app is on screen."""
        self._is_waiting_limited = True
        if self._opened_store is not None:
            self._opened_store.keyring.limit_waiting()

    def known_keys(self) -> frozenset[Secret]:
        """Return every key that this process has read from a store or a command, so that it can be redacted."""
        stored: frozenset[Secret] = frozenset()
        if self._opened_store is not None:  # a store that was not opened has returned no key
            stored = self._opened_store.known_keys()
        return stored | self._commands.printed

    def _locations(self) -> Mapping[str, KeyLocation]:
        try:
            return self.store.locations() if self.store is not None else {}
        except KeyStoreError as error:
            self._problems[str(error)] = None
            return {}

    def _stored_key(self, spec: ProviderSpec) -> Secret | None:
        if self.location_of(spec) is None or self.store is None:
            return None
        try:
            key = self.store.get(registry.key_name(spec))
        except KeyringError as error:
            command = registry.login_command(spec)
            self._problems[f"cannot read the key of {spec.name}: the keyring {error} ({command})"] = None
            return None
        except KeyStoreError as error:
            self._problems[str(error)] = None
            return None
        if key is not None:
            from qcode.agent.crash import redact_in_crash_reports

            redact_in_crash_reports(key)
        return key


COMMAND_TIMEOUT_S = 10.0
_MAX_ERROR_CHARS = 200
printed_keys: dict[tuple[str, ...], Secret] = {}
"""The keys that commands printed in this process, by command."""
_command_lock = threading.Lock()


class KeyCommands:
    """The commands of the configuration that print a key, by provider.

    The commands run in the configuration folder, so that a relative path never names a program of the project.
    """

    def __init__(self, commands: Mapping[str, tuple[str, ...]], folder: Path) -> None:
        self._commands = commands
        self._folder = folder
        self.failures: dict[str, str] = {}  # a line for each failed command, by its setting
        self.printed: frozenset[Secret] = frozenset()  # the keys that the commands of this run printed

    def setting_of(self, spec: ProviderSpec) -> str:
        """Return the name of the setting with the command for `spec`, empty without one."""
        name = self._name_of(spec)
        return f"providers.{name}.api_key_command" if name else ""

    def _name_of(self, spec: ProviderSpec) -> str:
        """Return the provider with the command; providers with the same variables share it, like a stored key."""
        return next((name for name in (spec.name, registry.key_name(spec)) if name in self._commands), "")

    def key_of(self, spec: ProviderSpec, env: Mapping[str, str]) -> str:
        """Return the key that the command prints, empty if the command fails. Each command runs once per process."""
        setting = self.setting_of(spec)
        if setting in self.failures:
            return ""
        program, *arguments = self._commands[self._name_of(spec)]
        argv = (os.path.expanduser(program), *arguments)  # noqa: PTH111  # pathlib raises for an unknown user
        with _command_lock:
            if argv not in printed_keys:
                try:
                    printed_keys[argv] = Secret(_first_line(argv, env, self._folder))
                except ValueError as error:
                    self.failures[setting] = f"{setting} failed: {error}"
                    return ""
            key = printed_keys[argv]
        self.printed |= {key}
        from qcode.agent.crash import redact_in_crash_reports

        redact_in_crash_reports(key)
        return key.reveal()


def _first_line(argv: tuple[str, ...], env: Mapping[str, str], folder: Path) -> str:
    """Return the first line that a command prints; raise `ValueError` with the reason if it prints nothing."""
    from qcode.safety.launcher import ProgramUnavailable, run
    from qcode.text.clean import one_line
    from qcode.text.numbers import exit_text

    working_folder = str(folder) if folder.is_dir() else "/"
    try:
        result = run(argv, env, COMMAND_TIMEOUT_S, cwd=working_folder, keeps_errors=True)
    except ProgramUnavailable as error:
        if str(error) == "took too long":
            raise ValueError(f"it did not end within {COMMAND_TIMEOUT_S:g} s") from None
        raise ValueError(f"{argv[0]} {error}") from None
    lines = [line for line in result.errors.decode("utf-8", "replace").splitlines() if line.strip()]
    if result.exit_code != 0:
        detail = f": {one_line(lines[-1], _MAX_ERROR_CHARS)}" if lines else ""
        raise ValueError(exit_text(result.exit_code) + detail)
    key = result.output.decode("utf-8", "replace").lstrip().partition("\n")[0].strip()
    if not key:
        raise ValueError("it printed nothing")
    return key


def key_commands(settings: Settings, folder: Path) -> KeyCommands:
    """Return the commands of the configuration in `folder`."""
    commands = {name: provider.api_key_command for name, provider in settings.providers.items()}
    return KeyCommands({name: command for name, command in commands.items() if command}, folder)


def open_keys(
    env: Mapping[str, str],
    settings: Settings,
    paths: ConfigPaths,
    *,
    is_attended: bool,
    on_wait: Callable[[], None] | None,
) -> Keys:
    """Return the keys of a run. `on_wait` is called if the keyring is slow; a user who sees that is given more time."""
    timeout_s = ATTENDED_TIMEOUT_S if is_attended else UNATTENDED_TIMEOUT_S
    store = partial(key_store, paths.state_dir, env, timeout_s=timeout_s, on_wait=on_wait)
    return Keys(env, store, key_commands(settings, paths.config_dir))


def key_store(
    state_dir: Path,
    env: Mapping[str, str],
    *,
    timeout_s: float = UNATTENDED_TIMEOUT_S,
    on_wait: Callable[[], None] | None = None,
) -> KeyStore:
    """Return the store of the user's keys; with `QCODE_HOME`, that folder has its own keyring service."""
    from qcode.agent.keys.ring import Keyring
    from qcode.agent.keys.store import KeyStore

    service = f"{SERVICE} {state_dir}" if env.get("QCODE_HOME", "").strip() else SERVICE
    return KeyStore(state_dir, Keyring(service, timeout_s=timeout_s, on_wait=on_wait))
