"""Signals end the process, even if a part of it hangs."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

HANGS = {
    "a blocked loop": "while True: os.write(1, b'x' * 1_000_000)",
    "a callback that waits": "threading.Event().wait()",
    "the end of the process": "asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)",
}

SCRIPT = """
import asyncio, os, subprocess, sys, threading
from pathlib import Path
from qcode.tui.terminal import signals

signals.LEAVE_S = 0.1
child = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
grandchild = int(child.stdout.readline())

async def main():
    leaving = asyncio.Event()
    ending = signals.EndingSignals(lambda number: leaving.set(), lambda: Path(sys.argv[1]).write_text("saved"))
    sys.stderr.write(f"{grandchild}\\n")
    sys.stderr.flush()
    HANG
    await leaving.wait()
    return ending

asyncio.run(main()).close()
"""


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="child processes are found in /proc")
@pytest.mark.parametrize("hang", HANGS)
def test_signal_ends_a_process_that_hangs_after_saving(hang: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    script = textwrap.dedent(SCRIPT).replace("HANG", HANGS[hang])
    with subprocess.Popen(
        [sys.executable, "-c", script, str(saved)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        grandchild = int(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
    assert saved.read_text("utf-8") == "saved"
    deadline = time.monotonic() + 10
    while is_running(grandchild):
        assert time.monotonic() < deadline, "a program outlived the process"
