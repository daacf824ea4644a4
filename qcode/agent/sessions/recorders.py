"""Records events of a turn that are not in its messages, and ends of background jobs, for a replay of the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qcode.agent.sessions.session import Session, shortened_diff
from qcode.agent.sessions.shown import (
    JOB_ENDED_WITH_QCODE,
    JOB_LEFT,
    JOB_RUNNING,
    ShownItem,
    ShownPrompt,
    ShownQuestion,
    StoredJob,
    Thought,
)
from qcode.protocol.approvals import (
    CallApproval,
    ImpossibleCall,
    PlanApproval,
    Question,
    RepeatedCall,
    ToolApproval,
)
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    Compacted,
    LimitReached,
    Notice,
    OutputEscalated,
    PartialRestored,
    ReplyFinished,
    Retry,
    StepStarted,
    ToolCallProgress,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from qcode.protocol.reply import ReasoningDelta, TextDelta, WebSearched
from qcode.tools.jobs import Job, Jobs
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class _JobStart:
    """The start of a background job."""

    session_id: str
    """The session in which the job started."""
    next_number: int
    """The number of the next message of the session at the start."""
    time: float
    """The time by the clock of the recorder, in seconds."""


class JobRecorder:
    """Records the end of each background job in the session in which it started. `session` returns the open session.

    If a job ends while another session is open, its end is recorded when the user returns. Until then, the state in the
    file is `JOB_LEFT`.
    """

    def __init__(self, jobs: Jobs, session: Callable[[], Session], clock: Callable[[], float]) -> None:
        self._jobs = jobs
        self._session = session
        self._clock = clock
        self._starts: dict[int, _JobStart] = {}
        """The running jobs by number."""
        self._ended_elsewhere: dict[str, list[StoredJob]] = {}
        """The jobs that ended while another session was open, by the id of their session."""
        jobs.record = self._record

    def _record(self, job: Job) -> None:
        """Record that a job started or ended. The start is kept in memory only."""
        session = self._session()
        if job.is_running:
            self._starts[job.number] = _JobStart(session.session_id, session.history.next_number, self._clock())
            session.history.record_job(StoredJob(job.number, session.history.next_number, JOB_RUNNING))
        else:
            # Neither the user nor the model stopped such a job.
            ended_with_qcode = job.problem == "stopped" and not job.is_stopping
            self._record_end(job, JOB_ENDED_WITH_QCODE if ended_with_qcode else job.state)

    def _record_end(self, job: Job, state: str) -> None:
        start = self._starts.pop(job.number, None)
        if start is None:
            return
        session = self._session()
        ended = self._stored_job(job, start, state)
        if start.session_id == session.session_id:
            session.record_shown([ShownItem(ended)])
        else:
            self._ended_elsewhere.setdefault(start.session_id, []).append(ended)

    def _stored_job(self, job: Job, start: _JobStart, state: str) -> StoredJob:
        omitted = job.total - len(job.recent)
        output = f"[... {omitted:,} characters omitted ...]\n{job.recent}" if omitted else job.recent
        return StoredJob(job.number, start.next_number, state, output, round(self._clock() - start.time, 3))

    def follow_session(self, session: Session, *, is_copy: bool) -> None:
        """Prepare for the switch to `session`. With `is_copy`, it gets the running jobs of the open session."""
        previous = self._session()
        for job in self._jobs.running:
            start = self._starts.get(job.number)
            if start is not None and start.session_id == previous.session_id:
                previous.record_shown([ShownItem(self._stored_job(job, start, JOB_LEFT))])
                if is_copy:
                    self._starts[job.number] = replace(start, session_id=session.session_id)
        for number, start in self._starts.items():
            if start.session_id == session.session_id:
                session.history.record_job(StoredJob(number, start.next_number, JOB_RUNNING))
        if ended := self._ended_elsewhere.pop(session.session_id, None):
            session.record_shown([ShownItem(job) for job in ended])

    def close(self) -> None:
        """Record that the running jobs end with qcode. Call it before the session is closed."""
        for job in self._jobs.running:
            self._record_end(job, JOB_ENDED_WITH_QCODE)
        self._starts.clear()


class ShownRecorder:
    """Records the events of one turn that are not part of a message. `prompt` is the prompt as it was shown.

    `record` stores items. It is called after the message to which the items belong is stored.
    """

    def __init__(self, record: Callable[[list[ShownItem]], None], clock: Callable[[], float], prompt: str = "") -> None:
        self._record = record
        self._clock = clock
        self._prompt = prompt
        self._begin_time = clock()
        self._tool_starts: dict[str, float] = {}
        """The start of each running call, by call id."""
        self._asked_calls: dict[str, bool] = {}
        """The calls about which the user is asked, and whether each is the call of a sub-agent."""
        self._waits_since: float | None = None
        """The time at which the turn began to wait only for the user; None if the turn does not wait."""
        self._waited_s = 0.0
        self._pending_items: list[ShownItem] = []
        self._chars = 0
        """The characters of the reply so far."""
        self._thinking_since: float | None = None
        self._has_shown = False
        """Text, reasoning or a call of the current step was shown."""

    def record_event(self, event: TurnEvent) -> TurnEvent:
        """Record an event and return it; the end of a call or of the turn gets its duration."""
        self._add_waited_time()
        recorded = self._record_event(event)
        self._update_wait(event)
        return recorded

    def _record_event(self, event: TurnEvent) -> TurnEvent:
        match event:
            case TurnStarted() if self._prompt:
                self._record([ShownItem(ShownPrompt(self._prompt))])
            case ToolStarted(call=call):
                self._tool_starts[call.call_id] = self._clock()
            case ToolFinished(call=call) if call.call_id in self._tool_starts:
                return replace(event, seconds=self._clock() - self._tool_starts.pop(call.call_id))
            case Notice() | Compacted():
                self._record([ShownItem(event)])
            case ApprovalRequested(approval=approval):
                self._record_question(approval)
            case TurnEnded():
                ended = replace(event, seconds=self._clock() - self._begin_time - self._waited_s)
                self._record([ShownItem(ended)])
                return ended
            case AgentEvent():
                pass
            case _:
                self._record_reply_event(event)
        return event

    def _add_waited_time(self) -> None:
        """Add the time since the last event, if the turn only waited for the user then."""
        if self._waits_since is not None:
            self._waited_s += self._clock() - self._waits_since

    def _update_wait(self, event: TurnEvent) -> None:
        """Note whether the turn only waits for the user after `event`."""
        inner = event.event if isinstance(event, AgentEvent) else event
        match inner:
            case ApprovalRequested(approval=ToolApproval() | RepeatedCall() | ImpossibleCall() as approval):
                self._asked_calls[approval.call.call_id] = bool(approval.agent)
            case ApprovalRequested(approval=Question(server="") | PlanApproval() as approval):
                self._asked_calls[approval.call.call_id] = False
            case ToolStarted(call=call) | ToolFinished(call=call):
                self._asked_calls.pop(call.call_id, None)
            case TurnEnded():
                self._asked_calls.clear()
            case _:
                pass
        # A call whose sub-agent asks the user counts as running, but it only waits.
        asking_agents = sum(self._asked_calls.values())
        waits_for_approval = bool(self._asked_calls) and len(self._tool_starts) <= asking_agents
        waits_for_limit = isinstance(inner, LimitReached) and inner.is_question
        self._waits_since = self._clock() if waits_for_approval or waits_for_limit else None

    def _record_question(self, approval: CallApproval) -> None:
        """Record a question about a call before the user answers it, because qcode may be killed meanwhile."""
        call = approval.call
        match approval:
            case ToolApproval():
                diff = shortened_diff(approval.detail) if approval.kind == "edit" else ""
                question = ShownQuestion(call.call_id, diff, call.arguments if approval.is_revised else "")
            case RepeatedCall() | ImpossibleCall() | Question(server="") | PlanApproval():
                question = ShownQuestion(call.call_id)
            case _:
                return  # a tool server asks during a call that runs
        self._record([ShownItem(question)])

    def _record_reply_event(self, event: TurnEvent) -> None:
        match event:
            case StepStarted():
                self._start_reply()
                self._has_shown = False
            case ReasoningDelta():
                self._has_shown = True
                if self._thinking_since is None:
                    self._thinking_since = self._clock()
            case TextDelta(text=text):
                self._end_thought()
                self._has_shown = True
                self._chars += len(text)
            case ToolCallProgress():
                self._end_thought()
                self._has_shown = True
            case Retry() | PartialRestored():
                self._record_retry(event)
            case OutputEscalated() | WebSearched():
                self._pending_items.append(ShownItem(event, self._chars))
            case ReplyFinished(message=message):
                self._end_thought()
                if message is not None and self._pending_items:
                    self._record(self._pending_items)
                self._start_reply()
            case _:
                pass

    def _record_retry(self, event: Retry | PartialRestored) -> None:
        """Record the position of a retry, or drop the items of the attempt that it replaces."""
        if isinstance(event, PartialRestored):
            self._start_reply()
            self._chars = len(event.text)
            self._pending_items = [ShownItem(PartialRestored(""), self._chars)]
        elif event.is_continuation:
            self._pending_items.append(ShownItem(event, self._chars))
        else:
            self._start_reply()
            # The app removes the label of a retry at the end of the reply if the retry replaced text.
            if not self._has_shown:
                self._pending_items.append(ShownItem(event))

    def _start_reply(self) -> None:
        self._pending_items = []
        self._chars = 0
        self._thinking_since = None

    def _end_thought(self) -> None:
        if self._thinking_since is not None:
            seconds = self._clock() - self._thinking_since
            self._thinking_since = None
            self._pending_items.append(ShownItem(Thought(round(seconds, 3)), self._chars))
