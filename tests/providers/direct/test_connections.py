"""Connections of the direct way: reached, kept, given up; and the odd answers that servers give."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEnded
from qcode.providers import direct as direct_way
from qcode.providers import http1
from qcode.providers.connection import Connection, Timeouts
from qcode.providers.direct import DirectClient, ErrorResponse, PostRequest
from qcode.providers.http1 import ConnectFailed, ConnectionBroken
from tests.providers.clients import collect, provider_at, run_against, stream_of
from tests.providers.loopback import Answer, Loopback, Stall, free_port


async def ask(direct: DirectClient, url: str) -> bytes:
    async with direct.open(PostRequest(f"{url}/x", {}, b"{}")) as answer:
        return b"".join([piece async for piece in answer.aiter_bytes()])


def asked(sent: bytes, times: int = 1) -> list[bytes]:
    """Return the bodies of so many answers that are, head and all, `sent`; a connection serves one request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(sent)
        writer.close()

    async def main() -> list[bytes]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            direct = DirectClient(Connection("acme", url))
            bodies = []
            for _ in range(times):
                bodies.append(await ask(direct, url))
            direct.close()
            return bodies

    return asyncio.run(main())


def test_headers_use_the_usual_case() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            direct = DirectClient(Connection("acme", url))
            given = {"authorization": "Bearer k", "anthropic-version": "1"}
            async with direct.open(PostRequest(f"{url}/x", given, b"{}")) as answer:
                assert [piece async for piece in answer.aiter_bytes()] == [b"ok"]
            direct.close()

    asyncio.run(main())
    names = {line.partition(b":")[0] for line in seen[0].split(b"\r\n")[1:] if line}
    assert {b"Host", b"Content-Length", b"Content-Type", b"Authorization", b"anthropic-version"} < names


def test_informational_responses_are_skipped() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    assert asked(early + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok") == [b"ok"]


def test_body_may_end_with_its_connection() -> None:
    assert asked(b"HTTP/1.0 200 OK\r\n\r\nall of it") == [b"all of it"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nx",
    ],
)
def test_invalid_or_incomplete_response_is_a_broken_connection(sent: bytes) -> None:
    with pytest.raises(ConnectionBroken):
        asked(sent)


def test_truncated_error_response_keeps_its_message() -> None:
    with pytest.raises(ErrorResponse) as caught:
        asked(b"HTTP/1.1 429 X\r\nRetry-After: 7\r\ncontent-length: 99\r\n\r\nslow down")
    assert (caught.value.status, caught.value.content) == (429, b"slow down")
    assert caught.value.headers["retry-after"] == "7"


def test_connection_closed_by_the_host_while_idle_is_replaced() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    assert asked(answer, times=3) == [b"ok"] * 3


@pytest.mark.parametrize(("begun", "requests"), [(b"", 3), (b"HTTP/1.1 200 OK\r\n", 2)])
def test_kept_connection_broken_before_any_byte_is_retried_once(begun: bytes, requests: int) -> None:
    """The host hangs up on the second request and on later ones."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"{}"))
        if len(seen) == 1:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            seen.append(await reader.readuntil(b"{}"))
        writer.write(begun)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            direct = DirectClient(Connection("acme", url))
            assert await ask(direct, url) == b"ok"
            with pytest.raises(ConnectionBroken):
                await ask(direct, url)
            direct.close()

    asyncio.run(main())
    assert len(seen) == requests


def test_unrequested_response_never_answers_the_next_request() -> None:
    """The host keeps the connection open and sends more than one response."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    connections: list[int] = []
    left = asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        try:
            while await reader.readuntil(b"{}"):
                writer.write(answer + b"HTTP/1.1 408 Late\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            left.release()
        finally:
            writer.close()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            direct = DirectClient(Connection("acme", url))
            assert [await ask(direct, url), await ask(direct, url)] == [b"ok", b"ok"]
            direct.close()
            await left.acquire()
            await left.acquire()

    asyncio.run(main())
    assert len(connections) == 2


@pytest.mark.parametrize(("keep_alive", "connections"), [("", 1), ("timeout=60, max=9", 1), ("timeout=1", 2)])
def test_connection_is_kept_for_the_time_that_the_host_allows(keep_alive: str, connections: int) -> None:
    headers = {"content-type": "text/event-stream", "keep-alive": keep_alive}

    async def scene(provider: Provider, server: Loopback) -> None:
        await collect(provider, "openai")
        await collect(provider, "openai")
        assert server.connections == connections

    run_against(Answer([stream_of("openai")], headers=headers), "openai", scene)


def test_connection_idle_for_too_long_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_way, "IDLE_LIMIT_S", 0.0)

    async def scene(provider: Provider, server: Loopback) -> None:
        await collect(provider, "openai")
        await collect(provider, "openai")
        assert server.connections == 2

    run_against(Answer([stream_of("openai")]), "openai", scene)


