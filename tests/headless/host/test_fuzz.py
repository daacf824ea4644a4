"""Random input from a host: nothing ends the process, nothing hangs, and each request gets exactly one answer."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import pytest

from tests.fakes.turns import Asked, Turn
from tests.headless.host.running import Host, hosting

SUBTYPES = [
    "initialize", "interrupt", "set_permission_mode", "set_model", "set_max_thinking_tokens", "get_context_usage",
    "rewind_files", "mcp_status", "mcp_reconnect", "mcp_toggle", "mcp_message", "stop_task", "", "made/up",
]  # fmt: skip
KEYS = ["mode", "model", "max_thinking_tokens", "user_message_id", "serverName", "server_name", "message", "enabled"]
TEXTS = ["", "x", "plan", "acceptEdits", "bypassPermissions", "dontAsk", "openai/m", "\ud800", "\u2028", "\0"]
LINES = ["{", "[]", "null", "{}", '{"type":3}', '{"type":"user"}', '{"type":"keep_alive"}', "[" * 5_000, '"' * 999]


MAX_OPEN = 500
MAX_PROMPTS = 300
"""More would wait in the queue at the end of the input, and all of them are answered."""


class Fuzzer:
    """Makes lines from a seed; `requests` are the ids that must be answered."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.requests: list[str] = []
        self.prompts = 0

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

    def line(self) -> str:
        kind = self.random.random()
        if kind < 0.15:
            return self.random.choice(LINES)
        if kind < 0.25:
            request_id = f"qcode_{self.random.randrange(9)}"
            response = {"subtype": "success", "request_id": request_id, "response": self.value()}
            return json.dumps({"type": "control_response", "response": self.random.choice([response, self.value()])})
        if kind < 0.35 and self.prompts < MAX_PROMPTS:
            self.prompts += 1
            content = self.random.choice(["hi", "", [{"type": "text", "text": "hi"}], self.value()])
            return json.dumps({"type": "user", "message": {"role": "user", "content": content}, "uuid": self.value()})
        if kind < 0.4:
            return json.dumps({"type": "control_cancel_request", "request_id": self.value()})
        self.requests.append(f"f{len(self.requests)}")
        fields = {self.random.choice(KEYS): self.value() for _ in range(self.random.randrange(3))}
        request = {**fields, "subtype": self.random.choice(SUBTYPES)}
        return json.dumps({"type": "control_request", "request_id": self.requests[-1], "request": request})


def always(asked: Asked) -> Turn:
    return Turn(text="Hello.")


def fuzz(host: Host, seed: int, seconds: float) -> Fuzzer:
    """Send random lines until the time is over, then close the input; all lines of qcode are in `seen`."""
    fuzzer, until, changed = Fuzzer(seed), time.monotonic() + seconds, Condition()
    host.greet()
    answered = 0

    def read() -> None:
        nonlocal answered
        for line in host.process.stdout:
            with changed:
                host.seen.append(json.loads(line))
                answered += host.seen[-1]["type"] == "control_response"
                changed.notify()

    reader = Thread(target=read)
    reader.start()
    while time.monotonic() < until:
        host.send(*(fuzzer.line() for _ in range(20)))
        with changed:
            assert changed.wait_for(lambda: len(fuzzer.requests) - answered < MAX_OPEN, 30), "no answers for 30 s"
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
    with hosting(tmp_path, always) as host:
        fuzzer = fuzz(host, seed, seconds)
        assert host.process.wait(30) in (0, 1, 42, 56, 130)
    answers = Counter(line["response"]["request_id"] for line in host.seen if line["type"] == "control_response")
    assert {request: answers[request] for request in fuzzer.requests} == dict.fromkeys(fuzzer.requests, 1)
    assert "internal error" not in json.dumps(host.seen)
    assert (tmp_path / "stderr").read_bytes() == b""
