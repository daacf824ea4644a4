from __future__ import annotations

import asyncio
import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qcode.headless import run as headless_run
from qcode.headless.run import run_headless
from qcode.protocol.approvals import NO_OPTIONS, TurnOptions
from qcode.protocol.events import StepStarted, TurnEvent
from qcode.protocol.messages import Block
from qcode.protocol.reply import TextDelta
from qcode.streams import OutputLostError, Pipe
from tests.headless.scripted import Scripted, UntilCancelled, agent_of, ended, reply, run

ROOT = Path(__file__).parents[2]


@contextmanager
def program(script: str, format: str = "text") -> Iterator[subprocess.Popen[bytes]]:
    """Start pipe mode in a separate process; kill it at the end if it still runs."""
    argv = [sys.executable, "-m", "tests.headless.program", script, format]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == b"ready\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("script", ["waiting", "deaf"])
def test_signal_ends_the_turn_within_a_second_and_keeps_the_text(script: str, number: int, code: int) -> None:
    with program(script) as process:
        wait_until_ready(process)
        began = time.monotonic()
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == code
    assert stdout == b"so far\n"
    assert stderr == b"asked\nqcode: interrupted; the text so far was kept\n"
    assert time.monotonic() - began < 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", ["waiting", "deaf"])
def test_json_has_its_result_after_a_signal(script: str) -> None:
    with program(script, "stream-json") as process:
        wait_until_ready(process)
        process.send_signal(signal.SIGTERM)
        stdout, _ = process.communicate(timeout=20)
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert process.returncode == 143
    assert [line["type"] for line in lines] == ["system", "result"]
    assert lines[-1]["subtype"] == "error_cancelled"
    assert lines[-1]["stop_reason"] == "cancelled"
    assert lines[-1]["result"] == "so far"


def test_second_ctrl_c_exits_at_once_with_a_result() -> None:
    with program("patient", "json") as process:
        wait_until_ready(process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline() == b"asked\n"
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(stdout)["subtype"] == "error_cancelled"


def test_ctrl_c_ends_a_run_with_a_stalled_reader() -> None:
    with program("long", "stream-json") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        rest = process.stdout.read()
    assert process.returncode == 130
    assert json.loads(first)["subtype"] == "init"
    assert b'"type":"result"' not in rest


def test_closed_reader_ends_the_run_silently() -> None:
    with program("long") as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        process.wait(timeout=20)
        assert process.stderr is not None
        stderr = process.stderr.read()
    assert process.returncode == 141
    assert stderr == b"asked\n"


def test_closed_reader_cancels_the_turn() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    conversation = Scripted(reply("a"), UntilCancelled("a"))
    with os.fdopen(write_end, "wb") as stdout:
        code = asyncio.run(run_headless(agent_of(conversation, "stream-json"), "p", stdout=stdout, stderr=io.BytesIO()))
    assert code == 141
    assert conversation.is_cancelled


def test_full_disk_is_one_line_and_a_failure() -> None:
    stderr = io.BytesIO()
    with Path("/dev/full").open("wb") as stdout:
        code = asyncio.run(run_headless(agent_of(Scripted(ended("x")), "text"), "p", stdout=stdout, stderr=stderr))
    assert code == 1
    assert stderr.getvalue() == b"qcode: cannot write to standard output: No space left on device\n"


def test_broken_stderr_does_not_change_the_answer() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    stdout = io.BytesIO()
    with os.fdopen(write_end, "wb") as stderr:
        code = asyncio.run(
            run_headless(
                agent_of(Scripted(ended("x", raw_stop="stop")), verbose=True),
                "p",
                stdout=stdout,
                stderr=stderr,
            )
        )
    assert (code, stdout.getvalue()) == (0, b"x\n")


def test_earlier_signal_handlers_are_restored() -> None:
    def own(number: int, frame: object) -> None: ...

    before = {number: signal.signal(number, own) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert run(Scripted(ended("x"))).code == 0
        assert {signal.getsignal(number) for number in before} == {own}
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def test_ignored_signal_stays_ignored() -> None:
    class Hanging(Scripted):
        async def submit(
            self, prompt: str, attached: tuple[Block, ...] = (), options: TurnOptions = NO_OPTIONS
        ) -> AsyncGenerator[TurnEvent]:
            os.kill(os.getpid(), signal.SIGHUP)
            async for event in super().submit(prompt):
                yield event

    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        conversation = Hanging(StepStarted(1), ended("x"))
        assert run(conversation).code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert not conversation.is_cancelled


def test_run_outside_the_main_thread_installs_no_signal_handlers() -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run(Scripted(ended("x"))).code))
    thread.start()
    thread.join()
    assert codes == [0]


