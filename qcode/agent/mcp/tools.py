"""Converts the tools of a server for the model, and their results. Untrusted text is limited and cleaned.

Names become `server__tool` in a form that every provider accepts. Descriptions and schemas are limited in size, so that
no tool makes a provider reject a request. A tool that cannot be offered has a `problem`. Text and images of a result
are sent to the model; other content is stored in a file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.mcp.spec import digest
from qcode.protocol.messages import Image
from qcode.protocol.tools import Refused, ToolOutcome, ToolSpec
from qcode.text.clean import clean, first_chars
from qcode.text.json import Json, JsonObject
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.tools.files.pictures import encode_image, image_type
from qcode.tools.output import bounded_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, ContentBlock, TextResourceContents

MAX_DESCRIPTION = 2_048
"""The maximum number of characters of the description of a tool; a longer one is truncated."""
MAX_SCHEMA = 16_384
"""The maximum number of characters of the parameters of a tool as JSON; a tool with more is not offered."""

_MAX_NAME = 64
"""The maximum number of characters of a tool's name that all providers accept."""
_MAX_LEVELS = 24
"""The maximum nesting depth of the parameters of a tool."""
_MAX_SCHEMA_TEXT = 1_024
"""The maximum number of characters of a title or description in the parameters; a longer one is truncated."""
_INVALID_CHARS = lazy_pattern(r"[^A-Za-z0-9_-]")
# The property names that Anthropic's API accepts.
_PROPERTY = lazy_pattern(r"[A-Za-z0-9_.-]{1,64}")
# Providers reject these at the top level of a schema; the server still enforces them.
_FORBIDDEN_AT_TOP = ("$schema", "$id", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const")
_TEXT_KEYS = ("description", "title", "$comment")
# Unicode categories of invisible characters: format, unassigned, private use, surrogate.
_HIDDEN = frozenset({"Cf", "Cn", "Co", "Cs"})
# Invisible characters that belong to words of Persian and Hindi, and to emoji.
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool exactly as a server listed it; `problem` is the reason if its definition is not valid."""

    name: str
    description: str
    schema: Mapping[str, Json]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool of a server after its name, description and parameters were checked."""

    listed_name: str
    """The name that the server gave it: untrusted text, display it with `shown_name`."""
    spec: ToolSpec
    """The tool as a model is offered it."""
    hash: str
    """The hash of the name, description and parameters that the server listed."""
    problem: str = ""
    """Why the tool is not offered; empty if it is."""


def check_tools(server: str, listed: Sequence[ListedTool], configured: Collection[str] = ()) -> tuple[CheckedTool, ...]:
    """Return the tools of a server, sorted by name. `configured` lists the only tools to check; empty or `*`: all.

    Two tools that would get the same name are both rejected, because a call would be ambiguous.
    """
    has_all = not configured or "*" in configured
    selected = [tool for tool in listed if has_all or tool.name in configured]
    names = Counter(tool_name(server, tool.name) for tool in selected)
    checked = [_check_tool(server, tool, names[tool_name(server, tool.name)]) for tool in selected]
    return tuple(sorted(checked, key=lambda tool: (tool.spec.name, tool.hash)))


def _check_tool(server: str, tool: ListedTool, same_name_count: int) -> CheckedTool:
    """Check one tool; `same_name_count` tools of the server would get its name."""
    name, problem, schema = tool_name(server, tool.name), tool.problem, _NO_PARAMETERS
    try:
        schema = _offered_schema(tool.schema)
    except _InvalidSchemaError as error:
        problem = problem or str(error)
    if same_name_count > 1 and not tool.problem:
        problem = f"{same_name_count} tools of this server would be called {name}"
    return CheckedTool(tool.name, ToolSpec(name, _description(server, tool.description), schema), _hash(tool), problem)


def tool_name(server: str, tool: str) -> str:
    """Return the name a model calls, `server__tool`. Invalid characters become `_`; a long name ends with a hash."""
    name = f"{server}__{_INVALID_CHARS.sub('_', tool)}"
    if len(name) <= _MAX_NAME and tool:
        return name
    name_hash = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[: _MAX_NAME - 9]}_{name_hash}"


