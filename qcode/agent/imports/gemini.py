"""Readers of the sessions of Gemini CLI and of qwen-code, its fork.

Public sources: `google-gemini/gemini-cli`, packages/core/src/services/chatRecordingTypes.ts and
chatRecordingService.ts (`~/.gemini/tmp/PROJECT/chats/session-*.json`, later `.jsonl`), and `QwenLM/qwen-code`,
`ChatRecord` in chatRecordingService.ts (`~/.qwen/projects/FOLDER/chats/ID.jsonl`). A file of Gemini CLI is a log: a
message replaces the earlier message with its id, `$set` changes the header, `$rewindTo` removes messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set

from qcode.agent.imports.claude_code import current_branch
from qcode.agent.imports.session import ImportedMessage, ImportedSession, TranscriptBuilder
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall
from qcode.text.json import Json, JsonObject, object_in, objects_in, text_in

GEMINI, QWEN = "gemini-cli", "qwen-code"
_NOTICES = ("info", "error", "warning")


def is_gemini_session(records: Sequence[JsonObject]) -> bool:
    """Return whether Gemini CLI wrote these records: one document, or a log that starts with a header."""
    return any("sessionId" in record and ("projectHash" in record or "messages" in record) for record in records)


def is_qwen_session(records: Sequence[JsonObject]) -> bool:
    """Return whether qwen-code wrote these records: each message has parts."""
    return any("uuid" in record and "parts" in object_in(record.get("message")) for record in records)


def read_gemini(
    records: Sequence[JsonObject], name: str, builder: TranscriptBuilder, program: str = GEMINI
) -> ImportedSession:
    """Convert the records of the session file `name`. `builder` must be new, except for its counts.

    Early versions of qwen-code wrote such files too.
    """
    header: JsonObject = {}
    messages: dict[str, JsonObject] = {}
    for record in records:
        if "$rewindTo" in record:
            _rewind(messages, text_in(record["$rewindTo"]), builder)
        elif "$set" in record or ("sessionId" in record and "type" not in record):
            header |= object_in(record.get("$set", record))
            if objects_in(header.get("messages")):
                messages = {_id(message): message for message in objects_in(header.pop("messages"))}
            builder.bookkeeping["header"] += 1
        elif "id" in record and "type" in record:
            messages[_id(record)] = record
        else:
            builder.left_out["unknown record"] += 1
    calls = (call for message in messages.values() for call in objects_in(message.get("toolCalls")))
    answered_ids = {text_in(call.get("id")) for call in calls if call.get("result")}
    for message in messages.values():
        _read_gemini_message(message, builder, answered_ids)
    directories = header.get("directories")
    cwd = text_in(directories[0]) if isinstance(directories, list) and directories else ""
    session_id, title = text_in(header.get("sessionId")) or name, text_in(header.get("summary"))
    return builder.session(program, session_id, cwd=cwd, title=title, created=text_in(header.get("startTime")))


def _id(message: JsonObject) -> str:
    """Return the id of a message; for a message without an id, a key that no other message has."""
    return text_in(message.get("id")) or f"message {id(message)}"


def _rewind(messages: dict[str, JsonObject], target_id: str, builder: TranscriptBuilder) -> None:
    """Remove the message `target_id` and all messages after it; remove all messages if there is no such message."""
    ids = list(messages)
    removed = ids[ids.index(target_id) :] if target_id in messages else ids
    builder.left_out["messages of turns that were rewound"] += len(removed)
    for message_id in removed:
        del messages[message_id]


def _read_gemini_message(message: JsonObject, builder: TranscriptBuilder, answered_ids: Set[str]) -> None:
    """Read a message.

    Gemini CLI stores a result twice: with its call, and as a part of the next user message. `answered_ids` are the ids
    of calls with a stored result, so the results of these calls are skipped in user messages.
    """
    kind, timestamp = text_in(message.get("type")), text_in(message.get("timestamp"))
    parts = _parts(message.get("content"))
    calls = objects_in(message.get("toolCalls"))
    if kind == "user":
        _read_user_parts(parts, timestamp, builder, answered_ids=answered_ids)
    elif kind == "gemini":
        model = text_in(message.get("model"))
        for thought in objects_in(message.get("thoughts")):
            texts = (text_in(thought.get("subject")), text_in(thought.get("description")))
            builder.add_reply_block(Reasoning("\n\n".join(text for text in texts if text)), timestamp, model)
        # A call may be in the content and in `toolCalls`. It is read from `toolCalls`, which also have the results.
        for block in _read_blocks(parts, builder, skipped_calls={text_in(call.get("id")) for call in calls}):
            builder.add_reply_block(block, timestamp, model)
        for call in calls:
            arguments = json.dumps(object_in(call.get("args")), ensure_ascii=False)
            builder.add_reply_block(
                ToolCall(text_in(call.get("id")), text_in(call.get("name")), arguments), timestamp, model
            )
        for call in calls:
            _read_gemini_result(call, timestamp, builder)
    elif kind in _NOTICES:
        builder.left_out[f"{kind} messages of the program"] += 1
    else:
        builder.left_out[f"unknown record {kind or 'without type'}"] += 1


def _read_gemini_result(call: JsonObject, timestamp: str, builder: TranscriptBuilder) -> None:
    call_id, is_error = text_in(call.get("id")), call.get("status") in ("error", "cancelled")
    parts = _parts(call.get("result"))
    responses = [object_in(part["functionResponse"]) for part in parts if "functionResponse" in part]
    texts = [_response_text(response.get("response")) for response in responses]
    texts += [text_in(part["text"]) for part in parts if "text" in part]
    images = [image for part in parts if (image := _image(part)) is not None]
    if not parts and isinstance(call.get("resultDisplay"), str):
        texts = [text_in(call["resultDisplay"])]
    if parts or texts:
        is_error = is_error or any("error" in object_in(response.get("response")) for response in responses)
        builder.add_result(call_id, "\n".join(texts), timestamp, is_error=is_error, images=images)


def read_qwen(records: Sequence[JsonObject], name: str, builder: TranscriptBuilder) -> ImportedSession:
    """Convert the records of the session file `name`. `builder` must be new, except for its counts."""
    main_records = [record for record in records if record.get("isSidechain") is not True]
    builder.left_out["messages of sub-agents"] += len(records) - len(main_records)
    # `current_branch` finds only user and assistant records. A rewind also removes results and compressions.
    entries = [{**record, "type": "user"} if _can_be_rewound(record) else record for record in main_records]
    on_branch = set(map(id, current_branch(entries)))
    title = ""
    for record, entry in zip(main_records, entries, strict=True):
        timestamp, kind = text_in(record.get("timestamp")), text_in(record.get("type"))
        payload = object_in(record.get("systemPayload"))
        if kind in ("user", "assistant", "tool_result"):
            if id(entry) in on_branch:
                _read_qwen_message(record, builder)
            else:
                builder.left_out["messages of branches that were rewound"] += 1
        elif kind == "system":
            builder.bookkeeping[f"system {text_in(record.get('subtype'))}".strip()] += 1
            title = text_in(payload.get("customTitle")) or title
            if _is_compression(record) and id(entry) in on_branch:
                builder.compact(_read_history(payload.get("compressedHistory")), timestamp)
        else:
            builder.left_out[f"unknown record {kind or 'without type'}"] += 1
    first: JsonObject = main_records[0] if main_records else {}
    session_id, cwd = text_in(first.get("sessionId")) or name, text_in(first.get("cwd"))
    return builder.session(QWEN, session_id, cwd=cwd, title=title, created=text_in(first.get("timestamp")))


def _can_be_rewound(record: JsonObject) -> bool:
    return record.get("type") == "tool_result" or _is_compression(record)


def _is_compression(record: JsonObject) -> bool:
    return record.get("type") == "system" and record.get("subtype") == "chat_compression"


def _read_qwen_message(record: JsonObject, builder: TranscriptBuilder) -> None:
    timestamp, model = text_in(record.get("timestamp")), text_in(record.get("model"))
    parts = _parts(object_in(record.get("message")).get("parts"))
    if record.get("type") == "assistant":
        for block in _read_blocks(parts, builder):
            builder.add_reply_block(block, timestamp, model)
        return
    is_typed = record.get("subtype") in (None, "mid_turn_user_message")
    _read_user_parts(parts, timestamp, builder, is_typed=is_typed)


def _read_history(contents: Json) -> list[Message]:
    """Return the messages of a compressed history."""
    builder = TranscriptBuilder()
    for content in objects_in(contents):
        parts = _parts(content.get("parts"))
        if content.get("role") == "model":
            for block in _read_blocks(parts, builder):
                builder.add_reply_block(block)
        else:
            _read_user_parts(parts, timestamp="", builder=builder)
    return [message.message for message in builder.finish() if isinstance(message, ImportedMessage)]


def _read_user_parts(
    parts: Sequence[JsonObject],
    timestamp: str,
    builder: TranscriptBuilder,
    *,
    answered_ids: Set[str] = frozenset(),
    is_typed: bool = True,
) -> None:
    """Read the parts of a user message, without the results of calls with an id in `answered_ids`."""
    content_parts = []
    for part in parts:
        response = part.get("functionResponse")
        if isinstance(response, dict):
            content = response.get("response")
            is_error = "error" in object_in(content)
            nested = [image for entry in objects_in(response.get("parts")) if (image := _image(entry)) is not None]
            call_id = text_in(response.get("id")) or text_in(response.get("name"))
            if call_id not in answered_ids:
                builder.add_result(call_id, _response_text(content), timestamp, is_error=is_error, images=nested)
        else:
            content_parts.append(part)
    builder.add_prompt(_read_blocks(content_parts, builder), timestamp, is_typed=is_typed)


def _read_blocks(
    parts: Sequence[JsonObject], builder: TranscriptBuilder, skipped_calls: Set[str] = frozenset()
) -> list[Block]:
    """Return the blocks of parts, without calls with an id in `skipped_calls`."""
    blocks: list[Block] = []
    for part in parts:
        call = part.get("functionCall")
        if isinstance(call, dict):
            call_id = text_in(call.get("id")) or text_in(call.get("name"))
            if call_id not in skipped_calls:
                arguments = json.dumps(object_in(call.get("args")), ensure_ascii=False)
                blocks.append(ToolCall(call_id, text_in(call.get("name")), arguments))
        elif "text" in part:
            text = text_in(part["text"])
            blocks.append(Reasoning(text) if part.get("thought") is True else Text(text))
        elif (image := _image(part)) is not None:
            blocks.append(image)
        else:
            builder.left_out[f"part {next(iter(part), 'without content')}"] += 1
    return blocks


def _parts(content: Json) -> list[JsonObject]:
    """Return the message parts in a text, a part, or a list of texts and parts."""
    if isinstance(content, list):
        return [part for item in content for part in _parts(item)]
    return [{"text": content}] if isinstance(content, str) else objects_in(content)


def _response_text(response: Json) -> str:
    """Return the text of a tool's response: the only value if it is text (`{"output": "..."}`), otherwise JSON."""
    if isinstance(response, Mapping) and len(response) == 1:
        value = next(iter(response.values()))
        if isinstance(value, str):
            return value
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _image(part: JsonObject) -> Image | None:
    inline = object_in(part.get("inlineData"))
    media_type, data = text_in(inline.get("mimeType")), text_in(inline.get("data"))
    return Image(media_type, data) if media_type.startswith("image/") and data else None
