"""The logins of tool servers (OAuth) in the key store: the tokens, and all data that a refresh needs.

A login belongs to one configured server at one address, so a server at a new address needs a new login. All functions
block, except `locked`.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.keys.keys import LOGIN_PREFIX
from qcode.agent.mcp.spec import ServerSpec, digest
from qcode.protocol.errors import KeyringError, KeyStoreError
from qcode.safety.secret import Secret
from qcode.text.clean import single_spaced
from qcode.text.json import JsonObject, parse_object, text_in
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.keys.store import KeyStore, StoredKey

_MAX_LOGIN_CHARS = 32 * 1024
"""The maximum size of a stored login; more cannot be a real one."""
_LOCK_TIMEOUT_S = 30.0
_LOCK_RETRY_S = 0.05
_SECRETS = ("access_token", "refresh_token", "client_secret", "registration_access_token")


@dataclass(frozen=True, slots=True)
class Login:
    """A login to a tool server."""

    url: str
    """The address of the tool server."""
    client: JsonObject = field(default_factory=dict)
    """The registration of qcode at the authorization server."""
    tokens: JsonObject = field(default_factory=dict)
    """The last response of the token endpoint, empty after a refusal."""
    expires_at: float | None = None
    """When the access token expires, in seconds since 1970; None if unknown."""
    server: JsonObject = field(default_factory=dict)
    """The metadata of the authorization server."""
    resource: JsonObject = field(default_factory=dict)
    """The metadata of the tool server."""
    port: int = 0
    """The port of the redirect address in the registration, 0 if unknown."""
    scope: str = ""
    """The permissions that the server demanded after the login, separated by spaces."""

    @property
    def token(self) -> str:
        return text_in(self.tokens.get("access_token"))

    @property
    def issuer(self) -> str:
        return text_in(self.server.get("issuer"))

    def secrets(self) -> tuple[Secret, ...]:
        """Return the values to redact everywhere."""
        values = (text_in(row.get(name)) for row in (self.tokens, self.client) for name in _SECRETS)
        return tuple(Secret(value) for value in values if value)


def storage_problem(error: KeyStoreError | KeyringError) -> str:
    """Return an error of the key store as a sentence part: the text of a `KeyringError` has no subject."""
    return f"the keyring {error}" if isinstance(error, KeyringError) else str(error)


class Credentials:
    """The storage for the login of one server at one address."""

    def __init__(self, spec: ServerSpec, url: str, store: KeyStore) -> None:
        self.url = url
        self._store = store
        # The name of the entry in the key store.
        self.name = f"{LOGIN_PREFIX}{spec.name}:{digest([spec.key, url])[:16]}"

    @property
    def is_stored(self) -> bool:
        """Whether there is a login, without reading it; raise `KeyStoreError`."""
        return self.name in self._store.locations()

    def load(self) -> Login | None:
        """Read the login, which another process may have changed; None if there is none or it is invalid.

        Raise `KeyStoreError` or `KeyringError`.
        """
        stored = self._store.get(self.name, skips_cache=True)
        row = parse_object(stored.reveal()) if stored is not None else None
        if row is None or row.get("url") != self.url:
            return None
        client, tokens, server, resource = (row.get(name) for name in ("client", "tokens", "server", "resource"))
        expires_at, port = row.get("expires_at"), row.get("port")
        login = Login(
            self.url,
            client if isinstance(client, dict) else {},
            tokens if isinstance(tokens, dict) else {},
            expires_at if isinstance(expires_at, int | float) else None,
            server if isinstance(server, dict) else {},
            resource if isinstance(resource, dict) else {},
            port if isinstance(port, int) else 0,
            text_in(row.get("scope")),
        )
        self.redact_secrets(login)
        return login

    def save(self, login: Login) -> StoredKey:
        """Store a login and report the location; raise `KeyStoreError`, also for a login that is too large."""
        self.redact_secrets(login)
        row = {
            "url": login.url,
            "client": login.client,
            "tokens": login.tokens,
            "expires_at": login.expires_at,
            "server": login.server,
            "resource": login.resource,
            "port": login.port,
            "scope": login.scope,
        }
        text = json.dumps(row, separators=(",", ":"))
        if len(text) > _MAX_LOGIN_CHARS:
            raise KeyStoreError(
                f"the tokens of {single_spaced(self.url, 80)} take more than {_MAX_LOGIN_CHARS:,} characters"
            )
        return self._store.store(self.name, Secret(text))

    def remove(self) -> bool:
        """Delete the login; return whether there was one. Raise `KeyringError` if it is still in the keyring."""
        return bool(self._store.remove(self.name))

    def redact_secrets(self, login: Login) -> None:
        """Redact the secrets of a login in stored texts and crash reports from now on."""
        from qcode.agent.crash import redact_in_crash_reports

        for secret in login.secrets():
            self._store.add_known_key(secret)
            redact_in_crash_reports(secret)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the file lock that all processes share for all logins; raise `TimeoutError` or `OSError`."""
        folder: Path = self._store.file.folder
        handle = os.open(folder / ".logins.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError from None
                    await asyncio.sleep(_LOCK_RETRY_S)
            yield
        finally:
            os.close(handle)
