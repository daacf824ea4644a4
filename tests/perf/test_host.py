"""Host mode beside plain stream-json, and beside a bare interpreter: its handshake, and a session with many deltas."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes.server import FakeServer
from tests.fakes.turns import Turn
from tests.headless.host.running import FLAGS, environment, workspace
from tests.perf.conftest import Bars
from tests.perf.test_acp import bare

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]

ROUNDS = 7
HELLO = b'{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}\n'
TEXT = tuple(f"Some words of a reply, number {number}. " for number in range(1_000))
"""The pieces of a reply."""


def command(url: str) -> list[str]:
    return [sys.executable, "-m", "qcode", *FLAGS, "--trust", "-m", "openai/some-model", "--base-url", url]


def first_answer(base: Path, url: str) -> tuple[float, float]:
    """Return the seconds until `initialize` is answered, and the megabytes that the process took."""
    began = time.perf_counter()
    with subprocess.Popen(
        command(url), cwd=base / "work", env=environment(base), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert b"control_response" in process.stdout.readline()
        seconds = time.perf_counter() - began
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.stdin.close()
    return seconds, int(status.split("VmHWM:")[1].split()[0]) / 1024


def test_first_answer_to_a_host(bars: Bars, tmp_path: Path) -> None:
    """The answer names commands, agents and models, and comes before the library loads."""
    workspace(tmp_path)
    with FakeServer("openai", []) as server:
        first_answer(tmp_path, server.base_url)  # byte code is written once
        runs = [(bare()[0], *first_answer(tmp_path, server.base_url)) for _ in range(ROUNDS)]
    ratio = statistics.median(seconds for _, seconds, _ in runs) / statistics.median(one for one, _, _ in runs)
    bars.hold("host: start to the answer of `initialize`, beside `python -c pass`", ratio, 15)
    bars.hold("host: memory then", max(size for _, _, size in runs), 25, "MB")


def session(base: Path, url: str, lines: Sequence[bytes]) -> float:
    """Return the CPU seconds of a run that reads these lines."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command(url), "--include-partial-messages"],
        cwd=base / "work",
        env=environment(base),
        input=b"".join(lines),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout.count(b'"type":"result"') == len(lines) - (HELLO in lines)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_session_of_a_host_beside_plain_stream_json(bars: Bars, tmp_path: Path) -> None:
    workspace(tmp_path)
    message = {"type": "user", "message": {"role": "user", "content": "hi"}}
    prompts = [json.dumps(message).encode() + b"\n"] * 5
    with FakeServer("openai", lambda asked: Turn(text=TEXT)) as server:
        session(tmp_path, server.base_url, [HELLO, *prompts])
        runs = [
            (session(tmp_path, server.base_url, prompts), session(tmp_path, server.base_url, [HELLO, *prompts]))
            for _ in range(ROUNDS)
        ]
    ratio = min(hosted for _, hosted in runs) / min(plain for plain, _ in runs)
    bars.hold("host: CPU of a session of 5,000 deltas, beside plain stream-json", ratio, 1.1)
