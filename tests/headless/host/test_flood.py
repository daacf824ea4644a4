"""A host that floods, stops reading, never answers or vanishes: bounded memory, quick interrupts, no hang."""

from __future__ import annotations

import json
import os
import select
import time
from pathlib import Path
from typing import Any

import pytest

from qcode.streams import MAX_AHEAD_BYTES
from tests.fakes.turns import Faults, Turn
from tests.headless.host.running import Host, hosting
from tests.headless.host.scripts import shell

PROMPTED = ("--permission-prompt-tool", "stdio")
MOST_MB = 400


def prompt_line(text: str) -> bytes:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n"


def working() -> Turn:
    return Turn(text=("Working", " on it"), faults=Faults(stall_after=2))


def flood(host: Host, line: bytes, most: int) -> int:
    """Write a line again and again until qcode takes no more for a second; return the bytes that it took."""
    assert host.process.stdin is not None
    descriptor = host.process.stdin.fileno()
    os.set_blocking(descriptor, False)
    taken, chunk = 0, line * max(1, 65_536 // len(line))
    rest = b""
    while taken < most and select.select([], [descriptor], [], 1)[1]:
        rest = rest or chunk
        written = os.write(descriptor, rest)
        rest, taken = rest[written:], taken + written
    return taken


def peak_mb(host: Host) -> int:
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(prompt_line("x" * 10_000), id="messages"),
        pytest.param(
            b'{"type":"control_request","request_id":"r","request":{"subtype":"mcp_status"}}\n', id="requests"
        ),
    ],
)
def test_host_that_floods_and_reads_nothing_has_to_wait(line: bytes, tmp_path: Path) -> None:
    with hosting(tmp_path, lambda asked: working(), *PROMPTED) as host:
        host.greet()
        host.ask("work")
        host.server.wait_until(lambda seen: seen.stalls == 1)
        most = 3 * MAX_AHEAD_BYTES
        assert flood(host, line, most) < most
        assert peak_mb(host) < MOST_MB


def test_interrupt_behind_many_messages_is_answered_at_once(tmp_path: Path) -> None:
    with hosting(tmp_path, lambda asked: working(), *PROMPTED) as host:
        host.greet()
        host.ask("work")
        host.server.wait_until(lambda seen: seen.stalls == 1)
        for number in range(5_000):
            host.ask("more", uuid=f"u{number}")
        began = time.monotonic()
        answer = host.control("interrupt", cancel_queued=True)["response"]
        assert len(answer["cancelled"]) == 5_000
        host.result()
        assert time.monotonic() - began < 5


def test_invalid_lines_are_reported_a_few_times(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.greet()
        host.send(*["nonsense"] * 1_000)
        host.ask()
        assert host.result()["result"] == "Hello."
        host.end()
    notices = [line for line in host.seen if "not a JSON object" in line.get("text", "")]
    assert len(notices) == 20
    assert notices[-1]["text"].endswith("further ones are not reported")


def hook(timeout: float) -> dict[str, Any]:
    return {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["h"], "timeout": timeout, "onFailure": "block"}]}


def test_hook_that_never_answers_is_a_denial_after_its_time_limit(tmp_path: Path) -> None:
    script = [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")]
    with hosting(tmp_path, script, "--permission-mode", "default", "--allowed-tools", "shell(touch *)") as host:
        host.control("initialize", hooks=hook(0.2))
        host.ask()
        host.request("hook_callback")
        assert host.result()["result"] == "Then not."
    assert not (tmp_path / "work" / "b.txt").exists()


@pytest.mark.broad
def test_server_of_the_host_that_never_answers_holds_up_no_turn_for_long(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.greet(sdkMcpServers=["calc"])
        host.ask()
        assert host.result()["result"] == "Hello."
        assert {server["name"]: server["status"] for server in host.control("mcp_status")["response"]["mcpServers"]}[
            "calc"
        ] in (
            "pending",
            "failed",
        )


def test_host_that_vanishes_during_a_question_ends_the_process(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")], *PROMPTED) as host:
        host.greet()
        host.ask()
        host.request()
        assert host.process.stdin is not None
        assert host.process.stdout is not None
        host.process.stdout.close()
        host.process.stdin.close()
        assert host.process.wait(10) in (0, 141)
    assert not (tmp_path / "work" / "b.txt").exists()
