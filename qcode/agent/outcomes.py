"""Sentences about a turn for every front end: its end (exit code, `subtype`), retries, waits, hooks and searches.

Scripts rely on the tables of exit codes and subtypes. Each line for stderr states the problem and, if possible, a
remedy, such as the flags that would have allowed denied calls. `AnswerSoFar` collects the answer of a running turn
from its events, for a caller that stops before the end.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from math import ceil
from typing import assert_never

from qcode.protocol.approvals import (
    Answer,
    CallApproval,
    Decision,
    Deny,
    ImpossibleCall,
    PlanApproval,
    Question,
    RateLimitApproval,
    RepeatedCall,
    ToolApproval,
    TurnApproval,
)
from qcode.protocol.errors import ErrorInfo, ErrorKind, ExitCode
from qcode.protocol.events import (
    ApiCalls,
    HookEnded,
    HookStarted,
    LimitReached,
    ModelFellBack,
    Notice,
    PartialRestored,
    ReplyFinished,
    Retry,
    StepStarted,
    TurnEnded,
    TurnEvent,
    Waiting,
)
from qcode.protocol.reply import Limit, Outcome, StopReason, TextDelta, WebSearched
from qcode.text.clean import one_line, quoted_line, single_spaced, visible
from qcode.text.numbers import count_text, duration_text, retry_countdown

_CODE_BY_OUTCOME: Mapping[Outcome, ExitCode] = {
    Outcome.END_TURN: ExitCode.OK,
    Outcome.MAX_TOKENS: ExitCode.INCOMPLETE,
    Outcome.MAX_TURN_REQUESTS: ExitCode.LIMIT_REACHED,
    Outcome.REFUSAL: ExitCode.REFUSED,
    Outcome.CANCELLED: ExitCode.INTERRUPTED,
}
# Every other kind of error has the code `FAILED`. The last three kinds are detected before any request is sent.
_CODE_BY_ERROR_KIND: Mapping[str, ExitCode] = {
    ErrorKind.NO_CREDENTIAL: ExitCode.NO_CREDENTIAL,
    ErrorKind.AUTH: ExitCode.NO_CREDENTIAL,
    ErrorKind.CONTEXT_OVERFLOW: ExitCode.BAD_INPUT,
    ErrorKind.PROMPT_BLOCKED: ExitCode.DENIED,
    **{kind: ExitCode.TRANSIENT for kind in ErrorKind if kind.is_transient},
    "bad_input": ExitCode.BAD_INPUT,
    "bad_config": ExitCode.BAD_CONFIG,
    "usage": ExitCode.USAGE,
}
_SUBTYPES: Mapping[Outcome, str] = {
    Outcome.MAX_TOKENS: "error_max_tokens",
    Outcome.REFUSAL: "error_refusal",
    Outcome.CANCELLED: "error_cancelled",
    Outcome.ERROR: "error_during_execution",
}
_LIMIT_SUBTYPES: Mapping[Limit | None, str] = {
    None: "error_max_turns",
    Limit.TURNS: "error_max_turns",
    Limit.TOOL_CALLS: "error_max_tool_calls",
    Limit.COST: "error_max_budget_usd",
    Limit.TIME: "error_timeout",
}
_UNMET_SCHEMA = "error_max_structured_output_retries"
SUBTYPES = ("success", *_SUBTYPES.values(), *dict.fromkeys(_LIMIT_SUBTYPES.values()), _UNMET_SCHEMA)
"""Every `subtype` of a result."""


def exit_code(ended: TurnEnded) -> ExitCode:
    """Return the exit code of a turn; a cancelled turn counts as interrupted (130)."""
    if ended.outcome is Outcome.ERROR:
        return _error_code(ended)
    if is_denied(ended):
        return ExitCode.DENIED
    return _CODE_BY_OUTCOME[ended.outcome]


def is_denied(ended: TurnEnded) -> bool:
    """Return whether the turn ended without an answer because calls were denied."""
    return ended.outcome is Outcome.END_TURN and bool(ended.denials) and not ended.is_answered


def subtype(ended: TurnEnded) -> str:
    """Return the `subtype` of the result: `success` exactly if the exit code is 0."""
    if is_denied(ended):
        return "error_during_execution"
    if ended.outcome is Outcome.MAX_TURN_REQUESTS:
        return _LIMIT_SUBTYPES[ended.limit]
    if ended.error is not None and ended.error.kind == ErrorKind.STRUCTURED_OUTPUT:
        return _UNMET_SCHEMA
    return _SUBTYPES.get(ended.outcome, "success")


def reported_error(ended: TurnEnded) -> ErrorInfo | None:
    """Return the error of the result: the error of the turn, `denied` for denied calls, or a reached limit."""
    if ended.error is None and is_denied(ended):
        return ErrorInfo("denied", "the turn ended on denied calls, without an answer")
    if ended.error is None and ended.outcome is Outcome.MAX_TURN_REQUESTS:
        return ErrorInfo(ErrorKind.BUDGET, _turn_limit_text(ended))
    return ended.error


def signal_code(number: int) -> ExitCode:
    """Return the exit code after a signal: 130 for Ctrl+C, 143 for any other request to stop."""
    return ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.TERMINATED


def _error_code(ended: TurnEnded) -> ExitCode:
    kind = ended.error.kind if ended.error else ""
    if kind == ErrorKind.CONTEXT_OVERFLOW and ended.text:
        return ExitCode.INCOMPLETE
    return _CODE_BY_ERROR_KIND.get(kind, ExitCode.FAILED)


UNAPPROVED = "not run: the call needs approval, no rule allows it, and this run is not interactive"
"""The result of a call that needs an approval, in a run without a user."""

UNANSWERED = (
    "No answer: this run is not interactive. Choose the most likely intention, continue, and state your assumption in "
    "your answer."
)
"""The result of a question of the model, in a run without a user."""

CHANGE_APPROACH = (
    "Not run: the same call has returned the same result several times in a row. Try a different approach, or explain "
    "in your answer what blocks you."
)
"""The result of a repeated call, in a run without a user."""


def decision_without_user(approval: CallApproval) -> Decision:
    """Return the decision for an approval in a run without a user."""
    match approval:
        case Question():
            return Answer(UNANSWERED)
        case RepeatedCall():
            return Answer(CHANGE_APPROACH)
        case ImpossibleCall():
            return Deny()
        case ToolApproval() | PlanApproval():
            return Deny(UNAPPROVED)


def stops_turn(approval: TurnApproval, decision: Decision) -> bool:
    """Return whether a user's decision cancels the turn: a No without a reason to `ImpossibleCall`.

    The front end cancels the turn instead of passing this decision on, because the turn would end with an error, as in
    a run without a user.
    """
    return isinstance(approval, ImpossibleCall) and decision == Deny()


_LIMIT_FLAGS: Mapping[Limit, str] = {
    Limit.TURNS: "--max-turns",
    Limit.TOOL_CALLS: "--max-tool-calls",
    Limit.COST: "--max-budget-usd",
    Limit.TIME: "--timeout",
}
_LIMIT_NAMES: Mapping[Limit, str] = {
    Limit.TURNS: "limit of model replies",
    Limit.TOOL_CALLS: "limit of tool calls",
    Limit.COST: "cost limit",
    Limit.TIME: "time limit",
}
MIN_NAMED_WAIT_S = 60.0
"""The shortest wait for which a message names the time at which the rate limit ends."""
UNEXPECTED_END = "The turn stopped unexpectedly. Everything shown is kept. Send the prompt again."
"""The notice of the app if a conversation yields no `TurnEnded`."""


_RETRY_CAUSES = {
    "max_tokens": "truncated at the output limit",
    "transport": "connection lost",
    "thinking": "thinking used up the output limit",
    "call": "a tool call was incomplete",
    "context": "context window full",
    "fallback": "another model takes over",
}


def retry_cause(retry: Retry, cap: int | None = None) -> str:
    """Return the cause of a retry, such as `truncated at 8,000 tokens`.

    `cap` is the output cap of the attempt before.
    """
    if retry.reason == "max_tokens" and cap:
        return f"truncated at {cap:,} tokens"
    return _RETRY_CAUSES.get(retry.reason, retry.reason)


def retry_text(retry: Retry, cap: int | None = None) -> str:
    """Return the cause of a retry and what happens now, such as `connection lost; retrying`, for every front end."""
    continued = f"continuing, attempt {retry.attempt}"
    match retry.reason, retry.is_continuation:
        case "max_tokens", False:
            action = f"retrying with {retry.max_tokens:,} tokens"
        case "thinking", _:
            action = "requesting the answer"
        case "call", is_continuation:
            action = "requesting the rest" if is_continuation else "requesting it again"
        case "context", is_continuation:
            action = f"{'continuing' if is_continuation else 'retrying'} after compaction"
        case _, is_continuation:
            action = continued if is_continuation else "retrying"
    return f"{retry_cause(retry, cap)}; {action}"


def restored_text(restored: PartialRestored) -> str:
    """Return the notice that a new attempt was dropped and the previous text is shown again."""
    return f"retry {'interrupted' if restored.is_interrupted else 'failed'}; first text kept"


def incomplete_reason(ended: TurnEnded) -> str:
    """Return why the turn has no complete answer, for the user; empty for a complete answer."""
    match ended.outcome:
        case Outcome.ERROR:
            return _failure_text(ended)
        case Outcome.CANCELLED:
            return "interrupted; the text so far was kept" if ended.text else "interrupted before there was any text"
        case Outcome.MAX_TOKENS:
            return ended.note or _truncation_text(ended)
        case Outcome.REFUSAL:
            return ended.note or f"the model refused, or its reply was filtered ({ended.raw_stop or 'no reason given'})"
        case Outcome.MAX_TURN_REQUESTS:
            return _turn_limit_text(ended)
        case Outcome.END_TURN:
            return _denial_text(ended) if is_denied(ended) else ""


def denial_line(count: int, flags: str, unallowable: int) -> str:
    """Return the last line of stderr after `count` calls that needed an approval, with the flags to add, if any.

    Empty if `count` is 0. `unallowable` is the number of calls that no flag would have allowed.
    """
    if not count:
        return ""
    line = f"{count_text(count, 'tool call')} required approval and did not run (non-interactive mode)"
    if not flags:
        return f"{line}; no flag allows {'it' if count == 1 else 'them'}, only an approval in the app"
    flags = visible(flags)
    if not unallowable:
        return f"{line}; to allow {'it' if count == 1 else 'them'}: {flags}"
    return f"{line}; no flag allows {unallowable} of them, only an approval in the app; to allow the rest: {flags}"


def summary(ended: TurnEnded) -> str:
    """Return the usage of a turn in one line: requests by cause, tokens, cost."""
    text = _requests_text(ended.api_calls)
    for number, unit in ((ended.usage.input, "in"), (ended.usage.output, "out")):
        if number is not None:
            text += f", {number:,} tokens {unit}"
    unused = ((ended.discarded_output_tokens, "discarded"), (ended.truncated_call_tokens, "in truncated tool calls"))
    parts: list[str] = []
    for count, use in unused:
        if count:
            parts.append(f"{count:,} {use}" if parts else f"{count:,} of them {use}")
    if parts:
        text += f" ({', '.join(parts)})"
    return text + ("" if ended.cost is None else f", ${ended.cost:.4f}")


def _failure_text(ended: TurnEnded) -> str:
    error = ended.error
    if error is None:
        return "the turn failed for an unknown reason"
    has_id = error.request_id and error.request_id not in error.message
    return error.message + (f" (request {error.request_id})" if has_id else "") + _rate_limit_end_text(error)


def waiting_text(event: Waiting) -> str:
    """Return why the turn waits before the next attempt, and for how long."""
    return f"{event.reason.rstrip('.')}, {retry_countdown(event.attempt, event.max_retries, ceil(event.seconds))}"


def limit_wait_text(event: LimitReached) -> str:
    """Return the rate limit that the turn waits for, and the time of its end."""
    return f"{event.error.message}; waiting until {_limit_end_text(event)}"


def limit_approval(event: LimitReached) -> RateLimitApproval:
    """Return the question whether to wait for the end of a rate limit."""
    if event.seconds <= 0:
        return RateLimitApproval("The limit has ended. Continue this turn?", event.error.message)
    return RateLimitApproval(f"Wait until {_limit_end_text(event)} and continue?", event.error.message)


def _limit_end_text(event: LimitReached) -> str:
    # The remaining time is rounded up, as in the countdown of the app.
    return f"{limit_end_time(event.error)} (in {duration_text(ceil(event.seconds))})"


def fallback_text(event: ModelFellBack) -> str:
    """Return which model takes over, and why."""
    if event.has_returned:
        return f"The limit of {event.to_model} has ended. This turn continues with it."
    if event.error is None:
        return f"{event.from_model} is at its limit. This turn uses {event.to_model}."
    return f"{event.error.message.rstrip('.')}. This turn continues with {event.to_model}."


def limit_end_time(error: ErrorInfo) -> str:
    """Return the local time at which a rate limit ends, with its date unless it is today; empty if unknown."""
    if error.resets_at is None:
        return ""
    local, today = time.localtime(error.resets_at), time.localtime()
    return time.strftime("%H:%M" if local[:3] == today[:3] else "%H:%M on %d %b %Y", local)


def utc_text(resets_at: int) -> str:
    """Return a time in RFC 3339, such as `2026-10-20T12:30:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(resets_at))


def _rate_limit_end_text(error: ErrorInfo) -> str:
    """Return the end of a rate limit and the command to run then; empty if the end is unknown, or near and allowed."""
    is_near = (error.retry_after or 0) < MIN_NAMED_WAIT_S
    if error.resets_at is None or (is_near and not error.wait_refusal):
        return ""
    limit = f"limit of {error.limited_model}" if error.limited_model else "limit"
    reached = f"; {limit} reached until {limit_end_time(error)} ({utc_text(error.resets_at)})"
    if error.wait_refusal:
        return f"{reached}, {error.wait_refusal}; then run qcode --continue -p TEXT"
    return f"{reached}; then run qcode --continue -p TEXT, or use --wait-for-limit"


def _truncation_text(ended: TurnEnded) -> str:
    """Return the reason for a truncated answer without a note."""
    where = f"after {ended.api_calls.total} API calls" if ended.api_calls.total > 1 else "by the output limit"
    return f"the answer is incomplete: still truncated {where}; ask for the rest, or for smaller steps"


def _denial_text(ended: TurnEnded) -> str:
    """Return a line about denied calls, with the reason of a rule; `denial_line` reports missing approvals."""
    reasons = dict.fromkeys(denial.reason for denial in ended.denials if denial.reason and denial.reason != UNAPPROVED)
    reason = f": {visible(next(iter(reasons)))}" if reasons else ""
    return f"the turn ended on denied calls, without an answer{reason}"


def _turn_limit_text(ended: TurnEnded) -> str:
    flag = _LIMIT_FLAGS[ended.limit or Limit.TURNS]
    replies = count_text(ended.replies, "model reply", "model replies")
    reached = f"stopped after {replies}: the limit of {flag} was reached"
    return f"{reached}; set a higher one, or continue with qcode --continue -p TEXT"


def ending_notice(event: TurnEnded, *, is_explained: bool) -> Notice | None:
    """Return the notice about an ending, None if there is nothing to add.

    `is_explained`: a reply of this turn was already reported as truncated or refused.
    """
    match event.outcome:
        case Outcome.END_TURN | Outcome.CANCELLED:
            return None
        case Outcome.ERROR:
            message = event.error.message if event.error is not None else "The turn failed for an unknown reason."
            return Notice("error", one_line(message, 1_000))
        case Outcome.MAX_TOKENS:
            text = (
                "The reply is still truncated at the output limit; the text so far is kept. Ask for the rest, "
                "or for a shorter reply."
            )
            return None if is_explained or event.note else Notice("warning", text)
        case Outcome.REFUSAL:
            text = (
                "The model or its provider refused to continue. Rephrase the request, or try another model with /model."
            )
            return None if is_explained or event.note else Notice("warning", text)
        case Outcome.MAX_TURN_REQUESTS:
            reason = "a limit was reached"
            if event.limit is not None:
                reason = f"the {_LIMIT_NAMES[event.limit]} was reached ({_LIMIT_FLAGS[event.limit]})"
            return Notice("warning", f"The turn ended: {reason}. Send a message to continue.")
        case _:
            assert_never(event.outcome)


def requests_note(calls: ApiCalls, discarded: int, *, is_explained: bool = False) -> str:
    """Return the cost of recovery from truncation as a sentence; empty without recovery.

    For example: `5 API calls for 1 reply: 1 retry with a higher output limit, 3 continuations; 8,000 output tokens were
    discarded.` `discarded` is the number of discarded output tokens. `is_explained`: a notice has
    already named the causes of the requests, so they are omitted.
    """
    if not calls.escalations and not calls.continuations:
        return ""
    causes = (
        count_text(calls.escalations, "retry", "retries") + " with a higher output limit" if calls.escalations else "",
        count_text(calls.continuations, "continuation") if calls.continuations else "",
        count_text(calls.repairs, "request") + " for an answer or a complete call" if calls.repairs else "",
        count_text(calls.retries, "retry", "retries") + " after an error" if calls.retries else "",
    )
    replies = f" for {count_text(calls.initial, 'reply', 'replies')}" if calls.initial else ""
    text = f"{count_text(calls.total, 'API call')}{replies}"
    if not is_explained:
        text += f": {', '.join(filter(None, causes))}"
    if discarded:
        text += f"; {count_text(discarded, 'output token was', 'output tokens were')} discarded"
    return f"{text}."


def _requests_text(calls: ApiCalls) -> str:
    """Return the number of requests and their causes, such as `3 API calls (1 initial + 2 continuations)`."""
    parts = (
        f"{calls.initial} initial" if calls.initial else "",
        count_text(calls.escalations, "escalation") if calls.escalations else "",
        count_text(calls.continuations, "continuation") if calls.continuations else "",
        count_text(calls.repairs, "repair") if calls.repairs else "",
        count_text(calls.retries, "retry", "retries") if calls.retries else "",
    )
    causes = " + ".join(filter(None, parts))
    return count_text(calls.total, "API call") + (f" ({causes})" if causes else "")


def subagent_incomplete_reason(ended: TurnEnded) -> str:
    """Return why a sub-agent has no finished answer, for the model that started it; empty for a finished answer."""
    match ended.outcome:
        case Outcome.END_TURN:
            return ""
        case Outcome.MAX_TOKENS:
            return "the output limit truncated it, even after continuations."
        case Outcome.MAX_TURN_REQUESTS:
            return f"a limit was reached ({ended.limit})."
        case Outcome.REFUSAL:
            return "the provider refused it or filtered it."
        case Outcome.CANCELLED:
            return "it was cancelled."
        case Outcome.ERROR:
            return single_spaced(ended.error.message) if ended.error is not None else "it failed."


def hook_text(event: HookStarted) -> str:
    """Return the current activity while a slow hook runs."""
    return f"running the {event.hook} hook {event.command}"


def hook_ended_text(event: HookEnded) -> str:
    """Return in one line what a hook decided, or why it failed."""
    result = f"failed: {event.failure}" if event.failure else event.decision
    return f"{event.hook} hook {event.command}: {result} ({duration_text(event.seconds)})"


class AnswerSoFar:
    """The answer of a turn so far. `observe` must get every event."""

    def __init__(self) -> None:
        self._reply_texts: list[str] = []
        """The texts of the finished replies."""
        self._last_complete_text = ""
        """The text of the last finished reply that has any."""
        self._paused_text = ""
        """The text of a reply that paused (`StopReason.PAUSED`): the next reply continues it."""
        self._superseded = ""
        """The text of the attempt that a retry replaces."""
        self._deltas: list[str] = []
        """The deltas of the current attempt."""

    def observe(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._deltas.append(text)
            case Retry(is_continuation=False):
                self._superseded = self._reply_text()
                self._deltas = []
            case PartialRestored(text=text):
                self._superseded, self._deltas = "", [text]
            case ReplyFinished(message=message):
                text = self._paused_text + (message.text if message else "")
                self._reply_texts = self._replies_before_current
                if text.strip():
                    self._reply_texts.append(text)
                    self._last_complete_text = text
                self._paused_text = text if event.stop is StopReason.PAUSED else ""
                self._superseded, self._deltas = "", []
            case StepStarted():
                self._last_complete_text = self.text
                self._superseded, self._deltas = "", []
            case _:
                pass

    @property
    def text(self) -> str:
        """The text of the current reply; before its first text, the text of the last finished reply."""
        text = self._paused_text + self._reply_text()
        return text if text.strip() else self._last_complete_text

    @property
    def whole_text(self) -> str:
        """All replies of the turn so far, joined with blank lines."""
        current = self._paused_text + self._reply_text()
        texts = [*self._replies_before_current, current]
        return "\n\n".join(texts if current.strip() else texts[:-1])

    @property
    def _replies_before_current(self) -> list[str]:
        """The finished replies, without a paused last reply, which the current reply continues."""
        return self._reply_texts[:-1] if self._paused_text else self._reply_texts

    def _reply_text(self) -> str:
        """Return the text of the current reply: the new attempt, once it is longer than the replaced attempt."""
        current = "".join(self._deltas)
        return current if len(current) > len(self._superseded) else self._superseded


_MAX_SOURCES = 20


def searched_text(search: WebSearched) -> str:
    """Return the queries of a search, and the full URLs that the reply cites."""
    queries = "; ".join(quoted_line(query, 120) for query in search.queries)
    lines = [f"Searched the web for {queries}." if queries else "Searched the web."]
    for number, source in enumerate(search.sources[:_MAX_SOURCES], 1):
        title = one_line(source.title, 100)
        lines.append(f"{number}. {title} {one_line(source.url)}" if title else f"{number}. {one_line(source.url)}")
    left_out = len(search.sources) - _MAX_SOURCES
    if left_out > 0:
        lines.append(f"and {left_out} more")
    return "\n".join(lines)
