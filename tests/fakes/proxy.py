"""A real HTTP proxy on loopback, which records CONNECT and absolute-form requests. It resolves no host names.

The proxy can require a password, refuse requests, or close connections inside a response.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit

PASSWORD = "canary-pw"  # of the fake
_PASSWORD_REQUIRED = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
)
_HOP_HEADERS = (b"proxy-", b"connection:")
"""The starts of headers that a proxy does not pass on."""


class Proxy:
    """A proxy that runs in threads inside a `with` block."""

    def __init__(
        self, routes: dict[str, int], *, has_password: bool = False, refusal: bytes = b"", cut_after: int | None = None
    ) -> None:
        self.routes = routes
        """The port on loopback for each host name."""
        self.seen: list[str] = []
        """The first line of each request."""
        self.heads: list[bytes] = []
        """The first line and the headers of each request."""
        self.cut_after = cut_after
        """The number of bytes of a response after which the connection is closed; None for no limit."""
        self._refusal = refusal
        """The response to every request; empty to forward requests."""
        self._expected = base64.b64encode(f"me:{PASSWORD}".encode()) if has_password else b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url_with_password(self) -> str:
        return f"http://me:{PASSWORD}@127.0.0.1:{self.port}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for open_socket in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        self._thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            data = b""
            while b"\r\n\r\n" not in data:
                if not (more := client.recv(65_536)):
                    return
                data += more
            head, _, rest = data.partition(b"\r\n\r\n")
            self.heads.append(head)
            first, _, headers = head.partition(b"\r\n")
            self.seen.append(first.decode())
            if self._expected and b"Basic " + self._expected not in head:
                client.sendall(_PASSWORD_REQUIRED)
            elif self._refusal:
                client.sendall(self._refusal)
            else:
                self._forward(client, first.decode(), headers, rest)

    def _forward(self, client: socket.socket, first: str, headers: bytes, rest: bytes) -> None:
        method, target, version = first.split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        with socket.create_connection(("127.0.0.1", self.routes[parts.hostname or ""])) as server:
            self._open.append(server)
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(rest)
            else:
                path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
                # One request for each connection, so that the next one is seen too.
                kept = [line for line in headers.split(b"\r\n") if not line.lower().startswith(_HOP_HEADERS)]
                kept.append(b"Connection: close")
                server.sendall(f"{method} {path} {version}\r\n".encode() + b"\r\n".join(kept) + b"\r\n\r\n" + rest)
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
            if method != "CONNECT":
                client.sendall(server.recv(65_536).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)[: self.cut_after])
            if method == "CONNECT" or self.cut_after is None:
                self._pump(server, client, self.cut_after)
            client.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, sink: socket.socket, max_bytes: int | None = None) -> None:
        """Pass on data until the source ends, or until `max_bytes` were passed on."""
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data if max_bytes is None else data[: max_bytes - passed])
                passed += len(data)
                if max_bytes is not None and passed >= max_bytes:
                    break
            sink.shutdown(socket.SHUT_RDWR)
