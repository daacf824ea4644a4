"""Whether a host takes a key, asked of real clients over HTTP."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from qcode.agent.keys.connect import KeyVerdict, check_key
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers import streaming
from qcode.providers.connection import Timeouts
from qcode.providers.openai.client import OpenAIChatProvider
from qcode.providers.registry import PROVIDERS, connect
from tests.fakes.clock import SkippingLoop
from tests.fakes.server import PROTOCOLS, FakeServer, ProtocolName

KEY = "sk-canary-0123456789abcdef"


def checked(protocol: str, address: str, key: str = KEY, key_path: str = "") -> KeyVerdict:
    provider = connect(PROVIDERS[protocol], base_url=address, api_key=key, timeouts=Timeouts(connect=60.0))
    return asyncio.run(check_key(provider, key_path, limit_s=60.0))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_accepted_key_gives_the_models(protocol: ProtocolName) -> None:
    with FakeServer(protocol, [], api_key=KEY) as server:
        assert checked(protocol, server.base_url) == KeyVerdict("accepted", models=("fake-1", "fake-2"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_refused_key_is_reported_and_never_shown(protocol: ProtocolName) -> None:
    with FakeServer(protocol, [], api_key="another") as server:
        found = checked(protocol, server.base_url)
    assert found.verdict == "refused"
    assert "refused the key" in found.note
    assert KEY not in found.note


def test_unreachable_host_leaves_the_key_unchecked() -> None:
    found = checked("openai", "http://127.0.0.1:9/v1")
    assert found.verdict == "unknown"
    assert "cannot reach openai" in found.note


def test_key_is_checked_by_another_request_if_models_are_public() -> None:
    with FakeServer("openai", []) as server:
        # The fake serves nothing there; the test is that the model list alone does not accept the key.
        assert checked("openrouter", server.base_url, key_path=PROVIDERS["openrouter"].key_path).verdict == "unknown"
        assert checked("openrouter", server.base_url).verdict == "accepted"


def test_key_check_that_takes_too_long_says_nothing_about_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SMALL_REQUEST_LIMIT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        provider = connect(PROVIDERS["openrouter"], base_url=address, api_key=KEY)
        assert isinstance(provider, OpenAIChatProvider)
        with pytest.raises(ProviderError, match=r"^openrouter did not answer within 0\.1 s$") as failure:
            asyncio.run(provider.check_path("key"))
    assert failure.value.kind is ErrorKind.TIMEOUT


def test_import_of_the_sdk_does_not_use_up_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from openai import AsyncOpenAI  # takes a second, which a worker that runs other tests should not spend

    loop = SkippingLoop()

    def late_client(**given: Any) -> AsyncOpenAI:
        loop.skip(100.0)
        return AsyncOpenAI(**given)

    monkeypatch.setattr("qcode.providers.direct.can_connect_directly", lambda *given: False)
    monkeypatch.setattr("openai.AsyncOpenAI", late_client)
    with FakeServer("openai", [], api_key=KEY) as server, asyncio.Runner(loop_factory=lambda: loop) as runner:
        provider = connect(PROVIDERS["openai"], base_url=server.base_url, api_key=KEY)
        assert runner.run(check_key(provider)).verdict == "accepted"
    assert loop.skipped_s == 100.0


class Failing:
    """A provider whose list of models fails in a certain way."""

    name = "acme"
    host = ""

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.is_closed = False

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        if self._error is None:
            await asyncio.Event().wait()
        assert self._error is not None
        raise self._error

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ProviderError(ErrorKind.AUTH, "no", status=401), "refused"),
        (ProviderError(ErrorKind.AUTH, "forbidden", status=403), "refused"),
        (ProviderError(ErrorKind.AUTH, "Missing scopes: api.model.read", status=403), "accepted"),
        (ProviderError(ErrorKind.QUOTA, "no money", status=429), "accepted"),
        (ProviderError(ErrorKind.RATE_LIMIT, "slow down", status=429), "accepted"),
        (ProviderError(ErrorKind.SERVER, "down", status=500), "unknown"),
        (ProviderError(ErrorKind.BAD_REQUEST, "no such page", status=404), "unknown"),
        (AttributeError("data"), "unknown"),
        (None, "unknown"),
    ],
)
def test_each_failure_has_its_meaning(error: Exception | None, verdict: str) -> None:
    provider = Failing(error)
    assert asyncio.run(check_key(provider, limit_s=0.05)).verdict == verdict  # type: ignore[arg-type]  # a small fake
    assert provider.is_closed
