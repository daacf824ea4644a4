"""The conversation as a file for hooks, one JSON line per message in Claude Code's format.

Separate from `session`, which loads it with the first hook that runs. Hooks search this file for lines such as
`"role":"assistant"`, so its format must not change. The session file remains the record of the conversation.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from qcode.config.state_file import create_private_folder
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.text.json import Json, JsonObject, parse_object

FOLDER = "hook-transcripts"
MAX_AGE_DAYS = 30


class TranscriptFile:
    """One file, mode 600, in `parent` / `FOLDER`. Write errors are ignored: the file serves hooks only."""

    def __init__(self, parent: Path, name: str, folder: Path, redact: Callable[[str], str]) -> None:
        self.path = parent / FOLDER / f"{name}.jsonl"
        self._folder = str(folder)
        self._session_id = name
        self._redact = redact

    def begin(self, messages: Iterable[tuple[datetime, Message]] = ()) -> None:
        """Create or replace the file with the messages so far and their times, and remove files that are old."""
        with contextlib.suppress(OSError):
            create_private_folder(self.path.parent)
            _remove_old(self.path.parent)
            self._write(messages, os.O_TRUNC)

    def append(self, message: Message, timestamp: datetime) -> None:
        with contextlib.suppress(OSError):
            self._write([(timestamp, message)], os.O_APPEND)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _write(self, messages: Iterable[tuple[datetime, Message]], flags: int) -> None:
        data = b"".join(self._line(message, timestamp) for timestamp, message in messages)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)

    def _line(self, message: Message, timestamp: datetime) -> bytes:
        content = [block for block in (self._block(part) for part in message.blocks) if block is not None]
        line = {
            "type": message.role,
            "message": {"role": message.role, "content": content},
            "sessionId": self._session_id,
            "cwd": self._folder,
            "timestamp": timestamp.isoformat().replace("+00:00", "Z"),
        }
        # Without spaces, because hooks search for texts such as `"role":"assistant"`.
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        return self._redact(text).encode("utf-8", "backslashreplace") + b"\n"

    def _block(self, block: Text | Reasoning | ToolCall | ToolResult | Image) -> JsonObject | None:
        match block:
            case Text(text=text):
                return {"type": "text", "text": text}
            case Reasoning(text=text):
                return {"type": "thinking", "thinking": text} if text else None
            case ToolCall():
                from qcode.agent.claude.tool_names import to_claude  # loads with the first call

                call = to_claude(block.name, parse_object(block.arguments) or {}, self._folder)[0]
                return {"type": "tool_use", "id": block.call_id, "name": call.name, "input": call.input}
            case ToolResult():
                result: Json = block.content
                return {
                    "type": "tool_result",
                    "tool_use_id": block.call_id,
                    "content": result,
                    "is_error": block.is_error,
                }
            case Image():
                return {"type": "text", "text": "[image]"}


def _remove_old(folder: Path) -> None:
    oldest = time.time() - MAX_AGE_DAYS * 86_400
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.suffix == ".jsonl" and path.stat().st_mtime < oldest:
                path.unlink()
