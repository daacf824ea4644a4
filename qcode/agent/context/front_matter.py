"""Front matter: the YAML fields between two `---` lines at the start of a Markdown file, and the text after them.

Skills, commands, agents and rules all use this parser. The parser reads no files and knows no fields. The caller
requests a field as text, switch, number or names; for a value of another type, the error has the form `file:line:
problem`. A separate module because PyYAML loads with the first file that has front matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from qcode.text.clean import one_line, single_spaced
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from yaml import Event, ScalarEvent

MAX_BYTES = 16 * 1024
"""The largest front matter, without its two `---` lines."""

_MAX_DEPTH = 16
_FENCE = "---"
_SWITCH_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

YamlValue: TypeAlias = "str | Scalar | list[YamlValue] | dict[str, YamlValue]"


class FrontMatterError(ValueError):
    """Front matter, or one of its fields, cannot be used. The text is one line for the user: `file:line: problem`."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """The source of an unquoted value that YAML does not read as text: `123`, `yes`, `2026-01-31`, or nothing."""

    source: str
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class FrontMatterField:
    """A field of front matter."""

    value: YamlValue
    line: int
    """The line of the field in the file."""
    source: str
    """The source text of the value."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The front matter and the body of a file. Methods raise `FrontMatterError`."""

    label: str
    """The path of the file in errors."""
    body: str
    """The text after the front matter."""
    body_line: int = 1
    """The line of the file at which the body begins."""
    is_present: bool = False
    """The file begins with front matter; otherwise the whole file is the body."""
    fields: Mapping[str, FrontMatterField] = field(default_factory=lambda: MappingProxyType({}))
    """The fields in the order of the file."""
    warning: str = ""
    """Not empty if the front matter is not YAML, so that only lines of the form `name: value` were read."""

    def text(self, name: str) -> str | None:
        """Return the text of a field, None if the field is missing or empty."""
        entry = self._field(name)
        if entry is None:
            return None
        if isinstance(entry.value, Scalar):
            raise self.error(name, f'`{name}` must be a string; quote it: {name}: "{one_line(entry.value.source, 60)}"')
        if not isinstance(entry.value, str):
            raise self.error(name, f"`{name}` must be a string, not a {_type_name(entry.value)}")
        return entry.value.strip() or None

    def source(self, name: str) -> str | None:
        """Return the source of a field's value on one line, such as `[file] [format]`; None if the value is empty."""
        entry = self._field(name)
        if entry is None:
            return None
        source = entry.value if isinstance(entry.value, str) else entry.source
        return single_spaced(source, 400) or None

    def switch(self, name: str, *, default: bool) -> bool:
        """Return a field that is true or false, also written yes, no, on, off, 1 or 0."""
        entry = self._field(name)
        if entry is None:
            return default
        value = entry.value.source if isinstance(entry.value, Scalar) else entry.value
        is_on = _SWITCH_WORDS.get(value.strip().lower()) if isinstance(value, str) else None
        if is_on is None:
            raise self.error(name, f"`{name}` must be true or false")
        return is_on

    def number(self, name: str) -> int | None:
        """Return a whole number, None if the field is missing or empty."""
        entry = self._field(name)
        if entry is None:
            return None
        value = entry.value.source if isinstance(entry.value, Scalar) else entry.value
        if not isinstance(value, str) or re.fullmatch(r"[0-9]{1,9}", value.strip()) is None:
            raise self.error(name, f"`{name}` must be a whole number")
        return int(value)

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return a list of strings, or a string split at commas and blanks outside parentheses; None without the field.

        `Read, Bash(git log:*)` and `[Read, "Bash(git log:*)"]` are the same names.
        """
        entry = self._field(name)
        if entry is None:
            return None
        if not isinstance(entry.value, list):
            return split_names(self.text(name) or "")
        items = [item for item in entry.value if isinstance(item, str)]
        if len(items) < len(entry.value):
            raise self.error(name, f"`{name}` must be a list of strings; quote its items")
        return tuple(item.strip() for item in items if item.strip())

    def error(self, name: str, problem: str) -> FrontMatterError:
        """Return an error about a field, at its line."""
        return _error(self.label, self.fields[name].line if name in self.fields else 1, problem)

    def _field(self, name: str) -> FrontMatterField | None:
        entry = self.fields.get(name)
        is_empty = entry is not None and isinstance(entry.value, Scalar) and entry.value.is_empty
        return None if is_empty else entry


def read_front_matter(data: bytes | str, label: str, *, is_lenient: bool = False) -> FrontMatter:
    """Split a file into its fields and body; raise `FrontMatterError`. `label` is its path for the user.

    With `is_lenient`, the fields of front matter that is not YAML are its lines `name: value`, with a warning. A byte
    order mark and CRLF are accepted; the body has LF. Anchors, aliases, tags and repeated names are errors.
    """
    text = _decoded(data, label)
    first, newline, after_first = text.partition("\n")
    if first.rstrip() != _FENCE or not newline:
        return FrontMatter(label, text)
    lines = after_first.split("\n")
    last = next((number for number, line in enumerate(lines) if line.rstrip() == _FENCE), None)
    if last is None:
        raise _error(label, 1, "the front matter has no second --- line")
    header = "\n".join([*lines[:last], ""])
    if _size(header, label) > MAX_BYTES:
        raise _error(label, 1, f"the front matter is larger than {MAX_BYTES // 1024} KiB")
    warning = ""
    try:
        fields = _parse_yaml(header, label)
    except FrontMatterError as error:
        fields = _line_fields(header, label) if is_lenient else {}
        if not fields:
            raise
        warning = one_line(f"{error}; only its lines of the form `name: value` are used")
    body = "\n".join(lines[last + 1 :])
    body_line = last + 3  # `last` is an index in the lines after the first, so the closing fence is line `last` + 2
    return FrontMatter(label, body, body_line, is_present=True, fields=MappingProxyType(fields), warning=warning)


def split_names(text: str) -> tuple[str, ...]:
    """Split at commas and blanks outside parentheses; an unclosed parenthesis extends to the end."""
    return tuple(re.findall(r"[^\s,(]+(?:\([^()]*(?:\)|$))?", text))


def unwrap_scalars(value: YamlValue) -> object:
    """Return a value as strings, lists and maps: each `Scalar` becomes its source."""
    match value:
        case Scalar(source=written):
            return written
        case list():
            return [unwrap_scalars(item) for item in value]
        case dict():
            return {name: unwrap_scalars(item) for name, item in value.items()}
        case _:
            return value


def _decoded(data: bytes | str, label: str) -> str:
    if isinstance(data, bytes):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _error(label, data[: error.start].count(b"\n") + 1, "not UTF-8 text") from None
    else:
        text = data
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _size(header: str, label: str) -> int:
    try:
        return len(header.encode())
    except UnicodeEncodeError as error:  # bytes that were decoded with `surrogateescape`
        raise _error(label, header[: error.start].count("\n") + 2, "not UTF-8 text") from None


def _parse_yaml(header: str, label: str) -> dict[str, FrontMatterField]:
    """Parse YAML; if that fails, try again after quoting values that were clearly meant as text."""
    from yaml import YAMLError  # 25 ms to import

    try:
        return _Composer(header, label).fields()
    except YAMLError as error:
        quoted = "\n".join(_quoted(line, below) for line, below in _with_next(header.split("\n")))
        if quoted != header:
            try:
                return _Composer(quoted, label).fields()
            except YAMLError:
                pass  # the first error quotes the text of the user
        raise _yaml_error(error, header, label) from None


_LINE = lazy_pattern(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")


def _line_fields(header: str, label: str) -> dict[str, FrontMatterField]:
    """Return the fields of lines of the form `name: value`, parsed one by one; the first field of a name counts.

    A value that is not YAML is text. Some agents of Claude Code continue their `description` in further lines of text.
    """
    from yaml import YAMLError

    fields: dict[str, FrontMatterField] = {}
    lines = header.split("\n")
    for number, line in enumerate(lines):
        match = _LINE.fullmatch(line.rstrip())
        if match is None or match[1] in fields:
            continue
        text = (match[2] or "").strip()
        below: list[str] = []
        if not text:
            # A list of tools may be below its name: without it, an agent would have all tools.
            below = list(takewhile(lambda following: following.startswith((" ", "\t", "-")), lines[number + 1 :]))
        try:
            value = _Composer("\n".join([line, *below]), label).fields()[match[1]].value
        except (YAMLError, FrontMatterError, KeyError):
            if below:
                return {}
            value = text
        fields[match[1]] = FrontMatterField(value, number + 2, text)
    return fields


# `name: value` on one line, with a value that is neither quoted nor a block.
_ONE_LINE = lazy_pattern(r"([ \t]*[\w-]+:[ \t]+)([^\s'\"|>].*)")
# A complete YAML list or map in brackets, such as `[a, b]`; `[file] [format]` is text.
_FLOW = lazy_pattern(r"\[[^\[\]]*\]|\{[^{}]*\}")


def _quoted(line: str, below: str) -> str:
    """Return `name: value` with its value in quotes if YAML cannot read it as text; any other line unchanged.

    `description: Use when: asked`, `argument-hint: [file] [format]` and `description: @mention` are such lines.
    """
    match = _ONE_LINE.fullmatch(line.rstrip())
    is_continued = below.startswith((" ", "\t")) and below.strip() != "" and not line.startswith((" ", "\t"))
    if match is None or is_continued:
        return line
    name, value = match.groups()
    if value[0] in "[{":
        is_text = _FLOW.fullmatch(value) is None
    else:
        is_text = ": " in value or value.endswith(":") or value[0] in "@`%"
    escaped = value.replace("'", "''")
    return f"{name}'{escaped}'" if is_text else line


def _with_next(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Return each line with the line below it, which is empty for the last line."""
    return zip(lines, [*lines[1:], ""], strict=True)


