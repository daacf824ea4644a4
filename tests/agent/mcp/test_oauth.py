"""Logins at servers over real HTTP: discovery, registration, PKCE, refresh, refusals, and hostile metadata."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from qcode.agent.keys.ring import Keyring
from qcode.agent.keys.store import KeyStore
from qcode.agent.mcp.context import ServerContext
from qcode.agent.mcp.oauth.credentials import Credentials, Login
from qcode.agent.mcp.oauth.login import ClientRegistration, sign_in, sign_out
from qcode.agent.mcp.servers import Servers
from qcode.agent.mcp.spec import ServerError, ServerSpec
from qcode.config.settings import McpServer
from qcode.protocol.approvals import Allow
from qcode.protocol.errors import KeyringError
from tests.agent.mcp.serving import ServerFolders, call, names, open_servers, texts, until
from tests.fakes.oauth_server import AUTHORIZATION, OPENID, PROTECTED, OAuthServer, visit


class NoKeyring(Keyring):
    """A system without a keyring."""

    def _ask(self, *given: object, **named: object) -> Any:
        raise KeyringError("is not available")


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as found:
        yield found


@pytest.fixture
def folders(tmp_path: Path) -> ServerFolders:
    return ServerFolders(tmp_path)


def spec_of(server: OAuthServer, **config: Any) -> ServerSpec:
    return ServerSpec("guarded", McpServer(url=server.address, **config), "own", "config.toml:1")


def store_of(folders: ServerFolders) -> KeyStore:
    return KeyStore(folders.home, NoKeyring("qcode-test"))


def credentials_of(server: OAuthServer, folders: ServerFolders) -> Credentials:
    return Credentials(spec_of(server), server.address, store_of(folders))


async def browse(address: str) -> None:
    """Open the address as a browser, without waiting for it."""
    threading.Thread(target=visit, args=(address,)).start()


def log_in(
    server: OAuthServer, folders: ServerFolders, client: ClientRegistration | None = None, **config: Any
) -> Login:
    credentials = credentials_of(server, folders)
    return asyncio.run(sign_in(spec_of(server, **config).config, credentials, browse, None, client)).login


def servers_of(server: OAuthServer, folders: ServerFolders, *more: ServerSpec, **config: Any) -> Servers:
    store = store_of(folders)
    context = ServerContext(folders.work, {"PATH": "/usr/bin:/bin"}, keys=lambda: store)
    return Servers((spec_of(server, **config), *more), folders.pins, context, is_trusted=True)


def run(servers: Servers) -> tuple[str, str, str]:
    """Return the state of the server, the text of a call if it is ready, and the notices."""

    async def body() -> tuple[str, str, str]:
        async with open_servers(servers):
            state = servers.statuses()[0].state
            text = (await call(servers, "guarded__whoami")).content if state == "ready" else ""
            return state, text, texts(servers)

    return asyncio.run(body())


def change(server: OAuthServer, folders: ServerFolders, **values: Any) -> None:
    credentials = credentials_of(server, folders)
    found = credentials.load()
    assert found is not None
    credentials.save(replace(found, **values))


def test_login_is_stored_privately_and_used_by_the_next_session(server: OAuthServer, folders: ServerFolders) -> None:
    login = log_in(server, folders)
    assert login.issuer == server.base
    registered = server.forms("/register")[0]
    assert registered["application_type"] == "native"
    assert registered["redirect_uris"] == [f"http://localhost:{login.port}/callback"]
    asked = server.forms("/authorize")[0]
    assert (asked["code_challenge_method"], asked["resource"]) == ("S256", server.address)
    file = store_of(folders).file.path
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert login.token in file.read_text()
    assert run(servers_of(server, folders)) == ("ready", "you", "")


def test_server_without_a_login_is_named_with_the_command_and_others_work(
    server: OAuthServer, folders: ServerFolders
) -> None:
    async def body() -> None:
        servers = servers_of(server, folders, replace(folders.spec("other"), scope="own"))
        async with open_servers(servers, is_attended=False):
            assert [status.state for status in servers.statuses()] == ["sign-in", "ready"]
            assert "other__add" in names(servers)
            notices = texts(servers)
            assert "guarded was not started: it needs a login: run qcode mcp login guarded" in notices

    asyncio.run(body())
    assert not {"/authorize", "/register", PROTECTED} & set(server.paths())


def test_expired_token_is_refreshed_at_the_authorization_server_before_the_first_request(
    server: OAuthServer, folders: ServerFolders
) -> None:
    old = log_in(server, folders)
    change(server, folders, expires_at=1.0)
    server.asked.clear()
    assert run(servers_of(server, folders))[:2] == ("ready", "you")
    assert server.paths()[0] == "/token"
    form = server.forms("/token")[0]
    assert (form["grant_type"], form["resource"]) == ("refresh_token", server.address)
    assert form["client_id"] == old.client["client_id"]
    new = credentials_of(server, folders).load()
    assert new is not None
    assert new.token != old.token
    assert new.expires_at is not None


def test_refused_token_is_refreshed_once_and_the_request_is_sent_again(
    server: OAuthServer, folders: ServerFolders
) -> None:
    server.expires_in = None
    login = log_in(server, folders)
    server.valid.discard(login.token)
    server.asked.clear()
    assert run(servers_of(server, folders))[:2] == ("ready", "you")
    assert server.paths()[:3] == ["/mcp", "/token", "/mcp"]
    assert server.paths().count("/token") == 1


def test_revoked_login_needs_a_new_one_and_keeps_the_registration(server: OAuthServer, folders: ServerFolders) -> None:
    login = log_in(server, folders)
    server.valid.clear()
    server.refreshes.clear()
    state, _, output = run(servers_of(server, folders))
    assert state == "sign-in"
    assert "qcode mcp login guarded" in output
    stored = credentials_of(server, folders).load()
    assert stored is not None
    assert (stored.tokens, stored.client) == ({}, login.client)
    again = log_in(server, folders)
    assert again.client["client_id"] == login.client["client_id"]
    assert len(server.forms("/register")) == 1


def test_unreachable_authorization_server_leaves_the_login_stored(server: OAuthServer, folders: ServerFolders) -> None:
    log_in(server, folders)
    change(server, folders, expires_at=1.0)
    server.valid.clear()
    server.token_status = 503
    state, _, output = run(servers_of(server, folders))
    assert state == "sign-in"
    assert "cannot be refreshed: the authorization server answered 503" in output
    stored = credentials_of(server, folders).load()
    assert stored is not None
    assert stored.token


@pytest.mark.parametrize(
    ("status", "page", "says"),
    [
        (400, "<html>hotel</html>", "answered 400"),
        (200, "<html>hotel</html>", "sent an invalid token"),
        (200, '{"access_token": "canary\\r\\nX: y"}', "not usable in a header"),
        (503, '{"error": "temporarily_unavailable"}', "answered 503: temporarily_unavailable"),
    ],
)
def test_failed_token_refresh_names_the_reason_and_keeps_the_login(
    status: int, page: str, says: str, server: OAuthServer, folders: ServerFolders
) -> None:
    login = log_in(server, folders)
    change(server, folders, expires_at=1.0)
    server.valid.clear()
    server.pages["/token"] = (status, page)
    state, _, notices = run(servers_of(server, folders))
    assert state == "sign-in"
    assert says in notices
    assert "canary" not in notices
    found = credentials_of(server, folders).load()
    assert found is not None
    assert found.tokens == login.tokens


def test_question_about_a_login_names_the_whole_reason(server: OAuthServer, folders: ServerFolders) -> None:
    log_in(server, folders)
    change(server, folders, expires_at=1.0)
    server.valid.clear()
    server.token_status = 503
    store = store_of(folders)

    async def asked() -> str:
        context = ServerContext(folders.work, {"PATH": "/usr/bin:/bin", "BROWSER": "any"}, keys=lambda: store)
        async with open_servers(Servers((spec_of(server),), folders.pins, context, is_trusted=True)) as servers:
            (approval,) = servers.approvals()
            return approval.question

    reason = "its login cannot be refreshed: the authorization server answered 503: temporarily_unavailable"
    assert asyncio.run(asked()) == f'The tool server "guarded" refuses requests: {reason}. Sign in with your browser?'


def test_unavailable_lock_is_named_as_the_reason(server: OAuthServer, folders: ServerFolders) -> None:
    log_in(server, folders)
    change(server, folders, expires_at=1.0)
    server.valid.clear()
    (store_of(folders).file.folder / ".logins.lock").mkdir()
    state, _, notices = run(servers_of(server, folders))
    assert state == "sign-in"
    assert "its login cannot be refreshed: [Errno 21] Is a directory" in notices


def test_login_that_cannot_be_read_is_reported_with_the_file(server: OAuthServer, folders: ServerFolders) -> None:
    log_in(server, folders)
    key_file = store_of(folders).file.path
    key_file.write_text("not JSON")
    state, _, notices = run(servers_of(server, folders))
    assert state == "sign-in"
    assert f"its login cannot be read: {key_file} is corrupted" in notices


def test_resource_is_named_without_metadata_of_the_tool_server(server: OAuthServer, folders: ServerFolders) -> None:
    server.named, server.protected_path = False, "/nowhere"
    log_in(server, folders)
    assert server.forms("/authorize")[0]["resource"] == server.address
    assert server.forms("/token")[0]["resource"] == server.address


def test_concurrent_sessions_refresh_once(server: OAuthServer, folders: ServerFolders) -> None:
    log_in(server, folders)
    change(server, folders, expires_at=1.0)
    server.asked.clear()

    async def body() -> None:
        first, second = servers_of(server, folders), servers_of(server, folders)
        async with open_servers(first), open_servers(second):
            results = await asyncio.gather(*(call(item, "guarded__whoami") for item in (first, second) * 4))
            assert {result.content for result in results} == {"you"}

    asyncio.run(body())
    assert server.paths().count("/token") == 1


def test_token_that_is_revoked_during_a_session_ends_it_with_the_command(
    server: OAuthServer, folders: ServerFolders
) -> None:
    log_in(server, folders)

    async def body() -> None:
        servers = servers_of(server, folders)
        async with open_servers(servers):
            server.valid.clear()
            server.refreshes.clear()
            result = await call(servers, "guarded__whoami")
            assert result.is_error
            assert "run qcode mcp login guarded" in result.content
            await until(lambda: servers.statuses()[0].state == "sign-in")

    asyncio.run(body())


def test_failed_login_is_reported_after_each_attempt(
    server: OAuthServer, folders: ServerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise ServerError("the server refused")

    monkeypatch.setattr("qcode.agent.mcp.oauth.login.browser_problem", lambda _env: "")
    monkeypatch.setattr("qcode.agent.mcp.oauth.login.sign_in", refuse)

    async def body() -> None:
        async with open_servers(servers_of(server, folders)) as servers:
            for _ in range(2):
                (approval,) = servers.approvals()
                servers.answer(approval.id, Allow())
                await until(lambda: "guarded: the server refused" in texts(servers))
                servers.ask_again("guarded")

    asyncio.run(body())


def test_next_login_requests_the_permissions_that_the_server_demanded(
    server: OAuthServer, folders: ServerFolders
) -> None:
    server.challenge = ', scope="read"'
    log_in(server, folders)
    server.demands = "write"

    async def body() -> None:
        async with open_servers(servers_of(server, folders)) as servers:
            result = await call(servers, "guarded__whoami")
            assert "it demands further permissions (write): run qcode mcp login guarded" in result.content

    asyncio.run(body())
    log_in(server, folders)
    assert server.forms("/authorize")[-1]["scope"] == "read write"
    assert run(servers_of(server, folders))[:2] == ("ready", "you")


@pytest.mark.parametrize(
    ("named", "protected", "authorization", "issuer"),
    [
        (True, "/elsewhere", AUTHORIZATION, ""),
        (False, f"{PROTECTED}/mcp", AUTHORIZATION, ""),
        (False, PROTECTED, AUTHORIZATION, ""),
        (False, PROTECTED, OPENID, ""),
        (False, PROTECTED, f"{AUTHORIZATION}/tenant", "/tenant"),
        (False, PROTECTED, f"{OPENID}/tenant", "/tenant"),
        (False, PROTECTED, f"/tenant{OPENID}", "/tenant"),
    ],
    ids=["challenge", "path", "root", "openid", "tenant", "openid-tenant", "tenant-openid"],
)
def test_metadata_is_found_at_every_address_of_the_specification(
    named: bool, protected: str, authorization: str, issuer: str, server: OAuthServer, folders: ServerFolders
) -> None:
    server.named, server.protected_path, server.authorization_path = named, protected, authorization
    server.issuer = server.base + issuer
    assert log_in(server, folders).issuer == server.base + issuer


@pytest.mark.parametrize(
    ("challenge", "resource", "metadata", "scope"),
    [
        (', scope="a b"', {"scopes_supported": ["c"]}, {}, "a b"),
        ("", {"scopes_supported": ["c", "d"]}, {}, "c d"),
        ("", {"scopes_supported": ["c"]}, {"scopes_supported": ["c", "offline_access"]}, "c offline_access"),
        ("", {}, {"scopes_supported": ["admin"]}, None),
    ],
    ids=["challenge", "listed", "offline", "none"],
)
def test_scope_is_that_of_the_challenge_or_the_resource_only(
    challenge: str, resource: Any, metadata: Any, scope: str | None, server: OAuthServer, folders: ServerFolders
) -> None:
    server.challenge, server.resource, server.metadata = challenge, resource, metadata
    log_in(server, folders)
    assert server.forms("/authorize")[0].get("scope") == scope
    assert server.forms("/register")[0].get("scope") == scope


def test_configured_client_is_used_without_registration(server: OAuthServer, folders: ServerFolders) -> None:
    server.metadata = {"registration_endpoint": None}
    with pytest.raises(ServerError, match="--client-id"):
        log_in(server, folders)
    login = log_in(server, folders, ClientRegistration("mine"))
    assert (server.forms("/token")[0]["client_id"], login.client["client_id"]) == ("mine", "mine")
    server.metadata |= {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    log_in(server, folders, ClientRegistration("mine", "hush"))
    assert server.forms("/token")[-1]["client_secret"] == "hush"
    assert credentials_of(server, folders).load() is not None


def test_client_metadata_document_replaces_registration(server: OAuthServer, folders: ServerFolders) -> None:
    server.metadata = {"client_id_metadata_document_supported": True}
    url = "https://qcode.example/client.json"
    login = log_in(server, folders, client_metadata_url=url)
    assert login.client["client_id"] == url
    assert "/register" not in server.paths()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("attribute", "value", "says"),
    [
        ("metadata", {"code_challenge_methods_supported": None}, "does not support PKCE with S256"),
        ("metadata", {"code_challenge_methods_supported": ["plain"]}, "does not support PKCE with S256"),
        ("metadata", {"issuer": "https://evil.example"}, "issuer mismatch"),
        ("metadata", {"token_endpoint": "http://203.0.113.9/token"}, "token_endpoint .* https"),
        ("metadata", {"authorization_endpoint": "http://example.org/authorize"}, "authorization_endpoint .* https"),
        ("metadata", {"token_endpoint": "https://169.254.169.254/latest"}, "169.254.169.254"),
        ("resource", {"resource": "https://other.example/mcp"}, "does not match"),
        ("resource", {"authorization_servers": ["https://169.254.169.254"]}, "169.254.169.254"),
        ("authorization_path", "/nowhere", "no authorization server was found"),
        ("answer", {"state": "forged-canary"}, "does not belong to this login"),
        ("answer", {"iss": "https://evil.example"}, "iss mismatch"),
        ("answer", {"error": "access_denied", "code": ""}, "refused: access_denied"),
        ("answer", {"code": ""}, "No authorization code"),
        ("answer", {"code": "stolen"}, "answered 400: invalid_grant"),
        ("token_status", 500, "answered 500: temporarily_unavailable"),
        ("pages", {"/token": (200, "<html>canary</html>")}, "sent an invalid token"),
        ("pages", {"/token": (502, "<html>canary</html>")}, "the authorization server answered 502$"),
        ("pages", {"/token": (200, '{"access_token": "canary"}')}, "refuses its token"),
        ("pages", {"/token": (200, '{"access_token": "canary", "token_type": "mac"}')}, "token_type"),
        ("pages", {"/token": (200, '{"access_token": "canary", "expires_in": "soon"}')}, "expires_in"),
        ("pages", {"/token": (200, '{"access_token": "canary\\r\\nX: y"}')}, "not usable in a header"),
        ("pages", {"/token": (200, '{"token_type": "bearer", "refresh_token": "canary"}')}, "access_token"),
        ("pages", {"/register": (403, "<html>canary</html>")}, "the authorization server answered 403$"),
        ("pages", {"/register": (201, '{"client_secret": "canary"}')}, "sent an invalid registration"),
        ("refuses_all", True, "refuses its token"),
    ],
)
def test_login_at_a_wrong_or_hostile_server_fails_and_stores_nothing(
    attribute: str, value: Any, says: str, server: OAuthServer, folders: ServerFolders, caplog: pytest.LogCaptureFixture
) -> None:
    setattr(server, attribute, value)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ServerError, match=says) as caught:
        log_in(server, folders)
    message = f"{caught.value}{caplog.text}"
    assert "canary" not in message
    states = [form["state"] for form in server.forms("/authorize")]
    assert not any(state in message for state in states)
    assert credentials_of(server, folders).load() is None


def test_missing_issuer_is_refused_if_the_server_announces_it(server: OAuthServer, folders: ServerFolders) -> None:
    server.answer = {"iss": ""}
    log_in(server, folders)
    server.metadata = {"authorization_response_iss_parameter_supported": True}
    with pytest.raises(ServerError, match="missing iss"):
        log_in(server, folders)


def test_redirect_of_metadata_is_followed_within_its_origin_only(server: OAuthServer, folders: ServerFolders) -> None:
    server.authorization_path = "/moved"
    server.redirects = {AUTHORIZATION: "/moved"}
    log_in(server, folders)
    with OAuthServer() as other:
        server.redirects = {AUTHORIZATION: f"{other.base}/moved", "/token": f"{other.base}/token"}
        with pytest.raises(ServerError, match="no authorization server"):
            log_in(server, folders)
        server.redirects.pop(AUTHORIZATION)
        server.authorization_path = AUTHORIZATION
        with pytest.raises(ServerError, match="answered 307"):
            log_in(server, folders)
        assert not other.asked


def test_pasted_address_completes_a_login_without_a_browser(server: OAuthServer, folders: ServerFolders) -> None:
    shown_texts: list[str] = []

    async def show(address: str) -> None:
        shown_texts.append(address)

    async def paste() -> str:
        if len(shown_texts) == 1:
            shown_texts.append("")
            return "I do not know"
        form = {name: values[0] for name, values in parse_qs(urlsplit(shown_texts[0]).query).items()}
        return server.granted(form) + "\n"

    config = spec_of(server).config
    signed_in = asyncio.run(sign_in(config, credentials_of(server, folders), show, paste))
    login, stored = signed_in.login, signed_in.stored
    assert login.token in server.valid
    assert stored.location == "file"


def test_callback_answers_one_request_to_its_path_only(server: OAuthServer, folders: ServerFolders) -> None:
    pages: list[str] = []

    async def show(address: str) -> None:
        def work() -> None:
            redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
            pages.append(visit(redirect.replace("/callback", "/other")))
            pages.append(visit(address))

        threading.Thread(target=work).start()

    login = asyncio.run(sign_in(spec_of(server).config, credentials_of(server, folders), show)).login
    assert login.token
    assert pages[0].endswith("/other")
    assert "return to the terminal" in pages[1]


def test_login_of_another_address_or_server_is_not_used(server: OAuthServer, folders: ServerFolders) -> None:
    log_in(server, folders)
    store = store_of(folders)
    assert Credentials(spec_of(server), f"{server.base}/other", store).load() is None
    assert Credentials(replace(spec_of(server), scope="project /x"), server.address, store).load() is None
    assert Credentials(spec_of(server), server.address, store).load() is not None


def test_logout_revokes_the_tokens_and_deletes_the_login(server: OAuthServer, folders: ServerFolders) -> None:
    login = log_in(server, folders)
    assert asyncio.run(sign_out(credentials_of(server, folders))) == ""
    assert [form["token"] for form in server.forms("/revoke")] == [login.tokens["refresh_token"], login.token]
    assert credentials_of(server, folders).load() is None
    assert store_of(folders).locations() == {}
    server.revokes = False
    log_in(server, folders)
    assert "503" in asyncio.run(sign_out(credentials_of(server, folders)))
    assert credentials_of(server, folders).load() is None


def test_tokens_are_redacted_once_they_are_known(server: OAuthServer, folders: ServerFolders) -> None:
    login = log_in(server, folders)
    store = store_of(folders)
    Credentials(spec_of(server), server.address, store).load()
    known = {secret.reveal() for secret in store.known_keys()}
    assert {login.token, login.tokens["refresh_token"]} <= known


def test_login_that_is_too_large_is_not_stored_and_leaves_the_keys(server: OAuthServer, folders: ServerFolders) -> None:
    from qcode.safety.secret import Secret

    store = store_of(folders)
    store.store("openai", Secret("kept"))
    server.padding = 40_000
    with pytest.raises(ServerError, match="cannot be stored"):
        log_in(server, folders)
    assert set(store_of(folders).locations()) == {"openai"}


def test_header_of_the_user_replaces_the_login(server: OAuthServer, folders: ServerFolders) -> None:
    log_in(server, folders)
    state, _, output = run(servers_of(server, folders, headers={"Authorization": "Bearer wrong"}))
    assert state == "failed"
    assert "401" in output
    assert "login" not in output


def test_login_works_with_the_authorization_server_of_the_package(folders: ServerFolders) -> None:
    from tests.fakes.sdk_oauth_server import SdkOAuthServer  # a second; no other test needs it

    with SdkOAuthServer() as server:
        spec = ServerSpec("guarded", McpServer(url=server.address), "own", "config.toml:1")
        store = store_of(folders)
        credentials = Credentials(spec, server.address, store)
        login = asyncio.run(sign_in(spec.config, credentials, browse)).login
        context = ServerContext(folders.work, {"PATH": "/usr/bin:/bin"}, keys=lambda: store)
        del server.grants.access[login.token]
        assert run(Servers((spec,), folders.pins, context, is_trusted=True)) == ("ready", "you", "")
        assert asyncio.run(sign_out(credentials)) == ""
        assert not server.grants.access


def test_app_asks_once_and_signs_in_with_the_browser(
    server: OAuthServer, folders: ServerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qcode.agent.mcp.oauth import login
    from qcode.protocol.approvals import Allow, Deny

    monkeypatch.setattr(login, "open_browser", lambda address: threading.Thread(target=visit, args=(address,)).start())
    store = store_of(folders)

    async def body(env: dict[str, str]) -> None:
        context = ServerContext(folders.work, {"PATH": "/usr/bin:/bin", **env}, keys=lambda: store)
        servers = Servers((spec_of(server),), folders.pins, context, is_trusted=True)
        async with open_servers(servers):
            assert bool(servers.approvals()) == ("BROWSER" in env)
            if not env:
                return
            (asked,) = servers.approvals()
            assert "refuses requests: it needs a login. Sign in with your browser?" in asked.question
            servers.answer(asked.id, Deny())
            assert not servers.approvals()
            servers.ask_again("guarded")
            servers.answer(asked.id, Allow("once"))
            await until(lambda: servers.statuses()[0].state == "ready")
            assert (await call(servers, "guarded__whoami")).content == "you"

    asyncio.run(body({}))
    asyncio.run(body({"BROWSER": "any"}))


@pytest.mark.parametrize("ends", ["switched off", "restarted", "asked again"])
def test_login_that_waits_for_the_browser_ends_with_its_server(
    ends: str, server: OAuthServer, folders: ServerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qcode.agent.mcp.oauth import login
    from qcode.protocol.approvals import Allow

    addresses: list[str] = []
    monkeypatch.setattr(login, "open_browser", addresses.append)
    store = store_of(folders)

    async def body() -> None:
        env = {"PATH": "/usr/bin:/bin", "BROWSER": "any"}
        context = ServerContext(folders.work, env, keys=lambda: store)
        servers = Servers((spec_of(server),), folders.pins, context, is_trusted=True)
        async with open_servers(servers):
            (asked,) = servers.approvals()
            servers.answer(asked.id, Allow("once"))
            await until(lambda: bool(addresses))
            callback = parse_qs(urlsplit(addresses[0]).query)["redirect_uri"][0]
            if ends == "switched off":
                servers.switch("guarded", is_on=False)
            elif ends == "restarted":
                servers.restart("guarded")
            else:
                servers.ask_again("guarded")
                servers.answer(asked.id, Allow("once"))
                await until(lambda: len(addresses) == 2)
            await until(lambda: not _is_open(callback))
            if ends == "switched off":
                assert servers.statuses()[0].state == "off"

    asyncio.run(body())


def _is_open(address: str) -> bool:
    port = urlsplit(address).port
    assert port is not None
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
