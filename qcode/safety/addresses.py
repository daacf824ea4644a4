"""The check of URLs before a fetch, and of addresses for being public. Pure: no name is resolved here.

`read_url` judges the URL as text. The client resolves the name once and checks each address with `is_global`.
Sources: https://url.spec.whatwg.org (hosts), and IANA's registries of special addresses for IPv4 and IPv6.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias
from urllib.parse import urlsplit

from qcode.values import dataclass

Address: TypeAlias = "IPv4Address | IPv6Address"

# One label of a host name, and a label that browsers read as a number of an IPv4 address.
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address
_SPECIAL_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
        "::/128", "::1/128", "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
        "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
"""Networks for special purposes, from IANA's registries, and the address of Azure's metadata service."""
# Names of this machine, the local network or cloud metadata; they are refused for every address they resolve to.
_PRIVATE_NAMES = re.compile(
    r"(.+\.)?(localhost|localdomain|local|internal|intranet|lan|home|corp|private|svc|home\.arpa|onion)|metadata"
)
_LOOPBACK_NAME = re.compile(r"(.+\.)?localhost")


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """The target of a URL."""

    scheme: str
    host: str
    """Lower-case ASCII; an IPv6 address is in brackets."""
    port: int
    is_public: bool
    """False for an address or a name of this machine or the local network. A name is not resolved."""
    is_loopback: bool
    """True for a loopback address, `localhost` and names below `localhost`."""

    @property
    def name(self) -> str:
        """The host, followed by the port unless it is the default port of a remote host."""
        is_default_port = self.port == _PORTS[self.scheme] and not self.is_loopback
        return self.host if is_default_port else f"{self.host}:{self.port}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that an allow rule may use: with the port, and without it if it is the default."""
        return tuple(dict.fromkeys((self.name, f"{self.host}:{self.port}")))


def read_url(url: str) -> UrlTarget | str:
    """Return the target of `url`, or the reason why it is never fetched."""
    if any(char <= " " or char == "\\" or not char.isprintable() for char in url):
        return "the URL contains a space, backslash, control or invisible character"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "the URL is invalid"
    if parts.scheme not in _PORTS:
        return "only http and https URLs can be fetched"
    if not url[len(parts.scheme) :].startswith("://") or not host:
        return "the URL has no host"
    if "@" in parts.netloc:
        return "the URL contains a user name or password"
    if port == 0 or parts.netloc.endswith(":"):
        return "the port of the URL is invalid"
    return _target(parts.scheme, host, port or _PORTS[parts.scheme], is_bracketed=parts.netloc.startswith("["))


def _target(scheme: str, host: str, port: int, *, is_bracketed: bool) -> UrlTarget | str:
    """Return the target of a URL with this host and port, or the reason why it is never fetched."""
    if is_bracketed:
        try:
            address: Address = IPv6Address(host)
        except ValueError:
            return "the IP address in the URL is invalid"
        if "%" in host:
            return "an address with a zone is on the local network"
        return UrlTarget(scheme, f"[{address}]", port, is_global(address), _is_loopback(address))
    name = _ascii_host(host)
    if name is None:
        return "the host is not a valid internet name"
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = IPv4Address(name)
        except ValueError:
            return "an IP address is written in an unusual form"
        return UrlTarget(scheme, str(address), port, is_global(address), _is_loopback(address))
    is_local = _PRIVATE_NAMES.fullmatch(name) is not None or len(labels) == 1
    return UrlTarget(scheme, name, port, not is_local, _LOOPBACK_NAME.fullmatch(name) is not None)


def _ascii_host(host: str) -> str | None:
    """Return a host name in ASCII (IDNA) without a trailing dot, None if it is not a valid name."""
    folded = unicodedata.normalize("NFKC", host).casefold().removesuffix(".")
    try:
        name = folded if folded.isascii() else folded.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    is_name = 0 < len(name) <= 253 and all(_LABEL.fullmatch(label) for label in name.split("."))
    return name if is_name else None


def is_global(address: Address) -> bool:
    """Return whether an address is on the public internet.

    For an address that embeds an IPv4 address (v4-mapped, NAT64), the embedded address decides. Addresses of 6to4,
    Teredo and RFC 2765 are not public, because any host may relay them. The address of Azure's metadata service is not
    public either.
    """
    if isinstance(address, IPv6Address):
        embedded = _embedded_ipv4(address)
        if embedded is not None:
            return is_global(embedded)
    return address.is_global and not any(
        address in network for network in _SPECIAL_NETWORKS if network.version == address.version
    )


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address embedded in a mapped or translated one."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _is_loopback(address: Address) -> bool:
    embedded = _embedded_ipv4(address) if isinstance(address, IPv6Address) else None
    return (embedded or address).is_loopback
