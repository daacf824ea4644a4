"""`qcode batch`: runs the prompts of a file, several at a time, and writes one result per line.

The same command continues a batch that was stopped: tasks that have a result are skipped. The tasks run in this
process (`tasks`) or on a Ray cluster (`cluster`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from qcode.agent.options import Options
from qcode.agent.outcomes import signal_code
from qcode.cli.arguments import CommandLineError, invalid_arguments, parse_subcommand
from qcode.cli.subcommands.batch.tasks import BatchTask, LocalRunner, read_tasks
from qcode.config import state_file
from qcode.headless.lines import encode
from qcode.headless.stderr import StderrWriter, can_erase
from qcode.protocol.errors import ExitCode, InputError
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text, duration_text

_USE = "use: qcode batch TASKS.jsonl --out RESULTS.jsonl [--jobs N] [--ray ADDRESS]"
DEFAULT_JOBS = 4
_UNFINISHED_CODES = frozenset({ExitCode.TRANSIENT, ExitCode.INTERRUPTED, ExitCode.TERMINATED})
"""The exit codes of results after which a later run repeats the task."""


def run_batch(arguments: Sequence[str]) -> int:
    """Run the tasks that have no result yet; raise `CommandLineError` or `QcodeError`.

    Return 0 if all tasks succeeded, 1 if not, 130 or 143 after a signal.
    """
    options, words, flags = parse_subcommand("batch", arguments, _USE)
    if len(words) != 1:
        raise invalid_arguments(words, _USE)
    if "out" not in flags:
        raise CommandLineError(f"--out is missing; {_USE}")
    tasks = read_tasks(Path(words[0]), Path.cwd() if options.cwd is None else Path(options.cwd).absolute())
    with results_file(flags["out"]) as (stream, finished):
        remaining = [task for task in tasks if task.id not in finished]
        options = replace(options, output_format="json")
        batch = Batch(_task_runner(options, flags.get("ray")), stream, total=len(tasks))
        batch.add_results(finished[task.id] for task in tasks if task.id in finished)
        return asyncio.run(batch.run(remaining, flags.get("jobs", DEFAULT_JOBS)))


def _task_runner(options: Options, address: str | None) -> TaskRunner:
    """Return the runner of the tasks: this process, or the Ray cluster at `address`."""
    if address is None:
        return LocalRunner(options)
    from qcode.cli.subcommands.batch.cluster import ClusterRunner

    return ClusterRunner(address, options)


@contextlib.contextmanager
def results_file(path: Path) -> Iterator[tuple[BinaryIO, dict[str, JsonObject]]]:
    """Open the file of results for appending; yield it with the results of finished tasks.

    Lines without a final result are removed: an incomplete line, and the results of tasks that this run repeats. Raise
    `InputError` if another batch writes to the file.
    """
    with contextlib.ExitStack() as files:
        try:
            stream = files.enter_context(path.open("ab"))
            _lock(stream, path)
            finished, kept_lines = _finished_tasks(path)
            if len(kept_lines) != path.stat().st_size:
                # The old file stays open and locked until the new one is locked, so no other batch starts meanwhile.
                state_file.replace(path, kept_lines, mode=path.stat().st_mode & 0o777)
                stream = files.enter_context(path.open("ab"))
                _lock(stream, path)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        yield stream, finished


def _lock(stream: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"another qcode batch writes to {path}") from None


def _finished_tasks(path: Path) -> tuple[dict[str, JsonObject], bytes]:
    """Return the results of finished tasks by id, and their lines.

    Raise `InputError` if the file contains anything but results: it may be a file of the user, and is not changed.
    """
    results: dict[str, JsonObject] = {}
    lines: list[bytes] = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            continue  # incomplete, because a run was killed
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or "id" not in row or row.get("type") != "result":
            raise InputError(f"{path}:{number} is not a result of qcode batch; name another file with --out")
        if row.get("exit_code") not in _UNFINISHED_CODES:
            results[str(row["id"])] = row
            lines.append(line)
    return results, b"".join(lines)


class TaskRunner(Protocol):
    """Runs tasks: in this process, or on a cluster."""

    async def result(self, task: BatchTask) -> JsonObject:
        """Run a task and return its line. A failure of the task is in the line and not raised."""
        ...

    async def remaining_pause(self) -> float:
        """Return the seconds until requests may be sent again after a rate limit or overload; 0 if they may be now."""
        ...


class Batch:
    """Runs tasks and appends their results to `stream`. `total` is the number of tasks, including finished ones."""

    def __init__(self, runner: TaskRunner, stream: BinaryIO, *, total: int) -> None:
        self._task_runner = runner
        self._stream = stream
        self._stderr = StderrWriter(sys.stderr.buffer, has_live_line=can_erase(sys.stderr.buffer))
        self._total = total
        self._done_count = self._failed_count = self._running_count = 0
        self._input_tokens = self._output_tokens = 0
        self._cost = Decimal(0)
        self._signal: int | None = None

    def add_results(self, results: Iterable[JsonObject]) -> None:
        """Add results to the totals."""
        for result in results:
            self._done_count += 1
            if result.get("exit_code"):
                self._failed_count += 1
            usage = cast(JsonObject, result.get("usage") or {})
            input_keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self._input_tokens += sum(cast(int, usage.get(key) or 0) for key in input_keys)
            self._output_tokens += cast(int, usage.get("output_tokens") or 0)
            self._cost += Decimal(str(result.get("total_cost_usd") or 0))

    async def run(self, tasks: Sequence[BatchTask], jobs: int) -> int:
        """Run the tasks, at most `jobs` at a time; return the exit code of the batch."""
        started_at = time.monotonic()
        if self._done_count:
            await self._stderr.write_line(f"{self._done_count} of {count_text(self._total, 'task')} already done")
        queue = deque(tasks)
        workers = [asyncio.ensure_future(self._work(queue)) for _ in range(min(jobs, len(tasks)))]
        status_task = asyncio.ensure_future(self._update_status(started_at))
        with self._end_at_signals(workers):
            results = await asyncio.gather(*workers, return_exceptions=True)
        status_task.cancel()
        await self._stderr.clear_status()
        for result in results:
            # A signal cancels the workers, which is not a failure.
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        await self._stderr.write_line(self._totals(time.monotonic() - started_at))
        if self._signal is not None:
            await self._stderr.write_line("stopped; the same command runs the rest")
            return signal_code(self._signal)
        return ExitCode.FAILED if self._failed_count else ExitCode.OK

    async def _work(self, queue: deque[BatchTask]) -> None:
        while queue:
            task = queue.popleft()
            self._running_count += 1
            try:
                result = await self._task_runner.result(task)
            finally:
                self._running_count -= 1
            self.add_results([result])
            self._stream.write(encode(result))
            self._stream.flush()

    @contextlib.contextmanager
    def _end_at_signals(self, workers: Sequence[asyncio.Future[None]]) -> Iterator[None]:
        """End the workers at a signal; tasks that are running get no result."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self._signal = number
            for worker in workers:
                worker.cancel()

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def _update_status(self, started_at: float) -> None:
        while True:
            failed = f" · {self._failed_count} failed" if self._failed_count else ""
            pause = await self._task_runner.remaining_pause()
            paused = f" · waiting for the provider, {pause:.0f} s" if pause >= 1 else ""
            counts = f"{self._done_count} of {self._total} · {self._running_count} running{failed}"
            seconds = duration_text(time.monotonic() - started_at)
            await self._stderr.show_status(f"{counts} · ${self._cost:.2f}{paused} · {seconds}")
            await asyncio.sleep(0.5)

    def _totals(self, seconds: float) -> str:
        remaining = self._total - self._done_count
        texts = (
            f"{self._done_count - self._failed_count} of {count_text(self._total, 'task')} succeeded",
            f"{self._failed_count} failed" if self._failed_count else "",
            f"{remaining} left" if remaining else "",
            f"{self._input_tokens:,} tokens in, {self._output_tokens:,} tokens out",
            f"${self._cost:.4f}" if self._cost else "",
            duration_text(seconds),
        )
        return ", ".join(filter(None, texts))
