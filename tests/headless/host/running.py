"""Runs qcode for a real SDK, or as a host that reads and writes each line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.warm import Forked
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Script

CLIENTS = Path(__file__).parent / "clients"
ROOT = Path(__file__).parents[3]
MODEL = "openai/some-model"
FAKE_SERVER = {"command": sys.executable, "args": ["-m", "tests.fakes.tool_server"], "env": {"PYTHONPATH": str(ROOT)}}


def make_skill(base: Path, name: str) -> None:
    folder = base / "qcode" / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\nThe text of {name}.\n")


def environment(base: Path) -> dict[str, str]:
    """Return an environment with an empty home and a key."""
    env = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    env = {name: value for name, value in env.items() if not name.startswith(("QCODE_", "CLAUDE", "AWS_"))}
    home = {"HOME": str(base), "QCODE_HOME": str(base / "qcode"), "OPENAI_API_KEY": "k" * 20}
    return {**env, **home, "PYTHONPATH": str(ROOT), "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}


def workspace(base: Path) -> Path:
    work = base / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    return work


class Host:
    """A host that speaks the protocol line by line. `seen` has all lines of qcode."""

    def __init__(self, process: Forked, server: FakeServer) -> None:
        self.process = process
        self.server = server
        self.seen: list[dict[str, Any]] = []
        self._count = 0

    def send(self, *lines: dict[str, Any] | str) -> None:
        for line in lines:
            text = line if isinstance(line, str) else json.dumps(line)
            self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read lines up to the first one for which `holds` is true, and return it."""
        for raw in self.process.stdout:
            self.seen.append(json.loads(raw))
            if holds(self.seen[-1]):
                return self.seen[-1]
        raise AssertionError(f"the line did not come; the last ones: {self.seen[-3:]}")

    def control(self, subtype: str, **fields: Any) -> dict[str, Any]:
        """Send a control request and return its response."""
        self._count += 1
        request_id = f"req_{self._count}"
        self.send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})
        answer = self.until(
            lambda line: line["type"] == "control_response" and line["response"]["request_id"] == request_id
        )
        response: dict[str, Any] = answer["response"]
        return response

    def greet(self, **fields: Any) -> dict[str, Any]:
        return self.control("initialize", hooks=None, **fields)

    def ask(self, content: Any = "hi", **fields: Any) -> None:
        message = {"role": "user", "content": content}
        self.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", **fields})

    def request(self, subtype: str = "can_use_tool") -> dict[str, Any]:
        """Return the next request of qcode."""
        return self.until(lambda line: line["type"] == "control_request" and line["request"]["subtype"] == subtype)

    def answer(self, request: dict[str, Any], **response: Any) -> None:
        body = {"subtype": "success", "request_id": request["request_id"], "response": response}
        self.send({"type": "control_response", "response": body})

    def result(self) -> dict[str, Any]:
        return self.until(lambda line: line["type"] == "result")

    def serve(self, until: Callable[[dict[str, Any]], bool], server: str = "calc") -> dict[str, Any]:
        """Answer the messages to a server inside the host, up to a line for which `until` is true."""
        add = {"name": "add", "description": "Add.", "inputSchema": {"type": "object", "properties": {}}}
        results = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": server, "version": "1"},
            },
            "tools/list": {"tools": [add]},
            "tools/call": {"content": [{"type": "text", "text": "sum 5"}]},
        }
        while not until(line := self.until(lambda line: line["type"] == "control_request" or until(line))):
            message = line["request"]["message"]
            assert line["request"]["server_name"] == server
            if "id" not in message:
                self.answer(line, mcp_response={"jsonrpc": "2.0", "result": {}})
            elif (result := results.get(message["method"])) is not None:
                self.answer(line, mcp_response={"jsonrpc": "2.0", "id": message["id"], "result": result})
            else:
                error = {"code": -32601, "message": "no such method"}
                self.answer(line, mcp_response={"jsonrpc": "2.0", "id": message["id"], "error": error})
        return line

    def end(self) -> int:
        """Close the input and return the exit code."""
        self.process.stdin.close()
        self.seen += [json.loads(line) for line in self.process.stdout]
        return self.process.wait(timeout=30)


FLAGS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


@contextmanager
def hosting(
    base: Path, script: Script, *flags: str, protocol: ProtocolName = "openai", trust: bool = True
) -> Iterator[Host]:
    """Start qcode as an SDK does, with a model that gives the scripted answers."""
    given = ["-m", f"{protocol}/some-model", "--base-url", "<url>", *(["--trust"] if trust else []), *flags]
    with hosting_with(base, script, [*FLAGS, *given], protocol) as host:
        yield host


@contextmanager
def hosting_with(
    base: Path, script: Script, arguments: Sequence[str], protocol: ProtocolName = "openai"
) -> Iterator[Host]:
    """Start qcode with exactly these arguments; `<url>` in them is the address of the model."""
    work = workspace(base)
    with FakeServer(protocol, script) as server:
        given = [argument.replace("<url>", server.base_url) for argument in arguments]
        with (base / "stderr").open("wb") as errors, Forked(given, work, environment(base), errors) as process:
            try:
                yield Host(process, server)
            finally:
                server.release()
