"""Reads a pasted key: strips quotes, `export NAME=` and other wrapping, and recognizes the provider of the key.

No error contains a part of the pasted text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from qcode.providers.connection import Sourced, is_local
from qcode.providers.registry import PROVIDERS, ProviderSpec, is_sendable, key_name
from qcode.safety.redaction import Redactor

MIN_KEY_CHARS = 8

# The brackets of a bracketed paste, with and without the escape character, which some programs drop.
_BRACKETS = re.compile(r"\x1b?\[20[01]~")
_INVISIBLE = "".join(map(chr, (0x00A0, 0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)))
_WRAPPING = _INVISIBLE + " \t\r\n\v\f,;"
_QUOTES = "\"'`\u2018\u2019\u201c\u201d"
# A key with the name of its variable: `export OPENAI_API_KEY="sk-…"`, `api_key: sk-…`, `$env:OPENAI_API_KEY = …`.
_ASSIGNED = re.compile(
    r"(?P<word>export\s+|set\s+(?:-\w+\s+)*|setenv\s+|\$env:)?[\"'`]?(?P<name>[A-Za-z_][A-Za-z0-9_-]*)[\"'`]?"
    r"(?:\s*=\s*|:\s+|:(?=[\"'`])|\s+)(?P<value>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_KEY_NAME = re.compile(r"key|token|secret|credential", re.IGNORECASE)
_BEARER = re.compile(r"(?:authorization\s*:\s*)?bearer\s+(?P<value>\S.*)", re.IGNORECASE | re.DOTALL)
# A key that the web page shows only in part: `sk-...abcd`, `sk-***`.
_MASKED = re.compile(r"\.\.\.|\*{3}|^[x.*•-]+$", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"^<.*>$|^\[.*\]$|\byour[-_ ]?(?:\w+[-_ ])?(?:api[-_ ]?)?key\b", re.IGNORECASE)
_KEY_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("sk-ant-",),
    "gemini": ("AIza",),
    "openai": ("sk-proj-", "sk-svcacct-"),
    "openrouter": ("sk-or-",),
    "groq": ("gsk_",),
    "xai": ("xai-",),
}
"""Documented key prefixes by host; only prefixes that no other host uses."""


def read_key(pasted: str, spec: ProviderSpec, address: str = "") -> str:
    """Return the key in `pasted` for `spec` at `address` (empty: its default address); raise `ValueError`."""
    address = address or spec.base_url
    key, name = _unwrap_key(pasted)
    owner = _owner_of_variable(name)
    if owner and not _uses_variable(spec, name):
        raise ValueError(f"{name} is the variable of {owner}, so this is not a key for {spec.name}")
    if not key:
        raise ValueError("no key was given")
    if key.startswith("$"):
        raise ValueError("that is the name of a variable, not its value")
    if key.upper() in {variable for provider_spec in PROVIDERS.values() for variable in provider_spec.key_variables}:
        raise ValueError(f"{key.upper()} is the name of a variable, not its value")
    if re.match(r"(?:https?|file)://", key, re.IGNORECASE):
        raise ValueError("that is a URL, not a key")
    if key.startswith(("{", "-----BEGIN")):
        raise ValueError(f"that looks like the content of a file; a key for {spec.name} is one word")
    if _MASKED.search(key):
        raise ValueError("part of that key is hidden; copy it where it is shown in full")
    if _PLACEHOLDER.search(key):
        raise ValueError("that is a placeholder, not a key; copy your own key")
    if not is_sendable(key):
        raise ValueError(f"that contains characters that no {spec.name} key has; copy only the key")
    if len(key) < MIN_KEY_CHARS and not is_local(address):
        raise ValueError("that is too short for a key; copy it again")
    key_owner = _owner_of_key(key)
    if key_owner and address == spec.base_url and key_name(spec) != key_owner and spec.name in PROVIDERS:
        raise ValueError(f"that looks like a key for {key_owner}, not for {spec.name}")
    return key


def _unwrap_key(pasted: str) -> Sourced:
    """Return the first line with content, without the wrapping of the key; its source is the variable in the line."""
    lines = _BRACKETS.sub("", pasted).splitlines()
    text = next((line for line in lines if line.strip(_WRAPPING)), "")
    name = ""
    while True:
        before = text
        text = text.strip(_WRAPPING)
        if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
            text = text[1:-1]
        elif (bearer := _BEARER.fullmatch(text)) is not None:
            text = bearer["value"]
        elif (assigned := _ASSIGNED.fullmatch(text)) is not None and _is_assignment(assigned):
            name = assigned["name"]
            text = _first_word(assigned["value"])
        if text == before:
            return Sourced(text, name)


def _is_assignment(match: re.Match[str]) -> bool:
    """Return whether this is an assignment, not a key that contains `=`, such as Base64 padding."""
    is_padding = not match["value"].strip("= ")
    return not is_padding and (match["word"] is not None or _KEY_NAME.search(match["name"]) is not None)


def _first_word(value: str) -> str:
    """Return a value up to its closing quote, or up to the space before a comment."""
    value = value.lstrip(_WRAPPING)
    if value and value[0] in _QUOTES:
        end = next((index for index, char in enumerate(value) if index and char in _QUOTES), len(value))
        return value[1:end]
    return re.split(r"(?<!\s)(?:\s++#|\s*+;|\s++&&)", value, maxsplit=1)[0]


def _owner_of_variable(name: str) -> str:
    """Return the provider with this key variable, empty if there is none."""
    return next((spec.name for spec in PROVIDERS.values() if name.upper() in spec.key_variables), "")


def _uses_variable(spec: ProviderSpec, name: str) -> bool:
    """Return whether this variable is one of the provider's variables, configured or built in."""
    built_in = PROVIDERS.get(spec.name, spec)
    return name.upper() in (*spec.key_variables, *built_in.key_variables)


def _owner_of_key(key: str) -> str:
    return next((name for name, prefixes in _KEY_PREFIXES.items() if key.startswith(prefixes)), "")


# A key without a documented prefix: `3f9c0b7e…` of a host that issues only letters and digits.
_PLAIN_KEY = re.compile(r"(?=[^\d]*\d)(?=.*[A-Za-z])[\w.-]{24,}", re.ASCII)


def owner_of_pasted_key(pasted: str) -> str | None:
    """Return the provider of a pasted key: empty if the provider is unknown, None if it is probably not a key.

    The format or the variable names the provider: `sk-ant-…`, `GROQ_API_KEY=…`.
    """
    key, variable = _unwrap_key(pasted)
    if len(key) < MIN_KEY_CHARS:
        return None
    if owner := _owner_of_variable(variable) or _owner_of_key(key):
        return owner
    looks_like_key = _PLAIN_KEY.fullmatch(key) is not None or Redactor().redact(key) != key
    return "" if looks_like_key else None
