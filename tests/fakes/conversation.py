"""A real conversation with the real driver, store, rules and tools, and any provider; `talk` uses a scripted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from qcode.agent.context.instructions import Instructions
from qcode.agent.context.system_prompt import Prompts
from qcode.agent.conversation import Conversation
from qcode.agent.models.client import Clients, ModelClient
from qcode.agent.models.limits import LimitStore
from qcode.agent.options import Options, RunContext
from qcode.agent.permissions import Origins, Permissions
from qcode.agent.sessions.library import SessionLibrary
from qcode.agent.sessions.store import SessionStore
from qcode.agent.toolbox import FetchGate, Toolbox
from qcode.config.settings import Tools
from qcode.engine.caps import OutputSettings
from qcode.engine.model_facts import KnownModel
from qcode.protocol.approvals import ApprovalMode
from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.protocol.model import ModelFacts, RetrySettings
from qcode.protocol.provider import Provider
from qcode.providers.local import WindowQuery
from qcode.providers.tokens import TokenCounter
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.tools.workspace import Scratch
from tests.fakes.scripted import ScriptedProvider
from tests.safety.policies import NO_SANDBOX

P = TypeVar("P", bound=Provider)


@dataclass
class ConversationRunner(Generic[P]):
    """Plays prompts in a conversation, with direct access to the parts of that conversation."""

    conversation: Conversation
    provider: P
    store: SessionStore
    limits: LimitStore
    work: Path
    sessions: SessionLibrary
    toolbox: Toolbox

    async def play(self, prompt: str, on_event: Callable[[TurnEvent], None] = lambda event: None) -> list[TurnEvent]:
        events = []
        async for event in self.conversation.submit(prompt):
            on_event(event)
            events.append(event)
        return events


Talk: TypeAlias = ConversationRunner[ScriptedProvider]


@dataclass(frozen=True)
class Model:
    """The model of a scripted conversation: its name, and the facts for its `ModelClient`."""

    name: str = "m"
    provider: str = ""
    facts: ModelFacts = ModelFacts()  # noqa: RUF009  # a frozen value
    output: OutputSettings | None = None
    retries: RetrySettings | None = None
    window_query: WindowQuery | None = None
    tokens: Callable[[], TokenCounter] | None = None

    def client(self, provider: Provider, limits: LimitStore) -> ModelClient:
        return ModelClient(
            provider,
            KnownModel(self.provider or provider.name, self.name, self.facts),
            BriefPrompts(),
            limits,
            output=self.output,
            retries=self.retries,
            window_query=self.window_query,
            tokens=self.tokens,
        )


class BriefPrompts(Prompts):
    """Short system prompts that name the mode."""

    def __init__(self) -> None:
        self.instructions = Instructions()
        self.skills = ""

    def system(self, model: str, mode: ApprovalMode) -> str:
        return f"Be brief ({mode})."

    def subagent_system(self, model: str, prompt: str, *, has_skills: bool = False) -> str:
        return prompt

    @property
    def instruction_chars(self) -> int:
        return 0


class ScriptedClients(Clients):
    """Clients of one scripted host. `other/m` is the same host under another name; `nowhere` is unknown."""

    def __init__(self, context: RunContext, main: ModelClient, limits: LimitStore, small: ModelClient | None) -> None:
        super().__init__(context, main.prompts)
        self._main = main
        self._scripted_limits = limits
        self._scripted_small = small

    def client_named(self, name: str) -> ModelClient:
        if name.startswith("nowhere/"):
            raise ValueError(f"no model {name}")
        if name.startswith("other/"):
            return Model(provider="other").client(self._main.provider, self._scripted_limits)
        return self._main

    def small(self) -> ModelClient | None:
        return self._scripted_small

    async def close(self) -> None:
        for client in (self._main, self._scripted_small):
            if client is not None:
                await client.provider.close()


def open_conversation(
    base: Path,
    provider: P,
    model: Model = Model(),  # a frozen value
    *,
    small: tuple[Provider, Model] | None = None,
    mode: ApprovalMode = "default",
    rules: Rules | None = None,
    is_trusted: bool = True,
    is_attended: bool = False,
    policy: Policy | None = None,
    origins: Origins | None = None,
    options: Options = Options(),  # noqa: B008  # a frozen value
    env: Mapping[str, str] | None = None,
    work: Path | None = None,
    resumes: str = "",
    has_fetch: bool = False,
    **tools: Any,
) -> ConversationRunner[P]:
    """Return a conversation that works in `base/work` and stores its state in `base/state`.

    `policy` replaces the policy made of `mode`, `rules` and `is_trusted`. `resumes` is the id of a session. `tools` are
    further arguments of its `Toolbox`.
    """
    work = work or base / "work"
    work.mkdir(exist_ok=True)
    scratch = tools.pop("scratch", None) or Scratch()
    options = replace(options, cwd=work, trust=True)
    context = RunContext.read(options, {"QCODE_HOME": str(base), "HOME": str(base)}, is_attended=is_attended)
    policy = policy or Policy(mode, rules or Rules.of(), is_trusted, work, read_only=(scratch.path,), probes=NO_SANDBOX)
    permissions = Permissions(policy, origins)
    toolbox = Toolbox(
        work,
        (),
        Tools(),
        {"PATH": "/usr/bin:/bin", **(env or {})},
        judge=lambda path, access: permissions.policy.judge_file(path, access),
        scratch=scratch,
        gate=FetchGate(lambda: permissions.policy) if has_fetch else None,
        **tools,
    )
    store, limits = SessionStore(base / "state", work), LimitStore(base / "state")
    client = model.client(provider, limits)
    clients = ScriptedClients(context, client, limits, None if small is None else small[1].client(small[0], limits))
    if resumes:
        opened = store.resume(resumes)
        session, loaded = opened.session, opened.loaded
        messages = loaded.messages
    else:
        session, messages = store.create(client.name, work), ()
    conversation = Conversation(context, clients, client, toolbox, permissions, store, session, messages)
    sessions = SessionLibrary(conversation, None if options.no_session else store, work, clients)
    return ConversationRunner(conversation, provider, store, limits, work, sessions, toolbox)


def talk(base: Path, *replies: Sequence[object], max_retries: int = 5, model: Model | None = None, **more: Any) -> Talk:
    """Return a conversation with a model that gives these replies; `more` are arguments of `open_conversation`."""
    provider = ScriptedProvider(replies)  # type: ignore[arg-type]  # builders of the fake give its own steps
    model = model or Model(retries=RetrySettings(max_retries=max_retries))
    return open_conversation(base, provider, model, **more)


def ended(events: Sequence[TurnEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]
