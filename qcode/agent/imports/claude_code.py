"""Reader of the sessions of Claude Code: `~/.claude/projects/FOLDER/ID.jsonl`, one record per line.

The format is not documented. Sources: `daaain/claude-code-log` (dev-docs/dag.md, dev-docs/messages.md) and
`DRMacIver/claude-reliability` (notes/transcript-format.md). Records form a tree by `uuid` and `parentUuid`; a rewind
starts a branch. Each block of a reply is a separate record with the same `message.id`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence

from qcode.agent.imports.session import ImportedSession, TranscriptBuilder
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall
from qcode.text.json import Json, JsonObject, object_in, objects_in, text_in

PROGRAM = "claude-code"
_MESSAGE_TYPES = ("user", "assistant")
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
"""The types of records that give the session a title, each with the field of the title; the best first."""
_BOOKKEEPING = frozenset({
    "agent-color", "agent-name", "agent-setting", "attachment", "file-history-snapshot", "last-prompt", "mode",
    "permission-mode", "pr-link", "progress", "queue-operation", "summary", "system", "tag", "worktree-state",
})  # fmt: skip
"""The types of records that are not part of the conversation."""
_PROGRAM_PREFIXES = ("<command-", "<local-command-", "<bash-", "<task-notification>", "<system-reminder>", "Caveat: ")
"""Starts of texts that Claude Code writes in the user's name: output of its commands, reminders."""


def is_session(records: Sequence[JsonObject]) -> bool:
    """Return whether Claude Code wrote these records."""
    return any(_is_message(record) or _is_summary(record) for record in records)


def _is_message(record: JsonObject) -> bool:
    return record.get("type") in _MESSAGE_TYPES and "content" in object_in(record.get("message"))


def _is_summary(record: JsonObject) -> bool:
    return record.get("type") == "summary" and "leafUuid" in record


def read(records: Sequence[JsonObject], name: str, builder: TranscriptBuilder) -> ImportedSession:
    """Convert the records of the session file `name`. `builder` must be new, except for its counts."""
    main_records = [record for record in records if record.get("isSidechain") is not True]
    builder.left_out["messages of sub-agents"] += sum(
        record.get("isSidechain") is True and record.get("type") in _MESSAGE_TYPES for record in records
    )
    on_branch = set(map(id, current_branch(main_records)))
    titles: dict[str, str] = {}
    own_ids = {text_in(record.get("uuid")) for record in records}
    for record in main_records:
        kind = text_in(record.get("type"))
        if kind in _MESSAGE_TYPES:
            if id(record) in on_branch:
                _read_message(record, builder)
            else:
                builder.left_out["messages of branches that were rewound"] += 1
        elif kind in _TITLES:
            titles[kind] = text_in(record.get(_TITLES[kind]))
        elif _is_queued_prompt(record):
            _read_queued_prompt(record, builder)
        elif kind in _BOOKKEEPING:
            builder.bookkeeping[kind] += 1
            # The file may also contain summaries of other sessions.
            if kind == "summary" and record.get("leafUuid") in own_ids:
                titles[kind] = text_in(record.get("summary"))
        else:
            builder.left_out[f"unknown record {kind or 'without type'}"] += 1
    title = next((titles[kind] for kind in (*_TITLES, "summary") if titles.get(kind)), "")
    return builder.session(
        PROGRAM,
        _first_text(main_records, "sessionId") or name,
        cwd=_first_text(main_records, "cwd"),
        title=title,
        created=_first_text(main_records, "timestamp"),
    )


def _first_text(records: Sequence[JsonObject], field: str) -> str:
    """Return the first text in a field of the records, empty if there is none."""
    return next((text for record in records if (text := text_in(record.get(field)))), "")


