"""The keyring of the system (Secret Service, KWallet, macOS Keychain), through the keyring package.

Calls run in a thread with a timeout: a locked keyring waits for a user, who may be absent, and a session bus may hang.
The package is imported on first use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

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

        def store() -> tuple[str, bool]:
            backend = _backend()
            backend.set_password(self._service, name, key.reveal())
            return str(backend.name), backend.get_password(self._service, name) == key.reveal()

        title, is_stored = self._call(store)
        if not is_stored:
            raise KeyringError("does not store keys")
        return title

    def remove(self, name: str) -> bool:
        """Delete the key; return whether there was one. Raise `KeyringError` if it still exists."""

        def delete() -> tuple[bool, bool]:
            backend = _backend()
            if backend.get_password(self._service, name) is None:
                return False, False
            backend.delete_password(self._service, name)
            return True, backend.get_password(self._service, name) is not None

        had_key, still_has_key = self._call(delete)
        if still_has_key:
            raise KeyringError("does not delete the key")
        return had_key

    def _call(self, work: Callable[[], ResultT], timeout_s: float | None = None) -> ResultT:
        """Return the result of `work`, run in a thread; raise `KeyringError` if it fails or takes too long."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        if self._failure:
            raise KeyringError(self._failure)
        call = _CallResult[ResultT]()

        def run() -> None:
            with call:
                call.result.append(work())

        # A daemon thread: a keyring that hangs must not block exit.
        threading.Thread(target=run, name="qcode-keyring", daemon=True).start()
        notice_s = min(_NOTICE_S, timeout_s)
        is_answered = call.done.wait(notice_s)
        if not is_answered:
            if self._on_wait is not None:
                self._on_wait()
            is_answered = call.done.wait(timeout_s - notice_s)
        if not is_answered:
            self._failure = f"did not answer within {timeout_s:g} s; it may be locked"
            raise KeyringError(self._failure)
        if call.error is not None:
            raise KeyringError(_failure_text(call.error))
        return call.result[0]


class _CallResult(Generic[ResultT]):
    """The result or the exception of a call in another thread."""

    def __init__(self) -> None:
        self.result: list[ResultT] = []
        self.error: BaseException | None = None
        self.done = threading.Event()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        self.done.set()
        return True


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
