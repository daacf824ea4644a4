"""A connected model as a turn uses it: with what its host has taught, what is logged of it, and a counter for it."""

from __future__ import annotations

from dataclasses import replace

from qcode.engine.counting import PromptCounter
from qcode.engine.effects import Learn
from qcode.engine.knowledge import KnownModel
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.tools import ToolSpec
from qcode.protocol.values import dataclass
from qcode.runtime.debug_log import LoggedProvider
from qcode.runtime.suggestions import with_nearest_models
from qcode.runtime.surroundings import Connected, Wiring
from qcode.runtime.toolbox import Toolbox
from qcode.safety.policy import Policy


@dataclass(frozen=True, slots=True)
class Reached:
    wiring: Wiring
    connected: Connected

    def known(self, window: int | None = None) -> KnownModel:
        """Return all that is known of the model now; `window` is what its server says itself."""
        model = self.connected.model
        host = self.wiring.limits.knowledge(self.connected.provider.host, model.name)
        # What the server says now is worth more than what it once taught.
        return replace(model, host=replace(host, window=window or host.window))

    def tools(self, toolbox: Toolbox, policy: Policy) -> tuple[ToolSpec, ...]:
        """Return every tool the model is offered, those that its host runs itself last."""
        hosted = self.connected.hosted if policy.lets_host_search else ()
        return (*toolbox.specs(self.connected.model.name), *hosted)

    def learn(self, effect: Learn) -> None:
        host, model = self.connected.provider.host, self.connected.model.name
        knowledge = self.wiring.limits.knowledge(host, model).with_fact(effect)
        self.wiring.limits.remember(host, model, knowledge)

    async def explain(self, error: ProviderError) -> ProviderError:
        """Return the error with what helps a person."""
        if error.kind is not ErrorKind.UNKNOWN_MODEL:
            return error
        return await with_nearest_models(error, self.connected.provider, self.connected.model.name)

    @property
    def provider(self) -> Provider:
        """The provider, with what is asked of it in the debug log."""
        log, provider = self.wiring.debug_log, self.connected.provider
        return provider if log is None else LoggedProvider(provider, log)

    def counter(self) -> PromptCounter:
        tokens = self.wiring.tokens
        return PromptCounter(tokens.count if tokens is not None else None)
