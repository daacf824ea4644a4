"""Random input from a host: nothing ends the process, nothing hangs, and each request gets exactly one answer."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Any

import pytest

from qcode.agent.options import Options
from qcode.headless.host.handshake import Handshake
from tests.fakes.turns import Call, ReceivedRequest, Turn
from tests.headless.host.running import FAKE_SERVER, Host, hosting, make_skill
from tests.headless.host.scripts import FORM, QUESTION, shell

SUBTYPES = [
    "initialize", "set_model", "set_max_thinking_tokens", "get_context_usage",
    "rewind_files", "mcp_status", "mcp_reconnect", "mcp_toggle", "mcp_message", "stop_task", "", "made/up",
]  # fmt: skip
RARE = ["interrupt", "set_permission_mode", "mcp_set_servers"]
"""More of them would leave no turn to attack: they end it, deny its calls, or let it wait for servers."""
KEYS = [
    "mode", "model", "max_thinking_tokens", "user_message_id", "serverName", "server_name", "message", "enabled",
    "servers", "cancel_queued", "dry_run", "content", "action", "behavior", "updatedInput", "updatedPermissions",
]  # fmt: skip
FIELDS = [
    "hooks", "agents", "sdkMcpServers", "systemPrompt", "appendSystemPrompt", "jsonSchema", "title", "skills",
    "planModeInstructions", "forwardSubagentText", "excludeDynamicSections", "made up",
]  # fmt: skip
"""The fields of `initialize`."""
SERVERS: list[Any] = [
    {"type": "sdk", "name": "inside"},
    {"command": "/nonexistent/server"},
    {"type": "http", "url": "http://127.0.0.1:1/mcp"},
    {"command": ["not", "a", "text"]},
    {"command": "true", "args": {"a": 1}},
    {"url": "file:///etc/passwd"},
    "x",
    None,
]
UPDATES: list[Any] = [
    {"type": "addDirectories", "directories": ["/nonexistent", "."], "destination": "session"},
    {"type": "addDirectories", "directories": [3, None, "\0"], "destination": "localSettings"},
    {"type": "removeDirectories", "directories": [".."]},
    {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    {"type": "addRules", "behavior": "deny", "rules": [{"toolName": "Bash", "ruleContent": "curl:*"}]},
    {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "rm:*"}]},
    {"type": "removeRules", "behavior": "allow", "rules": [{"toolName": "Bash"}, {}]},
    {"type": "replaceRules"},
    {},
    "x",
]
TEXTS = ["", "x", "plan", "acceptEdits", "bypassPermissions", "dontAsk", "openai/m", "\ud800", "\u2028", "\0"]
LINES = ["{", "[]", "null", "{}", '{"type":3}', '{"type":"user"}', '{"type":"keep_alive"}', "[" * 5_000, '"' * 999]


MAX_OPEN = 4
"""More open requests would take the time of the turns."""
MAX_WAITING = 3
MAX_S = 60
OF_QCODE = {"can_use_tool", "elicitation", "hook_callback"}
"""Requests of qcode that a minute of random input leads to."""


class Fuzzer:
    """Makes lines from a seed; `requests` are the ids that must be answered."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.requests: list[str] = []
        self.waiting = 0

    def value(self, depth: int = 0) -> Any:  # any JSON
        match self.random.randrange(6 if depth < 3 else 3):
            case 0:
                return self.random.choice(TEXTS)
            case 1:
                return self.random.choice([0, 1, -1, 2**70, 1.5, True, False, None])
            case 2:
                return "".join(chr(self.random.randrange(1, 0x250)) for _ in range(self.random.randrange(40)))
            case 3:
                return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
            case _:
                return {self.random.choice(KEYS): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return an answer to a request of qcode: a useful one, one of a wrong shape, or an error."""
        pick = self.random.choice
        answers: dict[str, Any] = {
            "can_use_tool": {"behavior": pick(["allow", "deny"]), "updatedInput": request.get("input")},
            "elicitation": {"action": pick(["accept", "decline", "cancel"]), "content": {"answer": pick(TEXTS)}},
            "hook_callback": {"decision": pick(["approve", "block", None]), "reason": pick(TEXTS)},
            "mcp_message": {"mcp_response": {"jsonrpc": "2.0", "id": 1, "result": self.value()}},
        }
        answer = answers.get(request.get("subtype", ""), {})
        if self.random.random() < 0.4:
            answer = {**answer, "updatedPermissions": [pick(UPDATES), self.value()]}
        if self.random.random() < 0.3:
            answer = {**answer, self.random.choice(KEYS): self.value()}
        if self.random.random() < 0.2:
            return {"subtype": "error", "error": self.value()}
        return {"subtype": "success", "response": answer if self.random.random() < 0.8 else self.value()}

    def fields(self) -> dict[str, Any]:
        """Return fields of a control request."""
        found = {self.random.choice(KEYS): self.value() for _ in range(self.random.randrange(3))}
        if self.random.random() < 0.5:
            names = ["inside", "fake", "own", "", "a b", "\ud800"]
            found["servers"] = {
                self.random.choice(names): self.random.choice(SERVERS) for _ in range(self.random.randrange(3))
            }
        return found

    def line(self) -> str:
        kind = self.random.random()
        if kind < 0.15:
            return self.random.choice(LINES)
        if kind < 0.25:
            request_id = f"qcode_{self.random.randrange(9)}"
            response = {"subtype": "success", "request_id": request_id, "response": self.value()}
            return json.dumps({"type": "control_response", "response": self.random.choice([response, self.value()])})
        if kind < 0.35 and (self.waiting < MAX_WAITING or kind < 0.251):
            self.waiting += 1
            content = self.random.choice(["hi"] * 5 + ["", [{"type": "text", "text": "hi"}], self.value()])
            return json.dumps({"type": "user", "message": {"role": "user", "content": content}, "uuid": self.value()})
        if kind < 0.4:
            return json.dumps({"type": "control_cancel_request", "request_id": self.value()})
        self.requests.append(f"f{len(self.requests)}")
        subtype = self.random.choice(RARE if self.random.random() < 0.002 else SUBTYPES)
        request = {**self.fields(), "subtype": subtype}
        return json.dumps({"type": "control_request", "request_id": self.requests[-1], "request": request})


CALLS = [
    shell("touch b.txt"),
    Call("read", '{"path": "/etc/hostname"}'),
    Call("skill", '{"name": "pdf"}'),
    Call("ask_person", json.dumps(QUESTION)),
    Call("exit_plan_mode", '{"plan": "1. Do it."}'),
    Call("fake__ask", json.dumps({"params": FORM})),
    Call("inside__add", "{}"),
]


def talkative(asked: ReceivedRequest) -> Turn:
    """Reply with one of the calls that ask the host, or with a text."""
    number = len(str(asked.body)) % (len(CALLS) + 3)
    is_result = bool(asked.results)
    return Turn(text="Hello.") if is_result or number >= len(CALLS) else Turn(calls=(CALLS[number],))


def fuzz(host: Host, seed: int, seconds: float, expected: set[str]) -> Fuzzer:
    """Send random lines until the time is over, then close the input; all lines of qcode are in `seen`.

    The requests of qcode are answered meanwhile, one in ten never. It ends after qcode made all `expected` ones.
    """
    fuzzer, replies, writing = Fuzzer(seed), Fuzzer(seed + 1_000), Lock()
    began, changed = time.monotonic(), Condition()
    hook = [{"matcher": "", "hookCallbackIds": ["hook_0"], "timeout": 1}]
    host.control(
        "initialize", hooks={"PreToolUse": hook, "Made up": hook}, skills=["pdf"], planModeInstructions="Think."
    )
    answered, asked = 0, set[str]()

    def read() -> None:
        nonlocal answered
        for line in host.process.stdout:
            message = json.loads(line)
            with changed:
                host.seen.append(message)
                answered += message["type"] == "control_response"
                asked.update([message["request"]["subtype"]] if message["type"] == "control_request" else [])
                fuzzer.waiting -= message["type"] == "result"
                changed.notify()
            if message["type"] == "control_request" and replies.random.random() < 0.9:
                response = {**replies.reply(message["request"]), "request_id": message["request_id"]}
                with writing, suppress(OSError, ValueError):
                    host.send({"type": "control_response", "response": response})

    reader = Thread(target=read)
    reader.start()
    while (spent := time.monotonic() - began) < seconds or (not expected <= asked and spent < MAX_S):
        with writing:
            host.send(*(fuzzer.line() for _ in range(5)))
        with changed:
            assert changed.wait_for(lambda: len(fuzzer.requests) - answered < MAX_OPEN, 30), "no answers for 30 s"
    with writing:
        host.process.stdin.close()
    reader.join(60)
    assert not reader.is_alive(), "qcode did not end after its input"
    return fuzzer


@pytest.mark.parametrize(
    ("seed", "seconds"), [(1, 0.3), pytest.param(2, 60, marks=[pytest.mark.broad, pytest.mark.timeout(300)])]
)
def test_random_input_never_ends_the_process_and_each_request_has_one_answer(
    seed: int, seconds: float, tmp_path: Path
) -> None:
    make_skill(tmp_path, "pdf")
    servers = json.dumps({"mcpServers": {"fake": FAKE_SERVER}})
    with hosting(tmp_path, talkative, "--permission-prompt-tool", "stdio", "--mcp-config", servers) as host:
        expected = OF_QCODE if seconds > 10 else {"hook_callback"}
        fuzzer = fuzz(host, seed, seconds, expected)
        assert host.process.wait(30) in (0, 1, 42, 56, 130)
    asked = {line["request"]["subtype"] for line in host.seen if line["type"] == "control_request"}
    assert asked >= expected
    answers = Counter(line["response"]["request_id"] for line in host.seen if line["type"] == "control_response")
    assert {request: answers[request] for request in fuzzer.requests} == dict.fromkeys(fuzzer.requests, 1)
    assert "internal error" not in json.dumps(host.seen)
    assert (tmp_path / "stderr").read_bytes() == b""


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 300), pytest.param(2, 30_000, marks=[pytest.mark.broad, pytest.mark.timeout(300)])]
)
def test_handshake_with_random_fields_is_read_and_names_what_it_ignores(seed: int, rounds: int) -> None:
    fuzzer = Fuzzer(seed)
    for _ in range(rounds):
        fields = {fuzzer.random.choice(FIELDS): fuzzer.value() for _ in range(fuzzer.random.randrange(5))}
        handshake = Handshake.read("req_1", {"subtype": "initialize", **fields})
        handshake.applied_to(Options())
        handshake.kinds()
        assert ("made up" in handshake.notice) == bool(fields.get("made up"))
