"""The replies of the model in each scenario of the SDKs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from qcode.protocol.reply import StopReason
from tests.fakes.turns import Call, Faults, Refusal, Turn


def shell(command: str) -> Call:
    return Call("shell", json.dumps({"command": command}))


EDIT = [
    Turn(calls=(Call("read", json.dumps({"path": "a.txt"})),)),
    Turn(calls=(Call("edit", json.dumps({"path": "a.txt", "old_text": "one", "new_text": "two"})),)),
    Turn(text="Edited."),
]
QUESTION = {"question": "Which one?", "choices": [{"label": "A"}, {"label": "B", "detail": "better"}]}
FORM = {
    "message": "Which color?",
    "requestedSchema": {
        "type": "object",
        "properties": {"color": {"type": "string", "title": "Color", "enum": ["red", "blue"]}},
        "required": ["color"],
    },
}
SCRIPTS: Mapping[str, list[Turn]] = {
    "simple": [Turn(text="Hello.")],
    "streaming_input": [Turn(text="One."), Turn(text="Two.")],
    "several_turns": [Turn(text="One."), Turn(text="Two.")],
    "partial_messages": [Turn(text=("Hel", "lo.", " Bye."))],
    "permissions": [
        Turn(calls=(shell("echo made > b.txt"),)),
        Turn(calls=(shell("touch d.txt"),)),
        Turn(calls=(shell("rm a.txt"),)),
        Turn(text="Done."),
    ],
    "deny_and_interrupt": [Turn(calls=(shell("touch b.txt"),)), Turn(text="never")],
    "question_and_plan": [
        Turn(calls=(Call("ask_person", json.dumps(QUESTION)),)),
        Turn(calls=(Call("exit_plan_mode", json.dumps({"plan": "1. Do it."})),)),
        Turn(text="Planned."),
    ],
    "interrupted": [Turn(text=("Working", " on it"), faults=Faults(stall_after=2)), Turn(text="Again.")],
    "settings": [*EDIT, Turn(text="Other.")],
    "sessions": [Turn(text=f"Answer {number}.") for number in range(5)],
    "structured_output": [Turn(text='{"n": 3}')],
    "failed": [Turn(refusal=Refusal(400, "the model is on holiday"))],
    "truncated": [Turn(text=f"Part {number}, ", stop=StopReason.MAX_TOKENS) for number in range(4)],
    "system_prompt": [Turn(text="Arr.")],
    "hooks": [Turn(calls=(shell("rm a.txt"),)), Turn(calls=(shell("echo hi > b.txt"),)), Turn(text="Done.")],
    "in_process_tools": [Turn(calls=(Call("calc__add", json.dumps({"a": 2, "b": 3})),)), Turn(text="5")],
    "servers_set": [
        Turn(text="Hello."),
        Turn(calls=(Call("calc__add", json.dumps({"a": 2, "b": 3})), Call("fake__ask", json.dumps({"params": FORM})))),
        Turn(text="5"),
    ],
    "unsupported": [Turn(text="Hello.")],
    "skills_and_folders": [
        Turn(calls=(Call("skill", '{"name": "pdf"}'), Call("skill", '{"name": "other"}'))),
        Turn(calls=(shell("touch b.txt"),)),
        Turn(calls=(Call("read", '{"path": "../qcode/skills/pdf/SKILL.md"}'), Call("ls", '{"path": ".."}'))),
        Turn(text="Done."),
    ],
    "agents": [
        Turn(calls=(Call("agent", json.dumps({"description": "r", "prompt": "p", "kind": "reviewer"})),)),
        Turn(text="Fine."),
        Turn(text="It is fine."),
    ],
}
