"""The authorization of a tool server over HTTP (OAuth 2.1): sends its token, refreshes the token, and signs in.

The `mcp` package discovers the authorization server, registers qcode and exchanges codes. `ServerAuth` also stores the
expiry and the issuer of a token, refreshes after a 401, and lets only one process refresh at a time. It rejects an
authorization server without PKCE (S256), without https, or at a private address. Every connection with a stored login
needs this module; the module `login` is only for signing in and out. The module imports the `mcp` package.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypeAlias
from urllib.parse import urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import (
    create_client_registration_request,
    extract_field_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    union_scopes,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from qcode.agent.mcp.oauth.credentials import Credentials, Login, storage_problem
from qcode.agent.mcp.session import validation_problem
from qcode.agent.mcp.spec import ServerError
from qcode.protocol.errors import KeyringError, KeyStoreError
from qcode.protocol.tools import Refused
from qcode.providers.sdk import silence_loggers
from qcode.safety.addresses import is_global, read_url
from qcode.text.clean import single_spaced
from qcode.text.json import JsonObject, parse_object, text_in
from qcode.tools.web import Fetch, RequestTarget

NetworkZone: TypeAlias = Literal["public", "private", "loopback"]
"""The network of a tool server: the internet, a private network, or this machine."""

MAX_REDIRECTS = 3
_LEEWAY_S = 30.0
"""A token is refreshed if it expires within this many seconds."""
_MAX_MESSAGE_CHARS = 300
# From this protocol version on, the `mcp` package names the tool server in every request of a login (RFC 8707).
_RESOURCE_VERSION = "2025-11-25"
_CLOUD_METADATA_ADDRESS = re.compile(r"169\.254\..*|168\.63\.129\.16|fe80:.*|fd00:ec2::.*", re.IGNORECASE)
_BASIC: Literal["client_secret_basic"] = "client_secret_basic"
_POST: Literal["client_secret_post"] = "client_secret_post"
_STORED_METADATA = ("issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint")


class AddressGate:
    """Allows the addresses to which requests of a login may go: on the internet, over https. A `Gate` of `Fetch`.

    If the tool server is on this machine or in a private network, addresses there are allowed too. Addresses of cloud
    metadata services, which hand out credentials, are always refused.
    """

    def __init__(self, zone: NetworkZone) -> None:
        self._zone = zone

    def target(self, url: str) -> RequestTarget | str:
        """Return the target of a request to `url`, or the reason why it is refused."""
        address = read_url(url)
        if isinstance(address, str):
            return address
        if address.scheme != "https" and not address.is_loopback:
            return "the address does not use https"
        return RequestTarget(address.scheme, address.host, address.port)

    def refusal(self, url: str) -> str:
        """Return an empty string: no URL needs approval."""
        return ""

    def accepts(self, target: RequestTarget, address: str) -> bool:
        """Return whether a connection to the resolved `address` is allowed."""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if is_global(parsed):
            return True
        if _CLOUD_METADATA_ADDRESS.fullmatch(str(parsed)) or parsed.is_unspecified or parsed.is_multicast:
            return False
        return self._zone == "loopback" or (self._zone == "private" and not parsed.is_loopback)


async def network_zone(url: str) -> NetworkZone:
    """Look up the address of a server and return its zone; raise `ServerError` if its name is not found."""
    parts = urlsplit(url)
    try:
        rows = await asyncio.to_thread(socket.getaddrinfo, parts.hostname, parts.port, type=socket.SOCK_STREAM)
        # A row ends with the socket address, which begins with the IP address: `fe80::1%eth0`.
        addresses = [ipaddress.ip_address(str(row[-1][0]).partition("%")[0]) for row in rows]
    except (OSError, ValueError) as error:
        raise ServerError(f"the name {parts.hostname} was not found ({error})") from None
    if any(address.is_loopback for address in addresses):
        return "loopback"
    return "public" if all(map(is_global, addresses)) else "private"


class _NoStorage:
    """Implements the storage that `OAuthClientProvider` requires, and stores nothing: `Credentials` stores a login."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        return None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        return None


