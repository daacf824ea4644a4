"""The presenter: turns the events of a turn into method calls on the transcript and the status line.

App and linear mode share it. `Presenter` keeps the display state of one turn (open cards, whether the reply has shown
text), never widgets or text. `agent_cards` shows the steps of a sub-agent in the card of its call,
`transcript.replay` a stored conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from qcode.agent.call_titles import call_in_words, main_argument, sandbox_note, shown_state
from qcode.agent.context.attachments import attached_lines, hook_notice
from qcode.agent.outcomes import (
    ending_notice,
    fallback_text,
    hook_text,
    limit_approval,
    limit_end_time,
    requests_note,
    restored_text,
    retry_cause,
    retry_text,
    searched_text,
)
from qcode.protocol.approvals import (
    CallApproval,
    ImpossibleCall,
    Question,
    RepeatedCall,
    ToolApproval,
    TurnApproval,
)
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    CallState,
    Compacted,
    CompactionStarted,
    ContinuationAttempt,
    ContinuationTerminated,
    HookEnded,
    HookStarted,
    LimitReached,
    ModelFellBack,
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
from qcode.protocol.messages import Block, ToolCall
from qcode.protocol.reply import Outcome, ReasoningDelta, TextDelta, WebSearched
from qcode.text.clean import one_line
from qcode.text.numbers import tokens_text
from qcode.tools.dialog import plan_of
from qcode.tui.agent_cards import AgentCards
from qcode.tui.failures import with_app_commands
from qcode.tui.status import Activity, closing_text
from qcode.tui.transcript.cards import CardState, CardUpdate, TranscriptView, is_read_only
from qcode.tui.transcript.diff import DiffCount


class StatusView(Protocol):
    """The part of the status line that events update."""

    def show_activity(self, activity: Activity | None) -> None: ...
    def show_usage(self, event: UsageUpdated) -> None: ...
    def add_turn(self, event: TurnEnded) -> None: ...


class Interaction(Protocol):
    """The user's part in a turn: answers to questions, and prompts sent meanwhile."""

    def ask(self, approval: TurnApproval, position: str) -> None:
        """Ask a question. `position` numbers it among the questions of the reply, such as `1 of 2`."""
        ...

    def withdraw(self, approval_id: str) -> bool:
        """Close a question, because it needs no answer any more; return whether it was open."""
        ...

    def show_steering(self, text: str) -> None:
        """Show a message that the user sent during the turn, now that the model gets it."""
        ...


