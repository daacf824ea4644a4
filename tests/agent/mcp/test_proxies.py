"""Servers with a URL behind a real proxy on loopback: which requests use it, and how its failures read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from qcode.agent.mcp.spec import ServerSpec
from qcode.config.settings import McpServer
from tests.agent.mcp.serving import ServerFolders, call, open_servers
from tests.fakes.faulty_tool_server import FaultyToolServer
from tests.fakes.proxy import PASSWORD, Proxy

HTML = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nContent-Length: 14\r\n\r\n<h1>no way</h1>"
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\n\r\n"


@pytest.fixture(autouse=True)
def _no_proxy_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


def result(url: str, base: Path) -> str:
    """Return the result of a call, or why the server cannot be used."""

    async def body() -> str:
        spec = ServerSpec("web", McpServer(url=url, startup_timeout_s=20), "own", "config.toml:1")
        async with open_servers(ServerFolders(base).servers(spec)) as servers:
            status = servers.statuses()[0]
            assert PASSWORD not in f"{status} {servers.take_notices()}"
            return status.problem or (await call(servers, "web__echo", {"text": "hi"})).content

    return asyncio.run(body())


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_requests_use_the_proxy_with_its_password(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyToolServer() as server, Proxy({"tools.test": port_of(server.url)}, has_password=True) as proxy:
        monkeypatch.setenv(variable, proxy.url_with_password)
        assert result("http://tools.test/mcp", tmp_path) == "echo"
        assert set(proxy.seen) <= {f"{method} http://tools.test/mcp HTTP/1.1" for method in ("POST", "GET", "DELETE")}
        assert not any("proxy-authorization" in headers for _, headers in server.asked)


def test_server_on_this_machine_is_reached_without_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyToolServer() as server, Proxy({}, refusal=HTML) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert result(server.url, tmp_path) == "echo"
        assert not proxy.seen


def test_exception_of_no_proxy_is_reached_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy({}, refusal=HTML) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "other.test, .invalid")
        assert "proxy" not in result("http://tools.invalid/mcp", tmp_path)
        assert not proxy.seen


@pytest.mark.parametrize(
    ("scheme", "options", "says"),
    [
        ("http", {"has_password": True}, "the proxy in HTTP_PROXY demands a user name and a password (407)"),
        ("https", {"has_password": True}, "407 Proxy Authentication Required (through the proxy in HTTPS_PROXY)"),
        ("http", {"refusal": HTML}, "it answered 503 Service Unavailable"),
        ("https", {"refusal": HTML}, "503 Service Unavailable (through the proxy in HTTPS_PROXY)"),
        ("https", {"refusal": BAD_GATEWAY}, "502 Bad Gateway (through the proxy in HTTPS_PROXY)"),
        ("https", {"cut_after": 0}, "TLS failed"),
        ("http", {"cut_after": 20}, "Server disconnected"),
    ],
    ids=["password", "password of CONNECT", "page", "page for CONNECT", "502", "cut in TLS", "cut"],
)  # fmt: skip
def test_refusal_of_the_proxy_is_one_line_with_its_variable(
    scheme: str, options: dict[str, object], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyToolServer() as server, Proxy({"tools.test": port_of(server.url)}, **options) as proxy:  # type: ignore[arg-type]
        address = proxy.url if "has_password" in options else proxy.url_with_password
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", address)
        assert says in result(f"{scheme}://tools.test/mcp", tmp_path)
        assert proxy.seen


@pytest.mark.parametrize(
    "address",
    [
        f"ftp://me:{PASSWORD}@127.0.0.1:9",
        f"http://me:{PASSWORD}/x@127.0.0.1:9",
        f"socks4://me:{PASSWORD}@127.0.0.1:9",
        f"http://me:{PASSWORD}@127.0.0.1:99999",
    ],
)
def test_unusable_proxy_is_named_without_its_password(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    problem = result("https://tools.test/mcp", tmp_path)
    assert problem.startswith("the proxy in HTTPS_PROXY cannot be used")
