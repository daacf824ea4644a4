"""Addresses on Vertex AI. Pure.

An address names host, project and location, as in `https://HOST/projects/PROJECT/locations/LOCATION`. Sources: Google's
page on the locations of Vertex AI, and the SDKs of Google and Anthropic. A separate module because only these providers
need it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from qcode.providers.connection import Sourced, first_set

PROJECT_VARIABLES = ("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")
LOCATION_VARIABLES = ("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION")
DEFAULT_LOCATION = "global"

_MULTI_REGIONS = ("us", "eu")
_ADDRESS = re.compile(r"(.*)/projects/([^/]+)/locations/([^/]+)")


def vertex_address(environ: Mapping[str, str], *, project: str = "", location: str = "", host: str = "") -> Sourced:
    """Return an address whose source is the variable that supplied the project.

    The source is empty if `project` is given. Both are empty if there is no project.
    """
    named = Sourced(project) if project else first_set(PROJECT_VARIABLES, environ)
    if not named.value:
        return Sourced()
    location = location or first_set(LOCATION_VARIABLES, environ).value or DEFAULT_LOCATION
    base = host.rstrip("/") or _host(location)
    return Sourced(f"{base}/projects/{quote(named.value)}/locations/{quote(location)}", named.source)


def move_to_host(address: str, host: str) -> str:
    """Return the `address` of the same project and location at another `host`, which is a base URL."""
    _, project, location = split_address(address)
    return f"{host.rstrip('/')}/projects/{project}/locations/{location}"


class VertexAddress(NamedTuple):
    """The parts of an address on Vertex AI."""

    host: str
    project: str
    location: str


def split_address(address: str) -> VertexAddress:
    """Return the parts of a result of `vertex_address`."""
    match = _ADDRESS.fullmatch(address)
    assert match is not None
    return VertexAddress(match[1], match[2], match[3])


def _host(location: str) -> str:
    if location == DEFAULT_LOCATION:
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"
