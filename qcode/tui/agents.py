"""What sub-agents do, in the card of the call that started each: a line for each step, and unfolded all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    Compacted,
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
from qcode.tui.calls import main_argument
from qcode.tui.figures import count_text, duration_text, tokens_text
from qcode.tui.text import one_line

_ICONS = {"done": "✓", "failed": "✗", "denied": "✗", "rejected": "✗", "cancelled": "–"}
_WORDS = {"denied": "denied", "rejected": "not run", "cancelled": "cancelled"}
_LONGEST_OUTPUT = 40
_NOTABLE = 1.0


class Cards(Protocol):
    """The part of the transcript that is written to: cards, by the id of their call."""

    def update_card(
        self, call_id: str, *, append: str | None = None, detail: str | None = None, summary: str | None = None
    ) -> None: ...


@dataclass(slots=True)
class _Agent:
    steps: int = 0
    began: dict[str, float] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)


class AgentCards:
    """`withdraw` takes back a question that was settled in another way, by the id of its call."""

    def __init__(self, cards: Cards, clock: Callable[[], float], withdraw: Callable[[str], None]) -> None:
        self._cards = cards
        self._clock = clock
        self._withdraw = withdraw
        self._agents: dict[str, _Agent] = {}

    def show(self, event: AgentEvent) -> str:
        """Write what happened into its card; return what is being done now, empty where that is as it was."""
        call_id, inner = event.call_id, event.event
        agent = self._agents.setdefault(call_id, _Agent())
        if detail := _detail(inner):
            self._cards.update_card(call_id, detail=detail)
        match inner:
            case StepStarted(step=step):
                agent.steps = step
                return "a sub-agent waits for the model"
            case ToolStarted(call=call):
                agent.began[call.call_id] = self._clock()
                return f"a sub-agent is running {one_line(call.name, 40)}"
            case ToolFinished(call=call):
                self._finish(call_id, agent, inner, call)
            case UsageUpdated(usage=usage):
                tokens = tokens_text((usage.input or 0) + (usage.output or 0))
                self._cards.update_card(call_id, summary=f"{count_text(agent.steps, 'step')}, {tokens} tokens")
            case Notice(text=text) | Waiting(why=text):
                self._cards.update_card(call_id, append=f"! {one_line(text)}\n")
            case WebSearched(queries=queries):
                self._cards.update_card(call_id, append=f"✓ searched the web: {one_line('; '.join(queries))}\n")
            case Compacted():
                self._cards.update_card(call_id, append="! its conversation was compacted\n")
            case _:
                pass
        return ""

    def ask(self, request: ApprovalRequested) -> None:
        """Note that a sub-agent waits for an answer."""
        owner = next((one for one in self._agents if request.call.call_id.startswith(f"{one}/")), None)
        if owner is not None:
            self._agents[owner].asked.add(request.call.call_id)
            self._cards.update_card(owner, append=f"? {_called(request.call)} waits for your answer\n")

    def end(self, call_id: str) -> None:
        """The call is over, and with it all that its sub-agent asked."""
        agent = self._agents.pop(call_id, None)
        for asked in agent.asked if agent is not None else ():
            self._withdraw(asked)

    def _finish(self, call_id: str, agent: _Agent, finished: ToolFinished, call: ToolCall) -> None:
        agent.asked.discard(call.call_id)
        self._withdraw(call.call_id)
        took = self._clock() - agent.began.pop(call.call_id, self._clock())
        notes = [_WORDS.get(finished.state, ""), duration_text(took) if took >= _NOTABLE else ""]
        line = "  ".join([f"{_ICONS[finished.state]} {_called(call)}", *(note for note in notes if note)])
        self._cards.update_card(call_id, append=f"{line}\n")


def _called(call: ToolCall) -> str:
    return " ".join(part for part in (one_line(call.name, 60), main_argument(call)) if part)


def _detail(event: TurnEvent) -> str:
    """Return what the unfolded card shows of an event; empty for most."""
    match event:
        case TurnStarted(prompt=prompt):
            return f"Task: {prompt.strip()}\n\n"
        case ReplyFinished(message=message) if message is not None and message.text.strip():
            return f"{message.text.strip()}\n\n"
        case ToolFinished(call=call, outcome=outcome, state=state):
            lines = (outcome.diff or outcome.content).strip("\n").split("\n")
            left_out = len(lines) - _LONGEST_OUTPUT
            more = [f"  … {count_text(left_out, 'line')} more"] if left_out > 0 else []
            shown = [f"  {line}" for line in lines[:_LONGEST_OUTPUT]]
            return "\n".join([f"{_ICONS[state]} {_called(call)}", *shown, *more, "", ""])
        case Notice(text=text):
            return f"! {text}\n\n"
        case _:
            return ""
