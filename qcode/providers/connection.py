"""What a client is given to reach a host, and how its errors name where that came from. Loads nothing that connects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from qcode.protocol.values import dataclass
from qcode.providers.addresses import is_local, proxy_variable


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request goes and with whose key: what a message may name.

    `key_source` and `address_source` are the variables, settings or commands that supplied the key and the address,
    empty where none did. `sign_in` says how to get in where credentials are no key. `proxy` names the variable a proxy
    was taken from. The key itself is here to be taken out of messages, and never shown.
    """

    provider: str
    address: str = ""
    address_source: str = ""
    key_source: str = ""
    proxy: str = ""
    sign_in: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds. Silence is time without a single byte; comments and pings end it.

    `first_event`: silence before the first event of a reply (reasoning models think for minutes). `idle`: silence
    after it; `idle_local` where the host is this machine or its network. `trailing`: silence after the stop reason,
    when only usage may follow: the reply is complete, so it ends well.
    """

    connect: float = 10.0
    first_event: float = 600.0
    idle: float = 90.0
    idle_local: float = 600.0
    trailing: float = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """All a client needs: the name it goes by, an address, a key and where both came from.

    `sign_in` says how to get in where credentials are no key. `ca_file` names certificates to trust besides those
    of the environment.
    """

    name: str
    base_url: str
    api_key: str = field(default="", repr=False)
    key_source: str = ""
    base_url_source: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = Timeouts()
    sign_in: str = ""
    ca_file: str = ""

    @property
    def origin(self) -> Origin:
        return Origin(
            provider=self.name,
            address=self.base_url,
            address_source=self.base_url_source,
            key_source=self.key_source,
            proxy=proxy_variable(self.base_url),
            sign_in=self.sign_in,
            key=self.api_key,
        )

    @property
    def idle_limit(self) -> float:
        return self.timeouts.idle_local if is_local(self.base_url) else self.timeouts.idle


def key_words(source: str) -> str:
    """Name a key by where it came from: a variable, or the command that stored it."""
    if is_command(source):
        return f"the key stored with {source}"
    return f"the key from {source}" if source else "the key"


def is_command(source: str) -> bool:
    return source.startswith("qcode ")
