"""The connection data of a host: address, key, time limits, and the sources of address and key, for error messages.

The address also determines whether the host is local and which proxy applies. Reads only the environment, and imports
no networking code.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple
from urllib.parse import urlsplit

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.text.clean import quoted
from qcode.values import dataclass


class Sourced(NamedTuple):
    """A key or an address, and the variable, setting or command that supplied it; both empty if none did."""

    value: str = ""
    source: str = ""


def first_set(variables: tuple[str, ...], environ: Mapping[str, str]) -> Sourced:
    """Return the value of the first variable that is set, and its name as the source."""
    for variable in variables:
        if value := environ.get(variable, "").strip():
            return Sourced(value, variable)
    return Sourced()


@dataclass(frozen=True, slots=True)
class ConnectionOrigin:
    """The address and key of a request and their sources, for error messages."""

    provider: str
    """The name of the provider in qcode."""
    base_url: str = ""
    base_url_source: str = ""
    """The variable, setting or command that supplied the address, empty for the default address."""
    key_source: str = ""
    """The variable, setting or command that supplied the key, empty if none did."""
    proxy_variable: str = ""
    """The variable that contains the address of the proxy, empty if no proxy is used."""
    sign_in: str = ""
    """An instruction for the user, if the host uses credentials other than a key."""
    expects_version: bool = False
    """Addresses of this protocol usually end in a version such as `/v1`. An error suggests one that lacks it."""
    key: str = field(default="", repr=False)
    """The key, only to remove it from messages. It is never shown."""

    @property
    def shown_address(self) -> str:
        """The address for messages, without a user name, password and query."""
        from qcode.text.credentials import without_credentials  # for errors only

        return without_credentials(self.base_url)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds for connecting, and for silence: the time in which no byte is received, not even a ping."""

    connect: float = 10.0
    first_event: float = 600.0
    """Silence before the first event of a reply. Reasoning models may think for minutes."""
    idle: float = 90.0
    """Silence after the first event."""
    idle_local: float = 600.0
    """Replaces `idle` for hosts on this machine or its network."""
    after_stop: float = 10.0
    """Silence after the stop reason. Then the reply counts as complete, because only usage may follow."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything that a client needs to connect."""

    name: str
    """The name of the provider in qcode."""
    base_url: str
    api_key: str = field(default="", repr=False)
    key_source: str = ""
    """See `ConnectionOrigin`."""
    base_url_source: str = ""
    """See `ConnectionOrigin`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional headers; an empty value removes a usual header."""
    timeouts: Timeouts = Timeouts()
    sign_in: str = ""
    """See `ConnectionOrigin`."""
    ca_file: str = ""
    """A file of certificates to trust in addition to those of the environment."""
    expects_version: bool = False
    """See `ConnectionOrigin`."""

    @property
    def origin(self) -> ConnectionOrigin:
        """The facts about this connection for error messages."""
        from qcode.text.proxies import proxy_variable  # for errors only

        return ConnectionOrigin(
            provider=self.name,
            base_url=self.base_url,
            base_url_source=self.base_url_source,
            key_source=self.key_source,
            proxy_variable=proxy_variable(self.base_url, os.environ),
            sign_in=self.sign_in,
            expects_version=self.expects_version,
            key=self.api_key,
        )

    @property
    def idle_limit(self) -> float:
        """The limit of silence after the first event, in seconds."""
        return self.timeouts.idle_local if is_local(self.base_url) else self.timeouts.idle


def describe_key(source: str) -> str:
    """Return a description of a key for messages, by its source: a variable, a setting or a command."""
    if is_command(source):
        return f"the key stored with {source}"
    return f"the key from {source}" if source else "the key"


def is_command(source: str) -> bool:
    """Return whether a key's `source` is a command such as `qcode auth login openai`, and not a variable or setting."""
    return source.startswith("qcode ")


def is_local(url: str) -> bool:
    """Return whether `url` is on this machine or its network.

    Local hosts are loopback and private addresses, and names without a domain or with a local domain such as `.lan`.
    """
    host = host_of(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return (bool(host) and "." not in host) or host.endswith((".local", ".localhost", ".lan", ".internal"))
    return address.is_private or address.is_loopback or address.is_link_local


def host_of(url: str) -> str:
    """Return the host of `url` in lower case, without a port; empty if it has none."""
    return (urlsplit(url).hostname or "").lower()


def checked_address(provider: str, url: str) -> str:
    """Return a base URL without a trailing slash. Raise `ProviderError` if it is not an HTTP address."""
    try:
        parts = urlsplit(url.strip())
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # `http://[::1/v1`, `http://host:99999`
        is_http = False
    if not is_http:
        from qcode.text.credentials import without_credentials  # for errors only

        hint = "it must start with http:// or https:// and have a valid host and port"
        shown = quoted(without_credentials(url))
        raise ProviderError(ErrorKind.BAD_REQUEST, f"invalid base URL for {provider}: {shown}; {hint}")
    return url.strip().rstrip("/")


def strip_version(url: str) -> str:
    """Return `url` without a version at its end, because the Anthropic and Gemini SDKs add one."""
    head, _, last = url.rstrip("/").rpartition("/")
    return head if last in ("v1", "v1beta", "v1alpha", "v1beta1") else url.rstrip("/")
