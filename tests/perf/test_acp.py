"""The editor agent beside a bare interpreter: its first answer, and a thousand updates."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qcode.acp.updates import ClientFeatures, TurnView
from qcode.acp.wire import EditorWire, Incoming, MethodResult
from qcode.protocol.events import StepStarted
from qcode.protocol.reply import TextDelta
from qcode.text.json import JsonObject
from tests.perf.conftest import Bars

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]

ROUNDS = 7
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}\n'


def bare() -> tuple[float, float]:
    """Return the seconds and the CPU seconds of an interpreter that does nothing."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu


def first_answer(home: Path) -> tuple[float, float]:
    """Return the seconds until `initialize` is answered, and the megabytes that the process took."""
    env = {**os.environ, "HOME": str(home), "QCODE_HOME": str(home / "qcode")}
    began = time.perf_counter()
    command = [sys.executable, "-m", "qcode", "acp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert b"protocolVersion" in process.stdout.readline()
        seconds = time.perf_counter() - began
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.stdin.close()
    return seconds, int(status.split("VmHWM:")[1].split()[0]) / 1024


def test_first_answer(bars: Bars, tmp_path: Path) -> None:
    first_answer(tmp_path)  # byte code is written once
    runs = [(bare()[0], *first_answer(tmp_path)) for _ in range(ROUNDS)]
    ratio = statistics.median(seconds for _, seconds, _ in runs) / statistics.median(one for one, _, _ in runs)
    bars.hold("editor agent: start to the answer of `initialize`, beside `python -c pass`", ratio, 15)
    bars.hold("editor agent: memory then", max(size for _, _, size in runs), 25, "MB")


def test_a_thousand_updates(bars: Bars) -> None:
    # In turns, so that other load of the machine affects both equally.
    pairs = [(asyncio.run(sent()), bare()[1]) for _ in range(ROUNDS)]
    updates, interpreter = (min(times) for times in zip(*pairs, strict=True))
    bars.hold("editor agent: CPU of 1,000 updates, beside `python -c pass`", updates / interpreter, 1)


async def sent() -> float:
    """Return the CPU seconds for 1,000 updates with text, from the events of a turn to the bytes."""

    async def handle(incoming: Incoming) -> MethodResult | None:
        return None

    at_agent, at_client = os.pipe()
    with open(os.devnull, "wb", buffering=0) as output:  # a descriptor without a buffer
        wire = EditorWire(at_agent, output, handle, on_lost=lambda: None, describe=repr)

        def send(update: JsonObject) -> None:
            wire.notify("session/update", {"sessionId": "20261122-100000-abcd", "update": update})

        view = TurnView(1, "/work", ClientFeatures(), send)
        view.send_event(StepStarted(1))
        began = time.process_time()
        for number in range(1_000):
            view.send_event(TextDelta(0, f"Some words of a reply, number {number}. "))
            view.flush()
        seconds = time.process_time() - began
        os.close(at_client)
        await asyncio.sleep(0)
    return seconds
