"""The cards of running sub-agents: the steps, calls and notices of each are shown in the card of its call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from qcode.agent.call_titles import STATE_TEXTS, call_in_words, main_argument, shown_state, verb
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import (
    AgentEvent,
    Compacted,
    LimitReached,
    Notice,
    ReplyFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnStarted,
    UsageUpdated,
    Waiting,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.reply import WebSearched
from qcode.text.clean import one_line, show_hidden
from qcode.text.numbers import count_text, duration_text, tokens_text
from qcode.tui.transcript.cards import CardUpdate, TranscriptView
from qcode.values import dataclass

_AGENT_CALL_ICONS = {"done": "✓", "failed": "✗", "denied": "✗", "rejected": "✗", "cancelled": "–"}
_MAX_AGENT_OUTPUT_LINES = 40
_MAX_SUMMARY_CHARS = 1_000
_NOTABLE_AGENT_CALL_SECONDS = 1.0


@dataclass(slots=True)
class _Agent:
    """The state of a running sub-agent."""

    steps: int = 0
    started_at: dict[str, float] = field(default_factory=dict)
    """The start of each running call, by its id."""
    asked_calls: dict[str, ToolCall] = field(default_factory=dict)
    """The calls whose question is open, by their id."""
    usage: str = ""
    """The steps and tokens so far, in words."""
    wait_reason: str = ""
    """Why the sub-agent waits, empty if it does not. It becomes a line, unless it is also the reason of a failure."""


class AgentCards:
    """The cards of running sub-agents. `withdraw` closes an open question by the id of its call."""

    def __init__(self, cards: TranscriptView, clock: Callable[[], float], withdraw: Callable[[str], None]) -> None:
        self._cards = cards
        self._clock = clock
        self._withdraw = withdraw
        self._agents: dict[str, _Agent] = {}

    def show(self, event: AgentEvent) -> str:
        """Add an event to its card; return the new activity, empty if it has not changed."""
        call_id, inner = event.call_id, event.event
        agent = self._agents.setdefault(call_id, _Agent())
        if agent.wait_reason and _is_progress(inner):
            self._end_wait(call_id, agent)
        if detail := _agent_detail(inner):
            self._cards.update_card(call_id, CardUpdate(detail=detail))
        match inner:
            case StepStarted(step=step):
                agent.steps = step
                return "a sub-agent is waiting for the model"
            case ToolStarted(call=call):
                agent.started_at[call.call_id] = self._clock()
                self._end_question(call_id, agent, call)
                return f"a sub-agent is running {call_in_words(call.name)}"
            case ToolFinished(call=call):
                self._finish(call_id, agent, inner, call)
            case UsageUpdated(usage=usage) if not agent.wait_reason:
                tokens = tokens_text((usage.input or 0) + (usage.output or 0))
                agent.usage = f"{count_text(agent.steps, 'step')}, {tokens} tokens"
                self._show_summary(call_id, agent)
            case LimitReached(error=ErrorInfo(message=text)) | Waiting(reason=text):
                agent.wait_reason = one_line(text)
                self._cards.update_card(call_id, CardUpdate(summary=agent.wait_reason))
            case Notice(text=text):
                self._cards.update_card(call_id, CardUpdate(append=f"! {one_line(text)}\n"))
            case WebSearched(queries=queries):
                line = f"✓ searched the web: {one_line('; '.join(queries))}\n"
                self._cards.update_card(call_id, CardUpdate(append=line))
            case Compacted():
                self._cards.update_card(call_id, CardUpdate(append="! conversation compacted\n"))
            case _:
                pass
        return ""

    def ask(self, call: ToolCall) -> None:
        """Show that a sub-agent's call is waiting for an answer."""
        owner = next((card_id for card_id in self._agents if call.call_id.startswith(f"{card_id}/")), None)
        if owner is not None:
            self._agents[owner].asked_calls[call.call_id] = call
            self._show_summary(owner, self._agents[owner])

    def end(self, call_id: str, summary: str = "") -> bool:
        """Withdraw the open questions of the sub-agent of an ended call; return False if the call had no sub-agent.

        `summary` is the result that the card shows. It repeats the reason of the last wait if that made the call fail.
        """
        agent = self._agents.pop(call_id, None)
        if agent is None:
            return False
        shown_summary = one_line(summary, _MAX_SUMMARY_CHARS)
        if agent.wait_reason and agent.wait_reason.removesuffix("…") not in shown_summary:
            self._end_wait(call_id, agent)
        for asked_id in agent.asked_calls:
            self._withdraw(asked_id)
        if agent.asked_calls:  # the card of a cancelled task keeps its last summary
            agent.asked_calls.clear()
            self._show_summary(call_id, agent)
        return True

    def _end_question(self, call_id: str, agent: _Agent, asked: ToolCall) -> None:
        if agent.asked_calls.pop(asked.call_id, None) is not None:
            self._show_summary(call_id, agent)

    def _show_summary(self, call_id: str, agent: _Agent) -> None:
        """Show the first call that waits for an answer, or the usage. A line of the output would stay."""
        asked = next(iter(agent.asked_calls.values()), None)
        summary = agent.usage if asked is None else f"{_call_line(asked)} is waiting for your answer"
        self._cards.update_card(call_id, CardUpdate(summary=summary))

    def _end_wait(self, call_id: str, agent: _Agent) -> None:
        """Turn the reason of the last wait into a line of the card, and of its unfolded form."""
        line = f"! {agent.wait_reason}\n"
        agent.wait_reason = ""
        update = CardUpdate(append=line, detail=f"{line}\n", summary=count_text(agent.steps, "step"))
        self._cards.update_card(call_id, update)

    def _finish(self, call_id: str, agent: _Agent, finished: ToolFinished, call: ToolCall) -> None:
        self._end_question(call_id, agent, call)
        self._withdraw(call.call_id)
        seconds = self._clock() - agent.started_at.pop(call.call_id, self._clock())
        state = shown_state(call.name, finished.state, finished.outcome.summary)
        notes = [
            "" if state in ("done", "failed") else STATE_TEXTS[state],
            duration_text(seconds) if seconds >= _NOTABLE_AGENT_CALL_SECONDS else "",
        ]
        line = "  ".join([f"{_AGENT_CALL_ICONS[finished.state]} {_call_line(call)}", *(note for note in notes if note)])
        self._cards.update_card(call_id, CardUpdate(append=f"{line}\n"))


