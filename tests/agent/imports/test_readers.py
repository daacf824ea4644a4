"""Each format is read without loss of text, calls and results; what has no equivalent is counted by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.imports.session import NO_RESULT, ImportedCompaction, ImportedSession
from qcode.agent.imports.sources import read_file
from qcode.protocol.errors import InputError
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from tests.agent.imports.written import (
    AGAIN,
    ANSWER,
    ASKED,
    LAST,
    MADE,
    PIXEL,
    READ,
    RECORDS,
    SAID,
    THOUGHT,
    Claude,
    claude_records,
    codex_call,
    codex_message,
    codex_record,
    codex_records,
    gemini_header,
    gemini_messages,
    gemini_records,
    lines,
    qwen_record,
    qwen_records,
    response,
    result,
    text,
    use,
)


def read(folder: Path, records: list[dict[str, Any]], *, more: bytes = b"") -> ImportedSession:
    path = folder / "session.jsonl"
    path.write_bytes(lines(records) + more)
    return read_file(path)


def said(session: ImportedSession) -> list[str]:
    """Return the texts, calls and results in order, for a short comparison."""
    found = []
    for message in session.messages:
        for block in message.message.blocks:
            match block:
                case Text(said) | Reasoning(said):
                    found.append(said)
                case ToolCall(_, name):
                    found.append(f"call {name}")
                case ToolResult(_, _, content):
                    found.append(f"result {content}")
                case _:
                    found.append("image")
    return found


@pytest.mark.parametrize("program", RECORDS)
def test_conversation_is_read_without_loss(program: str, tmp_path: Path) -> None:
    session = read(tmp_path, RECORDS[program]("/nowhere/project"))
    messages = [message.message for message in session.messages]
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert messages[0] == Message("user", (Text(ASKED),))
    thought, reply, first, second = messages[1].blocks
    assert (thought, reply) == (Reasoning(THOUGHT), Text(SAID))
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert "Makefile" in json.loads(first.arguments).values()
    assert json.loads(second.arguments)["command"] in ("make", ["make"])
    assert [result.content for result in messages[2].blocks if isinstance(result, ToolResult)] == [READ, MADE]
    assert [result.is_error for result in messages[2].blocks if isinstance(result, ToolResult)] == [False, True]
    assert [result.call_id for result in messages[2].blocks if isinstance(result, ToolResult)] == [
        first.call_id,
        second.call_id,
    ]
    assert messages[3:] == [
        Message("assistant", (Text(ANSWER),)),
        Message("user", (Text(AGAIN), Image("image/png", PIXEL))),
        Message("assistant", (Text(LAST),)),
    ]
    assert [message.is_typed for message in session.messages] == [True, False, False, False, True, False]
    assert (session.program, session.title) == (program, "A tab too many")
    assert session.created.startswith("2026-01-20T11:57:0")
    assert all(message.model for message in session.messages if message.message.role == "assistant")


@pytest.mark.parametrize("program", RECORDS)
def test_unknown_records_and_torn_lines_are_counted_and_named(program: str, tmp_path: Path) -> None:
    records = RECORDS[program]("/nowhere/project")
    plain = said(read(tmp_path, records))
    odd: dict[str, Any] = {"type": "hologram", "payload": {"x": 1}, "uuid": "odd", "id": "odd"}
    session = read(tmp_path, [*records[:2], odd, *records[2:]], more=b'{"type":"user","mess')
    assert said(session) == plain
    assert session.left_out["unknown record hologram"] == 1
    assert session.left_out["unreadable lines"] == 1


@pytest.mark.parametrize("program", RECORDS)
def test_file_cut_at_every_line_is_still_read(program: str, tmp_path: Path) -> None:
    records = RECORDS[program]("/nowhere/project")
    whole = [item.message for item in read(tmp_path, records).messages]
    for end in range(4, len(records)):
        messages = [item.message for item in read(tmp_path, records[:end]).messages]
        calls = [call for message in messages for call in message.calls]
        results = [block for message in messages for block in message.blocks if isinstance(block, ToolResult)]
        assert [item.call_id for item in results] == [item.call_id for item in calls]
        assert messages[:1] in ([], whole[:1])


def test_file_of_no_known_program_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"hello\n", b'{"a":1}\n', b"\xff\xfe\x00", b"[1,2]"):
        path = tmp_path / "other.jsonl"
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a session of Claude Code, Codex, qwen-code, Gemini CLI"):
            read_file(path)
    with pytest.raises(InputError, match="cannot read"):
        read_file(tmp_path / "missing.jsonl")


def test_claude_rewound_branch_and_sub_agents_are_left_out(tmp_path: Path) -> None:
    claude = Claude()
    start = claude.user(ASKED)
    claude.reply("m1", text("a first try"), parent=start)
    claude.user("no, not so")
    claude.reply("m2", text(ANSWER), parent=start)
    claude.user("work of an agent", parent=None, isSidechain=True)
    session = read(tmp_path, claude.records)
    assert said(session) == [ASKED, ANSWER]
    assert session.left_out["messages of branches that were rewound"] == 2
    assert session.left_out["messages of sub-agents"] == 1


def test_claude_compaction_replaces_the_history_before_it(tmp_path: Path) -> None:
    claude = Claude()
    claude.user(ASKED)
    last = claude.reply("m1", text(ANSWER))
    claude.add("system", parent=None, subtype="compact_boundary", logicalParentUuid=last)
    claude.user("This session continues an earlier one: …", isCompactSummary=True)
    claude.user(AGAIN)
    claude.reply("m2", text(LAST))
    session = read(tmp_path, claude.records)
    assert said(session) == [ASKED, ANSWER, AGAIN, LAST]
    (compaction,) = [item for item in session.items if isinstance(item, ImportedCompaction)]
    assert session.items.index(compaction) == 2
    assert compaction.messages[0].text.startswith("This session continues")


def test_claude_roots_without_a_parent_follow_each_other(tmp_path: Path) -> None:
    claude = Claude()
    claude.user(ASKED, parent="in-another-file")
    claude.reply("m1", text(ANSWER))
    claude.user(AGAIN, parent=None)
    claude.reply("m2", text(LAST))
    assert said(read(tmp_path, claude.records)) == [ASKED, ANSWER, AGAIN, LAST]


def test_claude_notes_of_the_program_precede_the_typed_text(tmp_path: Path) -> None:
    claude = Claude()
    claude.user(ASKED)
    claude.user("Caveat: the messages below were generated", isMeta=True)
    claude.user("<command-name>/model</command-name>")
    claude.reply("m1", text(ANSWER))
    first, _ = read(tmp_path, claude.records).messages
    assert [block.text for block in first.message.blocks if isinstance(block, Text)][-1] == ASKED
    assert len(first.message.blocks) == 3
    assert first.is_typed


def test_claude_prompt_queued_during_a_turn_is_kept(tmp_path: Path) -> None:
    claude = Claude()
    claude.user(ASKED)
    claude.reply("m1", use("t1", "Bash", command="make"))
    claude.user([result("t1", MADE)])
    claude.add("attachment", attachment={"type": "queued_command", "prompt": "and the tests"})
    claude.reply("m2", text(LAST))
    assert said(read(tmp_path, claude.records)) == [ASKED, "call Bash", f"result {MADE}", "and the tests", LAST]


def test_claude_error_messages_and_unknown_blocks_are_counted(tmp_path: Path) -> None:
    claude = Claude()
    claude.user([text(ASKED), {"type": "document", "source": {}}])
    claude.reply("m1", text("API Error: 529"), isApiErrorMessage=True)
    claude.reply("m2", {"type": "redacted_thinking", "data": "x"}, text(ANSWER))
    session = read(tmp_path, claude.records)
    assert said(session) == [ASKED, ANSWER]
    assert {name: session.left_out[name] for name in ("block document", "block redacted_thinking")} == {
        "block document": 1,
        "block redacted_thinking": 1,
    }
    assert session.left_out["error messages"] == 1


def test_claude_summary_of_another_session_is_not_a_title(tmp_path: Path) -> None:
    claude = Claude()
    leaf = claude.user(ASKED)
    claude.records.append({"type": "summary", "summary": "Elsewhere", "leafUuid": "not-here"})
    assert read(tmp_path, claude.records).title == ""
    claude.records.append({"type": "summary", "summary": "The tab", "leafUuid": leaf})
    assert read(tmp_path, claude.records).title == "The tab"


def test_claude_long_chain_is_read_in_linear_time(tmp_path: Path) -> None:
    claude = Claude()
    for number in range(6_000):
        claude.user(f"question {number}", parent=f"u{len(claude.records) - 1}" if claude.records else None)
        claude.records[-1]["timestamp"] = "2026-01-20T11:57:00Z"
    assert len(read(tmp_path, claude.records).messages) == 1


def test_codex_rolled_back_turns_are_left_out(tmp_path: Path) -> None:
    records = codex_records()
    records += [
        codex_record("response_item", codex_message("user", "a mistake"), 52),
        codex_record("response_item", codex_message("assistant", "as you wish"), 53),
        codex_record("event_msg", {"type": "thread_rolled_back", "num_turns": 1}, 54),
    ]
    session = read(tmp_path, records)
    assert said(session)[-1] == LAST
    assert session.left_out["messages of turns that were rewound"] == 2


def test_codex_compaction_uses_the_replacement_history(tmp_path: Path) -> None:
    history = [codex_message("user", ASKED), codex_message("user", "Summary: a tab.")]
    records = codex_records()
    records.append(codex_record("compacted", {"message": "Summary: a tab.", "replacement_history": history}, 52))
    records.append(codex_record("response_item", codex_message("user", "and now?"), 53))
    session = read(tmp_path, records)
    (compaction,) = [item for item in session.items if isinstance(item, ImportedCompaction)]
    assert [block.text for block in compaction.messages[0].blocks if isinstance(block, Text)] == [
        ASKED,
        "Summary: a tab.",
    ]
    assert said(session)[-1] == "and now?"


def test_codex_encrypted_compaction_keeps_the_whole_history(tmp_path: Path) -> None:
    history = [codex_message("user", ASKED), {"type": "compaction", "encrypted_content": "gAAA"}]
    records = [*codex_records(), codex_record("compacted", {"message": "", "replacement_history": history}, 52)]
    session = read(tmp_path, records)
    assert not any(isinstance(item, ImportedCompaction) for item in session.items)
    assert session.left_out["encrypted summary"] == 1


def test_codex_free_text_of_a_custom_tool_is_one_argument(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** End Patch"
    items: list[dict[str, Any]] = [
        codex_message("user", ASKED),
        {"type": "custom_tool_call", "call_id": "c9", "name": "apply_patch", "input": patch},
        {"type": "custom_tool_call_output", "call_id": "c9", "output": "Done"},
        codex_call("c10", "broken", {}) | {"arguments": '{"path": "a'},
    ]
    records = [codex_records()[0], *(codex_record("response_item", item, at) for at, item in enumerate(items))]
    session = read(tmp_path, records)
    calls = [call for message in session.messages for call in message.message.calls]
    assert [json.loads(call.arguments) for call in calls] == [{"input": patch}, {"input": '{"path": "a'}]
    assert said(session)[-1] == f"result {NO_RESULT}"


def test_codex_flat_form_of_2025_is_read(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"id": "old-1", "timestamp": "2025-07-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        codex_message("user", ASKED),
        codex_call("c1", "shell", {"command": ["ls"]}),
        {"type": "function_call_output", "call_id": "c1", "output": '{"output":"a"}'},
        codex_message("assistant", ANSWER),
    ]
    session = read(tmp_path, records)
    assert said(session) == [ASKED, "call shell", 'result {"output":"a"}', ANSWER]
    assert (session.session_id, session.created) == ("old-1", "2025-07-01T10:00:00Z")


def test_codex_session_of_a_sub_agent_is_refused(tmp_path: Path) -> None:
    records = codex_records()
    records[0]["payload"]["source"] = {"subagent": {"thread_spawn": {"depth": 1}}}
    with pytest.raises(InputError):
        read(tmp_path, records)


def test_gemini_document_in_one_piece_is_read_like_the_log(tmp_path: Path) -> None:
    path = tmp_path / "session-2025.json"
    path.write_text(json.dumps({**gemini_header(), "messages": gemini_messages()}, indent=2))
    assert said(read_file(path)) == said(read(tmp_path, gemini_records()))


def test_gemini_later_record_replaces_the_one_with_its_id(tmp_path: Path) -> None:
    early = {**gemini_messages()[1], "toolCalls": []}
    records = [gemini_header(), gemini_messages()[0], early, *gemini_messages()[1:]]
    assert said(read(tmp_path, records)) == said(read(tmp_path, gemini_records()))


def test_gemini_rewind_removes_messages(tmp_path: Path) -> None:
    session = read(tmp_path, [*gemini_records(), {"$rewindTo": "e"}])
    assert said(session)[-1] == ANSWER
    assert session.left_out["messages of turns that were rewound"] == 2


def test_gemini_result_in_two_places_is_one_result(tmp_path: Path) -> None:
    messages = gemini_messages()
    answer = {"id": "r", "type": "user", "content": [response("read_file-1", "read_file", output=READ)]}
    session = read(tmp_path, [gemini_header(), {"$set": {"messages": [*messages[:2], answer, *messages[2:]]}}])
    assert said(session) == said(read(tmp_path, gemini_records()))
    assert not session.left_out.get("results without a call")


def test_qwen_compression_replaces_the_history_before_it(tmp_path: Path) -> None:
    history = [{"role": "user", "parts": [{"text": "Summary"}]}, {"role": "model", "parts": [{"text": "Got it."}]}]
    records = [
        *qwen_records()[:-1],
        qwen_record(8, "system", subtype="chat_compression", systemPayload={"compressedHistory": history}),
        qwen_record(9, "user", message={"role": "user", "parts": [{"text": "and now?"}]}),
    ]
    session = read(tmp_path, records)
    (compaction,) = [item for item in session.items if isinstance(item, ImportedCompaction)]
    assert [message.text for message in compaction.messages] == ["Summary", "Got it."]
    assert said(session)[-1] == "and now?"


def test_qwen_compression_at_the_end_of_the_session_is_read(tmp_path: Path) -> None:
    history = [{"role": "user", "parts": [{"text": "Summary"}]}]
    compression = qwen_record(8, "system", subtype="chat_compression", systemPayload={"compressedHistory": history})
    session = read(tmp_path, [*qwen_records()[:-1], compression])
    assert isinstance(session.items[-1], ImportedCompaction)


def test_qwen_compression_that_was_rewound_is_left_out(tmp_path: Path) -> None:
    history = [{"role": "user", "parts": [{"text": "Summary"}]}]
    compression = qwen_record(8, "system", subtype="chat_compression", systemPayload={"compressedHistory": history})
    message = qwen_record(9, "user", message={"role": "user", "parts": [{"text": "and now?"}]})
    session = read(tmp_path, [*qwen_records()[:-1], compression, {**message, "parentUuid": "q5"}])
    assert not [item for item in session.items if isinstance(item, ImportedCompaction)]
    assert said(session)[-2:] == [ANSWER, "and now?"]


def test_call_ids_repeated_in_one_reply_are_made_unique_and_results_keep_their_order(tmp_path: Path) -> None:
    claude = Claude()
    claude.user(ASKED)
    claude.reply("m1", *(use("t1", "Bash", command=command) for command in "abc"))
    claude.user([result("t1", "one"), result("t1", "two"), result("t1", "three")])
    messages = [message.message for message in read(tmp_path, claude.records).messages]
    results = [block for block in messages[2].blocks if isinstance(block, ToolResult)]
    assert [(item.call_id, item.content) for item in results] == [("t1", "one"), ("t1_2", "two"), ("t1_3", "three")]


def test_result_without_a_call_is_counted(tmp_path: Path) -> None:
    records = claude_records()
    claude = Claude()
    claude.user([result("gone", "x")])
    session = read(tmp_path, [*records, {**claude.records[0], "uuid": "z", "parentUuid": records[-2]["uuid"]}])
    assert session.left_out["results without a call"] == 1
