"""Where the `fetch` tool may go: the rules of the session, asked again for every redirect."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from qcode.safety.addresses import is_global, read_url
from qcode.safety.policy import Policy
from qcode.tools.fetch import Target


class FetchGate:
    """`policy` gives the rules as they are now."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy

    def target(self, url: str) -> Target | str:
        found = read_url(url)
        return found if isinstance(found, str) else Target(found.scheme, found.host, found.port)

    def refusal(self, url: str) -> str:
        verdict = self._policy().judge("fetch", {"url": url})
        return "" if verdict.is_allowed else verdict.reason

    def accepts(self, target: Target, address: str) -> bool:
        """Public addresses; one of this machine only where the URL itself named this machine, which a rule allowed."""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if is_global(parsed):
            return True
        found = read_url(f"{target.scheme}://{target.host}:{target.port}/")
        return not isinstance(found, str) and found.is_loopback and parsed.is_loopback
