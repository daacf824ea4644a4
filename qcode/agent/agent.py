"""The agent as one object: a conversation with its model, tools, rules, sessions and servers, opened for one run.

A front end opens an `Agent` and talks to its `conversation`. Opening reads files and sends nothing; it never writes to
stdout. What keeps it from opening is a `QcodeError`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.context.attachments import mentions
from qcode.agent.context.environment import read_environment
from qcode.agent.context.memory import Memory
from qcode.agent.context.system_prompt import Briefing, build_agent_prompt, build_system_prompt
from qcode.agent.conversation import Connected, Conversation, PromptLimits, Wiring
from qcode.agent.mcp.identity import Place
from qcode.agent.mcp.pins import Pins
from qcode.agent.mcp.servers import Servers
from qcode.agent.mcp.spec import header_values, named_servers
from qcode.agent.models.client import facts_of, output_settings
from qcode.agent.models.limits import LimitStore
from qcode.agent.models.selection import Selection, address_of, begin_with, named, provider_failures
from qcode.agent.options import LATEST, Options, RunContext
from qcode.agent.permissions import Permissions, origins_of, policy_of, why_not_read
from qcode.agent.sandbox import SessionSandbox
from qcode.agent.sessions.library import Library
from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore
from qcode.agent.subagent_kinds import KINDS, Kind, offered_agent, own_kind
from qcode.agent.telemetry import DebugLog
from qcode.agent.toolbox import FetchGate, Scratch, Toolbox, hosted_tools, search_key
from qcode.agent.trust import TrustService, TrustStore
from qcode.config.caps import output_override
from qcode.config.definitions import load_custom_agents
from qcode.engine.caps import OutputSettings
from qcode.engine.model_facts import KnownModel
from qcode.protocol.approvals import ApprovalMode, Spans
from qcode.protocol.errors import ErrorKind, ExitCode, InputError, ProviderError, QcodeError
from qcode.protocol.events import Notice
from qcode.protocol.messages import Block, Message
from qcode.protocol.model import RetrySettings
from qcode.protocol.provider import Provider
from qcode.providers import registry
from qcode.providers.connection import Timeouts, is_local
from qcode.providers.local import WindowQuestion, can_tell
from qcode.providers.tokens import TokenCounter
from qcode.safety.git_repository import overrides
from qcode.safety.paths import SandboxScope
from qcode.safety.policy import Policy
from qcode.tools.web_search import SearchService, WebSearch

if TYPE_CHECKING:
    from qcode.agent.context.clipboard import Clip
    from qcode.agent.context.file_index import FileIndex
    from qcode.agent.context.pictures import Picture
    from qcode.agent.keys.connect import KeysService
    from qcode.agent.models.offered import ModelsService
    from qcode.agent.offered_tools import OfferedTool
    from qcode.agent.settings import SettingsService
    from qcode.config.definitions import CustomCommands

MAX_TURNS_UNATTENDED = 100
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)


class Agent:
    """Owns its conversation and everything that belongs to it until `close` or `release`."""

    def __init__(self, context: RunContext, selection: Selection) -> None:
        """Raise `QcodeError`, or `ProviderError` if the model cannot be connected."""
        self.context = context
        self.selection = selection
        options, settings = context.options, context.settings
        self._conversation: Conversation | None = None
        self.memory = Memory(
            context.folder,
            context.root,
            context.paths.config_dir,
            self._is_trusted,
            lambda path: self._may_import(path),
        )
        self.instructions = self.memory.read()
        self.environment = read_environment(
            context.folder,
            context.root,
            context.env,
            datetime.now().astimezone().date(),
            is_trusted=context.is_trusted,
            added_folders=options.add_dirs,
        )
        self._secrets: set[str] = set()
        for provider in settings.providers.values():
            for name, value in provider.headers.items():
                if _SECRET_HEADER.search(name):
                    self._secrets.update((value, value.split()[-1]))
        self._store = SessionStore(context.paths.state_dir, context.root, redact=self._redact)
        self._open(selection)

    @classmethod
    def begin(cls, options: Options | RunContext, selection: Selection | None = None) -> Agent:
        """Open an agent on the model of `selection`, or else the one that the options and settings choose.

        Raise `QcodeError`. It blocks: on a running loop use `open`.
        """
        context = options if isinstance(options, RunContext) else RunContext.read(options, dict(os.environ))
        with provider_failures(context.keys):
            return cls(context, selection or begin_with(context))

    @classmethod
    @asynccontextmanager
    async def open(cls, options: Options | RunContext, selection: Selection | None = None) -> AsyncIterator[Agent]:
        """Open an agent as `begin` does, in a thread, and close it at the end."""
        agent = await asyncio.to_thread(cls.begin, options, selection)
        try:
            yield agent
        finally:
            await agent.close()

    @property
    def conversation(self) -> Conversation:
        assert self._conversation is not None
        return self._conversation

    @cached_property
    def models(self) -> ModelsService:
        from qcode.agent.models.offered import ModelsService

        return ModelsService(self.context)

    @cached_property
    def settings(self) -> SettingsService:
        from qcode.agent.settings import SettingsService

        return SettingsService(self.context)

    @cached_property
    def keys(self) -> KeysService:
        from qcode.agent.keys.connect import KeysService

        return KeysService(self.context, self.selection)

    @cached_property
    def trust(self) -> TrustService:
        conversation, context = self.conversation, self.context
        return TrustService(
            context.root, context.paths.state_dir, lambda: conversation.policy.is_trusted, conversation.trust_folder
        )

    @property
    def permissions(self) -> Permissions:
        return self.conversation.permissions

    @property
    def sessions(self) -> Library:
        return self.conversation.library

    @property
    def servers(self) -> Servers | None:
        return self.toolbox.servers

    @cached_property
    def files(self) -> FileIndex:
        """The files of the folder, for completing a path."""
        from qcode.agent.context.file_index import FileIndex

        context = self.context
        return FileIndex(context.folder, context.root, context.env, self._is_trusted)

    def start_notices(self) -> tuple[Notice, ...]:
        """Return what the user should know before the first prompt: ignored settings, unreadable keys, lost trust."""
        context = self.context
        texts = (*context.settings.warnings, *context.keys.complaints, *self.notices, *self.instructions.notices)
        return (*(Notice("warning", text) for text in texts), *self.trust.notices())

    def custom_commands(self, taken: Sequence[str] = ()) -> CustomCommands:
        """Read the commands from files; a front end has commands of the names in `taken` itself."""
        from qcode.config.definitions import load_custom_commands

        context = self.context
        return load_custom_commands(context.paths.config_dir, context.root, is_trusted=context.is_trusted, taken=taken)

    def offered_tools(self) -> tuple[OfferedTool, ...]:
        """Return the tools as the model is offered them now."""
        from qcode.agent.offered_tools import offered_tools

        statuses = self.servers.statuses() if self.servers is not None else ()
        servers = {tool.name: status.name for status in statuses for tool in status.tools}
        return offered_tools(self.conversation.tools, self.conversation.policy, servers)

    def findings(self, *, is_in_app: bool = False) -> tuple[str, ...]:
        """Return the report of the doctor as lines; it blocks. `is_in_app`: a screen has replaced the streams."""
        from qcode.agent.doctor import report

        return tuple(report(self.context, is_in_app=is_in_app, is_trusted=self.conversation.policy.is_trusted))

    def warm_up(self) -> None:
        """Load what the first request needs, if it needs an SDK; it blocks."""
        warm_up: Callable[[], None] | None = getattr(self.provider, "warm_up", None)
        if warm_up is not None:
            warm_up()

    def read_picture(self, path: str) -> Picture:
        """Read the image at `path`, relative to the folder; raise `InputError`."""
        from qcode.agent.context.pictures import picture_at

        return picture_at(path, self.context.folder)

    def read_clipboard(self) -> Clip:
        """Read the clipboard of the system; it blocks."""
        from qcode.agent.context.clipboard import read_clipboard

        return read_clipboard(self.context.env, self.context.root, system=sys.platform)

    def report_crash(self, failure: BaseException) -> str:
        """Keep the details of an unforeseen failure; return in one line what it was and where they are."""
        from qcode.agent.crash import report_crash

        return report_crash(failure, self.context.env)

    async def close(self) -> None:
        """End the servers, and release the session file and every connection."""
        await self.conversation.close()

    def release(self) -> None:
        """Let go of all files, for a process that ends now; safe to call twice."""
        self.conversation.release()

    def _open(self, selection: Selection) -> None:
        """Make the tools and the conversation."""
        context = self.context
        options = context.options
        connected = self.connect(selection)
        scratch = Scratch()
        search = search_key(context.settings, context.env)
        policy, sandbox = self._confined(self._searching(policy_of(context), search), scratch)
        prompt_limits, log = self._prompt_limits(connected), self._debug_log()
        kinds, problems = kinds_of(context)
        session, messages, notices = self._session(connected.name)
        self._prune(session.session_id)
        self.toolbox = self._toolbox(
            lambda: policy if self._conversation is None else self._conversation.policy, scratch, sandbox, search, kinds
        )
        wiring = Wiring(
            connect=self._connect_named,
            new_session=lambda model: self._store.create(model, context.folder, is_kept=options.keeps_session),
            toolbox=self.toolbox,
            policy=policy,
            limits=LimitStore(context.paths.state_dir),
            prompt_limits=prompt_limits,
            effort=options.effort,
            debug_log=log,
            mentioned=self._mentioned,
            sessions=self._store if options.keeps_session else None,
            summarizer=self._summarizer,
            instruction_chars=lambda: len(self.memory.read().text),
            tokens=TokenCounter(),
            kinds=kinds,
            tuned=self._tuned,
            check=context.schema.complaint if context.schema is not None else None,
            approved=partial(TrustStore(context.paths.state_dir).accepting, context.root),
            origins=origins_of(context),
            is_attended=context.is_attended,
        )
        self._conversation = Conversation(wiring, connected, session, messages)
        self.provider = connected.provider
        self.notices = problems + notices

    def _is_trusted(self) -> bool:
        """Whether the folder is trusted now: the person may trust it while the session runs."""
        return self.context.is_trusted if self._conversation is None else self._conversation.policy.is_trusted

    def _may_import(self, path: Path) -> bool:
        """Whether an instruction file of the project may hold `path`, or lead to it: the model may read it unasked."""
        policy = policy_of(self.context) if self._conversation is None else self._conversation.policy
        verdict = policy.judge_file(str(path), "read")
        if path.is_relative_to(policy.root.resolve()):
            return verdict.is_allowed
        # Instruction files lie in the whole project, also above the folder that the session works in.
        project = replace(policy, root=self.context.root)
        return verdict.verdict != "deny" and project.judge_file(str(path), "read").is_allowed

    def _toolbox(
        self,
        policy: Callable[[], Policy],
        scratch: Scratch,
        sandbox: SessionSandbox,
        search: tuple[SearchService, str] | None,
        kinds: tuple[Kind, ...],
    ) -> Toolbox:
        """Return the tools; `policy` gives the rules as they are then: a mode that is left must not go on in them."""
        context, gate = self.context, FetchGate(policy)
        return Toolbox(
            context.folder,
            context.options.add_dirs,
            context.settings.tools,
            context.env,
            judge=lambda path, access: policy().judge_file(path, access),
            scratch=scratch,
            one_way=context.exit_tools,
            servers=self._servers(),
            shell_settings=lambda command: overrides() if policy().only_reads(command) else {},
            sandbox=sandbox,
            gate=gate,
            search=None if search is None else WebSearch(*search, gate),
            agent=offered_agent(kinds, has_small=context.settings.small_model is not None),
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
        context = self.context
        named = named_servers(
            context.settings, context.options.mcp_configs, context.root, is_trusted=context.is_trusted
        )
        if not named.specs and not named.complaints:
            return None
        self._secrets.update(value for value in header_values(named.specs, context.env) if value)
        return Servers(
            named.specs,
            Pins(context.paths.state_dir),
            Place(context.folder, context.env, roots=(context.root, *context.options.add_dirs)),
            is_trusted=context.is_trusted,
            complaints=named.complaints,
        )

    def connect(self, selection: Selection) -> Connected:
        """Return a client for the selection; nothing is sent. Raise `ProviderError` where a key is missing."""
        context = self.context
        settings, spec = context.settings, selection.spec
        network = settings.network_for(spec.name)
        address, source = address_of(spec, settings, context.env)
        if context.options.base_url:
            address, source = context.options.base_url, "--base-url"
        key, key_source = context.keys.key_of(spec)
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
        settings, options = self.context.settings, self.context.options
        override = output_override(settings, name)

        def system(mode: ApprovalMode) -> str:
            return build_system_prompt(
                Briefing(
                    name,
                    self.environment,
                    self.memory.read(),
                    mode,
                    self.context.is_attended,
                    options.system_prompt or "",
                    options.append_system_prompt or "",
                )
            )

        network = settings.network_for(provider.name)
        facts = facts_of(provider.name, model, settings.models.get(name))
        if facts.text_tool_calls:
            from qcode.providers.text_calls.provider import TextCallProvider

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
        settings = self.context.settings
        own = {key: value for key, value in given.items() if settings.origin(f"output.{key}").kind != "flag"}
        tuned = replace(settings.output_for(name), **own)  # type: ignore[arg-type]  # checked when read
        return output_settings(tuned, tuned.max_tokens)

    def _connect_named(self, name: str) -> Connected:
        try:
            connected = self.connect(named(name, self.context.settings, "chosen in the app"))
            self._prompt_limits(connected)
            return connected
        except (QcodeError, ProviderError) as error:
            is_without_key = isinstance(error, ProviderError) and error.kind is ErrorKind.NO_CREDENTIAL
            reasons = self.context.keys.complaints if is_without_key else ()
            raise ValueError("; ".join((str(error), *reasons))) from None

    def _summarizer(self) -> Connected | None:
        """Return the model for summaries, None where none is set or it is the conversation's own."""
        name = self.context.settings.small_model
        if name is None:
            return None
        try:
            return self.connect(named(name, self.context.settings, "small_model"))
        except (QcodeError, ProviderError) as error:
            raise ValueError(str(error)) from None

    def _prune(self, open_id: str) -> None:
        """Remove sessions that are older than the person wants to keep."""
        days = self.context.settings.sessions.retention_days
        if days and self.context.options.keeps_session:
            self._store.prune(datetime.now(UTC) - timedelta(days=days), (open_id,))

    def _session(self, model: str) -> tuple[Session, tuple[Message, ...], tuple[str, ...]]:
        options, folder = self.context.options, self.context.folder
        wanted = options.resume
        notices: tuple[str, ...] = ()
        if wanted == LATEST:
            wanted = self._store.latest()
            if wanted is None:
                notices = ("this folder has no session to go on with; a new one begins",)
        if wanted is None:
            return self._store.create(model, folder, is_kept=options.keeps_session), (), notices
        if not options.keeps_session:
            loaded = self._store.load(wanted)
            return self._store.create(model, folder, is_kept=False), loaded.messages, loaded.notices
        if options.forks:
            session, loaded = self._store.fork(wanted, cwd=folder)
        else:
            session, loaded = self._store.resume(wanted)
        return session, loaded.messages, loaded.notices

    def _mentioned(self, typed: str, foreign: Spans) -> tuple[tuple[Block, ...], tuple[str, ...]]:
        """Attach what a prompt typed in the app names; in pipe mode the prompt holds piped text and is not searched."""
        conversation = self._conversation
        if not self.context.is_attended or conversation is None:
            return (), ()
        return mentions(typed, self.context.folder, foreign, lambda path: why_not_read(conversation.policy, path))

    def _debug_log(self) -> DebugLog | None:
        path = self.context.options.debug_log
        try:
            return DebugLog(path, self._redact) if path is not None else None
        except OSError as error:
            raise InputError(f"--debug-log {path} cannot be written: {error.strerror}") from None

    def _confined(self, policy: Policy, scratch: Scratch) -> tuple[Policy, SessionSandbox]:
        """Return the policy with the sandbox of this machine; raise `QcodeError` if one is required and none works."""
        settings, home = self.context.settings, self.context.env.get("HOME", "")
        at_home = Path(home) if home else None
        scope = SandboxScope(policy.root, policy.added, scratch.path, at_home, policy.own, policy.search_path)
        sandbox = SessionSandbox(settings.tools.sandbox, scope)
        if settings.tools.sandbox == "required" and sandbox.sandbox is None:
            where = settings.origin("tools.sandbox")
            text = f'{where}: tools.sandbox is "required", and no sandbox works here (qcode doctor says what was tried)'
            raise QcodeError(text, ExitCode.BAD_CONFIG)
        probes = replace(policy.probes, sandbox=lambda: sandbox.support, contents=lambda: sandbox.index.look())
        return replace(policy, read_only=(scratch.path,), probes=probes), sandbox

    def _prompt_limits(self, connected: Connected) -> PromptLimits:
        options = self.context.options
        if options.max_budget_usd is not None and connected.model.facts.price is None:
            where = f'[models."{connected.name}"]'
            text = f"--max-budget-usd needs a price, and none is known for {connected.name}: set price in {where}"
            raise QcodeError(text, ExitCode.USAGE)
        max_turns = options.max_turns
        if max_turns is None and not self.context.is_attended:
            max_turns = MAX_TURNS_UNATTENDED
        return PromptLimits(max_turns, options.max_tool_calls, options.max_budget_usd)

    def _redact(self, text: str) -> str:
        from qcode.safety.redaction import Redactor

        return Redactor((*self._secrets, *self.context.keys.known())).redact(text)


def kinds_of(context: RunContext) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """Return the kinds there are, and a line for each file that cannot be used."""
    if not context.settings.tools.agents:
        return (), ()
    taken = tuple(kind.name for kind in KINDS)
    found = load_custom_agents(context.paths.config_dir, context.root, is_trusted=context.is_trusted, taken=taken)
    own = (
        own_kind(one.name, one.description, one.prompt, only_reads=one.only_reads, tools=one.tools, model=one.model)
        for one in found.agents
    )
    return (*KINDS, *own), found.problems
