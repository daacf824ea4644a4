"""Support for the SDKs: their HTTP client, TLS, network errors, and threads for blocking work.

httpx2 is imported inside the functions that use it. Proxies and CA files come from the environment, as httpx2 reads it
(`HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`), except that loopback bypasses every proxy. Redirects are not
followed, so that a key is sent only to its own address. `run_in_thread` runs imports and credential lookups in a daemon
thread, so that hanging work blocks neither cancellation nor exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.connection import Connection, host_of
from qcode.providers.errors import error_of_response, redact
from qcode.text.clean import quoted
from qcode.text.pattern import lazy_pattern

if TYPE_CHECKING:
    import httpx2

_HASHED_NAME = lazy_pattern(r"[0-9a-fA-F]{8}\.[0-9]")
_REDIRECTS = (301, 302, 303, 307, 308)
_PROXY_AUTHENTICATION_REQUIRED = 407


def http_client(connection: Connection) -> httpx2.AsyncClient:
    """Return an HTTP client for one provider; the caller owns it and must close it.

    The client limits only the time to connect. `streaming` limits the time to read, because that limit depends on the
    progress of the reply.
    """
    import httpx2

    from qcode.text.proxies import has_valid_port, is_loopback, proxy_address, proxy_problem

    limits = connection.timeouts
    # The CA files of the environment apply to every address; its proxies do not apply to loopback.
    context = tls_context(connection)
    try:
        if not has_valid_port(proxy_address(connection.base_url, os.environ)):
            raise ValueError
        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=limits.connect),
            verify=context,
            trust_env=not is_loopback(connection.base_url),
            follow_redirects=False,
        )
    except (ValueError, httpx2.InvalidURL):
        # The text of the error may contain a part of the password: `Invalid port: 'secr'` if it has a slash.
        raise ProviderError(ErrorKind.UNREACHABLE, proxy_problem(connection.origin.proxy_variable)) from None


def tls_context(connection: Connection) -> ssl.SSLContext:
    """Return the TLS context: the CAs of the system or of the environment, plus `ca_file`. Reads files.

    These are the CAs that httpx2 uses. On Linux this module selects them itself, which imports nothing.
    """
    try:
        context = _tls_of_system()
        if connection.ca_file:
            context.load_verify_locations(connection.ca_file)
        return context
    except OSError as error:
        source = connection.ca_file or _ca_variable()
        # For a file without certificates OpenSSL says: [X509: NO_CERTIFICATE_OR_CRL_FOUND] ... (_ssl.c:4154).
        reason = "it contains no certificate" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ProviderError(ErrorKind.TLS, f"cannot read the CA certificates in {source}: {reason}") from error


def _ca_variable() -> str:
    """Return the variable that names the certificates, with its value."""
    name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), "")
    return f"{os.environ[name]} ({name})" if name else "the system"


def _tls_of_system() -> ssl.SSLContext:
    """Return a TLS context with the CAs of the environment, otherwise with the CAs of the system."""
    if ca_file := os.environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=ca_file)
    if ca_folder := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=ca_folder)
    defaults = ssl.get_default_verify_paths()
    file = defaults.openssl_cafile if Path(defaults.openssl_cafile).is_file() else None
    folder = defaults.openssl_capath if _contains_certificates(Path(defaults.openssl_capath)) else None
    if os.uname().sysname == "Darwin" or not (file or folder):
        import httpx2

        return httpx2.create_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(file, folder)
    return context


def _contains_certificates(folder: Path) -> bool:
    """Return whether OpenSSL finds certificates in `folder`: files that are named by a hash."""
    try:
        return any(_HASHED_NAME.fullmatch(path.name) for path in folder.iterdir())
    except OSError:
        return False


def silence_loggers(*loggers: str) -> None:
    """Silence SDK loggers without a handler, because a line on standard error would break the screen."""
    for name in loggers:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def convert_error(connection: Connection, error: Exception) -> ProviderError:
    """Convert an exception of an SDK or of httpx2."""
    import httpx2

    if isinstance(error, ProviderError):
        return error
    response = getattr(error, "response", None)
    if isinstance(response, httpx2.Response):
        return _httpx2_response_error(connection, response)
    for cause in _error_chain(error):
        if isinstance(cause, httpx2.HTTPError | httpx2.InvalidURL | httpx2.StreamError):
            return _transport_error(connection, cause)
    if isinstance(error, OSError):
        lost = connection_lost_error(connection)
        return ProviderError(lost.kind, f"{lost.message}: {error}")
    text = redact(str(error).partition("\n")[0], connection.api_key)[:300]
    return ProviderError(ErrorKind.INTERNAL, f"{connection.name}: {type(error).__name__}: {text}")


def _httpx2_response_error(connection: Connection, response: httpx2.Response) -> ProviderError:
    """Convert a response of httpx2 with a status other than 2xx."""
    import httpx2

    try:
        content = response.content
    except httpx2.ResponseNotRead:
        content = b""
    return response_error(connection, response.status_code, response.headers, content)


def response_error(connection: Connection, status: int, headers: Mapping[str, str], content: bytes) -> ProviderError:
    """Convert a response with a status other than 2xx; `headers` has lower-case names."""
    if status == _PROXY_AUTHENTICATION_REQUIRED and connection.origin.proxy_variable:
        return unreachable_error(connection, f"it demands a user name and a password ({status})")
    location = headers.get("location", "")
    if status in _REDIRECTS and location:
        return ProviderError(
            ErrorKind.BAD_RESPONSE,
            f"{connection.name} moved: {connection.origin.shown_address} redirects to {quoted(host_of(location))}; if "
            "you trust that address, set it as the base URL",
            status=status,
        )
    return error_of_response(connection.origin, status, headers, content, now=datetime.now(UTC))


def _transport_error(connection: Connection, error: Exception) -> ProviderError:
    """Convert an exception of httpx2 that has no response."""
    import httpx2

    address = connection.origin.shown_address
    if isinstance(error, httpx2.ConnectTimeout):
        return unreachable_error(connection, timeout_reason(connection.timeouts.connect))
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return connection_error(connection, error)
    if isinstance(error, httpx2.TimeoutException):
        return ProviderError(ErrorKind.TIMEOUT, f"{connection.name} ({address}) did not answer in time")
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return ProviderError(ErrorKind.BAD_REQUEST, f"invalid base URL for {connection.name}: {quoted(address)}")
    if isinstance(error, httpx2.LocalProtocolError):
        # Its text may quote the header with the key.
        return header_error(connection)
    return connection_lost_error(connection)


def connection_lost_error(connection: Connection) -> ProviderError:
    address = connection.origin.shown_address
    return ProviderError(ErrorKind.CONNECTION, f"{connection.name}: connection lost ({address})")


def header_error(connection: Connection) -> ProviderError:
    return ProviderError(
        ErrorKind.BAD_REQUEST, f"a header for {connection.name} contains characters that HTTP does not allow"
    )


def timeout_reason(seconds: float) -> str:
    return f"no connection within {seconds:g} s"


def connection_error(connection: Connection, error: Exception) -> ProviderError:
    """Return the error for a connection that failed. An untrusted certificate is not retried."""
    is_untrusted = any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _error_chain(error))
    return unreachable_error(connection, reason_of(error), ErrorKind.TLS if is_untrusted else ErrorKind.UNREACHABLE)


def unreachable_error(connection: Connection, reason: str, kind: ErrorKind = ErrorKind.UNREACHABLE) -> ProviderError:
    """Return the error for a host that could not be reached. `reason` is shown to the user at the end of a sentence."""
    origin = connection.origin
    source = f" (from {origin.base_url_source})" if origin.base_url_source else ""
    proxy = f", through the proxy in {origin.proxy_variable}" if origin.proxy_variable else ""
    return ProviderError(kind, f"cannot reach {connection.name} at {origin.shown_address}{source}{proxy}: {reason}")


def reason_of(error: Exception) -> str:
    """Return the reason why a connection failed, from the most specific cause of `error`."""
    for cause in _error_chain(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message}); set SSL_CERT_FILE to use your own CA file"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason or 'no reason given'}); is the address https?"
        if isinstance(cause, socket.gaierror):
            return "the host name cannot be resolved; is this machine online?"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused; is the server running?"
        if isinstance(cause, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
            return "the server closed the connection; is the address right, with http or https?"
        if isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            return "no network route to the host; is this machine online?"
    return str(error).partition("\n")[0][:200] or "no connection"


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the errors that it wraps, and its causes, without duplicates."""
    visited: set[int] = set()
    unvisited: list[BaseException] = [error]
    while unvisited:
        current = unvisited.pop(0)
        if id(current) in visited:
            continue
        visited.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            unvisited += current.exceptions
        unvisited += [cause for cause in (current.__cause__, current.__context__) if cause is not None]


T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a daemon thread; return its result or raise its exception. Cancellation does not stop the work."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        if not outcome.done():  # it is if the caller was cancelled
            set_outcome()

    def settle_in_loop(set_outcome: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed if the work outlived it
            loop.call_soon_threadsafe(settle, set_outcome)

    def run() -> None:
        try:
            result = work()
        except StopIteration:  # a future cannot store it
            settle_in_loop(partial(outcome.set_exception, RuntimeError("StopIteration")))
        except BaseException as error:  # noqa: BLE001 - the caller raises it, even `SystemExit`
            settle_in_loop(partial(outcome.set_exception, error))
        else:
            settle_in_loop(partial(outcome.set_result, result))

    threading.Thread(target=run, name="qcode-provider", daemon=True).start()
    return await outcome
