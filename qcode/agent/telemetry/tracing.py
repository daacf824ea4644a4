"""OpenTelemetry traces and metrics by the semantic conventions for generative AI (opentelemetry.io, `gen_ai.*`).

There is a span for each turn and sub-agent (`invoke_agent`), each model request (`chat`) and each call
(`execute_tool`), and histograms of tokens and durations. Texts are included only if
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` requests them. Threads of the SDK export the data, so a collector
that does not answer delays only the exit, by at most `FLUSH_S`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from qcode import __version__
from qcode.protocol.errors import ProviderError
from qcode.protocol.events import AgentEvent, Retry, ToolFinished, ToolStarted, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.messages import Message, Reasoning, Text, ToolCall, ToolResult, typed_text
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider, WrappedProvider, closing_stream
from qcode.protocol.reply import ReasoningDelta, ReplyEnded, ReplyEvent, ReplyStarted, TextDelta, UsageReported
from qcode.protocol.usage import Usage
from qcode.text.json import JsonObject
from qcode.values import dataclass

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

FLUSH_S = 1.0
"""The maximum number of seconds that the exit waits for a collector."""
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURE_VALUES = frozenset({"true", "span_only", "span_and_event"})
# The names of the conventions for providers whose name in qcode differs.
_PROVIDER_NAMES = {
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "vertex-anthropic": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
}
_TOKEN_BOUNDS = tuple(4**power for power in range(14))
_DURATION_BOUNDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The bucket boundaries that the conventions recommend."""

Attributes: TypeAlias = dict[str, Any]
"""The attributes of a span or measurement."""


@dataclass(frozen=True, slots=True)
class StartedSpan:
    """A span that has not ended."""

    span: Span
    started_at: float
    """On the monotonic clock, in seconds."""


@dataclass(frozen=True, slots=True)
class StartedRequest:
    """A model request that has not ended."""

    started: StartedSpan
    attributes: Attributes
    """The attributes of its measurements."""
    turn_id: str


