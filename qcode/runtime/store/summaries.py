"""What a list shows of a session, read without building its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from qcode.protocol.json import JsonObject, parse_object
from qcode.protocol.messages import Message, typed_text
from qcode.protocol.values import dataclass
from qcode.runtime.store.codec import message_from_json

_FIRST_WORDS = 80
_WANTED = tuple(f'{{"kind":"{kind}"'.encode() for kind in ("session", "title", "model"))
_MESSAGE = b'{"kind":"message"'
_TITLE = b'{"kind":"title"'


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """`title` is the one that was given, else the first words of the person. `messages` counts stored messages."""

    session_id: str
    title: str
    model: str
    created: str
    updated: datetime
    messages: int
    size: int


def summarize(path: Path) -> SessionSummary | None:
    """Return the summary of a session file, or None if it cannot be read."""
    facts: dict[str, str] = {}
    messages = 0
    try:
        with path.open("rb") as stream:
            for line in stream:
                if line.startswith(_MESSAGE):
                    messages += 1
                    if "words" not in facts:
                        facts.update(_first_words(line))
                elif line.startswith(_WANTED):
                    facts.update(_facts(_parse(line)))
        state = path.stat()
    except OSError:
        return None
    updated = datetime.fromtimestamp(state.st_mtime, UTC)
    title = facts.get("title") or facts.get("words", "")
    return SessionSummary(
        path.stem, title, facts.get("model", ""), facts.get("created", ""), updated, messages, state.st_size
    )


def first_words(messages: Iterable[Message]) -> str:
    """Return the first words a person said in these messages, empty where there are none."""
    for message in messages:
        words = " ".join(typed_text(message).split())
        if message.role == "user" and words:
            return words if len(words) <= _FIRST_WORDS else words[: _FIRST_WORDS - 1] + "…"
    return ""


def mentions(path: Path, words: Sequence[str]) -> bool:
    """Return whether each of `words`, casefolded, stands in what was said in a session or in its title."""
    missing = set(words)
    try:
        with path.open("rb") as stream:
            for line in stream:
                if not missing:
                    break
                if line.startswith((_MESSAGE, _TITLE)):
                    said = _said(_parse(line)).casefold()
                    missing = {word for word in missing if word not in said}
    except OSError:
        return False
    return not missing


def _said(record: JsonObject) -> str:
    title = record.get("title")
    if isinstance(title, str):
        return title
    try:
        return message_from_json(record).text
    except ValueError:
        return ""


def _facts(record: JsonObject) -> dict[str, str]:
    names = ("title", "model", "created")
    return {name: value for name in names if isinstance(value := record.get(name), str)}


def _first_words(line: bytes) -> dict[str, str]:
    try:
        message = message_from_json(_parse(line))
    except ValueError:
        return {}
    words = first_words([message])
    return {"words": words} if words else {}


def _parse(line: bytes) -> JsonObject:
    try:
        return parse_object(line.decode()) or {}
    except UnicodeDecodeError:
        return {}
