"""The cost of 50 skills, 20 hooks and 5 tool servers: until the first paint, and until the first request.

The folder of the one-shots is not trusted, so the servers are configured and do not start: the start of a program that
is not qcode's is not measured.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.perf.conftest import Bars
from tests.perf.test_app import Terminal
from tests.perf.test_skills import fill

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

ROUNDS = 7
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
HOOKS = "".join(
    f'[[hooks.{event}]]\nmatcher = "Tool{number}|mcp__server{number}__.*"\nargv = ["true", "{number}"]\n'
    for event in ("PreToolUse", "PostToolUse", "PermissionRequest", "PostToolUseFailure")
    for number in range(5)
)
SERVERS = "".join(
    f'[mcp_servers.server{number}]\ncommand = "{sys.executable}"\nargs = ["-m", "tests.fakes.tool_server"]\n'
    f'env = {{ PYTHONPATH = "{os.pathsep.join(filter(None, sys.path))}" }}\n'
    for number in range(5)
)


def place(folder: Path, config: str, *, has_skills: bool) -> Path:
    (folder / "qcode").mkdir(parents=True)
    (folder / "qcode/config.toml").write_text(config)
    (folder / "work").mkdir()
    if has_skills:
        fill(folder / ".claude/skills", 50)
    return folder


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "QCODE_HOME": str(home / "qcode")}


def one_shot(home: Path) -> float:
    """Return the CPU seconds of a one-shot on the demo model, with those of its tool servers."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "qcode", "-p", "hi", "-m", "demo/demo"]
    subprocess.run(command, env=environment(home), cwd=home, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wire(home: Path) -> float:
    """Return the seconds until the request of a one-shot arrives at its provider."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "qcode",
            "-p",
            "hi",
            "-m",
            "openai/x",
            "--base-url",
            f"http://127.0.0.1:{port}",
        ]
        began = time.monotonic()
        with subprocess.Popen(
            command,
            env={**environment(home), "OPENAI_API_KEY": "none"},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as program:
            connection, _ = listener.accept()
            seconds = time.monotonic() - began
            connection.recv(65_536)
            connection.sendall(REFUSED)
            connection.close()
            program.wait(30)
    return seconds


def paint(home: Path) -> float:
    """Return the CPU seconds up to the first paint of the app."""
    here = ["env", f"HOME={home}", f"QCODE_HOME={home / 'qcode'}"]
    terminal = Terminal([*here, sys.executable, "-m", "qcode", "-m", "demo/demo", "--trust"], home)
    try:
        terminal.until("demo/demo")
        return terminal.running_seconds()
    finally:
        terminal.end()


@pytest.mark.parametrize(
    ("measured", "what", "known"),
    [
        (paint, "first paint, CPU", 1.15),
        (wire, "start to wire of a one-shot, time", 1.15),
        (one_shot, "whole one-shot, CPU", 1.2),
    ],
    ids=["paint", "wire", "one-shot"],
)
def test_extensions_cost_at_most_a_tenth_more(
    tmp_path: Path, bars: Bars, measured: Callable[[Path], float], what: str, known: float
) -> None:
    none = place(tmp_path / "none", "", has_skills=False)
    full = place(tmp_path / "full", HOOKS + SERVERS, has_skills=True)
    for home in (none, full):
        measured(home)  # byte code is written once
    # In turns, so that other load of the machine affects both equally; the least counts, because load only adds time.
    pairs = [(measured(full), measured(none)) for _ in range(ROUNDS)]
    more, less = (min(times) for times in zip(*pairs, strict=True))
    ratio = more / less
    bars.hold(f"{what} with 50 skills, 20 hooks and 5 servers against none", ratio, 1.1, known=known)
