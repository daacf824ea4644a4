"""`qcode batch`: one result for each task, also after a stop, and limits that all jobs keep to."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.options import Options
from qcode.cli.main import main
from qcode.cli.subcommands.batch import batch, tasks
from qcode.protocol.errors import InputError
from tests.fakes.server import FakeServer
from tests.fakes.turns import Faults, Refusal, Turn


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def write_tasks(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the results by id; each id must be there once."""
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def run(server: FakeServer, *more: str) -> int:
    model = ("-m", "openai/m", "--base-url", server.base_url)
    return main(["batch", "tasks.jsonl", "--out", "out.jsonl", *model, *more])


def test_each_task_has_one_result_with_its_options(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (work / "sub/a.txt").write_text("content of a\n")
    write_tasks(
        work,
        {"id": "plain", "prompt": "one"},
        {"id": "file", "prompt": "two", "cwd": "sub", "files": ["a.txt"]},
        {"id": "typed", "prompt": "three", "schema": {"type": "object"}, "max_output_tokens": 77},
        {"id": "lost", "prompt": "four", "cwd": "none"},
    )
    with FakeServer("openai", (Turn(text="1"), Turn(text="2"), Turn(text='{"n": 3}'))) as server:
        assert run(server, "--jobs", "1") == 1
        asked = list(server.requests)
    found = results(work)
    assert {name: row["exit_code"] for name, row in found.items()} == {"plain": 0, "file": 0, "typed": 0, "lost": 42}
    assert (found["plain"]["result"], found["plain"]["model"]) == ("1", "openai/m")
    assert 0 < found["plain"]["duration_api_ms"] <= found["plain"]["duration_ms"]
    assert found["file"]["cwd"] == str(work / "sub")
    assert found["typed"]["structured_output"] == {"n": 3}
    assert "does not exist" in found["lost"]["error"]["message"]
    assert "content of a" in str(asked[1].messages)
    assert asked[2].cap == 77
    assert "3 of 4 tasks succeeded, 1 failed" in capfd.readouterr().err


def test_finished_tasks_are_skipped_and_transient_failures_run_again(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_tasks(work, {"id": "a", "prompt": "one"}, {"id": "b", "prompt": "two"})
    (work / "config.toml").write_text("[network]\nmax_retries = 0\n")
    settings = ("--jobs", "1", "--settings", "config.toml")
    with FakeServer("openai", (Turn(text="1"), Turn(refusal=Refusal(503, "busy")), Turn(text="2"))) as server:
        assert run(server, *settings) == 1
        assert {name: row["exit_code"] for name, row in results(work).items()} == {"a": 0, "b": 75}
        with (work / "out.jsonl").open("a") as file:
            file.write('{"id": "torn"')
        assert run(server, *settings) == 0
        assert run(server, *settings) == 0
        assert len(server.requests) == 3
    assert {name: row["result"] for name, row in results(work).items()} == {"a": "1", "b": "2"}
    assert "2 of 2 tasks already done" in capfd.readouterr().err


@pytest.mark.parametrize(("code", "requests"), [(0, 0), (1, 0), (75, 1), (130, 1), (143, 1)])
def test_task_runs_again_if_its_failure_was_transient_or_it_was_stopped(code: int, requests: int, work: Path) -> None:
    write_tasks(work, {"id": "a", "prompt": "one"})
    (work / "out.jsonl").write_text(json.dumps({"id": "a", "type": "result", "exit_code": code}) + "\n")
    with FakeServer("openai", (Turn(text="1"),)) as server:
        run(server)
        assert len(server.requests) == requests


def test_jobs_run_side_by_side(work: Path) -> None:
    write_tasks(work, *({"id": str(number), "prompt": "x"} for number in range(3)))
    stalled = Turn(text=("a", "b"), faults=Faults(stall_after=1))
    with FakeServer("openai", (stalled, stalled, stalled)) as server:

        def release() -> None:
            server.wait_until(lambda one: one.stalls == 3)
            server.release()

        releasing = threading.Thread(target=release)
        releasing.start()
        assert run(server, "--jobs", "3") == 0
        releasing.join()
    assert len(results(work)) == 3


PROGRAM = "import sys; from qcode.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_stopped_batch_is_continued_by_the_same_command(work: Path, number: int, code: int) -> None:
    write_tasks(work, *({"id": str(number), "prompt": "x"} for number in range(3)))
    turns = (Turn(text="first"), Turn(text=("a", "b"), faults=Faults(stall_after=1)), Turn(text="2"), Turn(text="3"))
    with FakeServer("openai", turns) as server:
        command = ["batch", "tasks.jsonl", "--out", "out.jsonl", "-m", "openai/m", "--base-url", server.base_url]
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command, "--jobs", "1"], stderr=subprocess.PIPE, text=True
        ) as process:
            server.wait_until(lambda one: one.stalls == 1)
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
        assert process.returncode == code
        assert ("the same command runs the rest" in errors) == (code > 0)
        assert list(results(work)) == ["0"]
        assert run(server, "--jobs", "1") == 0
    assert {name: row["result"] for name, row in results(work).items()} == {"0": "first", "1": "2", "2": "3"}


