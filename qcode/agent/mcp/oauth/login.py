"""Sign in to a tool server with OAuth and a browser, and sign out again.

The authorization server redirects the browser to a port of this machine, which is open for this login only.
Alternatively, the user pastes the address of the redirect. The caller shows the address of the authorization server,
and opens it. Separate from `authorization`, which every connection to a server with a login needs.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs, urlencode, urlsplit

from qcode.agent.mcp.oauth.credentials import Credentials, Login, storage_problem
from qcode.agent.mcp.spec import ServerError
from qcode.config.settings import McpServer
from qcode.protocol.errors import KeyringError, KeyStoreError
from qcode.protocol.tools import Refused
from qcode.text.clean import single_spaced
from qcode.text.json import JsonObject, text_in
from qcode.values import dataclass

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult

    from qcode.agent.keys.store import StoredKey

LOGIN_TIMEOUT_S = 300.0
"""Time limit for signing in with the browser."""

MAX_PASTES = 3
"""The maximum number of attempts to paste the address of the redirect."""
_MAX_HEAD_BYTES = 16 * 1024
"""The maximum size of the request line and headers of the redirect."""
_REQUEST_TIMEOUT_S = 10.0
"""The time limit for the request line and headers of the redirect."""
_PROBE_TIMEOUT_S = 20.0
"""The time limit for the first request to the tool server, which asks for a login."""
_PROTOCOL_VERSION = "2025-11-25"

Show: TypeAlias = Callable[[str], Awaitable[None]]
"""Shows an address to the user, and opens it."""

Paste: TypeAlias = Callable[[], Awaitable[str]]
"""Returns the address that the user pasted."""


@dataclass(frozen=True, slots=True)
class ClientRegistration:
    """A registration of qcode that the user made at an authorization server. Without an ID, qcode registers itself."""

    id: str = ""
    secret: str = ""
    port: int = 0
    """The port of the redirect address that was registered; 0 if any port may be used."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A successful login, and where it is stored."""

    login: Login
    stored: StoredKey


def supports_login(config: McpServer) -> bool:
    """Return whether a server can have a login: it has an address, and no `Authorization` header of the user."""
    return config.url is not None and all(name.lower() != "authorization" for name in config.headers)


def browser_problem(env: Mapping[str, str]) -> str:
    """Return why no browser can be opened here, empty if one can."""
    import sys

    if env.get("BROWSER"):
        return ""
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        return "this is a remote session"
    if sys.platform != "darwin" and not (env.get("DISPLAY") or env.get("WAYLAND_DISPLAY")):
        return "there is no screen"
    return ""


def open_browser(address: str) -> None:
    """Open an address in the user's browser. This blocks for a moment."""
    import webbrowser

    webbrowser.open(address)


async def sign_in(
    config: McpServer,
    credentials: Credentials,
    show: Show,
    paste: Paste | None = None,
    client: ClientRegistration | None = None,
) -> SignedIn:
    """Sign in to a server and store the login; raise `ServerError`. `config` has its variables expanded.

    With `paste`, the user pastes the address to which the browser is redirected; otherwise qcode receives the redirect.
    """
    from qcode.agent.mcp.oauth.authorization import ServerAuth, network_zone

    assert config.url is not None
    client = client or ClientRegistration(config.client_id or "")
    stored = await _stored_login(credentials)
    async with _Callback.listen(client.port or stored.port, is_fixed=bool(client.port or client.id)) as callback:
        try:
            auth = ServerAuth(credentials, redirect=callback.address, client_metadata_url=config.client_metadata_url)
        except ValueError:
            raise ServerError("client_metadata_url must be an https address with a path") from None
        zone = await network_zone(config.url)
        if zone != "loopback" and urlsplit(config.url).scheme != "https":
            raise ServerError("it does not use https, and a token must not be sent in the clear")
        # A registration is valid for its own redirect address only.
        is_reusable = stored.port == callback.port and not client.id
        registration = stored.client if is_reusable else _registration(client, callback)
        auth.use_login(Login(config.url, registration, scope=stored.scope))
        browser = _BrowserLogin(show, paste, callback)
        auth.context.redirect_handler = browser.show_address
        auth.context.callback_handler = browser.wait_for_answer
        login = await auth.authorize(await _challenge(config), zone)
        login = replace(login, port=callback.port)
    status = (await _probe(config, login.token)).status_code
    if status in (401, 403):
        raise ServerError(f"the login worked, but the server refuses its token ({status})")
    try:
        return SignedIn(login, await asyncio.to_thread(credentials.save, login))
    except (KeyStoreError, KeyringError) as error:
        raise ServerError(f"the login cannot be stored: {storage_problem(error)}") from None