def shown_name(tool: str) -> str:
    """Return the name of a tool for display: cleaned, on one line, truncated; `(unnamed)` if it is empty then."""
    text = _visible_chars(tool).replace("\n", " ").replace("\t", " ").strip() or "(unnamed)"
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 1]}…"


def _hash(tool: ListedTool) -> str:
    return digest([tool.name, tool.description, dict(tool.schema)])


def _description(server: str, description: str) -> str:
    text = first_chars(_visible_chars(description).strip(), MAX_DESCRIPTION)
    note = f", which says about it: {text}" if text else "."
    return f"A tool of the server {server}{note}"


def _visible_chars(text: str) -> str:
    """Return untrusted text without control characters and invisible characters."""
    return "".join(
        char for char in clean(text) if char in _JOINERS or char in "\n\t" or unicodedata.category(char) not in _HIDDEN
    )


_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


class _InvalidSchemaError(ValueError):
    """The parameters of a tool cannot be offered; the text is the reason."""


def _offered_schema(schema: Mapping[str, Json]) -> JsonObject:
    """Return the schema of parameters in the form that every provider accepts; raise `_InvalidSchemaError`."""
    if _depth(dict(schema)) > _MAX_LEVELS:
        raise _InvalidSchemaError("its parameters are nested too deeply")
    try:
        size = len(json.dumps(dict(schema), allow_nan=False))
    except ValueError:
        raise _InvalidSchemaError("its parameters contain an invalid number") from None
    if size > MAX_SCHEMA:
        raise _InvalidSchemaError(f"its parameters take {size:,} characters, more than {MAX_SCHEMA:,}")
    properties = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise _InvalidSchemaError("its parameters are not a JSON Schema object")
    invalid_name = next((name for name in properties if _PROPERTY.fullmatch(name) is None), None)
    if invalid_name is not None:
        shown = shown_name(ascii(invalid_name))
        raise _InvalidSchemaError(f"it has a parameter with a name that models do not accept: {shown}")
    allowed = {key: value for key, value in schema.items() if key not in _FORBIDDEN_AT_TOP}
    cleaned = _cleaned_schema({**_NO_PARAMETERS, **allowed, "type": "object", "properties": properties})
    assert isinstance(cleaned, dict)
    return cleaned


