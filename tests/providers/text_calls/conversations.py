"""A conversation over the real driver, store, rules and tools, round any provider."""

from __future__ import annotations

from pathlib import Path

from qcode.agent.conversation import Connected, Conversation, Wiring
from qcode.agent.models.limits import LimitStore
from qcode.agent.sessions.store import SessionStore
from qcode.agent.toolbox import Toolbox
from qcode.config.settings import Tools
from qcode.engine.model_facts import KnownModel
from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.protocol.model import RetrySettings
from qcode.protocol.provider import Provider
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules


def converse(base: Path, provider: Provider, model: str = "m") -> Conversation:
    """Return a conversation in `base/work` in which everything is allowed."""
    work = base / "work"
    work.mkdir(exist_ok=True)
    store = SessionStore(base / "state", work)
    policy = Policy(mode="bypass", rules=Rules.of(), is_trusted=True, root=work)
    toolbox = Toolbox(work, (), Tools(), {"PATH": "/usr/bin:/bin"}, judge=policy.judge_file)
    known = KnownModel(provider.name, model)
    connected = Connected(provider, known, lambda mode: "Be brief.", retries=RetrySettings(max_retries=0))
    wiring = Wiring(
        connect=lambda name: connected,
        new_session=lambda name: store.create(name, work),
        toolbox=toolbox,
        policy=policy,
        limits=LimitStore(base / "state"),
    )
    return Conversation(wiring, connected, store.create(f"{provider.name}/{model}", work))


async def play(conversation: Conversation, prompt: str) -> list[TurnEvent]:
    """Submit one prompt and close the conversation; return the events."""
    try:
        return [event async for event in conversation.submit(prompt)]
    finally:
        await conversation.close()


def ended(events: list[TurnEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]
