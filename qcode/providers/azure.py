"""Addresses of Azure OpenAI. Pure.

A resource is served at `/openai/v1`; there, requests contain the name of a deployment instead of a model name. With a
dated `api-version`, the deployment is part of the address instead: the client replaces `MODEL_PLACEHOLDER` in the
address with the model of the request. Source: Azure's pages on the v1 API and its REST reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from qcode.text.pattern import lazy_pattern

MODEL_PLACEHOLDER = "{model}"
KEY_HEADER = "api-key"
TOKEN_VARIABLE = "AZURE_OPENAI_AD_TOKEN"  # noqa: S105 - the name of a variable, not a secret
VERSION_VARIABLES = ("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")

_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
_DATED = lazy_pattern(r"\d{4}-\d{2}-\d{2}")
_OPERATION = lazy_pattern(r"/(?:chat/completions|completions|responses)$")


def is_azure(address: str) -> bool:
    return (urlsplit(address).hostname or "").lower().endswith(_HOSTS)


def with_version(address: str, environ: Mapping[str, str]) -> str:
    """Return a resource's address with the version from the environment, unless it already has one."""
    version = next((environ[name].strip() for name in VERSION_VARIABLES if environ.get(name, "").strip()), "")
    parts = urlsplit(address)
    if not version or parts.query or parts.path.rstrip("/") not in ("", "/openai"):
        return address
    return urlunsplit((parts.scheme, parts.netloc, parts.path, f"api-version={version}", ""))


def complete(address: str) -> str:
    """Return the base URL for requests. `address` is the endpoint of a resource, as the portal or programs show it.

    Example: `https://NAME.openai.azure.com/` becomes `https://NAME.openai.azure.com/openai/v1`.
    """
    parts = urlsplit(address)
    path = _OPERATION.sub("", parts.path.rstrip("/"))
    is_dated = _DATED.match(dict(parse_qsl(parts.query)).get("api-version", "")) is not None
    if path in ("", "/openai"):
        path = f"/openai/deployments/{MODEL_PLACEHOLDER}" if is_dated else "/openai/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def headers(api_key: str, key_source: str) -> dict[str, str]:
    """Return the headers for a key, none for an Entra token, which `Authorization` contains as usual."""
    if not api_key or key_source == TOKEN_VARIABLE:
        return {}
    return {KEY_HEADER: api_key, "authorization": ""}  # an empty value removes the header