class _Composer:
    """A builder of the fields from the events of PyYAML. Without its constructors, no value becomes a Python object."""

    def __init__(self, text: str, label: str) -> None:
        import yaml

        self._yaml = yaml
        self._text = text
        self._label = label
        # The scanner in C is nine times as fast; not every build of PyYAML has it.
        self._loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)

    def fields(self) -> dict[str, FrontMatterField]:
        """Return the fields; raise `FrontMatterError` or `YAMLError`."""
        yaml = self._yaml
        try:
            self._next()  # the start of the stream
            if isinstance(self._next(), yaml.StreamEndEvent):
                return {}
            start = self._next()
            if isinstance(start, yaml.DocumentEndEvent) or (isinstance(start, yaml.ScalarEvent) and not start.value):
                return {}
            if not isinstance(start, yaml.MappingStartEvent):
                self._refuse(start, "the front matter must be lines of the form `name: value`")
            fields_by_name = self._top_level()
            self._next()  # the end of the document
            end = self._next()
            if not isinstance(end, yaml.StreamEndEvent):
                self._refuse(end, "the front matter has a second document")
            return fields_by_name
        finally:
            self._loader.dispose()

    def _top_level(self) -> dict[str, FrontMatterField]:
        fields: dict[str, FrontMatterField] = {}
        while True:
            key = self._next()
            if isinstance(key, self._yaml.MappingEndEvent):
                return fields
            name = self._key(key, fields)
            event = self._next()
            start = self._start
            value = self._value(event, 1)
            fields[name] = FrontMatterField(value, _line_of(key), self._text[start : self._end].strip())

    def _value(self, event: Event, depth: int) -> YamlValue:
        yaml = self._yaml
        if depth > _MAX_DEPTH:
            self._refuse(event, f"values are nested more than {_MAX_DEPTH} deep")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[YamlValue] = []
            while not isinstance(item := self._next(), yaml.SequenceEndEvent):
                items.append(self._value(item, depth + 1))
            return items
        table: dict[str, YamlValue] = {}
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            name = self._key(key, table)
            table[name] = self._value(self._next(), depth + 1)
        return table

    def _key(self, event: Event, earlier: Mapping[str, object]) -> str:
        if not isinstance(event, self._yaml.ScalarEvent):
            self._refuse(event, "a name must be one word, followed by a colon")
        name = str(event.value)
        if name in earlier:
            self._refuse(event, f"`{one_line(name, 60)}` is given twice")
        return name

    def _scalar(self, event: ScalarEvent) -> YamlValue:
        resolved = self._loader.resolve(self._yaml.ScalarNode, event.value, event.implicit)
        if resolved == "tag:yaml.org,2002:str":
            return str(event.value)
        return Scalar(event.value, is_empty=resolved == "tag:yaml.org,2002:null")

    def _next(self) -> Event:
        event: Event = self._loader.get_event()
        assert event.start_mark is not None
        assert event.end_mark is not None
        self._start, self._end = event.start_mark.index, event.end_mark.index
        if getattr(event, "anchor", None) is not None:
            feature = "aliases (*name)" if isinstance(event, self._yaml.AliasEvent) else "anchors (&name)"
            self._refuse(event, f"YAML {feature} are not supported; quote the value if it is text")
        if getattr(event, "tag", None) is not None:
            self._refuse(event, "YAML tags (!name) are not supported; quote the value if it is text")
        return event

    def _refuse(self, event: Event, feature: str) -> NoReturn:
        raise _error(self._label, _line_of(event), feature)


def _line_of(event: Event) -> int:
    """Return the line of an event in the file, which has one line before the YAML."""
    assert event.start_mark is not None  # every event of a parsed text has its marks
    return event.start_mark.line + 2


def _yaml_error(error: Exception, header: str, label: str) -> FrontMatterError:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return _error(label, mark.line + 2, f"not YAML: {getattr(error, 'problem', None) or error}")
    position = getattr(error, "position", 0)  # of a character that YAML forbids
    line = header[: position if isinstance(position, int) else 0].count("\n") + 2
    return _error(label, line, f"not YAML: {getattr(error, 'reason', error)}")


def _error(label: str, line: int, problem: str) -> FrontMatterError:
    return FrontMatterError(one_line(f"{label}:{line}: {problem}"))


def _type_name(value: YamlValue) -> str:
    return "list" if isinstance(value, list) else "map"
