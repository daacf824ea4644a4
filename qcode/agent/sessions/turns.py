"""Splits a stored session into turns as a reader sees them: prompt, replies, calls with their results, cost.

For exports and other views of a session by turns. Secrets are removed here. Pure; `export` writes the turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from itertools import takewhile

from qcode.agent.call_titles import is_in_title, main_argument, sandbox_note, state_text, verb
from qcode.agent.context.attachments import Attachment, parse_attached
from qcode.agent.outcomes import ending_notice, requests_note
from qcode.agent.sessions.history import HistoryEntry, SessionEnd, SessionHistory, StoredMessage
from qcode.agent.sessions.loader import (
    NEVER_RUN,
    NOT_RUN_IN_COPY,
    NOT_STARTED,
    STILL_RUNNING,
    assemble,
)
from qcode.agent.sessions.shown import ShownResult, precedes_prompt, typed_prompt
from qcode.agent.usage import TurnUsage, recorded_usage
from qcode.protocol.events import DECLINED, TurnEnded
from qcode.protocol.messages import PLACEHOLDER_KEY, Image, Message, Text, ToolCall, ToolResult
from qcode.protocol.reply import Outcome
from qcode.protocol.tools import SandboxUse
from qcode.protocol.usage import Price, Usage
from qcode.safety.redaction import redact_message
from qcode.text.clean import one_line, plain_line, single_spaced
from qcode.text.json import Json, JsonObject, parse_object, text_in
from qcode.text.numbers import cost_text, count_text, duration_text, tokens_text
from qcode.text.redrawn import redrawn
from qcode.tools.dialog import plan_of
from qcode.tools.output import OMISSION
from qcode.values import dataclass

_NO_RESULT = "no result"
_PENDING_STATES = (*(text.partition(":")[0] for text in (STILL_RUNNING, NOT_STARTED)), _NO_RESULT)
_RUNNING = "This turn had not ended when it was exported."
_MAX_LABEL_CHARS = 80
_MAX_ARGUMENT_CHARS = 200


@dataclass(frozen=True, slots=True)
class PromptParts:
    """The parts of a user message: what was typed, attached texts, and images."""

    typed_text: str
    attached: tuple[Attachment, ...] = ()
    images: tuple[Image, ...] = ()
    full_text: str = ""
    """The prompt that was sent for a command, such as `/init`; empty if the user typed the prompt."""


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """An argument of a call as text."""

    name: str
    text: str
    language: str
    """The language for highlighting, empty for plain text."""


@dataclass(frozen=True, slots=True)
class CallView:
    """A call and its result as the user sees them."""

    name: str
    argument: str
    """The main argument, on one line."""
    arguments: JsonObject
    state: str = ""
    """Empty for a call that succeeded."""
    summary: str = ""
    diff: str = ""
    output: str = ""
    """Empty for an approved plan, whose result is text for the model only."""
    images: tuple[Image, ...] = ()
    plan: str = ""
    """The Markdown of a plan; empty for any other call."""
    sandbox: SandboxUse = ""

    @property
    def has_failed(self) -> bool:
        """Whether the call ended without success. A call that still runs or waits has no end yet."""
        return self.state not in ("", *_PENDING_STATES)

    @property
    def is_approved_plan(self) -> bool:
        return bool(self.plan) and not self.state

    @property
    def title(self) -> str:
        """The name of the call; for an approved plan its summary, which names the chosen mode."""
        summary = single_spaced(self.summary) if self.is_approved_plan else ""
        return summary or verb(self.name)

    @property
    def notes(self) -> tuple[str, ...]:
        """The state, the summary, and a note about the sandbox, if not empty. The summary does not repeat the argument.

        For example, the notes of `read a.py` with the summary `a.py does not exist` are `failed`, `does not exist`.
        """
        if self.is_approved_plan:
            return ()
        summary = single_spaced(self.summary)
        if self.state:
            summary = summary.removeprefix(f"{self.argument} ")
        sandbox = sandbox_note(self.sandbox, has_failed=bool(self.state))
        return tuple(dict.fromkeys(note for note in (self.state, summary, sandbox) if note))

    @property
    def details(self) -> tuple[ArgumentText, ...]:
        """The arguments that are not shown in full elsewhere."""
        arguments = self.arguments.items()
        return tuple(self._detail(name, value) for name, value in arguments if not self._shows(name, value))

    def _detail(self, name: str, value: Json) -> ArgumentText:
        if isinstance(value, str):
            return ArgumentText(name, value, "bash" if name == "command" else "")
        if self.name == "ask_person" and name == "choices" and (choices := _choice_lines(value)):
            is_multi_select = self.arguments.get("multi_select") is True
            return ArgumentText("choices (several allowed)" if is_multi_select else name, choices, "")
        return ArgumentText(name, json.dumps(value, ensure_ascii=False, indent=1), "json")

    def _shows(self, name: str, value: Json) -> bool:
        """Return whether the main argument, the plan, the choices or the output show an argument in full."""
        if self.name == "ask_person" and name == "multi_select":
            return bool(_choice_lines(self.arguments.get("choices")))
        is_plan = name == "plan" and bool(self.plan)
        # The output of `todo` is its list, as `[x] read the file`.
        is_list = self.name == "todo" and name == "items" and bool(self.output) and not self.state
        return is_plan or is_list or is_in_title(self.name, name, value, self.argument)


def _choice_lines(value: Json) -> str:
    """Return the choices of a question, one numbered line each; empty if they are not in the form of `ask_person`."""
    items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    lines: list[str] = []
    for number, item in enumerate(items, 1):
        label = text_in(item.get("label"))
        detail = text_in(item.get("detail"))
        if not label:
            return ""
        lines.append(one_line(f"{number}. {label}: {detail}" if detail else f"{number}. {label}"))
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class SessionStep:
    """A message of a turn, with the facts that an export shows."""

    entry: HistoryEntry
    model: str
    """The model that wrote the message."""
    recovery: str = ""
    """The requests of a truncated reply; otherwise empty."""
    agents: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """The messages of the sub-agents that the calls of the message started, by call id."""
    shown_results: dict[str, ShownResult] = field(default_factory=dict)
    """The results of the calls as they were shown, by call id."""
    shown_prompt: str = ""
    """The text shown for a prompt, empty if it is the text of the message."""
    ended: TurnEnded | None = None
    """The end of the turn if it followed this message, otherwise None."""
    ending_note: str = ""
    """Why the turn stopped early, such as an error or a limit; empty if the note of the message has the reason."""

    @property
    def prompt(self) -> PromptParts:
        """The parts of a user message."""
        parts = _prompt_parts(self.entry.message)
        typed = typed_prompt(parts.typed_text, self.shown_prompt)
        if typed == parts.typed_text:
            return parts
        full_text = "" if precedes_prompt(parts.typed_text, typed) else parts.typed_text
        return replace(parts, typed_text=typed, full_text=full_text)


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """The messages of a turn: its prompt, replies and results, and prompts that were added while it ran."""

    number: int
    """Counted from 1."""
    steps: tuple[SessionStep, ...]
    usage: Usage
    cost: Decimal | None
    """In USD; None if a price or a token count is unknown."""

    @property
    def prompt(self) -> PromptParts:
        return self.steps[0].prompt

    @property
    def label(self) -> str:
        """The first words of the prompt, on one line."""
        words = plain_line(self.prompt.typed_text, _MAX_LABEL_CHARS)
        if words:
            return words
        return "(image)" if self.prompt.images else f"Turn {self.number}"

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.model for step in self.steps if step.entry.attempts and step.model))

    def view(self, step: SessionStep, call: ToolCall) -> CallView:
        """Return a call of `step` as the user saw it.

        Only messages before the next reply are searched for its result, because a server may use an id of a call again.
        """
        index = next(index for index, other in enumerate(self.steps) if other is step)
        messages = [later.entry.message for later in self.steps[index + 1 :]]
        answers = takewhile(lambda message: message.role == "user", messages)
        results = (block for message in answers for block in message.blocks if isinstance(block, ToolResult))
        result = next((result for result in results if result.call_id == call.call_id), None)
        view = view_of(call, result, step.shown_results.get(call.call_id))
        return replace(view, output=_without_reply(view.output, step.agents.get(call.call_id, ())))

    @property
    def ended(self) -> TurnEnded | None:
        """The end of the turn; None if the process ended first, or an earlier version stored the session.

        A `/compact` after the turn adds another end, which is ignored.
        """
        return next((step.ended for step in self.steps if step.ended is not None), None)

    @property
    def ending_note(self) -> str:
        return next((step.ending_note for step in self.steps if step.ending_note), "")

    @property
    def seconds(self) -> float | None:
        """The duration without the time in which the turn waited for the user.

        If the end of the turn is not stored, the duration is the time between the first and the last message. None if
        qcode was killed, because then the next start stored the last message.
        """
        if self.ended is not None and self.ended.seconds is not None:
            return self.ended.seconds
        if any(attempt.stop == "killed" for step in self.steps for attempt in step.entry.attempts):
            return None
        return _seconds_between(self.steps[0].entry.timestamp, self.steps[-1].entry.timestamp)

    @property
    def facts(self) -> tuple[str, ...]:
        """`interrupted` if the user interrupted the turn, then duration, tokens, cost and models, if known."""
        is_interrupted = self.ended is not None and self.ended.outcome is Outcome.CANCELLED
        duration = (duration_text(self.seconds),) if self.seconds is not None and self.seconds >= 1 else ()
        ending = ("interrupted",) if is_interrupted else ()
        return (*ending, *duration, *usage_facts(self.usage, self.cost), *self.models)


def session_turns(
    history: SessionHistory,
    price_of: Callable[[str], Price | None],
    redact: Callable[[str], str],
    *,
    is_running: bool = False,
    current_reply: Message | None = None,
) -> tuple[SessionTurn, ...]:
    """Return all turns that led to the current state, including turns whose messages a compaction replaced.

    `is_running`: the last turn of the history runs in this process. `current_reply` is its reply so far, which is not
    in the history yet.
    """
    turns: list[list[SessionStep]] = []
    usages_by_turn: list[list[TurnUsage]] = []
    for entry in _entries(history, "open" if is_running else history.end):
        begins_turn = any(history.stored[number].is_turn_start for number in entry.numbers)
        if begins_turn or not turns:
            turns.append([])
            usages_by_turn.append([])
        turns[-1].append(_step(history, entry, price_of, redact))
        if (usage := _usage_of(history, entry, price_of)) is not None:
            usages_by_turn[-1].append(usage)
    if turns and current_reply is not None:
        turns[-1].append(SessionStep(HistoryEntry(current_reply), turns[-1][-1].model, ending_note=_RUNNING))
    elif turns and is_running:
        last = max(index for index, step in enumerate(turns[-1]) if not step.entry.is_filled_in)
        turns[-1][last] = replace(turns[-1][last], ending_note=_RUNNING)
    return tuple(
        SessionTurn(number, tuple(steps), sum((usage.usage for usage in usages), Usage()), total_cost(usages))
        for number, (steps, usages) in enumerate(zip(turns, usages_by_turn, strict=True), 1)
    )


def _entries(history: SessionHistory, end: SessionEnd) -> Iterator[HistoryEntry]:
    """Yield the messages of all turns. The gaps of an unfinished turn are filled before the next prompt.

    `end`: why calls of the last turn may be unfinished.
    """
    numbers: list[int] = []
    for number in history.iter_all_numbers():
        if numbers and history.stored[number].is_turn_start:
            yield from assemble(history, numbers, "closed").entries
            numbers = []
        numbers.append(number)
    yield from assemble(history, numbers, end).entries


def _step(
    history: SessionHistory, entry: HistoryEntry, price_of: Callable[[str], Price | None], redact: Callable[[str], str]
) -> SessionStep:
    """Return a message as a step."""
    model = history.model_of(entry.numbers[-1]) if entry.numbers else ""
    reply_usage = recorded_usage(entry.attempts, model, price_of)
    recovery = requests_note(reply_usage.api_calls, reply_usage.discarded_output_tokens)
    redacted_entry = replace(entry, message=redact_message(entry.message, redact), note=redact(entry.note))
    step = SessionStep(redacted_entry, model, recovery)
    stored = history.stored.get(entry.numbers[-1]) if entry.numbers else None
    return step if stored is None else _with_stored(step, stored, redact)


def _usage_of(
    history: SessionHistory, entry: HistoryEntry, price_of: Callable[[str], Price | None]
) -> TurnUsage | None:
    """Return the usage of all requests that are stored with a message; None if there are none."""
    attempts = list(entry.attempts)
    model = ""
    if entry.numbers:
        model = history.model_of(entry.numbers[-1])
        if (stored := history.stored.get(entry.numbers[-1])) is not None:
            outside_turns = (attempt for named in stored.named_requests for attempt in named.attempts)
            attempts = [*stored.turn_requests, *outside_turns]
    return recorded_usage(attempts, model, price_of) if attempts else None


def _with_stored(step: SessionStep, stored: StoredMessage, redact: Callable[[str], str]) -> SessionStep:
    """Return the step with the facts that are stored with its message."""
    ended = next((item.event for item in stored.shown_events if isinstance(item.event, TurnEnded)), None)
    notice = ending_notice(ended, is_explained=bool(step.entry.note)) if ended is not None else None
    return replace(
        step,
        agents={
            call_id: tuple(redact_message(item.message, redact) for item in agent.messages)
            for call_id, agent in stored.agent_work.items()
        },
        shown_results={call_id: _redacted_shown(result, redact) for call_id, result in stored.shown_results.items()},
        shown_prompt=redact(stored.shown_prompt),
        ended=ended,
        ending_note=redact(notice.text) if notice is not None else "",
    )


def total_cost(used: Sequence[TurnUsage | SessionTurn]) -> Decimal | None:
    """Return the sum of the costs; None if one of them is unknown, or if there are none."""
    costs = [turn.cost for turn in used]
    known_costs = [cost for cost in costs if cost is not None]
    return sum(known_costs, Decimal(0)) if costs and len(known_costs) == len(costs) else None


def usage_facts(usage: Usage, cost: Decimal | None) -> Iterator[str]:
    """Yield tokens and cost for a line of facts."""
    if usage.input is not None or usage.output is not None:
        yield f"{tokens_text((usage.input or 0) + (usage.output or 0))} tokens"
    if cost is not None:
        yield cost_text(cost)


def _prompt_parts(message: Message) -> PromptParts:
    """Return the parts of a user message; tool results are not among them."""
    typed: list[str] = []
    attached: list[Attachment] = []
    for block in message.blocks:
        if isinstance(block, Text):
            attachment = parse_attached(block.text)
            if attachment is None:
                typed.append(block.text)
            else:
                attached.append(attachment)
    images = tuple(block for block in message.blocks if isinstance(block, Image))
    return PromptParts("\n\n".join(typed), tuple(attached), images)


def _redacted_shown(result: ShownResult, redact: Callable[[str], str]) -> ShownResult:
    return replace(
        result,
        summary=redact(result.summary),
        diff=redact(result.diff),
        output=redact(result.output) if result.output is not None else None,
        ran_arguments=redact(result.ran_arguments),
        problems=redact(result.problems),
    )


def view_of(call: ToolCall, result: ToolResult | None, display: ShownResult | None = None) -> CallView:
    """Return a call as the user saw it. A session of an earlier version has no `display`."""
    arguments = parse_object(call.arguments) or {}
    argument = main_argument(call, _MAX_ARGUMENT_CHARS)
    if PLACEHOLDER_KEY in arguments:  # the call has placeholder arguments
        arguments = {}
    if result is None:
        return CallView(call.name, argument, arguments, _NO_RESULT)
    result = replace(result, content=redrawn(result.content))
    if display is None and result.content in (NEVER_RUN, NOT_RUN_IN_COPY, NOT_STARTED):
        state, _, reason = result.content.rstrip(".").partition(": ")
        return CallView(call.name, argument, arguments, state, reason)
    if display is None and result.content.startswith(STILL_RUNNING):
        return CallView(call.name, argument, arguments, STILL_RUNNING.partition(":")[0])
    if display is None:
        state = "failed" if result.is_error else ""
        return CallView(call.name, argument, arguments, state, output=result.content, images=result.images)
    state = "" if display.state == "done" else state_text(call.name, display.state, display.summary)
    summary = "" if display.summary == DECLINED else display.summary
    plan = plan_of(call).strip()
    output = result.content if display.output is None else redrawn(display.output)
    if display.diff or (plan and not state):
        output = ""
    if display.summary == DECLINED:
        output = output.partition(": ")[2]  # the state says that the user declined
    return CallView(
        call.name,
        argument,
        arguments,
        state,
        summary,
        diff=display.diff,
        output=output,
        images=result.images,
        plan=plan,
        sandbox=display.sandbox,
    )


def _without_reply(output: str, messages: Sequence[Message]) -> str:
    """Return the result of a sub-agent without its last reply, which an export shows with its `messages`.

    The result may begin with a note of qcode, and a long reply is shortened in the middle.
    """
    reply = messages[-1].text.strip() if messages and not messages[-1].calls else ""
    if not reply:
        return output
    output = output.strip()
    omission = OMISSION.search(output)
    if omission is None:
        return output.removesuffix(reply).strip()
    start = output[: omission.start()].strip()
    end = output[omission.end() :].strip()
    has_note = start.startswith("[") and not reply.startswith(start)
    note = start.partition("\n\n")[0] if has_note else ""
    is_reply = reply.startswith(start.removeprefix(note).strip()) and reply.endswith(end)
    return note if is_reply else output


_RANGE = re.compile(r"(?P<first>\d+)(?:(?P<dash>-)(?P<last>\d*))?|-(?P<up_to>\d+)")


def select_turns(turns: Sequence[SessionTurn], selection: str) -> tuple[SessionTurn, ...]:
    """Return the turns of a range such as `3-7`, `3`, `3-` or `-7`.

    Raise `ValueError` with one line for the user.
    """
    match = _RANGE.fullmatch(selection.strip())
    if match is None:
        raise ValueError(f'"{single_spaced(selection, 40)}" is not a range of turns. Use 3, 3-7, 3- or -7.')
    if match["up_to"]:
        first, last = 1, int(match["up_to"])
    else:
        first = int(match["first"])
        end_of_range = int(match["last"]) if match["last"] else len(turns)  # `3-` has no last turn
        last = end_of_range if match["dash"] else first
    selected = tuple(turn for turn in turns if first <= turn.number <= last)
    if not selected:
        raise ValueError(f"No turn in {selection.strip()}: this session has {count_text(len(turns), 'turn')}.")
    return selected


def _seconds_between(first: str, last: str) -> float | None:
    """Return the time between two moments (ISO 8601), None if one is missing or invalid."""
    try:
        return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    except (TypeError, ValueError):
        return None
