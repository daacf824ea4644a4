"""Reads the tasks of `qcode batch` from a file, and runs each with a separate agent.

Separate from `batch`, because the workers of a cluster run tasks too. If a host refuses a request of one job because of
a rate limit or because it is overloaded, `SharedLimits` makes all jobs wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from qcode.agent.agent import Agent, Opening
from qcode.agent.context.project import resolve_added_folder
from qcode.agent.options import Options, RunContext
from qcode.agent.outcomes import exit_code
from qcode.agent.programs.turns import File, Prompt
from qcode.agent.usage import ModelSpending
from qcode.headless.lines import line_without_turn, result_line
from qcode.headless.stderr import Meter
from qcode.protocol.errors import ErrorInfo, ErrorKind, ExitCode, InputError, ProviderError, QcodeError
from qcode.protocol.messages import Text
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider, WrappedProvider, closing_stream
from qcode.protocol.reply import ReplyEvent
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

# The options that a task may set, with the types of their values.
_TASK_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "system_prompt": str,
    "append_system_prompt": str,
    "reasoning_effort": str,
    "max_turns": int,
    "max_tool_calls": int,
    "max_output_tokens": int,
    "max_budget_usd": (int, float),
    "timeout": (int, float),
}
_KEYS = ("id", "prompt", "cwd", "files", "schema", *_TASK_OPTIONS)
MIN_PAUSE_S, MAX_PAUSE_S = 2.0, 60.0
"""The limits of a pause after a refused request."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A line of the file of tasks."""

    id: str
    prompt: str
    cwd: Path
    """The folder of the task, as an absolute path."""
    files: tuple[str, ...]
    """The files to attach."""
    options: JsonObject
    """The options that override those of the command line."""


def read_tasks(path: Path, folder: Path) -> list[BatchTask]:
    """Read the tasks; raise `InputError` with the line of the first invalid task. `folder` is the default `cwd`."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"cannot read {path}: it is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    tasks: dict[str, BatchTask] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = _task(json.loads(line), number, folder)
        except (json.JSONDecodeError, RecursionError):
            raise InputError(f"{path}:{number}: not a line of JSON") from None
        except ValueError as fault:
            raise InputError(f"{path}:{number}: {fault}") from None
        if task.id in tasks:
            raise InputError(f"{path}:{number}: the id {task.id} is used twice")
        tasks[task.id] = task
    return list(tasks.values())


def _task(row: Json, number: int, folder: Path) -> BatchTask:
    """Return the task of a row; raise `ValueError` if a value is invalid. `number` is the default id."""
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    unknown = next((key for key in row if key not in _KEYS), None)
    if unknown is not None:
        from qcode.text.match import nearest_hint

        raise ValueError(f'unknown key "{unknown}"; {nearest_hint(unknown, _KEYS)}')
    name, prompt, files = row.get("id", number), row.get("prompt"), row.get("files", [])
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise ValueError('"id" must be a string or a number')
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError('"prompt" must be a string')
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise ValueError('"files" must be a list of paths')
    cwd = row.get("cwd", ".")
    if not isinstance(cwd, str):
        raise ValueError('"cwd" must be a path')
    options: JsonObject = {}
    for key, kind in _TASK_OPTIONS.items():
        if key in row:
            if isinstance(row[key], bool) or not isinstance(row[key], kind):
                raise ValueError(f'"{key}" must be {"a string" if kind is str else "a number"}')
            options[key] = row[key]
    if "schema" in row:
        options["json_schema"] = json.dumps(row["schema"])
    return BatchTask(str(name), prompt, folder / cwd, tuple(cast("list[str]", files)), options)


class SharedLimits:
    """The rate limits that several jobs share: after a refused request, all jobs wait before their next request.

    The methods are coroutines because the jobs may be on other machines (`qcode.cli.subcommands.batch.cluster`).
    """

    def __init__(self) -> None:
        self._paused_until = 0.0
        self._refusals_in_a_row = 0

    async def remaining_pause(self) -> float:
        """Return the seconds until requests may be sent again, 0 if they may be now."""
        return max(0.0, self._paused_until - time.monotonic())

    async def record_refusal(self, retry_after: float | None) -> None:
        """Begin or extend the pause: `retry_after` seconds, if the host names them, otherwise 2, 4, 8 s and so on."""
        pause = retry_after or MIN_PAUSE_S * 2**self._refusals_in_a_row
        self._refusals_in_a_row = min(self._refusals_in_a_row + 1, 5)
        self._paused_until = max(self._paused_until, time.monotonic() + min(pause, MAX_PAUSE_S))

    async def record_success(self) -> None:
        self._refusals_in_a_row = 0


class LocalRunner:
    """Runs tasks in this process. `options` are the options of the command line."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._limits = SharedLimits()

    async def result(self, task: BatchTask) -> JsonObject:
        return await task_result(task, self._options, self._limits)

    async def remaining_pause(self) -> float:
        return await self._limits.remaining_pause()


