"""What every tool is: a spec, a preview for the person who approves, and a run that always gives a result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from qcode.protocol.approvals import Choice
from qcode.protocol.tools import Files, Launch, Refused, ToolOutcome, ToolSpec
from qcode.text.json import JsonObject
from qcode.tools.disk import explain
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.tools.jobs import Jobs

_T = TypeVar("_T")


def _unconfined(argv: Sequence[str]) -> Launch:
    return Launch(tuple(argv))


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a run is given besides its arguments.

    `output` takes live output, called on the event loop. `environment` is what the process inherits from (None: this
    process's own); tools that run programs pass on only what is known to be harmless. Sizes are characters. `jobs` is
    the background of the session, None where nothing outlives a call; `goes_on` is set when the person wants what runs
    to go on there. `launch` says how an argv of the model starts, as confined as its verdict says; each launch is
    started once. `confinement` says in a few words what confines it. `shell_settings` adds variables for a
    certain command. `masked_names` returns the names of files that read as empty there.
    """

    output: Callable[[str], None]
    shell_timeout_s: float = 120.0
    max_output_chars: int = 30_000
    environment: Mapping[str, str] | None = None
    jobs: Jobs | None = None
    goes_on: asyncio.Event | None = None
    launch: Callable[[Sequence[str]], Launch] = _unconfined
    confinement: str = ""
    shell_settings: Callable[[str], Mapping[str, str]] | None = None
    masked_names: Callable[[], frozenset[str]] = frozenset


@dataclass(frozen=True, slots=True)
class Preview:
    """What the user approves: one line of `question`, and the whole of what would happen as `detail`.

    Both are painted as they are, so foreign text in them went through `text.clean`. `is_diff`: `detail` is a
    unified diff of files, raw: it is masked and made visible where the question is asked.

    `refusal` is not empty if running the call would only give this error and change nothing: there is nothing to
    approve then, and the call may run at once to get its result. `choices` are answers to what a tool asks.
    `is_plan`: `detail` is a plan as Markdown, and a yes ends plan mode. `how` is the part of the question that says how
    the call would run, if not as usual, such as `in the background`.
    """

    question: str
    detail: str
    refusal: str = ""
    choices: tuple[Choice, ...] = ()
    is_plan: bool = False
    is_diff: bool = False
    how: str = ""


class Tool(Protocol):
    """A tool. Instances hold no state and may run side by side."""

    @property
    def spec(self) -> ToolSpec: ...

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        """Return what the call would do, changing nothing. It may read files, so it is not for the event loop."""
        ...

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        """Perform the call. Bad arguments and failures are results with `is_error`; only cancelling raises."""
        ...


def _path(arguments: JsonObject) -> tuple[str, ...] | str:
    path = arguments.get("path")
    return (path,) if isinstance(path, str) else "the call has no path that could be judged"


READS_PATH = Files("read", lambda arguments: _path({"path": arguments.get("path") or "."}))
"""Calls that read the file or folder `path`, by default the folder of the session."""
WRITES_PATH = Files("write", _path)
"""Calls that write the file `path`."""


def failed(message: str, summary: str = "") -> ToolOutcome:
    """Return an error result; `summary` is its first line unless given."""
    return ToolOutcome(message, is_error=True, summary=summary or message.split("\n", 1)[0])


async def answered(work: Callable[[], ToolOutcome], stop: Callable[[], None] | None = None) -> ToolOutcome:
    """`off_loop`, with a refusal or a failure of the system turned into an error result."""
    try:
        return await off_loop(work, stop)
    except Refused as refused:
        return failed(str(refused))
    except OSError as error:
        return failed(explain(error, "the file"))


async def off_loop(work: Callable[[], _T], stop: Callable[[], None] | None = None) -> _T:
    """Run blocking `work` in a thread. Where this is cancelled, `stop` is called, and it ends when the work has.

    So nothing is done after a call was reported as cancelled.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, so that it is not reported as forgotten
        raise
