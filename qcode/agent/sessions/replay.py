"""Converts stored messages, and the events stored with them, back to the events of their turns.

A front end shows these events like those of a running turn, so a resumed session looks as before. Pure. Messages
stored by an older version are replayed from their blocks alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from qcode.agent.sessions.history import AgentWork, StoredMessage
from qcode.agent.sessions.loader import INTERRUPTED, NEVER_RUN, NOT_RUN_IN_COPY, UNKNOWN_IN_COPY
from qcode.agent.sessions.shown import (
    JOB_ENDED_WITH_QCODE,
    JOB_LEFT,
    JOB_RUNNING,
    ShownQuestion,
    ShownResult,
    StoredJob,
    Thought,
)
from qcode.protocol.events import (
    AgentEvent,
    AttemptRecord,
    CallState,
    Compacted,
    Notice,
    OutputEscalated,
    PartialRestored,
    ReplyFinished,
    Retry,
    StepStarted,
    ToolCallProgress,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    inner_id,
)
from qcode.protocol.messages import Message, Reasoning, Text, ToolCall, ToolResult, typed_text
from qcode.protocol.reply import Outcome, ReasoningDelta, TextDelta, WebSearched
from qcode.protocol.tools import ToolOutcome
from qcode.tools.dialog import plan_of
from qcode.tools.shell import background_job
from qcode.values import dataclass

ENDED_UNANSWERED = "qcode ended before you answered"
"""Why a call did not run if qcode was killed while the question about it was open."""
_COPIED_UNANSWERED = "the conversation was copied before you answered"
_UNFINISHED = (INTERRUPTED, NEVER_RUN, UNKNOWN_IN_COPY, NOT_RUN_IN_COPY)
"""The beginnings of the results that a resumed session adds to calls without one."""


@dataclass(frozen=True, slots=True)
class ReplayedPrompt:
    """A message of the user. `typed_text` is the text that was shown, empty if it is the text of the message.

    `jobs` are the background jobs of the calls and `!` commands before the message, by number.
    """

    message: Message
    typed_text: str = ""
    jobs: Mapping[int, StoredJob] = field(default_factory=dict)


ReplayItem: TypeAlias = TurnEvent | ReplayedPrompt | Thought
"""An item of a replay. A `Thought` has the duration of the reasoning before it."""


def replay_messages(messages: Sequence[StoredMessage]) -> Iterator[ReplayItem]:
    """Yield the items to show for stored messages, in their original order."""
    step = 0
    for index, stored in enumerate(messages):
        message = stored.entry.message
        if message.role == "assistant":
            step += 1
            yield StepStarted(step)
            yield from _reply(stored)
            following = messages[index + 1].entry.message if index + 1 < len(messages) else None
            yield from _calls(stored, following)
        else:
            yield ReplayedPrompt(message, stored.shown_prompt, stored.jobs)
            if stored.is_turn_start:
                step = 0
                yield TurnStarted(typed_text(message))
        for item in stored.shown_events:
            if isinstance(item.event, (Notice, Compacted, TurnEnded)) and not item.is_undone:
                yield item.event


@dataclass(frozen=True, slots=True)
class _Mark:
    """An event that was shown inside a reply, after `offset` characters of its text."""

    offset: int
    event: Retry | OutputEscalated | PartialRestored


def _reply(stored: StoredMessage) -> Iterator[ReplayItem]:
    """Yield the blocks of a reply, with marks such as `Retry` at their positions in the text."""
    message = stored.entry.message
    marks = [
        _Mark(item.offset, item.event)
        for item in stored.shown_events
        if isinstance(item.event, (Retry, OutputEscalated, PartialRestored))
    ]
    is_interrupted = any(
        isinstance(item.event, TurnEnded) and item.event.outcome is Outcome.CANCELLED for item in stored.shown_events
    )
    thoughts = [item.event for item in stored.shown_events if isinstance(item.event, Thought)]
    thoughts.reverse()  # the next one is taken from the end
    text_length = 0
    is_thinking = False
    for number, block in enumerate(message.blocks):
        if is_thinking and not isinstance(block, Reasoning):
            is_thinking = False
            if thoughts:
                yield thoughts.pop()
        match block:
            case Reasoning(text=text) if text:
                is_thinking = True
                yield ReasoningDelta(number, text)
            case Text(text=text):
                yield from _text_with_marks(number, text, text_length, marks, is_interrupted=is_interrupted)
                text_length += len(text)
            case ToolCall():
                while marks and marks[0].offset <= text_length:
                    yield marks.pop(0).event
                yield ToolCallProgress(number, block.call_id, block.name, len(block.arguments))
            case _:
                pass
    if is_thinking and thoughts:
        yield thoughts.pop()
    # Left if the reply has no text, or if its text became shorter because a secret was removed.
    yield from (mark.event for mark in marks)
    yield from (item.event for item in stored.shown_events if isinstance(item.event, WebSearched))
    yield _finished_reply(message, tuple(stored.entry.attempts), stored.entry.note)


def _text_with_marks(
    number: int, text: str, start: int, marks: list[_Mark], *, is_interrupted: bool
) -> Iterator[ReplayItem]:
    """Yield block `number`, which begins after `start` characters of the reply, with the marks in its text.

    These marks are removed from `marks`.
    """
    shown = 0  # the characters of `text` that were yielded
    while marks and marks[0].offset <= start + len(text):
        mark = marks.pop(0)
        position = max(shown, mark.offset - start)
        text_before = text[shown:position]
        shown = position
        if isinstance(mark.event, PartialRestored):
            yield replace(mark.event, text=text_before, is_interrupted=is_interrupted)
            continue
        if text_before:
            yield TextDelta(number, text_before)
        yield mark.event
    if text[shown:]:
        yield TextDelta(number, text[shown:])


def _finished_reply(message: Message, attempts: tuple[AttemptRecord, ...] = (), note: str = "") -> ReplyFinished:
    """Return the end of a stored reply. The stop reason and the number of attempts do not matter for a replay."""
    return ReplyFinished(stop=None, raw_stop="", parts=1, message=message, attempts=attempts, note=note)


def _calls(stored: StoredMessage, following: Message | None) -> Iterator[ReplayItem]:
    """Yield the calls of a reply with their results, which are in the next message unless the process ended."""
    results = {
        block.call_id: block for block in (following.blocks if following else ()) if isinstance(block, ToolResult)
    }
    for call in stored.entry.message.calls:
        result = results.get(call.call_id) or stored.results.get(call.call_id)
        stored_result = stored.shown_results.get(call.call_id)
        question = stored.question_about(call.call_id)
        if stored_result is not None:
            edited = stored_result.ran_arguments
        elif call.call_id in stored.edited_arguments:
            edited = stored.edited_arguments[call.call_id]
        else:
            edited = "" if question is None else question.arguments
        if edited:
            call = replace(call, arguments=edited)
        if stored_result is None or stored_result.state not in ("denied", "rejected"):
            yield ToolStarted(call)
        is_interrupted = stored_result is None and _is_interrupted(result)
        text = result.content if result is not None else ""
        yield from _agent_events(call.call_id, stored, text if is_interrupted else None)
        has_begun = call.call_id in stored.intents
        if is_interrupted:
            finished = _interrupted(call, text, question, is_revised=bool(edited), has_begun=has_begun)
        else:
            finished = _finished(call, result, stored_result)
        ended = ended_job(finished.outcome.summary, stored.jobs)
        if ended is None:
            yield finished
        else:
            yield from _job_events(finished, ended)


def ended_job(summary: str, jobs: Mapping[int, StoredJob]) -> StoredJob | None:
    """Return the job to which a command with this summary was moved, if it no longer runs; otherwise None."""
    number = background_job(summary)
    if number is None:
        return None
    job = jobs.get(number, StoredJob(number, 0, JOB_ENDED_WITH_QCODE))
    return None if job.state == JOB_RUNNING else job


def job_call_state(job: StoredJob) -> CallState:
    """Return the state of the command of an ended job."""
    if job.state == "exit 0":
        return "done"
    if job.state == JOB_LEFT or job.state.startswith("stopped"):
        return "cancelled"
    return "failed"


def _job_events(finished: ToolFinished, job: StoredJob) -> Iterator[ReplayItem]:
    """Yield the end of a call whose command ended as a background job, with its latest output."""
    call = finished.call
    state = job_call_state(job)
    output = job.output or finished.outcome.shown or ""
    # The call ended when its command moved to the background.
    seconds = (finished.seconds or 0.0) + job.seconds
    if state == "cancelled":
        if output:
            yield ToolOutput(call.call_id, output)
        outcome = ToolOutcome("", shown=job.state)
    else:
        outcome = ToolOutcome(output, state == "failed", job.state, shown=output)
    yield ToolFinished(call, replace(outcome, sandbox=finished.outcome.sandbox), state, seconds)


def _is_interrupted(result: ToolResult | None) -> bool:
    """Return whether a call has no result, or only the text for the model that a resumed session adds."""
    return result is None or (result.is_error and result.content.startswith(_UNFINISHED))


def _interrupted(
    call: ToolCall, text: str, question: ShownQuestion | None, *, is_revised: bool, has_begun: bool
) -> ToolFinished:
    """Return the end of a call during which qcode was killed, or the session copied, with `text` for the model.

    `question` is the last question about the call.
    """
    diff = "" if question is None else question.diff
    is_copied = text.startswith((UNKNOWN_IN_COPY, NOT_RUN_IN_COPY))
    if has_begun:
        summary = (UNKNOWN_IN_COPY if is_copied else INTERRUPTED).partition(":")[0]
        outcome = ToolOutcome("", is_error=True, summary=summary, diff=diff, shown="")
        return ToolFinished(call, outcome, "failed", is_revised=is_revised)
    unanswered = _COPIED_UNANSWERED if is_copied else ENDED_UNANSWERED
    outcome = ToolOutcome("", is_error=True, diff=diff, shown="" if question is None else unanswered)
    return ToolFinished(call, outcome, "rejected", is_revised=is_revised)


def _finished(call: ToolCall, result: ToolResult | None, stored_result: ShownResult | None) -> ToolFinished:
    content = "" if result is None else result.content
    is_error = result is not None and result.is_error
    if stored_result is None:
        return ToolFinished(call, ToolOutcome(content, is_error), "failed" if is_error else "done")
    outcome = ToolOutcome(
        content,
        is_error,
        stored_result.summary,
        stored_result.diff,
        shown=stored_result.output,
        problems=stored_result.problems,
        sandbox=stored_result.sandbox,
        files_without_diff=stored_result.files_without_diff,
    )
    return ToolFinished(
        call, outcome, stored_result.state, stored_result.seconds, is_revised=bool(stored_result.ran_arguments)
    )


def _agent_events(call_id: str, stored: StoredMessage, unfinished: str | None) -> Iterator[AgentEvent]:
    """Yield the work of the sub-agent that a call started, as far as it was stored.

    `unfinished`: the text for the model if qcode was killed during the call, so that calls of the sub-agent may lack a
    result; otherwise None.
    """
    inner = stored.agent_work.get(call_id, AgentWork())
    calls: dict[str, ToolCall] = {}
    step = 0
    for message in (item.message for item in inner.messages):
        if message.role == "assistant":
            step += 1
            calls = {call.call_id: inner.as_run(call) for call in message.calls}
            yield AgentEvent(call_id, StepStarted(step))
            yield AgentEvent(call_id, _finished_reply(message))
        for block in message.blocks:
            if isinstance(block, ToolResult) and block.call_id in calls:
                outcome = ToolOutcome(block.content, block.is_error)
                state: CallState = "failed" if block.is_error else "done"
                is_revised = block.call_id in inner.edited_arguments
                call = calls.pop(block.call_id)
                yield AgentEvent(call_id, ToolFinished(call, outcome, state, is_revised=is_revised))
            elif isinstance(block, Text) and step == 0:
                yield AgentEvent(call_id, TurnStarted(block.text))
    if unfinished is None:
        return
    for call in calls.values():
        question = stored.question_about(inner_id(call_id, call.call_id))
        if question is not None and question.arguments:
            call = replace(call, arguments=question.arguments)
        finished = _interrupted(
            call,
            unfinished,
            question,
            is_revised=call.call_id in inner.edited_arguments,
            has_begun=call.call_id in inner.intents,
        )
        content = finished.outcome.summary or finished.outcome.shown or ""
        yield AgentEvent(call_id, replace(finished, outcome=replace(finished.outcome, content=content)))


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan of the model, as Markdown."""

    text: str
    is_approved: bool
    summary: str = ""
    """The state in words; for an approved plan it names the chosen mode."""
    is_declined: bool = False

    @property
    def heading(self) -> str:
        """The state of the plan, as a title."""
        if self.is_approved:
            return self.summary or "Plan approved"
        return "Plan declined" if self.is_declined else "Plan, not approved"


def plans_in(messages: Sequence[StoredMessage]) -> list[StoredPlan]:
    """Return the plans of a conversation, the oldest first."""
    plans: list[StoredPlan] = []
    for stored in messages:
        for call in stored.entry.message.calls:
            plan = plan_of(call).strip()
            result = stored.shown_results.get(call.call_id)
            if plan and result is None:
                plans.append(StoredPlan(plan, is_approved=False))
            elif plan and result is not None:
                is_approved = result.state == "done"
                plans.append(StoredPlan(plan, is_approved, result.summary, is_declined=result.state == "denied"))
    return plans
