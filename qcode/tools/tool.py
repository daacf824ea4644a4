"""The interface of a tool: a spec, a preview for approval, and a run that always returns a result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from qcode.protocol.approvals import Choice, Draft
from qcode.protocol.messages import Message, ToolCall
from qcode.protocol.tools import (
    ChangedFile,
    CommandExecution,
    FileAccess,
    Launch,
    Refused,
    SandboxUse,
    ToolOutcome,
    ToolSpec,
)
from qcode.text.json import JsonObject, parse_object
from qcode.text.pattern import lazy_pattern
from qcode.tools.disk import explain
from qcode.tools.workspace import Workspace
from qcode.values import ValueT, dataclass

if TYPE_CHECKING:
    from qcode.tools.jobs import Jobs

_SUFFIX = lazy_pattern(r"\.\w{1,10}")


@dataclass(frozen=True, slots=True)
class CallToRun:
    """The tool and the arguments with which a call runs; they may differ from those that the model sent."""

    name: str
    arguments: JsonObject


def _unconfined(argv: Sequence[str]) -> Launch:
    """Return a program to start without a sandbox."""
    return Launch(tuple(argv))


@dataclass(frozen=True, slots=True)
class ToolRunContext:
    """The context in which a tool runs: limits, and access to the session and the front end."""

    output: Callable[[str], None]
    """Receives live output. It is called on the event loop."""
    shell_timeout_s: float = 120.0
    max_output_chars: int = 30_000
    environment: Mapping[str, str] | None = None
    """The environment variables; None for those of this process. Tools pass only harmless ones to programs."""
    columns: int | None = None
    """The width in cells at which the user sees the output of a command, None if it is unknown."""
    jobs: Jobs | None = None
    """The background commands of the session, None if no command may outlive a call."""
    background_requested: asyncio.Event | None = None
    """Set when the user moves the command to the background."""
    launch: Callable[[Sequence[str]], Launch] = _unconfined
    """Returns a program to start once, by its argv, in the sandbox that the verdict on the call requires."""
    confinement: str = ""
    """The sandbox in a few words, empty without one."""
    shell_variables: Callable[[str], Mapping[str, str]] | None = None
    """Returns the environment variables to add for a shell command."""
    sandbox: Callable[[], SandboxUse] = lambda: ""
    """Returns the kind of sandbox in which commands run. The first call may run a few short processes."""
    masked_names: Callable[[], frozenset[str]] = frozenset
    """Returns the names of files that appear empty in the sandbox."""
    transcript: Callable[[], Sequence[Message]] = tuple
    """Returns the conversation so far."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The content of an approval, safe to show: text from outside qcode has passed through `text.clean`.

    The exception is a diff; see `is_diff`.
    """

    question: str
    """The question on one line."""
    detail: str
    """The complete effect of the call."""
    refusal: str = ""
    """The error of an invalid call, otherwise empty. Such a call changes nothing, so it may run without approval."""
    choices: tuple[Choice, ...] = ()
    """The possible answers to a question."""
    is_multi_select: bool = False
    """Several of the choices may be the answer."""
    is_plan: bool = False
    """`detail` is a plan as Markdown, whose approval ends plan mode."""
    is_diff: bool = False
    """`detail` is a unified diff of the original texts. The caller must mask secrets in it and clean it."""
    options: str = ""
    """The part of the question about unusual options of the call, such as `in the background`."""
    changes: tuple[ChangedFile, ...] = ()
    """The files that the call changes, with their texts before and after; empty if the front end does not want them."""


class Tool(Protocol):
    """A tool. Instances have no state and may run concurrently."""

    @property
    def spec(self) -> ToolSpec: ...

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        """Return the effect of the call without changing anything. Blocks: it may read files."""
        ...

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        """Run the call. Invalid arguments and failures are results with `is_error`; only cancelling raises."""
        ...


def _path(arguments: JsonObject) -> tuple[str, ...] | str:
    """Return the path in the arguments, or the error if there is none."""
    path = arguments.get("path")
    return (path,) if isinstance(path, str) else "the call has no path"


READS_PATH = FileAccess("read", lambda arguments: _path({"path": arguments.get("path") or "."}))
"""Calls that read the file or folder `path`, by default the folder of the session."""
WRITES_PATH = FileAccess("write", _path)
"""Calls that write the file `path`."""


def failed(message: str, summary: str = "") -> ToolOutcome:
    """Return an error result; by default `summary` is the first line of `message`."""
    return ToolOutcome(message, is_error=True, summary=summary or message.split("\n", 1)[0])


async def run_blocking_tool(work: Callable[[], ToolOutcome], stop: Callable[[], None] | None = None) -> ToolOutcome:
    """Run `work` with `run_blocking`; convert `Refused` and `OSError` to an error result."""
    try:
        return await run_blocking(work, stop)
    except Refused as refused:
        return failed(str(refused))
    except OSError as error:
        return failed(explain(error, "the file"))


async def run_blocking(work: Callable[[], ValueT], stop: Callable[[], None] | None = None) -> ValueT:
    """Run blocking `work` in a thread. If cancelled, call `stop` and wait for the work to end.

    When a cancelled call ends, its work has ended too.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # marks it as retrieved, so that asyncio does not log it
        raise


def draft_of(spec: ToolSpec, arguments: JsonObject) -> Draft:
    """Return the part of a call that the user may edit: the text of one argument, or all arguments as JSON."""
    text = arguments.get(spec.draft_argument) if spec.draft_argument else None
    if not isinstance(text, str):
        return Draft(json.dumps(arguments, indent=2, ensure_ascii=False), "arguments.json")
    if isinstance(spec.safety, CommandExecution):
        return Draft(text, f"{spec.draft_argument}.sh")
    path = arguments.get("path")
    suffix = PurePath(path).suffix if isinstance(path, str) else ""
    return Draft(text, spec.draft_argument + (suffix if _SUFFIX.fullmatch(suffix) else ".txt"))


def revised_arguments(spec: ToolSpec, arguments: JsonObject, text: str) -> JsonObject:
    """Return the arguments with their draft replaced by `text`; raise `ValueError` with one line if it is invalid."""
    if not text.strip():
        raise ValueError("the text is empty")
    if spec.draft_argument and isinstance(arguments.get(spec.draft_argument), str):
        return {**arguments, spec.draft_argument: text}
    return _json_object(text)


def changes_input(call: ToolCall, arguments: JsonObject | None) -> bool:
    """Return whether `arguments` differ from those of the call; None stands for the arguments of the call."""
    return arguments is not None and arguments != parse_object(call.arguments)


def json_copy(arguments: JsonObject) -> JsonObject:
    """Return a copy of arguments that a program made; raise `ValueError` with one line if they are not JSON."""
    try:
        text = json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):
        text = ""
    return _json_object(text)


def _json_object(text: str) -> JsonObject:
    arguments = parse_object(text)
    if arguments is None:
        raise ValueError("it is not a JSON object")
    return arguments
