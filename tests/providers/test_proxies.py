"""Providers behind a real proxy on loopback, and the rule for it, compared with the rule of httpx2."""

from __future__ import annotations

import asyncio
import itertools
import os
from urllib.parse import urlsplit

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.text.proxies import proxy_address, proxy_variable
from tests.fakes.proxy import PASSWORD, Proxy
from tests.providers.clients import collect, each_protocol, provider_at

URLS = (
    "https://a.test/x", "http://a.test", "https://b.a.test:8443/", "https://xa.test", "http://10.1.2.3:80/",
    "http://10.1.2.3:8080", "https://[2001:db8::1]/", "http://[2001:db8::1]:81/", "https://A.Test",
)  # fmt: skip
PROXIES = (
    {"HTTPS_PROXY": "http://p:1"},
    {"HTTP_PROXY": "p:2"},
    {"ALL_PROXY": "socks5://p:3", "https_proxy": "http://q:4"},
    {"https_proxy": "", "HTTPS_PROXY": "http://p:1"},
    {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:2", "ALL_PROXY": "http://p:3"},
)
EXCEPTIONS = (
    "", "*", "a.test", ".a.test", "*.a.test", "A.TEST", "a.test:8443", "b.a.test:443", "10.0.0.0/8", "10.1.2.3",
    "10.1.2.3:8080", "2001:db8::1", "[2001:db8::1]", "2001:db8::/32", "[2001:db8::1]:81", "localhost",
    "https://a.test", "all://a.test", " a.test , x", "b.a.test, 10.1.2.3/33", "10.1.2.3:bad", "test", "[::1", "a b",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_proxy_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("proxies", PROXIES, ids=lambda proxies: ",".join(proxies))
@pytest.mark.parametrize("spelling", ["NO_PROXY", pytest.param("no_proxy", marks=pytest.mark.broad)])
def test_proxy_variable_follows_the_rules_of_httpx2(
    proxies: dict[str, str], spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx2

    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    for exceptions, url in itertools.product(EXCEPTIONS, URLS):
        monkeypatch.setenv(spelling, exceptions)
        with httpx2.Client(verify=False) as client:  # nothing is sent
            pool = client._transport_for_url(httpx2.URL(url))._pool  # type: ignore[attr-defined]
        proxy = getattr(pool, "_proxy_url", None)
        used = f"{proxy.scheme.decode()}://{proxy.host.decode()}:{proxy.port}" if proxy is not None else ""
        assert proxy_address(url, os.environ) == used, (exceptions, url)


@pytest.mark.parametrize(
    "url", ["http://localhost:1/v1", "http://127.8.0.1", "https://[::1]:2", "http://api.localhost"]
)
def test_loopback_address_has_no_proxy(url: str) -> None:
    assert not proxy_variable(url, {"ALL_PROXY": "http://p:1", "HTTP_PROXY": "http://p:1"})


@each_protocol
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://{}", "through the proxy in HTTP_PROXY: it demands a user name and a password (407)"),
        ("http://me:wrong@{}", "through the proxy in HTTP_PROXY: it demands a user name and a password (407)"),
    ],
)
def test_demand_of_the_proxy_for_a_password_names_its_variable(
    protocol: str, address: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy({}, has_password=True) as proxy:
        monkeypatch.setenv("HTTP_PROXY", address.format(urlsplit(proxy.url).netloc))
        error = failure(protocol, "http://models.test")
        assert says in error.message
        assert error.kind is ErrorKind.UNREACHABLE


def test_exception_of_no_proxy_is_not_reported_as_proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "models.invalid")
    assert "proxy" not in failure("openai", "https://models.invalid").message


@pytest.mark.parametrize(
    "address", ["http://me:{}/x@127.0.0.1:9", "http://me:{}@[::1", "ftp://me:{}@127.0.0.1:9", "http://me:{}@h:99999"]
)
def test_unusable_proxy_is_named_without_its_password(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address.format(PASSWORD))
    message = failure("openai", "https://models.test").message
    assert "the proxy in HTTPS_PROXY cannot be used" in message
    assert PASSWORD not in message


def failure(protocol: str, url: str) -> ProviderError:
    async def main() -> ProviderError:
        provider = provider_at(protocol, url)
        try:
            with pytest.raises(ProviderError) as caught:
                await collect(provider, protocol)
            return caught.value
        finally:
            await provider.close()

    return asyncio.run(main())