async def _stored_login(credentials: Credentials) -> Login:
    """Return the stored login, an empty one if there is none or it cannot be read."""
    with suppress(KeyStoreError, KeyringError):  # a login that cannot be read is replaced
        return await asyncio.to_thread(credentials.load) or Login(credentials.url)
    return Login(credentials.url)


def _registration(client: ClientRegistration, callback: _Callback) -> JsonObject:
    """Return the user's registration in the form of `Login.client`; empty if qcode registers itself."""
    if not client.id:
        return {}
    row: JsonObject = {"client_id": client.id, "redirect_uris": [callback.address]}
    if client.secret:
        return {**row, "client_secret": client.secret}
    return {**row, "token_endpoint_auth_method": "none"}


async def _challenge(config: McpServer) -> httpx2.Response:
    """Return a 401 response to the first request.

    A server may ask for a login only later, so any other status is replaced by 401.
    """
    import httpx2

    response = await _probe(config, "")
    if response.status_code == 401:
        return response
    return httpx2.Response(401, request=response.request)


async def _probe(config: McpServer, token: str) -> httpx2.Response:
    """Return the response to the first request of a connection, without its body; raise `ServerError`."""
    import httpx2

    from qcode.agent.mcp.session import explain
    from qcode.agent.mcp.transports import Log, http_client

    assert config.url is not None
    params = {"protocolVersion": _PROTOCOL_VERSION, "capabilities": {}, "clientInfo": {"name": "qcode", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S), http_client(config, Log()) as client:
            async with client.stream("POST", config.url, json=message, headers=headers) as response:
                probed = httpx2.Response(response.status_code, headers=response.headers, request=response.request)
            if probed.status_code not in (404, 405):
                return probed
            async with client.stream("GET", config.url, headers=headers) as response:  # the older transport
                return httpx2.Response(response.status_code, headers=response.headers, request=response.request)
    except TimeoutError:
        raise ServerError(f"it did not answer within {_PROBE_TIMEOUT_S:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ServerError(explain(error)) from None


class _BrowserLogin:
    """The part of a login that happens in the browser: shows the address, and waits for the redirect.

    The OAuth `state` is compared here, because the `mcp` package would put it into its error message.
    """

    def __init__(self, show: Show, paste: Paste | None, callback: _Callback) -> None:
        self._show = show
        self._paste = paste
        self._callback = callback
        self._state = ""

    async def show_address(self, address: str) -> None:
        """Show the address of the authorization server to the user."""
        parts = address.split("?")
        # The endpoint may already have a query; the package then appends a second `?…`.
        address = f"{parts[0]}?{'&'.join(part for part in parts[1:] if part)}"
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        await self._show(address)

    async def wait_for_answer(self) -> AuthorizationCodeResult:
        """Wait for the redirect and return its parameters; raise `ServerError`."""
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                if self._paste is None:
                    return self._check_answer(await self._callback.query)
                return await self._pasted(self._paste)
        except TimeoutError:
            raise ServerError(
                f"no answer from the browser within {LOGIN_TIMEOUT_S / 60:g} minutes; try again"
            ) from None

    async def _pasted(self, paste: Paste) -> AuthorizationCodeResult:
        """Ask for the address of the redirect at most `MAX_PASTES` times; raise `ServerError` if none is valid."""
        for attempts_left in reversed(range(MAX_PASTES)):
            typed = (await paste()).strip()
            query = parse_qs(urlsplit(typed).query) if "?" in typed else {}
            if "code" in query or "error" in query:
                return self._check_answer({name: values[0] for name, values in query.items()})
            if not attempts_left:
                break
        raise ServerError("that is not the address to which the browser was sent: it has no code; try again")

    def _check_answer(self, query: Mapping[str, str]) -> AuthorizationCodeResult:
        """Return the result of a redirect; raise `ServerError` if it has an error or belongs to another login."""
        from mcp.shared.auth import AuthorizationCodeResult

        state = query.get("state", "")
        if not (self._state and hmac.compare_digest(state.encode(), self._state.encode())):
            raise ServerError("the answer does not belong to this login (its state differs); try again")
        if "error" in query:
            message = single_spaced(f"{query['error']} {query.get('error_description', '')}", 200)
            raise ServerError(f"the authorization server refused: {message}")
        return AuthorizationCodeResult(code=query.get("code", ""), state=state, iss=query.get("iss"))


class _Callback:
    """A port of this machine that receives one redirect of the browser. `query` is a future of its parameters."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.query: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}/callback"

    @classmethod
    @asynccontextmanager
    async def listen(cls, port: int, *, is_fixed: bool) -> AsyncIterator[_Callback]:
        """Listen on `port`; if it is in use, listen on a free port, or raise `ServerError` if `is_fixed`."""
        try:
            listening = _listening_sockets(port)
        except OSError as error:
            if is_fixed and port:
                raise ServerError(
                    f"port {port} cannot be used ({error.strerror}); choose with --callback-port"
                ) from None
            listening = _listening_sockets(0)
        callback = cls(listening[0].getsockname()[1])
        servers = [
            await asyncio.start_server(callback._answer, sock=socket_, limit=_MAX_HEAD_BYTES) for socket_ in listening
        ]
        try:
            yield callback
        finally:
            for server in servers:
                server.close()
            callback.query.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one HTTP request, and store the parameters of the first redirect."""
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, _, target = head.partition(" ")
            parts = urlsplit(target.split(" ", 1)[0])
            if parts.path != "/callback" or method != "GET":
                status, text = "404 Not Found", "There is nothing here."
            elif self.query.done():
                status, text = "410 Gone", "This login has ended."
            else:
                self.query.set_result({name: values[0] for name, values in parse_qs(parts.query).items()})
                status, text = "200 OK", "qcode has got the answer. You can close this page and return to the terminal."
            body = text.encode()
            fields = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\nReferrer-Policy: no-referrer\r\n\r\n".encode() + body)
            await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()


def _listening_sockets(port: int) -> list[socket.socket]:
    """Return sockets for 127.0.0.1 and ::1, because `localhost` may mean either. Raise `OSError`."""
    first = _bind(socket.AF_INET, "127.0.0.1", port)
    with suppress(OSError):  # no IPv6, or another program uses the port
        return [first, _bind(socket.AF_INET6, "::1", first.getsockname()[1])]
    return [first]


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    listener = socket.socket(family)
    try:
        # The port of the last login may still be in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


async def sign_out(credentials: Credentials) -> str:
    """Revoke the tokens if the authorization server supports it, and delete the login.

    Return why the tokens were not revoked, empty if they were or there are none. Raise `KeyStoreError` or
    `KeyringError` if the login could not be deleted.
    """
    login = await _stored_login(credentials)
    problem = await _revoke(credentials, login) if login.tokens else ""
    await asyncio.to_thread(credentials.remove)
    return problem


async def _revoke(credentials: Credentials, login: Login) -> str:
    """Revoke the tokens of a login (RFC 7009); return the reason if that failed, otherwise an empty string."""
    from mcp.client.auth import OAuthFlowError

    from qcode.agent.mcp.oauth.authorization import ServerAuth, network_zone, send_checked

    url = text_in(login.server.get("revocation_endpoint"))
    if not url:
        return "its authorization server does not support that"
    auth = ServerAuth(credentials)
    auth.use_login(login)
    try:
        zone = await network_zone(login.url)
        for kind in ("refresh_token", "access_token"):
            token = text_in(login.tokens.get(kind))
            form = {"token": token, "token_type_hint": kind, "client_id": text_in(login.client.get("client_id"))}
            if not token:
                continue
            fields = {"Content-Type": "application/x-www-form-urlencoded"}
            form, fields = auth.context.prepare_token_auth(form, fields)
            status = (await send_checked(zone, "POST", url, fields, urlencode(form).encode())).status_code
            if status != 200:
                return f"the authorization server answered {status}"
    except (Refused, ServerError, OAuthFlowError) as error:
        return single_spaced(str(error), 200)
    return ""
