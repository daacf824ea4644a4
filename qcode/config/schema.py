"""The schema of the configuration: each key with its path, kind and default, derived from the classes of `settings`.

In a path, `*` stands for a name that the user chooses, as in `("providers", "*", "type")`. Messages and the
documentation show a path as a dotted TOML key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeAlias

from qcode.config import kinds
from qcode.config.kinds import ValueKind
from qcode.config.settings import (
    AfterEditSettings,
    HookSettings,
    KeySchema,
    Mcp,
    McpServer,
    ModelSettings,
    Network,
    Output,
    PermissionSettings,
    ProviderSettings,
    Sessions,
    Settings,
    SkillSettings,
    Tools,
    Ui,
)
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

KeyPath: TypeAlias = "tuple[str, ...]"

_BARE_KEY = lazy_pattern(r"[A-Za-z0-9_-]+")
_SAME_TABLE_BONUS = 0.3
"""Added to the likeness of names (0 to 1) if a suggested key is in the same table as the unknown key."""
_OTHER_TABLE_WEIGHT = 0.95
"""The factor for the likeness of the last part alone, if a suggested key is in another table."""
_PLACEHOLDERS = {
    "providers": "NAME",
    "models": '"PROVIDER/MODEL"',
    "mcp_servers": "NAME",
    "headers": "HEADER",
    "env": "VARIABLE",
    "keys": "COMMAND",
    "servers": "LANGUAGE",
}
"""The word shown instead of `*`, by the name of the table."""

_PRICES = {
    "input": "the price of a million input tokens in USD; requires price.output",
    "output": "the price of a million output tokens in USD",
    "cache_read": "the price of a million tokens read from a cache, in USD; default: the input price",
    "cache_write": "the price of a million tokens written to a cache, in USD; default: the input price",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration."""

    path: KeyPath
    meta: KeySchema
    default: object

    @property
    def name(self) -> str:
        """The name of the key in the documentation, such as `models."PROVIDER/MODEL".images`."""
        tables = ("", *self.path)  # the table of each part: the part before it
        return ".".join(
            _PLACEHOLDERS[table] if part == "*" else part for table, part in zip(tables, self.path, strict=False)
        )

    @property
    def kind(self) -> ValueKind:
        return self.meta.kind

    @property
    def choices(self) -> tuple[str, ...]:
        """The strings that a file may set, empty for any string."""
        return tuple(choice for choice in self.kind.choices if not self.refusal(choice))

    def refusal(self, value: object) -> str:
        """Return why no file may set the key to this valid value, empty if a file may."""
        if self.path == ("permissions", "mode") and value == "bypass":
            return "`bypass` cannot be set in a config file; start qcode with --permission-mode bypass"
        return ""


def _keys_of(owner: type[Any], prefix: KeyPath) -> Iterator[Key]:
    """Yield a key for each field declared with `settings.key`; a mapping is a table with user-chosen names."""
    for field in fields(owner):
        meta = field.metadata.get("key")
        if meta is None:
            continue
        is_mapping = str(field.type).startswith("Mapping")
        path = (*prefix, field.name, "*") if is_mapping else (*prefix, field.name)
        yield Key(path, meta, None if is_mapping else field.default)


def _all_keys() -> Iterator[Key]:
    yield from _keys_of(Settings, ())
    yield from _keys_of(Output, ("output",))
    yield from _keys_of(Network, ("network",))
    yield from _keys_of(Mcp, ("mcp",))
    yield from _keys_of(PermissionSettings, ("permissions",))
    yield from _keys_of(Tools, ("tools",))
    yield from _keys_of(Ui, ("ui",))
    yield from _keys_of(Sessions, ("sessions",))
    yield from _keys_of(HookSettings, ("hooks",))
    yield from _keys_of(AfterEditSettings, ("after_edit",))
    yield from _keys_of(SkillSettings, ("skills",))
    provider = ("providers", "*")
    yield from _keys_of(ProviderSettings, provider)
    for key in _keys_of(Network, ()):
        meaning = f"overrides network.{key.path[-1]} for this provider"
        yield _inherited(key, provider, meaning, is_project_allowed=False)
    yield from _keys_of(ModelSettings, ("models", "*"))
    for key in _keys_of(Output, ()):
        yield _inherited(key, ("models", "*", "output"), f"overrides output.{key.path[-1]} for this model")
    for name, meaning in _PRICES.items():
        # A project that sets a price could disable the budget limit.
        yield Key(("models", "*", "price", name), KeySchema(kinds.price(), meaning, is_project_allowed=False), None)
    yield from _keys_of(McpServer, ("mcp_servers", "*"))


