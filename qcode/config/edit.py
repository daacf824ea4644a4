"""The change of one key or table of a `config.toml`, validated as if it were written by hand.

`with_value` and `without_value` are pure, and keep comments and the order of keys. For a new key, several positions are
tried: each candidate text is parsed, and the first with exactly the expected values is used. `change` writes the file;
`change_checked` writes it only if the whole file will be valid. Neither changes the running session.
"""

from __future__ import annotations

import contextlib
import copy
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from qcode.config import state_file
from qcode.config.kinds import toml_type_name
from qcode.config.lines import KeyPositions, TomlPath, find_positions, parse_key
from qcode.config.load import Scope, convert_value, parse_settings, parse_toml, read_config_text
from qcode.config.schema import Key, KeyPath, dotted, find_key, is_table, nearest_key_hint, toml_string
from qcode.config.settings import Settings
from qcode.protocol.errors import ConfigError, UsageError

_MAX_PARTS = 100
"""The maximum number of parts of a typed key."""
_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?\r?\n?")


def with_value(text: str, path: TomlPath, value: object) -> str:
    """Return `text` with the key set to a string, number or boolean. Raise `ValueError` if that is not possible."""
    expected = _changed_values(tomllib.loads(text), path, value)
    return _first_exact(_candidates(text, find_positions(text), path, literal(value)), expected)


def without_value(text: str, path: TomlPath) -> str:
    """Return `text` without the key, which may be missing already. Raise `ValueError` if that is not possible."""
    positions = find_positions(text)
    if path not in positions.keys:
        return text
    return _first_exact(_removals(text, positions, path), _changed_values(tomllib.loads(text), path, None))


def with_table(text: str, path: TomlPath, values: dict[str, Any]) -> str:
    """Return `text` with a new table at its end. Raise `ValueError` if the table exists, or cannot be added."""
    values_before = tomllib.loads(text)
    if _value_at(values_before, path) is not None:
        raise ValueError(f"{dotted(path)} is already defined")
    newline = _newline_of(text)
    rows = [f"[{dotted(path)}]", *(f"{dotted((key,))} = {literal(value)}" for key, value in values.items())]
    before = f"{text.rstrip()}{newline}{newline}" if text.strip() else ""
    candidate = before + "".join(f"{row}{newline}" for row in rows)
    return _first_exact(iter([candidate]), _changed_values(values_before, path, values))


def with_items(text: str, path: TomlPath, items: list[str]) -> str:
    """Return `text` with strings added at the start of a list, which may be missing.

    Raise `ValueError` if that is not possible.
    """
    values_before = tomllib.loads(text)
    current = _value_at(values_before, path)
    if current is None or current == []:
        return with_value(text, path, list(items))
    if not isinstance(current, list):
        raise ValueError(f"{dotted(path)} cannot be set: it is not a list")
    expected = _changed_values(values_before, path, [*items, *current])
    position = find_positions(text).keys.get(path)
    if position is None:
        raise ValueError("qcode cannot change this file without rewriting it; edit it by hand")
    return _first_exact(_prepend_items(text, position.value_start + 1, items), expected)


def _prepend_items(text: str, start: int, items: list[str]) -> Iterator[str]:
    """Yield `text` with items inserted at `start`, after a `[`; one per line if a line break follows it."""
    line_break = re.match(r"[ \t]*\r?\n([ \t]*)", text[start:])
    if line_break is not None:
        newline, indent = _newline_of(line_break[0]), line_break[1]
        yield text[:start] + "".join(f"{newline}{indent}{literal(item)}," for item in items) + text[start:]
    yield text[:start] + "".join(f"{literal(item)}, " for item in items) + text[start:].lstrip(" \t")


def without_table(text: str, path: TomlPath) -> str:
    """Return `text` without a table and the tables in it. Raise `ValueError` if that is not possible."""
    positions = find_positions(text)
    candidates = [_without_sections(text, path)]
    if path in positions.keys:  # an inline table
        candidates += _removals(text, positions, path)
    return _first_exact(iter(candidates), _changed_values(tomllib.loads(text), path, None))


def _newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _without_sections(text: str, path: TomlPath) -> str:
    """Return the text without the sections of a table and of the tables in it.

    A section ends before the blank lines and comments above the next header, because they belong to that header.
    """
    result: list[str] = []
    pending: list[str] = []
    is_dropped = False
    for line in text.splitlines(keepends=True):
        section = _section_in(line)
        if section is not None:
            was_dropped = is_dropped
            is_dropped = section[: len(path)] == path
            if was_dropped and not is_dropped:
                result += pending
            pending = []
        if not is_dropped:
            result.append(line)
        elif not line.strip() or line.lstrip().startswith("#"):
            pending.append(line)
        else:
            pending = []
    remaining = "".join(result)
    return f"{remaining.rstrip()}{_newline_of(text)}" if is_dropped and remaining.strip() else remaining


