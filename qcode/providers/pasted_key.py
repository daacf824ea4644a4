"""Reads a key as people paste it: takes off what came along, refuses what cannot be one. Pure.

A refusal is a `ValueError` with one line that never holds what was pasted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from qcode.providers.addresses import is_local
from qcode.providers.registry import PROVIDERS, ProviderSpec, is_sendable, key_name

SHORTEST = 8

# What a terminal puts around a paste, with and without the escape character, which some programs swallow.
_BRACKETS = re.compile(r"\x1b?\[20[01]~")
_INVISIBLE = "".join(map(chr, (0x00A0, 0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)))
_AROUND = _INVISIBLE + " \t\r\n\v\f,;"
_QUOTES = "\"'`\u2018\u2019\u201c\u201d"
_ASSIGNED = re.compile(
    r"(?P<word>export\s+|set\s+(?:-\w+\s+)*|setenv\s+|\$env:)?[\"'`]?(?P<name>[A-Za-z_][A-Za-z0-9_-]*)[\"'`]?"
    r"(?:\s*=\s*|:\s+|:(?=[\"'`])|\s+)(?P<value>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_KEY_NAME = re.compile(r"key|token|secret|credential", re.IGNORECASE)
_BEARER = re.compile(r"(?:authorization\s*:\s*)?bearer\s+(?P<value>\S.*)", re.IGNORECASE | re.DOTALL)
_HIDDEN = re.compile(r"\.\.\.|\*{3}|^[x.*•-]+$", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"^<.*>$|^\[.*\]$|\byour[-_ ]?(?:\w+[-_ ])?(?:api[-_ ]?)?key\b", re.IGNORECASE)
_SIGNS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("sk-ant-",),
    "gemini": ("AIza",),
    "openai": ("sk-proj-", "sk-svcacct-"),
    "openrouter": ("sk-or-",),
    "groq": ("gsk_",),
    "xai": ("xai-",),
}
"""How the keys of a host begin, as the hosts document it; only beginnings that no other host uses."""


def read_key(pasted: str, spec: ProviderSpec, address: str = "") -> str:
    """Return the key in `pasted`, meant for `spec` at `address` (its own where empty); raise `ValueError`."""
    address = address or spec.base_url
    key, name = _unwrapped(pasted)
    owner = _owner_of_variable(name)
    if owner and not _reads(spec, name):
        raise ValueError(f"{name} is the variable of {owner}: this is no key for {spec.name}")
    if not key:
        raise ValueError("no key was given")
    if key.startswith("$"):
        raise ValueError("that is the name of a variable, not what is in it")
    if key.upper() in {variable for one in PROVIDERS.values() for variable in one.key_variables}:
        raise ValueError(f"{key.upper()} is the name of a variable, not what is in it")
    if re.match(r"(?:https?|file)://", key, re.IGNORECASE):
        raise ValueError("that is an address, not a key")
    if key.startswith(("{", "-----BEGIN")):
        raise ValueError(f"that is the content of a file; a key of {spec.name} is one word")
    if _HIDDEN.search(key):
        raise ValueError("part of that key is hidden; copy it where it is shown in full")
    if _PLACEHOLDER.search(key):
        raise ValueError("that stands for a key and is none; copy your own")
    if not is_sendable(key):
        raise ValueError(f"that holds spaces or characters no key of {spec.name} has; copy the key alone")
    if len(key) < SHORTEST and not is_local(address):
        raise ValueError("that is too short for a key; copy it again")
    other = _owner_of_key(key)
    if other and address == spec.base_url and key_name(spec) != other and spec.name in PROVIDERS:
        raise ValueError(f"that looks like a key of {other}, not of {spec.name}")
    return key


def _unwrapped(pasted: str) -> tuple[str, str]:
    """Return the first line that holds something, without what is around the key, and the variable it was set to."""
    text, name = _BRACKETS.sub("", pasted), ""
    text = next((line for line in text.splitlines() if line.strip(_AROUND)), "")
    while True:
        before, text = text, text.strip(_AROUND)
        if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
            text = text[1:-1]
        elif (bearer := _BEARER.fullmatch(text)) is not None:
            text = bearer["value"]
        elif (assigned := _ASSIGNED.fullmatch(text)) is not None and _is_assignment(assigned):
            name, text = assigned["name"], _first_word(assigned["value"])
        if text == before:
            return text, name


def _is_assignment(found: re.Match[str]) -> bool:
    """Tell an assignment from a key with a sign of equality in it, as Base64 ends in them."""
    is_padding = not found["value"].strip("= ")
    return not is_padding and (found["word"] is not None or _KEY_NAME.search(found["name"]) is not None)


def _first_word(value: str) -> str:
    """Return a value up to its closing quote, or up to the space before a comment."""
    value = value.lstrip(_AROUND)
    if value[:1] in _QUOTES and value[:1]:
        end = next((place for place, char in enumerate(value[1:], start=1) if char in _QUOTES), -1)
        return value[1:end] if end > 0 else value[1:]
    return re.split(r"\s+#|\s*;|\s+&&", value, maxsplit=1)[0]


def _owner_of_variable(name: str) -> str:
    return next((one.name for one in PROVIDERS.values() if name.upper() in one.key_variables), "") if name else ""


def _reads(spec: ProviderSpec, name: str) -> bool:
    known = PROVIDERS.get(spec.name)
    return name.upper() in (*spec.key_variables, *(known.key_variables if known is not None else ()))


def _owner_of_key(key: str) -> str:
    return next((name for name, signs in _SIGNS.items() if key.startswith(signs)), "")
