"""Observers of a run: the debug log, and OpenTelemetry. Both get each event, and each request to each provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from qcode.protocol.events import TurnEvent
from qcode.protocol.provider import Provider
from qcode.text.json import JsonObject


class Observer(Protocol):
    """A consumer of the events and requests of a conversation. It never raises and never blocks."""

    def record_event(self, event: TurnEvent) -> None:
        """Observe an event of a turn."""
        ...

    def record_metrics(self, sums: JsonObject) -> None:
        """Observe the recovery metrics of the conversation so far."""
        ...

    def watch(self, provider: Provider) -> Provider:
        """Return a provider that does the same as `provider`, and whose requests are observed."""
        ...

    def close(self) -> None: ...


class Observers:
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def record_event(self, event: TurnEvent) -> None:
        for observer in self._observers:
            observer.record_event(event)

    def record_metrics(self, sums: JsonObject) -> None:
        for observer in self._observers:
            observer.record_metrics(sums)

    def watch(self, provider: Provider) -> Provider:
        for observer in self._observers:
            provider = observer.watch(provider)
        return provider

    def close(self) -> None:
        for observer in self._observers:
            observer.close()


_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
_PROTOCOLS = (
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
)


def wants_tracing(env: Mapping[str, str]) -> bool:
    """Return whether the standard variables request OpenTelemetry over OTLP/HTTP, the only supported protocol."""
    is_disabled = env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    uses_http = all(env.get(name, "http/protobuf").strip() == "http/protobuf" for name in _PROTOCOLS)
    return not is_disabled and uses_http and any(env.get(name, "").strip() for name in _ENDPOINTS)
