"""Reader of the sessions of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, one record per line.

Public source: `openai/codex`, `RolloutItem` in codex-rs/protocol/src/protocol.rs and `ResponseItem` in
codex-rs/protocol/src/models.rs. A record has `type` and `payload`; the records `response_item` are the conversation,
which `event_msg` repeats. In an older format, a file contains the items themselves after a header without a type.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from qcode.agent.imports.session import ImportedMessage, ImportedSession, TranscriptBuilder
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall
from qcode.text.json import Json, JsonObject, object_in, objects_in, parse_object, text_in

PROGRAM = "codex"
_RECORDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_BOOKKEEPING = frozenset({"session_meta", "turn_context", "event_msg", "world_state", "ghost_snapshot", "state"})
"""Records and items without content of the conversation."""
_INSTRUCTION_PREFIXES = (
    "<environment_context>", "<user_instructions>", "<permissions instructions>", "<turn_aborted>", "<skill>",
    "# AGENTS.md instructions", "<collaboration_mode>", "<INSTRUCTIONS>", "<subagent_notification>",
)  # fmt: skip
"""Starts of texts that Codex adds in the user's name."""


def is_session(records: Sequence[JsonObject]) -> bool:
    """Return whether Codex wrote these records, in its current or its older format."""
    first: JsonObject = records[0] if records else {}
    has_old_header = "id" in first and "timestamp" in first and ("instructions" in first or "git" in first)
    if has_old_header:
        return True
    return any(record.get("type") in _RECORDS and isinstance(record.get("payload"), dict) for record in records)


def is_subagent(records: Sequence[JsonObject]) -> bool:
    """Return whether this is the session of a sub-agent, whose result is in the session that started it."""
    source = object_in(records[0].get("payload")).get("source") if records else None
    return isinstance(source, dict) and "subagent" in source


def read(records: Sequence[JsonObject], name: str, builder: TranscriptBuilder) -> ImportedSession:
    """Convert the records of the session file `name`. `builder` must be new, except for its counts."""
    header: JsonObject = records[0] if records else {}
    if isinstance(header.get("payload"), dict):
        header = next((object_in(record["payload"]) for record in records if record.get("type") == "session_meta"), {})
    reader = _Reader(builder, text_in(header.get("cwd")))
    for record in records:
        if record is not header:
            reader.add(record)
    created = text_in(header.get("timestamp")) or text_in(records[0].get("timestamp") if records else "")
    session_id = text_in(header.get("id")) or name
    return builder.session(PROGRAM, session_id, cwd=reader.cwd, title=reader.title, created=created)


