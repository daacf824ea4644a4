"""A turn with a simulated host, user and tools, checked against the invariants of output recovery.

`World` performs every effect and checks it at once; checks of several effects run when a reply or a turn ends. The
numbers in the comments are those of the invariants.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from qcode.agent.outcomes import AnswerSoFar
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    CancelRequested,
    Compact,
    CompactRequested,
    Effect,
    Emit,
    EndTurn,
    Input,
    ReplyFailed,
    RunTool,
    SendRequest,
    SteerQueued,
    StopRequest,
    ToolEnded,
    TurnSettings,
    UserSubmitted,
    Wait,
)
from qcode.engine.model_facts import KnownModel, Learn
from qcode.engine.reply.phase import Backoff, NeedsCompaction, Streaming
from qcode.engine.turn import Calling, Compacting, Ended, Idle, Replying, ResumeReply, Turn, TurnPhase
from qcode.protocol import events as ev
from qcode.protocol.messages import Message, ToolResult, user
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    Outcome,
    ReasoningDelta,
    ReplyEnded,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.text.json import parse_object
from tests.engine.call_invariants import check_may_be_beside_others, check_repeats, ran_of_this_step
from tests.engine.step_records import Attempt, Step
from tests.engine.summary_invariants import (
    check_compaction,
    check_summary_request,
    merged,
    note_summary,
    total,
    true_size,
)
from tests.engine.wires import Wire

SYNTHETIC = ("<text_so_far>", "<json_so_far>", "Your thinking used up", "Your last tool call could not be parsed")


class World:
    """A conversation of several turns. `queue` has the pending events of the streams."""

    def __init__(self, settings: TurnSettings, model: KnownModel, wire: Wire) -> None:
        self.settings, self.model, self.wire = settings, model, wire
        self._unlearned = model
        self.messages: list[Message] = []
        self.counter = PromptCounter()
        self.queue: deque[Input] = deque()
        self.turn: Turn | None = None
        self.number = 0
        self.reset_turn()

    def reset_turn(self) -> None:
        self.steps: list[Step] = []
        self.answer = AnswerSoFar()
        self.to_answer: ModelRequest | None = None
        self.asking: list[AskApproval] = []
        self.running: list[RunTool] = []
        self.same: list[tuple[str, str, str]] = []
        self.is_waiting = False
        self.requests = 0
        self.ended: ev.TurnEnded | None = None
        self.appended: list[Message] = []
        self.steered = 0
        self.is_summarizing = False
        self.summaries: list[Usage] = []

    @property
    def step(self) -> Step:
        return self.steps[-1]

    @property
    def attempt(self) -> Attempt:
        return self.step.attempts[-1]

    # Inputs

    def forget(self) -> None:
        """Begin a new conversation without learned limits."""
        self.model = self._unlearned
        self.messages = []
        self.counter = PromptCounter()

    def submit(self, prompt: str) -> None:
        self._begin(UserSubmitted(user(prompt)))

    def _begin(self, first: Input) -> None:
        self.reset_turn()
        self.number += 1
        self.turn = Turn(self.settings, self.model, self.messages, self.counter, number=self.number)
        self.give(first)

    def compact(self, focus: str) -> None:
        """Request a compaction as the user, which is a separate turn."""
        self._begin(CompactRequested(focus))

    def feed(self, count: int) -> None:
        while count and self.queue:
            count -= 1
            given = self.queue.popleft()
            if self.is_summarizing:
                note_summary(self, given)
            else:
                self._note(given)
            self.give(given)

    def cancel(self) -> None:
        sent = self.requests
        self.queue.clear()
        self.is_waiting = False
        self.give(CancelRequested())
        assert self.requests == sent, "a request after a cancel"
        assert self.ended is not None, "a cancel that did not end the turn"
        assert self.ended.outcome is Outcome.CANCELLED

    def steer(self, text: str) -> None:
        self.steered += 1
        self.give(SteerQueued(text))

    def answer_approval(self, at: int, is_allowed: bool, text: str = "") -> None:
        asking = self.asking.pop(at % len(self.asking))
        if is_allowed and asking.repeats and not text:
            self.same.clear()
            self.step.outcomes.clear()
        self.give(ApprovalAnswered(asking.call.call_id, is_allowed, text=text))

    def end_tool(self, at: int, outcome: ToolOutcome) -> None:
        run = self.running.pop(at % len(self.running))
        self.step.outcomes[run.call.call_id] = outcome.content
        self.give(ToolEnded(run.call.call_id, outcome))

    def give(self, given: Input) -> None:
        assert self.turn is not None
        for effect in self.turn.handle(given, float(self.requests)):
            self._perform(effect)
        self._check_phase(self.turn.phase)

    def _check_phase(self, phase: TurnPhase) -> None:
        """Assert that the phase of the turn names the pending work."""
        is_streaming = self.to_answer is not None or bool(self.queue)
        match phase:
            case Replying(reply):
                waits = type(reply.phase)
                assert waits in (Streaming, Backoff), phase
                assert is_streaming == (waits is Streaming), phase
                assert self.is_waiting == (waits is Backoff), phase
            case Calling():
                assert self.asking or self.running, phase
                assert not is_streaming, phase
            case Compacting(then=then):
                assert self.is_summarizing, phase
                assert is_streaming != self.is_waiting, phase
                assert not isinstance(then, ResumeReply) or isinstance(then.reply.phase, NeedsCompaction), phase
            case Ended(outcome):
                assert self.ended is not None, phase
                assert self.ended.outcome is outcome, phase
            case Idle():
                raise AssertionError("the turn did not begin")

    def _note(self, given: Input) -> None:
        attempt = self.attempt
        match given:
            case UsageReported():
                attempt.usage = merged(attempt.usage, given.usage)
            case ToolCallStarted():
                attempt.calls[given.call_id] = ""
                attempt.blocks[given.block] = given.call_id
            case ToolArgsDelta():
                attempt.calls[attempt.blocks[given.block]] += given.text
            case TextDelta():
                attempt.text += given.text
            case ReplyEnded():
                attempt.ended = given
            case ReplyFailed():
                attempt.has_failed = True
            case _:
                pass

    # Effects

    def _perform(self, effect: Effect) -> None:
        assert self.turn is not None
        assert self.ended is None or isinstance(effect, EndTurn), f"after the end: {effect}"
        match effect:
            case Emit():
                self.answer.observe(effect.event)
                self._seen(effect.event)
            case SendRequest(is_summary=True):
                check_summary_request(self, effect.request)
            case SendRequest():
                self.is_summarizing = False
                self._send(effect.request)
            case StopRequest():
                assert self.to_answer is None
                self.queue.clear()
                if not self.is_summarizing:
                    self.attempt.has_failed = True
            case AskApproval():
                self._may_run(effect)
                check_may_be_beside_others(self, effect.call.name)
                self.step.asked.append(effect.call.call_id)
                self.asking.append(effect)
                check_repeats(self, effect)
            case RunTool():
                self._may_run(effect)
                assert effect.call.call_id in self.step.asked
                self.step.ran.append(effect.call.call_id)
                check_may_be_beside_others(self, effect.call.name)
                self.running.append(effect)
            case Wait():
                assert effect.seconds >= 0
                self.is_waiting = True
            case Append():
                self.appended.append(effect.message)
                self.messages.append(effect.message)
                message = "".join(getattr(block, "text", "") for block in effect.message.blocks)
                assert not any(mark in message for mark in SYNTHETIC), "2: a synthetic message was stored"
            case Compact():
                check_compaction(self, effect)
            case Learn():
                self.model = self.model.with_fact(effect)
            case EndTurn():
                assert self.ended is not None

    def _send(self, request: ModelRequest) -> None:
        assert self.to_answer is None, "two requests at once"
        assert not self.queue, "a request while another streams"
        self.requests += 1
        self.to_answer = request
        is_first = not self.step.attempts
        self.step.attempts.append(Attempt(request))
        texts = [message.text for message in request.messages]
        marks = sum(text.count(mark) for text in texts for mark in SYNTHETIC)
        assert marks <= (0 if is_first else 1), "2: a synthetic message outside the request that needs it"
        roles = [message.role for message in request.messages]
        assert roles[0] == "user", "3"
        assert all(left != right for left, right in pairwise(roles)), f"3: {roles}"
        complaint = self.wire.complaint(request)
        assert complaint is None, f"3: {complaint}"
        assert request.max_tokens > 0
        window = self.model.window or DEFAULT_CONTEXT_WINDOW
        assert true_size(request) + request.max_tokens <= window, "9: prompt and cap exceed the window"
        self._count_requests()

    def _count_requests(self) -> None:
        step, output = self.step, self.settings.output
        assert step.escalations <= 1, "4"
        assert step.continuations <= output.max_continuations, "4"
        assert step.repairs <= 1 + 3, "4"
        failures = sum(attempt.has_failed for attempt in step.attempts)
        length_driven = 1 + step.escalations + step.continuations
        # A full window is compacted at most once for each reply, which then continues.
        made_room = self.settings.compaction is not None
        assert len(step.attempts) <= length_driven + step.repairs + failures + made_room, "4: a request without a cause"

    def _may_run(self, effect: AskApproval | RunTool) -> None:
        """Assert 5: the call is of the last attempt, which has ended, and its arguments are complete and unchanged."""
        call = effect.call
        finished = self.step.finished
        assert finished is not None, "5: a call of a reply that is not decided"
        pairs = zip(self.step.attempts, finished.attempts, strict=True)
        source = next(attempt for attempt, record in pairs if call.call_id in attempt.calls and not record.is_discarded)
        assert source.ended is not None, "5: a call of a stream that never ended"
        raw = source.calls[call.call_id]
        spec = next(tool for tool in self.settings.tools if tool.name == call.name)
        arguments = parse_object(call.arguments)
        assert arguments is not None, "5: the arguments are not a JSON object"
        assert effect.arguments == arguments
        assert all(name in arguments for name in spec.required), "5: required arguments are missing"
        if self.settings.output.tool_call_repair == "reject":
            assert call.arguments == (raw if raw.strip() else "{}"), "5: repaired arguments"
        else:
            assert call.arguments.startswith(raw.rstrip()) or parse_object(raw) is not None
        assert call.call_id not in self.step.ran, "a call that runs twice"

    def _seen(self, event: ev.TurnEvent) -> None:
        step = self.steps[-1] if self.steps else Step()
        match event:
            case ev.CompactionStarted():
                assert not self.is_summarizing, "two compactions at once"
                self.is_summarizing = True
            case ev.Compacted():
                self.is_summarizing = False
            case ev.StepStarted():
                self.is_summarizing = False
                self._check_calls_answered()
                self.steps.append(Step())
            case TextDelta() | ReasoningDelta():
                assert step.finished is None, "8: text behind a finished reply"
                assert "\N{REPLACEMENT CHARACTER}" not in event.text, "12"
                if isinstance(event, TextDelta):
                    step.shown += event.text
            case ev.Retry():
                assert step.finished is None, "8"
                step.repairs += event.reason in ("thinking", "call")
                if not event.is_continuation:
                    assert not (self.settings.output.is_append_only and step.shown.strip()), "8: text taken back"
                    step.taken_back.append((step.shown, len(step.attempts)))
                    step.shown = ""
            case ev.PartialRestored():
                assert step.finished is None, "8"
                assert not (self.settings.output.is_append_only and event.text.strip()), "8: text put back"
                step.shown = event.text
            case ev.OutputEscalated():
                step.escalations += 1
                assert event.to_tokens >= self.settings.output.min_escalation_gain * event.from_tokens
            case ev.ContinuationAttempt():
                step.continuations += 1
                assert event.index == step.continuations, "11"
            case ev.ContinuationTerminated():
                step.terminations += 1
            case ev.ToolFinished():
                assert event.call.call_id not in step.settled, "3: two results for one call"
                step.settled.append(event.call.call_id)
            case ev.ReplyFinished():
                self.is_summarizing = False
                assert step.finished is None, "7: two ReplyFinished"
                step.finished = event
                self._check_reply(step, event)
            case ev.TurnEnded():
                self.ended = event
                self._check_turn(event)
            case _:
                pass

    # Checks at the end

    def _check_reply(self, step: Step, finished: ev.ReplyFinished) -> None:
        text = finished.message.text if finished.message else ""
        if finished.message is None or step.shown.strip():
            assert text == (step.shown if text or step.shown.strip() else ""), "1: shown and stored differ"
        if finished.message is not None:
            assert self.appended[-1] is finished.message, "1: committed something else"
        kept_parts = [record for record in finished.attempts if not record.is_discarded]
        assert len(finished.attempts) == len(step.attempts)
        assert not text.strip() or kept_parts, "text of nothing but discarded attempts"
        for taken, count in step.taken_back:
            later = step.attempts[count:]
            has_whole = any(
                attempt.ended is not None
                and attempt.ended.stop not in (StopReason.REFUSAL, StopReason.CONTEXT_WINDOW_EXCEEDED)
                and (attempt.text.strip() or attempt.calls)
                for attempt in later
            )
            assert len(text) >= len(taken.rstrip()) or has_whole, "6: shown text was lost"
        self._check_stop(step, finished)

    def _check_stop(self, step: Step, finished: ev.ReplyFinished) -> None:
        """Assert 7: the stop reason is the true one."""
        ended = [attempt for attempt in step.attempts if attempt.ended is not None]
        if finished.stop is StopReason.MAX_TOKENS:
            cut_or_open = [a for a in ended if a.is_cut or (a.calls and a.usage.output is None)]
            assert cut_or_open, "7: cut without a cut"
        elif finished.stop is StopReason.CONTEXT_WINDOW_EXCEEDED:
            pass
        elif finished.stop is not None:
            assert finished.stop in [a.ended.stop for a in ended if a.ended] or finished.stop is StopReason.TOOL_USE
        is_recovered = step.escalations + step.continuations > 0
        assert step.terminations <= 1, "11"
        assert step.terminations == 1 or not is_recovered, "11: recovery without an ending"

    def _check_calls_answered(self) -> None:
        if not self.steps or self.step.finished is None or self.step.finished.message is None:
            return
        calls = [call.call_id for call in self.step.finished.message.calls]
        if calls:
            results = [block.call_id for block in self.messages[-1].blocks if isinstance(block, ToolResult)]
            assert results == calls, "3: each call has one result, in order"
            assert sorted(self.step.settled) == sorted(calls)
            assert set(self.step.ran) <= set(self.step.asked) <= set(calls)
            self.same += ran_of_this_step(self)
            self.step.outcomes.clear()

    def _check_turn(self, ended: ev.TurnEnded) -> None:
        self._check_calls_answered()
        finished = [step.finished for step in self.steps]
        assert all(item is not None for item in finished), "7: a reply without ReplyFinished"
        counts = ended.api_calls
        attempts = [attempt for step in self.steps for attempt in step.attempts]
        assert counts.compactions == len(self.summaries)
        assert counts.total == len(attempts) + len(self.summaries) == self.requests
        assert counts.initial == ended.replies == sum(bool(step.attempts) for step in self.steps)
        assert counts.escalations == sum(step.escalations for step in self.steps), "11"
        assert counts.continuations == sum(step.continuations for step in self.steps), "11"
        assert counts.repairs == sum(step.repairs for step in self.steps)
        used = [*(attempt.usage for attempt in attempts), *self.summaries]
        assert ended.usage == total(used), "10: usage is not the sum"
        assert ended.text == self._expected_answer(), "1: the piped text is another"
        is_paused = any(item and item.stop is StopReason.PAUSED for item in finished)
        is_known = is_paused or not self.answer.text.strip()
        assert is_known or self.answer.text == ended.text, "1: a front end would print another text"
        last = attempts[-1] if attempts else None
        if ended.outcome is Outcome.END_TURN and last is not None and last.is_cut:
            assert last.calls, "7: a cut reply passed off as complete"

    def _expected_answer(self) -> str:
        answer = paused = ""
        for step in self.steps:
            assert step.finished is not None
            text = paused + (step.finished.message.text if step.finished.message else "")
            is_paused = step.finished.stop is StopReason.PAUSED and not (
                step.finished.message and step.finished.message.calls
            )
            paused = text if is_paused else ""
            answer = text if text.strip() else answer
        return answer