def test_host_with_a_refusing_address_is_reached_at_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of("openai")])) as server:
            port = int(server.url.rpartition(":")[2])
            known = [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", free_port())),
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
            ]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: known)
            provider = provider_at("openai", f"http://two.test:{port}")
            assert isinstance((await collect(provider, "openai"))[-1], ReplyEnded)
            await provider.close()

    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    asyncio.run(main())


def test_silent_address_does_not_delay_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    is_tried = asyncio.Event()
    opened = http1.open_address

    async def open_or_wait(address: http1.Address) -> socket.socket:
        if address[4] == "silent":
            is_tried.set()
            await asyncio.Event().wait()
        assert is_tried.is_set()
        return await opened(address)

    async def main() -> None:
        async with Loopback(Answer([b"x"])) as server:
            port = int(server.url.rpartition(":")[2])
            addresses = [(0, 0, 0, "", "silent"), (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
            sock = await http1.first_to_answer([*addresses])
            assert sock.getpeername()[1] == port
            sock.close()

    monkeypatch.setattr(http1, "open_address", open_or_wait)
    monkeypatch.setattr(http1, "HEAD_START_S", 0.01)
    asyncio.run(main())


def test_host_that_never_completes_the_handshake_times_out() -> None:
    """It takes the connection and never says a word of TLS."""

    async def main() -> None:
        async with Loopback(Answer([Stall()])) as server:
            address = server.url.replace("http:", "https:")
            provider = provider_at("openai", address, Timeouts(connect=0.1))
            with pytest.raises(ProviderError, match=r"no connection within 0\.1 s") as caught:
                await collect(provider, "openai")
            await provider.close()
            assert caught.value.kind is ErrorKind.UNREACHABLE

    asyncio.run(main())


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a certificate for `name` that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    file, key_file = folder / "cert.pem", folder / "key.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
    )
    return file, key_file


@pytest.mark.parametrize(
    ("name", "is_trusted", "complaint"),
    [
        ("localhost", True, ""),
        ("localhost", False, "not trusted"),
        ("other.test", True, "not trusted"),
    ],
)
def test_tls_connects_only_to_the_intended_host(
    name: str, is_trusted: bool, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, key_file = certificate(tmp_path, name)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, key_file)
    body = stream_of("openai")
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        await reader.read()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
            provider = provider_at("openai", f"https://localhost:{server.sockets[0].getsockname()[1]}")
            try:
                if complaint:
                    with pytest.raises(ProviderError, match=complaint):
                        await collect(provider, "openai")
                else:
                    assert isinstance((await collect(provider, "openai"))[-1], ReplyEnded)
            finally:
                await provider.close()
        assert bool(seen) is not bool(complaint)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "is_asked_for"), [("127.0.0.1", False), ("::1", False), ("localhost", True), ("127.1", True)]
)
def test_only_a_name_is_looked_up_in_a_thread(host: str, is_asked_for: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    async def aside(work: Callable[[], Any]) -> Any:
        asked.append(True)
        return work()

    monkeypatch.setattr(http1, "run_in_thread", aside)
    with pytest.raises(ConnectFailed):
        asyncio.run(http1.connect(host, free_port(), tls=None, limit=5))
    assert bool(asked) is is_asked_for
