"""A conversation whose model may start sub-agents, and a provider with a separate script for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from qcode.agent.subagent_kinds import KINDS
from qcode.protocol.approvals import CallApproval, Decision
from qcode.protocol.events import AgentEvent, ApprovalRequested, ToolFinished, TurnEvent
from qcode.protocol.messages import typed_text
from qcode.protocol.model import ModelFacts, ModelRequest
from qcode.protocol.reply import ReplyEvent
from qcode.protocol.usage import Price
from qcode.tools.subagent import SubagentTool
from tests.fakes import conversation
from tests.fakes.conversation import ConversationRunner, Model
from tests.fakes.scripted import Call, Reply, ScriptedProvider, Steps, calls_reply

FACTS = ModelFacts(context_window=200_000, max_output_tokens=64_000, price=Price(Decimal(1), Decimal(1)))


def starting(*prompts: str, kind: str = "explore", **more: str) -> Steps:
    """A reply that starts a sub-agent for each prompt, with the ids `agent_0`, `agent_1`..."""
    calls = [
        Call("agent", {"description": f"do {prompt}", "prompt": prompt, "kind": kind, **more}, f"agent_{number}")
        for number, prompt in enumerate(prompts)
    ]
    return calls_reply(*calls)


class ByPrompt:
    """Answers each transcript from the script of its first message; all others use the last one, `""`."""

    def __init__(self, scripts: Mapping[str, Sequence[Reply]]) -> None:
        self.name = self.host = "scripted"
        self.parts = {prompt: ScriptedProvider(replies) for prompt, replies in scripts.items()}

    @property
    def main(self) -> ScriptedProvider:
        return self.parts[""]

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        return self.parts.get(typed_text(request.messages[0]), self.main).stream(request)

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        return ("m",)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


@dataclass
class AgentRunner(ConversationRunner[ByPrompt]):
    """A conversation whose only prompt is `go`."""

    @property
    def model(self) -> ByPrompt:
        return self.provider

    def run(self, on_event: Callable[[TurnEvent], None] = lambda event: None) -> list[TurnEvent]:
        return asyncio.run(self.play("go", on_event))

    def answering(self, decision: Decision, asked: list[CallApproval]) -> Callable[[TurnEvent], None]:
        """Return a function that gives this answer to every question, and records it."""

        def answer_it(event: TurnEvent) -> None:
            if isinstance(event, ApprovalRequested):
                asked.append(event.approval)
                self.conversation.answer(event.approval.id, decision)

        return answer_it


def open_conversation(base: Path, scripts: Mapping[str, Sequence[Reply]], **more: Any) -> AgentRunner:
    """Return a conversation that may start sub-agents.

    `facts` replaces the facts of its model; the other arguments are those of `tests.fakes.conversation`.
    """
    tool = SubagentTool(tuple((kind.name, kind.purpose) for kind in KINDS), has_small_model="small" in more)
    model = Model(facts=more.pop("facts", FACTS))
    found = conversation.open_conversation(base, ByPrompt(scripts), model, subagent_tool=tool, **more)
    return AgentRunner(**vars(found))


def resumed(one: AgentRunner) -> AgentRunner:
    """Return the same conversation as another process would continue it."""
    one.conversation.release()
    return open_conversation(one.work.parent, {"": ()}, resumes=one.conversation.session_id)


def results(events: Sequence[TurnEvent]) -> list[ToolFinished]:
    """Return the finished calls of the conversation itself."""
    return [event for event in events if isinstance(event, ToolFinished)]


def inner_results(events: Sequence[TurnEvent]) -> list[ToolFinished]:
    """Return the finished calls of its sub-agents."""
    inside = (event.event for event in events if isinstance(event, AgentEvent))
    return [event for event in inside if isinstance(event, ToolFinished)]
