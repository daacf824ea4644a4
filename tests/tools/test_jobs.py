"""Background commands: they continue, are read and stopped, and end with the session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qcode.protocol.tools import ToolOutcome
from qcode.text.json import Json
from qcode.tools import output
from qcode.tools.jobs import MAX_JOBS, Jobs
from qcode.tools.shell import JobsTool, Shell
from qcode.tools.tool import ToolRunContext
from qcode.tools.workspace import Workspace
from tests.tools.conftest import ToolRunner


class Background:
    def __init__(self, workspace: Workspace, limit: int = 30_000) -> None:
        self.jobs = Jobs()
        self.workspace = workspace
        self._context = ToolRunContext(lambda text: None, jobs=self.jobs, max_output_chars=limit)

    async def shell(self, command: str) -> ToolOutcome:
        arguments: dict[str, Json] = {"command": command, "background": True}
        return await Shell().run(arguments, self.workspace, self._context)

    async def __call__(self, action: str, **arguments: Json) -> ToolOutcome:
        return await JobsTool().run({"action": action, **arguments}, self.workspace, self._context)

    async def read_until(self, job: int, text: str) -> str:
        """Read until `text` is in the output; the time limit of the test ends the wait."""
        seen = ""
        while text not in seen:
            seen += (await self("read", job=job, wait_s=5)).content
        return seen


def play(runner: ToolRunner, scenes: Callable[[Background], Awaitable[None]], limit: int = 30_000) -> Background:
    background = Background(runner.workspace, limit)

    async def run() -> None:
        try:
            await scenes(background)
        finally:
            background.jobs.end_all()
            await asyncio.gather(*(job.task for job in background.jobs.all if job.task), return_exceptions=True)

    asyncio.run(run())
    return background


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_job_continues_after_its_call_and_is_read_in_parts(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        done = await background.shell("echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3")
        assert not done.is_error
        assert "Job 1" in done.content
        assert "one\n" in await background.read_until(1, "one")
        assert "1 of 1 running" in (await background("list")).summary
        assert "[no new output]" in (await background("read", job=1)).content
        (runner.root / "go").touch()
        assert "two" in await background.read_until(1, "exit 3")

    play(runner, scenes)


@pytest.mark.parametrize("turns_between", range(4))
def test_cancelled_read_stays_cancelled_if_output_arrives_meanwhile(turns_between: int, runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        await background.shell("sleep 60")
        reading = asyncio.ensure_future(background("read", job=1, wait_s=60))
        for _ in range(5):
            await asyncio.sleep(0)
        background.jobs.all[0].readable.set()
        for _ in range(turns_between):
            await asyncio.sleep(0)
        is_accepted = reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled() is is_accepted

    play(runner, scenes)


def test_stopped_job_ends_all_its_processes(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        await background.shell("sleep 60 & echo pid=$!; wait")
        seen = await background.read_until(1, "pid=")
        pid = int(seen.partition("pid=")[2].split()[0])
        assert is_alive(pid)
        done = await background("stop", job=1)
        assert "stopped" in done.content
        assert not is_alive(pid)

    play(runner, scenes)


def test_jobs_end_with_the_session(runner: ToolRunner) -> None:
    pids: list[int] = []

    async def scenes(background: Background) -> None:
        await background.shell("echo pid=$$; exec sleep 60")
        pids.append(int((await background.read_until(1, "pid=")).partition("pid=")[2].split()[0]))

    play(runner, scenes)
    assert not is_alive(pids[0])


def test_large_output_is_bounded_in_memory_and_complete_in_a_private_file(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        await background.shell("yes 0123456789 | head -c 100000; echo end")
        seen = ""
        while background.jobs.all[0].is_running:
            await background.jobs.all[0].readable.wait()
            await asyncio.sleep(0)
        seen = (await background("read", job=1)).content
        assert "characters omitted" in seen
        assert len(seen) < 1_500
        path = background.jobs.all[0].path
        assert path is not None
        assert path.stat().st_size == 100_004
        assert path.stat().st_mode & 0o777 == 0o600

    play(runner, scenes, limit=1_000)


def test_output_beyond_the_size_of_the_file_is_announced_as_incomplete(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_STORED_BYTES", 500)

    async def scenes(background: Background) -> None:
        await background.shell("seq 1000; echo over")
        text = await background.read_until(1, "over")
        (job,) = background.jobs.all
        assert job.path is not None
        assert job.path.stat().st_size == 500
        assert f"characters omitted; its first 500 bytes in {job.path} ...]" in text

    play(runner, scenes, limit=1_000)


def test_read_of_a_progress_bar_returns_its_last_state(runner: ToolRunner) -> None:
    bar = "for n in $(seq 0 999); do printf '\\rfetching %s' $n; done"

    async def scenes(background: Background) -> None:
        await background.shell(f"echo first; {bar}; until [ -e go ]; do sleep 0.01; done; {bar}; echo; echo last")
        while "fetching 999" not in background.jobs.all[0].recent:
            await background.jobs.all[0].readable.wait()
            await asyncio.sleep(0)
        assert (await background("read", job=1)).content.startswith("first\nfetching 999\n[job 1: running")
        (runner.root / "go").touch()
        while background.jobs.all[0].is_running:
            await asyncio.sleep(0)
        assert (await background("read", job=1)).content.startswith("fetching 999\nlast\n\n[job 1: exit 0")

    play(runner, scenes, limit=1_000)


def test_character_split_between_chunks_is_joined(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        await background.shell("printf 'a\\xc3'; until [ -e go ]; do sleep 0.01; done; printf '\\xa9b'")
        seen = await background.read_until(1, "a")
        (runner.root / "go").touch()
        seen += await background.read_until(1, "exit 0")
        assert "é" in seen
        assert "\ufffd" not in seen

    play(runner, scenes)


def test_incomplete_character_at_the_end_is_shown_as_replaced(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        await background.shell(r"printf 'a\303'")
        assert (await background.read_until(1, "exit 0")).count("\ufffd") == 1
        assert background.jobs.find(1).latest() == "a\ufffd"

    play(runner, scenes)


def test_number_of_jobs_is_limited(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        for _ in range(MAX_JOBS):
            assert not (await background.shell("sleep 60")).is_error
        refused = await background.shell("sleep 60")
        assert refused.is_error
        assert "stop one" in refused.content

    play(runner, scenes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action": "read"}, "set job to"),
        ({"action": "stop", "job": 7}, "there is no job 7; existing jobs: 1"),
        ({"action": "go"}, "must be one of"),
    ],
)
def test_call_without_a_valid_job_is_an_error(runner: ToolRunner, arguments: dict[str, Json], message: str) -> None:
    async def scenes(background: Background) -> None:
        await background.shell("true")
        done = await background(**arguments)  # type: ignore[arg-type]  # the action is among them
        assert done.is_error
        assert message in done.content

    play(runner, scenes)


def test_background_is_refused_if_jobs_cannot_outlive_a_call(runner: ToolRunner) -> None:
    assert "without background" in runner.run("shell", command="true", background=True).content


def test_command_that_needs_a_terminal_gets_an_error(runner: ToolRunner) -> None:
    assert "no terminal and no input" in runner.run("shell", command="stty size").content
    assert "no terminal and no input" not in runner.run("shell", command="echo not a tty").content
    assert "no terminal and no input" in runner.run("shell", command="python3 -c 'input()'").content


def test_background_job_leaves_no_files_in_the_workspace(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        await background.shell("exit 0")
        await background.read_until(1, "exit 0")

    before = set(runner.root.iterdir())
    play(runner, scenes)
    assert set(runner.root.iterdir()) == before


class Foreground:
    """A shell call in the foreground, and a function that moves it to the background."""

    def __init__(self, background: Background, command: str, **arguments: Json) -> None:
        self.background_requested = asyncio.Event()
        self.seen = ""
        self.has_printed = asyncio.Event()
        context = ToolRunContext(self._show, jobs=background.jobs, background_requested=self.background_requested)
        work = Shell().run({"command": command, **arguments}, background.workspace, context)
        self.task = asyncio.ensure_future(work)

    def _show(self, text: str) -> None:
        self.seen += text
        self.has_printed.set()


def test_running_command_can_move_to_the_background(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        call = Foreground(background, "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3", timeout_s=1)
        await call.has_printed.wait()
        call.background_requested.set()
        done = await call.task
        assert not done.is_error
        assert done.content.startswith("one\n[the user moved it to the background")
        assert "job 1" in done.summary
        assert "job 1: running: echo one" in (await background("list")).content
        (runner.root / "go").touch()
        text = await background.read_until(1, "exit 3")
        assert "two" in text
        assert not text.startswith("one")
        (job,) = background.jobs.all
        assert job.earlier_s > 0
        assert job.path is not None
        assert job.path.read_text() == "one\ntwo\n"

    play(runner, scenes)


def test_moved_command_has_no_time_limit(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        call = Foreground(background, "echo one; sleep 1.2; echo two", timeout_s=1)
        await call.has_printed.wait()
        call.background_requested.set()
        await call.task
        assert "exit 0" in await background.read_until(1, "exit 0")

    play(runner, scenes)


def test_moved_command_is_stopped_with_all_its_processes(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        call = Foreground(background, "sleep 60 & echo $!; wait")
        await call.has_printed.wait()
        call.background_requested.set()
        await call.task
        assert is_alive(int(call.seen))
        assert "stopped" in (await background("stop", job=1)).content
        assert not is_alive(int(call.seen))

    play(runner, scenes)


def test_cancelling_a_call_that_was_not_moved_ends_its_command(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        call = Foreground(background, "sleep 60 & echo $!; wait")
        await call.has_printed.wait()
        call.task.cancel()
        await asyncio.wait([call.task])
        assert call.task.cancelled()
        assert not is_alive(int(call.seen))
        assert background.jobs.all == ()

    play(runner, scenes)


def test_character_split_by_the_move_is_joined(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        script = r"printf 'a\303'; until [ -e go ]; do sleep 0.01; done; printf '\244b\n'"
        call = Foreground(background, script)
        await call.has_printed.wait()
        call.background_requested.set()
        assert (await call.task).content.startswith("a\n[the user")
        (runner.root / "go").touch()
        assert "\u00e4b" in await background.read_until(1, "exit 0")
        assert background.jobs.find(1).latest() == "a\u00e4b\n"

    play(runner, scenes)


def test_long_output_before_the_move_is_complete_in_the_file_of_the_job(runner: ToolRunner) -> None:
    async def scenes(background: Background) -> None:
        call = Foreground(background, "seq 1 20000; until [ -e go ]; do sleep 0.01; done; echo end")
        while "20000" not in call.seen:
            call.has_printed.clear()
            await call.has_printed.wait()
        call.background_requested.set()
        assert "characters omitted" in (await call.task).content
        (runner.root / "go").touch()
        await background.read_until(1, "exit 0")
        (job,) = background.jobs.all
        assert job.path is not None
        assert job.path.read_text() == "\n".join(map(str, range(1, 20_001))) + "\nend\n"

    play(runner, scenes)
