"""The `fetch` tool against real servers on this machine: addresses, request headers and returned text."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from qcode.protocol.tools import ToolOutcome
from qcode.tools import web
from qcode.tools.tool import ToolRunContext
from qcode.tools.web import Fetch, RequestTarget
from qcode.tools.workspace import Workspace
from tests.fakes.proxy import PASSWORD, Proxy

BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\n\r\n"

Answer = Callable[[BaseHTTPRequestHandler], None]


def answer(body: bytes | str, kind: str = "text/plain", status: int = 200, **headers: str) -> Answer:
    data = body.encode() if isinstance(body, str) else body

    def send(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    return send


class Site:
    """A server whose pages are set by path; it keeps the headers it was sent."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        site = self

        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                site.pages.get(self.path, answer("no such page", status=404))(self)

            def log_message(self, format: str, *arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def url(self, path: str = "/", host: str = "docs.test", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Open:
    """A gate with the addresses of the test, by default only those of this machine."""

    def __init__(self, accepted: tuple[str, ...] = ("127.0.0.1",), refused: tuple[str, ...] = ()) -> None:
        self.accepted = accepted
        self.refused = refused

    def target(self, url: str) -> RequestTarget | str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return "only http and https URLs can be fetched"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return RequestTarget(parts.scheme, host, parts.port or 80)

    def refusal(self, url: str) -> str:
        return "has not been allowed" if urlsplit(url).hostname in self.refused else ""

    def accepts(self, target: RequestTarget, address: str) -> bool:
        return address in self.accepted


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def run(
    url: str, base: Path, gate: Open | None = None, addresses: tuple[str, ...] = ("127.0.0.1",), most: int = 30_000
) -> ToolOutcome:
    tool = Fetch(gate or Open(), lambda name, port: list(addresses))
    workspace = Workspace(base)
    try:
        return asyncio.run(tool.run({"url": url}, workspace, ToolRunContext(lambda text: None, max_output_chars=most)))
    finally:
        workspace.close()


def test_page_is_fetched_as_text_without_user_data_in_the_request(site: Site, tmp_path: Path) -> None:
    site.pages["/a?b=1"] = answer("hello é", "text/plain; charset=utf-8", Set_Cookie="id=1")
    done = run(site.url("/a?b=1#part"), tmp_path)
    assert not done.is_error
    assert done.content.endswith("hello é")
    _, headers = site.seen[0]
    assert headers["host"] == f"docs.test:{site.port}"
    assert set(headers) <= {"host", "user-agent", "accept", "accept-encoding", "connection"}


def test_html_becomes_markdown_without_scripts_menus_and_images(site: Site, tmp_path: Path) -> None:
    page = (
        "<html><head><title>The page</title><script>bad()</script></head><body><nav>menu</nav><main><h2>Part</h2>"
        "<p>Some <b>bold</b> <a href='/x'>link</a><img src='http://evil/p.png' alt='pic'></p>"
        "<pre>code</pre></main></body></html>"
    )
    site.pages["/"] = answer(page, "text/html")
    text = run(site.url(), tmp_path).content
    assert "# The page" in text
    assert "## Part" in text
    assert f"**bold** [link]({site.url('/x')})pic" in text
    assert "bad()" not in text
    assert "menu" not in text
    assert "evil" not in text


@pytest.mark.parametrize("addresses", [("10.0.0.1",), ("127.0.0.1", "10.0.0.1"), ()])
def test_host_with_any_private_address_is_refused(site: Site, tmp_path: Path, addresses: tuple[str, ...]) -> None:
    done = run(site.url(), tmp_path, addresses=addresses)
    assert done.is_error
    assert "not a public address" in done.content
    assert site.seen == []


def test_host_is_resolved_once_and_the_checked_address_is_used(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer("ok")
    asked: list[str] = []

    def changing(name: str, port: int) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.9"]

    tool = Fetch(Open(), changing)
    workspace = Workspace(tmp_path)
    done = asyncio.run(tool.run({"url": site.url()}, workspace, ToolRunContext(lambda text: None)))
    workspace.close()
    assert done.content.endswith("ok")
    assert asked == ["docs.test"]


def test_each_redirect_is_judged_before_it_is_followed(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer("", status=302, Location="/next", Set_Cookie="id=1")
    site.pages["/next"] = answer("", status=301, Location=site.url("/end", host="other.test"))
    site.pages["/end"] = answer("arrived")
    assert run(site.url(), tmp_path).content.endswith("arrived")
    assert all("cookie" not in headers for _, headers in site.seen)
    done = run(site.url(), tmp_path, Open(refused=("other.test",)))
    assert done.is_error
    assert "Call fetch with that URL" in done.content
    assert site.seen[-1][0] == "/next"


def test_redirect_to_another_scheme_is_refused(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer("", status=302, Location="file:///etc/passwd")
    assert "only http and https" in run(site.url(), tmp_path).content


def test_endless_redirects_are_an_error(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer("", status=302, Location="/")
    assert "more than 5 redirects" in run(site.url(), tmp_path).content
    assert len(site.seen) == 6


def test_content_other_than_text_is_refused_with_its_type(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer(b"\x89PNG", "image/png")
    assert "has the type image/png, which is not text" in run(site.url(), tmp_path).content


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_response_is_bounded_by_its_decompressed_size(site: Site, tmp_path: Path, coding: str) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    site.pages["/"] = answer(pack(b"packed"), Content_Encoding=coding)
    site.pages["/bomb"] = answer(pack(bytes(40 * 1024 * 1024)), Content_Encoding=coding)
    site.pages["/torn"] = answer(b"not compressed", Content_Encoding=coding)
    assert run(site.url(), tmp_path).content.endswith("packed")
    assert "larger than 10 MB" in run(site.url("/bomb"), tmp_path).content
    assert "invalid compressed data" in run(site.url("/torn"), tmp_path).content
    site.pages["/cut"] = answer(pack(b"text " * 1_000)[:-9], Content_Encoding=coding)
    assert "invalid compressed data" in run(site.url("/cut"), tmp_path).content


def test_unrequested_content_encoding_is_refused(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer(b"x", Content_Encoding="br")
    assert "unsupported compression (br)" in run(site.url(), tmp_path).content


def test_large_page_is_refused(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer(bytes(11 * 1024 * 1024))
    assert "larger than 10 MB" in run(site.url(), tmp_path).content


def test_long_page_is_shortened_with_the_rest_in_a_file(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer("word " * 10_000)
    done = run(site.url(), tmp_path, most=1_000)
    assert len(done.content) < 2_000
    assert "characters omitted; all of it in" in done.content


def test_error_page_is_an_error_with_its_text(site: Site, tmp_path: Path) -> None:
    done = run(site.url("/none"), tmp_path)
    assert done.is_error
    assert "404" in done.content
    assert "no such page" in done.content


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ("é".encode("latin-1"), "text/plain; charset=latin-1", "é"),
        (b"<meta charset='cp1252'>\x80", "text/html", "€"),
        (b"\xff\xfe", "text/plain; charset=base64", "��"),
        (b"\xef\xbb\xbfx", "text/plain; charset=no-such", "x"),
    ],
)
def test_page_is_decoded_with_its_charset(site: Site, tmp_path: Path, data: bytes, kind: str, text: str) -> None:
    site.pages["/"] = answer(data, kind)
    assert run(site.url(), tmp_path).content.endswith(text)


def test_silent_server_times_out(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    site.pages["/"] = lambda request: (released.wait(20), None)[1]
    monkeypatch.setattr(web, "MAX_FETCH_S", 0.2)
    done = run(site.url(), tmp_path)
    released.set()
    assert "no complete response within 0.2 s" in done.content


def test_refused_connection_is_one_line(tmp_path: Path, site: Site) -> None:
    site.close()
    done = run(site.url(), tmp_path)
    assert "could not be reached" in done.content
    assert "\n" not in done.content


def _certificate(name: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a certificate for a host name and for an IPv6 address, and the context of its server."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names = [x509.DNSName(name), x509.IPAddress(IPv6Address("2600::1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "site.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return path, context


def test_certificate_must_match_the_host_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, context = _certificate("docs.test", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    site = Site(context)
    site.pages["/"] = answer("secret page")
    try:
        assert run(site.url(scheme="https"), tmp_path).content.endswith("secret page")
        assert "could not be reached" in run(site.url(scheme="https", host="other.test"), tmp_path).content
        assert run(site.url(scheme="https", host="[2600::1]"), tmp_path).content.endswith("secret page")
        assert "could not be reached" in run(site.url(scheme="https", host="[2600::2]"), tmp_path).content
    finally:
        site.close()


def test_proxy_from_the_environment_gets_the_checked_address(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["http://93.184.215.14/"] = answer("through the proxy")
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{site.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    done = run("http://docs.test/", tmp_path, Open(("93.184.215.14",)), addresses=("93.184.215.14",))
    assert done.content.endswith("through the proxy")
    assert site.seen[0][1]["host"] == "docs.test"


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("http://docs.test/", {"has_password": True}, "through the proxy in {}: it demands a user name and a password"),
        ("https://docs.test/", {"has_password": True}, "through the proxy in {}: 407 Proxy Authentication Required"),
        ("https://docs.test/", {"refusal": BAD_GATEWAY}, "through the proxy in {}: 502 Bad Gateway"),
        ("https://docs.test/", {"cut_after": 0}, "through the proxy in {}: the connection was lost"),
    ],
)  # fmt: skip
def test_failure_of_the_proxy_names_its_variable(
    url: str, options: dict[str, Any], says: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"{urlsplit(url).scheme.upper()}_PROXY"
    for name in ("no_proxy", "NO_PROXY", variable.lower()):
        monkeypatch.delenv(name, raising=False)
    with Proxy({"93.184.215.14": site.port}, **options) as proxy:
        monkeypatch.setenv(variable, f"http://me:wrong-{PASSWORD}@127.0.0.1:{proxy.port}")
        content = run(url, tmp_path, Open(("93.184.215.14",)), addresses=("93.184.215.14",)).content
    assert says.format(variable) in content
    assert PASSWORD not in content


@pytest.mark.parametrize("address", [f"http://me:{PASSWORD}/x@127.0.0.1:9", f"http://me:{PASSWORD}@127.0.0.1:99999"])
def test_unusable_proxy_is_named_without_its_password(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", address)
    content = run("https://docs.test/", tmp_path).content
    assert "the proxy in HTTPS_PROXY cannot be used" in content
    assert PASSWORD not in content


def test_approval_shows_the_complete_url(tmp_path: Path) -> None:
    tool, workspace = Fetch(Open()), Workspace(tmp_path)
    visible_text = tool.preview({"url": "https://docs.test/a\u202eb"}, workspace)
    assert "\u202e" not in visible_text.detail
    assert "https://docs.test/a" in visible_text.detail
    assert tool.preview({"url": "ftp://docs.test"}, workspace).refusal
    workspace.close()


def test_deeply_nested_page_becomes_its_text(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer("<title>T</title>" + "<div>" * 3_000 + "found <b>it</b>", "text/html")
    done = run(site.url(), tmp_path)
    assert not done.is_error
    assert "found" in done.content
    assert "it" in done.content


def test_invalid_link_does_not_break_a_page(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer('<p><a href="http://[x">one</a> <a href="/two">two</a></p>', "text/html")
    done = run(site.url(), tmp_path)
    assert "[one](http://[x)" in done.content
    assert f"[two]({site.url('/two')})" in done.content


def test_redirect_to_an_invalid_address_is_a_one_line_error(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = answer("", status=302, Location="http://[x/")
    done = run(site.url(), tmp_path)
    assert done.is_error
    assert "an invalid address" in done.content


@pytest.mark.parametrize("charset", ["idna", "undefined", "punycode", "unicode-escape", "zlib", "nonsense"])
def test_unknown_charset_is_read_as_utf_8(site: Site, tmp_path: Path, charset: str) -> None:
    site.pages["/"] = answer("gr\u00fcn \\x41-a", f"text/plain; charset={charset}")
    done = run(site.url(), tmp_path)
    assert not done.is_error
    assert "gr\u00fcn \\x41-a" in done.content


def test_page_that_never_ends_times_out(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_CONVERSION_S", 0.2)
    site.pages["/"] = answer("<!--" * 400_000, "text/html")
    done = run(site.url(), tmp_path)
    assert done.is_error
    assert "took longer than 0.2 s" in done.content
