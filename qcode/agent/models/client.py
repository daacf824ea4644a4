"""Connections to models: a `ModelClient` is one connected model; `Clients` opens and closes clients.

A client holds the provider, the facts, the prompts and the learned limits of a model. `ContextSizing` finds the window
of a local model and the size of the prompt before the first request of a turn. `facts_of` returns the facts of the
catalog, overridden by the configuration. The nearest model names of the host are added to an "unknown model" error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from qcode.agent.context.system_prompt import Prompts
from qcode.agent.models.limits import LimitStore, NoLimits, StoredCallFacts, reply_length
from qcode.agent.models.selection import DEMO, Selection, address_of, select_model
from qcode.agent.options import RunContext
from qcode.agent.toolbox import Toolbox
from qcode.config.settings import ModelSettings, Network, Output
from qcode.engine.caps import OutputSettings, max_prompt_tokens
from qcode.engine.counting import PromptCounter
from qcode.engine.model_facts import KnownModel, Learn
from qcode.protocol.approvals import ApprovalMode
from qcode.protocol.errors import ErrorInfo, ErrorKind, InputError, ProviderError, QcodeError, UsageError
from qcode.protocol.events import ReplyFinished, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.model import ModelFacts, ModelRequest, RetrySettings
from qcode.protocol.reply import Outcome
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Price
from qcode.providers import registry
from qcode.providers.connection import Sourced, Timeouts, is_local
from qcode.providers.history import opaque_origin
from qcode.providers.sdk import run_in_thread
from qcode.providers.streaming import TextCallWatch
from qcode.safety.policy import Policy

if TYPE_CHECKING:
    from qcode.agent.models.recording import Recording
    from qcode.agent.telemetry import Observer
    from qcode.protocol.provider import Provider
    from qcode.providers.local import LocalWindow, WindowQuery
    from qcode.providers.tokens import TokenCounter


@cache
def token_counter() -> TokenCounter:
    """Return the token counter of the process; its tables are loaded for the first prompt that may not fit."""
    from qcode.providers.tokens import TokenCounter

    return TokenCounter()


class ModelClient:
    """A connected model.

    `hosted` are tools that the host runs itself. `window_query` asks a local server for its context window if that is
    unknown. `tokens` returns the token counter; without it, the size of a prompt is estimated.
    """

    def __init__(
        self,
        provider: Provider,
        model: KnownModel,
        prompts: Prompts,
        limits: LimitStore,
        *,
        output: OutputSettings | None = None,
        retries: RetrySettings | None = None,
        hosted: tuple[ToolSpec, ...] = (),
        window_query: WindowQuery | None = None,
        tokens: Callable[[], TokenCounter] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.provider = provider
        self.observed_provider = provider  # the provider whose requests the observer also gets
        if observer is not None:
            self.observed_provider = observer.watch(provider)
        self.model = model
        self.prompts = prompts
        self.output = output or OutputSettings()
        self.retries = retries or RetrySettings()
        self.window_query = window_query
        self.window: int | None = None  # the answer to `window_query`
        self.tokens = tokens
        self._hosted_tools = hosted
        self._limits = limits

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.model.provider}/{self.model.name}"

    @property
    def price(self) -> Price | None:
        return self.model.facts.price

    def known_model(self) -> KnownModel:
        """Return the model with its facts, including the learned limits of its host."""
        host = self._limits.knowledge(self.provider.host, self.model.name)
        # The current answer of the server overrides a limit learned earlier.
        first_cap = self._limits.first_cap(self.provider.host, self.model.name)
        return replace(self.model, host=replace(host, window=self.window or host.window, first_cap=first_cap))

    def tools(self, toolbox: Toolbox, policy: Policy) -> tuple[ToolSpec, ...]:
        """Return every tool that the model is offered, with hosted tools last."""
        hosted = self._hosted_tools if policy.allows_provider_search else ()
        return (*toolbox.specs(self.model.name, self.known_model().window), *filter(toolbox.is_offered, hosted))

    def system(self, mode: ApprovalMode) -> str:
        """Return the system prompt of the conversation in this mode."""
        return self.prompts.system(self.name, mode)

    def learn(self, effect: Learn) -> None:
        """Store a fact about the host that a reply revealed."""
        host, model = self.provider.host, self.model.name
        self._limits.remember(host, model, self._limits.knowledge(host, model).with_fact(effect))

    def record_reply_length(self, event: ReplyFinished, output: OutputSettings) -> None:
        """Store the length of a reply, if its first cap was not set by the user."""
        if not output.learn_first_cap or output.override is not None:
            return
        length = reply_length(event)
        if length is not None:
            self._limits.record_reply_length(self.provider.host, self.model.name, length)

    async def explain(self, error: ProviderError) -> ProviderError:
        """Return the error; one about an unknown model gets the nearest model names."""
        if error.kind is not ErrorKind.UNKNOWN_MODEL and error.status != _NOT_FOUND:
            return error
        return await with_nearest_models(error, self.provider, self.model.name)

    def counter(self) -> PromptCounter:
        tokens = self.tokens
        return PromptCounter(None if tokens is None else lambda text: tokens().count(text))


ASK_TIMEOUT_S = 10.0
"""The time limit for the list of a host's models, including the import of an SDK, which may take seconds."""
MAX_NAMES = 3
"""The maximum number of model names that an error suggests."""
_NOT_FOUND = 404


