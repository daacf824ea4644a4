"""Chooses the proxy for a URL from the environment variables; used for models, tool servers and `fetch`.

The choice is the same as in httpx2, which sends most requests, except that loopback addresses never use a proxy.
`https_proxy` overrides `HTTPS_PROXY`. `NO_PROXY` is a list, separated by commas, of hosts (with their subdomains),
addresses and networks; a host may have a port.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit


def is_loopback(url: str) -> bool:
    host = (urlsplit(url).hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def has_valid_port(url: str) -> bool:
    """Return whether the port of `url` is missing or a number from 1 to 65535. httpx2 also accepts other numbers."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def proxy_variable(url: str, environ: Mapping[str, str]) -> str:
    """Return the name of the variable with the proxy for `url`, empty if the request uses no proxy."""
    parts = urlsplit(url)
    if is_loopback(url) or _is_exempt(parts, environ.get(_variable_name("no_proxy", environ), "")):
        return ""
    variables = (_variable_name(name, environ) for name in (f"{parts.scheme}_proxy", "all_proxy"))
    return next((variable for variable in variables if environ.get(variable)), "")


def proxy_address(url: str, environ: Mapping[str, str]) -> str:
    """Return the address of the proxy for `url`, including any password; empty if the request uses no proxy."""
    address = environ.get(proxy_variable(url, environ), "")
    return f"http://{address}" if address and "://" not in address else address


def proxy_problem(variable: str) -> str:
    """Return the message that the proxy in `variable` cannot be used. An empty `variable` stands for a system setting.

    The message does not contain the address, which may include a password.
    """
    source = variable or "the settings of the system"
    return f"the proxy in {source} cannot be used: it needs an http, https or socks5 address with a host and a port"


def _variable_name(name: str, environ: Mapping[str, str]) -> str:
    """Return `name` if the environment has this variable, otherwise `name` in upper case.

    A variable in lower case that is set but empty also overrides the one in upper case.
    """
    return name if name in environ else name.upper()


def _is_exempt(parts: SplitResult, exceptions: str) -> bool:
    """Return whether `exceptions`, the value of `NO_PROXY`, contains the host of an address."""
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return "*" in entries or any(_matches(entry, parts) for entry in entries if entry)


def _matches(entry: str, parts: SplitResult) -> bool:
    """Return whether an entry of `NO_PROXY` matches an address; an invalid entry matches none.

    example.com                   the host and its subdomains
    .example.com, *.example.com   only the subdomains
    example.com:8080              one port
    https://example.com           exactly this host, for one scheme
    all://example.com             exactly this host, for all schemes
    10.0.0.0/8                    the addresses of a network
    """
    host = (parts.hostname or "").lower()
    scheme, _, address = entry.rpartition("://")
    if "/" in address:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(address, strict=False)
        except ValueError:
            return False
    try:
        name, port = _host_and_port(address)
    except ValueError:
        return False
    if scheme not in ("", "all", parts.scheme) or port not in (None, parts.port):
        return False
    if not scheme and name.startswith("."):
        return host.endswith(name)
    if name.startswith("*."):
        return host.endswith(name[1:])
    is_exact = bool(scheme) or name == "localhost" or ":" in name
    return host == name or (not (is_exact or _is_address(name)) and host.endswith(f".{name}"))


def _host_and_port(address: str) -> tuple[str, int | None]:
    """Split `host:port`; an IPv6 address has brackets if there is a port. Raise `ValueError` if it is invalid."""
    if address.count(":") > 1 and not address.startswith("["):
        return address, None
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
