"""The `fetch` tool: one web page as text, from hosts that the rules allow.

A host name is resolved once, all its addresses must be allowed, and qcode connects to one of them. So a later answer of
DNS has no effect. Requests contain no cookie, key or other data of the user. A separate process (`html_program`)
converts HTML to Markdown, because a host can send a page that takes forever to convert.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import socket
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin, urlsplit

from qcode.protocol.tools import NetworkAccess, Refused, ToolOutcome, ToolSpec
from qcode.text.clean import visible
from qcode.text.json import JsonObject
from qcode.text.pattern import lazy_pattern
from qcode.tools.arguments import validate_arguments
from qcode.tools.output import OutputCollector
from qcode.tools.processes import HelperProcess
from qcode.tools.tool import Preview, ToolRunContext, failed, run_blocking
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 10 * 1024 * 1024
"""The maximum size of a page, in bytes after decompression."""
MAX_FETCH_S = 30.0
"""The time limit of a call, with all redirects."""
MAX_REDIRECTS = 5
_TEXT_TYPE = lazy_pattern(
    r"text/.*|application/([\w.+-]*[+])?(json|xml|yaml|toml|javascript|ecmascript|x-sh|sql|graphql)|image/svg\+xml"
)
_CHARSET = lazy_pattern(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_PROXY_AUTHENTICATION_REQUIRED = 407
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 47}
"""The zlib window bits for each content coding. Servers may use a coding even if none was requested."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The target of a URL."""

    scheme: str
    host: str
    """As written in the request: an IPv6 address has brackets."""
    port: int

    @property
    def authority(self) -> str:
        """The host, followed by the port unless it is the default port of the scheme."""
        default_port = 443 if self.scheme == "https" else 80
        return self.host if self.port == default_port else f"{self.host}:{self.port}"


class Gate(Protocol):
    """The rules for URLs and addresses, also of redirects. A protocol, because `tools` may not import `safety`."""

    def target(self, url: str) -> RequestTarget | str:
        """Return the target of `url`, or the reason why it is never fetched."""
        ...

    def refusal(self, url: str) -> str:
        """Return the reason why `url` needs the user's approval, empty if it does not."""
        ...

    def accepts(self, target: RequestTarget, address: str) -> bool:
        """Return whether a connection to `address`, to which the host of `target` resolved, is allowed."""
        ...


