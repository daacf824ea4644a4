"""A conversation over the real driver, tools, rules and session file, in which the model makes the hostile calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from qcode.agent.conversation import Conversation
from qcode.agent.sandbox import SessionSandbox
from qcode.protocol.approvals import Allow, ApprovalMode, CallApproval, Deny
from qcode.protocol.events import ApprovalRequested, ToolFinished, ToolStarted, TurnEvent
from qcode.protocol.messages import ToolResult
from qcode.safety.paths import SandboxScope
from qcode.safety.policy import Policy
from qcode.safety.probes import Probes, Repository
from qcode.safety.rules import Rules
from qcode.safety.sandbox.detection import Sandbox, find_sandbox
from qcode.tools.workspace import Scratch
from tests.fakes.conversation import Model, open_conversation
from tests.fakes.scripted import Call, ScriptedProvider, calls_reply, text_reply
from tests.safety.hostile.attempts import Attempt
from tests.safety.hostile.canaries import CanaryFolders, filled

_BATCH = 100
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "CANARY-variable", "GIT_SSH_COMMAND": "CANARY-ssh"}


@dataclass
class Played:
    """The result of a conversation. `sent` is all text that the model got, `shown` all text that the user could see."""

    events: list[TurnEvent]
    asked: list[CallApproval]
    sent: str
    shown: str
    session: str
    started: set[str] = field(default_factory=set)

    def finished(self) -> dict[str, ToolFinished]:
        return {event.call.call_id: event for event in self.events if isinstance(event, ToolFinished)}


def play(
    canaries: CanaryFolders,
    attempts: Sequence[Attempt],
    mode: ApprovalMode,
    *,
    is_trusted: bool = True,
    sandbox: Literal["auto", "off"] = "off",
    find: Callable[[], Sandbox | None] = find_sandbox,
    says_yes: Callable[[CallApproval], bool] = lambda asked: False,
    on_event: Callable[[TurnEvent], None] = lambda event: None,
) -> Played:
    """Have a model make all the calls, `_BATCH` per reply, and answer each approval with `says_yes`.

    The model is one that gets `apply_patch` if a call uses it.
    """
    calls = [Call(one.tool, filled(one.arguments, canaries), f"call_{number}") for number, one in enumerate(attempts)]
    replies = [calls_reply(*calls[at : at + _BATCH]) for at in range(0, len(calls), _BATCH)]
    provider = ScriptedProvider([*replies, text_reply("Done.")])
    state = canaries.base.parent / "state"
    model = "gpt-5" if any(attempt.tool == "apply_patch" for attempt in attempts) else "m"
    conversation = _conversation(canaries, provider, model, mode, is_trusted=is_trusted, sandbox=sandbox, find=find)
    played = asyncio.run(_played(conversation, says_yes, on_event))
    played.sent = "\n".join(
        f"{block.content}{block.images}"
        for request in provider.requests[-1:]
        for message in request.messages
        for block in message.blocks
        if isinstance(block, ToolResult)
    )
    played.session = "\n".join(path.read_text("utf-8", "replace") for path in state.rglob("*") if path.is_file())
    assert len(provider.requests) == len(replies) + 1
    return played


async def _played(
    conversation: Conversation, says_yes: Callable[[CallApproval], bool], on_event: Callable[[TurnEvent], None]
) -> Played:
    played = Played([], [], "", "", "")
    async for event in conversation.submit("Go."):
        on_event(event)
        played.events.append(event)
        if isinstance(event, ToolStarted):
            played.started.add(event.call.call_id)
        if isinstance(event, ApprovalRequested):
            played.asked.append(event.approval)
            conversation.answer(event.approval.id, Allow() if says_yes(event.approval) else Deny())
    await conversation.close()
    played.shown = "\n".join(map(repr, played.events))
    return played


def _conversation(
    canaries: CanaryFolders,
    provider: ScriptedProvider,
    model: str,
    mode: ApprovalMode,
    *,
    is_trusted: bool,
    sandbox: Literal["auto", "off"],
    find: Callable[[], Sandbox | None],
) -> Conversation:
    state = canaries.base.parent / "state"
    scratch = Scratch()
    own = (canaries.home / ".config/qcode", canaries.home / ".local/state/qcode", state)
    scope = SandboxScope(canaries.work, (), scratch.path, canaries.home, own, "/usr/bin:/bin")
    session_sandbox = SessionSandbox(sandbox, scope, find)
    probes = Probes(lambda _: "", Repository, lambda: session_sandbox.support, session_sandbox.index.refresh)
    policy = Policy(
        mode,
        Rules.of(),
        is_trusted,
        canaries.work,
        read_only=(scratch.path,),
        home=canaries.home,
        qcode_folders=own,
        probes=probes,
    )
    env = {**_ENVIRONMENT, "HOME": str(canaries.home)}
    found = open_conversation(
        canaries.base.parent,
        provider,
        Model(model),
        policy=policy,
        env=env,
        work=canaries.work,
        scratch=scratch,
        sandbox=session_sandbox,
        has_fetch=True,
    )
    return found.conversation
