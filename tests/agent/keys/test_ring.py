"""The system keyring: used if it is safe and responds, otherwise skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.backends.chainer import ChainerBackend

from qcode.agent.keys.ring import Keyring
from qcode.protocol.errors import KeyringError
from qcode.safety.secret import Secret
from tests.agent.keys import backends
from tests.agent.keys.backends import make
from tests.agent.keys.conftest import UseKeyring
from tests.arch.sources import ROOT

KEY = Secret("sk-canary-0123456789abcdef")


def ring(timeout_s: float = 5.0) -> Keyring:
    return Keyring("qcode test", timeout_s=timeout_s)


def test_key_is_stored_found_and_removed(use_keyring: UseKeyring) -> None:
    folder = use_keyring(make(backends.Working))
    assert ring().get("openai") is None
    assert "Working" in ring().store("openai", KEY)
    assert [path.name for path in folder.iterdir()] == ["qcode test~openai"]
    assert ring().get("openai") == KEY
    assert ring().remove("openai")
    assert not ring().remove("openai")
    assert ring().get("openai") is None


@pytest.mark.parametrize(
    "backend",
    [
        make(fail.Keyring),
        make(null.Keyring),
        make(backends.Weak),
        make(backends.PlaintextKeyring),
        make(backends.Forgetful),
        make(backends.Locked),
        make(backends.Quoting),
    ],
    ids=lambda backend: type(backend).__name__,
)
def test_unsafe_or_broken_backend_gets_no_key(backend: KeyringBackend, use_keyring: UseKeyring) -> None:
    folder = use_keyring(backend)
    with pytest.raises(KeyringError) as raised:
        ring().store("openai", KEY)
    assert list(folder.iterdir()) == []
    assert "canary" not in str(raised.value)


def test_backend_chain_uses_only_safe_members(use_keyring: UseKeyring, monkeypatch: pytest.MonkeyPatch) -> None:
    use_keyring(make(ChainerBackend))
    monkeypatch.setattr(ChainerBackend, "backends", [make(backends.PlaintextKeyring), make(backends.Working)])
    assert ring().store("openai", KEY).endswith("Working")
    monkeypatch.setattr(ChainerBackend, "backends", [make(backends.PlaintextKeyring), make(backends.Weak)])
    with pytest.raises(KeyringError, match="not available"):
        ring().store("gemini", KEY)


def test_backend_that_cannot_be_loaded_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", None)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "no.such.Backend")
    with pytest.raises(KeyringError, match="ModuleNotFoundError"):
        ring().store("openai", KEY)


def test_hanging_keyring_is_asked_once(use_keyring: UseKeyring) -> None:
    use_keyring(make(backends.Stuck))
    notices: list[str] = []
    stuck = Keyring("qcode test", timeout_s=0.05, on_wait=lambda: notices.append("waiting"))
    with pytest.raises(KeyringError, match="did not answer within"):
        stuck.get("openai")
    use_keyring(make(backends.Working))
    with pytest.raises(KeyringError, match="did not answer within"):
        stuck.get("openai")
    assert notices == ["waiting"]


def test_wait_for_the_keyring_is_not_reported_while_the_app_is_on_screen(use_keyring: UseKeyring) -> None:
    use_keyring(make(backends.Stuck))
    notices: list[str] = []
    stuck = Keyring("qcode test", timeout_s=60, on_wait=lambda: notices.append("waiting"))
    stuck.limit_waiting(0.05)
    with pytest.raises(KeyringError, match=r"0\.05 s"):
        stuck.get("openai")
    assert notices == []


def test_hanging_keyring_does_not_block_exit(tmp_path: Path) -> None:
    program = (
        "from qcode.agent.keys.ring import Keyring\n"
        "from qcode.agent.keys.store import KeyStore\n"
        "from qcode.safety.redaction import Secret\n"
        f"store = KeyStore(__import__('pathlib').Path({str(tmp_path)!r}), Keyring('qcode test', timeout_s=0.2))\n"
        "assert store.store('openai', Secret('sk-canary')).location == 'file'"
    )
    env = {**os.environ, "PYTHON_KEYRING_BACKEND": backends.NAME.replace("Working", "Stuck")}
    assert subprocess.run([sys.executable, "-c", program], env=env, cwd=ROOT, timeout=30).returncode == 0