async def with_nearest_models(error: ProviderError, provider: Provider, model: str) -> ProviderError:
    """Return `error` with the requested model and the nearest model names in its message.

    A 404 may also mean that the address is wrong. Such an error is changed only if the host lists its models, and this
    model is not among them. The names of a host without a list, or with a key that may not read it, are those of the
    catalog.
    """
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            names = await provider.model_names()
    except (ProviderError, TimeoutError):
        names = ()
    is_about_model = error.kind is ErrorKind.UNKNOWN_MODEL
    if not is_about_model and (not names or model in names):
        return error
    from qcode.providers import catalog
    from qcode.text.match import nearest_list, similar

    message = error.message.rstrip(". ")
    if model not in message:
        message = f"{message} (requested: {provider.name}/{model})"
    # A host may list a model that it does not serve at this address: do not suggest the refused name again.
    others = tuple(name for name in names or catalog.nearest(provider.name, model) if name != model)
    near = similar(model, others, MAX_NAMES) or others[:MAX_NAMES]
    if near:
        message += f"; {nearest_list(f'{provider.name}/{name}' for name in near)}"
    return ProviderError(
        ErrorKind.UNKNOWN_MODEL,
        message,
        status=error.status,
        request_id=error.request_id,
        code=error.code,
        param=error.param,
    )