async def task_result(task: BatchTask, options: Options, limits: SharedLimits) -> JsonObject:
    """Run a task and return its line for the file of results, also for a failure."""
    common: JsonObject = {"id": task.id, "cwd": str(task.cwd)}
    try:
        options = replace(options, cwd=resolve_added_folder(task.cwd), **cast("dict[str, Any]", task.options))
        async with Opening(partial(_open, options, limits)) as agent:
            return {**common, "model": agent.conversation.model, **await _answer(agent, task)}
    except QcodeError as failure:
        return {**common, "exit_code": int(failure.exit_code), **line_without_turn(failure.info, session_id="")}
    except Exception as fault:  # noqa: BLE001 - a fault of one task must not end the others
        error = ErrorInfo(ErrorKind.INTERNAL, f"internal error: {type(fault).__name__}: {fault}")
        return {**common, "exit_code": int(ExitCode.FAILED), **line_without_turn(error, session_id="")}


def _open(options: Options, limits: SharedLimits) -> Agent:
    context = RunContext.read(options, dict(os.environ))
    return Agent.begin(context, wrap=lambda provider: _SharingProvider(provider, limits))


async def _answer(agent: Agent, task: BatchTask) -> JsonObject:
    """Run the prompt of a task and return the fields of its result."""
    prompt: Prompt = [Text(task.prompt), *map(File, task.files)]
    meter = Meter(time.monotonic)
    spending = ModelSpending(agent.conversation.model, lambda: agent.conversation.client.known_model().output_limit)
    async with agent.stream(prompt, append_only=False) as turn:
        async for event in turn:
            spending.observe(event)
            meter.update_from(event)
    line = result_line(
        turn.ended,
        agent.conversation.session_id,
        agent.context.schema,
        duration_ms=meter.duration_ms,
        api_ms=meter.api_ms,
        metrics=agent.conversation.metrics.as_json(),
        models=spending.as_json(),
    )
    return {"exit_code": int(exit_code(turn.ended)), **line}


class _SharingProvider(WrappedProvider):
    """A provider that obeys limits shared with other jobs."""

    def __init__(self, provider: Provider, limits: SharedLimits) -> None:
        super().__init__(provider)
        self._limits = limits

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        while (pause_s := await self._limits.remaining_pause()) > 0:  # noqa: ASYNC110  # another job may extend the pause
            await asyncio.sleep(pause_s)
        is_first = True
        try:
            async with closing_stream(self.inner.stream(request)) as stream:
                async for event in stream:
                    if is_first:
                        is_first = False
                        await self._limits.record_success()
                    yield event
        except ProviderError as error:
            if error.kind in (ErrorKind.RATE_LIMIT, ErrorKind.OVERLOADED) and error.may_retry:
                await self._limits.record_refusal(error.retry_after)
            raise
