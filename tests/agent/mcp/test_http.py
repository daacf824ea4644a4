"""Servers with a URL, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qcode.agent.mcp import connection, transports
from qcode.agent.mcp.spec import ServerSpec
from qcode.config.settings import McpServer
from tests.agent.mcp.serving import ServerFolders, call, names, open_servers, texts, until
from tests.fakes.faulty_tool_server import FaultyToolServer

if TYPE_CHECKING:
    from tests.fakes.sdk_tool_server import HttpToolServer


@pytest.fixture
def folders(tmp_path: Path) -> ServerFolders:
    return ServerFolders(tmp_path)


def at(url: str, name: str = "web", **headers: str) -> ServerSpec:
    return ServerSpec(name, McpServer(url=url, headers=headers), "own", "config.toml:1")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_json", [False, True])
def test_tools_are_listed_and_called_with_the_configured_headers(
    is_json: bool, folders: ServerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "MAX_RESPONSE_BYTES", 200_000)

    async def body(server: HttpToolServer) -> None:
        spec = at(server.url, Authorization="Bearer ${WEB_TOKEN}")
        async with open_servers(folders.servers(spec, env={"WEB_TOKEN": "canary"})) as servers:
            assert "web__add" in names(servers)
            assert (await call(servers, "web__add", {"a": 2, "b": 3})).content.startswith("5")
            assert len((await call(servers, "web__draw")).images) == 1
            assert (await call(servers, "web__fail", {"why": "because"})).is_error
            work = asyncio.ensure_future(call(servers, "web__slow", {"seconds": 60}))
            await asyncio.wait({work}, timeout=0.2)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            large = await call(servers, "web__flood", {"size": 400_000})
            assert large.is_error

    from tests.fakes.sdk_tool_server import HttpToolServer  # a second; no other test needs it

    with HttpToolServer(is_json=is_json) as server:
        asyncio.run(body(server))
        assert server.asked
        assert {headers.get("authorization") for headers in server.asked} == {"Bearer canary"}


def test_unusable_address_is_named_with_its_reason(folders: ServerFolders) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"

    async def body(server: HttpToolServer) -> None:
        specs = (
            at(server.url, "refusing"),
            at(closed, "closed"),
            at(closed, "odd", Authorization="${LINES}"),
        )
        async with open_servers(folders.servers(*specs, env={"LINES": "canary\nX: y"})) as servers:
            await until(lambda: {status.state for status in servers.statuses()} == {"failed"})
            notices = texts(servers)
            assert "refusing failed: it answered 401" in notices
            assert "closed failed: it cannot be reached" in notices
            assert "odd failed: the header Authorization contains characters" in notices
            assert "canary" not in notices

    from tests.fakes.sdk_tool_server import HttpToolServer

    with HttpToolServer(error_status=401) as server:
        asyncio.run(body(server))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("error_status", "transport"), [(405, None), (404, None), (400, None), (0, "sse")])
def test_older_transport_is_used_if_the_server_asks_for_it(
    error_status: int, transport: str | None, folders: ServerFolders
) -> None:
    async def body(server: HttpToolServer) -> None:
        spec = ServerSpec("web", McpServer(url=server.url, transport=transport), "own", "config.toml:1")
        async with open_servers(folders.servers(spec)) as servers:
            assert "web__add" in names(servers), texts(servers)
            assert (await call(servers, "web__add", {"a": 2, "b": 3})).content == "5"
            assert ("SSE transport, which is deprecated" in servers.statuses()[0].log) is (transport is None)

    from tests.fakes.sdk_tool_server import HttpToolServer

    with HttpToolServer(sse=True, error_status=error_status) as server:
        asyncio.run(body(server))


def test_older_transport_is_not_tried_after_another_refusal(folders: ServerFolders) -> None:
    async def body(server: HttpToolServer) -> None:
        chosen = ServerSpec("chosen", McpServer(url=server.url, transport="http"), "own", "config.toml:1")
        async with open_servers(folders.servers(at(server.url), chosen)) as servers:
            assert {status.state for status in servers.statuses()} == {"failed"}
            assert not any("SSE" in status.log for status in servers.statuses())

    from tests.fakes.sdk_tool_server import HttpToolServer

    with HttpToolServer(sse=True, error_status=500) as server:
        asyncio.run(body(server))


_FAULTS = [
    ("status 429", "it answered 429 Too Many Requests"),
    ("a page", "it answered with text/html instead of JSON; check the URL"),
    ("broken JSON", "its response is not a message of the protocol"),
    ("202", "it answered 202 Accepted without a response"),
    ("a stream that ends", "the connection was lost before its response arrived"),
]


@pytest.mark.parametrize(("fault", "says"), _FAULTS)
def test_fault_of_http_is_named_and_the_connection_stays(fault: str, says: str, folders: ServerFolders) -> None:
    async def body(server: FaultyToolServer) -> None:
        async with open_servers(folders.servers(at(server.url))) as servers:
            outcome = await call(servers, "web__echo")
            assert outcome.is_error
            assert outcome.content == f"the server web: {says}"
            server.fault = ""
            assert (await call(servers, "web__echo")).content == "echo"
            assert server.sessions == 1

    with FaultyToolServer(fault) as server:
        asyncio.run(body(server))


@pytest.mark.parametrize(("fault", "says"), _FAULTS)
def test_http_error_at_the_start_is_reported_as_the_reason(fault: str, says: str, folders: ServerFolders) -> None:
    async def body(server: FaultyToolServer) -> None:
        async with open_servers(folders.servers(at(server.url))) as servers:
            assert servers.statuses()[0].problem == says

    with FaultyToolServer(start_fault=fault) as server:
        asyncio.run(body(server))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("a text as result", "the server web: its response is not a message of the protocol"),
        ("half of a character", "a?"),
    ],
)
def test_invalid_response_of_the_older_transport_is_answered_at_once(
    fault: str, says: str, folders: ServerFolders
) -> None:
    async def body(server: FaultyToolServer) -> None:
        spec = ServerSpec("web", McpServer(url=server.url, transport="sse", timeout_s=10), "own", "config.toml:1")
        async with open_servers(folders.servers(spec)) as servers:
            assert (await call(servers, "web__echo")).content == says
            server.fault = ""
            assert (await call(servers, "web__echo")).content == "echo"
            server.put_event(b"not a message")
            assert (await call(servers, "web__echo")).content == "echo"
            assert "not a message" in servers.statuses()[0].log

    with FaultyToolServer(fault, is_sse=True) as server:
        asyncio.run(body(server))


def test_ended_session_is_restarted_every_time(folders: ServerFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STABLE_S", 0.0)

    async def body(server: FaultyToolServer) -> None:
        async with open_servers(folders.servers(at(server.url))) as servers:
            for number in range(1, 4):
                server.fault = "an ended session"
                outcome = await call(servers, "web__echo")
                assert outcome.content == (
                    "the server web: its session ended before the request and starts again; repeat the call"
                )
                server.fault = ""
                await until(lambda: servers.statuses()[0].state == "ready" and server.sessions == number + 1)  # noqa: B023
                assert (await call(servers, "web__echo")).content == "echo"

    with FaultyToolServer() as server:
        asyncio.run(body(server))


def test_requests_to_resume_a_stream_are_spaced(folders: ServerFolders) -> None:
    async def body(server: FaultyToolServer) -> None:
        spec = ServerSpec("web", McpServer(url=server.url, timeout_s=1), "own", "config.toml:1")
        async with open_servers(folders.servers(spec)) as servers:
            assert "ran longer than 1 s" in (await call(servers, "web__echo")).content
        assert server.count("GET") < 20

    with FaultyToolServer("resumes forever") as server:
        asyncio.run(body(server))


def test_headers_are_not_sent_to_the_target_of_a_redirect(folders: ServerFolders) -> None:
    async def body(server: FaultyToolServer, other: FaultyToolServer) -> None:
        server.redirects_to = other.url
        async with open_servers(folders.servers(at(server.url, **{"X-Key": "canary"}))) as servers:
            assert other.url in servers.statuses()[0].problem
            assert "canary" not in texts(servers)
        assert other.asked == []

    with FaultyToolServer() as server, FaultyToolServer() as other:
        asyncio.run(body(server, other))
