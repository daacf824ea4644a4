"""One open session: what a conversation tells its file, in the words of the conversation.

No method raises for a disk that fails; `take_warnings` says what a person should know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from qcode.protocol.events import Attempt
from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.messages import Block, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.runtime.store.codec import attempt_to_json, block_to_json, message_to_json
from qcode.runtime.store.loaded import VERSION, Entry
from qcode.runtime.store.record_file import RecordFile
from qcode.runtime.store.records import to_line


class Session:
    """A session that can be appended to. It holds the lock of its file until `close`.

    `redact` takes secrets out of every text before it is written; what the conversation holds stays as it is.
    """

    def __init__(
        self, session_id: str, file: RecordFile, clock: Callable[[], datetime], redact: Callable[[str], str]
    ) -> None:
        self.session_id = session_id
        self._file = file
        self._clock = clock
        self._redact = redact

    @property
    def is_saved(self) -> bool:
        """Whether everything so far is in the file."""
        return self._file.is_saved

    def begin(self, *, model: str, cwd: str, root: str, forked_from: str = "") -> None:
        """Set the header down; it is written together with the first record after it."""
        header: JsonObject = {
            "kind": "session",
            "version": VERSION,
            "id": self.session_id,
            "created": self._now(),
            "cwd": cwd,
            "root": root,
            "model": model,
        }
        if forked_from:
            header["forked_from"] = forked_from
        self._file.hold(to_line(header))

    def append(self, message: Message, attempts: Iterable[Attempt] = (), note: str = "") -> None:
        """Write a committed message, with the attempts it was assembled from and a note for people."""
        record: JsonObject = {"kind": "message", "at": self._now(), **message_to_json(self._clean(message))}
        found: list[Json] = [attempt_to_json(one) for one in attempts]
        if found:
            record["attempts"] = found
        if note:
            record["note"] = self._redact(note)
        self._file.append(to_line(record))

    def append_entry(self, entry: Entry) -> None:
        self.append(entry.message, entry.attempts, entry.note)

    def intend(self, call: ToolCall) -> None:
        """Write that `call` is about to run. Call `sync` before it does."""
        clean = self._clean_call(call)
        record: JsonObject = {"kind": "intent", "at": self._now(), "call_id": call.call_id}
        self._file.append(to_line({**record, "name": clean.name, "arguments": clean.arguments}))

    def record_result(self, result: ToolResult) -> None:
        """Write the result of a call whose step still has calls to run, so that a crash does not lose it.

        The message that carries all results of the step is appended as well and replaces this on reading.
        """
        block = block_to_json(self._clean_block(result))
        self._file.append(to_line({"kind": "result", "at": self._now(), **block}))

    def switch_model(self, model: str) -> None:
        self._file.append(to_line({"kind": "model", "at": self._now(), "model": model}))

    def set_title(self, title: str) -> None:
        self._file.append(to_line({"kind": "title", "at": self._now(), "title": self._redact(title)}))

    def note(self, text: str) -> None:
        """Write a mark for people that belongs to the last message, such as that it was cut or cancelled."""
        self._file.append(to_line({"kind": "note", "at": self._now(), "text": self._redact(text)}))

    def sync(self) -> None:
        """Return once everything written is on the disk: before a tool runs and when a turn ends. It may block."""
        self._file.sync()

    def take_warnings(self) -> tuple[str, ...]:
        """Return lines for a person that were not returned before."""
        return self._file.take_warnings()

    def close(self) -> None:
        """Sync, and let others write to this session."""
        self._file.close()

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="milliseconds")

    def _clean(self, message: Message) -> Message:
        return replace(message, blocks=tuple(self._clean_block(block) for block in message.blocks))

    def _clean_block(self, block: Block) -> Block:
        match block:
            case Text() | Reasoning():
                return replace(block, text=self._redact(block.text))
            case ToolCall():
                return self._clean_call(block)
            case ToolResult():
                return replace(block, content=self._redact(block.content))
            case _:
                return block

    def _clean_call(self, call: ToolCall) -> ToolCall:
        """Redact arguments so that they stay JSON: as text where that works, else value by value."""
        text = self._redact(call.arguments)
        found = parse_object(call.arguments)
        if text != call.arguments and found is not None and parse_object(text) is None:
            import json

            text = json.dumps(self._clean_json(found), ensure_ascii=False)
        return replace(call, arguments=text)

    def _clean_json(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, list):
            return [self._clean_json(one) for one in value]
        if isinstance(value, dict):
            return {self._redact(name): self._clean_json(one) for name, one in value.items()}
        return value
