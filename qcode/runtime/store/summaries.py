"""What a list shows of a session, read without building its conversation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from qcode.protocol.json import JsonObject, parse_object
from qcode.protocol.messages import Text
from qcode.runtime.store.codec import message_from_json

_FIRST_WORDS = 80
_WANTED = tuple(f'{{"kind":"{kind}"'.encode() for kind in ("session", "title", "model"))
_MESSAGE = b'{"kind":"message"'


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


def _facts(record: JsonObject) -> dict[str, str]:
    names = ("title", "model", "created")
    return {name: value for name in names if isinstance(value := record.get(name), str)}


def _first_words(line: bytes) -> dict[str, str]:
    try:
        message = message_from_json(_parse(line))
    except ValueError:
        return {}
    # What was typed is the last text; what was attached comes before it.
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    words = " ".join(texts[-1].split()) if texts else ""
    if message.role != "user" or not words:
        return {}
    return {"words": words if len(words) <= _FIRST_WORDS else words[: _FIRST_WORDS - 1] + "…"}


def _parse(line: bytes) -> JsonObject:
    try:
        return parse_object(line.decode()) or {}
    except UnicodeDecodeError:
        return {}