def _inherited(key: Key, prefix: KeyPath, meaning: str, *, is_project_allowed: bool = True) -> Key:
    """Return a global key as a key of one provider or model, without a flag; the global value is its default."""
    return Key((*prefix, *key.path), KeySchema(key.kind, meaning, is_project_allowed=is_project_allowed), None)


KEYS: tuple[Key, ...] = tuple(_all_keys())


_KEYS_BY_SIZE: dict[tuple[str, int], list[Key]] = {}
"""The keys by the first part and the length of their path."""
for _key in KEYS:
    _KEYS_BY_SIZE.setdefault((_key.path[0], len(_key.path)), []).append(_key)


_TABLES: dict[tuple[str, int], dict[KeyPath, None]] = {}
"""The tables by the first part and the length of their path, each once."""
for _key in KEYS:
    for _size in range(1, len(_key.path)):
        _TABLES.setdefault((_key.path[0], _size), {})[_key.path[:_size]] = None


@lru_cache(maxsize=256)
def find_key(path: KeyPath) -> Key | None:
    """Return the key at `path`, or None."""
    candidates = _KEYS_BY_SIZE.get((path[0], len(path)), ()) if path else ()
    ends = ("*", path[-1]) if path else ()  # most keys of a table differ in the last part
    return next((key for key in candidates if key.path[-1] in ends and _matches(key.path, path)), None)


@lru_cache(maxsize=256)
def is_table(path: KeyPath) -> bool:
    """Return whether `path` is a table with keys."""
    # Not in `_TABLES`: `canonical` maps the keys of `providers.NAME.network` to `providers.NAME`.
    if len(path) == 3 and path[0] == "providers" and path[2] == "network":
        return True
    return any(_matches(table, path) for table in _TABLES.get((path[0], len(path)), ()))


def canonical(path: KeyPath) -> KeyPath:
    """Return the path under which a key is stored: `providers.NAME.network.KEY` is `providers.NAME.KEY`."""
    if len(path) == 4 and path[0] == "providers" and path[2] == "network":
        return (path[0], path[1], path[3])
    return path


def nearest_key_hint(path: KeyPath) -> str:
    """Return `the nearest is X` with the key or table most similar to `path`. The same table is preferred."""
    from qcode.text.match import likeness

    def rank(candidate: KeyPath) -> tuple[float, int]:
        last = likeness(path[-1], candidate[-1])
        if candidate[:-1] == path[:-1]:
            return last + _SAME_TABLE_BONUS, -len(candidate)
        whole = likeness(dotted(path), dotted(candidate))
        return max(whole, _OTHER_TABLE_WEIGHT * last), -len(candidate)

    return f"the nearest is {dotted(max(_candidates(path), key=rank))}"


def _candidates(path: KeyPath) -> Iterator[KeyPath]:
    """Yield the keys and tables that `path` may have meant, with `*` replaced by the names in `path`."""
    for key in KEYS:
        filled = _fill_wildcards(key.path, path)
        for size in range(1, len(filled) + 1):
            has_typed_name = key.path[size - 1] == "*"
            is_already_typed = filled[:size] == path[:size]
            if not has_typed_name and not is_already_typed:
                yield filled[:size]


def dotted(path: KeyPath) -> str:
    """Format a path as TOML: bare keys unchanged, other parts quoted."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else toml_string(part) for part in path)


def toml_string(text: str) -> str:
    """Return `text` as a basic TOML string, in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda control: f"\\u{ord(control[0]):04x}", escaped) + '"'


def _matches(pattern: KeyPath, path: KeyPath) -> bool:
    return all(expected in ("*", part) for expected, part in zip(pattern, path, strict=False))


def _fill_wildcards(pattern: KeyPath, path: KeyPath) -> KeyPath:
    """Replace each `*` in `pattern` with the name in `path`, as far as `path` is inside that table."""
    filled: KeyPath = ()
    for index, part in enumerate(pattern):
        if part == "*":
            is_inside = len(path) > index and path[:index] == filled
            part = path[index] if is_inside else _PLACEHOLDERS[pattern[index - 1]].strip('"')
        filled = (*filled, part)
    return filled


def leaves(values: Mapping[KeyPath, object], *prefix: str) -> dict[str, Any]:
    """Return the values directly below `prefix`, by the last part of their path."""
    size = len(prefix)
    return {path[-1]: value for path, value in values.items() if len(path) == size + 1 and path[:size] == prefix}
