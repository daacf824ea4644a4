"""The code blocks of the pages, and a runner of their commands.

A block of commands is `sh`, or `console` with the expected output below each `$ command`. After the language it may say
`slow` (only in the broad run), `exit="1"` (the expected exit code, or `any`), or `skip="why it cannot run offline"`.
A `toml config` block is a `config.toml`, and the sentences of a `text quote` block are the program's.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.running import NO_KEYRING
from tests.e2e.warm import machine_variables, warm

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for name in ("", "tutorial", "guide", "how-to") for page in sorted((ROOT / "docs" / name).glob("*.md"))),
]
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CLIENT = """\
import json, os, socket, sys
relay = socket.socket(socket.AF_UNIX)
relay.connect(sys.argv[1])
request = {"arguments": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}
socket.send_fds(relay, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
sys.exit(int(relay.makefile().readline()))
"""


@dataclass(frozen=True)
class Block:
    """A code block of a page. `info` is the text after the language."""

    page: str
    line: int
    language: str
    info: str
    text: str

    @property
    def is_slow(self) -> bool:
        return "slow" in self.info.split()

    @property
    def skip(self) -> str:
        """Return why the block cannot run offline, empty if it can."""
        return self._value("skip")

    @property
    def exit_code(self) -> str:
        """Return the expected exit code, or `any`."""
        return self._value("exit") or "0"

    def _value(self, name: str) -> str:
        found = re.search(rf'\b{name}="([^"]*)"', self.info)
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the code blocks of a page in their order."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
    found = []
    for match in _FENCE.finditer(text):
        language, _, info = match[1].strip().partition(" ")
        found.append(Block(name, text[: match.start()].count("\n") + 1, language, info, match[2]))
    return found


class PageRunner:
    """Runs the commands of one page in order, in a home and a small git repository, on the demo model.

    `qcode` is a program on `PATH` that hands its arguments and streams to the warm interpreter.
    """

    def __init__(self, base: Path) -> None:
        self.work, self.home, programs = base / "project", base / "home", base / "bin"
        for folder in (self.work, self.home, programs):
            folder.mkdir()
        (base / "client.py").write_text(_CLIENT)
        relay = socket.socket(socket.AF_UNIX)
        relay.bind(str(base / "s"))
        relay.listen()
        threading.Thread(target=_serve, args=(relay,), daemon=True).start()
        program = programs / "qcode"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{base}/client.py" "{base}/s" "$@"\n')
        program.chmod(0o755)
        machine = machine_variables()
        self.environment = {
            **machine,
            "PATH": f"{programs}{os.pathsep}{machine['PATH']}",
            "HOME": str(self.home),
            "QCODE_MODEL": "demo/demo",
            "NO_COLOR": "1",
            "PYTHON_KEYRING_BACKEND": NO_KEYRING,
        }
        self._fill()

    def _fill(self) -> None:
        (self.work / "hello.py").write_text('def hello(name):\n    return f"Hello, {name}"\n')
        (self.work / "README.md").write_text("# Project\n\nIt greets.\n")
        author = "-c user.name=Author -c user.email=author@project.test"
        self.bash(f"git init -q && git add . && git {author} commit -qm 'Add the project'")
        (self.work / "hello.py").write_text('def hello(name):\n    return f"Hi, {name}"\n')

    def bash(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script in the project."""
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )


def _serve(relay: socket.socket) -> None:
    """Hand each request to the warm interpreter, one at a time, and return the exit code as a shell has it."""
    while True:
        client, _ = relay.accept()
        with client:
            request, descriptors, _, _ = socket.recv_fds(client, 2**20, 3)
            while not request.endswith(b"\n"):
                request += client.recv(2**20)
            code = warm().wait(warm().start(request, descriptors))
            client.sendall(b"%d\n" % (code if code >= 0 else 128 - code))
