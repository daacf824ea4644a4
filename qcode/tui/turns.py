"""Runs turns, one at a time: submits, queues, steers, cancels and answers; passes their events to the presenter.

An unexpected error in a turn ends in a notice, never in a crash of the app. `ConnectivityStatus` shows in the status
line why the model cannot be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qcode.agent.context.attachments import unnamed_attachments
from qcode.agent.outcomes import UNEXPECTED_END
from qcode.protocol.approvals import Decision, Deny, ImpossibleCall, Question, TurnApproval, trusts_folder
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    ApprovalRequested,
    Compacted,
    ModelFellBack,
    SteeringAdded,
    ToolCallProgress,
    TurnEnded,
    TurnEvent,
)
from qcode.protocol.reply import Outcome, ReasoningDelta, TextDelta
from qcode.tui.failures import report_failure
from qcode.tui.main_widgets import MainWidgets
from qcode.tui.messages import QuestionWaiting
from qcode.tui.presenter import Presenter
from qcode.tui.prompt.queue import Submission
from qcode.tui.status import StatusLine
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent

TurnState: TypeAlias = Literal["idle", "working", "asking"]


_OUTPUT_EVENTS = (TextDelta, ReasoningDelta, ToolCallProgress, SteeringAdded, Compacted)
"""A turn with one of these events has an output that the user has seen, so its prompt is not restored."""


@dataclass(slots=True)
class _RunningTurn:
    """The state of the running turn."""

    typed_text: str
    """The prompt as the user typed it; empty for `/compact`."""
    is_cancelling: bool = False
    restores_prompt: bool = False
    """The user interrupted the turn with `stop(restores_prompt=True)`."""
    has_output: bool = False
    """The turn had one of `_OUTPUT_EVENTS`."""
    is_prompt_blocked: bool = False
    """A hook blocked the prompt before it was sent, so it may be changed and sent again."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Turns:
    """The running turn, if any, and the queue of prompts for the next turns.

    `spawn` starts a coroutine as a worker, and `announce` gets each new state. `survives` reports an error of a widget
    and returns whether the turn may continue. While `is_held` returns True, no turn starts: a `!` line is running, and
    its output belongs to the next prompt.
    """

    def __init__(
        self,
        agent: Agent,
        widgets: MainWidgets,
        clock: Callable[[], float],
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        announce: Callable[[TurnState], None],
        survives: Callable[[Exception], bool],
        is_held: Callable[[], bool],
    ) -> None:
        self._conversation = agent.conversation
        self._survives = survives
        self.is_held = is_held
        self._widgets = widgets
        self._spawn = spawn
        self._announce = announce
        self._report = agent.report_crash
        self._trust = agent.trust
        self._connectivity = ConnectivityStatus(widgets.status, clock)
        self._turn: _RunningTurn | None = None
        self._server_question_ids: set[str] = set()
        self._impossible_call_ids: set[str] = set()
        """The ids of open questions whether the model may try again after calls that cannot run.

        The conversation ends the turn with an error if the answer is No. The user has then stopped the turn, so it is
        cancelled before the answer, and ends as interrupted.
        """
        self._has_shown_resend_hint = False
        self.on_prompt_restored: Callable[[], None] = lambda: None
        """Called after a turn without output was undone, to show the usage without it."""
        max_continuations = agent.context.settings.output.max_continuations
        agent.use_output_columns(widgets.transcript.output_columns)
        self._presenter = Presenter(
            widgets.transcript, widgets.status, self, clock, max_continuations=max_continuations
        )

    @property
    def is_running(self) -> bool:
        return self._turn is not None

    def show_background_hint(self, hint: str) -> None:
        """Show `hint`, which names the key, on cards whose command can move to the background."""
        self._presenter.background_hint = hint

    def report_results(self, report: Callable[[str, str], None]) -> None:
        """Call `report` with the id and the summary of each call that has ended."""
        self._presenter.on_result = report

    def submit(self, submission: Submission) -> None:
        """Start a turn, or queue the prompt if a turn runs or turns are held.

        A prompt that is queued while a turn runs joins that turn, unless it has options, such as another model.
        """
        if self.is_running or self.is_held():
            self._widgets.queue.add(submission)
            if self.is_running and submission.is_steering:
                self._conversation.steer(submission.text, submission.attached)
            return
        typed = submission.typed_text if submission.typed_text != submission.text else ""
        options = replace(submission.options, shown_prompt=typed)
        events = self._conversation.submit(submission.text, submission.attached, options)
        self._widgets.status.change(hint="")
        self._widgets.transcript.add_user(submission.typed_text)
        self._widgets.transcript.scroll_end(animate=False)
        self._start(_RunningTurn(submission.typed_text), events)

    def unqueue_last(self) -> str:
        """Remove the last queued prompt and return its text as the user typed it.

        Return an empty string if the queue is empty, or if the prompt has already joined the running turn.
        """
        last = self._widgets.queue.last
        if last is None:
            return ""
        # A prompt that waits for a `!` line was not sent to a turn.
        if self.is_running and last.is_steering and not self._conversation.withdraw_steering(last.text):
            return ""
        self._widgets.queue.drop_last()
        return last.typed_text

    def compact(self, focus: str) -> None:
        """Compact the conversation as a separate turn. The caller has made sure that no turn runs."""
        self._start(_RunningTurn(typed_text=""), self._conversation.compact(focus))

    def _start(self, turn: _RunningTurn, events: AsyncIterator[TurnEvent]) -> None:
        """Start the worker of a turn. Nothing in here may fail: without its worker the turn would never end."""
        self._turn = turn
        self._announce("working")
        self._spawn(self._run(turn, events))

    def stop(self, *, restores_prompt: bool = False) -> bool:
        """Interrupt the turn and deny its open questions; return False if none runs or it was already interrupted.

        `restores_prompt`: if the turn has no output yet, undo it and put its text back into the empty prompt.
        """
        turn = self._turn
        if turn is None or turn.is_cancelling:
            return False
        turn.is_cancelling = True
        turn.restores_prompt = restores_prompt
        for approval_id in self._widgets.approval.withdraw_all():
            if approval_id not in self._impossible_call_ids:
                self._conversation.answer(approval_id, Deny())
        self._conversation.cancel()
        if self._widgets.approval.shown_approval is None:
            self._widgets.prompt.focus()
        return True

    async def wait_until_idle(self, seconds: float) -> None:
        """Wait until no turn runs, at most `seconds`."""
        if self._turn is not None:
            try:
                async with asyncio.timeout(seconds):
                    await self._turn.ended.wait()
            except TimeoutError:
                return

    def answer(self, approval_id: str, decision: Decision) -> None:
        """Pass the user's decision to the conversation.

        A denial without a reason also ends the turn, so that the user can send other instructions.
        """
        if trusts_folder(decision):
            self._trust_folder()
        is_stop = decision == Deny() and approval_id not in self._server_question_ids
        if is_stop and approval_id in self._impossible_call_ids:
            self.stop()
        self._conversation.answer(approval_id, decision)
        # The mode changes if a plan was approved, or if all later edits were allowed.
        self._widgets.status.change(mode=self._conversation.mode)
        if is_stop:
            self.stop()
        self._server_question_ids.discard(approval_id)
        self._impossible_call_ids.discard(approval_id)
        self.after_question()

    def ask(self, approval: TurnApproval, position: str) -> None:
        """Ask the question. If the turn is being interrupted, deny it without asking."""
        if self._turn is not None and self._turn.is_cancelling:
            self._conversation.answer(approval.id, Deny())
            return
        if isinstance(approval, Question) and approval.server:
            self._server_question_ids.add(approval.id)
        if isinstance(approval, ImpossibleCall):
            self._impossible_call_ids.add(approval.id)
        self._widgets.approval.ask(approval, position)
        self._announce("asking")
        self._tell_screen_in_front(is_question_waiting=True)

    def withdraw(self, approval_id: str) -> bool:
        """Close a question that needs no answer any more; return whether it was open."""
        is_open = approval_id in self._widgets.approval.open_ids
        if self._widgets.approval.withdraw(approval_id):
            self.after_question()
        return is_open

    def _trust_folder(self) -> None:
        self._widgets.transcript.add_notice("info", self._trust.accept())
        self._widgets.status.change(is_restricted=not self._trust.is_trusted)

    def show_steering(self, text: str) -> None:
        """Show a queued prompt as part of the turn."""
        prompt = self._widgets.queue.remove_steering(text)
        self._widgets.transcript.add_user(prompt.typed_text if prompt is not None else text)

    async def _run(self, turn: _RunningTurn, events: AsyncIterator[TurnEvent]) -> None:
        outcome = Outcome.ERROR
        try:
            outcome = await self._show(turn, events)
            if outcome is Outcome.CANCELLED and turn.restores_prompt:
                await self._restore_prompt(turn)
        except Exception as failure:  # noqa: BLE001  # the app's edge: whatever broke, the app and its text stay
            self._presenter.abandon(report_failure(failure, self._report))
        finally:
            self._turn = None
            turn.ended.set()
        self._widgets.status.change(model=self._conversation.model)
        self._announce("idle")
        self.send_queued(is_interrupted=outcome in (Outcome.CANCELLED, Outcome.ERROR))
        if turn.is_prompt_blocked and turn.typed_text:
            self._widgets.prompt.put_back(turn.typed_text)

    async def _restore_prompt(self, turn: _RunningTurn) -> None:
        """Undo the turn if it had no output, and put its text back into the prompt. The session file keeps the turn."""
        widgets = self._widgets
        has_room = widgets.prompt.is_empty and widgets.queue.last is None
        messages = self._conversation.messages
        if not turn.typed_text or turn.has_output or not has_room or not messages:
            return
        checkpoints = self._conversation.checkpoints
        blocks = messages[-1].blocks
        try:
            plan = await checkpoints.plan_undo()
            if plan.files or plan.messages != 1:
                return
            await checkpoints.perform(plan)
        except ValueError:
            return
        self._conversation.attach(unnamed_attachments(blocks, has_labels=True))
        widgets.transcript.withdraw_prompt()
        self.on_prompt_restored()
        widgets.prompt.put_back(turn.typed_text)

    async def _show(self, turn: _RunningTurn, events: AsyncIterator[TurnEvent]) -> Outcome:
        """Show the events of a turn and return its outcome."""
        try:
            async for event in events:
                self._show_event(turn, event)
                if isinstance(event, TurnEnded):
                    if event.error is not None:
                        self._explain_how_to_resend(turn, event.error)
                    return event.outcome
                # Let the app handle keys and paint, even if the provider yields events without ever waiting.
                await asyncio.sleep(0)
        finally:
            await close_events(events)
        self._presenter.abandon(UNEXPECTED_END)
        return Outcome.ERROR

    def _show_event(self, turn: _RunningTurn, event: TurnEvent) -> None:
        """Show one event. The turn continues after an error here; a question that cannot be shown is denied."""
        turn.has_output = turn.has_output or isinstance(event, _OUTPUT_EVENTS)
        try:
            self._presenter.present(event)
            self._widgets.todos.update_from(event)
            self._connectivity.update_from(event)
            if isinstance(event, ModelFellBack):
                mark = "" if event.has_returned else " (fallback)"
                self._widgets.status.change(model=f"{event.to_model}{mark}")
        except Exception as failure:
            if not self._survives(failure):
                raise
            if isinstance(event, ApprovalRequested) and event.approval.id not in self._widgets.approval.open_ids:
                self._conversation.answer(event.approval.id, Deny("qcode could not show this question to the user."))

    def _explain_how_to_resend(self, turn: _RunningTurn, error: ErrorInfo) -> None:
        """Name the key that recalls a prompt whose request failed; the first time only, because it never changes."""
        if error.kind == ErrorKind.PROMPT_BLOCKED:
            turn.is_prompt_blocked = True
            return
        can_resend = turn.typed_text and not turn.has_output and error.kind != ErrorKind.BUDGET
        if can_resend and not self._has_shown_resend_hint:
            self._has_shown_resend_hint = True
            self._widgets.transcript.add_notice("info", "Press Up to get your prompt back and send it again.")

    def send_queued(self, *, is_interrupted: bool) -> None:
        """Send the queued prompts as the next turn, unless one runs or they are held.

        After an interrupt or an error, return them to the prompt instead.
        """
        if self.is_running:
            return
        if is_interrupted:
            queued_text = "\n\n".join(queued.typed_text for queued in self._widgets.queue.take_all())
            if queued_text:
                self._widgets.prompt.put_back(queued_text)
            return
        if self.is_held():
            return
        next_submission = self._widgets.queue.take_next()
        if next_submission is not None:
            later_submissions = self._widgets.queue.take_all()
            self.submit(next_submission)
            # The turn runs now: the others steer it, or are queued again if they have options.
            for submission in later_submissions:
                self.submit(submission)

    def after_question(self) -> None:
        """Focus the prompt if no other question is open, and announce that the turn continues."""
        if self._widgets.approval.shown_approval is None:
            self._widgets.prompt.focus()
            self._tell_screen_in_front(is_question_waiting=False)
            if self.is_running:
                self._announce("working")

    def _tell_screen_in_front(self, *, is_question_waiting: bool) -> None:
        """Let a screen that covers the questions, such as a list, show that one is waiting."""
        self._widgets.prompt.app.screen.post_message(QuestionWaiting(is_waiting=is_question_waiting))


