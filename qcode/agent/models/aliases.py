"""Short names of models, such as `sonnet`, `flash` and `gpt`, which users and Claude Code's SDKs write.

Separate from `selection`, because it loads only for a name without a provider. A short name means the newest model of
its family at the first host with a credential.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from qcode.providers import catalog

_ONE_MILLION = "[1m]"  # the suffix with which Claude Code requests a window of a million tokens
_VERSION = r"(\d+)(?:[.-](\d{1,2}))?"
_CLAUDE = ("fable", "opus", "sonnet", "haiku")
# Each family with its hosts in order of preference, and the pattern of its model names at each host.
_FAMILIES: Mapping[str, tuple[tuple[str, str], ...]] = {
    **{
        name: (
            ("anthropic", rf"claude-{name}-{_VERSION}"),
            ("bedrock", rf"global\.anthropic\.claude-{name}-{_VERSION}.*"),
        )
        for name in _CLAUDE
    },
    "flash": (("gemini", rf"gemini-{_VERSION}-flash"),),
    "flash-lite": (("gemini", rf"gemini-{_VERSION}-flash-lite"),),
    "pro": (("gemini", rf"gemini-{_VERSION}-pro(?:-preview)?"),),
}
_DEFAULT_HOSTS = {"claude": ("anthropic", "bedrock"), "gpt": ("openai",)}
"""Short names that mean the default model of these hosts."""
_OTHER_NAMES = {"opusplan": "opus"}  # Claude Code's mode that plans with Opus
SHORT_NAMES = (*_DEFAULT_HOSTS, *_FAMILIES)


class NoCredentialError(ValueError):
    """No host of a family has a credential. The text is one line that names the newest model."""


def resolve_alias(name: str, has_credential: Callable[[str], bool]) -> str | None:
    """Return `provider/model` for a short name, None for any other name; raise `NoCredentialError`.

    `has_credential` returns whether a credential for the named provider exists.
    """
    alias = name.strip().lower().removesuffix(_ONE_MILLION)
    candidates = list(_candidates(_OTHER_NAMES.get(alias, alias)))
    if not candidates:
        return None
    usable = next((f"{host}/{model}" for host, model in candidates if has_credential(host)), None)
    if usable is None:
        host, model = candidates[0]
        raise NoCredentialError(f'"{name}" is {host}/{model}, and there is no key for {host}')
    return usable


def _candidates(alias: str) -> Iterator[tuple[str, str]]:
    """Yield a host and its model for each host of a short name, in order of preference."""
    for host in _DEFAULT_HOSTS.get(alias, ()):
        yield host, catalog.default_model(host)
    for host, pattern in _FAMILIES.get(alias, ()):
        versions: list[tuple[int, int, str]] = []  # major version, minor version, name
        for full_name, _ in catalog.models():
            provider, _, model = full_name.partition("/")
            match = re.fullmatch(pattern, model) if provider == host else None
            if match is not None:
                versions.append((int(match[1]), int(match[2] or 0), model))
        if versions:
            _, _, newest = max(versions)
            yield host, newest
