"""Invariants of every reply, with any behavior of the host: one text everywhere, valid histories, correct sums."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.synthetic import ANSWER_NOW, ONE_WELL_FORMED_CALL
from qcode.engine.transcript import without_signals
from qcode.protocol.events import (
    ApprovalRequested,
    ContinuationAttempt,
    OutputEscalated,
    PartialRestored,
    ReplyFinished,
    ResultsCommitted,
    Retry,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnEvent,
)
from qcode.protocol.messages import PLACEHOLDER_KEY, Message, Text, ToolCall, ToolResult, user
from qcode.protocol.reply import Outcome, StopReason, TextDelta
from qcode.text.json import JsonObject, parse_object
from tests.e2e.limits.play import NEXT_PROMPT, PROMPT, REPORT, Played
from tests.e2e.limits.row import Step
from tests.fakes.turns import merged

_SYNTHETIC = ("<text_so_far>", "<json_so_far>", ANSWER_NOW, ONE_WELL_FORMED_CALL)
_COMPLETE = (StopReason.END_TURN, StopReason.TOOL_USE, StopReason.PAUSED, StopReason.UNKNOWN)

MessageContent: TypeAlias = "tuple[str, list[str], list[tuple[str, JsonObject | None]], list[str]]"
"""Role, texts, calls and results of a message."""


def check_invariants(played: Played) -> None:
    """Check all of them, on the turn of the row and on the request that follows it."""
    assert (played.complaints, played.overruns, played.is_through) == ([], 0, True)
    _check_screen(played.events)
    _check_one_text(played)
    _check_requests(played)
    _check_sums(played)
    _check_calls(played)
    _check_history(played)
    _check_synthetic(played)
    assert "\ufffd" not in _all_text(played)


class Screen:
    """A front end that follows the deltas of one step, with retries and restored text."""

    def __init__(self) -> None:
        self._blocks: dict[int, str] = {}
        self.taken_back: list[str] = []

    def follow(self, event: TurnEvent) -> None:
        if isinstance(event, TextDelta):
            self._blocks[event.block] = self._blocks.get(event.block, "") + event.text
        elif isinstance(event, Retry) and not event.is_continuation:
            self.taken_back.append(self.text)
            self._blocks = {}
        elif isinstance(event, PartialRestored):
            self._blocks = {0: event.text}

    @property
    def text(self) -> str:
        return "".join(self._blocks[block] for block in sorted(self._blocks))


def _check_screen(events: Sequence[TurnEvent]) -> None:
    """Shown text is stored; discarded text is replaced by a reply that is complete, or at least as long."""
    screen, is_open = Screen(), False
    for event in events:
        if isinstance(event, StepStarted):
            assert not is_open
            screen, is_open = Screen(), True
        screen.follow(event)
        if isinstance(event, ReplyFinished):
            assert is_open
            is_open = False
            assert screen.text == (event.message.text if event.message else "")
            lost = max((len(text) for text in screen.taken_back), default=0)
            has_calls = event.message is not None and bool(event.message.calls)
            assert has_calls or event.stop in _COMPLETE or len(screen.text) >= lost
    assert not is_open


def _check_one_text(played: Played) -> None:
    """Committed messages are stored, also in the file, and the text of the turn is its last."""
    committed = [
        event.message
        for event in played.events
        if isinstance(event, (ReplyFinished, ResultsCommitted)) and event.message is not None
    ]
    assert played.messages == played.loaded == (user(PROMPT), *committed)
    replies = [event for event in played.events if isinstance(event, ReplyFinished)]
    text, paused = "", ""
    for reply in replies:
        message_text = paused + (reply.message.text if reply.message else "")
        paused = message_text if reply.stop is StopReason.PAUSED else ""
        text = message_text if message_text.strip() else text
    assert played.end.text == text
    assert played.end.replies == played.end.api_calls.initial == len([reply for reply in replies if reply.attempts])


def _check_requests(played: Played) -> None:
    """Every request was counted once, carried a cap, and fitted the window."""
    row, calls = played.row, played.end.api_calls
    attempts = [record for event in played.events if isinstance(event, ReplyFinished) for record in event.attempts]
    assert [asked.cap for asked in played.requests] == [record.max_tokens for record in attempts]
    assert len(played.requests) == calls.total
    escalated = len([event for event in played.events if isinstance(event, OutputEscalated)])
    continued = len([event for event in played.events if isinstance(event, ContinuationAttempt)])
    # Each is reported once, before its request is sent; a cancel in between prevents the last request.
    unsent = escalated + continued - calls.escalations - calls.continuations
    assert unsent in ((0, 1) if played.end.outcome is Outcome.CANCELLED else (0,))
    assert escalated >= calls.escalations
    assert continued >= calls.continuations
    assert calls.escalations <= calls.initial
    assert calls.continuations <= row.settings.max_continuations * calls.initial
    window = row.window or row.facts.context_window or DEFAULT_CONTEXT_WINDOW
    for asked, report in zip(played.requests, played.reports, strict=True):
        assert asked.cap is not None
        assert asked.cap > 0
        if report.input:
            assert report.input + asked.cap <= window


def _check_sums(played: Played) -> None:
    """Usage is the sum of the reports for all requests, and discarded usage is marked."""
    end, reports = played.end, played.reports
    assert (end.usage.input or 0) == sum(report.input or 0 for report in reports)
    assert (end.usage.output or 0) == sum(report.output or 0 for report in reports)
    attempts = [record for event in played.events if isinstance(event, ReplyFinished) for record in event.attempts]
    discarded = [report.output or 0 for record, report in zip(attempts, reports, strict=True) if record.is_discarded]
    assert end.discarded_output_tokens == sum(discarded)


def _check_calls(played: Played) -> None:
    """Each call has one result, only complete calls ran, and approvals were only about calls."""
    for event in played.events:
        if isinstance(event, (ToolStarted, ApprovalRequested)):
            call = event.call if isinstance(event, ToolStarted) else event.approval.call
            arguments = parse_object(call.arguments)
            assert arguments is not None
            assert PLACEHOLDER_KEY not in arguments
            assert _was_sent_whole(played, call, arguments)
    made = [call.call_id for message in played.messages for call in message.calls]
    finished = [event.call.call_id for event in played.events if isinstance(event, ToolFinished)]
    assert finished == made
    started = [event.call.call_id for event in played.events if isinstance(event, ToolStarted)]
    assert len(set(started)) == len(started)


def _was_sent_whole(played: Played, call: ToolCall, arguments: JsonObject) -> bool:
    """Say whether one answer of the host held this call, complete, or its pieces together are it."""
    turns = [step.turn if isinstance(step, Step) else step for step in played.row.script]
    sent = [(item.name, parse_object(item.arguments)) for turn in turns for item in turn.calls]
    if (call.name, arguments) in sent:
        return True
    pieces = "".join(piece for turn in turns[-5:] for piece in turn.text_pieces)
    return played.row.settings.tool_call_repair == "resume" and call.arguments[-3:] in pieces


def _check_history(played: Played) -> None:
    """The next request contains exactly the stored messages, without recorded signals, and a note of the limits."""
    if played.later_requests:
        stored = merged([*without_signals(played.messages, frozenset({REPORT.name})), user(NEXT_PROMPT)])
        *earlier, last = _message_contents(played.later_requests[0].messages)
        assert [*earlier, _without_note(last)] == _message_contents(stored)


def _without_note(saying: MessageContent) -> MessageContent:
    role, texts, calls, results = saying
    return role, [text for text in texts if not text.startswith("[Limits of this task: ")], calls, results


def _message_contents(messages: Sequence[Message]) -> list[MessageContent]:
    """Return role and content of each message: text, calls and results, without ids and thinking.

    Protocols also differ in the separator of two texts of the user and in the form of an error result.
    """
    return [
        (
            message.role,
            [text for text in _texts(message) if text],
            [(call.name, parse_object(call.arguments)) for call in message.calls],
            [block.content.removeprefix("Error: ") for block in message.blocks if isinstance(block, ToolResult)],
        )
        for message in messages
    ]


def _texts(message: Message) -> list[str]:
    texts = [block.text for block in message.blocks if isinstance(block, Text) and block.text.strip()]
    return "\n\n".join(texts).split("\n\n") if message.role == "user" else ["".join(texts)]


def _check_synthetic(played: Played) -> None:
    """No message from qcode itself is stored, or sent in a request that does not need it."""
    sent = [message.text for asked in played.later_requests[:1] for message in asked.messages]
    stored = [message.text for message in played.messages]
    assert [text for text in (*stored, *sent) for mark in _SYNTHETIC if mark in text] == []
    for message in played.messages[1:]:
        if message.role == "user":
            assert all(isinstance(block, ToolResult) for block in message.blocks)


def _all_text(played: Played) -> str:
    text = "".join(event.text for event in played.events if isinstance(event, TextDelta))
    bodies = [json.dumps(asked.body, ensure_ascii=False) for asked in (*played.requests, *played.later_requests)]
    stored = [repr(message) for message in played.messages]
    return "".join([text, *bodies, *stored])