async def close_events(events: AsyncIterator[TurnEvent]) -> None:
    """Close the stream of a turn, which cancels a running turn; a plain iterator has nothing to close."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


_UNREACHABLE_WORDS: dict[str, str] = {
    ErrorKind.NO_CREDENTIAL: "no key",
    ErrorKind.AUTH: "key refused",
    ErrorKind.CONNECTION: "offline",
    ErrorKind.TIMEOUT: "no answer",
    ErrorKind.UNREACHABLE: "no server",
    ErrorKind.TLS: "not trusted",
    ErrorKind.RATE_LIMIT: "rate limited",
    ErrorKind.QUOTA: "quota used up",
    ErrorKind.OVERLOADED: "overloaded",
}
"""The words for the status line, by the kind of an error that makes the model unreachable."""

_REACHED_ERRORS = (ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_OVERFLOW, ErrorKind.UNKNOWN_MODEL, ErrorKind.SERVER)
"""Errors of a provider that was reached and did not refuse the key."""


class ConnectivityStatus:
    """Shows in the status line that the model cannot be reached. `clock` returns seconds."""

    def __init__(self, status: StatusLine, clock: Callable[[], float]) -> None:
        self._status = status
        self._clock = clock

    def update_from(self, event: TurnEvent) -> None:
        """Update the status line from an event of the turn."""
        match event:
            case TextDelta() | ReasoningDelta():
                self._status.end_problem()
            case TurnEnded(error=error) if error is not None and error.kind in _UNREACHABLE_WORDS:
                until = None if error.retry_after is None else self._clock() + error.retry_after
                self._status.show_problem(_UNREACHABLE_WORDS[error.kind], until)
            case TurnEnded(error=error) if error is not None and error.kind in _REACHED_ERRORS:
                self._status.end_problem()
            case _:
                pass
