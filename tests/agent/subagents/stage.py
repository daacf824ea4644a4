"""A conversation whose model may start sub-agents, and a provider that answers each of them by a script of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from qcode.agent.conversation import Connected, Conversation, PromptLimits, Wiring
from qcode.agent.models.limits import LimitStore
from qcode.agent.sessions.store import SessionStore
from qcode.agent.subagent_kinds import KINDS
from qcode.agent.toolbox import Toolbox
from qcode.config.settings import Tools
from qcode.engine.model_facts import KnownModel
from qcode.protocol.approvals import ApprovalMode, CallApproval, Decision
from qcode.protocol.events import AgentEvent, ApprovalRequested, ToolFinished, TurnEnded, TurnEvent
from qcode.protocol.messages import typed_text
from qcode.protocol.model import ModelFacts, ModelRequest
from qcode.protocol.reply import ReplyEvent
from qcode.protocol.usage import Price
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.tools.subagent import Agent
from tests.fakes.scripted import Call, Reply, ScriptedProvider, Steps, calls_reply
from tests.safety.judging import NO_SANDBOX

FACTS = ModelFacts(context_window=200_000, max_output_tokens=64_000, price=Price(Decimal(1), Decimal(1)))


def starting(*prompts: str, kind: str = "explore", **more: str) -> Steps:
    """A reply that starts a sub-agent for each prompt, with the ids `agent_0`, `agent_1`..."""
    calls = [
        Call("agent", {"description": f"do {prompt}", "prompt": prompt, "kind": kind, **more}, f"agent_{number}")
        for number, prompt in enumerate(prompts)
    ]
    return calls_reply(*calls)


class ByPrompt:
    """Answers each transcript from the script of its first message; others than those named get the last one, `""`."""

    def __init__(self, scripts: Mapping[str, Sequence[Reply]]) -> None:
        self.name = self.host = "scripted"
        self.parts = {prompt: ScriptedProvider(replies) for prompt, replies in scripts.items()}

    @property
    def main(self) -> ScriptedProvider:
        return self.parts[""]

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        return self.parts.get(typed_text(request.messages[0]), self.main).stream(request)

    async def model_names(self) -> tuple[str, ...]:
        return ("m",)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Stage:
    conversation: Conversation
    model: ByPrompt
    store: SessionStore
    work: Path

    async def play(self, on_event: Callable[[TurnEvent], None] = lambda event: None) -> list[TurnEvent]:
        events = []
        async for event in self.conversation.submit("go"):
            on_event(event)
            events.append(event)
        return events

    def run(self, on_event: Callable[[TurnEvent], None] = lambda event: None) -> list[TurnEvent]:
        return asyncio.run(self.play(on_event))

    def answering(self, decision: Decision, asked: list[CallApproval]) -> Callable[[TurnEvent], None]:
        """Return what answers every question so, and keeps it."""

        def answer_it(event: TurnEvent) -> None:
            if isinstance(event, ApprovalRequested):
                asked.append(event.approval)
                self.conversation.answer(event.approval.id, decision)

        return answer_it


def stage(
    base: Path,
    scripts: Mapping[str, Sequence[Reply]],
    *,
    mode: ApprovalMode = "default",
    is_trusted: bool = True,
    rules: Rules | None = None,
    limits: PromptLimits | None = None,
    small: Callable[[Connected], Connected] | None = None,
) -> Stage:
    work = base / "work"
    work.mkdir(exist_ok=True)
    model = ByPrompt(scripts)
    store = SessionStore(base / "state", work)
    policy = Policy(mode=mode, rules=rules or Rules.of(), is_trusted=is_trusted, root=work, probes=NO_SANDBOX)
    tool = Agent(tuple((kind.name, kind.purpose) for kind in KINDS), has_small=small is not None)
    toolbox = Toolbox(work, (), Tools(), {"PATH": "/usr/bin:/bin"}, judge=policy.judge_file, agent=tool)
    connected = Connected(model, KnownModel("scripted", "m", FACTS), lambda mode: "Be brief.")
    wiring = Wiring(
        connect=lambda name: connected,
        new_session=lambda name: store.create(name, work),
        toolbox=toolbox,
        policy=policy,
        limits=LimitStore(base / "state"),
        prompt_limits=limits or PromptLimits(),
        summarizer=lambda: None if small is None else small(connected),
    )
    return Stage(Conversation(wiring, connected, store.create("scripted/m", work)), model, store, work)


def resumed(one: Stage) -> Stage:
    """Return the same conversation as another process would go on with it."""
    session_id = one.conversation.session_id
    one.conversation.release()
    session, loaded = one.store.resume(session_id)
    fresh = stage(one.work.parent, {"": ()})
    fresh.conversation.release()
    wiring, connected = fresh.conversation._wiring, fresh.conversation._connected
    return replace(fresh, conversation=Conversation(wiring, connected, session, loaded.messages))


def ended(events: Sequence[TurnEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


def results(events: Sequence[TurnEvent]) -> list[ToolFinished]:
    """The calls of the conversation itself that ended."""
    return [event for event in events if isinstance(event, ToolFinished)]


def inner_results(events: Sequence[TurnEvent]) -> list[ToolFinished]:
    """The calls of its sub-agents that ended."""
    inside = (event.event for event in events if isinstance(event, AgentEvent))
    return [event for event in inside if isinstance(event, ToolFinished)]
