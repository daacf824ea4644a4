"""The forms in which models write tool calls as text: the marks as data, and readers of the content. Pure.

Sources: the published chat templates of models (Qwen and Hermes, Qwen-Coder, Mistral), and the page "Llama 3.1 prompt
format" of Meta, which has both JSON and `name.call(key="value")` after the mark. The readers are strict
and repair nothing: valid text with the name of a known tool is a call, and all other text raises `UnreadableError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from qcode.protocol.tools import ToolSpec
from qcode.text.json import DuplicateKeyError, Json, JsonObject, unique_keys
from qcode.values import dataclass

FormName: TypeAlias = Literal["tag", "function", "llama", "mistral", "fence"]

TAG, END_TAG = "<tool_call>", "</tool_call>"
FUNCTION, END_FUNCTION = "<function=", "</function>"
PARAMETER, END_PARAMETER = "<parameter=", "</parameter>"
LLAMA, LLAMA_ENDS = "<|python_tag|>", ("<|eom_id|>", "<|eot_id|>")
MISTRAL, MISTRAL_ARGUMENTS = "[TOOL_CALLS]", "[ARGS]"

CALL_KEYS = frozenset({"name", "arguments", "parameters", "id", "type", "function"})
"""An object in a code fence counts as a call only if it has no other keys."""

_FENCE_INFOS = ("json", "tool_call", "tool_calls")
_OPENERS = (TAG, FUNCTION, LLAMA, MISTRAL)
_MARKS = (*_OPENERS, END_TAG, END_FUNCTION)
_MAX_FENCE = 48
"""The maximum length of the opening line of a fence."""
_MIN_CUT_MARK = 5
"""A truncated mark is recognized from this length on."""
_FENCE = r"(?<!`)(?P<ticks>`{3,16})[ \t]{0,8}(?P<info>(?i:json|tool_calls?))[ \t]{0,8}\r?\n"
_MARK = re.compile("|".join([*map(re.escape, _MARKS), _FENCE]))
_PARTIAL_FENCE = re.compile(r"`+[ \t]{0,8}(?P<info>[A-Za-z_]{0,10})[ \t]{0,8}\r?\Z")


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form in which a call is written, determined by its opening mark."""

    name: FormName
    is_marked: bool = True
    """The opening mark is used only for calls."""
    ends: tuple[str, ...] = ()
    """The end marks."""
    needs_end: bool = False
    """An end mark is required. Otherwise another call or the end of the reply may follow."""
    invalid_call_end: str = ""
    """The end mark of an invalid call, empty if another call or the end of the reply ends it."""


_FORMS = {
    TAG: CallForm("tag", ends=(END_TAG,), needs_end=True, invalid_call_end=END_TAG),
    FUNCTION: CallForm("function", ends=(END_TAG,), invalid_call_end=END_FUNCTION),
    LLAMA: CallForm("llama", ends=LLAMA_ENDS),
    MISTRAL: CallForm("mistral"),
}


@dataclass(frozen=True, slots=True)
class CallMark:
    """A mark in a text."""

    start: int
    """The offset at which the mark starts."""
    end: int
    """The offset at which the mark ends."""
    form: CallForm | None
    """The form of a call that begins at the mark, None for an end mark."""
    is_fence: bool = False


def find_mark(text: str, start: int) -> CallMark | None:
    """Return the first mark in `text` from `start` on."""
    match = _MARK.search(text, start)
    if match is None:
        return None
    ticks = match["ticks"]
    if ticks is None:
        return CallMark(match.start(), match.end(), _FORMS.get(match.group()))
    is_marked = match["info"].lower() != "json"
    form = CallForm("fence", is_marked=is_marked, ends=(ticks,), needs_end=True)
    return CallMark(match.start(), match.end(), form, is_fence=True)


def opens_call(text: str) -> bool | None:
    """Return whether `text` starts with the mark of a call, None if it is too short to decide."""
    if text.startswith(_OPENERS):
        return True
    is_too_short = any(mark.startswith(text) for mark in _OPENERS)
    return None if is_too_short else False


def count_undecided(text: str) -> int:
    """Return the number of characters at the end of `text` that may be the start of a mark."""
    # Every mark except a fence starts with `<` or `[`, and contains this character only there.
    for start in sorted((text.rfind("<"), text.rfind("["))):
        if start >= 0 and any(mark.startswith(text[start:]) for mark in _MARKS):
            return len(text) - start
    if "`" not in text[-_MAX_FENCE:]:
        return 0
    fence = _PARTIAL_FENCE.search(text[-_MAX_FENCE:])
    if fence is None or not any(info.startswith(fence["info"].lower()) for info in _FENCE_INFOS):
        return 0
    return len(fence.group())


def is_partial_mark(text: str) -> bool:
    """Return whether `text` is an unambiguous start of the mark of a call."""
    return len(text) >= _MIN_CUT_MARK and any(mark.startswith(text) for mark in _OPENERS)


NO_NAME = "tool_call"
"""The name of a call that was truncated before its tool was named."""