class ServerAuth(OAuthClientProvider):
    """Adds the token of a server to its requests. `problem` is the reason if the server refuses them, otherwise empty.

    Only `authorize` asks the user; it is called for a login only.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        redirect: str = "http://localhost/callback",
        client_metadata_url: str | None = None,
    ) -> None:
        metadata = OAuthClientMetadata.model_validate(
            {
                "redirect_uris": [redirect],
                "client_name": "qcode",
                "token_endpoint_auth_method": "none",
                "application_type": "native",
            }
        )
        super().__init__(credentials.url, metadata, _NoStorage(), client_metadata_url=client_metadata_url)
        self.problem = ""
        self._credentials = credentials
        self._login = Login(credentials.url)
        self._is_loaded = False
        self._renew_lock = asyncio.Lock()
        self._zone: NetworkZone | None = None
        self._challenge_scope: str | None = None
        self.context.protocol_version = _RESOURCE_VERSION

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; after a 401 once more with a refreshed one."""
        if not self._is_loaded:
            await self._load()
        sent = self._login.token
        if sent and self._is_expired():
            sent = await self._renew_token(sent) or sent
        response = yield _with_token(request, sent)
        if response.status_code == 401 and (token := await self._renew_token(sent)):
            response = yield _with_token(request, token)
        if response.status_code == 401:
            self.problem = self.problem or "it needs a login"
        elif response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope":
            await self._require_scope(extract_scope_from_www_auth(response) or "")
        else:
            self.problem = ""

    def _is_expired(self) -> bool:
        return self._login.expires_at is not None and time.time() > self._login.expires_at - _LEEWAY_S

    async def _load(self) -> None:
        """Read the stored login and use it."""
        try:
            login = await asyncio.to_thread(self._credentials.load)
        except (KeyStoreError, KeyringError) as error:
            self.problem = f"its login cannot be read: {storage_problem(error)}"
            return
        self._is_loaded = True
        self.use_login(login or Login(self._credentials.url))

    def use_login(self, login: Login) -> None:
        """Use this login for further requests."""
        self._login, context = login, self.context
        try:
            context.client_info = OAuthClientInformationFull.model_validate(login.client) if login.client else None
            context.current_tokens = OAuthToken.model_validate(login.tokens) if login.tokens else None
            context.oauth_metadata = OAuthMetadata.model_validate(login.server) if login.server else None
            resource = ProtectedResourceMetadata.model_validate(login.resource) if login.resource else None
            context.protected_resource_metadata = resource
        except ValueError:  # written by another version, or by hand
            self._login = Login(self._credentials.url)
            context.client_info = context.current_tokens = context.oauth_metadata = None

    async def _renew_token(self, sent: str) -> str:
        """Return a token that replaces `sent`: from another process or from a refresh. Empty if there is none."""
        async with self._renew_lock:
            if self._login.token != sent:
                return self._login.token
            try:
                async with self._credentials.locked():
                    await self._load()
                    if self._login.token != sent:
                        return self._login.token
                    return await self._refresh()
            except FileNotFoundError:  # the folder of the lock does not exist, so no login is stored
                return ""
            except (TimeoutError, OSError, KeyStoreError) as error:
                reason = "another process holds its lock" if isinstance(error, TimeoutError) else str(error)
                self.problem = f"its login cannot be refreshed: {single_spaced(reason, _MAX_MESSAGE_CHARS)}"
                return ""

    async def _refresh(self) -> str:
        """Refresh, store and return the token; return an empty string if that fails.

        `problem` then has the reason, unless there is no valid refresh token.
        """
        if not self.context.can_refresh_token() or self.context.oauth_metadata is None:
            return ""
        try:
            response = await self._send(await self._refresh_token())
        except (Refused, ServerError, OAuthFlowError) as error:
            self.problem = f"its login cannot be refreshed: {single_spaced(str(error), _MAX_MESSAGE_CHARS)}"
            return ""
        refusal = _refusal_text(response)
        # The refresh token is expired or revoked. For the error page of a proxy, `refusal` is empty.
        if response.status_code in (400, 401) and refusal:
            await self._store(replace(self._login, tokens={}, expires_at=None))
            return ""
        is_answered = response.status_code == 200
        problem = _token_problem(response.content) if is_answered else f"answered {response.status_code}{refusal}"
        if problem:
            self.problem = f"its login cannot be refreshed: the authorization server {problem}"
            return ""
        tokens = OAuthToken.model_validate_json(response.content)
        # A response may leave out a refresh token or scope that does not change (RFC 6749, section 6).
        unchanged = {name: value for name, value in self._login.tokens.items() if name in ("refresh_token", "scope")}
        row = {**unchanged, **tokens.model_dump(mode="json", exclude_none=True)}
        expires_at = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        await self._store(replace(self._login, tokens=row, expires_at=expires_at))
        return tokens.access_token

    async def _store(self, login: Login) -> None:
        self.use_login(login)
        with suppress(KeyStoreError):  # a login that cannot be stored is used by this process only
            await asyncio.to_thread(self._credentials.save, login)

    async def _require_scope(self, scope: str) -> None:
        """Store the scopes that the server demands, for the next login."""
        scopes = union_scopes(self._login.scope, single_spaced(scope, _MAX_MESSAGE_CHARS)) or ""
        self.problem = f"it demands further permissions ({scopes or 'not named'})"
        if scopes != self._login.scope:
            await self._store(replace(self._login, scope=scopes))

    async def authorize(self, challenge: httpx2.Response, zone: NetworkZone) -> Login:
        """Sign in with the browser and return the login; raise `ServerError` if that fails.

        `challenge` is the 401 response of the tool server, which may name the authorization server.
        """
        self._zone = zone
        self._challenge_scope = extract_scope_from_www_auth(challenge)
        self._is_loaded = self._initialized = True  # neither qcode nor the base class loads a stored login
        self.context.clear_tokens()
        self.context.oauth_metadata = self.context.protected_resource_metadata = None
        silence_loggers("mcp")  # the package logs a failed login with the response, which may contain a token
        challenge.request.headers["mcp-protocol-version"] = _RESOURCE_VERSION
        flow = self._auth_flow(challenge.request)
        response = challenge
        try:
            await anext(flow)  # the request of the challenge, which is not sent again
            # At its end, the flow repeats the request of the challenge with the new token.
            while (outgoing := await flow.asend(response)) is not challenge.request:
                response = await self._send(self._check_request(outgoing))
                if outgoing.method == "POST":
                    self._check_response(response)
        except (OAuthFlowError, Refused) as error:
            raise ServerError(f"the login failed: {single_spaced(str(error), _MAX_MESSAGE_CHARS)}") from None
        except ValueError:
            raise ServerError("the login failed: the authorization server sent something invalid") from None
        finally:
            await flow.aclose()
        return self._current_login()

    def _current_login(self) -> Login:
        """Return the login that the flow of `authorize` created; raise `ServerError` if it has no token."""
        context = self.context
        client, tokens, metadata = context.client_info, context.current_tokens, context.oauth_metadata
        if client is None or tokens is None or metadata is None:
            raise ServerError("the login failed: it ended without a token")
        return Login(
            self._credentials.url,
            client=client.model_dump(mode="json", exclude_none=True),
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires_at=context.token_expiry_time,
            server={
                name: value
                for name, value in metadata.model_dump(mode="json").items()
                if name in _STORED_METADATA and value
            },
            resource=_stored_resource(context.protected_resource_metadata),
        )

    def _check_request(self, outgoing: httpx2.Request) -> httpx2.Request:
        """Return the request of the login to send; raise `ServerError` or `OAuthFlowError` if it must not be sent.

        A registration request is replaced by one with the scopes and the authentication that the server supports.
        """
        if outgoing.method != "POST":
            return outgoing
        metadata = self._usable_metadata()
        if self.context.client_info is not None:  # qcode is registered, so this is a request for a token
            return outgoing
        if metadata.registration_endpoint is None:
            raise ServerError(
                "its authorization server does not register programs by itself: register qcode there with the "
                f"redirect address {self.context.client_metadata.redirect_uris[0]}, and pass the ID that it gives "  # type: ignore[index]
                "with --client-id and --callback-port"
            )
        self._choose_scope()
        methods = metadata.token_endpoint_auth_methods_supported
        if methods and "none" not in methods:
            self.context.client_metadata.token_endpoint_auth_method = _POST if _POST in methods else _BASIC
        # The base URL is used only for a server without a registration endpoint.
        return create_client_registration_request(metadata, self.context.client_metadata, auth_base_url="")

    def _check_response(self, response: httpx2.Response) -> None:
        """Raise `OAuthFlowError` for a registration or token that cannot be used.

        The package would put the response, with its token or secret, into the error text.
        """
        if response.status_code not in (200, 201):
            raise OAuthFlowError(f"the authorization server answered {response.status_code}{_refusal_text(response)}")
        if self.context.client_info is None:  # the response to a registration
            invalid = validation_problem(lambda: OAuthClientInformationFull.model_validate_json(response.content))
            problem = f"sent an invalid registration ({invalid})" if invalid else ""
        else:
            problem = _token_problem(response.content)
        if problem:
            raise OAuthFlowError(f"the authorization server {problem}")

    def _usable_metadata(self) -> OAuthMetadata:
        """Return the metadata of the authorization server; raise `OAuthFlowError` if a login would not be safe."""
        metadata = self.context.oauth_metadata
        if metadata is None:
            raise OAuthFlowError(
                "no authorization server was found: neither its address nor the tool server has metadata"
            )
        if "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise OAuthFlowError("its authorization server does not support PKCE with S256, which is required")
        gate = AddressGate(self._zone or "public")
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"):
            url = getattr(metadata, name)
            problem = gate.target(str(url)) if url is not None else ""
            if isinstance(problem, str) and problem:
                raise OAuthFlowError(f"the {name} of its authorization server is refused: {problem}")
        return metadata

    def _choose_scope(self) -> None:
        """Request the scopes of the challenge or of the server's metadata, and the scopes that it demanded before.

        The base class would otherwise request every scope of the authorization server.
        """
        context = self.context
        # If neither the challenge nor the tool server lists scopes, the function would take all of the metadata.
        scope = get_client_metadata_scopes(
            self._challenge_scope,
            context.protected_resource_metadata,
            context.oauth_metadata if self._challenge_scope is not None or self._lists_scopes() else None,
            context.client_metadata.grant_types,
        )
        context.client_metadata.scope = union_scopes(scope, self._login.scope or None)

    def _lists_scopes(self) -> bool:
        resource = self.context.protected_resource_metadata
        return resource is not None and resource.scopes_supported is not None

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        """Check the server, choose the scopes and the authentication of a given client, then ask the user."""
        metadata, client = self._usable_metadata(), self.context.client_info
        self._choose_scope()
        if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
            methods = metadata.token_endpoint_auth_methods_supported or [_BASIC]
            client.token_endpoint_auth_method = _BASIC if _BASIC in methods else _POST
        return await super()._perform_authorization_code_grant()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of a login or refresh; raise `Refused` for an address that must not be reached.

        A redirect is followed for GET within its origin only.
        """
        if self._zone is None:
            self._zone = await network_zone(self._credentials.url)
        url = str(request.url)
        for _ in range(MAX_REDIRECTS + 1):
            response = await send_checked(self._zone, request.method, url, dict(request.headers), request.content)
            location = urljoin(url, response.headers.get("location", ""))
            is_redirect = 300 <= response.status_code < 400
            is_same_origin = urlsplit(location)[:2] == urlsplit(url)[:2]  # scheme and host
            if request.method != "GET" or not is_redirect or not is_same_origin or location == url:
                break  # `location` is `url` also if the header is missing
            url = location
        return response


async def send_checked(
    zone: NetworkZone, method: str, url: str, headers: dict[str, str], content: bytes = b""
) -> httpx2.Response:
    """Send a request of a login; raise `Refused` if `AddressGate` refuses its address."""
    gate = AddressGate(zone)
    target = gate.target(url)
    if isinstance(target, str):
        raise Refused(f"{url} is refused: {target}")
    forwarded = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
    page = await Fetch(gate).send_request(
        url, target, headers={**forwarded, "Accept": "application/json"}, content=content if method == "POST" else None
    )
    response_headers = {"content-type": page.media_type}
    if page.location:
        response_headers["location"] = page.location
    return httpx2.Response(
        page.status, headers=response_headers, content=page.data, request=httpx2.Request(method, url)
    )


def _stored_resource(metadata: ProtectedResourceMetadata | None) -> JsonObject:
    """Return the metadata of the tool server that a refresh needs, empty if the server has none."""
    if metadata is None:
        return {}
    return {"resource": str(metadata.resource), "authorization_servers": [str(metadata.authorization_servers[0])]}


def _token_problem(content: bytes) -> str:
    """Return why a response of the token endpoint cannot be used, empty if it can."""
    invalid = validation_problem(lambda: OAuthToken.model_validate_json(content))
    if not invalid:
        token = OAuthToken.model_validate_json(content).access_token
        invalid = "" if token and token.isascii() and token.isprintable() else "access_token: not usable in a header"
    return f"sent an invalid token ({invalid})" if invalid else ""


def _refusal_text(response: httpx2.Response) -> str:
    """Return the standard error in a response (RFC 6749, section 5.2) after a colon, empty if it has none."""
    values = parse_object(response.text) or {}
    text = " ".join(text_in(values.get(name)) for name in ("error", "error_description"))
    return f": {single_spaced(text, _MAX_MESSAGE_CHARS)}" if text.strip() else ""


def _with_token(request: httpx2.Request, token: str) -> httpx2.Request:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    return request