def _cleaned_schema(value: Json, *, is_names: bool = False) -> Json:
    """Return a schema with titles and descriptions cleaned and truncated; constraints are unchanged.

    `is_names`: the keys of `value` are names of parameters, one of which may be `title`.
    """
    if isinstance(value, list):
        return [_cleaned_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    result: JsonObject = {}
    for key, inner in value.items():
        if not is_names and key in _TEXT_KEYS and isinstance(inner, str):
            result[key] = first_chars(_visible_chars(inner), _MAX_SCHEMA_TEXT)
        elif not is_names and key in ("enum", "const", "default", "examples", "required"):
            result[key] = inner
        else:
            result[key] = _cleaned_schema(
                inner, is_names=not is_names and key in ("properties", "$defs", "definitions")
            )
    return result


def _depth(value: Json) -> int:
    """Return the nesting depth of a value. Counting stops at the first level above the limit."""
    level, depth = [value], 0
    while level and depth <= _MAX_LEVELS:
        depth += 1
        level = [child for item in level for child in _children(item) if isinstance(child, dict | list)]
    return depth


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


MAX_IMAGES = 8
"""The maximum number of images of a result that are sent to the model."""


def outcome_of(
    result: CallToolResult, limit: int, folder: Callable[[], Path], notes: Sequence[str] = ()
) -> ToolOutcome:
    """Return the outcome of a call, with at most `limit` characters of text; a longer text is stored in `folder`.

    `notes` are lines by qcode that are appended and do not count.
    """
    reader = ContentReader(folder)
    reader.add_blocks(result.content)
    if result.structured_content is not None and not reader.contains(result.structured_content):
        reader.texts.append(json.dumps(result.structured_content, ensure_ascii=False, indent=1))
    text = "\n".join(reader.texts)
    if not text and not reader.images:
        text = "(the tool failed without output)" if result.is_error else "(no output)"
    bounded = "\n".join((bounded_text(text, limit, folder), *notes))
    return ToolOutcome(bounded, result.is_error, _summary(text, len(reader.images)), images=tuple(reader.images))


def _summary(text: str, images: int) -> str:
    counts = []
    if text:
        counts.append(count_text(text.count("\n") + 1, "line"))
    if images:
        counts.append(count_text(images, "image"))
    return ", ".join(counts)


class ContentReader:
    """Converts content blocks of a server to `texts` and `images`. Other binary data is stored in `folder`."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self.texts: list[str] = []
        self.images: list[Image] = []

    def add_blocks(self, content: Iterable[ContentBlock]) -> None:
        import mcp_types as types

        for block in content:
            match block:
                case types.TextContent():
                    self.texts.append(block.text)
                case types.ImageContent():
                    self._add_binary("image", block.data, block.mime_type)
                case types.AudioContent():
                    self._add_binary("audio", block.data, block.mime_type)
                case types.ResourceLink():
                    description = f": {block.description}" if block.description else ""
                    self.texts.append(f"[resource {block.uri} ({block.mime_type or 'unknown type'}){description}]")
                case types.EmbeddedResource():
                    self.add_resource(block.resource)

    def contains(self, value: object) -> bool:
        """Return whether the text blocks contain this structured value, which servers repeat for text-only clients.

        SDKs wrap a value that is not an object as `{"result": value}`, or under another name. They send a list as one
        text block for each item.
        """
        parsed = [_json_of(text) for text in self.texts]
        if any(item == value for item in parsed):
            return True
        if not (isinstance(value, dict) and len(value) == 1):
            return False
        (inner,) = value.values()
        items = inner if isinstance(inner, list) else [inner]
        has_items = len(items) == len(self.texts) and all(
            item in (text, element) for item, text, element in zip(items, self.texts, parsed, strict=True)
        )
        return has_items or any(inner in (text, item) for text, item in zip(self.texts, parsed, strict=True))

    def add_resource(self, resource: TextResourceContents | BlobResourceContents) -> None:
        import mcp_types as types

        if isinstance(resource, types.TextResourceContents):
            self.texts.append(f"[resource {resource.uri}]\n{resource.text}")
        else:
            self._add_binary(f"resource {resource.uri}", resource.blob, resource.mime_type or "unknown type")

    def _add_binary(self, label: str, data: str, media_type: str) -> None:
        """Add an image, or store other data, which the text calls `label`.

        An image is recognized by its bytes, not by the media type of the server.
        """
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append(f"[unreadable {label} ({media_type}): its data is not base64]")
            return
        kind = image_type(raw)
        if not kind:
            self.texts.append(f"[{label} ({media_type}), {len(raw):,} bytes, {self._save(raw, media_type)}]")
        elif len(self.images) == MAX_IMAGES:
            self.texts.append(f"[{label}: only the first {MAX_IMAGES} images of a result are shown]")
        else:
            try:
                encoded = encode_image(raw, kind, f"the {label}")
            except Refused as refused:
                self.texts.append(f"[{refused}]")
                return
            self.images.append(encoded.image)
            self.texts.append(f"[{label}: {encoded.description}]")

    def _save(self, raw: bytes, media_type: str) -> str:
        """Store data in a file; return where it is stored, or why it is not."""
        import mimetypes  # loads with the first file

        ending = mimetypes.guess_extension(media_type.partition(";")[0].strip()) or ".bin"
        try:
            path = self._folder() / f"{hashlib.sha256(raw).hexdigest()[:16]}{ending}"
            path.write_bytes(raw)
        except OSError as error:
            return f"not saved: {error.strerror}"
        return f"saved as {path}"


def _json_of(text: str) -> object:
    if not text.lstrip().startswith(("{", "[", '"', "t", "f", "n", "-", *"0123456789")):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