def open_tracing(env: Mapping[str, str], redact: Callable[[str], str]) -> Tracing | None:
    """Return the observer, None if the extra `otel` is not installed. The SDK reads its own standard variables."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return None
    # The exporters log each failed export, which would end up on the screen.
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    resource = Resource.create(
        {"service.name": env.get("OTEL_SERVICE_NAME") or "qcode", "service.version": __version__}
    )
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    if env.get("OTEL_TRACES_EXPORTER", "otlp").strip() != "none":
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    is_measured = env.get("OTEL_METRICS_EXPORTER", "otlp").strip() != "none"
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if is_measured else []
    meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    return Tracing(tracers, meters, redact, captures=env.get(CAPTURE_VARIABLE, "").strip().lower() in _CAPTURE_VALUES)


class Tracing:
    """Converts events and requests to spans and measurements."""

    def __init__(
        self, tracers: TracerProvider, meters: MeterProvider, redact: Callable[[str], str], *, captures: bool
    ) -> None:
        self.session_id: Callable[[], str] = str
        """Returns the id of the open session."""
        self._sdk_providers = (tracers, meters)
        self._redact = redact
        self._captures = captures
        self._tracer = tracers.get_tracer("qcode", __version__)
        meter = meters.get_meter("qcode", __version__)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS
        )
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=_DURATION_BOUNDS
        )
        self._turns: dict[str, StartedSpan] = {}
        """The running turns by id: the id of the call that started the sub-agent, empty for the user's turn."""
        self._calls: dict[str, StartedSpan] = {}
        """The running tool calls by their id."""
        self._turn_ids: dict[str, str] = {}
        """The ids of the running turns by their prompts: a request has its prompt, but not the id of its turn."""
        self._retries: dict[str, Retry] = {}
        """The retry that each turn announced for its next request."""
        self._failed: set[str] = set()
        """The ids of the turns whose last request failed."""
        self._is_closed = False

    def record_event(self, event: TurnEvent) -> None:
        """Observe an event. Deltas are ignored, because they are frequent."""
        if isinstance(event, AgentEvent):
            self._observe(event.event, event.call_id)
        elif not isinstance(event, TextDelta | ReasoningDelta):
            self._observe(event, "")

    def record_metrics(self, sums: JsonObject) -> None:
        """Do nothing: the spans and histograms have the same numbers for each request."""

    def watch(self, provider: Provider) -> Provider:
        """Return a provider whose requests become spans."""
        return TracedProvider(provider, self)

    def close(self) -> None:
        """End all open spans and export them, within `FLUSH_S`. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for started in (*self._calls.values(), *self._turns.values()):
            started.span.end()
        thread = threading.Thread(target=self._shut_down, name="telemetry", daemon=True)
        thread.start()
        thread.join(FLUSH_S)

    def _shut_down(self) -> None:
        for provider in self._sdk_providers:
            provider.force_flush(int(FLUSH_S * 1_000))

    def _observe(self, event: TurnEvent, turn_id: str) -> None:
        """Observe an event of the turn with this id."""
        match event:
            case TurnStarted(prompt=prompt):
                self._turn_ids[prompt] = turn_id
                self._failed.discard(turn_id)
                name = "sub-agent" if turn_id else "qcode"
                parent: StartedSpan | None = None
                if turn_id:  # a sub-agent, started by a call of the user's turn
                    parent = self._calls.get(turn_id, self._turns.get(""))
                attributes = {"gen_ai.agent.name": name, "gen_ai.conversation.id": self.session_id()}
                self._turns[turn_id] = self._begin_span(f"invoke_agent {name}", "invoke_agent", parent, attributes)
                self._capture(self._turns[turn_id].span, "gen_ai.input.messages", lambda: [_part("user", prompt)])
            case Retry():
                self._retries[turn_id] = event
            case ToolStarted(call=call):
                attributes = {
                    "gen_ai.tool.name": call.name,
                    "gen_ai.tool.call.id": call.call_id,
                    "gen_ai.tool.type": "function",
                }
                parent = self._turns.get(turn_id)
                started = self._begin_span(f"execute_tool {call.name}", "execute_tool", parent, attributes)
                self._calls[call.call_id] = started
                self._capture(started.span, "gen_ai.tool.call.arguments", lambda: call.arguments)
            case ToolFinished(call=call, outcome=outcome, state=state):
                ended = self._calls.pop(call.call_id, None)
                if ended is not None:
                    self._capture(ended.span, "gen_ai.tool.call.result", lambda: outcome.content)
                    error = "" if state == "done" else state
                    self._end(ended, "execute_tool", {"gen_ai.tool.name": call.name}, error)
            case TurnEnded():
                self._end_turn(event, turn_id)
            case _:
                pass

    def _end_turn(self, event: TurnEnded, turn_id: str) -> None:
        """End the span of a turn with its outcome, requests and usage."""
        started = self._turns.pop(turn_id, None)
        if started is None:
            return
        calls = event.api_calls
        started.span.set_attributes(
            {
                "qcode.outcome": event.outcome.value,
                "qcode.requests": calls.total,
                "qcode.escalations": calls.escalations,
                "qcode.continuations": calls.continuations,
                **_usage(event.usage),
            }
        )
        self._turn_ids = {prompt: other_id for prompt, other_id in self._turn_ids.items() if other_id != turn_id}
        error = event.error.kind if event.error is not None else ""
        self._end(started, "invoke_agent", {}, error)

    def begin_request(self, provider: Provider, request: ModelRequest) -> StartedRequest:
        """Start the span of a model request."""
        turn_id = self._turn_ids.get(typed_text(request.messages[0]), "") if request.messages else ""
        attributes: Attributes = {
            "gen_ai.provider.name": _PROVIDER_NAMES.get(provider.name, provider.name),
            "gen_ai.request.model": request.model,
        }
        address = urlsplit(provider.host)
        if address.hostname:
            default_port = 443 if address.scheme == "https" else 80
            attributes["server.address"] = address.hostname
            attributes["server.port"] = address.port or default_port
        retry = self._retries.pop(turn_id, None)
        # The first retries are sent at once and emit no `Retry` event.
        follows_failure = turn_id in self._failed or (retry is not None and retry.reason != "max_tokens")
        if follows_failure:
            kind = "retry"
        elif retry is None:
            kind = "first"
        else:
            kind = "continuation" if retry.is_continuation else "escalation"
        self._failed.discard(turn_id)
        span_attributes: Attributes = {"gen_ai.request.max_tokens": request.max_tokens, "qcode.attempt.kind": kind}
        if retry is not None:
            span_attributes |= {"qcode.attempt.number": retry.attempt, "qcode.attempt.reason": retry.reason}
        parent = self._turns.get(turn_id)
        started = self._begin_span(
            f"chat {request.model}", "chat", parent, attributes | span_attributes, is_client=True
        )
        messages = request.messages
        self._capture(started.span, "gen_ai.input.messages", lambda: [_message(message) for message in messages])
        return StartedRequest(started, attributes, turn_id)

    def end_request(self, request: StartedRequest, reply: ReplyFacts, error: str) -> None:
        """End the span of a model request. `error` is its type, empty for a success."""
        span = request.started.span
        if error:
            self._failed.add(request.turn_id)
        if reply.usage is not None:
            span.set_attributes(_usage(reply.usage))
            for kind, count in (("input", reply.usage.input), ("output", reply.usage.output)):
                if count is not None:
                    attributes = {"gen_ai.operation.name": "chat", "gen_ai.token.type": kind}
                    self._tokens.record(count, request.attributes | attributes)
        span.set_attributes(reply.attributes)
        self._capture(span, "gen_ai.output.messages", lambda: [_part("assistant", "".join(reply.texts))])
        self._end(request.started, "chat", request.attributes, error)

    def _begin_span(
        self,
        name: str,
        operation: str,
        parent: StartedSpan | None,
        attributes: Mapping[str, Any],
        *,
        is_client: bool = False,
    ) -> StartedSpan:
        from opentelemetry.trace import SpanKind, set_span_in_context

        context = set_span_in_context(parent.span) if parent is not None else None
        kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
        all_attributes = {"gen_ai.operation.name": operation, **attributes}
        span = self._tracer.start_span(name, context=context, kind=kind, attributes=all_attributes)
        return StartedSpan(span, time.monotonic())

    def _end(self, started: StartedSpan, operation: str, attributes: Attributes, error: str) -> None:
        """End a span and record its duration, measured with these attributes. `error` is empty for a success."""
        from opentelemetry.trace import StatusCode

        span = started.span
        error_attributes = {"error.type": error} if error else {}
        if error:
            span.set_attributes(error_attributes)
            span.set_status(StatusCode.ERROR)
        span.end()
        seconds = time.monotonic() - started.started_at
        self._durations.record(seconds, {"gen_ai.operation.name": operation, **attributes, **error_attributes})

    @property
    def captures(self) -> bool:
        """Whether spans include texts of the conversation."""
        return self._captures

    def _capture(self, span: Span, name: str, value: Callable[[], Any]) -> None:
        """Set an attribute to a text of the conversation, without secrets, if the user requested texts."""
        if self._captures:
            content = value()
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            span.set_attribute(name, self._redact(text))


class ReplyFacts:
    """The facts collected from the events of a reply."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.attributes: Attributes = {}
        self.texts: list[str] = []

    def add(self, event: ReplyEvent, *, captures: bool) -> None:
        match event:
            case TextDelta(text=text):
                if captures:
                    self.texts.append(text)
            case ReplyStarted(model=model, response_id=response_id):
                values = {"gen_ai.response.model": model, "gen_ai.response.id": response_id}
                self.attributes |= {name: value for name, value in values.items() if value}
            case UsageReported(usage=usage):
                self.usage = usage
            case ReplyEnded(stop=stop, raw_stop=raw):
                self.attributes["gen_ai.response.finish_reasons"] = [raw or stop.value]
            case _:
                pass


