"""The models that take over if the model of a conversation is overloaded, unreachable or at a limit.

Loads apart, only if `fallback` is set. The engine decides when a model is given up; this module says which one is next,
and until when the first one is not asked again. A model without a key, or without a price in a run with a budget, is
skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from qcode.agent.keys.keys import Keys
from qcode.agent.models.client import Clients, ModelClient
from qcode.agent.models.selection import address_of, is_usable, named
from qcode.config.settings import Settings
from qcode.engine.effects import Fallback
from qcode.protocol.errors import ErrorInfo, QcodeError
from qcode.protocol.events import ModelFellBack, Notice, TurnEvent


class FallbackModels:
    """The fallback models of a conversation, in the order of the settings. `clock` returns seconds since 1970."""

    def __init__(self, clients: Clients, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._clients = clients
        self._names = settings.fallback
        self._clock = clock
        self._on_quota = "quota" in settings.fallback_on
        self._left: list[str] = []
        self._limited_until: dict[str, int] = {}

    @property
    def settings(self) -> Fallback | None:
        """Whether the current turn has another model to try."""
        return Fallback(self._on_quota) if self._left else None

    def for_turn(self, client: ModelClient) -> tuple[ModelClient, tuple[TurnEvent, ...]]:
        """Begin a turn with `client`, or with the first fallback model if the limit of `client` has not ended.

        The events say which models were skipped and which one is used instead.
        """
        self._left = [name for name in self._names if name != client.name]
        if not self._is_limited(client.name):
            return client, ()
        other, skipped = self._next()
        notices: tuple[TurnEvent, ...] = tuple(Notice("warning", line) for line in skipped)
        if other is None:
            return client, notices
        return other, (*notices, ModelFellBack(client.name, other.name, None))

    def after(self, client: ModelClient, error: ErrorInfo) -> tuple[ModelClient | None, tuple[str, ...]]:
        """Return the next model after `client` failed, None if there is none, and a line for each skipped one."""
        if error.resets_at is not None:
            self._limited_until[client.name] = error.resets_at
        return self._next()

    def _next(self) -> tuple[ModelClient | None, tuple[str, ...]]:
        skipped: list[str] = []
        while self._left:
            name = self._left.pop(0)
            if self._is_limited(name):
                skipped.append(f"Fallback model {name} skipped: its limit has not ended.")
                continue
            try:
                return self._clients.client_for_turns(name), tuple(skipped)
            except ValueError as refusal:
                skipped.append(f"Fallback model {name} skipped: {str(refusal).rstrip('.')}.")
        return None, tuple(skipped)

    def _is_limited(self, name: str) -> bool:
        until = self._limited_until.get(name)
        return until is not None and until > self._clock()


def fallback_problems(settings: Settings, keys: Keys) -> tuple[str, ...]:
    """Return a line for each fallback model that could not take over, or may not exist. Sends nothing."""
    return tuple(problem for name in settings.fallback if (problem := _problem(name, settings, keys)))


def _problem(name: str, settings: Settings, keys: Keys) -> str:
    try:
        selection = named(name, settings, "fallback", keys)
    except QcodeError as refusal:
        return f'fallback model "{name}" cannot take over: {refusal}'
    spec = selection.spec
    if not is_usable(spec, settings, keys):
        return f"fallback model {selection.name} cannot take over: no key for {spec.name}; qcode auth login stores one"
    from qcode.providers import catalog
    from qcode.text.match import nearest_list

    has_own_address = bool(address_of(spec, settings, keys.env)[1])
    if spec.name not in catalog.BUILT_IN or has_own_address or selection.name in settings.models:
        return ""
    if catalog.lookup(spec.name, selection.model) is not None:
        return ""
    near = nearest_list(f"{spec.name}/{model}" for model in catalog.nearest(spec.name, selection.model))
    return f"fallback model {selection.name} is not in the catalog" + (f"; {near}" if near else "")
