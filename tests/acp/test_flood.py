"""A client that floods and reads nothing has to wait."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from qcode.streams import MAX_AHEAD_BYTES

MOST_MB = 400


@pytest.mark.broad  # `tests/headless/host/test_flood.py` floods the same reader in `make test`
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"[]\n" + b" " * 64_000 + b"\n", id="invalid"),
        pytest.param(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "made/up", "params": {"x": "y" * 64_000}}).encode()
            + b"\n",
            id="requests",
        ),
    ],
)
def test_client_that_floods_and_reads_nothing_has_to_wait(line: bytes, tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "QCODE_HOME": str(tmp_path / "qcode")}
    command = [sys.executable, "-m", "qcode", "acp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        descriptor, most = process.stdin.fileno(), 8 * MAX_AHEAD_BYTES
        os.set_blocking(descriptor, False)
        taken, rest = 0, b""
        while taken < most and select.select([], [descriptor], [], 1)[1]:
            rest = rest or line * 8
            written = os.write(descriptor, rest)
            rest, taken = rest[written:], taken + written
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.kill()
    assert int(status.split("VmHWM:")[1].split()[0]) // 1024 < MOST_MB
