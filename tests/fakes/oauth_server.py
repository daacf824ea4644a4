"""An authorization server and the tool server that it protects, on loopback, with many possible faults.

The public attributes change the answers. `address` is the address of the tool server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

PROTECTED = "/.well-known/oauth-protected-resource"
AUTHORIZATION = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


class OAuthServer:
    """Grants every authorization request with PKCE."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        """The method, path and parameters of each request so far."""
        self.valid: set[str] = set()
        """The access tokens that the tool server accepts."""
        self.refreshes: dict[str, str] = {}
        """The access token of each valid refresh token."""
        self.named = True
        """The 401 response names the address of the resource metadata."""
        self.protected_path = f"{PROTECTED}/mcp"
        self.authorization_path = AUTHORIZATION
        self.issuer = ""
        self.metadata: dict[str, Any] = {}
        """Replaces values of the metadata of the authorization server; None leaves a value out."""
        self.resource: dict[str, Any] = {}
        """Replaces values of the resource metadata."""
        self.challenge = ""
        """Further parameters of the `WWW-Authenticate` header."""
        self.answer: dict[str, str] = {}
        """Replaces parameters of the redirect to the client; an empty text leaves a parameter out."""
        self.expires_in: int | None = 3600
        self.token_status = 200
        self.revokes = True
        """The revocation of a token succeeds."""
        self.refuses_all = False
        """The tool server refuses valid tokens, too."""
        self.padding = 0
        """The number of characters that are appended to refresh tokens."""
        self.redirects: dict[str, str] = {}
        """The target of each path that is redirected."""
        self.pages: dict[str, tuple[int, str]] = {}
        """The status and body of each path whose answer is replaced."""
        self.demands = ""
        """The scope that tool calls need; empty for none."""
        self.scopes: dict[str, str] = {}
        """The scopes of each access token."""
        self._codes: dict[str, dict[str, str]] = {}
        self._count = 0

    def __enter__(self) -> OAuthServer:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.handle(self, "GET", "")

            def do_POST(self) -> None:
                outer.handle(self, "POST", self.rfile.read(int(self.headers.get("content-length") or 0)).decode())

            def do_DELETE(self) -> None:
                outer.handle(self, "DELETE", "")

            def log_message(self, format: str, *args: Any) -> None:
                return

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Ignore clients that leave early."""

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._http.server_port}"
        self.issuer = self.issuer or self.base
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def address(self) -> str:
        return f"{self.base}/mcp"

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]

    def forms(self, path: str) -> list[dict[str, Any]]:
        return [form for _, asked, form in self.asked if asked == path]

    def handle(self, request: BaseHTTPRequestHandler, method: str, body: str) -> None:
        parts = urlsplit(request.path)
        parameters = parse_qs(parts.query if method == "GET" else body) if parts.path != "/mcp" else {}
        form = {name: values[0] for name, values in parameters.items()}
        if parts.path == "/register":
            form = json.loads(body)
        if parts.path == "/mcp":
            form = {"authorization": request.headers.get("Authorization", ""), "body": body}
        self.asked.append((method, parts.path, form))
        status, headers, answer = self._respond(method, parts.path, form)
        data = json.dumps(answer).encode() if answer is not None else b""
        if parts.path in self.pages:
            status, page = self.pages[parts.path]
            headers, data = {"Content-Type": "text/html" if page.startswith("<") else "application/json"}, page.encode()
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(data))}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    def _respond(self, method: str, path: str, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if path in self.redirects:
            return 307, {"Location": self.redirects[path]}, None
        if path == "/mcp":
            return self._serve_tools(method, form)
        if path == self.protected_path:
            return 200, {}, {"resource": self.address, "authorization_servers": [self.issuer], **self.resource}
        if path == self.authorization_path:
            return 200, {}, {name: value for name, value in self._metadata().items() if value is not None}
        if path == "/authorize":
            return 302, {"Location": self.granted(form)}, None
        if path == "/token" and method == "POST":
            return self._exchange_token(form)
        if path == "/register" and method == "POST":
            return 201, {}, {**form, "client_id": f"client-{self._next()}"}
        if path == "/revoke":
            self.valid.discard(form["token"])
            self.refreshes.pop(form["token"], None)
            return (200, {}, None) if self.revokes else (503, {}, None)
        return 404, {}, None

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "registration_endpoint": f"{self.base}/register",
            "revocation_endpoint": f"{self.base}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "response_types_supported": ["code"],
            **self.metadata,
        }

    def _next(self) -> int:
        self._count += 1
        return self._count

    def granted(self, form: dict[str, str]) -> str:
        """Grant a request; return the address to which the browser is redirected."""
        code = f"code-{self._next()}"
        self._codes[code] = form
        answer = {"code": code, "state": form["state"], "iss": self.issuer, **self.answer}
        return f"{form['redirect_uri']}?{urlencode({name: value for name, value in answer.items() if value})}"

    def _exchange_token(self, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if self.token_status != 200:
            return self.token_status, {}, {"error": "temporarily_unavailable"}
        if form["grant_type"] == "refresh_token":
            if self.refreshes.pop(form["refresh_token"], None) is None:
                return 400, {}, {"error": "invalid_grant"}
            return 200, {}, self._tokens("")
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if asked is None or base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return 400, {}, {"error": "invalid_grant"}
        if asked["redirect_uri"] != form["redirect_uri"] or asked["resource"] != form["resource"]:
            return 400, {}, {"error": "invalid_request"}
        return 200, {}, self._tokens(asked.get("scope", ""))

    def _tokens(self, scope: str) -> dict[str, Any]:
        access, refresh = f"access-canary-{self._next()}", f"refresh-canary-{self._next()}{'x' * self.padding}"
        self.valid.add(access)
        self.scopes[access] = scope
        self.refreshes[refresh] = access
        tokens = {"access_token": access, "token_type": "bearer", "refresh_token": refresh}
        return {**tokens, **({"expires_in": self.expires_in} if self.expires_in is not None else {})}

    def _serve_tools(self, method: str, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        token = form["authorization"].removeprefix("Bearer ")
        if token not in self.valid or self.refuses_all:
            named = f' resource_metadata="{self.base}{self.protected_path}"' if self.named else ""
            return 401, {"WWW-Authenticate": f"Bearer{named}{self.challenge}"}, None
        if method != "POST":
            return 405, {}, None
        message = json.loads(form["body"])
        if "id" not in message:
            return 202, {}, None
        has_scope = not self.demands or self.demands in self.scopes.get(token, "").split()
        if message["method"] == "tools/call" and not has_scope:
            challenge = f'Bearer error="insufficient_scope", scope="{self.demands}"'
            return 403, {"WWW-Authenticate": challenge}, None
        return 200, {}, {"jsonrpc": "2.0", "id": message["id"], **_result(message["method"])}


def _result(method: str) -> dict[str, Any]:
    info = {"name": "guarded", "version": "1"}
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "you"}]},
    }
    if method in results:
        return {"result": results[method]}
    return {"error": {"code": -32601, "message": "Method not found"}}


def visit(address: str) -> str:
    """Open an authorization address as a browser does; return the page, or after an error the last address."""
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.url or ""