class Fetch:
    """The `fetch` tool. `resolve` returns the addresses of a host name or raises `OSError`; it runs in a thread."""

    spec = ToolSpec(
        name="fetch",
        description=(
            "Fetch a URL (http or https) and return its text; HTML is converted to Markdown. Only public pages: no "
            "login, no cookies, no scripts. Long pages are shortened in the middle; the full text is stored in a "
            "file."
        ),
        parameters={
            "type": "object",
            "properties": {"url": {"type": "string", "description": "The complete URL, with https://."}},
            "required": ["url"],
            "additionalProperties": False,
        },
        draft_argument="url",
        safety=NetworkAccess(url_argument="url"),
    )

    def __init__(self, gate: Gate, resolve: Callable[[str, int], list[str]] | None = None) -> None:
        self._gate = gate
        self._resolve = resolve or _addresses

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            url = validate_arguments(self.spec, arguments).text("url")
        except Refused as refused:
            return Preview("Fetch a page?", detail="", refusal=str(refused))
        target = self._gate.target(url)
        return Preview("Fetch this page?", visible(url), refusal=target if isinstance(target, str) else "")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        try:
            url = validate_arguments(self.spec, arguments).text("url")
            async with asyncio.timeout(MAX_FETCH_S):
                page = await self._fetch(url)
            process = HelperProcess()
            text = await run_blocking(lambda: page.text(process), process.stop)
        except Refused as refused:
            return failed(f"fetch: {refused}")
        except TimeoutError:
            return failed(f"fetch: no complete response within {MAX_FETCH_S:g} s")
        collector = OutputCollector(context.max_output_chars, lambda: workspace.scratch)
        collector.add(text.encode("utf-8", "replace"))
        body = collector.close()
        head = f"{page.url}\n{page.status} {page.media_type}".rstrip()
        is_error = page.status >= 400
        return ToolOutcome(
            f"{head}\n\n{body or '[nothing]'}", is_error=is_error, summary=f"{page.status}, {len(page.data):,} bytes"
        )

    async def _fetch(self, url: str) -> Page:
        """Fetch a page, following redirects; raise `Refused` for a target that is not allowed."""
        for hop in range(MAX_REDIRECTS + 1):
            target = self._gate.target(url)
            if isinstance(target, str):
                raise Refused(f"{target}: {url}")
            is_redirect = hop > 0  # the call itself was approved
            if is_redirect and (refusal := self._gate.refusal(url)):
                raise Refused(
                    f"it redirects to {url}, which was not approved ({refusal}). Call fetch with that URL to "
                    "request approval."
                )
            page = await self.send_request(url, target)
            if page.status not in _REDIRECTS or not page.location:
                return page
            try:
                url = urljoin(url, page.location)
            except ValueError:
                raise Refused(f"{url} redirects to an invalid address") from None
        raise Refused(f"more than {MAX_REDIRECTS} redirects")

    async def send_request(
        self, url: str, target: RequestTarget, *, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> Page:
        """Send one request to `target`, a POST request if there is `content`. Raise `Refused` if it fails."""
        import httpx2

        address = await self._checked_address(target)
        parts = urlsplit(url)
        host = f"[{address}]" if ":" in address else address
        query = f"?{parts.query}" if parts.query else ""
        address_url = f"{target.scheme}://{host}:{target.port}{parts.path or '/'}{query}"
        all_headers = {
            "Host": target.authority,
            "User-Agent": "qcode",
            "Accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5",
            "Accept-Encoding": "identity",
            **(headers or {}),
        }
        method = "GET" if content is None else "POST"
        # For the check of the certificate, an IPv6 address has no brackets.
        extensions = {"sni_hostname": target.host.strip("[]")} if target.scheme == "https" else {}
        proxy = _proxy(target)
        try:
            async with (
                _client(proxy) as client,
                client.stream(
                    method, address_url, headers=all_headers, content=content, extensions=extensions
                ) as response,
            ):
                if proxy.address and response.status_code == _PROXY_AUTHENTICATION_REQUIRED:
                    raise httpx2.ProxyError("it demands a user name and a password (407)")
                return await _read_page(url, response)
        except httpx2.HTTPError as error:
            raise Refused(f"{target.host} could not be reached{proxy.note}: {_reason(error)}") from None
        except (httpx2.InvalidURL, ValueError) as error:
            raise Refused(f"the URL cannot be fetched: {error}") from None

    async def _checked_address(self, target: RequestTarget) -> str:
        """Resolve the host once and return one address. Raise `Refused` if any of its addresses is not allowed."""
        name = target.host.strip("[]")
        try:
            addresses = await run_blocking(lambda: self._resolve(name, target.port))
        except OSError as error:
            raise Refused(f"the name {name} was not found ({error.strerror or error})") from None
        refused = next((address for address in addresses if not self._gate.accepts(target, address)), None)
        if refused is not None or not addresses:
            raise Refused(f"{name} resolves to {refused or 'no address'}, which is not a public address")
        return addresses[0]


@dataclass(frozen=True, slots=True)
class Page:
    """The response of a host."""

    url: str
    status: int
    media_type: str
    """The media type, such as `text/html`."""
    location: str
    """The target of a redirect, otherwise empty."""
    data: bytes
    """The body; empty for a redirect."""
    charset: str
    """The charset in the `Content-Type`, empty if it names none."""

    @property
    def raw_text(self) -> str:
        """The body as text, HTML unchanged."""
        return decode_page(self.data, self.charset or _charset_in_html(self.data)).removeprefix("\ufeff")

    def text(self, process: HelperProcess) -> str:
        """Return the page as text, HTML as Markdown. Raise `Refused` if it cannot be converted."""
        return html_text(self.raw_text, self.url, process) if self.media_type in _HTML_TYPES else self.raw_text


async def _read_page(url: str, response: httpx2.Response) -> Page:
    """Read a response up to the size limit. A type other than text is refused before the body is read."""
    content_type = response.headers.get("content-type", "text/plain")
    media_type = content_type.partition(";")[0].strip().casefold()
    location = response.headers.get("location", "")
    match = _CHARSET.search(content_type)
    charset = match[1] if match else ""
    if response.status_code in _REDIRECTS and location:
        return Page(url, response.status_code, media_type, location, b"", charset)
    if not _TEXT_TYPE.fullmatch(media_type):
        raise Refused(f"{url} has the type {media_type or 'unknown'}, which is not text")
    coding = response.headers.get("content-encoding", "identity").strip().casefold()
    if coding != "identity" and coding not in _CODINGS:
        raise Refused(f"{url} uses an unsupported compression ({coding})")
    decompressor = zlib.decompressobj(_CODINGS[coding]) if coding in _CODINGS else None
    data = bytearray()
    try:
        async for chunk in response.aiter_raw():
            data += chunk if decompressor is None else decompressor.decompress(chunk, MAX_BYTES + 1 - len(data))
            if len(data) > MAX_BYTES or (decompressor is not None and decompressor.unconsumed_tail):
                raise Refused(f"{url} is larger than {MAX_BYTES // 1024**2} MB")
        if decompressor is not None and data and not decompressor.eof:
            raise zlib.error("the data ends too early")
    except zlib.error:
        raise Refused(f"{url} has invalid compressed data") from None
    return Page(url, response.status_code, media_type, "", bytes(data), charset)


def _charset_in_html(data: bytes) -> str:
    """Return the charset that a `<meta>` element at the start of a page names, empty if there is none."""
    match = re.search(rb"<meta[^>]{0,200}charset=[\"']?([\w.:-]+)", data[:2_048], re.IGNORECASE)
    return match[1].decode("ascii", "replace") if match is not None else ""


def _addresses(name: str, port: int) -> list[str]:
    rows = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(socket_address[0]) for *_, socket_address in rows))


