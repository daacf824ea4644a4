"""What the address of a host tells: whether it is near, which proxy is on the way. Pure but for the environment."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from qcode.protocol.errors import ErrorKind, ProviderError


def is_loopback(url: str) -> bool:
    host = host_of(url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local(url: str) -> bool:
    """Tell whether `url` is on this machine or its network: loopback, a private address, a name without a domain."""
    host = host_of(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return (bool(host) and "." not in host) or host.endswith((".local", ".localhost", ".lan", ".internal"))
    return address.is_private or address.is_loopback or address.is_link_local


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def check_address(name: str, url: str) -> str:
    """Return `url` without a trailing slash; raise `ProviderError` where it is no HTTP address."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ProviderError(
            ErrorKind.BAD_REQUEST, f"the base URL of {name} is no address: {url!r}; it starts with http:// or https://"
        )
    return url.strip().rstrip("/")


def strip_version(url: str) -> str:
    """Return `url` without a version at its end: the Anthropic and Gemini SDKs add their own."""
    head, _, last = url.rstrip("/").rpartition("/")
    return head if last in ("v1", "v1beta", "v1alpha", "v1beta1") else url.rstrip("/")


def proxy_variable(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the variable a proxy for `url` is taken from, empty where there is none."""
    if is_loopback(url):
        return ""
    for name in (f"{urlsplit(url).scheme}_proxy", "all_proxy"):
        for spelling in (name, name.upper()):
            if environ.get(spelling):
                return spelling
    return ""
