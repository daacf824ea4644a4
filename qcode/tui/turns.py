"""Run turns, one at a time: submit, queue, steer, cancel and answer; pass their events to the presenter.

A turn that fails in an unforeseen way ends in a notice, never in a crash of the app. `Reaching` keeps the reason
in the status line while the model cannot be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qcode.agent.outcomes import BROKE_OFF
from qcode.protocol.approvals import CallApproval, Decision, Deny
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.protocol.reply import Outcome, ReasoningDelta, TextDelta
from qcode.tui.failures import what_happened
from qcode.tui.layout import Widgets
from qcode.tui.presenter import Presenter
from qcode.tui.prompt.queue import Submission
from qcode.tui.status import StatusLine

if TYPE_CHECKING:
    from qcode.agent.agent import Agent

State: TypeAlias = Literal["idle", "working", "asking"]


class Turns:
    """The turn that runs, if one does, and what waits for the next.

    `spawn` runs a coroutine beside the app's messages; `announce` is told each change of state.
    """

    def __init__(
        self,
        agent: Agent,
        widgets: Widgets,
        clock: Callable[[], float],
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        announce: Callable[[State], None],
    ) -> None:
        self._conversation = agent.conversation
        self._widgets = widgets
        self._spawn = spawn
        self._announce = announce
        self._report = agent.report_crash
        self._reaching = Reaching(widgets.status, clock)
        self._idle: asyncio.Event | None = None
        self._is_cancelling = False
        max_continuations = agent.context.settings.output.max_continuations
        self._presenter = Presenter(
            widgets.transcript, widgets.status, self, clock, max_continuations=max_continuations
        )

    @property
    def is_running(self) -> bool:
        return self._idle is not None

    def name_background_key(self, key: str) -> None:
        """Show on cards that `key`, as it is printed on keyboards, lets their command go on in the background."""
        self._presenter.background_key = key

    def submit(self, submission: Submission) -> None:
        """Start a turn, or queue it: for the running turn, or as the next one where it has options of its own."""
        if self.is_running:
            self._widgets.queued.add(submission)
            if submission.is_steering:
                self._conversation.steer(submission.text, submission.images)
            return
        self._widgets.transcript.add_user(submission.shown)
        self._widgets.transcript.scroll_end(animate=False)
        self._idle = asyncio.Event()
        self._is_cancelling = False
        self._announce("working")
        shown = submission.shown if submission.shown != submission.text else ""
        options = replace(submission.options, shown=shown)
        events = self._conversation.submit(submission.text, submission.images, options)
        self._spawn(self._run(events))

    def take_back(self) -> str:
        """Take what was queued last out of the queue and return how it stood in the prompt; empty where none is."""
        last = self._widgets.queued.last
        if last is None or (last.is_steering and not self._conversation.unsteer(last.text)):
            return ""
        self._widgets.queued.drop_last()
        return last.shown

    def compact(self, focus: str) -> None:
        """Have the conversation compacted, as a turn of its own; the caller knows that none runs."""
        self._idle = asyncio.Event()
        self._is_cancelling = False
        self._announce("working")
        self._spawn(self._run(self._conversation.compact(focus)))

    def stop(self) -> bool:
        """Interrupt the turn and deny what it asks; return False where none runs or it was interrupted before."""
        if not self.is_running or self._is_cancelling:
            return False
        self._is_cancelling = True
        for approval_id in self._widgets.approval.withdraw_all():
            self._conversation.answer(approval_id, Deny())
        self._conversation.cancel()
        if self._widgets.approval.request is None:
            self._widgets.prompt.focus()
        return True

    async def wait_until_idle(self, seconds: float) -> None:
        """Return when no turn runs, or after `seconds`."""
        if self._idle is not None:
            try:
                await asyncio.wait_for(self._idle.wait(), seconds)
            except TimeoutError:
                return

    def answer(self, approval_id: str, decision: Decision) -> None:
        """Pass on what the user decided."""
        self._conversation.answer(approval_id, decision)
        # An approved plan ends plan mode.
        self._widgets.status.change(mode=self._conversation.mode)
        self.after_question()

    def ask(self, approval: CallApproval) -> None:
        """Put the question, unless the turn is being interrupted: then it is denied unseen."""
        if self._is_cancelling:
            self._conversation.answer(approval.id, Deny())
            return
        self._widgets.approval.ask(approval)
        self._announce("asking")

    def withdraw(self, approval_id: str) -> None:
        if self._widgets.approval.withdraw(approval_id):
            self.after_question()

    def take_steering(self, text: str) -> None:
        """Show what was queued as taken into the turn."""
        taken = self._widgets.queued.take(text)
        self._widgets.transcript.add_user(taken.shown if taken is not None else text)

    async def _run(self, events: AsyncIterator[TurnEvent]) -> None:
        outcome = Outcome.ERROR
        try:
            outcome = await self._show(events)
        except Exception as failure:  # noqa: BLE001  # the app's edge: whatever broke, the app and its text stay
            self._presenter.abandon(what_happened(failure, self._report))
        finally:
            if self._idle is not None:
                self._idle.set()
            self._idle = None
        self._announce("idle")
        self._go_on(outcome)

    async def _show(self, events: AsyncIterator[TurnEvent]) -> Outcome:
        try:
            async for event in events:
                self._presenter.present(event)
                self._widgets.todos.see(event)
                self._reaching.see(event)
                if isinstance(event, TurnEnded):
                    return event.outcome
                # A provider that never waits would otherwise keep keys and paint from their turn.
                await asyncio.sleep(0)
        finally:
            await close_events(events)
        self._presenter.abandon(BROKE_OFF)
        return Outcome.ERROR

    def _go_on(self, outcome: Outcome) -> None:
        """Send what is still queued as the next prompt; after an interrupt or an error the person decides first."""
        if outcome in (Outcome.CANCELLED, Outcome.ERROR):
            waiting = "\n\n".join(one.shown for one in self._widgets.queued.take_all())
            if waiting:
                self._widgets.prompt.put_back(waiting)
            return
        following = self._widgets.queued.take_next()
        if following is not None:
            left = self._widgets.queued.take_all()
            self.submit(following)
            for submission in left:
                self.submit(submission)

    def after_question(self) -> None:
        """Give the prompt back where no question is left."""
        if self._widgets.approval.request is None:
            self._widgets.prompt.focus()
            if self.is_running:
                self._announce("working")


async def close_events(events: AsyncIterator[TurnEvent]) -> None:
    """Close the stream of a turn, which cancels it if it still runs; a plain iterator has nothing to close."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


_UNREACHABLE_WORDS: dict[str, str] = {
    ErrorKind.NO_CREDENTIAL: "no key",
    ErrorKind.AUTH: "key refused",
    ErrorKind.CONNECTION: "offline",
    ErrorKind.TIMEOUT: "no answer",
    ErrorKind.UNREACHABLE: "no server",
    ErrorKind.RATE_LIMIT: "rate limited",
    ErrorKind.QUOTA: "quota used up",
    ErrorKind.OVERLOADED: "overloaded",
}


class Reaching:
    """Tells the status line; `clock` is in seconds."""

    def __init__(self, status: StatusLine, clock: Callable[[], float]) -> None:
        self._status = status
        self._clock = clock

    def see(self, event: TurnEvent) -> None:
        match event:
            case TextDelta() | ReasoningDelta():
                self._status.end_problem()
            case TurnEnded(error=error) if error is not None and error.kind in _UNREACHABLE_WORDS:
                after = error.retry_after
                self._status.show_problem(
                    _UNREACHABLE_WORDS[error.kind], None if after is None else self._clock() + after
                )
            case _:
                pass
