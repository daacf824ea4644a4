"""`qcode batch --ray` on a cluster of two nodes on this machine. It needs the extra `ray`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qcode.cli.main import main
from tests.fakes.server import FakeServer
from tests.fakes.turns import Faults, Refusal, Turn

pytestmark = [pytest.mark.broad, pytest.mark.timeout(180)]
PROGRAM = "import sys; from qcode.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    args = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=args)
    try:
        cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        cluster.shutdown()


def run(server: FakeServer, address: str, *more: str) -> subprocess.Popen[str]:
    command = ["batch", "tasks.jsonl", "--out", "out.jsonl", "-m", "openai/m", "--base-url", server.base_url]
    argv = [sys.executable, "-c", PROGRAM, *command, "--ray", address, *more]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    with process:
        return process.communicate(timeout=90)[1]


def write_tasks(folder: Path, count: int) -> None:
    rows = [{"id": str(number), "prompt": f"task {number}"} for number in range(count)]
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def results(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: int(row["id"]))


def workers() -> list[int]:
    """Return the processes that run a task of a batch: Ray names them after the function."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::_run"):
                found.append(int(path.parent.name))
    return found


def test_tasks_run_on_two_nodes_and_share_limits(folder: Path, address: str) -> None:
    write_tasks(folder, 3)
    slow = Turn(refusal=Refusal(429, "slow down", headers={"retry-after": "1"}))
    with FakeServer("openai", (slow, Turn(text="a"), Turn(text="b"), Turn(text="c"))) as server:
        process = run(server, address)
        errors = ended(process)
    assert process.returncode == 0, errors
    rows = results(folder)
    assert [row["id"] for row in rows] == ["0", "1", "2"]
    assert sorted(row["result"] for row in rows) == ["a", "b", "c"]
    assert all(row["host"] for row in rows)
    assert "3 of 3 tasks succeeded" in errors


def test_task_of_a_killed_worker_runs_once_more_and_has_one_result(folder: Path, address: str) -> None:
    write_tasks(folder, 1)
    stalled = Turn(text=("a", "b"), faults=Faults(stall_after=1))
    with FakeServer("openai", (stalled, Turn(text="second"))) as server:
        process = run(server, address)
        server.wait_until(lambda one: one.stalls == 1)
        (worker,) = workers()
        os.kill(worker, signal.SIGKILL)
        errors = ended(process)
        asked = len(server.requests)
    assert process.returncode == 0, errors
    assert [(row["id"], row["result"]) for row in results(folder)] == [("0", "second")]
    assert asked == 2


def test_task_that_kills_every_worker_fails_for_now(folder: Path, address: str) -> None:
    write_tasks(folder, 1)
    stalled = Turn(text=("a", "b"), faults=Faults(stall_after=1))
    with FakeServer("openai", (stalled, stalled, Turn(text="third"))) as server:
        process = run(server, address)
        for count in (1, 2):
            server.wait_until(lambda one, count=count: one.stalls == count)  # type: ignore[misc]
            (worker,) = workers()
            os.kill(worker, signal.SIGKILL)
        ended(process)
        assert process.returncode == 1
        (row,) = results(folder)
        assert (row["exit_code"], row["subtype"]) == (75, "error_during_execution")
        assert "the cluster lost the task" in row["error"]["message"]
        again = run(server, address)
        ended(again)
    assert again.returncode == 0
    assert [row["result"] for row in results(folder)] == ["third"]


def test_stopped_batch_leaves_no_task_running(folder: Path, address: str) -> None:
    write_tasks(folder, 1)
    stalled = Turn(text=("a", "b"), faults=Faults(stall_after=1))
    with FakeServer("openai", (stalled,)) as server:
        process = run(server, address)
        server.wait_until(lambda one: one.stalls == 1)
        process.send_signal(signal.SIGINT)
        errors = ended(process)
        assert workers() == []
    assert process.returncode == 130
    assert "the same command runs the rest" in errors
    assert results(folder) == []


def test_missing_cluster_is_one_line(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    write_tasks(folder, 1)
    assert main(["batch", "tasks.jsonl", "--out", "out.jsonl", "-m", "demo/demo", "--ray", "127.0.0.1:9"]) == 42
    assert "qcode: no Ray cluster at 127.0.0.1:9" in capfd.readouterr().err
