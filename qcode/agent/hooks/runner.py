"""Runs the handlers of an event concurrently, merges their answers, and counts the runs for `/hooks`.

Each handler has a time limit, and cancelling ends all handlers. A command gets its input on stdin only, never in its
command line.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.hooks.events import (
    MAX_END_TIMEOUT_S,
    Handler,
    HookCommand,
    HookFunction,
    HookInput,
)
from qcode.protocol.events import HookEnded, HookStarted
from qcode.text.clean import visible_line
from qcode.tools.processes import command_environment
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.hooks.answers import HookAnswer

MAX_CONCURRENT = 8
"""The maximum number of handlers that run at the same time."""
SLOW_S = 2.0
"""The time after which a running handler is shown to the user."""
_MAX_SHOWN_CHARS = 200


@dataclass(slots=True)
class HandlerStats:
    """The runs of a handler in this session."""

    runs: int = 0
    failures: int = 0
    last_at: datetime | None = None
    """The end of the last run."""
    last_seconds: float = 0.0
    """The duration of the last run."""
    last_code: int | None = None
    """The exit code of the last run; None for a function, and for a command that did not start or end in time."""
    last_failure: str = ""


@dataclass(frozen=True, slots=True)
class _Match:
    """A handler, by its index, and an input that it runs with."""

    index: int
    hook_input: HookInput


@dataclass(frozen=True, slots=True)
class _HandlerResult:
    """The answer of one handler to one input, with its exit code and duration."""

    answer: HookAnswer
    code: int | None = None
    """None for a function, and for a command that did not start or end in time."""
    seconds: float = 0.0


Emit = Callable[[HookStarted | HookEnded], Awaitable[None]]
"""Shows the user that a slow hook started, or that a hook ended."""


class HookRunner:
    """The handlers of a session, in order: those of the user, of the program, and of the project.

    `folder` is the working folder of commands, `root` the project. `environment` is the environment of qcode. A
    command gets it without secrets. A hook of the user may name variables that its command gets nevertheless.
    """

    def __init__(
        self, handlers: Sequence[Handler], *, folder: Path, root: Path, environment: Mapping[str, str]
    ) -> None:
        self.handlers = tuple(handlers)
        self._folder = folder
        self._root = root
        self._environment = environment
        self._semaphore: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.stats = [HandlerStats() for _ in self.handlers]

    def has(self, event: str) -> bool:
        """Return whether there is a handler for this event, with any matcher."""
        return any(handler.event == event for handler in self.handlers)

    async def run(
        self, event: str, inputs: Sequence[HookInput], emit: Emit, whole_patch: HookInput | None = None
    ) -> HookAnswer:
        """Run the handlers that match one of `inputs`, each once per input, and return their merged answer.

        A patch has one input for each of its files, and `whole_patch` for the whole call. A handler whose matcher lists
        the patch tool runs once with `whole_patch`; the other handlers run with the files.
        """
        from qcode.agent.hooks.answers import effective_answer, failed, merge_answers  # load with the first event
        from qcode.agent.hooks.matcher import MatcherError

        matched: list[_Match] = []
        answers: dict[int, list[HookAnswer]] = {}  # by the index of the handler
        scheduled: set[tuple[object, int]] = set()  # a hook that is configured twice runs once
        for index, handler in enumerate(self.handlers):
            if handler.event != event:
                continue
            try:
                matching = self._inputs_for(handler, inputs, whole_patch)
                if handler.condition:
                    matching = await asyncio.to_thread(_covered_inputs, handler.condition, matching)
            except MatcherError as error:
                answers.setdefault(index, []).append(effective_answer(handler, failed(str(error))))
                self._record_run(index, _HandlerResult(failed(str(error))))
                continue
            for hook_input in matching:
                key = (handler.run, id(hook_input))
                if key not in scheduled:
                    scheduled.add(key)
                    matched.append(_Match(index, hook_input))
        if matched:
            results = await self._run_concurrently(matched, emit)
            for match, answer in zip(matched, results, strict=True):
                answers.setdefault(match.index, []).append(answer)
        return merge_answers([answer for index in sorted(answers) for answer in answers[index]])

    def _inputs_for(
        self, handler: Handler, inputs: Sequence[HookInput], whole_patch: HookInput | None
    ) -> list[HookInput]:
        from qcode.agent.hooks.matcher import exact_names, matches

        listed_names = exact_names(handler.matcher) or frozenset()
        if whole_patch is not None and not listed_names.isdisjoint(whole_patch.names):
            return [whole_patch]
        return [hook_input for hook_input in inputs if matches(handler.matcher, hook_input.names)]

    async def _run_concurrently(self, matched: Sequence[_Match], emit: Emit) -> list[HookAnswer]:
        tasks = [asyncio.ensure_future(self._run_one(match.index, match.hook_input, emit)) for match in matched]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_one(self, index: int, hook_input: HookInput, emit: Emit) -> HookAnswer:
        """Run the handler at `index` for one input, record the run, and return the effective answer."""
        from qcode.agent.hooks.answers import effective_answer, failed

        handler = self.handlers[index]
        command = shown_command(handler)
        queued_at = time.monotonic()
        async with self._semaphore_of_loop():
            started_at = time.monotonic()
            slow_report = asyncio.ensure_future(_report_slow(HookStarted(handler.event, command), emit))
            try:
                limit_s = _time_limit(handler)
                if handler.event == "SessionEnd":  # all handlers share the time, also those that waited for others
                    limit_s = round(limit_s - (started_at - queued_at), 1)
                if limit_s > 0:
                    result = await self._run_handler(handler, hook_input, limit_s)
                else:
                    result = _HandlerResult(failed("it did not start, because other hooks used up the time"))
            finally:
                slow_report.cancel()
        result = replace(result, seconds=time.monotonic() - started_at)
        if hook_input.is_patch_part and result.answer.input is not None:
            result = replace(result, answer=failed("updatedInput is not possible for one file of a patch"))
        self._record_run(index, result)
        answer = effective_answer(handler, result.answer)
        await emit(_hook_ended(handler, command, hook_input, result, answer))
        return answer

    def _semaphore_of_loop(self) -> asyncio.Semaphore:
        """Return the semaphore of the running event loop: at the end, hooks may run in another loop than before."""
        loop = asyncio.get_running_loop()
        if self._semaphore is None or self._loop is not loop:
            self._semaphore, self._loop = asyncio.Semaphore(MAX_CONCURRENT), loop
        return self._semaphore

    async def _run_handler(self, handler: Handler, hook_input: HookInput, timeout_s: float) -> _HandlerResult:
        if not isinstance(handler.run, HookCommand):
            return _HandlerResult(await _call_function(handler.event, handler.run, hook_input, timeout_s))
        if handler.refusal:
            from qcode.agent.hooks.answers import failed

            return _HandlerResult(failed(handler.refusal))
        from qcode.agent.hooks.process import run_command

        stdin_data = json.dumps(hook_input.fields, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        run = await run_command(
            handler.run,
            handler.event,
            stdin_data,
            folder=self._folder,
            environment=self._variables(handler, handler.run),
            timeout_s=timeout_s,
        )
        return _HandlerResult(run.answer, run.code)

    def _variables(self, handler: Handler, command: HookCommand) -> dict[str, str]:
        """Return the environment of a command: without keys, except for the variables that a hook of the user names."""
        variables = command.variables if handler.origin == "own" else ()
        return {
            **command_environment(self._environment),
            **{name: self._environment[name] for name in variables if name in self._environment},
            "CLAUDE_PROJECT_DIR": str(self._root),
            "QCODE_PROJECT_DIR": str(self._root),
            "QCODE": "1",
            # Scripts for Claude Code write shell variables to this file and fail without it. qcode drops the variables.
            **({"CLAUDE_ENV_FILE": os.devnull} if handler.event == "SessionStart" else {}),
        }

    def _record_run(self, index: int, result: _HandlerResult) -> None:
        stats = self.stats[index]
        stats.runs += 1
        stats.last_at, stats.last_seconds, stats.last_code = datetime.now(UTC), result.seconds, result.code
        if result.answer.failure:
            stats.failures += 1
            stats.last_failure = result.answer.failure


def _time_limit(handler: Handler) -> float:
    """Return the time limit of a handler in seconds. SessionEnd has a maximum, because qcode waits for it to exit."""
    return min(handler.timeout_s, MAX_END_TIMEOUT_S) if handler.event == "SessionEnd" else handler.timeout_s


def _covered_inputs(condition: tuple[str, ...], inputs: Sequence[HookInput]) -> list[HookInput]:
    """Return the inputs whose call is covered by a rule of `condition`, and those of events without a call."""
    return [hook_input for hook_input in inputs if hook_input.is_covered is None or hook_input.is_covered(condition)]


def shown_command(handler: Handler) -> str:
    """Return the command line of a handler, or the name of its function, for display on one line."""
    return visible_line(handler.label, _MAX_SHOWN_CHARS)


async def _report_slow(event: HookStarted, emit: Emit) -> None:
    await asyncio.sleep(SLOW_S)
    await emit(event)


def _hook_ended(
    handler: Handler, command: str, hook_input: HookInput, result: _HandlerResult, answer: HookAnswer
) -> HookEnded:
    """Return the event about a run. `answer` is the effective answer, without the failure of `result.answer`."""
    return HookEnded(
        handler.event,
        command,
        tool_use_id=hook_input.tool_use_id or "",
        exit_code=result.code,
        seconds=result.seconds,
        decision="stop" if answer.stops_turn else answer.decision or "none",
        failure=result.answer.failure,
    )


async def _call_function(event: str, function: HookFunction, hook_input: HookInput, timeout_s: float) -> HookAnswer:
    """Call the function of a program; an exception is a failure of the hook."""
    from qcode.agent.hooks.answers import answer_from_function, failed
    from qcode.agent.programs.faults import describe_fault, is_fault

    try:
        async with asyncio.timeout(timeout_s):
            # The function gets a copy, so that it cannot change the input of other handlers.
            value: object = function(json.loads(json.dumps(hook_input.fields)), hook_input.tool_use_id)
            if not inspect.isawaitable(value):
                return failed("the function is not async")
            return answer_from_function(event, await value)
    except TimeoutError:
        return failed(f"it took longer than {timeout_s:g} s")
    except BaseException as error:  # code of another program: only this hook fails
        if not is_fault(error):
            raise
        return failed(describe_fault(error))