@dataclass(frozen=True, slots=True)
class _Proxy:
    """The proxy of a request."""

    address: str
    """Empty if the request uses no proxy."""
    variable: str
    """The environment variable with the address, empty if the address is a setting of the system."""

    @property
    def note(self) -> str:
        """The part of an error message that names the proxy, empty without one."""
        return f" through the proxy in {self.variable or 'the settings of the system'}" if self.address else ""


def _proxy(target: RequestTarget) -> _Proxy:
    from urllib.request import getproxies

    from qcode.text.proxies import proxy_address, proxy_variable

    url = f"{target.scheme}://{target.authority}"
    proxies = {f"{scheme}_proxy": address for scheme, address in getproxies().items()}
    return _Proxy(proxy_address(url, proxies), proxy_variable(url, os.environ))


def _client(proxy: _Proxy) -> httpx2.AsyncClient:
    """Return a client that uses the proxy. Raise `Refused` if the address of the proxy is invalid."""
    import httpx2

    from qcode.text.proxies import has_valid_port, proxy_problem

    try:
        if not has_valid_port(proxy.address):
            raise ValueError
        return httpx2.AsyncClient(
            verify=httpx2.create_ssl_context(), trust_env=False, proxy=proxy.address or None, timeout=MAX_FETCH_S
        )
    except (httpx2.InvalidURL, ValueError):
        raise Refused(proxy_problem(proxy.variable)) from None


def _reason(error: Exception) -> str:
    text = str(error).strip()
    return text.split("\n", 1)[0][:200] if text else "the connection was lost"


MAX_CONVERSION_S = 25.0
"""The time limit for the conversion of a page to Markdown."""
_HTML_PROGRAM = Path(__file__).with_name("html_program.py")
# Python codecs that are not text encodings of the web; some fail, and some take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"})


def decode_page(data: bytes, charset: str) -> str:
    """Decode a page. UTF-8 replaces a charset that is unknown or not used on the web."""
    name = charset.casefold().replace("-", "_")
    try:
        return data.decode("utf-8" if name in _NO_CHARSETS else charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def html_text(html: str, url: str, process: HelperProcess) -> str:
    """Return a page as Markdown. Raise `Refused` if that takes too much time or memory."""
    module = importlib.util.find_spec("bs4")
    if module is None or module.origin is None:
        raise Refused("cannot read HTML: beautifulsoup4 is not installed")
    folder = str(Path(module.origin).parents[1])
    printed = process.run(_HTML_PROGRAM, [folder, url], html.encode("utf-8", "replace"), MAX_CONVERSION_S)
    if not printed.lines:
        raise Refused(f"{url} cannot be turned into text: {printed.failure}")
    text: str = json.loads(printed.lines[0])
    return text