def test_second_batch_on_the_same_results_is_refused(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_tasks(work, {"prompt": "x"})
    with batch.results_file(work / "out.jsonl"):
        assert main(["batch", "tasks.jsonl", "--out", "out.jsonl", "-m", "demo/demo"]) == 42
    assert "another qcode batch writes to" in capfd.readouterr().err


@pytest.mark.parametrize("content", ["# Notes\n", '{"id": "0", "prompt": "x"}\n', "[1]\n"])
def test_file_that_holds_no_results_is_refused_and_unchanged(
    content: str, work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_tasks(work, {"prompt": "x"})
    (work / "out.jsonl").write_text(content)
    assert main(["batch", "tasks.jsonl", "--out", "out.jsonl", "-m", "demo/demo"]) == 42
    assert (work / "out.jsonl").read_text() == content
    assert "out.jsonl:1 is not a result of qcode batch" in capfd.readouterr().err


def test_torn_line_of_a_killed_batch_is_removed(work: Path) -> None:
    write_tasks(work, {"prompt": "x"}, {"prompt": "y"})
    whole = '{"id": "0", "type": "result", "exit_code": 0}\n'
    (work / "out.jsonl").write_text(f'{whole}{{"id": "1", "ty')
    with batch.results_file(work / "out.jsonl") as (stream, finished):
        assert list(finished) == ["0"]
        stream.write(b"more\n")
        stream.flush()
        with pytest.raises(InputError), batch.results_file(work / "out.jsonl"):
            pass
    assert (work / "out.jsonl").read_text() == f"{whole}more\n"


UNUSABLE = [
    ("x\n", "tasks.jsonl:1: not a line of JSON"),
    ('{"prompt": "a"}\n[]\n', "tasks.jsonl:2: not a JSON object"),
    ("{}\n", 'tasks.jsonl:1: "prompt" must be a string'),
    ('{"prompt": "a", "modle": "x"}\n', 'tasks.jsonl:1: unknown key "modle"; the nearest is model'),
    ('{"prompt": "a", "trust": true}\n', 'unknown key "trust"'),
    ('{"prompt": "a", "id": "1"}\n{"prompt": "b", "id": 1}\n', "tasks.jsonl:2: the id 1 is used twice"),
    ('{"prompt": "a", "max_turns": true}\n', '"max_turns" must be a number'),
    ('{"prompt": "a", "files": "b"}\n', '"files" must be a list of paths'),
]


@pytest.mark.parametrize(("text", "complaint"), UNUSABLE)
def test_unusable_task_is_named_before_anything_runs(
    work: Path, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    (work / "tasks.jsonl").write_text(text)
    assert main(["batch", "tasks.jsonl", "--out", "out.jsonl", "-m", "demo/demo"]) == 42
    assert complaint in capfd.readouterr().err
    assert not (work / "out.jsonl").exists()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_refusal_of_one_job_pauses_all(clock: list[float]) -> None:
    async def go() -> None:
        limits = tasks.SharedLimits()
        assert await limits.remaining_pause() == 0
        await limits.record_refusal(7)
        assert await limits.remaining_pause() == 7
        clock[0] += 5
        await limits.record_refusal(None)
        assert await limits.remaining_pause() == tasks.MIN_PAUSE_S * 2
        await limits.record_refusal(9_999)
        assert await limits.remaining_pause() == tasks.MAX_PAUSE_S
        clock[0] += 100
        await limits.record_success()
        await limits.record_refusal(None)
        assert await limits.remaining_pause() == tasks.MIN_PAUSE_S

    asyncio.run(go())


def test_request_waits_for_the_end_of_the_pause(work: Path) -> None:
    write_tasks(work, {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"})
    slow = Turn(refusal=Refusal(429, "slow down", headers={"retry-after": "1"}))
    with FakeServer("openai", (slow, Turn(text="1"), Turn(text="2"))) as server:
        began = time.monotonic()
        assert run(server, "--jobs", "2") == 0
    assert time.monotonic() - began >= 1
    assert {row["exit_code"] for row in results(work).values()} == {0}


def test_only_a_limit_pauses_the_other_jobs(work: Path) -> None:
    write_tasks(work, {"id": "a", "prompt": "x"})
    (work / "config.toml").write_text("[network]\nmax_retries = 0\n")
    with FakeServer("openai", (Turn(refusal=Refusal(500, "broken")),)) as server:
        limits = tasks.SharedLimits()
        options = Options(model="openai/m", base_url=server.base_url, settings="config.toml")
        one = tasks.BatchTask("a", "x", work, (), {})
        assert asyncio.run(tasks.task_result(one, options, limits))["exit_code"] == 75
        assert asyncio.run(limits.remaining_pause()) == 0


def test_batch_without_an_out_file_is_refused(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_tasks(work, {"prompt": "x"})
    assert main(["batch", "tasks.jsonl"]) == 2
    assert "--out" in capfd.readouterr().err
    assert not (work / "out.jsonl").exists()
