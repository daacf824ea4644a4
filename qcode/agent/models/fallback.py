"""The models that replace the model of a conversation if it is overloaded, unreachable or at a limit.

Loads only if `fallback` is set. The engine decides when to replace a model; this module chooses the next model, and
stores when the limit of a model ends. A model without a key, or without a price in a run with a budget, is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from qcode.agent.keys.keys import Keys
from qcode.agent.models.client import Clients, ModelClient
from qcode.agent.models.selection import address_of, is_usable, select_model
from qcode.config.settings import Settings
from qcode.engine.effects import Fallback, SwitchModel
from qcode.protocol.errors import ErrorInfo, ErrorKind, QcodeError
from qcode.protocol.events import ModelFellBack, Notice, TurnEvent
from qcode.providers.sdk import run_in_thread
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class NextModel:
    """The model that replaces another one."""

    client: ModelClient | None
    """None if no model is left."""
    skipped: tuple[str, ...] = ()
    """A line for each model that was skipped."""


@dataclass(frozen=True, slots=True)
class FirstModel:
    """The model with which a turn begins."""

    client: ModelClient
    events: tuple[TurnEvent, ...] = ()
    """A notice for each skipped model, and `ModelFellBack` if `client` is a fallback model."""


class FallbackModels:
    """The fallback models of a conversation, in the order of the settings. `clock` returns seconds since 1970."""

    def __init__(self, clients: Clients, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._clients = clients
        self._names = settings.fallback
        self._clock = clock
        self._on_quota = "quota" in settings.fallback_on
        self._untried_names: list[str] = []
        self._limits: dict[str, ErrorInfo] = {}
        """The limits that models have reached, by model name; each has the time of its end."""
        self._tried_names: list[str] = []
        self._failed_name = ""
        """The model that failed last."""
        self._configured_client: ModelClient | None = None

    @property
    def settings(self) -> Fallback | None:
        """The conditions for a fallback; None if the current turn has no other model."""
        has_other_model = len(self._tried_names) + len(self._untried_names) > 1
        return Fallback(self._on_quota) if has_other_model else None

    def begin_turn(self, client: ModelClient) -> FirstModel:
        """Begin a turn with `client`, or with the first fallback model if the limit of `client` has not ended."""
        self._configured_client = client
        self._tried_names = [client.name]
        self._untried_names = [name for name in self._names if name != client.name]
        if not self._is_limited(client.name):
            return FirstModel(client)
        fallback = self._next()
        notices = [Notice("warning", line) for line in fallback.skipped]
        if fallback.client is None:
            return FirstModel(client, tuple(notices))
        return FirstModel(fallback.client, (*notices, ModelFellBack(client.name, fallback.client.name, None)))

    async def next_after(self, client: ModelClient, switch: SwitchModel) -> NextModel:
        """Return the next model after `client` failed."""
        # A command may supply the key of the next model, so it is connected in a thread.
        return await run_in_thread(partial(self._next_after, client, switch))

    def _next_after(self, client: ModelClient, switch: SwitchModel) -> NextModel:
        waited_for = self._first_limited() if switch.has_waited else None
        if waited_for is not None:
            # The limit of this model has ended: try it first, and then all other models again.
            del self._limits[waited_for]
            self._untried_names = [waited_for, *(name for name in self._tried_names if name != waited_for)]
            self._tried_names = []
        elif switch.error.resets_at is not None:
            self._limits[client.name] = switch.error
        self._failed_name = client.name
        return self._next()

    @property
    def limit(self) -> ErrorInfo | None:
        """The limit that ends first among the models of the turn, for the wait before the next request.

        None if no model has reached a limit, or if the limit is that of the model that failed last: the engine knows it
        from the error.
        """
        name = self._first_limited()
        if name is None or name == self._failed_name:
            return None
        limit = self._limits[name]
        assert limit.resets_at is not None
        return replace(limit, retry_after=max(0.0, limit.resets_at - self._clock()), limited_model=name)

    def _first_limited(self) -> str | None:
        """Return the model of the turn whose limit ends first, None if no model is at its limit.

        Limits that qcode may wait for are preferred.
        """

        def order(name: str) -> tuple[bool, float]:
            limit = self._limits[name]
            return bool(limit.wait_refusal), limit.resets_at or 0

        limited = [
            name
            for name in self._tried_names
            if name in self._limits and self._limits[name].kind == ErrorKind.RATE_LIMIT
        ]
        return min(limited, key=order, default=None)

    def _next(self) -> NextModel:
        """Return the next usable model."""
        skipped: list[str] = []
        while self._untried_names:
            name = self._untried_names.pop(0)
            self._tried_names.append(name)
            if self._is_limited(name):
                skipped.append(f"Fallback model {name} skipped: its limit has not ended.")
                continue
            configured = self._configured_client
            if configured is not None and name == configured.name:
                return NextModel(configured, tuple(skipped))
            try:
                return NextModel(self._clients.cached_client(name), tuple(skipped))
            except ValueError as refusal:
                skipped.append(f"Fallback model {name} skipped: {str(refusal).rstrip('.')}.")
        return NextModel(None, tuple(skipped))

    def _is_limited(self, name: str) -> bool:
        limit = self._limits.get(name)
        return limit is not None and (limit.resets_at or 0) > self._clock()


def fallback_problems(settings: Settings, keys: Keys) -> tuple[str, ...]:
    """Return a line for each fallback model that cannot be used, or may not exist. Sends nothing."""
    return tuple(problem for name in settings.fallback if (problem := _problem(name, settings, keys)))


def _problem(name: str, settings: Settings, keys: Keys) -> str:
    """Return the problem of one fallback model, empty if it has none."""
    try:
        selection = select_model(name, settings, "fallback", keys)
    except QcodeError as refusal:
        return f'fallback model "{name}" cannot take over: {refusal}'
    spec = selection.spec
    if not is_usable(spec, settings, keys):
        return f"fallback model {selection.name} cannot take over: no key for {spec.name}; qcode auth login stores one"
    from qcode.providers import catalog
    from qcode.text.match import nearest_list

    has_own_address = bool(address_of(spec, settings, keys.env).source)
    if spec.name not in catalog.BUILT_IN_PROVIDERS or has_own_address or selection.name in settings.models:
        return ""
    if catalog.lookup(spec.name, selection.model) is not None:
        return ""
    near = nearest_list(f"{spec.name}/{model}" for model in catalog.nearest(spec.name, selection.model))
    return f"fallback model {selection.name} is not in the catalog" + (f"; {near}" if near else "")
