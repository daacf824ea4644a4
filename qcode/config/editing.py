"""Changes one key of a TOML text and nothing else: comments, order and all that a person wrote stay as they are. Pure.

Several places may fit a new key. Each candidate is read again, and only one that says exactly what was wanted counts.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from typing import Any

from qcode.config.lines import Path, Places, find_places
from qcode.config.schema import dotted, quoted


def with_value(text: str, path: Path, value: object) -> str:
    """Return `text` with the key set to a text, number or truth value; raise `ValueError` where that cannot be."""
    wanted = _set(tomllib.loads(text), path, value)
    return _first_right(_candidates(text, find_places(text), path, literal(value)), wanted)


def without_value(text: str, path: Path) -> str:
    """Return `text` without the key, also where it has none; raise `ValueError` where that cannot be."""
    places = find_places(text)
    if path not in places.pairs:
        return text
    return _first_right(_removals(text, places, path), _set(tomllib.loads(text), path, None))


def literal(value: object) -> str:
    """Write a value as TOML does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else quoted(str(value))


def _set(values: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    """Return the values with one set, or without it where it is None."""
    changed = copy.deepcopy(values)
    table = changed
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ValueError(f"{dotted(path)} has no place in this file")
    if value is None:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = value
    return changed


def _first_right(candidates: Iterator[str], wanted: dict[str, Any]) -> str:
    for candidate in candidates:
        try:
            if _without_empty(tomllib.loads(candidate)) == _without_empty(wanted):
                return candidate
        except tomllib.TOMLDecodeError:
            continue
    raise ValueError("this file is written in a way that only you can change; edit it by hand")


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without empty tables: one that lost its last key says nothing any more."""
    found = {name: _without_empty(value) if isinstance(value, dict) else value for name, value in values.items()}
    return {name: value for name, value in found.items() if value != {}}


def _candidates(text: str, places: Places, path: Path, value: str) -> Iterator[str]:
    """Yield texts with the key in its place, in the table's section, in its inline table, or in a new section."""
    end = "\r\n" if "\r\n" in text else "\n"
    table, pair = path[:-1], f"{dotted(path[-1:])} = {value}"
    if path in places.pairs:
        found = places.pairs[path]
        yield text[: found.value] + value + text[found.end :]
        return
    if table in places.sections:
        yield _after_line(text, places.sections[table], pair, end)
    if table in places.pairs:
        inside = places.pairs[table]
        body = text[inside.value + 1 : inside.end - 1].strip()
        yield text[: inside.value] + (f"{{ {pair}, {body} }}" if body else f"{{ {pair} }}") + text[inside.end :]
    if not table:
        yield f"{pair}{end}{end if text.strip() else ''}{text}"
        return
    if () in places.sections:
        yield _after_line(text, places.sections[()], f"{dotted(table)}.{pair}", end)
    gap = "" if not text.strip() else end if text.endswith("\n") else end * 2
    yield f"{text}{gap}[{dotted(table)}]{end}{pair}{end}"


def _after_line(text: str, at: int, line: str, end: str) -> str:
    """Put a line below the one that `at` is in, indented like it."""
    begin, stop = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    indent = text[begin : len(text) - len(text[begin:].lstrip(" \t"))]
    if stop < 0:
        return f"{text}{end}{indent}{line}{end}"
    return f"{text[: stop + 1]}{indent}{line}{end}{text[stop + 1 :]}"


def _removals(text: str, places: Places, path: Path) -> Iterator[str]:
    """Yield texts without the pair: without its whole lines, or without it between the commas of an inline table."""
    pair = places.pairs[path]
    begin, stop = text.rfind("\n", 0, pair.key) + 1, text.find("\n", pair.end)
    stop = len(text) if stop < 0 else stop + 1
    rest = text[pair.end : stop].strip()
    if not text[begin : pair.key].strip() and (not rest or rest.startswith("#")):
        yield text[:begin] + text[stop:]
    before, after = text[: pair.key].rstrip(), text[pair.end :].lstrip()
    if after.startswith(","):
        yield f"{before} {after[1:].lstrip()}"
    if before.endswith(","):
        yield f"{before[:-1]} {after}"
    yield f"{before} {after}"
