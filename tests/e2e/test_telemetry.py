"""OpenTelemetry over OTLP/HTTP: what a real receiver gets, and that a dead one changes nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from qcode.agent.telemetry import wants_tracing
from tests.e2e.running import KEY, KEY_VARIABLES, CliRunner, Finished
from tests.fakes.replies import call, calls, text, truncated
from tests.fakes.server import FakeServer
from tests.fakes.turns import Refusal, Turn

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
PROMPT, ANSWER = "look into the purple folder", "There is nothing in it."


class Receiver:
    """An OTLP/HTTP collector: it keeps spans and metrics by name, and the raw bytes."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.raw = b""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self.path, self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.raw += body
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def facts(span: Any) -> dict[str, Any]:
    """Return the attributes of a span."""
    found: dict[str, Any] = {}
    for attribute in span.attributes:
        kind = attribute.value.WhichOneof("value")
        value = getattr(attribute.value, kind)
        found[attribute.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


def ask(cli: CliRunner, server: FakeServer, **env: str) -> Finished:
    cli.is_warm = False
    flags = ("-m", "openai/test-model", "--base-url", server.base_url, "-p", PROMPT)
    return cli.run(*flags, env={KEY_VARIABLES["openai"]: KEY, **env})


def test_turn_requests_and_calls_are_spans_without_any_text(cli: CliRunner, receiver: Receiver) -> None:
    script = [calls(call("ls", "c1", path="."), text="I look."), text(ANSWER)]
    with FakeServer("openai", script) as server:
        done = ask(cli, server, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert (done.code, done.out, done.err) == (0, f"{ANSWER}\n", "")
    (turn,), (tool,) = receiver.named("invoke_agent qcode"), receiver.named("execute_tool ls")
    chats = receiver.named("chat test-model")
    assert len(chats) == 2
    assert {span.parent_span_id for span in (tool, *chats)} == {turn.span_id}
    assert {span.trace_id for span in receiver.spans} == {turn.trace_id}
    first = facts(chats[0])
    assert first["gen_ai.operation.name"] == "chat"
    assert first["gen_ai.provider.name"] == "openai"
    assert first["gen_ai.request.max_tokens"] == 8_000
    assert first["gen_ai.usage.input_tokens"] == 10
    assert first["gen_ai.usage.output_tokens"] == 5
    assert first["server.address"] == "127.0.0.1"
    assert first["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert first["qcode.attempt.kind"] == "first"
    assert facts(tool)["gen_ai.tool.call.id"] == "c1"
    ended = facts(turn)
    assert ended["gen_ai.usage.input_tokens"] == 20
    assert ended["qcode.outcome"] == "end_turn"
    assert str(ended["gen_ai.conversation.id"]).startswith("20")
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= receiver.metrics.keys()
    points = receiver.metrics["gen_ai.client.token.usage"].histogram.data_points
    assert sorted(point.sum for point in points) == [10, 20]
    for secret in (PROMPT, ANSWER, "I look.", KEY):
        assert secret.encode() not in receiver.raw


def test_texts_are_sent_if_the_standard_variable_asks_and_never_with_keys(cli: CliRunner, receiver: Receiver) -> None:
    with FakeServer("openai", [text(f"{ANSWER} {KEY}")]) as server:
        captured = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
        assert ask(cli, server, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, **captured).code == 0
    assert PROMPT.encode() in receiver.raw
    assert ANSWER.encode() in receiver.raw
    assert KEY.encode() not in receiver.raw


def test_escalation_continuation_and_failure_are_distinguished(cli: CliRunner, receiver: Receiver) -> None:
    script: list[Turn] = [
        truncated("The first half ", output_tokens=8_000),
        truncated("The first half of it ", output_tokens=64_000),
        text("and the rest of it."),
    ]
    with FakeServer("openai", script) as server:
        assert ask(cli, server, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url).code == 0
    chats = [facts(span) for span in receiver.named("chat test-model")]
    assert [chat["qcode.attempt.kind"] for chat in chats] == ["first", "escalation", "continuation"]
    (turn,) = receiver.named("invoke_agent qcode")
    assert facts(turn)["qcode.continuations"] == 1
    with FakeServer("openai", [Turn(refusal=Refusal(401, "no such key"))]) as server:
        assert ask(cli, server, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url).code == 41
    assert facts(receiver.named("chat test-model")[-1])["error.type"] == "401"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_listening", [False, True])
def test_collector_that_does_not_answer_changes_nothing(is_listening: bool, cli: CliRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, FakeServer("openai", [text(ANSWER)] * 2) as server:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        if not is_listening:
            silent.close()
        before = time.monotonic()
        assert ask(cli, server).code == 0
        plain = time.monotonic() - before
        before = time.monotonic()
        done = ask(cli, server, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        assert (done.code, done.out, done.err) == (0, f"{ANSWER}\n", "")
        assert time.monotonic() - before < 2 * plain + 6  # a second for the exit, and loading the SDK on a busy machine


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
    ],
)
def test_only_the_standard_variables_switch_it_on(env: dict[str, str], expected: bool) -> None:
    assert wants_tracing(env) is expected
