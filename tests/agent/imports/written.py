"""Session files as other programs write them, made by hand for these tests: one conversation in every format.

The conversation: the user asks; the model thinks, writes text and calls two tools at once; both results arrive; the
model answers; the user asks again, and the model answers again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ASKED, SAID, ANSWER, AGAIN, LAST = "Why does it fail?", "I look at both.", "It is a tab.", "Fix it.", "Fixed."
THOUGHT = "Perhaps the Makefile."
READ, MADE = "all:\n\techo “hi”\u2028", "make: *** [all] Error 1"
PIXEL = "iVBORw0KGgo="
KEY = "sk-ant-canary-0123456789abcdefghij"

Record = dict[str, Any]


def lines(records: list[Record]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def time_of(number: int) -> str:
    return f"2026-01-20T11:57:{number:02d}.716Z"


class Claude:
    """Writes records of Claude Code, each a child of the one before unless told otherwise."""

    def __init__(self, cwd: str = "/nowhere/project") -> None:
        self.records: list[Record] = []
        self._cwd = cwd

    def add(self, kind: str, message: Record | None = None, parent: str | None = "", **more: Any) -> str:
        """Add a record; return its id."""
        number = len(self.records)
        before = next((item["uuid"] for item in reversed(self.records) if "uuid" in item), None)
        record = {
            "parentUuid": before if parent == "" else parent,
            "isSidechain": False,
            "cwd": self._cwd,
            "sessionId": "95e6f011-ec33",
            "version": "2.1.12",
            "type": kind,
            "uuid": f"u{number}",
            "timestamp": time_of(number),
            **more,
        }
        self.records.append(record if message is None else {**record, "message": message})
        return f"u{number}"

    def user(self, content: Any, parent: str | None = "", **more: Any) -> str:
        return self.add("user", {"role": "user", "content": content}, parent, **more)

    def reply(self, reply_id: str, *blocks: Record, parent: str | None = "", **more: Any) -> str:
        """Add a reply, a record for each block."""
        for block in blocks:
            message = {"id": reply_id, "role": "assistant", "model": "claude-opus-4-5", "content": [block]}
            last = self.add("assistant", message, parent, **more)
            parent = last
        return last


def use(call_id: str, name: str, **arguments: Any) -> Record:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, **more: Any) -> Record:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def text(message: str) -> Record:
    return {"type": "text", "text": message}


def claude_records(cwd: str = "/nowhere/project") -> list[Record]:
    claude = Claude(cwd)
    claude.records.append({"type": "queue-operation", "operation": "dequeue", "sessionId": "95e6f011-ec33"})
    claude.user(ASKED)
    thinking = {"type": "thinking", "thinking": THOUGHT, "signature": "EqQB"}
    first = claude.reply("m1", thinking, text(SAID), use("toolu_1", "Read", file_path="Makefile"))
    second = claude.reply("m1", use("toolu_2", "Bash", command="make"), parent=first)
    claude.user([result("toolu_1", READ)], parent=first, toolUseResult={"type": "text"})
    claude.user([result("toolu_2", [text(MADE)], is_error=True)], parent=second)
    claude.reply("m2", text(ANSWER))
    claude.user(
        [text(AGAIN), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]
    )
    claude.reply("m3", text(LAST))
    claude.records.append({"type": "custom-title", "customTitle": "A tab too many", "sessionId": "95e6f011-ec33"})
    return claude.records


def codex_records(cwd: str = "/nowhere/project") -> list[Record]:
    header = {
        "id": "0199-aa",
        "timestamp": time_of(0),
        "cwd": cwd,
        "cli_version": "0.128.0",
        "model_provider": "openai",
    }
    items: list[Record] = [
        codex_message("developer", "Be careful."),
        codex_message("user", "<environment_context>\n  <cwd>/nowhere</cwd>\n</environment_context>"),
        codex_message("user", ASKED),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}], "encrypted_content": "gAAA"},
        codex_message("assistant", SAID),
        codex_call("call_1", "read_file", {"path": "Makefile"}),
        {
            "type": "local_shell_call",
            "call_id": "call_2",
            "status": "completed",
            "action": {"type": "exec", "command": ["make"]},
        },
        {"type": "function_call_output", "call_id": "call_1", "output": READ},
        {"type": "function_call_output", "call_id": "call_2", "output": {"content": MADE, "success": False}},
        codex_message("assistant", ANSWER),
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": AGAIN},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
            ],
        },
        codex_message("assistant", LAST),
    ]
    return [
        codex_record("session_meta", header, 0),
        codex_record("turn_context", {"cwd": cwd, "model": "gpt-5.2-codex"}, 1),
        *(codex_record("response_item", item, number) for number, item in enumerate(items, start=2)),
        codex_record("event_msg", {"type": "agent_message", "message": LAST}, 50),
        codex_record("event_msg", {"type": "thread_name_updated", "thread_name": "A tab too many"}, 51),
    ]


def codex_record(kind: str, payload: Record, number: int) -> Record:
    return {"timestamp": time_of(number), "type": kind, "payload": payload}


def codex_message(role: str, message: str) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": message}]}


def codex_call(call_id: str, name: str, arguments: Record) -> Record:
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": call_id}


def response(call_id: str, name: str, **output: Any) -> Record:
    return {"functionResponse": {"id": call_id, "name": name, "response": output}}


def gemini_messages() -> list[Record]:
    calls = [
        {
            "id": "read_file-1",
            "name": "read_file",
            "args": {"path": "Makefile"},
            "status": "success",
            "result": [response("read_file-1", "read_file", output=READ)],
        },
        {
            "id": "shell-2",
            "name": "run_shell_command",
            "args": {"command": "make"},
            "status": "error",
            "result": [response("shell-2", "run_shell_command", error=MADE)],
        },
    ]
    thoughts = [{"subject": THOUGHT, "description": "", "timestamp": time_of(2)}]
    pixel = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    return [
        {"id": "a", "type": "user", "timestamp": time_of(1), "content": ASKED},
        {
            "id": "b",
            "type": "gemini",
            "timestamp": time_of(2),
            "content": SAID,
            "model": "gemini-3-pro",
            "thoughts": thoughts,
            "toolCalls": calls,
        },
        {"id": "c", "type": "info", "timestamp": time_of(3), "content": "Compressed."},
        {"id": "d", "type": "gemini", "timestamp": time_of(4), "content": [{"text": ANSWER}], "model": "gemini-3-pro"},
        {"id": "e", "type": "user", "timestamp": time_of(5), "content": [{"text": AGAIN}, pixel]},
        {"id": "f", "type": "gemini", "timestamp": time_of(6), "content": LAST, "model": "gemini-3-pro"},
    ]


def gemini_header() -> Record:
    return {"sessionId": "8f-gem", "projectHash": "ab12", "startTime": time_of(0), "lastUpdated": time_of(9)}


def gemini_records(_: str = "") -> list[Record]:
    return [gemini_header(), *gemini_messages(), {"$set": {"summary": "A tab too many"}}]


def qwen_records(cwd: str = "/nowhere/project") -> list[Record]:
    pixel = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    said: list[tuple[str, list[Record]]] = [
        ("user", [{"text": ASKED}]),
        (
            "assistant",
            [
                {"text": THOUGHT, "thought": True},
                {"text": SAID},
                {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "Makefile"}}},
                {"functionCall": {"id": "c2", "name": "run_shell_command", "args": {"command": "make"}}},
            ],
        ),
        ("tool_result", [response("c1", "read_file", output=READ)]),
        ("tool_result", [response("c2", "run_shell_command", error=MADE)]),
        ("assistant", [{"text": ANSWER}]),
        ("user", [{"text": AGAIN}, pixel]),
        ("assistant", [{"text": LAST}]),
    ]
    records: list[Record] = []
    for number, (kind, parts) in enumerate(said, start=1):
        role = "model" if kind == "assistant" else "user"
        records.append(qwen_record(number, kind, cwd, message={"role": role, "parts": parts}, model="qwen3-coder"))
    title = {"customTitle": "A tab too many"}
    return [*records, qwen_record(9, "system", cwd, subtype="custom_title", systemPayload=title)]


def qwen_record(number: int, kind: str, cwd: str = "/nowhere/project", **more: Any) -> Record:
    parent = f"q{number - 1}" if number > 1 else None
    head = {"uuid": f"q{number}", "parentUuid": parent, "sessionId": "5c-qwen", "timestamp": time_of(number)}
    return {**head, "type": kind, "cwd": cwd, "version": "0.4.0", **more}


RECORDS: Mapping[str, Callable[[str], list[Record]]] = {
    "claude-code": claude_records,
    "codex": codex_records,
    "gemini-cli": gemini_records,
    "qwen-code": qwen_records,
}


def write(path: Path, records: list[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(records))
    return path
