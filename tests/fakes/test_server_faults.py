"""Faults of the fake server in the bytes, read without an SDK."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from qcode.protocol.usage import Usage
from tests.fakes.server import PROTOCOLS, FakeServer, ProtocolName
from tests.fakes.server_cli import SCENARIOS
from tests.fakes.turns import Call, Faults, Turn, refused

_TARGETS = {
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
_HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


def _body(protocol: str, messages: list[dict[str, Any]] | None = None) -> bytes:
    if protocol == "gemini":
        return json.dumps({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).encode()
    if protocol == "openai-responses":
        return json.dumps({"model": "m", "stream": True, "store": False, "input": "hi"}).encode()
    body = {"model": "m", "max_tokens": 50, "stream": True, "stream_options": {"include_usage": True}}
    return json.dumps({**body, "messages": messages or _HELLO}).encode()


def _open(server: FakeServer, messages: list[dict[str, Any]] | None = None) -> http.client.HTTPResponse:
    protocol = server.wire.name
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", _TARGETS[protocol], _body(protocol, messages))
    return connection.getresponse()


def _fetch(server: FakeServer, messages: list[dict[str, Any]] | None = None) -> bytes:
    with _open(server, messages) as response:
        return response.read()


def _serve(protocol: ProtocolName, faults: Faults) -> bytes:
    with FakeServer(protocol, [Turn(text=["Grüße ", "an alle"], faults=faults)]) as server:
        return _fetch(server)


def _data(stream: bytes) -> list[Any]:
    """Read an event stream the slow and obvious way."""
    events = []
    for block in stream.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        text = "\n".join(lines)
        if text:
            events.append(text if text == "[DONE]" else json.loads(text))
    return events


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_framing_gives_the_same_reply(protocol: ProtocolName) -> None:
    plain = _serve(protocol, Faults())
    ways = [
        Faults(split_every=1),
        Faults(crlf=True),
        Faults(crlf=False),
        Faults(comments=True),
        Faults(many_data_lines=True),
        Faults(without_last_blank=True),
    ]
    streams = [_serve(protocol, faults) for faults in ways]
    assert [_data(stream) for stream in streams] == [_data(plain)] * len(ways)
    assert streams[0] == plain
    assert len({plain, *streams}) == 5, "one of the two line endings is the protocol's own, the others are new"
    assert b"\r\n" in streams[1]
    assert b"\r" not in streams[2]


def test_split_bytes_are_sent_one_at_a_time() -> None:
    turn = Turn(text="hi", faults=Faults(split_every=1))
    with (
        FakeServer("openai", [turn]) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as client,
    ):
        body = _body("openai")
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        raw = b"".join(iter(lambda: client.recv(65_536), b""))
    assert raw.split(b"\r\n\r\n", 1)[1].startswith(b"1\r\nd\r\n1\r\na\r\n1\r\nt\r\n")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stream_may_end_without_its_end_event(protocol: ProtocolName) -> None:
    whole = _data(_serve(protocol, Faults()))
    ended = _data(_serve(protocol, Faults(without_end=True)))
    undone = _data(_serve(protocol, Faults(without_done=True)))
    assert ended == whole[: len(ended)]
    assert not any(word in json.dumps(ended) for word in ('"stop"', "end_turn", "STOP", "[DONE]", '"completed"'))
    assert undone == (whole if protocol in ("gemini", "openai-responses") else whole[:-1])


def test_bytes_can_be_inserted_before_an_event() -> None:
    inserted = {1: b"data: {broken\n\n"}
    assert b"data: {broken\n\ndata: {" in _serve("openai", Faults(inserted=inserted))


@pytest.mark.parametrize("cut_inside", [True, False])
def test_truncated_stream_breaks_the_http_framing(cut_inside: bool) -> None:
    turn = Turn(text=["one", "two"], faults=Faults(cut_after=2, cut_inside=cut_inside))
    with FakeServer("openai", [turn]) as server, _open(server) as response:
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
        assert (caught.value.partial.count(b"\n\n"), caught.value.partial.endswith(b"\n\n")) == (2, not cut_inside)


def test_stall_lasts_until_it_is_released() -> None:
    turn = Turn(text=["one", "two"], faults=Faults(stall_after=2))
    with FakeServer("openai", [turn]) as server, _open(server) as response:
        server.wait_until(lambda each: each.stalls == 1)
        seen: list[bytes] = []
        reading = threading.Thread(target=lambda: seen.append(response.read()))
        reading.start()
        assert not seen
        server.release()
        reading.join(10)
    assert len(_data(seen[0])) == 6
    assert server.hangups == 0


def test_disconnected_client_is_counted() -> None:
    with FakeServer("openai", [Turn(text="one", faults=Faults(stall_after=1))]) as server:
        response = _open(server)
        server.wait_until(lambda each: each.stalls == 1)
        response.close()
        server.wait_until(lambda each: each.hangups == 1)
        with pytest.raises(AssertionError, match="1 hangups"):
            server.wait_until(lambda each: each.hangups == 2, timeout_s=0.01)


def test_server_can_stop_during_a_stall() -> None:
    with FakeServer("openai", [Turn(text="one", faults=Faults(stall_after=1))]) as server:
        response = _open(server)
        server.wait_until(lambda each: each.stalls == 1)
        server.stop()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        response.close()
        with pytest.raises(OSError, match=r"refused"):
            _open(server)


def test_first_byte_can_be_late() -> None:
    before = time.monotonic()
    _serve("openai", Faults(first_byte_delay=0.05))
    assert time.monotonic() - before >= 0.05


def test_usage_is_sent_at_its_position_in_the_script() -> None:
    events = _data(_serve("openai", Faults(late_usage=False)))
    assert events[-2]["usage"]["completion_tokens"] == 5
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    with FakeServer("openai", [Turn(text="hi", usage=None)]) as server:
        assert b"usage" not in _fetch(server)


def test_any_stop_reason_and_null_are_sent_unchanged() -> None:
    with FakeServer("openai", [Turn(text="a", stop="odd"), Turn(text="a", stop=None)]) as server:
        words = [_data(_fetch(server))[-3]["choices"][0]["finish_reason"] for _ in range(2)]
    assert words == ["odd", None]


def test_refusal_can_have_any_body() -> None:
    page = refused(502, body="<html><title>Bad gateway</title></html>", headers={"x-proxy": "yes"})
    with FakeServer("openai", [page]) as server, _open(server) as response:
        assert (response.status, response.headers["x-proxy"]) == (502, "yes")
        assert response.headers["content-type"].startswith("text/html")
        assert response.read() == b"<html><title>Bad gateway</title></html>"


def test_request_beyond_the_script_is_refused_and_recorded() -> None:
    with FakeServer("openai", [Turn(text="only")]) as server:
        _fetch(server)
        assert b"over after 1 turns" in _fetch(server)
        assert len(server.requests) == 2
        assert server.complaints == ["the script of the fake server is over after 1 turns"]


def test_unknown_paths_are_not_served() -> None:
    with FakeServer("openai", []) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("GET", "/v1/chat/completions")
        with connection.getresponse() as response:
            assert response.status == 404
        assert server.requests == []


def test_exception_in_the_script_is_raised_in_the_test() -> None:
    def script(_: Any) -> Turn:
        raise LookupError("a mistake in the test")

    with pytest.raises(LookupError, match="mistake"), FakeServer("openai", script) as server:
        with pytest.raises(ConnectionError):
            _fetch(server)
        server.stop()


def test_taken_port_is_an_error() -> None:
    with FakeServer("openai", []) as server, pytest.raises(OSError, match="in use"):
        FakeServer("openai", [], port=server.port).start()


def test_lenient_host_accepts_requests_that_a_strict_one_refuses() -> None:
    dangling: list[dict[str, Any]] = [{"role": "assistant", "content": "first"}]
    with FakeServer("openai", [Turn(text="fine")], is_strict=False) as server:
        assert b"fine" in _fetch(server, dangling)


def test_docstring_scenario_reads_edits_and_answers() -> None:
    message = {"role": "assistant", "tool_calls": []}

    def with_result(events: list[Any], content: str) -> list[dict[str, Any]]:
        deltas = [event["choices"][0]["delta"] for event in events if event != "[DONE]" and event["choices"]]
        pieces = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
        arguments = "".join(piece["function"]["arguments"] for piece in pieces)
        call = {"id": pieces[0]["id"], "type": "function", "function": {"name": "any", "arguments": arguments}}
        return [{**message, "tool_calls": [call]}, {"role": "tool", "tool_call_id": call["id"], "content": content}]

    with FakeServer("openai", SCENARIOS["docstring"].make_answer()) as server:
        messages = [*_HELLO, *with_result(_data(_fetch(server)), "     1\tdef main():\n     2\t    print('hi')")]
        edit = with_result(_data(_fetch(server, messages)), "done")
        arguments = json.loads(edit[0]["tool_calls"][0]["function"]["arguments"])
        assert arguments["new_text"] == f'    """Main."""\n{arguments["old_text"]}'
        assert b"Done: added a docstring to `main`." in _fetch(server, [*messages, *edit])


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_scenario_of_the_command_line_answers(name: str) -> None:
    with FakeServer("anthropic", SCENARIOS[name].make_answer()) as server:
        answers = [_fetch(server), _fetch(server)]
        assert b"message_stop" in answers[1]
        assert (b"rate_limit_error" in answers[0]) == (name == "rate-limit")


def test_command_line_prints_its_address_and_serves_until_stopped() -> None:
    command = [sys.executable, "-m", "tests.fakes.server", "--protocol", "gemini", "--scenario", "plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("POST", _TARGETS["gemini"], _body("gemini"))
            with connection.getresponse() as response:
                assert b"fake host." in response.read()
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_call_is_streamed_in_parts_that_join_to_it() -> None:
    call = Call("read", '{"path": "a"}')
    assert (len(call.pieces), "".join(call.pieces)) == (3, call.arguments)
    assert Call("read", "").pieces == ()
    assert Turn(calls=[call], usage=Usage()).text_pieces == ()
