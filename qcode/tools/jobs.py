"""Background commands of a session. The `shell` tool starts them, the `jobs` tool lists, reads and stops them.

Jobs end with the session. A private file contains all output of a job, and memory contains its unread output; both are
limited in size. The two tools are in `shell`. `ToolRunContext` contains a `Jobs`, so this module does not import
`tool`.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path

from qcode.protocol.tools import Launch, Refused
from qcode.text.numbers import exit_text
from qcode.tools.output import CollectedOutput, OutputFile
from qcode.tools.processes import ProcessExit, run_program
from qcode.values import dataclass

MAX_JOBS = 10  # running at a time
MAX_JOB_S = 24 * 3_600.0
"""The time limit of a job."""


@dataclass(slots=True)
class Job:
    """A background command and its output."""

    number: int
    command: str
    file: OutputFile | None
    """The file with all output."""
    limit: int
    """The maximum number of characters of output kept in memory."""
    earlier_s: float = 0.0
    """The seconds that the command had run before it moved to the background."""
    exit: ProcessExit | None = None
    """None while the command runs, and if it was stopped or could not be started."""
    problem: str = ""
    """Why there is no exit code: the command was stopped, or could not be started."""
    unread: str = ""
    """The output since the last `read`."""
    dropped_chars: int = 0
    """The number of unread characters that exceeded the limit."""
    recent: str = ""
    """The latest output, whether or not it was read."""
    total: int = 0
    """The number of characters of all output."""
    is_stopping: bool = False
    """The user or the model has asked to stop the command. False for a command that stops because qcode exits."""
    task: asyncio.Task[None] | None = None
    readable: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while there is unread output, and after the command has ended."""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    @property
    def path(self) -> Path | None:
        """The path of the file with all output, None if it cannot be written."""
        return self.file.path if self.file is not None else None

    @property
    def state(self) -> str:
        """The state in a few words: `running`, `exit 0`, `stopped`."""
        if self.exit is None:
            return self.problem or "running"
        code = self.exit.exit_code
        return exit_text(code) if code < 0 else f"exit {code}"

    @property
    def is_running(self) -> bool:
        return self.exit is None and not self.problem

    def add_output(self, data: bytes) -> None:
        """Add output. The latest part is kept in memory, all of it in the file, both up to a limit."""
        self._add_text(self._decoder.decode(data))
        if self.file is not None:
            self.file.write(data)

    def _add_text(self, text: str) -> None:
        self._append_output(text)
        self.unread += text
        self.readable.set()
        if len(self.unread) > self.limit and "\r" in text:
            from qcode.text.redrawn import redrawn, reduced_line

            # Drop the overwritten states of progress bars. The unfinished line keeps its last state and the update that
            # may not be complete yet.
            finished, newline, line = self.unread.rpartition("\n")
            self.unread = redrawn(finished) + newline + reduced_line(line)
        excess = len(self.unread) - self.limit
        if excess > 0:
            self.unread = self.unread[excess:]
            self.dropped_chars += excess

    def end_output(self) -> None:
        """End the output. An incomplete character at its end becomes a replacement character."""
        self._add_text(self._decoder.decode(b"", final=True))
        if self.file is not None:
            self.file.close()

    def read(self) -> str:
        """Return and clear the unread output: the last state of each line, as the model gets it."""
        from qcode.text.redrawn import redrawn  # only the first read needs it

        text = redrawn(self.unread)
        dropped = self.dropped_chars
        self.unread = ""
        self.dropped_chars = 0
        if self.is_running:
            self.readable.clear()
        return self._with_omission(text, dropped)

    def latest(self) -> str:
        """Return the latest output, whether or not it was read."""
        return self._with_omission(self.recent, self.total - len(self.recent))

    def _with_omission(self, text: str, dropped: int) -> str:
        if not dropped:
            return text
        hint = self.file.hint if self.file is not None else ""
        return f"[... {dropped:,} characters omitted{hint} ...]\n{text}"

    def _append_output(self, text: str) -> None:
        self.recent = (self.recent + text)[-self.limit :]
        self.total += len(text)

    def continue_output(self, earlier: CollectedOutput) -> None:
        """Continue the output of a command that moves to the background.

        The call returned the `earlier` output, except for the incomplete character at its end.
        """
        if self.file is not None:
            self.file.write(earlier.data)
        self._append_output(earlier.data.removesuffix(earlier.incomplete).decode("utf-8", "replace"))
        self._decoder.decode(earlier.incomplete)  # the other bytes of the character are still to come