class TracedProvider(WrappedProvider):
    """A provider that records each request as a span."""

    def __init__(self, provider: Provider, tracing: Tracing) -> None:
        super().__init__(provider)
        self._tracing = tracing

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        started = self._tracing.begin_request(self.inner, request)
        reply_facts = ReplyFacts()
        error = "cancelled"  # unless the stream ends or fails
        try:
            async with closing_stream(self.inner.stream(request)) as stream:
                async for event in stream:
                    if type(event) is not ReasoningDelta:
                        reply_facts.add(event, captures=self._tracing.captures)
                    yield event
            error = ""
        except ProviderError as failure:
            error = str(failure.status or failure.kind.value)
            raise
        finally:
            self._tracing.end_request(started, reply_facts, error)


def _usage(usage: Usage) -> Attributes:
    counts = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _part(role: str, text: str) -> JsonObject:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _message(message: Message) -> JsonObject:
    """Convert a message to the form of `gen_ai.input.messages` in the conventions."""
    parts: list[JsonObject] = []
    for block in message.blocks:
        match block:
            case Text(text=text):
                parts.append({"type": "text", "content": text})
            case Reasoning(text=text):
                parts.append({"type": "reasoning", "content": text})
            case ToolCall():
                parts.append(
                    {"type": "tool_call", "id": block.call_id, "name": block.name, "arguments": block.arguments}
                )
            case ToolResult():
                parts.append({"type": "tool_call_response", "id": block.call_id, "response": block.content})
            case _:
                parts.append({"type": "blob", "modality": "image"})
    return {"role": message.role, "parts": list(parts)}
