"""Runs the lines that the user types after `!`. Each line has a card, and its output is added to the next prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from qcode.agent.context.attachments import shell_block
from qcode.agent.sessions.shown import JOB_ENDED_WITH_QCODE
from qcode.protocol.tools import ToolOutcome
from qcode.text.clean import one_line, title_line
from qcode.text.pattern import lazy_pattern
from qcode.tools.output import OMISSION
from qcode.tools.shell import IN_BACKGROUND, without_note_on_move
from qcode.tui.status import Activity
from qcode.tui.transcript.cards import CardState, CardUpdate, TranscriptView
from qcode.tui.transcript.line import shorten
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent

_MAX_PARTIAL_CHARS = 16_000
"""If the user stops a line, the model gets at most this many characters at the end of its output."""
_EXIT_NOTE = lazy_pattern(r"\n?\[(?:exit code|ended by signal) \d+\](?=(?:\n\[[^\n]*\])*\Z)")
"""The note that tells the model how a command ended. Other notes may follow."""
_MAX_SHOWN_CELLS = 24
"""The maximum width of a line in the status line."""
_STOPPED = "stopped by the user"
INTERRUPT_HINT = "Esc to interrupt"


def line_state(result: str) -> CardState:
    """Return the state of a line's card, from the `result` in its block."""
    if result in (_STOPPED, JOB_ENDED_WITH_QCODE):
        return "stopped"
    return "done" if result in ("", "exit 0") or result.startswith(IN_BACKGROUND) else "failed"


def shown_output(output: str) -> str:
    """Return a line's output without the notes that the card shows as its state: the exit code, the move to a job."""
    return without_note_on_move(_EXIT_NOTE.sub("", output).rstrip("\n"))


def _card_output(outcome: ToolOutcome) -> str:
    """Return the output for the card: the model's output, but with the user's note about omitted lines."""
    output = shown_output(outcome.content)
    omission_for_user = OMISSION.search(outcome.shown or "")
    if omission_for_user is None:
        return output
    return OMISSION.sub(lambda _: omission_for_user[0], output, count=1)


@dataclass(slots=True)
class _RunningLine:
    """A shell line that runs, with its card."""

    card_id: str
    line: str
    output_end: str = ""
    """The end of the output so far, at most `_MAX_PARTIAL_CHARS`."""


class ShellLines:
    """Runs shell lines independently of turns; several may run at once.

    `spawn` starts a coroutine as a worker, and reports an error that it raises. `show_activity` gets the activity of
    the line that Esc would stop, None if no line runs. `on_end` is called after the end of a line, when its output is
    attached; `is_stopped` is True if the user stopped the line, or an internal error ended it.
    """

    def __init__(
        self,
        agent: Agent,
        transcript: TranscriptView,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        show_activity: Callable[[Activity | None], None] = lambda activity: None,
        on_end: Callable[[bool], None] = lambda is_stopped: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent = agent
        self._transcript = transcript
        self._spawn = spawn
        self._show_activity = show_activity
        self._on_end = on_end
        self._clock = clock
        self.hint = INTERRUPT_HINT
        """The keys for a running line, shown on its card."""
        self.on_result: Callable[[str, str], None] = lambda card_id, summary: None
        """Called with the id of the card and the summary of each line that ended without being stopped."""
        self._activities: dict[asyncio.Task[ToolOutcome], Activity] = {}
        self._count = 0

    @property
    def is_running(self) -> bool:
        return bool(self._activities)

    def start(self, line: str) -> None:
        """Run a line; its card shows the result."""
        self._count += 1
        running = _RunningLine(f"!{self._count}", line)
        self._transcript.add_card(running.card_id, "!", title_line(line))
        self._transcript.update_card(running.card_id, CardUpdate(state="running", hint=self.hint))
        task = asyncio.ensure_future(self._run(running))
        self._activities[task] = Activity(f"running {shorten(title_line(line), _MAX_SHOWN_CELLS)}", self._clock())
        self._show_latest()
        self._spawn(self._follow(running, task))

    async def _run(self, running: _RunningLine) -> ToolOutcome:
        """Run a line until it ends, or until the user moves it to the background as a call of the shell tool."""

        def show_output(text: str) -> None:
            running.output_end = (running.output_end + text)[-_MAX_PARTIAL_CHARS:]
            self._transcript.update_card(running.card_id, CardUpdate(append=text))

        with self._agent.conversation.background.track_call(running.card_id, "shell") as background_requested:
            return await self._agent.toolbox.run_user_command(running.line, show_output, background_requested)

    def stop(self) -> bool:
        """Stop the latest running line; return whether there was one."""
        task = self._latest
        return task is not None and task.cancel()

    @property
    def _latest(self) -> asyncio.Task[ToolOutcome] | None:
        """The latest line that runs and was not stopped."""
        return next((task for task in reversed(self._activities) if not task.cancelling()), None)

    def _show_latest(self) -> None:
        latest = self._latest
        self._show_activity(self._activities[latest] if latest is not None else None)

    async def close(self) -> None:
        """Stop all lines and wait until none runs."""
        for task in self._activities:
            task.cancel()
        if self._activities:
            await asyncio.wait(self._activities)

    async def _follow(self, running: _RunningLine, task: asyncio.Task[ToolOutcome]) -> None:
        """Wait for a line to end, then show and attach its output. If this coroutine is cancelled, stop the line.

        Raise the error of a line that an internal error ended; its card then shows that it failed.
        """
        try:
            await asyncio.wait({task})
        finally:
            del self._activities[task]
            task.cancel()
            self._show_latest()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._transcript.update_card(running.card_id, CardUpdate(state="failed", summary="internal error"))
            self._on_end(True)
            raise error
        if task.cancelled():
            outcome = ToolOutcome(running.output_end or "[no output]", is_error=True, summary=_STOPPED)
            self._transcript.update_card(running.card_id, CardUpdate(state="stopped"))
        else:
            outcome = task.result()
            update = CardUpdate(
                state="failed" if outcome.is_error else "done",
                output=_card_output(outcome),  # truncated; it replaces the live output, which has no limit
                summary=one_line(outcome.summary),
            )
            self._transcript.update_card(running.card_id, update)
            self.on_result(running.card_id, outcome.summary)
        self._agent.conversation.attach((shell_block(running.line, outcome),))
        self._on_end(task.cancelled())
