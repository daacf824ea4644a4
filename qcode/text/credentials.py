"""Hides the credentials in an address that is shown."""

from __future__ import annotations

HIDDEN = "(hidden)"
"""Stands for a secret in a text that is shown."""


def without_credentials(address: str) -> str:
    """Return an address with its user name, password and query hidden, because each may be a key.

    The address may be invalid, so a user name and password are everything up to the last `@` before the query.
    """
    start, _, query = address.partition("?")
    scheme, slashes, rest = start.partition("://")
    _, at_sign, host_and_path = rest.rpartition("@")
    shown = f"{scheme}{slashes}{HIDDEN}@{host_and_path}" if at_sign else start
    return f"{shown}?{HIDDEN}" if query else shown
