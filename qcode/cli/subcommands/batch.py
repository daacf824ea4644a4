"""`qcode batch`: runs the prompts of a file, several at a time, and writes one result a line.

A batch that was stopped is continued by the same command: tasks that have
a result are skipped. `SharedLimits` makes all jobs wait where a host refuses one of them for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from qcode.agent.agent import Agent, Opening
from qcode.agent.options import Options, RunContext
from qcode.agent.outcomes import exit_code, signal_code
from qcode.agent.programs.turns import File, Prompt
from qcode.agent.reports import ModelSpending
from qcode.cli.arguments import CommandLineError, invalid_arguments, parse_subcommand
from qcode.config import state_file
from qcode.headless.lines import encode, line_without_turn, result_line
from qcode.headless.stderr import StderrWriter
from qcode.protocol.errors import ErrorInfo, ErrorKind, ExitCode, InputError, ProviderError, QcodeError
from qcode.protocol.messages import Text
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEvent
from qcode.text.json import Json, JsonObject
from qcode.text.numbers import count_text, duration_text
from qcode.values import dataclass

_USE = "use: qcode batch TASKS.jsonl --out RESULTS.jsonl [--jobs N]"
DEFAULT_JOBS = 4
_TASK_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "system_prompt": str,
    "append_system_prompt": str,
    "reasoning_effort": str,
    "max_turns": int,
    "max_tool_calls": int,
    "max_output_tokens": int,
    "max_budget_usd": (int, float),
}
_KEYS = ("id", "prompt", "cwd", "files", "schema", *_TASK_OPTIONS)
_AGAIN = frozenset({ExitCode.TRANSIENT, ExitCode.INTERRUPTED, ExitCode.TERMINATED})
"""The exit codes of results that do not finish a task."""
MIN_PAUSE_S, MAX_PAUSE_S = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class Task:
    """A line of the file of tasks. `options` replace those of the command line; `cwd` is absolute."""

    id: str
    prompt: str
    cwd: Path
    files: tuple[str, ...]
    options: JsonObject


def run_batch(rest: Sequence[str]) -> int:
    """Run the tasks that have no result yet; return 0 if all tasks succeeded, 1 if not, 130 or 143 after a signal."""
    options, words, given = parse_subcommand("batch", rest, _USE)
    if len(words) != 1:
        raise invalid_arguments(words, _USE)
    if "out" not in given:
        raise CommandLineError(f"--out is missing; {_USE}")
    tasks = read_tasks(Path(words[0]), Path.cwd() if options.cwd is None else Path(options.cwd).absolute())
    with results_file(given["out"]) as (stream, finished):
        left = [task for task in tasks if task.id not in finished]
        batch = Batch(replace(options, output_format="json"), stream, total=len(tasks))
        batch.count(finished[task.id] for task in tasks if task.id in finished)
        return asyncio.run(batch.run(left, given.get("jobs", DEFAULT_JOBS)))


def read_tasks(path: Path, folder: Path) -> list[Task]:
    """Read the tasks; raise `InputError` with the line of the first one that cannot be used."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}") from None
    found: dict[str, Task] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = _task(json.loads(line), number, folder)
        except ValueError as fault:
            what = "not a line of JSON" if isinstance(fault, json.JSONDecodeError) else str(fault)
            raise InputError(f"{path}:{number}: {what}") from None
        if task.id in found:
            raise InputError(f"{path}:{number}: the id {task.id} is used twice")
        found[task.id] = task
    return list(found.values())


def _task(row: Json, number: int, folder: Path) -> Task:
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    unknown = next((key for key in row if key not in _KEYS), None)
    if unknown is not None:
        from qcode.text.match import most_alike

        raise ValueError(f'unknown key "{unknown}"; the nearest is {most_alike(unknown, _KEYS)}')
    name, prompt, files = row.get("id", number), row.get("prompt"), row.get("files", [])
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise ValueError('"id" must be a text or a number')
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError('"prompt" must be a text')
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise ValueError('"files" must be a list of paths')
    cwd = row.get("cwd", ".")
    if not isinstance(cwd, str):
        raise ValueError('"cwd" must be a path')
    options: JsonObject = {}
    for key, kind in _TASK_OPTIONS.items():
        if key in row:
            if isinstance(row[key], bool) or not isinstance(row[key], kind):
                raise ValueError(f'"{key}" must be {"a text" if kind is str else "a number"}')
            options[key] = row[key]
    if "schema" in row:
        options["json_schema"] = json.dumps(row["schema"])
    return Task(str(name), prompt, folder / cwd, tuple(cast("list[str]", files)), options)