def _section_in(line: str) -> TomlPath | None:
    """Return the path of the table whose header a line is, None for any other line."""
    header = _HEADER.match(line)
    if header is None:
        return None
    try:
        return parse_key(header[1])
    except tomllib.TOMLDecodeError:
        return None


def literal(value: object) -> str:
    """Return a value as a TOML literal; a list and a table are written on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{dotted((key,))} = {literal(inner)}' for key, inner in value.items())} }}"
    return str(value) if isinstance(value, int | float) else toml_string(str(value))


def _value_at(values: dict[str, Any], path: TomlPath) -> object:
    """Return the value at `path`, None if it is missing or a key above it is not a table."""
    current: object = values
    for part in path:
        current = current.get(part) if isinstance(current, dict) else None
    return current


def _changed_values(values: dict[str, Any], path: TomlPath, value: object) -> dict[str, Any]:
    """Return a copy with one value set, or removed if it is None; raise `ValueError` if a key above is not a table."""
    changed = copy.deepcopy(values)
    table = changed
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ValueError(f"{dotted(path)} cannot be set: a key above it is not a table")
    if value is None:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = value
    return changed


def _first_exact(candidates: Iterator[str], expected: dict[str, Any]) -> str:
    """Return the first candidate that parses as `expected`, apart from empty tables; raise `ValueError` without one."""
    for candidate in candidates:
        try:
            if _without_empty(tomllib.loads(candidate)) == _without_empty(expected):
                return candidate
        except tomllib.TOMLDecodeError:
            continue
    raise ValueError("qcode cannot change this file without rewriting it; edit it by hand")


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without empty tables."""
    pruned = {name: _without_empty(value) if isinstance(value, dict) else value for name, value in values.items()}
    return {name: value for name, value in pruned.items() if value != {}}


def _candidates(text: str, positions: KeyPositions, path: TomlPath, value: str) -> Iterator[str]:
    """Yield `text` with the key changed in place, or added to its table's section, inline table or a new section."""
    newline = _newline_of(text)
    table, pair = path[:-1], f"{dotted(path[-1:])} = {value}"
    if path in positions.keys:
        position = positions.keys[path]
        yield text[: position.value_start] + value + text[position.value_end :]
        return
    if table in positions.section_ends:
        yield _insert_below(text, positions.section_ends[table], pair, newline)
    if table in positions.keys:
        inline = positions.keys[table]
        before, after = text[: inline.value_start], text[inline.value_end :]
        body = text[inline.value_start + 1 : inline.value_end - 1].strip()
        yield before + (f"{{ {pair}, {body} }}" if body else f"{{ {pair} }}") + after
    if not table:
        yield f"{pair}{newline}{newline if text.strip() else ''}{text}"
        return
    if () in positions.section_ends:  # the keys above the first section
        yield _insert_below(text, positions.section_ends[()], f"{dotted(table)}.{pair}", newline)
    gap = ""
    if text.strip():
        gap = newline if text.endswith("\n") else newline * 2
    yield f"{text}{gap}[{dotted(table)}]{newline}{pair}{newline}"


def _insert_below(text: str, position: int, line: str, newline: str) -> str:
    """Insert a line below the line that contains `position`, with the same indentation."""
    line_start, line_end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    rest = text[line_start:]
    indent = rest[: len(rest) - len(rest.lstrip(" \t"))]
    if line_end < 0:
        return f"{text}{newline}{indent}{line}{newline}"
    return f"{text[: line_end + 1]}{indent}{line}{newline}{text[line_end + 1 :]}"


def _removals(text: str, positions: KeyPositions, path: TomlPath) -> Iterator[str]:
    """Yield `text` without the key: with its lines removed, or removed from an inline table."""
    position = positions.keys[path]
    line_start, line_end = text.rfind("\n", 0, position.start) + 1, text.find("\n", position.value_end)
    next_line = len(text) if line_end < 0 else line_end + 1
    after_value = text[position.value_end : next_line].strip()
    if not text[line_start : position.start].strip() and (not after_value or after_value.startswith("#")):
        yield text[:line_start] + text[next_line:]
    before, after = text[: position.start].rstrip(), text[position.value_end :].lstrip()
    if after.startswith(","):
        yield f"{before} {after[1:].lstrip()}"
    if before.endswith(","):
        yield f"{before[:-1]} {after}"
    yield f"{before} {after}"


def is_changeable(key: Key) -> bool:
    """Return whether a key has a single value; lists and tables must be changed in an editor."""
    return "*" not in key.path and not isinstance(key.default, tuple)


