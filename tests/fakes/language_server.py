"""A language server, run as a program. It reports each line with `error: TEXT` or `warning: TEXT` as a problem.

Its options: `pull` answers requests for diagnostics instead of publishing them; `unversioned` publishes without a
version; `dies` exits at the first document, `dies-once=FILE` only if FILE does not exist; `garbage` prints other text;
`huge` announces a message of a gigabyte; `silent` never answers; `waits=FILE` publishes when FILE exists; `asks` sends
every request that a server may send, and reports the answers as problems; `chatty` also publishes problems of other
files and old versions; `busy` reports progress around the diagnostics; `log=FILE` writes the received messages to FILE.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

OPTIONS = {name: value for name, _, value in (word.partition("=") for word in sys.argv[1:])}
REQUESTS: tuple[tuple[str, dict[str, Any] | None], ...] = (
    ("workspace/configuration", {"items": [{"section": "python.analysis.diagnosticMode"}, {"section": "nothing"}]}),
    ("workspace/workspaceFolders", None),
    ("client/registerCapability", {"registrations": []}),
    ("window/workDoneProgress/create", {"token": "t"}),
    ("window/showMessageRequest", {"type": 1, "message": "Install?", "actions": [{"title": "Yes"}]}),
    ("workspace/applyEdit", {"edit": {}}),
    ("window/showDocument", {"uri": "https://example.com"}),
    ("made/up", {}),
)


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    # In two parts, because a client must not rely on receiving whole messages.
    for part in (b"Content-Length: %d\r\n\r\n" % len(body), body):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    """Read and return the next message; exit at the end of the input."""
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    if not length:
        sys.exit(0)
    message = json.loads(sys.stdin.buffer.read(length))
    if path := OPTIONS.get("log"):
        with open(path, "a") as log:  # pathlib would delay the start
            log.write(json.dumps(message) + "\n")
    assert isinstance(message, dict)
    return message


def problems_in(text: str) -> list[dict[str, Any]]:
    """Return the diagnostics of a document."""
    diagnostics = []
    for row, line in enumerate(text.split("\n")):
        for severity, word in enumerate(("error: ", "warning: ", "info: "), start=1):
            if word in line:
                column = len(line[: line.index(word)].encode("utf-16-le")) // 2
                start = {"line": row, "character": column}
                _, _, message = line.partition(word)
                diagnostics.append({"range": {"start": start, "end": start}, "severity": severity, "message": message,
                                    "source": "fake", "code": "F1"})  # fmt: skip
    return diagnostics


def publish(uri: str, version: int, text: str) -> None:
    """Publish the diagnostics of a document, with the faults of the options."""
    while "waits" in OPTIONS and not os.path.exists(OPTIONS["waits"]):  # noqa: PTH110  # as above
        time.sleep(0.005)
    diagnostics = problems_in(text)
    if "asks" in OPTIONS:
        diagnostics += [
            {"range": {"start": {"line": 0, "character": 0}}, "message": json.dumps(answer)} for answer in ask_client()
        ]
    if "chatty" in OPTIONS:
        wrong = problems_in("error: of another document")
        notify(f"{uri}.other", version, wrong)
        notify(uri, version - 1, wrong)
        notify(uri, version, [*diagnostics, {"range": {}}, "nonsense", {"message": 5}])
    if "busy" in OPTIONS:
        send({"method": "$/progress", "params": {"token": "load", "value": {"kind": "begin", "title": "Loading"}}})
        notify(uri, version, problems_in("error: before the project was read"))
    notify(uri, version, diagnostics)
    if "busy" in OPTIONS:
        send({"method": "$/progress", "params": {"token": "load", "value": {"kind": "end"}}})


def notify(uri: str, version: int, diagnostics: list[Any]) -> None:
    params: dict[str, Any] = {"uri": uri, "diagnostics": diagnostics}
    if "unversioned" not in OPTIONS:
        params["version"] = version
    send({"method": "textDocument/publishDiagnostics", "params": params})


def ask_client() -> list[dict[str, Any]]:
    """Send every request that a server may send, and return the answers."""
    answers: list[dict[str, Any]] = []
    for number, (method, params) in enumerate(REQUESTS):
        send({"id": f"s{number}", "method": method, **({} if params is None else {"params": params})})
        while (message := receive()).get("id") != f"s{number}":
            pass
        answers.append({name: message[name] for name in ("result", "error") if name in message})
    return answers


def main() -> None:
    texts: dict[str, str] = {}
    while True:
        message = receive()
        method, params, number = message.get("method"), message.get("params") or {}, message.get("id")
        if method == "initialize":
            if "silent" in OPTIONS:
                continue
            if "garbage" in OPTIONS:
                sys.stdout.write("Usage: fake [options]\n" * 1000)
                sys.stdout.flush()
                continue
            if "huge" in OPTIONS:
                sys.stdout.write("Content-Length: 1073741824\r\n\r\n")
                sys.stdout.flush()
                continue
            provider = {"diagnosticProvider": {"interFileDependencies": True}} if "pull" in OPTIONS else {}
            send({"id": number, "result": {"capabilities": {"textDocumentSync": 1, **provider}}})
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            document = params["textDocument"]
            text = document["text"] if method.endswith("Open") else params["contentChanges"][0]["text"]
            texts[document["uri"]] = text
            if "dies" in OPTIONS:
                sys.exit("the fake server exits, because of its option")
            if (path := OPTIONS.get("dies-once")) and not os.path.exists(path):  # noqa: PTH110  # as above
                open(path, "w").close()  # as above
                sys.exit(1)
            if "pull" not in OPTIONS:
                publish(document["uri"], document["version"], text)
        elif method == "textDocument/diagnostic":
            send({"id": number, "result": {"kind": "full", "items": problems_in(texts[params["textDocument"]["uri"]])}})
        elif number is not None:
            send({"id": number, "result": None})


if __name__ == "__main__":
    main()