class Jobs:
    """The background commands of one session. Not thread-safe: use it in the event loop that starts the jobs."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self.watcher: Callable[[Job], None] = lambda job: None
        """Called with a job that has started or ended, to show it to the user."""
        self.record: Callable[[Job], None] = lambda job: None
        """Called before `watcher`, to store the job in the session."""

    @property
    def all(self) -> tuple[Job, ...]:
        """All jobs in the order in which they were started."""
        return tuple(self._jobs.values())

    @property
    def running(self) -> tuple[Job, ...]:
        return tuple(job for job in self.all if job.is_running)

    def start(
        self, launch: Launch, command: str, *, cwd: Path, environment: Mapping[str, str], scratch: Path, limit: int
    ) -> Job:
        """Start a command and return at once. Raise `Refused` if too many are running."""
        self.check_limit()
        job = self._add(command, scratch, limit)

        def begin() -> Awaitable[ProcessExit]:
            return run_program(launch, cwd=cwd, environment=environment, on_output=job.add_output, timeout_s=MAX_JOB_S)

        return self._watch(job, begin)

    def adopt(
        self,
        command: str,
        program: asyncio.Task[ProcessExit],
        earlier: CollectedOutput,
        *,
        earlier_s: float,
        scratch: Path,
        limit: int,
    ) -> Job:
        """Add a program that has run for `earlier_s`, with its earlier output; pass later output to `Job.add_output`.

        The limit of jobs does not apply, because the user decided to move the running program.
        """
        job = self._add(command, scratch, limit)
        job.earlier_s = earlier_s
        job.continue_output(earlier)
        self._watch(job, lambda: program)
        assert job.task is not None
        # A task that is cancelled before its first step would never end its program.
        job.task.add_done_callback(lambda _: program.cancel())
        return job

    def _watch(self, job: Job, begin: Callable[[], Awaitable[ProcessExit]]) -> Job:
        """Start a task that waits for the program of a job, and report the start and the end of the job.

        `begin` starts the program, or returns the task of a running one.
        """
        job.task = asyncio.ensure_future(_follow(job, begin))
        job.task.add_done_callback(lambda _: self._end(job))
        self._report(job)
        return job

    def _end(self, job: Job) -> None:
        if job.is_running:
            job.problem = "stopped"  # the task was cancelled before its first step
            job.end_output()
        self._report(job)

    def _report(self, job: Job) -> None:
        self.record(job)
        self.watcher(job)

    def check_limit(self) -> None:
        """Raise `Refused` if no more background commands are allowed."""
        running = len(self.running)
        if running >= MAX_JOBS:
            raise Refused(f"{running} commands run in the background already; stop one with jobs first")

    def _add(self, command: str, scratch: Path, limit: int) -> Job:
        number = max(self._jobs, default=0) + 1
        job = Job(number, command, OutputFile(scratch / f"job-{number}.txt"), limit)
        self._jobs[number] = job
        return job

    def find(self, number: int) -> Job:
        """Return a job by number. Raise `Refused`, with the existing numbers, if there is none."""
        job = self._jobs.get(number)
        if job is None:
            numbers = ", ".join(str(other) for other in self._jobs) or "none"
            raise Refused(f"there is no job {number}; existing jobs: {numbers}")
        return job

    async def stop(self, job: Job) -> None:
        """End a job and all processes it started; return when they have ended."""
        if job.task is not None and not job.task.done():
            job.is_stopping = True
            job.task.cancel()
            await asyncio.wait([job.task])

    def end_all(self) -> None:
        """Cancel every job. The programs end only if the event loop still runs afterwards."""
        for job in self.all:
            if job.task is not None:
                job.task.cancel()


async def _follow(job: Job, begin: Callable[[], Awaitable[ProcessExit]]) -> None:
    """Wait for the program of a job; cancelling this ends the program."""
    try:
        job.exit = await begin()
    except OSError as error:
        job.problem = f"could not be started: {os.strerror(error.errno or 0)}"
    except asyncio.CancelledError:
        job.problem = "stopped"
        raise
    finally:
        job.end_output()
