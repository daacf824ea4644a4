"""How a program is started, restricted and awaited."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from qcode.protocol.tools import Launch
from qcode.safety.sandbox import kernel
from qcode.tools.processes import find_program, run_program
from qcode.tools.workspace import Workspace


async def output_of(launch: Launch, cwd: Path) -> tuple[int, str]:
    output = bytearray()
    ended = await run_program(launch, cwd=cwd, environment={}, on_output=output.extend, timeout_s=30)
    return ended.exit_code, output.decode()


def shell(command: str, restrict: Callable[[], None] | None = None, *arguments: str) -> Launch:
    return Launch(("/bin/bash", "-c", command, "bash", *arguments), restrict)


def test_restriction_applies_only_to_the_program(tmp_path: Path) -> None:
    # In one read: the kernel writes the file again for each, and bash reads line by line.
    status = "grep ^NoNewPrivs: /proc/self/status | cut -f 2"

    async def run() -> list[str]:
        restricted = await output_of(shell(status, kernel.forbid_new_privileges), tmp_path)
        return [restricted[1], (await output_of(shell(status), tmp_path))[1]]

    assert asyncio.run(run()) == ["1\n", "0\n"]


@pytest.mark.parametrize("error", [OSError(1, "refused"), ValueError("wrong"), RuntimeError("broken")])
def test_failed_restriction_never_starts_the_program(tmp_path: Path, error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(OSError, match=r"refused|wrong|broken"):
        asyncio.run(output_of(shell("touch made", fail), tmp_path))
    assert not (tmp_path / "made").exists()


def test_program_that_does_not_exist_raises_and_still_finishes(tmp_path: Path) -> None:
    finished: list[int] = []

    def finish() -> tuple[str, ...]:
        finished.append(1)
        return ()

    with pytest.raises(FileNotFoundError):
        asyncio.run(output_of(Launch(("/no/such/program",), finish=finish), tmp_path))
    assert finished == [1]


def test_data_is_read_from_the_inherited_descriptor(tmp_path: Path) -> None:
    launch = Launch(("/bin/bash", "-c", 'cat <&"$0"; echo; ls /proc/self/fd', "{fd}"), data=b"given", data_index=3)
    code, text = asyncio.run(output_of(launch, tmp_path))
    assert (code, text.split("\n")[0]) == (0, "given")


@pytest.mark.parametrize("restrict", [None, lambda: None], ids=["plain", "restricted"])
def test_program_inherits_no_other_descriptor(tmp_path: Path, restrict: Callable[[], None] | None) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        launch = Launch(("/bin/bash", "-c", f"echo leaked >&{writing}"), restrict)
        code, _ = asyncio.run(output_of(launch, tmp_path))
    finally:
        os.close(writing)
        os.close(reading)
    assert code != 0


def test_end_of_a_sandbox_is_reported_after_its_output_and_processes(tmp_path: Path) -> None:
    seen: list[bool] = []

    def finish() -> tuple[str, ...]:
        seen.append((tmp_path / "late").exists())
        return ("put back",)

    launch = shell("(trap '' TERM; sleep 0.05; touch late; sleep 30) & echo out; exit 3")
    code, text = asyncio.run(output_of(Launch(launch.argv, finish=finish), tmp_path))
    assert code == 3
    assert text == "out\n\n[put back]\n"
    assert len(seen) == 1


def test_cancelled_program_is_ended_before_its_sandbox_finishes(tmp_path: Path) -> None:
    order: list[str] = []

    def finish() -> tuple[str, ...]:
        pid = int((tmp_path / "pid").read_text())
        try:
            os.kill(pid, 0)
            order.append("runs")
        except ProcessLookupError:
            order.append("ended")
        return ("put back",)

    async def run() -> None:
        launch = Launch(shell("echo $$ > p; mv p pid; sleep 60").argv, finish=finish)
        task = asyncio.ensure_future(output_of(launch, tmp_path))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert order == ["ended"]


def test_program_cancelled_during_its_start_does_not_keep_running(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def restrict() -> None:
        begun.set()
        go_on.wait(10)

    async def run() -> None:
        task = asyncio.ensure_future(output_of(shell("echo $$ > p; mv p pid; exec sleep 60", restrict), tmp_path))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    # It was killed before or after its first line.
    assert not (tmp_path / "pid").exists() or not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_signal_that_ended_a_program_is_its_exit_code(tmp_path: Path) -> None:
    assert asyncio.run(output_of(shell("kill -9 $$"), tmp_path))[0] == -9


def test_started_programs_leak_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    async def run() -> None:
        for _ in range(5):
            await output_of(Launch(("/bin/bash", "-c", "cat <&$0", "x"), data=b"x", data_index=3), tmp_path)
            with pytest.raises(OSError, match="No such file"):
                await output_of(Launch(("/no/such/program",), data=b"x", data_index=0), tmp_path)

    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    asyncio.run(run())
    before = open_descriptors()
    asyncio.run(run())
    assert open_descriptors() == before
    assert not threads_after_their_end()


def threads_after_their_end() -> list[threading.Thread]:
    """Return the threads of programs that do not end; they may be about to."""
    threads = [thread for thread in threading.enumerate() if thread.name == "qcode-program"]
    for thread in threads:
        thread.join(10)
    return [thread for thread in threads if thread.is_alive()]


def test_no_garbage_is_collected_with_the_restrictions_of_a_program(tmp_path: Path) -> None:
    during: list[bool] = []
    gc.enable()
    launch = shell("true", lambda: during.append(gc.isenabled()))
    asyncio.run(output_of(launch, tmp_path))
    assert during == [False]
    assert not threads_after_their_end()
    assert gc.isenabled()


def test_program_is_found_behind_a_folder_of_the_path_that_cannot_be_searched(tmp_path: Path) -> None:
    # As root every folder can be searched; a name that is too long fails like a folder without permission.
    found = find_program("bash", {"PATH": f"/{'x' * 300}:/usr/bin:/bin"}, Workspace(tmp_path))
    assert found is not None
    assert os.access(found, os.X_OK)