def test_externally_cancelled_run_writes_its_result_and_stays_cancelled() -> None:
    stdout = io.BytesIO()
    conversation = Scripted(StepStarted(1), TextDelta(0, "so far"), UntilCancelled(is_deaf=True))

    async def main() -> None:
        running = asyncio.ensure_future(
            run_headless(agent_of(conversation, "json"), "p", stdout=stdout, stderr=io.BytesIO())
        )
        while not conversation.prompts:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    result = json.loads(stdout.getvalue())
    assert (result["subtype"], result["result"]) == ("error_cancelled", "so far")
    assert conversation.is_closed


def test_interrupted_write_of_the_result_is_completed_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.headless.run.RESULT_TIMEOUT_S", 30)
    read_end, write_end = os.pipe()
    room = select.poll()
    room.register(write_end, select.POLLOUT)

    async def main() -> bytes:
        with os.fdopen(write_end, "wb") as stdout:
            conversation = Scripted(ended("x" * 300_000))
            running = asyncio.ensure_future(
                run_headless(agent_of(conversation, "json"), "p", stdout=stdout, stderr=io.BytesIO())
            )
            while room.poll(0):
                await asyncio.sleep(0)
            running.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            reading = asyncio.get_running_loop().run_in_executor(None, _read_all, read_end)
            await asyncio.wait({running})
            assert running.cancelled()
        return await reading

    data = asyncio.run(main())
    assert data.count(b"\n") == data.count(b'"type":"result"') == 1
    assert json.loads(data)["result"] == "x" * 300_000


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()


def test_exception_of_the_conversation_is_raised_after_the_result() -> None:
    stdout = io.BytesIO()
    conversation = Scripted(StepStarted(1), TextDelta(0, "so far"), RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        asyncio.run(run_headless(agent_of(conversation, "stream-json"), "p", stdout=stdout, stderr=io.BytesIO()))
    lines = [json.loads(line) for line in stdout.getvalue().splitlines()]
    assert [line["type"] for line in lines] == ["system", "result"]
    assert lines[-1]["error"]["kind"] == "internal"
    assert lines[-1]["result"] == "so far"


def test_turn_without_an_end_event_is_an_internal_error() -> None:
    ran = run(Scripted(StepStarted(1), TextDelta(0, "so far"), reply("so far")), "json")
    assert ran.code == 1
    assert ran.result["subtype"] == "error_during_execution"
    assert (ran.result["result"], ran.result["num_turns"]) == ("so far", 1)
    assert ran.stderr == "qcode: the turn stopped unexpectedly\n"


def test_iterator_of_a_turn_is_always_closed() -> None:
    conversation = Scripted(ended("x"), UntilCancelled())
    assert run(conversation).code == 0
    assert conversation.is_closed


def test_cancelled_write_leaves_no_torn_line() -> None:
    read_end, write_end = os.pipe()
    line = b"a" * 300_000 + b"\n"

    async def main() -> None:
        with os.fdopen(write_end, "wb") as stream:
            pipe = Pipe(stream)
            writing = asyncio.ensure_future(pipe.write(line))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait({writing})
            assert writing.cancelled()
            reader = asyncio.get_running_loop().run_in_executor(None, _drain, read_end, len(line) + 2)
            await pipe.write(b"b\n")
            assert await reader == line + b"b\n"

    asyncio.run(main())


def _drain(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(descriptor, 65_536)
    os.close(descriptor)
    return data


def test_closed_pipe_and_failed_write_are_distinguished() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as stream, pytest.raises(OutputLostError) as lost:
        Pipe(stream).push(b"x")
    assert lost.value.is_reader_gone
    with Path("/dev/full").open("wb") as stream, pytest.raises(OutputLostError) as lost:
        Pipe(stream).push(b"x")
    assert not lost.value.is_reader_gone


def test_turn_that_does_not_end_at_its_time_limit_is_ended_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headless_run, "TIMEOUT_GRACE_S", 0.0)
    done = run(
        Scripted(StepStarted(1), TextDelta(0, "so far"), UntilCancelled("so far", is_deaf=True)), "json", timeout=0.1
    )
    assert (done.code, done.result["subtype"], done.result["result"]) == (53, "error_timeout", "so far")
