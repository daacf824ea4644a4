"""A small editor for tests: it drives the agent side over real pipes and validates every message that it gets.

The server runs in a thread with its own loop, or as a real process. `choose` answers permission requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from qcode.acp.server import Server
from qcode.acp.wire import EditorWire
from qcode.agent.options import Options
from tests.acp.messages import complaints
from tests.fakes.server import FakeServer

Message: TypeAlias = dict[str, Any]
Choose: TypeAlias = Callable[[Message], object]
PATIENCE_S = 60.0
FIRST: Choose = lambda params: select(params["options"][0]["optionId"])  # noqa: E731


def select(option: str) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option}}


CANCELLED: Message = {"outcome": {"outcome": "cancelled"}}


class Editor:
    """One connection. `answers` maps methods of the client to functions that return the result, or None for silence."""

    def __init__(self, capabilities: Mapping[str, object] | None = None, choose: Choose = FIRST) -> None:
        self.capabilities = dict(capabilities or {})
        self.answers: dict[str, Choose] = {"session/request_permission": choose}
        self.messages: list[Message] = []
        self.asked: list[Message] = []
        self.problems: list[str] = []
        self.is_over = False
        self._methods: dict[object, str] = {}
        self._changed = threading.Condition()
        self._next_id = 0
        self._to_agent = -1
        self.server: FakeServer | None = None

    # The connection

    def connect(self, to_agent: int, from_agent: int) -> None:
        self._to_agent = to_agent
        threading.Thread(target=self._read, args=(from_agent,), daemon=True).start()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as stream:
            for line in stream:
                message = json.loads(line)
                self._take(message, line)
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def _take(self, message: Message, line: bytes) -> None:
        answered = "" if "method" in message else self._methods.get(message.get("id"), "")
        found = complaints(message, answered) if "method" in message or "error" in message or answered else []
        if len(line) > 1024 * 1024:
            found.append("a message of more than 1 MiB")
        reply = self.answers.get(message["method"]) if "method" in message and "id" in message else None
        with self._changed:
            self.problems += found
            self.messages.append(message)
            if "method" in message and "id" in message:
                self.asked.append(message)
            self._changed.notify_all()
        if reply is not None:
            result = reply(message["params"])
            if isinstance(result, Exception):
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": str(result)}})
            elif result is not None:
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def send(self, message: object) -> None:
        self.send_line(json.dumps(message))

    def send_line(self, line: str | bytes) -> None:
        data = line if isinstance(line, bytes) else line.encode()
        data += b"\n"
        while data:
            data = data[os.write(self._to_agent, data) :]

    def leave(self) -> None:
        """Close the connection, as an editor that exits."""
        if self._to_agent >= 0:
            os.close(self._to_agent)
            self._to_agent = -1

    # Requests

    def start(self, method: str, **params: object) -> int:
        """Send a request and return its id."""
        self._next_id += 1
        self._methods[self._next_id] = method
        self.send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        return self._next_id

    def expect(self, request_id: object, method: str) -> None:
        """Record the method of a request that the test sends as raw text, to validate its answer."""
        self._methods[request_id] = method

    def notify(self, method: str, **params: object) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request_id: object) -> Message:
        """Wait for the answer to a request: the whole message."""
        found = self.wait(
            lambda: next((message for message in self.messages if self._answers(message, request_id)), None)
        )
        assert isinstance(found, dict)
        return found

    @staticmethod
    def _answers(message: Message, request_id: object) -> bool:
        return "method" not in message and message.get("id") == request_id

    def request(self, method: str, **params: object) -> Message:
        """Send a request and return its result."""
        answer = self.answer(self.start(method, **params))
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    def refused(self, method: str, **params: object) -> Message:
        """Send a request and return its error."""
        answer = self.answer(self.start(method, **params))
        assert "error" in answer, answer
        error: Message = answer["error"]
        return error

    def wait(self, holds: Callable[[], object]) -> object:
        """Wait until `holds` returns something; return that."""
        limit = time.monotonic() + PATIENCE_S
        with self._changed:
            while not (found := holds()):
                left = limit - time.monotonic()
                assert left > 0, f"waited in vain; the last messages: {self.messages[-5:]}"
                assert not self.is_over, f"the agent has gone; the last messages: {self.messages[-5:]}"
                self._changed.wait(min(left, 1))
            return found

    # Conversation

    def initialize(self) -> Message:
        return self.request("initialize", protocolVersion=1, clientCapabilities=self.capabilities)

    def open(self, folder: Path, **params: object) -> str:
        """Open a session in `folder` and return its id."""
        result = self.request("session/new", **{"cwd": str(folder), "mcpServers": [], **params})
        session_id = result["sessionId"]
        assert isinstance(session_id, str)
        return session_id

    def prompt(self, session_id: str, text: str) -> Message:
        return self.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])

    def start_prompt(self, session_id: str, text: str) -> int:
        return self.start("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])

    def updates(self, kind: str = "", session_id: str = "") -> list[Message]:
        found = [message["params"] for message in self.messages if message.get("method") == "session/update"]
        return [
            item["update"]
            for item in found
            if kind in ("", item["update"]["sessionUpdate"]) and session_id in ("", item["sessionId"])
        ]

    def text(self, kind: str = "agent_message_chunk", session_id: str = "") -> str:
        return "".join(update["content"]["text"] for update in self.updates(kind, session_id))

    def cards(self) -> list[Message]:
        """Return every card with all its updates merged, in the order in which they were announced."""
        found: dict[tuple[str, str], Message] = {}
        for message in self.messages:
            update = message.get("params", {}).get("update", {})
            if "toolCallId" in update:
                key = message["params"]["sessionId"], update["toolCallId"]
                assert (key not in found) == (update["sessionUpdate"] == "tool_call"), update
                card = found.setdefault(key, {"statuses": []})
                card |= update
                card["statuses"] += [update["status"]] if "status" in update else []
        return list(found.values())

    def check(self) -> None:
        """Assert the invariants of every conversation."""
        assert self.problems == []
        for card in self.cards():
            ends = [status for status in card["statuses"] if status in ("completed", "failed")]
            assert len(ends) == 1, card
            assert card["statuses"][-1] == ends[0], card


class InThread:
    """An `Editor` with a server in a thread of this process, with the environment of the process."""

    def __init__(self, editor: Editor, options: Options) -> None:
        self.editor = editor
        self._options = options
        to_agent, at_agent = os.pipe()
        self._descriptors = (to_agent, at_agent)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Editor:
        at_agent, to_agent = self._descriptors
        from_agent, out = os.pipe()
        self._at_agent, self._out = at_agent, out
        self.editor.connect(to_agent, from_agent)
        self._thread.start()
        return self.editor

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        over = asyncio.Event()
        server = Server(self._options)
        with os.fdopen(self._out, "wb", buffering=0) as output:
            wire = EditorWire(self._at_agent, output, server.call_method, on_lost=over.set, describe=repr)
            server.attach(wire)
            await over.wait()
            await server.close()
            await wire.drain(0.1)
        os.close(self._at_agent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.editor.leave()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server did not end"
        if error is None:
            self.editor.check()


class InProcess:
    """An `Editor` with `qcode acp` as a real process. `code` is its exit code after the block."""

    def __init__(self, editor: Editor, env: Mapping[str, str], *flags: str) -> None:
        self.editor = editor
        self.code: int | None = None
        self.process: subprocess.Popen[bytes]
        self.errors = b""
        self._env = dict(env)
        self._flags = flags

    def __enter__(self) -> InProcess:
        command = [sys.executable, "-m", "qcode", "acp", *self._flags]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._env)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.editor.connect(os.dup(self.process.stdin.fileno()), os.dup(self.process.stdout.fileno()))
        self.process.stdin.close()
        self.process.stdout.close()
        return self

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the end of the process."""
        assert self.process.stderr is not None
        self.code = self.process.wait(timeout_s)
        self.errors = self.process.stderr.read()
        self.process.stderr.close()
        return self.code

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.editor.leave()
        try:
            if self.code is None:
                self.wait()
        finally:
            self.process.kill()
            self.process.wait()
        if error is None:
            self.editor.check()
