"""A conversation: one session with one model. A front end submits prompts, answers approvals, steers and cancels.

`Conversation` owns the session file and the rules; each turn gets a new engine (`Turn`) and driver (`Driver`), whose
`Services` are the methods from `judge` to `switch_model`. Hooks see the events and may restrict calls.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from qcode.agent.approvals import PendingCalls, ResolvedCall
from qcode.agent.checkpoints.checkpoints import Checkpoints
from qcode.agent.context.system_prompt import PendingAttachments
from qcode.agent.driver import Driver, SwitchResult, start_timer
from qcode.agent.models.client import Clients, ContextSizing, ModelClient, refused_turn
from qcode.agent.options import RunContext
from qcode.agent.permissions import Permissions, why_not_read
from qcode.agent.sessions.history import StoredMessage
from qcode.agent.sessions.recorders import JobRecorder, ShownRecorder
from qcode.agent.sessions.session import Session, SessionTranscript
from qcode.agent.sessions.shown import typed_prompt
from qcode.agent.sessions.store import SessionStore
from qcode.agent.subagent_kinds import KINDS, SubagentKind
from qcode.agent.toolbox import BackgroundCalls, Toolbox
from qcode.agent.trust.store import TrustStore
from qcode.agent.usage import RecoveryMetrics, SessionUsage, TurnUsage, turn_usage
from qcode.engine.caps import caps_for
from qcode.engine.counting import size_messages
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    CancelRequested,
    Compact,
    CompactionSettings,
    CompactRequested,
    HookStopped,
    ModelSwitched,
    NoModelLeft,
    RateLimitAnswered,
    RecordRequests,
    SteerQueued,
    SwitchModel,
    TurnSettings,
    UserSubmitted,
)
from qcode.engine.model_facts import Learn
from qcode.engine.turn import Turn
from qcode.protocol.approvals import (
    LIMIT_ID,
    NO_OPTIONS,
    Allow,
    ApprovalMode,
    CallApproval,
    Decision,
    Spans,
    TurnOptions,
    TurnPrompt,
)
from qcode.protocol.errors import InputError, ProviderError
from qcode.protocol.events import Notice, ReplyFinished, Signal, SteeringAdded, ToolFinished, TurnEnded, TurnEvent
from qcode.protocol.messages import Block, MentionedFiles, Message, Text, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import Limit, TextDelta
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.safety.policy import Policy
from qcode.text.json import JsonObject
from qcode.tools.dialog import ExitPlanMode
from qcode.tools.subagent import AGENT_TOOL, SubagentTool

if TYPE_CHECKING:
    from qcode.agent.context.window import ContextReport
    from qcode.agent.hooks.session import SessionHooks
    from qcode.agent.models.fallback import FallbackModels
    from qcode.agent.subagents import Subagents


class Conversation:
    """One session with one model, one turn at a time. Owns its session file, tools and connections until `close`."""

    def __init__(
        self,
        context: RunContext,
        clients: Clients,
        client: ModelClient,
        toolbox: Toolbox,
        permissions: Permissions,
        store: SessionStore,
        session: Session,
        messages: Sequence[Message] = (),
        kinds: tuple[SubagentKind, ...] = KINDS,
    ) -> None:
        """`messages` are the history of a session without a file; `kinds` are the kinds of sub-agents."""
        self.permissions = permissions
        self.effort = context.options.reasoning_effort  # from the next turn on; None: the model's default
        self.background = BackgroundCalls(toolbox)
        self._context = context
        self._clients = clients
        self.client = client  # the model in use
        self._turn_client = client  # the model of the running or last turn
        self._client_after_turn: ModelClient | None = None  # set while a turn uses another model
        self._toolbox = toolbox
        self._store = store
        self.kinds = kinds
        self._driver: Driver | None = None
        self._subagents: Subagents | None = None
        self.turn: Turn | None = None  # the running turn
        self._last_turn: Turn | None = None
        self.attachments: PendingAttachments = PendingAttachments(self._attach_mentions)
        self._observer = clients.observer
        self.metrics = RecoveryMetrics()  # of the turns since the conversation was opened
        self._shown_once: set[str] = set()  # texts of the `is_once` notices that were shown
        self._opening_events: list[TurnEvent] = []  # shown after the first event of a turn
        self._sizing = ContextSizing()
        self._fallback = _fallback_models(clients, context) if context.settings.fallback else None
        self._turn_options = NO_OPTIONS
        self._is_prompt_next = False  # whether the next stored message is the prompt of the turn
        self.hooks: SessionHooks | None = None
        self.checkpoints = Checkpoints(
            toolbox.workspace, session, on_move=self._reload_messages, is_busy=lambda: self.is_busy
        )
        self._accept_changes = partial(TrustStore(context.paths.state_dir, context.folder).accept_changes, context.root)
        self._calls = PendingCalls(toolbox, self.checkpoints.watch_changes, self._accept_changes, permissions)
        toolbox.transcript = lambda: self.transcript.messages
        self._jobs = JobRecorder(toolbox.jobs, lambda: self.session, time.monotonic)
        self._begin_session(session, tuple(messages))

    def use_hooks(self, hooks: SessionHooks) -> None:
        """Let hooks see the events of this conversation from now on."""
        from qcode.agent.hooks.calls import CallHooks

        self.hooks = hooks
        self._calls.hooks = CallHooks(
            hooks.scope, self._toolbox, self._context.folder, self._stop_by_hook, lambda: self.policy
        )
        hooks.open_transcript(self.messages)

    def _stop_by_hook(self, stopped: HookStopped) -> None:
        if self._driver is not None:
            self._driver.put_input(stopped)

    def _begin_session(self, session: Session, messages: tuple[Message, ...] = ()) -> None:
        """Continue with a session; `messages` are the history if the session has no file."""
        self.transcript = SessionTranscript(session, messages)
        self._counter = self.client.counter()
        if (count := self.transcript.last_reported_count(self.client.name)) is not None:
            self._counter.restore(count.messages, count.prompt_tokens, count.reply_tokens)
        self._turn_count = 0
        self.session_usage = SessionUsage(session.history)

    @property
    def session_id(self) -> str:
        return self.transcript.session.session_id

    @property
    def model(self) -> str:
        """`provider/model`."""
        return self.client.name

    @property
    def mode(self) -> ApprovalMode:
        return self.permissions.mode

    @property
    def policy(self) -> Policy:
        """The current rules, with the mode and the approvals of the user."""
        return self.permissions.policy

    @property
    def messages(self) -> tuple[Message, ...]:
        """The committed transcript."""
        return tuple(self.transcript.messages)

    def attach(self, blocks: tuple[Block, ...]) -> None:
        """Attach these blocks (files, images) to the next prompt."""
        self.attachments.attach(blocks)

    @property
    def supports_images(self) -> bool:
        """Whether images may be sent: False if the model is known not to support them, or has refused one."""
        return self.client.known_model().sees_images

    @property
    def supports_reasoning(self) -> bool:
        """Whether the model is known to support reasoning."""
        return self.client.model.facts.can_think

    async def submit(
        self, prompt: str, attached: tuple[Block, ...] = (), options: TurnOptions = NO_OPTIONS
    ) -> AsyncGenerator[TurnEvent, None]:
        """Run one turn, up to `TurnEnded`. Closing the iterator cancels it. Raise `RuntimeError` if a turn runs."""
        if self.is_busy:
            raise RuntimeError("a turn is already running")
        self._last_turn = None  # a prompt that is not sent has no turn
        hook_context: tuple[Text, ...] | None = ()
        if self.hooks is not None:
            async with aclosing(self.hooks.run_before_prompt(prompt)) as events:
                async for event in events:
                    yield self.observe(event)
            hook_context = self.hooks.prompt_context
        if hook_context is None:  # a hook or the user stopped the prompt
            return
        try:
            expanded = await self._toolbox.expand_prompt(TurnPrompt(prompt, options, attached))
            client = self._clients.client_for_turn(options.model, self.client)
        except (ValueError, InputError) as refusal:
            for event in refused_turn(prompt, refusal):
                yield self.observe(event)
            return
        if self._fallback is not None:
            first = self._fallback.begin_turn(client)
            client = first.client
            self._opening_events = list(first.events)
        self._client_after_turn = self.client if client is not self.client else None
        self._use_client(client)
        prompt = expanded.text
        self._turn_options = expanded.options
        self._clients.record_prompt(prompt)
        attached = self.attachments.take_blocks(prompt, expanded.attached, expanded.options.external_spans)
        blocks = self._toolbox.with_instructions_of_files(attached)
        message = Message("user", (*hook_context, *blocks, Text(prompt)))
        async with aclosing(self._run(UserSubmitted(message), prompt, expanded.options)) as events:
            async for event in events:
                yield event

    def compact(self, focus: str = "") -> AsyncGenerator[TurnEvent, None]:
        """Compact the conversation; the last event is `TurnEnded`, as for a turn."""
        return self._run(CompactRequested(focus), "/compact")

    async def _run(
        self, first: UserSubmitted | CompactRequested, prompt: str, options: TurnOptions = NO_OPTIONS
    ) -> AsyncGenerator[TurnEvent, None]:
        if self.is_busy:
            raise RuntimeError("a turn is already running")
        self._turn_options = options
        self._turn_count += 1
        self._turn_client = self.client
        self._is_prompt_next = isinstance(first, UserSubmitted)
        small = self._clients.small()
        settings = self._turn_settings(small, options)
        self._last_turn = self.turn = turn = Turn(
            settings, self.client.known_model(), self.transcript.messages, self._counter, number=self._turn_count
        )
        self._driver = driver = self._new_driver(turn, small)
        stop_timer = start_timer(self._context.timeout_s(options), self.cancel)
        try:
            await self.checkpoints.wait_until_recorded()
            self.attachments.problems += (*self._clients.problems, *await self._prepare(turn, first))
            recorder = ShownRecorder(self.transcript.session.record_shown, time.monotonic, options.shown_prompt)
            async with aclosing(driver.run(first)) as events:
                async for driven in events:
                    event = driven if isinstance(driven, Notice) else recorder.record_event(driven)
                    self.transcript.session.partial.observe(event)
                    if type(event) is TextDelta:  # the most frequent event, which never needs a notice
                        yield self._pass_to_observer(event)
                        continue
                    if isinstance(event, ReplyFinished):
                        self.client.record_reply_length(event, settings.output)
                    for item in self._with_notices(event, prompt):
                        yield self.observe(recorder.record_event(item) if isinstance(item, Notice) else item)
        finally:
            stop_timer()
            self._driver = self._subagents = self.turn = None
            self._opening_events.clear()
            self._toolbox.cancel_reading()
            if self.hooks is not None:
                self.hooks.end_turn(driver.take_notices())
            self._calls.clear()
            self.attachments.end_turn()
            self._use_client(self._client_after_turn or self.client)
            self._client_after_turn = None
            self.transcript.session.sync()

    def _new_driver(self, turn: Turn, summary_client: ModelClient | None) -> Driver:
        """Return the driver of a turn; `summary_client` writes the summaries of a compaction, by default the model."""
        driver = Driver(
            turn,
            self.client.observed_provider,
            self,
            summary_provider=None if summary_client is None else summary_client.observed_provider,
            confirm=partial(self._toolbox.confirm, None if self.hooks is None else self.hooks.confirm),
        )
        if self.hooks is not None:
            self.hooks.show = driver.show
        return driver

    def _with_notices(self, event: TurnEvent, prompt: str) -> list[TurnEvent]:
        """Record an event, and return it with the notices around it; an empty list for a repeated notice."""
        if isinstance(event, Notice) and event.is_once:
            if event.text in self._shown_once:
                return []
            self._shown_once.add(event.text)
        if isinstance(event, TurnEnded):
            self.transcript.session.sync()
            typed = typed_prompt(prompt, self._turn_options.shown_prompt)
            self.session_usage.add(turn_usage(typed, self.model, event))
        sources = (self.transcript.session, self.checkpoints, self._toolbox, self._calls)
        events: list[TurnEvent] = [Notice("warning", text) for source in sources for text in source.take_warnings()]
        if isinstance(event, ToolFinished):
            self.transcript.store_result(event)
        if isinstance(event, SteeringAdded):
            self.attachments.forget_steered(event.text)
        if self.hooks is not None:
            self.hooks.observe(event, is_attended=self._context.is_attended)
        events.append(event)
        if not isinstance(event, TurnEnded):
            events += [*self._opening_events, *(Notice("warning", text) for text in self.attachments.problems)]
            self._opening_events.clear()
            self.attachments.problems.clear()
        return events

    def observe(self, event: TurnEvent) -> TurnEvent:
        """Count an event in the metrics, pass it to the observer (the debug log, the traces), and return it."""
        self.metrics.observe(event, self.model, self.client.model.output_limit, time.monotonic())
        self._pass_to_observer(event)
        if self._observer is not None and isinstance(event, TurnEnded):
            self._observer.record_metrics(self.metrics.as_json())
        return event

    def _pass_to_observer(self, event: TurnEvent) -> TurnEvent:
        if self._observer is not None:
            self._observer.record_event(event)
        return event

    def answer(self, approval_id: str, decision: Decision) -> None:
        """Decide an open approval; an unknown or settled id is ignored."""
        if approval_id == LIMIT_ID:
            if self._driver is not None:
                self._driver.put_input(RateLimitAnswered(isinstance(decision, Allow)))
            return
        settled = self._calls.settle_answer(approval_id, decision)
        if settled is not None and self._driver is not None:
            self._apply_mode()
            self._driver.put_input(settled)
        elif self._subagents is not None:
            self._subagents.answer(approval_id, decision)
            self._apply_mode()

    def steer(self, text: str, attached: tuple[Block, ...] = ()) -> None:
        """Add `text` to the running turn before its next step; ignored if no turn runs."""
        driver = self._driver

        def queue(resources: tuple[Block, ...]) -> None:
            if driver is not None and driver is self._driver:
                driver.put_input(SteerQueued(text, self.attachments.add_steered(text, (*attached, *resources))))

        self._toolbox.steer(text, queue, reads_resources=self._context.is_attended and self._turn_options.finds_files)

    def withdraw_steering(self, text: str) -> bool:
        """Withdraw the last `steer` with this text; return False if the turn has already added it."""
        if self._driver is None or self._driver.withdraw_steering(text) is None:
            return self._toolbox.withdraw_steering(text)
        self.attachments.defer(text)
        return True

    def cancel(self, limit: Limit | None = None) -> None:
        """Cancel the running turn: keep its text, send no more requests. `limit` is the limit that the turn reached."""
        if self.hooks is not None:
            self.hooks.cancel()
        self._toolbox.cancel_reading()
        if self._driver is not None:
            if self._subagents is not None:
                self._subagents.halt()
            self._driver.put_input(CancelRequested(limit=limit))
            self._sizing.cancel()

    def clear(self) -> None:
        """Begin a new session in the same folder with the same model."""
        is_saved = not self._context.options.no_session
        self.open_session(self._store.create(self.model, self._context.folder, is_saved=is_saved))

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the model is offered now; in plan mode also `exit_plan_mode`, if a user can answer."""
        tools = self.client.tools(self._toolbox, self.policy)
        return (*tools, ExitPlanMode.spec) if self.mode == "plan" and self._context.is_attended else tools

    def context_report(self) -> ContextReport:
        """Return the tokens of the next prompt by use."""
        from qcode.agent.context.window import context_report

        return context_report(self.client, self.mode, self.tools, self.transcript.messages, self._counter)

    def usage(self) -> tuple[TurnUsage, ...]:
        """Return the usage of each turn in order; turns of an earlier run have only the usage that was recorded."""
        return self.session_usage.turns(self._clients.price_of)

    def signals(self) -> tuple[Signal, ...]:
        """Return the calls of one-way tools in the running turn, or in the last turn."""
        return () if self._last_turn is None else self._last_turn.signals

    @property
    def session(self) -> Session:
        return self.transcript.session

    @property
    def stored_messages(self) -> tuple[StoredMessage, ...]:
        """All messages of the session, even compacted messages, each with the events that were shown with it."""
        return self.transcript.stored_messages

    @property
    def is_busy(self) -> bool:
        """Whether a turn or its hooks run, or resources that its prompt mentions are being read."""
        are_hooks_running = self.hooks is not None and self.hooks.is_prompting
        return self._driver is not None or self._toolbox.is_reading or are_hooks_running

    def open_session(self, session: Session, *, is_copy: bool = False) -> None:
        """Switch to another session. If it is a copy of the current session, the current approvals still apply."""
        self.permissions.follow_session(session, is_copy=is_copy)
        self._jobs.follow_session(session, is_copy=is_copy)
        self.transcript.session.close()
        self.checkpoints.follow_session(session)
        self._begin_session(session)
        if self.hooks is not None:
            source = "resume" if self.messages else "clear"
            self.hooks.begin_session("fork" if is_copy else source, self.messages)

    def _reload_messages(self) -> None:
        """Reload the messages after the head of the session moved."""
        self.transcript.reload()
        self._counter.context_tokens = size_messages(self.transcript.messages)

    def set_model(self, model: str | ModelClient) -> None:
        """Switch to `provider/model` for the next turn; raise `ValueError` with one line if that is not possible."""
        client = self._clients.client_named(model) if isinstance(model, str) else model
        if self._client_after_turn is not None:
            self._client_after_turn = client
        else:
            self._use_client(client)

    def trust_folder(self) -> None:
        """Apply rules and modes from the next call on, because the user now trusts the folder."""
        self.permissions.trust_folder()
        self._toolbox.trust_folder()

    def set_mode(self, mode: ApprovalMode) -> None:
        self.permissions.set_mode(mode)
        self._apply_mode()

    def _apply_mode(self) -> None:
        """Apply the mode to the running turn: name it in the next request, and settle approvals that it decides."""
        if self.turn is not None and self._driver is not None:
            self.turn.settings = replace(self.turn.settings, system=self.client.system(self.mode), tools=self.tools)
            self._calls.settle_by_mode(self.policy, self._driver.put_input)
        if self._subagents is not None:
            self._subagents.settle_by_mode()

    async def close(self) -> None:
        """Run the SessionEnd hooks, stop the servers, and release the session file and every connection."""
        if self.hooks is not None:
            await self.hooks.end()
        await self._toolbox.end_servers()
        self.release()
        await self._clients.close()

    def release(self) -> None:
        """Close all files without waiting; the exit of the process closes the connections. Safe to call twice."""
        self._jobs.close()
        self.transcript.session.close()
        self.checkpoints.close()
        self._toolbox.close()
        if self._observer is not None:
            self._observer.close()

    async def judge(self, request: AskApproval) -> ApprovalAnswered | CallApproval:
        return await self._calls.judge(self.policy, request)

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        resolved = self._calls.pop(call, arguments)
        started_at = time.monotonic()
        outcome = await self._run_judged(call, resolved, output)
        return await self._calls.with_hook_text(call, resolved, outcome, time.monotonic() - started_at)

    async def _run_judged(self, call: ToolCall, resolved: ResolvedCall, output: Callable[[str], None]) -> ToolOutcome:
        if resolved.name == AGENT_TOOL and self._toolbox.subagent_tool is not None:
            return await self._subagents_of_turn(self._toolbox.subagent_tool).run(call, resolved.arguments)
        can_ask = self._context.is_attended or self._context.servers_can_ask
        show = self._driver.show if self._driver is not None and can_ask else None
        ask = None if show is None else partial(self._calls.ask_for_server, show, call)
        with self.background.track_call(call.call_id, resolved.name) as requested:
            return await self._calls.run(self.policy, resolved, output, self.client.model.name, requested, ask)

    def append(self, effect: Append) -> None:
        self.transcript.append(effect, is_turn_start=self._is_prompt_next)
        self._is_prompt_next = False
        if self.hooks is not None:
            self.hooks.record(effect.message)

    def record_requests(self, effect: RecordRequests) -> None:
        self.transcript.session.record_requests(effect.attempts)

    def store_compaction(self, effect: Compact) -> None:
        self.transcript.compact(effect)
        self._toolbox.forget_instructions()
        if self.hooks is not None:
            self.hooks.record_compaction(effect)

    def learn(self, effect: Learn) -> None:
        self.client.learn(effect)

    def record_intent(self, call: ToolCall) -> None:
        self.transcript.session.record_intent(call)
        self.transcript.session.sync()

    async def explain(self, error: ProviderError) -> ProviderError:
        return await self.client.explain(error)

    async def switch_model(self, effect: SwitchModel) -> SwitchResult:
        """Use the next fallback model for the rest of the turn; the next turn uses the original model again."""
        assert self._fallback is not None
        fallback = await self._fallback.next_after(self.client, effect)
        client = fallback.client
        if client is None:
            return SwitchResult(NoModelLeft(fallback.skipped, self._fallback.limit))
        self._client_after_turn = self._client_after_turn or self.client
        self._use_client(client)
        self._turn_client = client
        self._subagents = None
        await self._sizing.ask_window(client)
        settings = self._turn_settings(self._clients.small(), self._turn_options)
        switched = ModelSwitched(client.known_model(), settings, self._counter, fallback.skipped)
        return SwitchResult(switched, client.observed_provider)

    def _attach_mentions(self, typed: str, external_spans: Spans) -> MentionedFiles:
        """Return the files that a prompt mentions. In an unattended run, prompts mention no files."""
        if not self._context.is_attended or not self._turn_options.finds_files:
            return MentionedFiles()
        from qcode.agent.context.attachments import attach_mentions

        why_not = partial(why_not_read, self.policy)
        return attach_mentions(typed, self._context.folder, external_spans, why_not, self._toolbox.names_resource)

    def _subagents_of_turn(self, tool: SubagentTool) -> Subagents:
        """Return the sub-agents of the running turn."""
        if self._subagents is None:
            from qcode.agent.subagents import ParentTurn, Subagents  # loads with the first sub-agent

            assert self.turn is not None and self._driver is not None
            parent = ParentTurn(
                self.turn, self._driver, self._turn_client, self._toolbox, self.transcript.session,
                self.checkpoints, self.permissions, self._accept_changes, self.hooks,
            )  # fmt: skip
            self._subagents = Subagents(tool, self.kinds, parent, self._clients)
        return self._subagents

    async def _prepare(self, turn: Turn, first: UserSubmitted | CompactRequested) -> tuple[str, ...]:
        """Find the context window, the tools and the prompt size for the first request of a turn; return warnings."""
        client = self.client
        warning = await self._sizing.ask_window(client)
        await self._sizing.wait_for(self._toolbox.wait_for_servers())
        settings = replace(turn.settings, tools=self.tools)
        model = client.known_model()
        turn.settings = settings
        turn.model = model
        cap = caps_for(settings.output, model.output_limit, learned=model.host.first_cap).first
        prompt = (first.message,) if isinstance(first, UserSubmitted) else ()
        request = ModelRequest(model.name, settings.system, (*self.transcript.messages, *prompt), settings.tools, cap)
        await self._sizing.count(request, model.window, self._counter, client.tokens)
        return (warning,) if warning else ()

    def _use_client(self, client: ModelClient) -> None:
        """Switch to `client` and record the model in the session, unless it is the current client."""
        if client is self.client:
            return
        self.client = client
        self._counter = client.counter()
        self.transcript.session.record_model(client.name)

    def _turn_settings(self, small: ModelClient | None, options: TurnOptions) -> TurnSettings:
        client = self.client
        context = self._context
        schema_check = None if context.schema is None else context.schema.validate
        return TurnSettings(
            client.system(self.mode),
            self.tools,
            self.effort,
            replace(self._clients.output_settings_of(client, options.output), is_append_only=options.is_append_only),
            client.retries,
            **context.limits(options),
            has_strict_tools=context.options.strict_tools,
            compaction=CompactionSettings(None if small is None else small.model),
            fallback=None if self._fallback is None else self._fallback.settings,
            check=options.check or schema_check,
            steps_to_confirm=self._toolbox.steps_to_confirm.union(self.hooks.steps_to_confirm if self.hooks else ()),
        )


def _fallback_models(clients: Clients, context: RunContext) -> FallbackModels:
    from qcode.agent.models.fallback import FallbackModels

    return FallbackModels(clients, context.settings)
