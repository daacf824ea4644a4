"""Lines a person runs with `!`: each a card, its output kept for the model with what is said next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from qcode.agent.context.attachments import shell_block
from qcode.protocol.tools import ToolOutcome
from qcode.text.clean import one_line
from qcode.tui.transcript.cards import CardState, CardUpdate, TranscriptView

if TYPE_CHECKING:
    from qcode.agent.agent import Agent

_MAX_KEPT = 16_000
_STOPPED = "stopped by the user"


def line_state(result: str) -> CardState:
    """Return the state of the card of a line that came to `result`, as its block says."""
    if result == _STOPPED:
        return "cancelled"
    return "done" if result in ("", "exit 0") else "failed"


def without_code(output: str) -> str:
    """Return what a line printed without the note that it went well, which its mark says."""
    return output.removesuffix("[exit code 0]").rstrip("\n")


class ShellLines:
    """Runs them beside the turns; several may run at once. `spawn` runs a coroutine beside the app's messages."""

    def __init__(
        self,
        agent: Agent,
        transcript: TranscriptView,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._agent = agent
        self._transcript = transcript
        self._spawn = spawn
        self._running: list[asyncio.Task[ToolOutcome]] = []
        self._count = 0

    def start(self, line: str) -> None:
        """Run a line; its card says what became of it."""
        self._count += 1
        card = f"!{self._count}"
        self._transcript.add_card(card, "!", one_line(line))
        self._transcript.update_card(card, CardUpdate(state="running"))
        seen = [""]

        def show(text: str) -> None:
            seen[0] = (seen[0] + text)[-_MAX_KEPT:]
            self._transcript.update_card(card, CardUpdate(append=text))

        task = asyncio.ensure_future(self._agent.toolbox.run_line(line, show))
        self._running.append(task)
        self._spawn(self._follow(card, line, task, seen))

    def stop(self) -> bool:
        """End the line that was started last; return whether there was one."""
        task = next((task for task in reversed(self._running) if not task.cancelling()), None)
        return task is not None and task.cancel()

    async def close(self) -> None:
        """End all of them and return when nothing of them runs any more."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def _follow(self, card: str, line: str, task: asyncio.Task[ToolOutcome], seen: list[str]) -> None:
        """Wait for a line to end; where this is cancelled, the line is ended too."""
        try:
            await asyncio.wait({task})
        finally:
            self._running.remove(task)
            task.cancel()
        if task.cancelled():
            content = seen[0] or "[no output]"
            outcome = ToolOutcome(content, is_error=True, summary=_STOPPED)
            self._transcript.update_card(card, CardUpdate(state="cancelled", output=content))
        else:
            outcome = task.result()
            # What came live may be a flood; what is kept of it is bounded.
            output = without_code(outcome.content)
            state: CardState = "failed" if outcome.is_error else "done"
            self._transcript.update_card(
                card, CardUpdate(state=state, output=output, summary=one_line(outcome.summary))
            )
        self._agent.conversation.attach((shell_block(line, outcome),))