_SPACE = re.compile(r"[ \t\r\n]*")
_SEPARATORS = re.compile(r"[\s,;]*")
_KEYWORD = re.compile(r"([A-Za-z_]\w{0,127})[ \t\r\n]*=[ \t\r\n]*")
_CONSTANT = re.compile(r"(?:True|False|None)\b")
_CONSTANTS: Mapping[str, Json] = {"True": True, "False": False, "None": None}


class UnreadableError(ValueError):
    """The text is not a valid call. The message is the reason, for the model."""

    def __init__(self, reason: str, *, is_attempt: bool = True) -> None:
        super().__init__(reason)
        self.is_attempt = is_attempt
        """The text was meant as a call."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call that a model wrote as text."""

    name: str
    arguments: str
    """One JSON object, incomplete if the output limit truncated it."""
    is_complete: bool = True


def _refuse_constant(name: str) -> NoReturn:
    """Raise `ValueError` for `NaN` and `Infinity`, which Python reads although they are not JSON."""
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=unique_keys)


def read_json(text: str, tools: Mapping[str, ToolSpec], *, needs_arguments: bool = False) -> list[WrittenCall]:
    """Return the calls in one JSON object or list; raise `UnreadableError` if it contains anything else.

    `needs_arguments` is for JSON that may be an example or data: then an object without arguments is not an attempt.
    """
    return [_call(value, tools, needs_arguments=needs_arguments) for value in _as_list(parse(text))]


def parse(text: str) -> Json:
    """Return the JSON value of `text`; raise `UnreadableError` if it is invalid."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    except DuplicateKeyError as error:
        raise UnreadableError(str(error)) from None
    except (ValueError, RecursionError):
        raise UnreadableError("its JSON is not valid") from None
    return value


class JsonPrefix(NamedTuple):
    """A JSON value at the start of a text."""

    value: Json
    end: int
    """The length of its text."""


def decode_prefix(text: str, *, is_attempt: bool = True) -> JsonPrefix:
    """Return the JSON value at the start of `text`; raise `UnreadableError` if there is none."""
    try:
        return JsonPrefix(*_DECODER.raw_decode(text))
    except (ValueError, RecursionError):
        raise UnreadableError("its JSON is not valid", is_attempt=is_attempt) from None


def read_named_call(name: str, arguments: Json, tools: Mapping[str, ToolSpec]) -> WrittenCall:
    """Return a call from a name and its arguments: an object, its JSON text, or null for no arguments."""
    if name not in tools:
        raise UnreadableError(f"there is no tool `{name[:80]}`")
    if isinstance(arguments, str):
        arguments = parse(arguments) if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise UnreadableError(f"the arguments of `{name}` are not a JSON object")
    return WrittenCall(name, as_json(arguments))


def read_keywords(name: str, text: str, tools: Mapping[str, ToolSpec]) -> WrittenCall:
    """Return a call with keyword arguments as in Python: `path="a.py", limit=3`.

    The values are JSON, or `True`, `False` and `None`.
    """
    if name not in tools:
        raise UnreadableError(f"there is no tool `{name[:80]}`")
    members: list[tuple[str, Json]] = []
    position = _skip_space(text, 0)
    while position < len(text):
        keyword = _KEYWORD.match(text, position)
        constant = _CONSTANT.match(text, keyword.end()) if keyword else None
        try:
            if keyword is None:
                raise ValueError
            if constant is not None:
                value, position = _CONSTANTS[constant[0]], constant.end()
            else:
                value, position = _DECODER.raw_decode(text, keyword.end())
        except (ValueError, RecursionError):
            raise UnreadableError("its arguments are not valid") from None
        members.append((keyword[1], value))
        position = _skip_space(text, position)
        if position < len(text) and text[position] != ",":
            raise UnreadableError("its arguments are not valid")
        position = _skip_space(text, position + 1)
    try:
        return WrittenCall(name, as_json(unique_keys(members)))
    except DuplicateKeyError as error:
        raise UnreadableError(str(error)) from None


def read_parameters(name: str, parameters: Sequence[tuple[str, str]], tools: Mapping[str, ToolSpec]) -> WrittenCall:
    """Return a call whose parameters were written one by one as plain text."""
    if name not in tools:
        raise UnreadableError(f"there is no tool `{name[:80]}`")
    try:
        arguments = unique_keys([(key, _parameter_value(text, tools[name], key)) for key, text in parameters])
    except DuplicateKeyError as error:
        raise UnreadableError(str(error)) from None
    return WrittenCall(name, as_json(arguments))


def read_cut_json(text: str, tools: Mapping[str, ToolSpec]) -> list[WrittenCall]:
    """Return the calls in truncated JSON. The last call is incomplete."""
    position = _skip_space(text, 0)
    if text[position : position + 1] == "[":
        position += 1
    calls: list[WrittenCall] = []
    while True:
        separators = _SEPARATORS.match(text, position)
        position = separators.end() if separators else position
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        calls.append(_call(value, tools))
    return [*calls, _cut_call(text[position:], tools)] if position < len(text) else calls


def read_cut_parameters(
    name: str, parameters: Sequence[tuple[str, str]], open_key: str, open_text: str, tools: Mapping[str, ToolSpec]
) -> WrittenCall:
    """Return a call that was truncated in its parameters, as JSON that ends at the same point.

    `open_key` is the truncated parameter, empty if the call ends between two parameters.
    """
    raw = read_parameters(name, parameters, tools).arguments.removesuffix("}") if parameters else ""
    if not open_key:
        return WrittenCall(name, raw, is_complete=False)
    if _takes_text(tools[name], open_key):
        value = as_json(_from_first_line(open_text)).removesuffix('"')  # the text is truncated too
    else:
        value = open_text.strip()
    before = f"{raw}, " if parameters else "{"
    return WrittenCall(name, f"{before}{as_json(open_key)}: {value}", is_complete=False)


def as_json(value: Json) -> str:
    """Return JSON text without unpaired surrogates; raise `UnreadableError` for NaN and infinity."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        raise UnreadableError("it contains a value that JSON cannot represent") from None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _as_list(value: Json) -> list[Json]:
    if isinstance(value, list):
        if not value:
            raise UnreadableError("it contains no call", is_attempt=False)
        return value
    return [value]