class Presenter:
    """Shows the events of one turn after another. One instance serves the whole run."""

    def __init__(
        self,
        transcript: TranscriptView,
        status: StatusView,
        interaction: Interaction,
        clock: Callable[[], float],
        *,
        max_continuations: int = 3,
    ) -> None:
        self._transcript = transcript
        self._status = status
        self._interaction = interaction
        self._clock = clock
        self._max_continuations = max_continuations
        self._searches: list[WebSearched] = []
        self._agents = AgentCards(transcript, clock, self._withdraw)
        self._server_questions: dict[str, list[Question]] = {}
        # The ids of calls whose card is open, and of those whose arguments still arrive; dictionaries keep their order.
        self._open_cards: dict[str, None] = {}
        self._writing_cards: dict[str, None] = {}
        self._calls: Sequence[ToolCall] = ()
        self._question_numbers: dict[str, int] = {}
        self._streamed_call_ids: set[str] = set()
        self._has_shown_content = False
        self._reply_note = ""  # the warning about the last reply, which is shown with the next step or at the end
        self._is_end_explained = False  # a notice has said why the last reply is incomplete
        self._is_user_turn = False  # False during `/compact`
        self._pending_restart: Retry | None = None  # shown with the next event, which may tell the output cap
        self._recovery = ""  # how the reply is being recovered, such as `continued 1/3`; it precedes the activity
        self._activity_text = ""
        self._wait = ""  # the reason of the current wait, which the mark of an interrupted turn names
        self.background_hint = ""
        """Shown on a card whose command can move to the background; empty if no key does that."""
        self.on_result: Callable[[str, str], None] = lambda call_id, summary: None
        """Called with the id and the summary of each call that has ended."""
        self._changes = DiffCount()

    def present(self, event: TurnEvent) -> None:
        """Show one event. The method accepts every kind of event, including those that show nothing."""
        if self._pending_restart is not None:
            self._restart(self._pending_restart, event.from_tokens if isinstance(event, OutputEscalated) else None)
        match event:
            case TurnStarted():
                self._start_turn(event)
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
                self._transcript.add_mark(restored_text(event))
            case ReplyFinished():
                self._finish_reply(event)
            case ApprovalRequested():
                self._ask(event.approval)
            case ToolStarted():
                self._start_tool(event)
            case AgentEvent() | WebSearched():
                self._show_agent_or_search(event)
            case ToolOutput():
                self._streamed_call_ids.add(event.call_id)
                self._transcript.update_card(event.call_id, CardUpdate(append=event.text))
            case ToolFinished():
                self._finish_tool(event)
            case SteeringAdded():
                self._show_steering(event)
            case UsageUpdated():
                self._status.show_usage(event)
            case Waiting() | LimitReached() | ModelFellBack():
                self._show_wait_or_limit(event)
            case CompactionStarted() | HookStarted():
                activity = hook_text(event) if isinstance(event, HookStarted) else "compacting the conversation"
                self._set_activity(one_line(activity, 80))
            case Compacted():
                self._transcript.add_notice("info", _compaction_text(event, in_turn=self._is_user_turn))
            case Notice():
                self._show_notice(event)
            case TurnEnded():
                self._end_turn(event)
            case _:
                _show_nothing(event)

    def abandon(self, reason: str) -> None:
        """Show that a turn ended without its last event. `reason` is one line."""
        self._pending_restart = None
        self._reply_note = ""
        self._is_user_turn = False
        self._activity_text = ""
        self._transcript.settle()
        self._close_cards("cancelled")
        self._status.show_activity(None)
        self._transcript.add_notice("error", reason)

    def _start_turn(self, event: TurnStarted) -> None:
        self._show_attached(event.attached, event.prompt)
        self._is_end_explained = False
        self._is_user_turn = True
        self._changes = DiffCount()
        self._set_activity("starting")

    def _show_steering(self, event: SteeringAdded) -> None:
        if notice := hook_notice(event.text):  # a Stop hook continues the turn
            self._transcript.add_notice("info", notice)
        else:
            self._interaction.show_steering(event.text)
        self._show_attached(event.attached, event.text)

    def _show_attached(self, blocks: Sequence[Block], typed: str) -> None:
        if lines := attached_lines(blocks, typed):
            self._transcript.add_attached(lines)

    def _start_reply(self) -> None:
        self._show_reply_note()
        self._has_shown_content = False
        self._recovery = ""
        self._writing_cards.clear()
        self._set_activity("waiting for the model")

    def _show_delta(self, event: TextDelta | ReasoningDelta) -> None:
        self._has_shown_content = True
        if isinstance(event, TextDelta):
            self._set_activity("writing")
            self._transcript.append_text(event.text)
        else:
            self._set_activity("thinking")
            self._transcript.append_reasoning(event.text)

    def _ask(self, approval: CallApproval) -> None:
        match approval:
            case ToolApproval(agent=agent) | RepeatedCall(agent=agent) | ImpossibleCall(agent=agent) if agent:
                self._agents.ask(approval.call)
            case _:
                self._ensure_card(approval.call, "waiting", is_hidden=True)
        if isinstance(approval, Question) and approval.server:
            self._server_questions.setdefault(approval.call.call_id, []).append(approval)
        self._set_activity("waiting for your answer", is_moving=False)
        self._interaction.ask(approval, self._position(approval.call))

    def _position(self, call: ToolCall) -> str:
        """Return the number of a question among those of the reply, such as `1 of 2`; empty for a single one.

        A later call counts unless it has ended or its tool only reads: such tools seldom ask.
        """
        if call.call_id not in (other.call_id for other in self._calls):
            return ""
        self._question_numbers.setdefault(call.call_id, len(self._question_numbers) + 1)
        unasked = (other for other in self._calls if other.call_id not in self._question_numbers)
        may_ask = [other for other in unasked if other.call_id in self._open_cards and not is_read_only(other.name)]
        count = len(self._question_numbers) + len(may_ask)
        return f"{self._question_numbers[call.call_id]} of {count}" if count > 1 else ""

    def _withdraw(self, call_id: str) -> None:
        """Close the questions about a call that has ended, and those that its tool server asked."""
        self._interaction.withdraw(call_id)
        for question in self._server_questions.pop(call_id, ()):
            if self._interaction.withdraw(question.id):
                server = one_line(question.server, 60)
                self._transcript.add_notice("info", f"The question of {server} was closed: its call has ended.")

    def _show_agent_or_search(self, event: AgentEvent | WebSearched) -> None:
        """Show a sub-agent's work in its card; keep a web search until the reply has ended."""
        if isinstance(event, WebSearched):
            self._searches.append(event)
            return
        # The card has streamed the sub-agent's answer, so its result must not be shown again.
        self._streamed_call_ids.add(event.call_id)
        if activity := self._agents.show(event):
            self._set_activity(activity)

    def _show_wait_or_limit(self, event: Waiting | LimitReached | ModelFellBack) -> None:
        """Show a wait as a countdown, ask whether to wait for a limit, or name the model that takes over."""
        now = self._clock()
        match event:
            case ModelFellBack():
                self._transcript.add_notice("warning", fallback_text(event))
            case LimitReached(is_question=True):
                self._set_activity("waiting for your answer", is_moving=False)
                self._interaction.ask(limit_approval(event), "")
            case LimitReached():
                limit = f"limit until {limit_end_time(event.error)}"
                self._show_wait(Activity(limit, now, now + event.seconds, attempt=0))
            case Waiting(attempt=attempt, max_retries=max_retries):
                reason = one_line(event.reason, 80)
                self._show_wait(Activity(reason, now, now + event.seconds, attempt, max_retries))

    def _show_wait(self, activity: Activity) -> None:
        self._activity_text = ""
        self._wait = activity.text
        self._status.show_activity(activity)

    def _show_call_progress(self, event: ToolCallProgress) -> None:
        self._has_shown_content = True
        size = f"{tokens_text(event.size)} characters" if event.size else ""
        if event.call_id not in self._open_cards:
            self._transcript.add_card(event.call_id, one_line(event.name, 60), "")
            self._open_cards[event.call_id] = None
        self._writing_cards[event.call_id] = None
        self._transcript.update_card(event.call_id, CardUpdate(state="writing", argument=size))
        self._set_activity(f"preparing {call_in_words(event.name)}")

    def _show_retry(self, event: Retry) -> None:
        if event.is_continuation:
            self._recovery = f"continued {event.attempt}/{self._max_continuations}"
            if event.reason in ("call", "context"):
                self._recovery = retry_text(event)
            cause = f"{retry_cause(event)}, " if event.reason == "transport" else ""
            self._transcript.add_mark(cause + self._recovery)
        else:
            self._recovery = f"{retry_cause(event)}, retrying"
            self._pending_restart = event
        self._activity_text = ""
        self._set_activity("waiting for the model")

    def _restart(self, retry: Retry, cap: int | None) -> None:
        """Restart the reply. `cap` is the output cap that truncated it; it arrives in the event after `Retry`."""
        self._pending_restart = None
        if self._has_shown_content or retry.reason != "transport":
            self._transcript.restart(retry_text(retry, cap))
        for call_id in self._writing_cards:
            self._open_cards.pop(call_id, None)
        self._writing_cards.clear()
        self._has_shown_content = False

    def _finish_reply(self, event: ReplyFinished) -> None:
        self._transcript.settle()
        for search in self._searches:
            self._transcript.add_notice("info", searched_text(search))
        self._searches.clear()
        calls: Sequence[ToolCall] = event.message.calls if event.message is not None else ()
        self._calls = calls
        self._question_numbers = {}
        call_ids = {call.call_id for call in calls}
        self._close_cards("cancelled", only=tuple(card for card in self._writing_cards if card not in call_ids))
        self._writing_cards.clear()
        for call in calls:
            self._ensure_card(call, "waiting")
        self._recovery = ""
        self._reply_note = event.note

    def _show_notice(self, event: Notice) -> None:
        """Show a notice, and drop the reply's note if it has the same text."""
        if event.text == self._reply_note:
            self._reply_note = ""
            self._is_end_explained = True
        self._transcript.add_notice(event.level, event.text)

    def _show_reply_note(self) -> None:
        """Show the note of the last reply, unless a notice has shown it."""
        if self._reply_note:
            self._transcript.add_notice("warning", self._reply_note)
            self._is_end_explained = True
            self._reply_note = ""

    def _ensure_card(self, call: ToolCall, state: CardState, *, is_hidden: bool = False) -> None:
        """Add the card of the call if it has none, and set its state. A question about the call hides the card."""
        argument = main_argument(call)
        if call.call_id not in self._open_cards:
            self._transcript.add_card(call.call_id, one_line(call.name, 60), argument)
            self._open_cards[call.call_id] = None
        self._transcript.update_card(
            call.call_id, CardUpdate(state=state, argument=argument, is_hidden=is_hidden or None)
        )

    def _start_tool(self, event: ToolStarted) -> None:
        self._interaction.withdraw(event.call.call_id)
        self._ensure_card(event.call, "running")
        if event.is_backgroundable and self.background_hint:
            self._transcript.update_card(event.call.call_id, CardUpdate(hint=self.background_hint))
        self._set_activity(f"running {call_in_words(event.call.name)}")

    def _finish_tool(self, event: ToolFinished) -> None:
        call, outcome = event.call, event.outcome
        has_agent = self._agents.end(call.call_id, outcome.summary)
        self._withdraw(call.call_id)
        self._ensure_card(call, shown_state(call.name, event.state, outcome.summary))
        # The live output of a command omits text that arrived too fast, so the result replaces it.
        is_streamed = call.call_id in self._streamed_call_ids and (has_agent or outcome.shown is None)
        summary, output = _shown_result(event, is_streamed=is_streamed)
        notes = (
            "call found in reply text" if call.is_from_text else "",
            "edited by you" if event.is_revised else "",
            _without_repetition(call, summary, event.state),
        )
        self._transcript.update_card(
            call.call_id,
            CardUpdate(
                output=output or None,
                diff=outcome.diff or None,
                summary=" · ".join(filter(None, notes)) or None,
                plan=plan_of(call) or None,
                sandbox_note=sandbox_note(outcome.sandbox, has_failed=event.state == "failed") or None,
                seconds=event.seconds,
            ),
        )
        if event.state == "done" and outcome.diff:
            self._changes.add(outcome.diff)
        self._changes.files.update(outcome.files_without_diff)
        self._open_cards.pop(call.call_id, None)
        self._streamed_call_ids.discard(call.call_id)
        self.on_result(call.call_id, outcome.summary)
        self._set_activity("starting the next call" if self._open_cards else "waiting for the model")

    def _end_turn(self, event: TurnEnded) -> None:
        self._transcript.settle()
        is_cancelled = event.outcome is Outcome.CANCELLED
        is_explained = False
        self._close_cards("cancelled")
        self._streamed_call_ids.clear()
        self._status.show_activity(None)
        if is_cancelled:
            self._reply_note = ""
        else:
            self._show_reply_note()
            if notice := ending_notice(event, is_explained=self._is_end_explained):
                self._transcript.add_notice(notice.level, with_app_commands(notice.text))
            is_explained = self._is_end_explained and event.outcome is Outcome.MAX_TOKENS
        if note := requests_note(event.api_calls, event.discarded_output_tokens, is_explained=is_explained):
            self._transcript.add_notice("info", note)
        self._status.add_turn(event)
        closing = [closing_text(event, self._changes)]
        if is_cancelled:  # the reason of a wait is last, because a narrow screen cuts it
            closing = ["interrupted while waiting" if self._wait else "interrupted", *closing, self._wait]
        self._wait = ""
        if any(closing):
            self._transcript.add_mark(" · ".join(filter(None, closing)))
        # `/compact` has no `TurnStarted` event, which would reset these for the next turn.
        self._changes = DiffCount()
        self._is_user_turn = False
        self._activity_text = ""

    def _close_cards(self, state: CardState, only: Sequence[str] | None = None) -> None:
        """Set the state of the open cards and close them. `only` is the ids of their calls; None means all."""
        for call_id in tuple(self._open_cards) if only is None else only:
            if call_id in self._open_cards:
                self._transcript.update_card(call_id, CardUpdate(state=state))
                self._withdraw(call_id)
                self._agents.end(call_id)
                del self._open_cards[call_id]

    def _set_activity(self, activity: str, *, is_moving: bool = True) -> None:
        """Show the current activity; the clock restarts only if it changes."""
        self._wait = ""
        if activity != self._activity_text:
            self._activity_text = activity
            text = f"{self._recovery}: {activity}" if self._recovery else activity
            self._status.show_activity(Activity(text, self._clock(), is_moving=is_moving))


