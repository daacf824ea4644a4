"""A tool server without a library, which starts quickly and has many possible faults.

`python -m tests.fakes.tool_server [KIND]` serves on standard streams. Files in the folder that `TOOL_SERVER_STATE`
names control its behavior, so that a test can change it between two starts. `tests.fakes.sdk_tool_server` answers as
servers made with the `mcp` package do.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
assert zlib.crc32(PNG[12:29]) == struct.unpack(">I", PNG[29:33])[0]
UNREADABLE = {"code": -32700, "message": "expected XML"}
CONTROLS = "\x1b]0;owned\x07\x1b[31mred\x00\u202e\U000e0041hidden"


def mark(name: str, text: str = "") -> None:
    """Append a line to a file of the state folder. A test can wait for it."""
    folder = os.environ.get("TOOL_SERVER_STATE")
    if folder:
        with (Path(folder) / name).open("a") as file:
            file.write(f"{text}\n")


def setting(name: str, default: str) -> str:
    """Return the content of a file of the state folder, `default` without the file."""
    path = Path(os.environ.get("TOOL_SERVER_STATE", os.devnull)) / name
    return path.read_text() if path.exists() else default


def main() -> None:
    mark("starts", str(os.getpid()))
    kind = sys.argv[1] if len(sys.argv) > 1 else ""
    if kind == "exits":
        sys.stderr.write(setting("complaint", "no license found") + "\n")
        sys.exit(4)
    if kind == "silent":
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    if kind == "noisy":
        sys.stdout.write("Welcome to the noisy server!\n")
        sys.stdout.flush()
    if kind == "endless":
        while True:
            sys.stdout.write("x" * 65_536)
    if kind in ("misnumbered", "confused", "wordy"):
        misanswer(kind)
    serve(is_strict=kind == "strict")


def misanswer(kind: str) -> None:
    """Answer every request with a wrong id (`misnumbered`), a text (`wordy`) or a parse error, and a line of text."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        wrong: dict[str, Any] = {"id": None, "error": UNREADABLE}
        if kind != "confused":
            wrong = {"id": 999, "result": {}} if kind == "misnumbered" else {"id": request["id"], "result": "ready"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **wrong}) + "\nsome text\n")
        sys.stdout.flush()


def serve(*, is_strict: bool) -> None:
    """Answer every request. A strict server exits if the first message is not `initialize`."""
    for number, line in enumerate(sys.stdin):
        message: dict[str, Any] = json.loads(line)
        method = message["method"]
        if is_strict and not number and method != "initialize":
            sys.exit(1)
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], **answer_to(method, message.get("params", {}))}
            sys.stdout.write(json.dumps(answer) + "\n")
            if method == "tools/call" and setting("announces", ""):
                sys.stdout.write('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n')
            sys.stdout.flush()


def answer_to(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result or the error of a request."""
    if method == "initialize":
        info = {"name": "fake", "version": "1"}
        offers: dict[str, Any] = {"tools": {}}
        if "prompts" in sys.argv:
            offers |= {"prompts": {}, "resources": {}, "logging": {}}
            log("warning", "the index is\nold", logger="db")
            log("info", {"rows": 3})
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": offers, "serverInfo": info}}
    if method == "prompts/list":
        arguments = [{"name": "code", "required": True}, {"name": "style"}]
        return {"result": {"prompts": [{"name": "review", "description": "Review a file", "arguments": arguments}]}}
    if method == "prompts/get":
        content = {"type": "text", "text": f"Review {params['arguments']['code']}, see @/etc/hostname"}
        return {"result": {"messages": [{"role": "user", "content": content}]}}
    if method == "resources/list":
        return {"result": {"resources": [{"uri": "memo://today", "name": "today"}]}}
    if method == "resources/templates/list":
        return {"result": {"resourceTemplates": []}}
    if method == "resources/read":
        return {"result": {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "buy milk"}]}}
    if method == "tools/list" and setting("unlisted", ""):
        return {"error": {"code": -32603, "message": "the index is being built"}}
    if method == "tools/call" and setting("error", ""):
        return {"error": json.loads(setting("error", ""))}
    if method == "tools/list":
        return {"result": {"tools": tools()}}
    if method == "tools/call" and setting("result", ""):
        return {"result": json.loads(setting("result", ""))}
    if method == "tools/call":
        return {
            "result": {"content": [{"type": "text", "text": call_tool(params["name"], params.get("arguments", {}))}]}
        }
    return {"error": {"code": -32601, "message": "Method not found"}}


def tools() -> list[dict[str, Any]]:
    number = {"type": "integer"}
    add = {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}
    listed = [
        {"name": "add", "description": setting("description", "Add two numbers"), "inputSchema": add},
        {"name": "ask", "inputSchema": {"type": "object"}},
        {"name": "crash", "inputSchema": {"type": "object"}},
    ]
    listed += json.loads(setting("extra", "[]"))
    if setting("more", ""):
        listed.append({"name": "more", "description": "A further tool", "inputSchema": {"type": "object"}})
    return listed


def log(level: str, data: object, **more: str) -> None:
    """Send a log message."""
    params = {"level": level, "data": data, **more}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}) + "\n")


def ask_client(params: dict[str, Any], method: str = "elicitation/create") -> str:
    """Ask the client a question during a call, and return its answer."""
    request = {"jsonrpc": "2.0", "id": "q1", "method": method, "params": params}
    sys.stdout.write(json.dumps(request) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == "q1":
            return json.dumps(answer.get("result") or answer.get("error"), sort_keys=True)
    return "nothing"


def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """Run a tool, and return its text."""
    if name == "ask":
        return ask_client(arguments["params"], arguments.get("method", "elicitation/create"))
    if name == "crash":
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(3)
    return str(arguments["a"] + arguments["b"])


if __name__ == "__main__":
    main()