def read_typed(key: Key, typed: str) -> object:
    """Parse the typed value of a key. Raise `ConfigError` if it is invalid, with the message for such a file."""
    if refusal := key.refusal(typed.strip()):
        raise ConfigError(refusal)
    first_error: ConfigError | None = None
    for value in _possible_values(typed):
        try:
            convert_value(key, key.path, value)
        except ConfigError as error:
            first_error = first_error or error
        else:
            return value
    # Text without quotes, such as `maybe`, is not TOML. "not a string" would be wrong: the user did not type a string.
    is_quoted = typed.strip()[:1] in ("'", '"')
    raise ConfigError(str(first_error) if is_quoted else str(first_error).removesuffix(", not a string"))


def _possible_values(typed: str) -> list[object]:
    """Return the possible values of a typed text: a TOML value, and the text itself. A date is only text."""
    values: list[object] = [typed.strip()]
    with contextlib.suppress(tomllib.TOMLDecodeError, RecursionError):
        parsed = tomllib.loads(f"value = {typed.strip()}")
        # A text of several lines may set further keys.
        if len(parsed) == 1 and toml_type_name(parsed["value"]) != "a date or time":
            values.insert(0, parsed["value"])
    return values


def change(file: Path, path: KeyPath, value: object | None) -> None:
    """Set a key in a file, which need not exist; None removes the key. The file is replaced atomically.

    Raise `ConfigError` if the file cannot be read, parsed or written.
    """
    _edit(file, lambda text: without_value(text, path) if value is None else with_value(text, path, value))


def change_table(file: Path, path: KeyPath, values: dict[str, Any] | None) -> None:
    """Add a table to a file, which need not exist; None removes the table. Otherwise like `change`."""
    _edit(file, lambda text: without_table(text, path) if values is None else with_table(text, path, values))


def change_checked(
    file: Path, name: str, typed: str | None, scope: Scope, check: Callable[[Settings], object]
) -> KeyPath:
    """Set the key `name` to a typed value, or remove it if None, and return its path.

    The value is TOML, or a string without quotes. An unknown key can be removed, but not set. Raise `UsageError` if the
    key or the value is invalid, and `ConfigError` with file and line if the changed file would be invalid. `check`
    raises `ConfigError` for settings that another package checks. After an error, the file is unchanged.
    """
    path = _parse_typed_key(name)
    if typed is None:
        value = None
    elif (key := find_key(path)) is not None:
        try:
            value = read_typed(key, typed)
        except ConfigError as error:
            raise UsageError(str(error).replace(dotted(key.path), dotted(path), 1)) from None
    elif is_table(path) and "*" not in path:
        value = _possible_values(typed)[0]
        if not isinstance(value, dict):
            raise UsageError(f"{dotted(path)} is a table of keys: set {dotted(path)}.KEY, or give {{ KEY = VALUE }}")
    else:
        raise UsageError(f"unknown key {dotted(path)}; {nearest_key_hint(path)}")

    def changed(text: str) -> str:
        if value is None:
            has_key = path in find_positions(text).keys
            return without_value(text, path) if has_key else without_table(text, path)
        return with_value(text, path, value)

    def is_valid(text: str) -> bool:
        try:
            check(parse_settings(text, file, scope))
        except ConfigError:
            return False
        return True

    def check_change(before: str, after: str) -> None:
        if value is None and not is_valid(before):
            return  # the removal of a key may be the first of several steps that repair the file
        try:
            check(parse_settings(after, file, scope))
        except ConfigError as error:
            raise ConfigError(f"nothing was changed, because the file would be invalid: {error}") from None

    _edit(file, changed, check_change)
    return path


def _parse_typed_key(name: str) -> TomlPath:
    """Return the path of a typed key; raise `UsageError`. A part such as a model's name must be quoted."""
    try:
        path = parse_key(name)
    except ValueError:
        hint = 'quote a part with other characters than letters, digits, - and _: models."openai/gpt-5".images'
        raise UsageError(f"invalid key; {hint}") from None
    if len(path) > _MAX_PARTS:
        raise UsageError(f"invalid key; it has more than {_MAX_PARTS} parts")
    return path


def _edit(file: Path, changed_text: Callable[[str], str], check: Callable[[str, str], None] | None = None) -> None:
    """Replace the text of a file. `check` gets the old and new text and raises `ConfigError` to reject the change."""
    text = read_config_text(file, must_exist=False) or ""
    parse_toml(text, file)
    try:
        changed = changed_text(text)
    except ValueError as error:
        raise ConfigError(str(error), file=file) from None
    if changed == text:
        return
    if check is not None:
        check(text, changed)
    try:
        replace_text(file, changed)
    except OSError as error:
        raise ConfigError(f"cannot write the file: {error.strerror}", file=file) from None


def replace_text(file: Path, text: str) -> None:
    """Replace the content of a file, or of the target of a link, by `text`; keep the permissions. Raise `OSError`."""
    target = file.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else state_file.PRIVATE
    state_file.replace(target, text.encode("utf-8"), mode=mode)