_UnshownEvent: TypeAlias = (
    ResultsCommitted
    | HookEnded
    | OutputEscalated
    | StopReasonObserved
    | ContinuationAttempt
    | ContinuationTerminated
    | ToolPayloadRepair
)


def _shown_result(event: ToolFinished, *, is_streamed: bool) -> tuple[str, str]:
    """Return the summary and the output for the card of an ended call; a text that would be in both is in one.

    `is_streamed`: the card already shows the whole output.
    """
    outcome = event.outcome
    # `problems` is the output of formatters and checkers, `shown` the output without notes to the model.
    output = outcome.problems or outcome.shown_text
    if event.state in ("done", "failed"):
        summary = one_line(outcome.summary)
    else:
        reason, output = _reason_not_run(event, output)
        summary = one_line(reason)
        if reason and not outcome.diff:
            # The reason is shown once: in the title if it is one line, otherwise below it.
            summary, output = (summary, "") if summary == reason else ("", output)
    is_diff_enough = bool(outcome.diff) and not outcome.problems
    # The card keeps showing a plan, because the result of its call is only the user's decision.
    is_plan_enough = bool(plan_of(event.call)) and event.state != "denied"
    if is_streamed or is_diff_enough or is_plan_enough:
        return summary, ""
    first_line, _, other_lines = output.partition("\n")
    if summary == one_line(first_line) and not summary.endswith("…"):
        output = other_lines
    return summary, output


