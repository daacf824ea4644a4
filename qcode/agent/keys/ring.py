"""The keyring of the system (Secret Service, KWallet, macOS Keychain), through the keyring package.

Calls run in a thread with a timeout: a locked keyring waits for a user, who may be absent, and a session bus may hang.
The package is imported on first use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

from qcode.protocol.errors import KeyringError
from qcode.safety.secret import Secret

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

ResultT = TypeVar("ResultT")

_NOTICE_S = 1.5
"""Seconds after which a call that waits is reported."""
_MIN_PRIORITY = 1.0
"""The minimum that the package recommends. Other backends store nothing or plain text, or prompt on the terminal."""

_UNSAFE_NAMES = ("null", "fail", "plaintext", "uncrypted")
"""The beginnings of module and class names of backends that do not store keys safely."""


class Keyring:
    """Keys by name under one `service`. If a call takes longer than `timeout_s`, the keyring is not used again.

    `on_wait` is called when a call takes longer than `_NOTICE_S`, because the user may have to unlock the keyring.
    """

    def __init__(self, service: str, *, timeout_s: float = 5.0, on_wait: Callable[[], None] | None = None) -> None:
        self._service = service
        self._timeout_s = timeout_s
        self._get_timeout_s = timeout_s
        self._on_wait = on_wait
        self._failure = ""
        """The text of the timeout after which the keyring is not used again; empty before."""

    def limit_waiting(self, timeout_s: float = 5.0) -> None:
        """Do not call `on_wait` from now on, and shorten the timeout of `get`, because the app is on screen."""
        self._get_timeout_s = min(self._timeout_s, timeout_s)
        self._on_wait = None

    def get(self, name: str) -> Secret | None:
        """Return the key, None if the keyring has no such key; raise `KeyringError`."""
        key = self._call(lambda: _backend().get_password(self._service, name), self._get_timeout_s)
        return Secret(key) if key else None

    def store(self, name: str, key: Secret) -> str:
        """Store the key, read it back, and return the name of the keyring; raise `KeyringError`."""

        def store_and_verify() -> str:
            backend = _backend()
            backend.set_password(self._service, name, key.reveal())
            if backend.get_password(self._service, name) != key.reveal():
                raise KeyringError("does not store keys")
            return str(backend.name)

        return self._call(store_and_verify)

    def remove(self, name: str) -> bool:
        """Delete the key; return whether there was one. Raise `KeyringError` if it still exists."""

        def delete_and_verify() -> bool:
            backend = _backend()
            if backend.get_password(self._service, name) is None:
                return False
            backend.delete_password(self._service, name)
            if backend.get_password(self._service, name) is not None:
                raise KeyringError("does not delete the key")
            return True

        return self._call(delete_and_verify)

    def _call(self, work: Callable[[], ResultT], timeout_s: float | None = None) -> ResultT:
        """Return the result of `work`, run in a thread; raise `KeyringError` if it fails or takes too long."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        if self._failure:
            raise KeyringError(self._failure)
        call: Future[ResultT] = Future()

        def run() -> None:
            try:
                call.set_result(work())
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                call.set_exception(error)

        # A daemon thread: a keyring that hangs must not block exit.
        threading.Thread(target=run, name="qcode-keyring", daemon=True).start()
        notice_s = min(_NOTICE_S, timeout_s)
        wait([call], notice_s)
        if not call.done():
            if self._on_wait is not None:
                self._on_wait()
            wait([call], timeout_s - notice_s)
        if not call.done():
            self._failure = f"did not answer within {timeout_s:g} s; it may be locked"
            raise KeyringError(self._failure)
        if (error := call.exception()) is not None:
            raise KeyringError(_failure_text(error))
        return call.result()


def _backend() -> KeyringBackend:
    """Return a backend that stores secrets safely; raise `KeyringError` if this system has no such backend."""
    # Its log messages on stderr would break the screen.
    logging.getLogger("keyring").addHandler(logging.NullHandler())
    import keyring
    from keyring.backends.chainer import ChainerBackend

    configured = keyring.get_keyring()
    # A chain may fall back to an unsafe backend, so only its best safe backend is used.
    backends = configured.backends if isinstance(configured, ChainerBackend) else [configured]
    for backend in backends:
        if _is_safe(backend):
            return backend
    raise KeyringError("is not available: this system has no secure keyring")


def _is_safe(backend: KeyringBackend) -> bool:
    kind = type(backend)
    words = f"{kind.__module__}.{kind.__qualname__}".lower().replace("_", "")
    is_known_unsafe = words.startswith("keyrings.alt.") or any(
        part.startswith(_UNSAFE_NAMES) for part in words.split(".")
    )
    return not is_known_unsafe and float(backend.priority) >= _MIN_PRIORITY


def _failure_text(error: BaseException) -> str:
    """Return an error as the end of the sentence "the keyring …", without its message, which may quote the key."""
    if isinstance(error, KeyringError):
        return str(error)
    name = type(error).__name__
    if name == "KeyringLocked":
        return "is locked; unlock it and try again"
    if name == "NoKeyringError":
        return "is not available: this system has no secure keyring"
    return f"failed ({name})"