class Clients:
    """A factory of model clients that owns every connection until `close`.

    The keys in use are added to `secrets`. `observer` gets the requests of the run, `recording` also the replies.
    `wrap` replaces each provider by the provider that it returns.
    """

    def __init__(
        self,
        context: RunContext,
        prompts: Prompts,
        secrets: set[str] | None = None,
        observer: Observer | None = None,
        recording: Recording | None = None,
        wrap: Callable[[Provider], Provider] | None = None,
    ) -> None:
        self.observer = observer
        self._recording = recording
        self._wrap = wrap
        self.problems: tuple[str, ...] = ()
        """A line for the user if the small model cannot be connected."""
        self._context = context
        self._prompts = prompts
        self._secrets = set() if secrets is None else secrets
        self._limits = LimitStore(context.paths.state_dir)
        self._connected_clients: list[ModelClient] = []
        self._turn_clients: dict[str, ModelClient] = {}
        self._small: ModelClient | None = None
        # The provider of the first model, to which --base-url belongs.
        self._first_provider = ""

    def price_of(self, name: str) -> Price | None:
        return price_of(name, self._context.settings.models)

    def connect(self, selection: Selection) -> ModelClient:
        """Return a client for the selection; nothing is sent. Raise `ProviderError` if a key is missing."""
        if selection.provider is not None:  # its owner closes it: other agents may use it
            return self._client(selection.provider, selection)
        spec = selection.spec
        self._first_provider = self._first_provider or spec.name
        provider, key = _connect(self._context, spec, is_chosen=spec.name == self._first_provider)
        if key:
            self._secrets.add(key)
        client = self._client(provider, selection)
        self._connected_clients.append(client)
        is_known = spec.protocol in (DEMO, "bedrock") or client.model.window is not None
        if is_known or not is_local(provider.host):
            return client
        from qcode.providers.local import WindowQuery, is_known_server

        if is_known_server(spec.name, provider.host):
            # The context window of this model is unknown, so the local server is asked for it.
            client.window_query = WindowQuery(spec.name, provider.host, selection.model, key=key, headers=spec.headers)
        return client

    def _client(self, provider: Provider, selection: Selection) -> ModelClient:
        """Return a client for a connected provider, which is wrapped for text calls, recording and `wrap`."""
        settings, name = self._context.settings, selection.name
        output = settings.output_for(name)
        network = settings.network_for(provider.name)
        facts = facts_of(provider.name, selection.model, settings.models.get(name))
        if facts.has_text_tool_calls:
            from qcode.providers.text_calls.provider import TextCallProvider

            provider = TextCallProvider(provider)
        elif self._may_send_text_calls(provider, settings.models.get(name)):
            provider = TextCallWatch(provider, StoredCallFacts(self._limits, provider.host, selection.model))
        if self._recording is not None:
            provider = self._recording.wrap(provider)
        if self._wrap is not None:
            provider = self._wrap(provider)
        hosted: tuple[ToolSpec, ...] = ()
        if settings.tools.web_search == "host":
            from qcode.agent.models.web_search import hosted_tools  # few users let the host search

            hosted = hosted_tools(settings, selection.spec.protocol, provider.host, selection.model, facts)
        return ModelClient(
            provider,
            KnownModel(provider.name, selection.model, facts),
            self._prompts,
            NoLimits(self._limits.state_dir) if selection.is_replay else self._limits,
            output=output_settings(output, output.max_tokens),
            retries=self._retries(network),
            hosted=hosted,
            tokens=token_counter,
            observer=self.observer,
        )

    def _may_send_text_calls(self, provider: Provider, configured: ModelSettings | None) -> bool:
        """Return whether to recognize calls sent as text, which official hosts never send."""
        if configured is not None and configured.text_tool_calls is False:
            return False
        is_official = not opaque_origin(provider.host)
        return self._context.settings.tools.text_calls and provider.name != DEMO and not is_official

    def _retries(self, network: Network) -> RetrySettings:
        """Return the retry settings of a provider. A flag overrides them; in an unattended run `ask` means never."""
        options = self._context.options
        if options.wait_for_limit is not None:
            return RetrySettings(network.max_retries, network.retry_after_max_s, "always", options.wait_for_limit)
        retries = RetrySettings(network.max_retries, network.retry_after_max_s, network.wait_for_limit)
        return retries if self._context.is_attended else retries.unattended

    def client_named(self, name: str) -> ModelClient:
        """Return a client for `provider/model`; raise `ValueError` with one line if it cannot be connected."""
        try:
            client = self.connect(select_model(name, self._context.settings, "chosen in the app", self._context.keys))
            self.check_budget(client)
            return client
        except (QcodeError, ProviderError) as error:
            is_without_key = isinstance(error, ProviderError) and error.kind is ErrorKind.NO_CREDENTIAL
            reasons = self._context.keys.problems if is_without_key else ()
            raise ValueError("; ".join(dict.fromkeys((str(error), *reasons)))) from None

    def check_budget(self, client: ModelClient) -> None:
        """Raise `QcodeError` if the run has a budget and the price of the model is not known."""
        if client.price is None:
            _check_priced(self._context, client.name)

    def output_settings_of(self, client: ModelClient, explicit: Mapping[str, object]) -> OutputSettings:
        """Return the output settings of a model, overridden by a command's (`explicit`); a flag overrides both."""
        if not explicit:
            return client.output
        settings = self._context.settings
        overrides = {key: value for key, value in explicit.items() if settings.origin(f"output.{key}").kind != "flag"}
        settings_of_turn = replace(settings.output_for(client.name), **overrides)  # type: ignore[arg-type]  # checked when read
        return output_settings(settings_of_turn, settings_of_turn.max_tokens)

    def client_for_turn(self, name: str, current: ModelClient) -> ModelClient:
        """Return the client for one turn: that of the model `name`, or `current` if the name is empty.

        Raise `ValueError` with one line if the model cannot be connected.
        """
        return current if name in ("", current.name) else self.cached_client(name)

    def cached_client(self, name: str) -> ModelClient:
        """Return a client for `provider/model`, connected once and then cached. Raises like `client_named`."""
        if name not in self._turn_clients:
            self._turn_clients[name] = self.client_named(name)
        return self._turn_clients[name]

    def small(self) -> ModelClient | None:
        """Return the small model; None if none is set, or if it cannot be connected (see `problems`)."""
        name = self._context.settings.small_model
        if self._small is None and name is not None:
            self.problems = ()
            try:
                self._small = self.connect(
                    select_model(name, self._context.settings, "small_model", self._context.keys)
                )
            except (QcodeError, ProviderError) as error:
                self.problems = (f"small_model: {error}",)
        return self._small

    def record_prompt(self, prompt: str) -> None:
        """Record the prompt of a turn that begins."""
        if self._recording is not None:
            self._recording.record_prompt(prompt)

    async def close(self) -> None:
        for client in self._connected_clients:
            await client.provider.close()
        if self._recording is not None:
            self._recording.close()


