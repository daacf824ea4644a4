"""What can go wrong on the direct way, before it has become a `ProviderError` that names the provider."""

from __future__ import annotations

from collections.abc import Mapping


class DirectError(Exception):
    """The base of the others; each is raised from its cause, where it has one."""


class NotReached(DirectError):  # noqa: N818 - a state of the connection more than an error of ours
    """There is no connection: no name, no route, nobody there, no TLS, no time. `seconds` is the limit that passed."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__("not reached")
        self.seconds = seconds


class BrokenOff(DirectError):  # noqa: N818
    """The connection, or what came over it, broke before the answer had ended."""


class BadHeader(DirectError):  # noqa: N818
    """A header of the request cannot be sent."""


class Refused(DirectError):  # noqa: N818
    """The host answered with something else than a 2xx."""

    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.headers = headers
        self.content = content