def _call(value: Json, tools: Mapping[str, ToolSpec], *, needs_arguments: bool = False) -> WrittenCall:
    """Return the call in a JSON value; raise `UnreadableError` if the value is not a call."""
    if not isinstance(value, dict):
        raise UnreadableError("it is not a JSON object with a name and arguments", is_attempt=not needs_arguments)
    function = value.get("function")
    if isinstance(function, dict):
        value = function
    if "arguments" in value and "parameters" in value:
        raise UnreadableError("it has both `arguments` and `parameters`")
    key = "arguments" if "arguments" in value else "parameters"
    name = value.get("name")
    if not isinstance(name, str) or (needs_arguments and key not in value):
        raise UnreadableError("it has no tool name or no arguments", is_attempt=not needs_arguments)
    return read_named_call(name, value.get(key), tools)


def _cut_call(text: str, tools: Mapping[str, ToolSpec]) -> WrittenCall:
    """Return the call in a truncated object, from its complete members and the start of the next member."""
    if not text.startswith("{"):
        raise UnreadableError("it is not a JSON object with a name and arguments")
    members: JsonObject = {}
    position = _skip_space(text, 1)
    # The key of the truncated member, and the position of its value.
    open_key, open_at = "", len(text)
    while text[position : position + 1] == '"':
        try:
            key, position = _DECODER.raw_decode(text, position)
            position = _skip_space(text, position)
            if text[position : position + 1] != ":":
                break
            open_key, open_at = str(key), _skip_space(text, position + 1)
            value, position = _DECODER.raw_decode(text, open_at)
            members[open_key] = value
        except (ValueError, RecursionError):
            break
        open_key = ""
        position = _skip_space(text, position)
        if text[position : position + 1] == ",":
            position = _skip_space(text, position + 1)
    if open_key == "function":
        return _cut_call(text[open_at:], tools)
    name = members.get("name", NO_NAME)
    if not isinstance(name, str) or (name not in tools and "name" in members):
        raise UnreadableError(f"there is no tool `{str(name)[:80]}`")
    for key in ("arguments", "parameters"):
        if key in members:
            return WrittenCall(name, read_named_call(name, members[key], tools).arguments, is_complete=False)
    raw = text[open_at:] if open_key in ("arguments", "parameters") else ""
    return WrittenCall(name, raw, is_complete=False)


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _parameter_value(text: str, tool: ToolSpec, key: str) -> Json:
    """Return the value of a parameter: its text if the schema of the tool accepts text, otherwise its JSON value.

    If it is not JSON, return its text. Whether the value matches the schema is not checked here.
    """
    value = _without_line_ends(text)
    if _takes_text(tool, key):
        return value
    try:
        return parse(value)
    except UnreadableError:
        # Python's spelling, which models trained on Python code write: True, False, None.
        return {"true": True, "false": False, "none": None}.get(value.strip().lower(), value)


def _takes_text(tool: ToolSpec, key: str) -> bool:
    """Return whether the parameter `key` may be a string, or its type is unknown."""
    properties = tool.parameters.get("properties")
    types = schema_types(properties.get(key) if isinstance(properties, dict) else None)
    return not types or "string" in types


def schema_types(schema: Json) -> set[str]:
    """Return the JSON types that a schema accepts; empty if the schema has no type."""
    if not isinstance(schema, dict):
        return set()
    declared = schema.get("type")
    types = {str(name) for name in (declared if isinstance(declared, list) else [declared]) if name}
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        for choice in choices if isinstance(choices, list) else []:
            types |= schema_types(choice)
    return types


def _without_line_ends(text: str) -> str:
    """Remove the line break after the opening tag and the one before the closing tag."""
    text = _from_first_line(text)
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _from_first_line(text: str) -> str:
    """Return the text without a line break at its start."""
    return text.removeprefix("\r\n") if text.startswith("\r") else text.removeprefix("\n")