def refused_turn(prompt: str, refusal: Exception) -> tuple[TurnEvent, ...]:
    """Return the events of a turn that cannot begin: its model is not available, or its prompt cannot be read."""
    kind = ErrorKind.BAD_REQUEST if isinstance(refusal, InputError) else ErrorKind.UNKNOWN_MODEL
    error = ErrorInfo(kind, str(refusal))
    ended = TurnEnded.without_reply(Outcome.ERROR, error=error)
    return TurnStarted(prompt), ended


def check_connection(context: RunContext, selection: Selection) -> None:
    """Raise `ProviderError` or `QcodeError` if the model of a run cannot be connected. Nothing is sent."""
    if selection.provider is None:
        provider, _ = _connect(context, selection.spec, is_chosen=True)
        if price_of(f"{provider.name}/{selection.model}", context.settings.models) is None:
            _check_priced(context, f"{provider.name}/{selection.model}")


def _check_priced(context: RunContext, name: str) -> None:
    """Raise `UsageError` if the run has a budget, because the price of model `name` is unknown."""
    if context.options.max_budget_usd is not None:
        text = f"--max-budget-usd needs a price, and the price of {name} is unknown: set price in"
        raise UsageError(f'{text} [models."{name}"]')


def _connect(context: RunContext, spec: registry.ProviderSpec, *, is_chosen: bool) -> tuple[Provider, str]:
    """Return a connected provider, and its key; raise `ProviderError` if there is no key.

    `is_chosen`: `--base-url` applies to this provider.
    """
    settings = context.settings
    network = settings.network_for(spec.name)
    address = address_of(spec, settings, context.env)
    if context.options.base_url and is_chosen:
        address = Sourced(_at_base_url(spec, address.value, context.options.base_url), "--base-url")
    key = context.keys.key_of(spec)
    if failure := context.keys.failure_of(spec):
        raise ProviderError(ErrorKind.NO_CREDENTIAL, failure)
    timeouts = Timeouts(network.connect_timeout_s, network.first_event_timeout_s, network.idle_timeout_s)
    if settings.origin("network.idle_timeout_s").kind != "default":
        timeouts = replace(timeouts, idle_local=network.idle_timeout_s)
    provider = registry.connect(
        spec,
        base_url=address.value,
        base_url_source=address.source,
        api_key=key.value,
        key_source=key.source,
        timeouts=timeouts,
    )
    return provider, key.value