def _is_progress(event: TurnEvent) -> bool:
    """Return whether an event shows that a request succeeded."""
    return isinstance(event, ToolStarted) or (isinstance(event, ReplyFinished) and event.message is not None)


def _call_line(call: ToolCall) -> str:
    return " ".join(part for part in (verb(one_line(call.name, 60)), main_argument(call)) if part)


def _agent_detail(event: TurnEvent) -> str:
    """Return the text for the unfolded card; empty for most events."""
    match event:
        case TurnStarted(prompt=prompt):
            return f"Task: {prompt.strip()}\n\n"
        case ReplyFinished(message=message) if message is not None and message.text.strip():
            return f"{message.text.strip()}\n\n"
        case ToolFinished(call=call, outcome=outcome, state=state):
            diff = "\n".join(map(show_hidden, outcome.diff.split("\n")))
            result = (diff or outcome.content).strip("\n")
            lines = result.split("\n") if result else []
            omitted_lines = len(lines) - _MAX_AGENT_OUTPUT_LINES
            more = [f"  … {count_text(omitted_lines, 'more line')}"] if omitted_lines > 0 else []
            detail = [f"  {line}" for line in lines[:_MAX_AGENT_OUTPUT_LINES]]
            return "\n".join([f"{_AGENT_CALL_ICONS[state]} {_call_line(call)}", *detail, *more, "", ""])
        case Notice(text=text):
            return f"! {text}\n\n"
        case _:
            return ""
