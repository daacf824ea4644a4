"""Puts the rooms together: settings, provider, tools, rules, session and prompt become one conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from qcode.cli.agents import kinds_of, offered_agent
from qcode.cli.arguments import LATEST
from qcode.cli.failure import StartError
from qcode.cli.model_facts import facts_of, output_settings
from qcode.cli.policy import policy_of
from qcode.cli.rules import origins_of
from qcode.cli.searching import hosted_tools, search_key
from qcode.cli.selection import Selection, address_of, named
from qcode.cli.servers import header_values, named_servers
from qcode.cli.surroundings import Surroundings
from qcode.config.caps import output_override
from qcode.engine.caps import OutputSettings
from qcode.engine.knowledge import KnownModel
from qcode.engine.retries import RetrySettings
from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Block, Message
from qcode.protocol.provider import Provider
from qcode.protocol.servers import ToolServers
from qcode.protocol.values import dataclass
from qcode.providers import registry
from qcode.providers.addresses import is_local
from qcode.providers.connection import Timeouts
from qcode.providers.counting import TokenCounter
from qcode.providers.local import WindowQuestion, can_tell
from qcode.runtime.agents.kinds import Kind
from qcode.runtime.attachments import mentions
from qcode.runtime.briefing.environment import Environment, read_environment
from qcode.runtime.briefing.instructions import Instructions
from qcode.runtime.briefing.prompt import Briefing, build_agent_prompt, build_system_prompt
from qcode.runtime.conversation import Connected, Conversation, PromptLimits, Wiring
from qcode.runtime.debug_log import DebugLog
from qcode.runtime.fetching import FetchGate
from qcode.runtime.limits import LimitStore
from qcode.runtime.mcp.connection import Place
from qcode.runtime.mcp.pins import Pins
from qcode.runtime.mcp.servers import Servers
from qcode.runtime.memory import Memory
from qcode.runtime.scratch import Scratch
from qcode.runtime.store.session import Session
from qcode.runtime.store.store import SessionStore
from qcode.runtime.toolbox import Toolbox
from qcode.runtime.trust import TrustStore
from qcode.runtime.walls import Walls
from qcode.safety.launch.git_config import overrides
from qcode.safety.policy import Policy
from qcode.safety.redaction import Redactor
from qcode.safety.sandbox.walls import Grounds
from qcode.tools.web_search import SearchService, WebSearch

PIPE_MAX_TURNS = 100
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wired:
    """A conversation that is ready, with what front ends show about it."""

    conversation: Conversation
    provider: Provider
    selection: Selection
    environment: Environment
    instructions: Instructions
    toolbox: Toolbox
    memory: Memory
    notices: tuple[str, ...] = ()

    @property
    def servers(self) -> ToolServers | None:
        return self.toolbox.servers


class Wirer:
    """Makes one conversation, and later other models for it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        arguments, settings = around.arguments, around.settings
        self._conversation: Conversation | None = None
        self.memory = Memory(around.folder, around.root, around.paths.config_dir, self._is_trusted)
        self.instructions = self.memory.read()
        self.environment = read_environment(
            around.folder,
            around.root,
            around.env,
            datetime.now().astimezone().date(),
            is_trusted=around.is_trusted,
            added_folders=arguments.add_dirs,
        )
        self._secrets: set[str] = set()
        for provider in settings.providers.values():
            for name, value in provider.headers.items():
                if _SECRET_HEADER.search(name):
                    self._secrets.update((value, value.split()[-1]))
        self.store = SessionStore(around.paths.state_dir, around.root, redact=self._redact)

    def wire(self, selection: Selection) -> Wired:
        """Return the conversation; raise `StartError`, `ProviderError`, or what the session store raises."""
        around = self._around
        arguments = around.arguments
        connected = self.connect(selection)
        scratch = Scratch()
        search = search_key(around.settings, around.env)
        policy, walls = self._walled(self._searching(policy_of(around), search), scratch)
        prompt_limits, log = self._prompt_limits(connected), self._debug_log()
        kinds, problems = kinds_of(around)
        session, messages, notices = self._session(connected.name)
        self._prune(session.session_id)
        toolbox = self._toolbox(
            lambda: policy if self._conversation is None else self._conversation.policy, scratch, walls, search, kinds
        )
        wiring = Wiring(
            connect=self._connect_named,
            new_session=lambda model: self.store.create(model, around.folder, is_kept=arguments.keeps_session),
            toolbox=toolbox,
            policy=policy,
            limits=LimitStore(around.paths.state_dir),
            prompt_limits=prompt_limits,
            effort=arguments.effort,
            debug_log=log,
            mentioned=self._mentioned,
            sessions=self.store if arguments.keeps_session else None,
            summarizer=self._summarizer,
            instruction_chars=lambda: len(self.memory.read().text),
            tokens=TokenCounter(),
            kinds=kinds,
            tuned=self._tuned,
            check=around.check,
            approved=partial(TrustStore(around.paths.state_dir).accepting, around.root),
            origins=origins_of(around),
            is_attended=around.is_attended,
        )
        self._conversation = conversation = Conversation(wiring, connected, session, messages)
        shown = (self.environment, self.instructions, toolbox, self.memory, problems + notices)
        return Wired(conversation, connected.provider, selection, *shown)

    def _is_trusted(self) -> bool:
        """Whether the folder is trusted now: the person may trust it while the session runs."""
        return self._around.is_trusted if self._conversation is None else self._conversation.policy.is_trusted

    def _toolbox(
        self,
        policy: Callable[[], Policy],
        scratch: Scratch,
        walls: Walls,
        search: tuple[SearchService, str] | None,
        kinds: tuple[Kind, ...],
    ) -> Toolbox:
        """Return the tools; `policy` gives the rules as they are then: a mode that is left must not go on in them."""
        around, gate = self._around, FetchGate(policy)
        return Toolbox(
            around.folder,
            around.arguments.add_dirs,
            around.settings.tools,
            around.env,
            judge=lambda path, access: policy().judge_file(path, access),
            scratch=scratch,
            one_way=around.exit_tools,
            servers=self._servers(),
            shell_settings=lambda command: overrides() if policy().only_reads(command) else {},
            walls=walls,
            gate=gate,
            search=None if search is None else WebSearch(*search, gate),
            agent=offered_agent(kinds, has_small=around.settings.small_model is not None),
        )

    def _searching(self, policy: Policy, search: tuple[SearchService, str] | None) -> Policy:
        """Return the policy as it judges searches with this service, whose key is a secret from now on."""
        if search is None:
            return policy
        service, key = search
        self._secrets.add(key)
        return replace(policy, search_url=service.url)

    def _servers(self) -> Servers | None:
        """Return the tool servers of this run, none of them started; None where there is nothing to say about any."""
        around = self._around
        named = named_servers(around.settings, around.arguments.mcp_configs, around.root, is_trusted=around.is_trusted)
        if not named.specs and not named.complaints:
            return None
        self._secrets.update(value for value in header_values(named.specs, around.env) if value)
        return Servers(
            named.specs,
            Pins(around.paths.state_dir),
            Place(around.folder, around.env),
            is_trusted=around.is_trusted,
            complaints=named.complaints,
        )

    def connect(self, selection: Selection) -> Connected:
        """Return a client for the selection; nothing is sent. Raise `ProviderError` where a key is missing."""
        around = self._around
        settings, spec = around.settings, selection.spec
        network = settings.network_for(spec.name)
        address, source = address_of(spec, settings, around.env)
        if around.arguments.base_url:
            address, source = around.arguments.base_url, "--base-url"
        key, key_source = around.keys.key_of(spec)
        if key:
            self._secrets.add(key)
        timeouts = Timeouts(network.connect_timeout_s, network.first_event_timeout_s, network.idle_timeout_s)
        if settings.origin("network.idle_timeout_s").kind != "default":
            timeouts = replace(timeouts, idle_local=network.idle_timeout_s)
        provider = registry.connect(
            spec, base_url=address, api_key=key, key_source=key_source, timeouts=timeouts, base_url_source=source
        )
        connected = self._connected(provider, spec.protocol, selection.name, selection.model)
        is_askable = is_local(provider.host) and can_tell(spec.name, provider.host)
        if spec.protocol in ("demo", "bedrock") or not is_askable or connected.model.window is not None:
            return connected
        # Where nobody else says how large its context is, a server nearby is asked.
        question = WindowQuestion(spec.name, provider.host, selection.model, key=key, headers=spec.headers)
        return replace(connected, window=question)

    def _connected(self, provider: Provider, protocol: str, name: str, model: str) -> Connected:
        settings, arguments = self._around.settings, self._around.arguments
        override = output_override(settings, name)

        def system(mode: ApprovalMode) -> str:
            return build_system_prompt(
                Briefing(
                    name,
                    self.environment,
                    self.memory.read(),
                    mode,
                    self._around.is_attended,
                    arguments.system_prompt or "",
                    arguments.append_system_prompt or "",
                )
            )

        network = settings.network_for(provider.name)
        facts = facts_of(provider.name, model, settings.models.get(name))
        if facts.text_tool_calls:
            from qcode.providers.text_calls import TextCallProvider

            provider = TextCallProvider(provider)
        return Connected(
            provider,
            KnownModel(provider.name, model, facts),
            system,
            output_settings(settings.output_for(name), override.tokens if override else None),
            RetrySettings(network.max_retries, network.retry_after_max_s),
            hosted=hosted_tools(settings, protocol, provider.host, model, facts),
            agent_system=lambda role: build_agent_prompt(Briefing(name, self.environment, self.instructions), role),
        )

    def _tuned(self, name: str, given: Mapping[str, object]) -> OutputSettings:
        """Return the output settings of a model with those of a command on top; what a flag says beats both."""
        settings = self._around.settings
        own = {key: value for key, value in given.items() if settings.origin(f"output.{key}").kind != "flag"}
        tuned = replace(settings.output_for(name), **own)  # type: ignore[arg-type]  # checked when read
        return output_settings(tuned, tuned.max_tokens)

    def _connect_named(self, name: str) -> Connected:
        try:
            connected = self.connect(named(name, self._around.settings, "chosen in the app"))
            self._prompt_limits(connected)
            return connected
        except (StartError, ProviderError) as error:
            is_without_key = isinstance(error, ProviderError) and error.kind is ErrorKind.NO_CREDENTIAL
            reasons = self._around.keys.complaints if is_without_key else ()
            raise ValueError("; ".join((str(error), *reasons))) from None

    def _summarizer(self) -> Connected | None:
        """Return the model for summaries, None where none is set or it is the conversation's own."""
        name = self._around.settings.small_model
        if name is None:
            return None
        try:
            return self.connect(named(name, self._around.settings, "small_model"))
        except (StartError, ProviderError) as error:
            raise ValueError(str(error)) from None

    def _prune(self, open_id: str) -> None:
        """Remove sessions that are older than the person wants to keep."""
        days = self._around.settings.sessions.retention_days
        if days and self._around.arguments.keeps_session:
            self.store.prune(datetime.now(UTC) - timedelta(days=days), (open_id,))

    def _session(self, model: str) -> tuple[Session, tuple[Message, ...], tuple[str, ...]]:
        arguments, folder = self._around.arguments, self._around.folder
        wanted = arguments.resume
        notices: tuple[str, ...] = ()
        if wanted == LATEST:
            wanted = self.store.latest()
            if wanted is None:
                notices = ("this folder has no session to go on with; a new one begins",)
        if wanted is None:
            return self.store.create(model, folder, is_kept=arguments.keeps_session), (), notices
        if not arguments.keeps_session:
            loaded = self.store.load(wanted)
            return self.store.create(model, folder, is_kept=False), loaded.messages, loaded.notices
        if arguments.forks:
            session, loaded = self.store.fork(wanted, cwd=folder)
        else:
            session, loaded = self.store.resume(wanted)
        return session, loaded.messages, loaded.notices

    def _mentioned(self, typed: str) -> tuple[tuple[Block, ...], tuple[str, ...]]:
        """Attach what a prompt typed in the app names; in pipe mode the prompt holds piped text and is not searched."""
        return mentions(typed, self._around.folder) if self._around.is_attended else ((), ())

    def _debug_log(self) -> DebugLog | None:
        path = self._around.arguments.debug_log
        try:
            return DebugLog(path, self._redact) if path is not None else None
        except OSError as error:
            raise StartError(f"--debug-log {path} cannot be written: {error.strerror}", 42) from None

    def _walled(self, policy: Policy, scratch: Scratch) -> tuple[Policy, Walls]:
        """Return the policy as it counts on the walls of this machine; raise `StartError` where it must and cannot."""
        settings, home = self._around.settings, self._around.env.get("HOME", "")
        at_home = Path(home) if home else None
        grounds = Grounds(policy.root, policy.added, scratch.path, at_home, policy.own, policy.search_path)
        walls = Walls(settings.tools.sandbox, grounds)
        if settings.tools.sandbox == "required" and walls.sandbox is None:
            where = settings.origin("tools.sandbox")
            text = f'{where}: tools.sandbox is "required", and no sandbox works here (qcode doctor says what was tried)'
            raise StartError(text, 52)
        looks = replace(policy.looks, levels=walls.levels)
        return replace(policy, read_only=(scratch.path,), looks=looks), walls

    def _prompt_limits(self, connected: Connected) -> PromptLimits:
        arguments = self._around.arguments
        if arguments.max_budget_usd is not None and connected.model.facts.price is None:
            where = f'[models."{connected.name}"]'
            text = f"--max-budget-usd needs a price, and none is known for {connected.name}: set price in {where}"
            raise StartError(text, 2)
        max_turns = arguments.max_turns
        if max_turns is None and not self._around.is_attended:
            max_turns = PIPE_MAX_TURNS
        return PromptLimits(max_turns, arguments.max_tool_calls, arguments.max_budget_usd)

    def _redact(self, text: str) -> str:
        return Redactor((*self._secrets, *self._around.keys.known())).redact(text)