def _reason_not_run(event: ToolFinished, output: str) -> tuple[str, str]:
    """Return why a call did not run, empty if its state suffices, and what is left of `output` to show."""
    if event.state == "denied":
        reason = output.partition(": ")[2]  # `Declined: use a copy` becomes `use a copy`; `Declined.` becomes empty
        return reason, reason
    reason = output if event.outcome.shown else ""
    if event.state == "cancelled":
        return reason, ""  # the card shows the state, and the output so far
    return reason, output


def _without_repetition(call: ToolCall, summary: str, state: CallState) -> str:
    """Return the summary without repeated text: the argument on the card, or the to-do list in its panel."""
    argument = main_argument(call)
    if call.name == "todo" and argument and state == "done":
        return ""
    return summary.removeprefix(f"{argument} ") if state == "failed" else summary


def _compaction_text(event: Compacted, *, in_turn: bool) -> str:
    """Return the notice of a compaction. `in_turn`: it happened in a turn of the user, not by `/compact`."""
    change = "older messages summarized" if event.kind == "summary" else "old tool output removed"
    sizes = f"{tokens_text(event.before_tokens)} → {tokens_text(event.after_tokens)} tokens"
    undo = "/undo reverts it with its turn" if in_turn else "/undo reverts this"
    return f"Compacted: {change} ({sizes}). {undo}; the session file keeps everything."


def _show_nothing(event: _UnshownEvent) -> None:
    """Ignore an event that is only logged. The type checker rejects any other event here."""
