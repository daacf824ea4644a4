"""Conversations and stores for the tests of session files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore
from qcode.protocol.events import AttemptRecord
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.usage import Usage

START = datetime(2026, 11, 21, 7, 35, 20, tzinfo=UTC)
MODEL = "anthropic/claude-x"

CALL = ToolCall("c1", "shell", '{"command": "make"}')
OTHER = ToolCall("c2", "read", '{"path": "a\u2028b"}', Opaque("gemini", '"sig"'))
CONVERSATION: tuple[Message, ...] = (
    Message("user", (Text("größe\u2028\u2029\x85 [x]\n\ttab \U0001f600"), Image("image/png", "aGk="))),
    assistant(Reasoning("hm", Opaque("anthropic", '{"signature":"s"}')), Text("I look."), CALL, OTHER),
    Message(
        "user",
        (
            ToolResult("c1", "shell", "ok\r\n"),
            ToolResult("c2", "read", "no such file", True, (Image("image/png", "aGk="),)),
        ),
    ),
    assistant(Text("Done.", Opaque("gemini", '{"a":[1]}'))),
)
ATTEMPTS = (
    AttemptRecord("first", 8000, "max_tokens", Usage(10, 8000), is_discarded=True),
    AttemptRecord("escalated", 64000, "end_turn", Usage(10, 9000, 1, 2, 3)),
)


class Clock:
    """Advances by a second at each call."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def make_store(base: Path, *, redact: Callable[[str], str] = str) -> SessionStore:
    project = base / "project"
    project.mkdir(exist_ok=True)
    return SessionStore(base / "state", project, Clock(), redact=redact)


def begin(store: SessionStore, *messages: Message) -> Session:
    session = store.create(MODEL, Path("/work/project"))
    for message in messages:
        session.append(message)
    return session


def stored(store: SessionStore, *messages: Message) -> Path:
    """Write a session, close it, and return its file."""
    session = begin(store, *messages)
    session.close()
    return store.folder / f"{session.session_id}.jsonl"


PROMPT = user("go on")