def current_branch(records: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the messages that led to the last message of each tree, in file order.

    A reply with two calls is written as two records, each with a result as its child. The path to the last message
    contains only one of these records. So the other records of the reply are added, and the results of all its calls.
    """
    by_uuid = {uuid: record for record in records if (uuid := text_in(record.get("uuid")))}
    messages = [record for record in records if record.get("type") in _MESSAGE_TYPES]
    roots: dict[str, str] = {}
    leaves: dict[str, JsonObject] = {}
    for message in messages:
        path = _path(message, by_uuid, roots)
        root = roots.get(path[-1], path[-1])
        roots |= dict.fromkeys(path, root)
        leaves[root] = message
    on_path = {uuid for leaf in leaves.values() for uuid in _path(leaf, by_uuid)}
    replies = {reply for uuid in on_path if uuid in by_uuid and (reply := _reply_id(by_uuid[uuid]))}
    result = [message for message in messages if _key(message) in on_path or _reply_id(message) in replies]
    calls = {call for record in result for call in _ids(record, "tool_use", "id")}
    chosen = set(map(id, result))
    return [
        message
        for message in messages
        if id(message) in chosen or calls & set(_ids(message, "tool_result", "tool_use_id"))
    ]


def _path(record: JsonObject, by_uuid: dict[str, JsonObject], known_keys: Collection[str] = ()) -> list[str]:
    """Return the keys of a record and of its ancestors, up to a key in `known_keys` or the root of its tree."""
    path: dict[str, None] = {}
    ancestor: JsonObject | None = record
    while ancestor is not None and (key := _key(ancestor)) not in path:
        path[key] = None
        if key in known_keys:
            break
        parent = text_in(ancestor.get("parentUuid")) or text_in(ancestor.get("logicalParentUuid"))
        ancestor = by_uuid.get(parent)
    return list(path)


def _key(record: JsonObject) -> str:
    return text_in(record.get("uuid")) or f"record {id(record)}"


def _reply_id(record: JsonObject) -> str:
    return text_in(object_in(record.get("message")).get("id")) if record.get("type") == "assistant" else ""


def _ids(record: JsonObject, kind: str, name: str) -> Iterable[str]:
    """Return the field `name` of each block of a kind in a message."""
    content = objects_in(object_in(record.get("message")).get("content"))
    return (text_in(block.get(name)) for block in content if block.get("type") == kind)


def _is_queued_prompt(record: JsonObject) -> bool:
    """Return whether `record` is a prompt that was typed while a turn ran: an attachment of the next request."""
    return record.get("type") == "attachment" and object_in(record.get("attachment")).get("type") == "queued_command"


def _read_queued_prompt(record: JsonObject, builder: TranscriptBuilder) -> None:
    prompt = object_in(record.get("attachment")).get("prompt")
    blocks = _read_blocks(
        [{"type": "text", "text": prompt}] if isinstance(prompt, str) else objects_in(prompt), builder
    )
    builder.add_prompt(blocks, text_in(record.get("timestamp")))


def _read_message(record: JsonObject, builder: TranscriptBuilder) -> None:
    message, timestamp = object_in(record.get("message")), text_in(record.get("timestamp"))
    content = message.get("content")
    parts: list[JsonObject] = [{"type": "text", "text": content}] if isinstance(content, str) else objects_in(content)
    if record.get("type") == "assistant":
        if record.get("isApiErrorMessage") is True:
            builder.left_out["error messages"] += 1
            return
        model = text_in(message.get("model"))
        for block in _read_blocks(parts, builder):
            builder.add_reply_block(block, timestamp, "" if model == "<synthetic>" else model)
        return
    for part in parts:
        if part.get("type") == "tool_result":
            _read_result(part, timestamp, builder)
    blocks = _read_blocks([part for part in parts if part.get("type") != "tool_result"], builder)
    if record.get("isCompactSummary") is True:
        builder.compact([Message("user", tuple(blocks))], timestamp)
        return
    is_typed = record.get("isMeta") is not True and not _is_from_program(blocks)
    builder.add_prompt(blocks, timestamp, is_typed=is_typed)


def _is_from_program(blocks: Sequence[Block]) -> bool:
    texts = [block.text for block in blocks if isinstance(block, Text)]
    return bool(texts) and all(text.lstrip().startswith(_PROGRAM_PREFIXES) for text in texts)


def _read_blocks(content: Iterable[JsonObject], builder: TranscriptBuilder) -> list[Block]:
    blocks: list[Block] = []
    for block in content:
        match block.get("type"):
            case "text":
                blocks.append(Text(text_in(block.get("text"))))
            case "thinking":
                blocks.append(Reasoning(text_in(block.get("thinking"))))
            case "tool_use":
                arguments = json.dumps(object_in(block.get("input")), ensure_ascii=False)
                blocks.append(ToolCall(text_in(block.get("id")), text_in(block.get("name")), arguments))
            case "image" if (image := image_from(block)) is not None:
                blocks.append(image)
            case other:
                builder.left_out[f"block {text_in(other) or 'without type'}"] += 1
    return blocks


def _read_result(block: JsonObject, timestamp: str, builder: TranscriptBuilder) -> None:
    content: Json = block.get("content")
    parts = objects_in(content)
    texts = [text_in(part.get("text")) for part in parts if part.get("type") == "text"]
    images = [image for part in parts if (image := image_from(part)) is not None]
    for part in parts:
        if part.get("type") != "text" and image_from(part) is None:
            builder.left_out[f"result part {text_in(part.get('type')) or 'without type'}"] += 1
    text = content if isinstance(content, str) else "\n".join(texts)
    is_error = block.get("is_error") is True
    builder.add_result(text_in(block.get("tool_use_id")), text, timestamp, is_error=is_error, images=images)


def image_from(block: JsonObject) -> Image | None:
    """Return the image in a block, None for a block of another kind."""
    source = object_in(block.get("source"))
    if block.get("type") != "image" or source.get("type") != "base64":
        return None
    return Image(text_in(source.get("media_type")), text_in(source.get("data")))