class ContextSizing:
    """Finds the context window and the size of a prompt before the first request of a turn; `cancel` ends the wait."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[LocalWindow | None] | asyncio.Task[None]] = set()

    def cancel(self) -> None:
        """Cancel the pending work: the turn continues with the known facts."""
        for task in self._tasks:
            task.cancel()

    async def ask_window(self, client: ModelClient) -> str:
        """Ask the local server for an unknown window; return a warning if it is small, otherwise an empty string."""
        if client.window is not None or client.window_query is None or client.window_query.is_settled:
            return ""
        task = asyncio.ensure_future(client.window_query.send())
        await self._wait_until_done(task)
        window = None if task.cancelled() else task.result()
        if window is None:
            return ""
        client.window = window.tokens
        if not window.is_small:
            return ""
        return (
            f"{client.name} has a context window of only {window.tokens:,} tokens, which is too small for most "
            f"coding tasks: {window.advice}"
        )

    async def wait_for(self, work: Coroutine[None, None, None]) -> None:
        """Wait for other work that a turn needs; after `cancel`, the turn continues without its result."""
        task = asyncio.ensure_future(work)
        await self._wait_until_done(task)
        if not task.cancelled():
            task.result()

    async def count(
        self,
        request: ModelRequest,
        window: int | None,
        counter: PromptCounter,
        tokens: Callable[[], TokenCounter] | None,
    ) -> None:
        """Count the tokens of the prompt in a thread, unless its size in bytes shows whether it fits."""
        if tokens is None or counter.is_clear_from_bytes(request, max_prompt_tokens(request.max_tokens, window)):
            return

        def count_prompt() -> None:
            if tokens().load():
                counter.size_of(request, threshold=0)  # the counter caches the size

        async def count_in_thread() -> None:
            await run_in_thread(count_prompt)

        await self._wait_until_done(asyncio.ensure_future(count_in_thread()))

    async def _wait_until_done(self, task: asyncio.Task[LocalWindow | None] | asyncio.Task[None]) -> None:
        """Wait until `task` is done, failed or cancelled; cancel it if the wait is cancelled."""
        self._tasks.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._tasks.discard(task)
            task.cancel()


def output_settings(output: Output, override: int | None) -> OutputSettings:
    """Convert the output settings of the configuration to those of the engine."""
    return OutputSettings(
        override=override,
        can_escalate=output.escalate,
        max_continuations=output.max_continuations,
        policy=output.policy,
        tool_call_repair=output.tool_call_repair,
        max_tool_repair_attempts=output.max_tool_repair_attempts,
        max_total_completion_tokens=output.max_total_completion_tokens,
        max_total_output_chars=output.max_total_output_chars,
        min_escalation_gain=output.min_escalation_gain,
        learn_first_cap=output.learn_first_cap,
    )


def _at_base_url(spec: registry.ProviderSpec, address: str, host: str) -> str:
    """Return the address with the host of `--base-url`; an address of Vertex AI keeps project and location."""
    if not spec.is_vertex:
        return host
    if not address:
        return ""  # the project is missing, which the registry reports
    from qcode.providers.vertex.address import move_to_host

    return move_to_host(address, host)


def facts_of(provider: str, model: str, configured: ModelSettings | None) -> ModelFacts:
    """Return the facts of a model from the catalog, overridden by the configuration."""
    if provider == DEMO:
        from qcode.providers.demo.provider import DEMO_FACTS

        facts = DEMO_FACTS
    else:
        from qcode.providers import catalog

        facts = catalog.lookup(provider, model) or ModelFacts()
    if configured is None:
        return facts
    return ModelFacts(
        context_window=configured.context_window or facts.context_window,
        max_output_tokens=configured.max_output_tokens or facts.max_output_tokens,
        price=configured.price or facts.price,
        can_prefill=_override(configured.prefill, facts.can_prefill),
        can_read_images=facts.can_read_images if configured.images is None else configured.images,
        can_think=_override(configured.thinking, facts.can_think),
        has_inline_thinking=_override(configured.inline_thinking, facts.has_inline_thinking),
        has_text_tool_calls=_override(configured.text_tool_calls, facts.has_text_tool_calls),
        can_search_web=facts.can_search_web if configured.web_search is None else configured.web_search,
    )


def price_of(name: str, configured: Mapping[str, ModelSettings]) -> Price | None:
    """Return the price of `provider/model` from the configuration (`configured`) or the catalog, None if unknown."""
    provider, _, model = name.partition("/")
    return facts_of(provider, model, configured.get(name)).price


def _override(value: bool | None, default: bool) -> bool:
    return default if value is None else value
