"""Random input: nothing ends the process, nothing hangs, and each request gets exactly one answer."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.options import Options
from tests.acp.editor import Editor, InThread, select

METHODS = [
    "initialize", "authenticate", "session/new", "session/load", "session/resume", "session/list", "session/close",
    "session/delete", "session/prompt", "session/cancel", "session/set_mode", "session/set_model",
    "session/set_config_option", "session/fork", "$/cancel_request", "fs/read_text_file", "", "made/up",
]  # fmt: skip
KEYS = [
    "protocolVersion", "clientCapabilities", "cwd", "sessionId", "prompt", "mcpServers", "additionalDirectories",
    "modeId", "modelId", "configId", "value", "cursor", "methodId", "requestId", "_meta",
]  # fmt: skip
TEXTS = ["", "x", "plan", "default", "mode", "model", "demo/demo", "environment", "\ud800", "\u2028", "/trust", "\0"]
BYTES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xff",
    b'{"jsonrpc":"2.0"}',
    b'{"id":1}',
    b"[" * 5_000,
    b'"' * 999,
    b"\r",
    b"{}",
]


class Fuzzer:
    """Makes lines from a seed. `sessions` are ids that exist; `requests` are the ids that must be answered."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.sessions: list[str] = []
        self.requests: list[str] = []

    def value(self, depth: int = 0) -> Any:  # any JSON
        pick = self.random.choice
        kind = self.random.randrange(8 if depth < 3 else 5)
        match kind:
            case 0:
                return pick(TEXTS)
            case 1:
                return pick([0, 1, -1, 2**70, 1.5, True, False, None])
            case 2:
                return str(self.folder)
            case 3:
                return pick([*self.sessions, "unknown"])
            case 4:
                return "".join(chr(self.random.randrange(1, 0x250)) for _ in range(self.random.randrange(40)))
            case 5:
                return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
            case 6:
                return pick([{"type": "text", "text": "hi"}, {"type": "image", "data": "x"}, {"type": pick(TEXTS)}])
            case _:
                return {pick(KEYS): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def params(self, method: str) -> Any:  # any JSON
        if self.random.random() < 0.2:
            return self.value()
        good: dict[str, Any] = {"cwd": str(self.folder), "mcpServers": [], "protocolVersion": 1}
        good["sessionId"] = self.random.choice([*self.sessions, "unknown"])
        good["prompt"] = [{"type": "text", "text": "hi"}]
        if self.random.random() < 0.5:
            good[self.random.choice(KEYS)] = self.value()
        return good

    def line(self) -> bytes:
        if self.random.random() < 0.15:
            return self.random.choice(BYTES)
        method = self.random.choice(METHODS)
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": self.params(method)}
        kind = self.random.random()
        if kind < 0.15:
            message = {"jsonrpc": "2.0", "id": self.random.randrange(50), "result": self.value()}
        elif kind < 0.85:
            message["id"] = f"fuzz-{len(self.requests)}"
            self.requests.append(message["id"])
        line = json.dumps(message).encode()
        if "id" not in message and self.random.random() < 0.3:
            line = line[: self.random.randrange(len(line))]
        return line


def fuzz(seed: int, seconds: float, folder: Path) -> int:
    """Send lines for some time; return how many."""
    folder.mkdir(exist_ok=True)
    fuzzer, count = Fuzzer(seed, folder), 0
    editor = Editor(choose=lambda _: select(fuzzer.random.choice(["deny", "once", "x"])))
    with InThread(editor, Options(model="demo/demo", no_session=seed % 2 == 0)) as connected:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(20):
                connected.send_line(fuzzer.line())
                count += 1
            # Everything that was sent is answered before more is: the process is alive, and nothing waits forever.
            connected.request("initialize", protocolVersion=1)
            results = [message.get("result", {}) for message in connected.messages]
            fuzzer.sessions = [result["sessionId"] for result in results if "sessionId" in result][-3:]
        for session_id in fuzzer.sessions:
            connected.notify("session/cancel", sessionId=session_id)
        expected = set(fuzzer.requests)
        connected.wait(
            lambda: expected <= {message.get("id") for message in connected.messages if "method" not in message}
        )
        answers = Counter(
            message["id"] for message in connected.messages if "method" not in message and message.get("id") in expected
        )
        assert set(answers.values()) <= {1}
        connected.messages = []
    return count


@pytest.mark.broad
def test_random_input_gets_one_answer_for_each_request(tmp_path: Path, home: Path) -> None:
    assert fuzz(1, 2.0, tmp_path / "w") > 20


@pytest.mark.broad
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(2, 6))
def test_random_input_for_a_minute(seed: int, tmp_path: Path, home: Path) -> None:
    assert fuzz(seed, 15.0, tmp_path / "w") > 100
