"""Questions of servers to the user (elicitation): the fields of a form, its answers, and addresses to visit.

The user is asked for one field of a form at a time. Each is a question of the turn that called the server, which every
front end can show. Pure except for the calls of `ask`; untrusted text is cleaned here. Specification:
client/elicitation, 2025-11-25 and 2026-07-28.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from qcode.protocol.approvals import Ask, Choice
from qcode.text.clean import single_spaced, visible, visible_rows
from qcode.text.json import Json, JsonObject, text_in
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

Action: TypeAlias = Literal["accept", "decline", "cancel"]
"""The user's reaction as the protocol names it. `cancel`: dismissed without an answer."""
Value: TypeAlias = str | int | float | bool | list[str]
"""The value of a field."""

MAX_FIELDS = 20
MAX_SCHEMA_BYTES = 8 * 1024
DECLINE = "Decline"
SEND = "Send"
LEAVE_OUT = "Leave it out"
WILL_OPEN = "I will open it"

_MAX_MESSAGE_CHARS = 2_000
_MAX_LABEL_CHARS = 120
_MAX_ATTEMPTS = 5
"""The number of invalid answers for one field after which the form is cancelled."""
_KINDS = ("string", "number", "integer", "boolean", "array")
_SECRET = lazy_pattern(r"passw|passphrase|secret|token|api.?key|credential|private.?key|\bpin\b|cvv|card.?number", re.I)
_EMAIL = lazy_pattern(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+")
_LOOPBACK = lazy_pattern(r"localhost|127(?:\.\d{1,3}){3}|::1")
_WARNING = (
    "This looks like a request for a secret. A server must not ask for passwords or keys in this way: decline unless "
    "you know why it asks."
)


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form."""

    name: str
    kind: str
    """The `type` of its JSON Schema, one of `_KINDS`."""
    title: str
    schema: Mapping[str, Json]
    titles: Mapping[str, str]
    """The title of each allowed value; empty if any value of the type is allowed."""
    description: str = ""
    is_required: bool = False
    default: Value | None = None

    @property
    def is_secret(self) -> bool:
        """Whether the field seems to ask for a secret."""
        return any(_SECRET.search(text) for text in (self.name, self.title, self.description))

    def parse_answer(self, typed: str) -> Value:
        """Return the value that the user typed or chose; raise `ValueError` with what is expected instead."""
        match self.kind:
            case "boolean":
                words = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
                if typed.strip().lower() not in words:
                    raise ValueError("answer yes or no")
                return words[typed.strip().lower()]
            case "number" | "integer":
                return self._number(typed)
            case "array":
                return self._choice_list(typed)
        return self._choice(typed) if self.titles else self._text(typed)

    def display(self, value: Value) -> str:
        """Return a value as the user sees it."""
        if isinstance(value, bool):
            return "Yes" if value else "No"
        if isinstance(value, list):
            return ", ".join(self.titles.get(text, text) for text in value)
        return self.titles.get(value, value) if isinstance(value, str) else f"{value}"

    def _number(self, typed: str) -> int | float:
        """Return the typed number; raise `ValueError` if it is outside the limits of the schema."""
        try:
            value = int(typed) if self.kind == "integer" else float(typed)
        except ValueError:
            raise ValueError("enter a whole number" if self.kind == "integer" else "enter a number") from None
        if isinstance(value, float) and not math.isfinite(value):  # Python accepts "nan" and "inf"
            raise ValueError("enter a number")
        low, high = self.schema.get("minimum"), self.schema.get("maximum")
        if isinstance(low, int | float) and value < low:
            raise ValueError(f"the number must be at least {low:g}")
        if isinstance(high, int | float) and value > high:
            raise ValueError(f"the number must be at most {high:g}")
        return value

    def _choice(self, typed: str) -> str:
        answer = typed.strip().lower()
        for value, title in self.titles.items():
            if answer in (value.lower(), title.lower(), _label(title).lower()):
                return value
        raise ValueError("choose one of the answers")

    def _choice_list(self, typed: str) -> list[str]:
        try:
            return self.checked_list([self._choice(typed)])  # a title may have a comma: "Bread, white"
        except ValueError:
            return self.checked_list([self._choice(text) for text in _split_choices(typed)])

    def checked_list(self, values: list[str]) -> list[str]:
        """Return the values without duplicates; raise `ValueError` if their number breaks `minItems` or `maxItems`."""
        unique = list(dict.fromkeys(values))
        low, high = self.schema.get("minItems"), self.schema.get("maxItems")
        if isinstance(low, int) and len(unique) < low:
            raise ValueError(f"choose at least {low}")
        if isinstance(high, int) and len(unique) > high:
            raise ValueError(f"choose at most {high}")
        return unique

    def _text(self, typed: str) -> str:
        """Return the typed text unchanged; raise `ValueError` if it violates the length or `format` of the schema."""
        low, high = self.schema.get("minLength"), self.schema.get("maxLength")
        if isinstance(low, int) and len(typed) < low:
            raise ValueError(f"enter at least {low} characters")
        if isinstance(high, int) and len(typed) > high:
            raise ValueError(f"enter at most {high} characters")
        match self.schema.get("format"):
            case "email" if not _EMAIL.fullmatch(typed):
                raise ValueError("enter an e-mail address")
            case "uri" if not (urlsplit(typed).scheme and " " not in typed):
                raise ValueError("enter an address such as https://example.org")
            case "date" if not _is_date(typed):
                raise ValueError("enter a date such as 2026-11-22")
            case "date-time" if not _is_date_time(typed):
                raise ValueError("enter a date and time such as 2026-11-22T10:00:00Z")
        return typed


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text  # not 20261122, which Python accepts
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    """Return whether a text is a date and time with an offset (RFC 3339)."""
    try:
        return _is_date(text[:10]) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _label(text: str) -> str:
    """Return a title as the label of a choice."""
    return visible(single_spaced(text, _MAX_LABEL_CHARS))


def parse_form(schema: Mapping[str, Json]) -> tuple[FormField, ...]:
    """Return the fields of a form; raise `ValueError` for a form that qcode does not support."""
    if len(json.dumps(dict(schema))) > MAX_SCHEMA_BYTES:
        raise ValueError(f"its form is larger than {MAX_SCHEMA_BYTES // 1024} KiB")
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or schema.get("type", "object") != "object":
        raise ValueError("its form is not a flat object")
    if len(properties) > MAX_FIELDS:
        raise ValueError(f"its form has more than {MAX_FIELDS} fields")
    required_names = required if isinstance(required, list) else []
    return tuple(
        _field(name, field_schema, is_required=name in required_names) for name, field_schema in properties.items()
    )


def _field(name: str, schema: Json, *, is_required: bool) -> FormField:
    """Return the field of one property of a form; raise `ValueError` if its type is not supported."""
    if not isinstance(schema, dict):
        raise ValueError(f"its field {single_spaced(name, 40)} has no schema")
    kind, inner = schema.get("type"), schema
    if kind == "array":
        items = schema.get("items")
        inner = items if isinstance(items, dict) else {}
    titles = _titles(inner)
    if not isinstance(kind, str) or kind not in _KINDS or (kind == "array" and not titles):
        raise ValueError(f"its field {single_spaced(name, 40)} is nested or has an unknown type")
    title = single_spaced(text_in(schema.get("title")) or name, _MAX_LABEL_CHARS)
    description = text_in(schema.get("description"))[:_MAX_MESSAGE_CHARS]
    field = FormField(name, kind, title, schema, titles, description, is_required)
    return replace(field, default=_default(field, schema.get("default")))


def _titles(schema: JsonObject) -> dict[str, str]:
    """Return the title of each allowed value of a schema; empty if any value is allowed."""
    rows = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(rows, list):
        pairs = [(row.get("const"), row.get("title")) for row in rows if isinstance(row, dict)]
    else:
        values, names = schema.get("enum"), schema.get("enumNames")
        if not isinstance(values, list):
            return {}
        has_names = isinstance(names, list) and len(names) == len(values)
        pairs = list(zip(values, names if has_names and isinstance(names, list) else values, strict=True))
    return {value: text_in(title) or value for value, title in pairs if isinstance(value, str)}


def _default(field: FormField, value: Json) -> Value | None:
    """Return the default value of a field; None if it is missing or not valid for the field."""
    match value:
        case bool() if field.kind == "boolean":
            return value
        case list():
            typed = ",".join(text for text in value if isinstance(text, str))
        case str() | int() | float() if not isinstance(value, bool):
            typed = str(value)
        case _:
            return None
    try:
        return field.parse_answer(typed)
    except ValueError:
        return None


class FormAnswer(NamedTuple):
    """The user's answer to a form."""

    action: Action
    values: Mapping[str, Value]
    """The values by the names of the fields; empty unless the action is `accept`."""


async def fill_form(server: str, message: str, schema: Mapping[str, Json], ask: Ask) -> FormAnswer:
    """Ask the user for each field of a form.

    Several fields are confirmed before they are sent. Raise `ValueError` for a form that qcode does not support.
    """
    fields = parse_form(schema)
    values: dict[str, Value] = {}
    title = single_spaced(message, _MAX_MESSAGE_CHARS)
    for number, field in enumerate(fields, start=1):
        location = f" ({number} of {len(fields)})" if len(fields) > 1 else ""
        answer = await _ask_field(f"{title}{location}", field, ask)
        if answer.action != "accept":
            return FormAnswer(answer.action, {})
        if answer.value is not None:
            values[field.name] = answer.value
    if len(fields) == 1:
        return FormAnswer("accept", values)
    rows = [f"{field.title}: {field.display(values[field.name])}" for field in fields if field.name in values]
    detail = visible_rows("\n".join(rows))
    question, choices = f"Send this to {server}? {title}", (Choice(SEND), Choice(DECLINE))
    confirmation = await ask(question, detail, choices, accepts_text=False)
    if confirmation is None:
        return FormAnswer("cancel", {})
    if confirmation != SEND:
        return FormAnswer("decline", {})
    return FormAnswer("accept", values)


@dataclass(frozen=True, slots=True)
class _FieldAnswer:
    """The user's answer for one field. Any action other than `accept` ends the form."""

    action: Action
    value: Value | None = None
    """None if the user leaves out the field."""


async def _ask_field(question: str, field: FormField, ask: Ask) -> _FieldAnswer:
    """Ask for the value of a field, again after an invalid answer."""
    problem = ""
    offered = _offered_values(field)
    for _ in range(_MAX_ATTEMPTS):
        choices = _shown_choices(field, offered)
        answer = await ask(question, _detail(field, problem), choices, is_multi_select=field.kind == "array")
        if answer is None:
            break
        if answer == DECLINE:
            return _FieldAnswer("decline")
        if answer == LEAVE_OUT and not field.is_required:
            return _FieldAnswer("accept")
        try:
            value = _chosen_value(answer, offered, field)
            return _FieldAnswer("accept", field.checked_list(value) if isinstance(value, list) else value)
        except ValueError as error:
            problem = str(error)
    return _FieldAnswer("cancel")


def _chosen_value(answer: str, offered: Mapping[str, Value], field: FormField) -> Value:
    """Return the value of an answer: of one choice, of several, or as the user typed it; may raise `ValueError`."""
    if answer in offered:
        return offered[answer]
    labels = _split_choices(answer) if field.kind == "array" else []
    if labels and all(label in offered for label in labels):
        chosen = [offered[label] for label in labels]
        return [text for value in chosen if isinstance(value, list) for text in value]
    return field.parse_answer(answer)


def _split_choices(answer: str) -> list[str]:
    """Return the labels in the text of `Answer.of_choices`, or in a list that the user typed."""
    import csv  # loads with the first list

    rows = csv.reader(answer.replace("\nOther: ", ", ").split("\n"), skipinitialspace=True)
    return [label.strip() for row in rows for label in row if label.strip()]


def _detail(field: FormField, problem: str) -> str:
    rows = [f"{field.title}{'' if field.is_required else ' (optional)'}"]
    if field.description:
        rows.append(field.description)
    if isinstance(expected := field.schema.get("format"), str):
        rows.append(f"Expected: {expected}")
    if field.kind == "array":
        rows.append("Several answers are possible.")
    if field.is_secret:
        rows += ["", _WARNING]
    if problem:
        rows += ["", f"That answer is not valid: {problem}."]
    return visible_rows("\n".join(rows))


def _offered_values(field: FormField) -> dict[str, Value]:
    """Return the values to choose from by their labels, the default first.

    A label gets a number, as in `2. Decline`, if another value has it or if it is a choice of every form.
    """
    values: list[Value] = []
    if field.default is not None:
        values.append(field.default)
    if field.kind == "boolean":
        values += [True, False]
    is_list = field.kind == "array"
    values += [[value] if is_list else value for value in field.titles]
    by_label: dict[str, Value] = {}
    for value in values:
        if any(value == other for other in by_label.values()):
            continue
        label = _label(field.display(value))
        if label in (*by_label, DECLINE, LEAVE_OUT):
            label = f"{len(by_label) + 1}. {label}"
        by_label[label] = value
    return by_label


def _shown_choices(field: FormField, offered: Mapping[str, Value]) -> tuple[Choice, ...]:
    default = field.default
    is_list = field.kind == "array"
    rows = [
        Choice(label, "the default" if value == default else "", is_action=is_list and value == default)
        for label, value in offered.items()
    ]
    if not field.is_required:
        rows.append(Choice(LEAVE_OUT, is_action=True))
    return (*rows, Choice(DECLINE, "tell the server that you do not answer", is_action=True))


async def visit(message: str, url: str, ask: Ask) -> Action:
    """Ask the user to open an address; qcode does not open it. Raise `ValueError` for an unsafe address."""
    host = _host(url)
    rows = [f"Address: {url}", f"Host:    {host}"]
    if "xn--" in host or not host.isascii():
        rows += ["", "The host has letters that may look like others (Punycode): compare it with the one you expect."]
    rows += ["", "qcode does not open it. Open it only if you expect this and know the host."]
    question = f"The server wants you to open a page of {host}: {single_spaced(message, _MAX_MESSAGE_CHARS)}"
    choices = (Choice(WILL_OPEN, "tell the server that you agree"), Choice(DECLINE))
    answer = await ask(question, visible_rows("\n".join(rows)), choices, accepts_text=False)
    if answer is None:
        return "cancel"
    return "accept" if answer == WILL_OPEN else "decline"


def _host(url: str) -> str:
    """Return the host of an address; raise `ValueError` for an address that the user should not open."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or not url.isprintable() or " " in url:
        raise ValueError("its address is not valid")
    if parts.username is not None:
        raise ValueError("its address contains a user name")
    if parts.scheme != "https" and not (parts.scheme == "http" and _LOOPBACK.fullmatch(host)):
        raise ValueError("its address does not use https")
    return host
