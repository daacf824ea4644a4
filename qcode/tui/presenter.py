"""Turns the events of a turn into transcript and status calls. The only place that does.

It keeps what one turn needs to be shown (open cards, what the reply has shown so far), never widgets or text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Protocol, TypeAlias

from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    Compacted,
    CompactionStarted,
    ContinuationAttempt,
    ContinuationTerminated,
    Level,
    Notice,
    OutputEscalated,
    PartialRestored,
    ReplyFinished,
    ResultsCommitted,
    Retry,
    SteeringAdded,
    StepStarted,
    StopReasonObserved,
    ToolCallProgress,
    ToolFinished,
    ToolOutput,
    ToolPayloadRepair,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    UsageUpdated,
    Waiting,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.reply import ReasoningDelta, TextDelta, WebSearched
from qcode.protocol.stops import Outcome
from qcode.protocol.usage import Usage
from qcode.tui.agents import AgentCards
from qcode.tui.calls import main_argument, plan_of
from qcode.tui.endings import ending_notice, requests_note
from qcode.tui.figures import tokens_text
from qcode.tui.searched import searched_text
from qcode.tui.status import Activity
from qcode.tui.text import one_line


class TranscriptView(Protocol):
    """The part of the transcript widget that events reach."""

    def append_text(self, text: str) -> None: ...
    def append_reasoning(self, text: str) -> None: ...
    def settle(self) -> None: ...
    def restart(self, label: str) -> None: ...
    def restore(self, text: str, reasoning: str = "") -> None: ...
    def add_mark(self, text: str) -> None: ...
    def add_notice(self, level: Level, text: str) -> None: ...
    def add_card(self, call_id: str, name: str, argument: str) -> None: ...
    def update_card(
        self,
        call_id: str,
        *,
        state: str | None = None,
        argument: str | None = None,
        output: str | None = None,
        append: str | None = None,
        diff: str | None = None,
        summary: str | None = None,
        hint: str | None = None,
        detail: str | None = None,
    ) -> None: ...


class StatusView(Protocol):
    """The part of the status line that events reach."""

    def show_activity(self, activity: Activity | None) -> None: ...
    def show_usage(self, event: UsageUpdated) -> None: ...
    def add_turn(self, usage: Usage, cost: Decimal | None) -> None: ...


class Person(Protocol):
    """Where events meet what the person does: questions, and what was typed meanwhile."""

    def ask(self, request: ApprovalRequested) -> None: ...
    def withdraw(self, call_id: str) -> None: ...
    def take_steering(self, text: str) -> None: ...


class Presenter:
    """One for the life of the app; `present` is called with the events of one turn after another.

    `background_key` is what lets a command go on in the background, as it is printed on keyboards; empty: nothing does.
    """

    def __init__(
        self,
        transcript: TranscriptView,
        status: StatusView,
        person: Person,
        clock: Callable[[], float],
        *,
        max_continuations: int = 3,
    ) -> None:
        self._transcript = transcript
        self._status = status
        self._person = person
        self._clock = clock
        self._max_continuations = max_continuations
        self._searches: list[WebSearched] = []
        self._agents = AgentCards(transcript, clock, person.withdraw)
        self._open_cards: dict[str, None] = {}
        self._writing_cards: dict[str, None] = {}
        self._streamed: set[str] = set()
        self._has_shown = False
        self._note = ""
        self._has_said_why = False
        self._restarting: Retry | None = None
        self._recovery = ""
        self._doing = ""
        self.background_key = ""

    def present(self, event: TurnEvent) -> None:
        """Show one event. Total: every kind of event has its place, also those that show nothing."""
        if self._restarting is not None:
            self._restart(self._restarting, event.from_tokens if isinstance(event, OutputEscalated) else None)
        match event:
            case TurnStarted():
                self._has_said_why = False
                self._set_activity("starting")
            case StepStarted():
                self._start_reply()
            case TextDelta() | ReasoningDelta():
                self._show_delta(event)
            case ToolCallProgress():
                self._show_call_progress(event)
            case Retry():
                self._show_retry(event)
            case PartialRestored():
                self._transcript.restore(event.text, event.reasoning)
                self._transcript.add_mark("the new attempt came to nothing; this is the first one again")
            case ReplyFinished():
                self._finish_reply(event)
            case ApprovalRequested():
                self._ask(event)
            case ToolStarted():
                self._start_tool(event)
            case AgentEvent() | WebSearched():
                self._show_beside(event)
            case ToolOutput():
                self._streamed.add(event.call_id)
                self._transcript.update_card(event.call_id, append=event.text)
            case ToolFinished():
                self._finish_tool(event)
            case SteeringAdded():
                self._person.take_steering(event.text)
            case UsageUpdated():
                self._status.show_usage(event)
            case Waiting():
                self._count_down(event)
            case CompactionStarted():
                self._set_activity("compacting the conversation")
            case Compacted():
                self._transcript.add_notice("info", _compacted(event))
            case Notice():
                self._show_notice(event)
            case TurnEnded():
                self._end_turn(event)
            case _:
                _show_nothing(event)

    def abandon(self, why: str) -> None:
        """Show that a turn broke off without its last event: `why` is one line."""
        self._restarting = None
        self._note = ""
        self._doing = ""
        self._transcript.settle()
        self._close_cards("cancelled")
        self._status.show_activity(None)
        self._transcript.add_notice("error", why)

    def _start_reply(self) -> None:
        self._say_note()
        self._has_shown = False
        self._recovery = ""
        self._writing_cards.clear()
        self._set_activity("waiting for the model")

    def _show_delta(self, event: TextDelta | ReasoningDelta) -> None:
        self._has_shown = True
        if isinstance(event, TextDelta):
            self._set_activity("writing")
            self._transcript.append_text(event.text)
        else:
            self._set_activity("thinking")
            self._transcript.append_reasoning(event.text)

    def _ask(self, request: ApprovalRequested) -> None:
        if request.agent:
            self._agents.ask(request)
        else:
            self._card(request.call, "waiting")
        self._set_activity("waiting for your answer", is_moving=False)
        self._person.ask(request)

    def _show_beside(self, event: AgentEvent | WebSearched) -> None:
        """Show what somebody else does for the reply: a sub-agent in its card, a search of the host under the text."""
        if isinstance(event, WebSearched):
            self._searches.append(event)
            return
        # Its answer is the last thing that was said in it.
        self._streamed.add(event.call_id)
        if doing := self._agents.show(event):
            self._set_activity(doing)

    def _count_down(self, event: Waiting) -> None:
        now = self._clock()
        self._doing = ""
        self._status.show_activity(Activity(one_line(event.why, 80), now, now + event.seconds, event.attempt))

    def _show_call_progress(self, event: ToolCallProgress) -> None:
        self._has_shown = True
        size = f"{tokens_text(event.size)} characters"
        if event.call_id not in self._open_cards:
            self._transcript.add_card(event.call_id, one_line(event.name, 60), "")
            self._open_cards[event.call_id] = None
        self._writing_cards[event.call_id] = None
        self._transcript.update_card(event.call_id, state="writing", argument=size)
        self._set_activity(f"preparing {one_line(event.name, 40)}")

    def _show_retry(self, event: Retry) -> None:
        if event.is_continuation:
            self._recovery = f"continued {event.attempt}/{self._max_continuations}"
            if event.reason == "call":
                self._recovery = "asking for the rest of a cut call"
            elif event.reason == "context":
                self._recovery = "the window was full; going on with more room"
            lead = "connection lost, " if event.reason == "transport" else ""
            self._transcript.add_mark(lead + self._recovery)
        else:
            self._recovery = _RECOVERIES.get(event.reason, "asking again")
            self._restarting = event
        self._doing = ""
        self._set_activity("waiting for the model")

    def _restart(self, retry: Retry, cap: int | None) -> None:
        """Start the reply over. `cap` is the one it was cut at: it follows a retry at once, in an event of its own."""
        self._restarting = None
        label = _RESTARTS.get(retry.reason, "asking again")
        if retry.reason == "max_tokens":
            label = f"cut at {f'{cap:,} tokens' if cap else 'the output limit'}; asking again with {retry.max_tokens:,}"
        if self._has_shown or retry.reason != "transport":
            self._transcript.restart(label)
        for call_id in self._writing_cards:
            self._open_cards.pop(call_id, None)
        self._writing_cards.clear()
        self._has_shown = False

    def _finish_reply(self, event: ReplyFinished) -> None:
        self._transcript.settle()
        for search in self._searches:
            self._transcript.add_notice("info", searched_text(search))
        self._searches.clear()
        calls: Sequence[ToolCall] = event.message.calls if event.message is not None else ()
        kept = {call.call_id for call in calls}
        self._close_cards("cancelled", only=tuple(card for card in self._writing_cards if card not in kept))
        self._writing_cards.clear()
        for call in calls:
            self._card(call, "waiting")
        self._recovery = ""
        self._note = event.note

    def _show_notice(self, event: Notice) -> None:
        """Show a notice; one that repeats the note of the reply before it stands for both."""
        if event.text == self._note:
            self._note = ""
            self._has_said_why = True
        self._transcript.add_notice(event.level, event.text)

    def _say_note(self) -> None:
        """Show the note of the last reply, unless a notice has said it."""
        if self._note:
            self._transcript.add_notice("warning", self._note)
            self._has_said_why = True
            self._note = ""

    def _card(self, call: ToolCall, state: str) -> None:
        """Make sure the call has its card, and set its state and argument."""
        argument = main_argument(call)
        if call.call_id not in self._open_cards:
            self._transcript.add_card(call.call_id, one_line(call.name, 60), argument)
            self._open_cards[call.call_id] = None
        self._transcript.update_card(call.call_id, state=state, argument=argument)

    def _start_tool(self, event: ToolStarted) -> None:
        self._card(event.call, "running")
        if event.can_go_on and self.background_key:
            self._transcript.update_card(event.call.call_id, hint=f"{self.background_key}: background")
        self._set_activity(f"running {one_line(event.call.name, 40)}")

    def _finish_tool(self, event: ToolFinished) -> None:
        call, outcome = event.call, event.outcome
        self._agents.end(call.call_id)
        self._person.withdraw(call.call_id)
        self._card(call, event.state)
        # What was planned stays to be read; its result only says what the person decided.
        content = plan_of(call) or outcome.content
        has_output = not outcome.diff and call.call_id not in self._streamed
        # Of a call that did not run, the state says all that a summary could.
        has_run = event.state in ("done", "failed")
        self._transcript.update_card(
            call.call_id,
            output=content if has_output and content else None,
            diff=outcome.diff or None,
            summary=(one_line(outcome.summary) or None) if has_run else None,
        )
        self._open_cards.pop(call.call_id, None)
        self._streamed.discard(call.call_id)
        self._set_activity("waiting for the model")

    def _end_turn(self, event: TurnEnded) -> None:
        self._transcript.settle()
        is_cancelled = event.outcome is Outcome.CANCELLED
        self._close_cards("cancelled")
        self._streamed.clear()
        self._status.show_activity(None)
        if is_cancelled:
            self._note = ""
            self._transcript.add_mark("interrupted")
        else:
            self._say_note()
            notice = ending_notice(event, has_said_why=self._has_said_why)
            if notice is not None:
                self._transcript.add_notice(notice.level, notice.text)
        if note := requests_note(event):
            self._transcript.add_notice("info", note)
        self._status.add_turn(event.usage, event.cost)
        self._doing = ""

    def _close_cards(self, state: str, only: Sequence[str] | None = None) -> None:
        for call_id in tuple(self._open_cards) if only is None else only:
            if call_id in self._open_cards:
                self._transcript.update_card(call_id, state=state)
                self._person.withdraw(call_id)
                self._agents.end(call_id)
                del self._open_cards[call_id]

    def _set_activity(self, doing: str, *, is_moving: bool = True) -> None:
        """Say what is happening; the clock starts anew only when that changes."""
        if doing != self._doing:
            self._doing = doing
            text = f"{self._recovery}: {doing}" if self._recovery else doing
            self._status.show_activity(Activity(text, self._clock(), is_moving=is_moving))


_Silent: TypeAlias = (
    ResultsCommitted
    | OutputEscalated
    | StopReasonObserved
    | ContinuationAttempt
    | ContinuationTerminated
    | ToolPayloadRepair
)


def _compacted(event: Compacted) -> str:
    what = "older messages became a summary" if event.kind == "summary" else "old tool output was left out"
    sizes = f"{tokens_text(event.before_tokens)} → {tokens_text(event.after_tokens)} tokens"
    return f"Compacted: {what} ({sizes}). /undo takes it back with its turn; nothing is lost from the session."


def _show_nothing(event: _Silent) -> None:
    """Events for logs. That only these get here is checked by type."""


_RECOVERIES = {"max_tokens": "reply was cut, asking again", "transport": "connection lost, asking again"}
_RESTARTS = {
    "transport": "connection lost; asking again",
    "context": "the window was full; asking again with more room",
    "thinking": "all of it was thinking; asking for the answer itself",
    "call": "a tool call came broken; asking for it again",
}