@contextlib.contextmanager
def results_file(path: Path) -> Iterator[tuple[BinaryIO, dict[str, JsonObject]]]:
    """Open the file of results for appending; yield it with the results of finished tasks.

    Lines that finish no task are removed: a torn one, and results that another run may change. Raise `InputError` if
    another batch writes to the file.
    """
    try:
        kept = _finished(path)
        stream = path.open("ab")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another qcode batch writes to {path}") from None
        yield stream, kept


def _finished(path: Path) -> dict[str, JsonObject]:
    """Return the results of finished tasks, and remove all other lines from the file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    found: dict[str, JsonObject] = {}
    kept = []
    for line in data.splitlines(keepends=True):
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            row = None
        if isinstance(row, dict) and "id" in row and row.get("exit_code") not in _AGAIN:
            found[str(row["id"])] = row
            kept.append(line)
    if b"".join(kept) != data:
        state_file.replace(path, b"".join(kept), mode=path.stat().st_mode & 0o777)
    return found


class Batch:
    """Runs tasks and appends their results to `stream`. `total` is the number of all tasks, the finished ones too."""

    def __init__(self, options: Options, stream: BinaryIO, *, total: int) -> None:
        self._options = options
        self._stream = stream
        self._stderr = StderrWriter(sys.stderr.buffer, is_terminal=sys.stderr.isatty())
        self._limits = SharedLimits()
        self._total = total
        self._done = self._failed = self._running = 0
        self._input = self._output = 0
        self._cost = Decimal(0)
        self._signal: int | None = None

    def count(self, results: Iterator[JsonObject] | Sequence[JsonObject]) -> None:
        """Add results to the totals."""
        for result in results:
            self._done += 1
            self._failed += bool(result.get("exit_code"))
            usage = cast(JsonObject, result.get("usage") or {})
            cached = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self._input += sum(cast(int, usage.get(name) or 0) for name in cached)
            self._output += cast(int, usage.get("output_tokens") or 0)
            self._cost += Decimal(str(result.get("total_cost_usd") or 0))

    async def run(self, tasks: Sequence[Task], jobs: int) -> int:
        began, skipped = time.monotonic(), self._done
        if skipped:
            await self._stderr.write_line(f"{skipped} of {count_text(self._total, 'task')} have a result already")
        waiting = deque(tasks)
        workers = [asyncio.ensure_future(self._work(waiting)) for _ in range(min(jobs, len(tasks)))]
        ticking = asyncio.ensure_future(self._tick(began))
        with self._watching(workers):
            failures = [one for one in await asyncio.gather(*workers, return_exceptions=True) if _is_fault(one)]
        ticking.cancel()
        await self._stderr.clear_status()
        if failures:
            raise failures[0]  # type: ignore[misc]  # `_is_fault`
        await self._stderr.write_line(self._totals(time.monotonic() - began))
        if self._signal is not None:
            await self._stderr.write_line("stopped; the same command runs the rest")
            return signal_code(self._signal)
        return ExitCode.FAILED if self._failed else ExitCode.OK

    async def _work(self, waiting: deque[Task]) -> None:
        while waiting:
            task = waiting.popleft()
            self._running += 1
            try:
                result = await self._result(task)
            finally:
                self._running -= 1
            self.count([result])
            self._stream.write(encode(result))
            self._stream.flush()

    async def _result(self, task: Task) -> JsonObject:
        """Run a task and return its line."""
        about: JsonObject = {"id": task.id, "cwd": str(task.cwd)}
        try:
            if not task.cwd.is_dir():
                raise InputError(f"{task.cwd} is not a folder")
            options = replace(self._options, cwd=task.cwd, **cast("dict[str, Any]", task.options))
            async with Opening(partial(self._open, options)) as agent:
                return {**about, "model": agent.conversation.model, **await self._answer(agent, task)}
        except QcodeError as failure:
            return {**about, "exit_code": int(failure.exit_code), **line_without_turn(failure.info, "")}
        except Exception as fault:  # noqa: BLE001 - a fault of one task must not end the others
            error = ErrorInfo(ErrorKind.INTERNAL, f"internal error: {type(fault).__name__}: {fault}")
            return {**about, "exit_code": int(ExitCode.FAILED), **line_without_turn(error, "")}

    def _open(self, options: Options) -> Agent:
        return Agent.begin(RunContext.read(options, dict(os.environ)), wrap=self._limits.shared)

    async def _answer(self, agent: Agent, task: Task) -> JsonObject:
        prompt: Prompt = [Text(task.prompt), *map(File, task.files)]
        began = time.monotonic()
        spending = ModelSpending(agent.conversation.model, lambda: agent.conversation.client.known().output_limit)
        async with agent.stream(prompt, append_only=False) as turn:
            async for event in turn:
                spending.handle(event)
        line = result_line(
            turn.ended,
            agent.conversation.session_id,
            agent.context.schema,
            duration_ms=round((time.monotonic() - began) * 1000),
            metrics=agent.conversation.metrics.as_json(),
            models=spending.as_json(),
        )
        return {"exit_code": int(exit_code(turn.ended)), **line}

    @contextlib.contextmanager
    def _watching(self, workers: Sequence[asyncio.Future[None]]) -> Iterator[None]:
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

    async def _tick(self, began: float) -> None:
        while True:
            failed = f" · {self._failed} failed" if self._failed else ""
            paused = f" · waiting for a limit, {self._limits.left_s:.0f} s" if self._limits.left_s >= 1 else ""
            text = f"{self._done} of {self._total} · {self._running} running{failed} · ${self._cost:.2f}{paused}"
            await self._stderr.show_status(f"{text} · {duration_text(time.monotonic() - began)}")
            await asyncio.sleep(0.5)

    def _totals(self, seconds: float) -> str:
        left = self._total - self._done
        parts = (
            f"{self._done - self._failed} of {count_text(self._total, 'task')} succeeded",
            f"{self._failed} failed" if self._failed else "",
            f"{left} left" if left else "",
            f"{self._input:,} tokens in, {self._output:,} tokens out",
            f"${self._cost:.4f}" if self._cost else "",
            duration_text(seconds),
        )
        return ", ".join(filter(None, parts))


def _is_fault(ended: object) -> bool:
    return isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError)


class SharedLimits:
    """The rate limits that several agents share: once one is refused, all wait before their next request."""

    def __init__(self) -> None:
        self._ends = 0.0
        self._in_a_row = 0

    @property
    def left_s(self) -> float:
        """The seconds until requests may be sent again."""
        return max(0.0, self._ends - time.monotonic())

    def shared(self, provider: Provider) -> Provider:
        """Return the provider as one that keeps to the limits."""
        return _SharingProvider(provider, self)

    async def wait(self) -> None:
        while (left := self.left_s) > 0:  # noqa: ASYNC110  # the time may be extended meanwhile
            await asyncio.sleep(left)

    def refused(self, error: ProviderError) -> None:
        """Begin or extend the pause, by the time that the host names, or by a longer one each time."""
        if error.kind not in (ErrorKind.RATE_LIMIT, ErrorKind.OVERLOADED) or not error.may_retry:
            return
        pause = error.retry_after or MIN_PAUSE_S * 2**self._in_a_row
        self._in_a_row = min(self._in_a_row + 1, 5)
        self._ends = max(self._ends, time.monotonic() + min(pause, MAX_PAUSE_S))

    def answered(self) -> None:
        self._in_a_row = 0


class _SharingProvider:
    def __init__(self, provider: Provider, limits: SharedLimits) -> None:
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._limits = limits

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        await self._limits.wait()
        try:
            async for event in self._provider.stream(request):
                self._limits.answered()
                yield event
        except ProviderError as error:
            self._limits.refused(error)
            raise

    async def model_names(self) -> tuple[str, ...]:
        return await self._provider.model_names()

    def warm_up(self) -> None:
        self._provider.warm_up()

    async def close(self) -> None:
        await self._provider.close()