class _Reader:
    """A reader that adds records to a builder. It also collects the folder and the title of the session."""

    def __init__(self, builder: TranscriptBuilder, cwd: str) -> None:
        self._builder = builder
        self._model = ""
        self.cwd = cwd
        self.title = ""

    def add(self, record: JsonObject) -> None:
        """Read a record of the current format, or an item of the older format or of a compaction."""
        payload, timestamp = record.get("payload"), text_in(record.get("timestamp"))
        kind = text_in(record.get("type"))
        if not isinstance(payload, dict):
            if "record_type" in record:
                self._builder.bookkeeping[text_in(record["record_type"])] += 1
            else:
                self._add_item(record, timestamp)
            return
        match kind:
            case "response_item":
                self._add_item(payload, timestamp)
            case "compacted":
                self._add_compaction(payload, timestamp)
            case "event_msg":
                self._read_event(payload)
            case "turn_context":
                self._model = text_in(payload.get("model")) or self._model
                self.cwd = self.cwd or text_in(payload.get("cwd"))
                self._builder.bookkeeping[kind] += 1
            case _ if kind in _BOOKKEEPING:
                self._builder.bookkeeping[kind] += 1
            case _:
                self._builder.left_out[f"unknown record {kind or 'without type'}"] += 1

    def _read_event(self, payload: JsonObject) -> None:
        kind = text_in(payload.get("type"))
        self._builder.bookkeeping[f"event {kind}"] += 1
        if kind == "thread_rolled_back":
            turns = payload.get("num_turns")
            self._builder.roll_back(turns if isinstance(turns, int) else 0)
        elif kind == "thread_name_updated":
            self.title = text_in(payload.get("thread_name")) or self.title

    def _add_compaction(self, payload: JsonObject, timestamp: str) -> None:
        """Read a compaction, with messages that replace all earlier messages, a summary of them, or both."""
        replacement = TranscriptBuilder()
        reader = _Reader(replacement, "")
        for item in objects_in(payload.get("replacement_history")):
            reader.add(item)
        messages = [message.message for message in replacement.finish() if isinstance(message, ImportedMessage)]
        summary = text_in(payload.get("message"))
        if summary.strip() and not any(summary in message.text for message in messages):
            messages.append(Message("user", (Text(summary),)))
        if replacement.left_out["encrypted summary"] and not summary.strip():
            # The summary cannot be read, so the full history remains.
            self._builder.left_out["encrypted summary"] += 1
            return
        self._builder.compact(messages, timestamp)

    def _add_item(self, item: JsonObject, timestamp: str) -> None:
        builder = self._builder
        kind = text_in(item.get("type"))
        match kind:
            case "message":
                self._add_message(item, timestamp)
            case "reasoning":
                texts = [
                    text_in(part.get("text")) for name in ("summary", "content") for part in objects_in(item.get(name))
                ]
                builder.add_reply_block(Reasoning("\n\n".join(text for text in texts if text)), timestamp, self._model)
                if "encrypted_content" in item and not any(texts):
                    builder.left_out["encrypted reasoning"] += 1
            case "compaction" | "compaction_summary":
                builder.left_out["encrypted summary"] += 1
            case _ if kind.endswith("_call") and (call_id := _call_id(item, kind)):
                builder.add_reply_block(
                    ToolCall(call_id, _tool_name(item, kind), _arguments(item)), timestamp, self._model
                )
            case _ if kind.endswith("_output") and text_in(item.get("call_id")):
                self._add_result(item, timestamp)
            case _ if kind in _BOOKKEEPING:
                builder.bookkeeping[kind] += 1
            case _:
                builder.left_out[f"item {kind or 'without type'}"] += 1

    def _add_message(self, item: JsonObject, timestamp: str) -> None:
        role = item.get("role")
        blocks = self._read_blocks(item.get("content"))
        if role == "assistant":
            for block in blocks:
                self._builder.add_reply_block(block, timestamp, self._model)
            return
        texts = [block.text.lstrip() for block in blocks if isinstance(block, Text)]
        are_instructions = bool(texts) and all(text.startswith(_INSTRUCTION_PREFIXES) for text in texts)
        if role != "user" or are_instructions:
            self._builder.left_out["instructions to the model"] += 1
            return
        self._builder.add_prompt(blocks, timestamp)

    def _read_blocks(self, content: Json) -> list[Block]:
        blocks: list[Block] = []
        parts: list[JsonObject] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else objects_in(content)
        )
        for part in parts:
            match part.get("type"):
                case "input_text" | "output_text" | "text":
                    blocks.append(Text(text_in(part.get("text"))))
                case "input_image" if (image := image_from_url(text_in(part.get("image_url")))) is not None:
                    blocks.append(image)
                case other:
                    self._builder.left_out[f"content {text_in(other) or 'without type'}"] += 1
        return blocks

    def _add_result(self, item: JsonObject, timestamp: str) -> None:
        output = item.get("output", item.get("tools"))  # a search for tools has `tools`
        is_error = False
        images: list[Image] = []
        if isinstance(output, dict) and "content" in output:
            is_error = output.get("success") is False
            output = output.get("content")
        if isinstance(output, str):
            text = output
        elif isinstance(output, list) and item.get("type") != "tool_search_output":
            blocks = self._read_blocks(output)
            text = "\n".join(block.text for block in blocks if isinstance(block, Text))
            images = [block for block in blocks if isinstance(block, Image)]
        else:
            text = json.dumps(output, ensure_ascii=False)
        self._builder.add_result(text_in(item.get("call_id")), text, timestamp, is_error=is_error, images=images)


def _call_id(item: JsonObject, kind: str) -> str:
    """Return the id of a call that Codex ran; empty for a call that the provider ran, such as a web search."""
    return text_in(item.get("call_id")) or (text_in(item.get("id")) if kind == "local_shell_call" else "")


def _tool_name(item: JsonObject, kind: str) -> str:
    name = text_in(item.get("name")) or kind.removesuffix("_call")
    namespace = text_in(item.get("namespace"))
    return f"{namespace}__{name}" if namespace else name


def _arguments(item: JsonObject) -> str:
    """Return the arguments as a JSON object. A custom tool takes free text, which becomes the field `input`."""
    arguments = item.get("arguments", item.get("action", item.get("input")))
    if not isinstance(arguments, str):
        return json.dumps(object_in(arguments), ensure_ascii=False)
    if parse_object(arguments) is None:
        return json.dumps({"input": arguments}, ensure_ascii=False)
    return arguments


def image_from_url(url: str) -> Image | None:
    """Return the image in a `data:` URL, None for any other URL."""
    head, _, data = url.partition(",")
    media_type, _, encoding = head.removeprefix("data:").partition(";")
    is_data = head.startswith("data:image/") and encoding == "base64"
    return Image(media_type, data) if is_data and data else None
