"""Streams that break, and streams that only look as if they did."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import pytest

from qcode.protocol.errors import ErrorKind, ExitCode
from qcode.protocol.reply import Outcome
from qcode.providers.connection import Timeouts
from tests.providers.clients import each_protocol, each_protocol_in_text, first_part, stream_of
from tests.providers.events import recording, replay_bytes
from tests.providers.faults.runs import run, text_of
from tests.providers.loopback import Answer, Reset, Stall, free_port

EVENTS = {"content-type": "text/event-stream"}


def broken_name(protocol: str) -> str:
    return "neither_reason_nor_end_mark" if protocol == "openai" else "broken_off"


def shown(protocol: str) -> str:
    return text_of(protocol, broken_name(protocol))


def _cut(protocol: str, name: str) -> Answer:
    """Return a truncated compressed stream; the part that was flushed can be read."""
    packer = zlib.compressobj(wbits=31 if name == "gzip" else 15)
    sent = packer.compress(first_part(protocol)) + packer.flush(zlib.Z_SYNC_FLUSH)
    more = packer.compress(stream_of(protocol)) + packer.flush()
    return Answer([sent, more[:3]], headers={**EVENTS, "content-encoding": name})


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


BREAKS: dict[str, Callable[[str], Answer]] = {
    "ends": lambda protocol: Answer([first_part(protocol)]),
    "closes": lambda protocol: Answer([first_part(protocol)], is_chunked=False),
    "cut in a chunk": lambda protocol: Answer(
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s" % (99_999, first_part(protocol))], is_raw=True
    ),
    "invalid chunk size": lambda protocol: Answer(
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", _chunk(first_part(protocol)), b"zz\r\n"],
        is_raw=True,
    ),
    "shorter than promised": lambda protocol: Answer(
        [first_part(protocol)], headers={**EVENTS, "content-length": "99999"}, is_chunked=False
    ),
    "gzip": lambda protocol: _cut(protocol, "gzip"),
    "deflate": lambda protocol: _cut(protocol, "deflate"),
}


@each_protocol
@pytest.mark.parametrize("how", BREAKS)
def test_broken_stream_keeps_its_text_and_is_never_a_success(how: str, protocol: str) -> None:
    ran = run(protocol, BREAKS[how](protocol))
    assert (ran.kind, ran.code, ran.end.text) == (ErrorKind.CONNECTION, ExitCode.TRANSIENT, shown(protocol))


@each_protocol
def test_text_of_a_broken_stream_is_continued(protocol: str) -> None:
    ran = run(protocol, Answer([first_part(protocol)]), Answer([stream_of(protocol)]), retries=1)
    assert (ran.code, ran.requests) == (ExitCode.OK, 2)
    assert ran.end.text.startswith(shown(protocol))
    assert ran.end.text.endswith(text_of(protocol)[-3:])


@each_protocol
@pytest.mark.parametrize("step", [Reset(), b""], ids=["reset", "nothing"])
def test_connection_closed_before_a_response_is_retried(step: Reset | bytes, protocol: str) -> None:
    ran = run(protocol, Answer([step], is_raw=True), Answer([stream_of(protocol)]), retries=1)
    assert (ran.code, ran.end.text, ran.requests) == (ExitCode.OK, text_of(protocol), 2)


@each_protocol
def test_cancel_during_a_stream_keeps_the_text_and_is_immediate(protocol: str) -> None:
    ran = run(protocol, Answer([first_part(protocol), Stall()]), cancels=True)
    assert (ran.end.outcome, ran.code) == (Outcome.CANCELLED, ExitCode.INTERRUPTED)
    assert ran.end.text
    assert shown(protocol).startswith(ran.end.text)
    assert ran.took < 0.2


@each_protocol
def test_timeout_during_a_stream_keeps_the_text(protocol: str) -> None:
    short = Timeouts(connect=5, first_event=20, idle_local=0.2)
    ran = run(protocol, Answer([first_part(protocol), Stall()]), timeouts=short)
    assert (ran.kind, ran.code, ran.end.text) == (ErrorKind.TIMEOUT, ExitCode.TRANSIENT, shown(protocol))


def _in_each_event(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda sent: b"\n\n".join(change(event) for event in sent.split(b"\n\n") if event) + b"\n\n"


ODDITIES: dict[str, Callable[[bytes], bytes]] = {
    "no space behind the colon": lambda sent: sent.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "a byte order mark": lambda sent: b"\xef\xbb\xbf" + sent,
    "carriage returns only": lambda sent: sent.replace(b"\n", b"\r"),
    "both": lambda sent: sent.replace(b"\n", b"\r\n"),
    "no last line end": lambda sent: sent.rstrip(b"\n"),
    "comments": _in_each_event(lambda event: b": ping\n\n:\n" + event),
    "ids and retries": _in_each_event(lambda event: b"id: 1\nretry: 10\nunknown: field\n" + event),
    "blank lines": lambda sent: b"\n\n\n" + sent.replace(b"\n\n", b"\n\n\n\n"),
    "end marks": lambda sent: sent + b"data: [DONE]\n\ndata: [DONE]\n\n",
    "something behind the end": lambda sent: sent + b'data: {"error": {"message": "late"}}\n\nnonsense\n',
    "words": lambda sent: b"data: keep-alive\n\n" + sent.replace(b"\n\n", b"\n\ndata: [PING]\n\n", 1),
    "other JSON": lambda sent: b'data: null\n\ndata: 5\n\ndata: "x"\n\ndata: []\n\ndata: {}\n\n' + sent,
    "nulls in a comment": lambda sent: b": \0\0\0\n\n" + sent,
    "an unknown event": lambda sent: b'event: news\ndata: {"type": "news", "object": "news"}\n\n' + sent,
    "an event without data": lambda sent: b"event: ping\n\n" + sent,
}  # fmt: skip


@each_protocol_in_text
@pytest.mark.parametrize("how", ODDITIES)
def test_unusual_framing_gives_the_same_reply(how: str, protocol: str) -> None:
    events, error = replay_bytes(protocol, [ODDITIES[how](stream_of(protocol))])
    assert (events, error) == (recording(protocol, "text").events, None)


@each_protocol_in_text
def test_damaged_event_is_skipped_and_reported(protocol: str) -> None:
    sent = b"data: {broken\n\n" + stream_of(protocol).replace(b"\n\n", b'\n\ndata: {"a":\n\n', 1)
    events, error = replay_bytes(protocol, [sent])
    assert (events.count(["EventDamaged"]), error) == (2, None)
    assert [event for event in events if event != ["EventDamaged"]] == recording(protocol, "text").events


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "identity": lambda sent: sent,
}


@each_protocol
@pytest.mark.parametrize("name", PACKINGS)
def test_compressed_stream_is_decompressed(name: str, protocol: str) -> None:
    ran = run(protocol, Answer([PACKINGS[name](stream_of(protocol))], headers={**EVENTS, "content-encoding": name}))
    assert (ran.code, ran.end.text) == (ExitCode.OK, text_of(protocol))


@each_protocol
def test_trailers_after_a_stream_are_ignored(protocol: str) -> None:
    sent = stream_of(protocol)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
    raw = head + b"%x;ext=1\r\n%s\r\n0\r\nx-sum: 1\r\n\r\n" % (len(sent), sent)
    assert run(protocol, Answer([raw], is_raw=True)).end.text == text_of(protocol)


@each_protocol_in_text
def test_invalid_utf_8_becomes_a_replacement_character_and_other_text_is_kept(protocol: str) -> None:
    sent = stream_of(protocol)
    word = json.dumps(text_of(protocol), ensure_ascii=False).encode()[1:3]
    ran = run(protocol, Answer([sent.replace(word, b"\xff" + word)]))
    assert ran.code == ExitCode.OK
    assert ran.end.text.replace("\N{REPLACEMENT CHARACTER}", "") == text_of(protocol)
    assert "\N{REPLACEMENT CHARACTER}" in ran.end.text


@each_protocol_in_text
@pytest.mark.parametrize("sent", [b": ping\n\n" * 5, b"\n\n", b"data: [DONE]\n\n"], ids=["pings", "lines", "end"])
def test_empty_stream_is_a_broken_connection(sent: bytes, protocol: str) -> None:
    ran = run(protocol, Answer([sent]))
    assert (ran.code, ran.end.text) == (ExitCode.TRANSIENT, "")


@each_protocol_in_text
def test_endless_line_is_bounded(protocol: str) -> None:
    ran = run(protocol, Answer([b"data: ", *[b"x" * 4 * 1024 * 1024] * 9]))
    assert (ran.kind, ran.code) == (ErrorKind.BAD_RESPONSE, ExitCode.FAILED)
    assert "32 MB" in ran.message


@each_protocol
def test_endless_reply_is_bounded_and_its_text_kept(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.providers.streaming.MAX_REPLY_CHARS", len(text_of(protocol)) - 1)
    ran = run(protocol, Answer([stream_of(protocol)]))
    assert (ran.kind, ran.code) == (ErrorKind.BAD_RESPONSE, ExitCode.FAILED)
    assert "it was stopped" in ran.message
    assert text_of(protocol).startswith(ran.end.text)


@pytest.mark.sampled(3)
@each_protocol
def test_refused_connection_is_retried_once_and_names_the_address(protocol: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ran = run(protocol, Answer(), url=url, retries=5)
    assert (ran.kind, ran.code) == (ErrorKind.UNREACHABLE, ExitCode.TRANSIENT)
    assert url in ran.message
    assert "is the server running?" in ran.message
    assert ran.end.api_calls.total == 2


@each_protocol
@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
def test_unreachable_proxy_is_named_by_its_variable(
    scheme: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://127.0.0.1:{free_port()}")
    ran = run(protocol, Answer(), url="https://models.invalid")
    assert (ran.kind, ran.code) == (ErrorKind.UNREACHABLE, ExitCode.TRANSIENT)
    assert "HTTPS_PROXY" in ran.message


@each_protocol
def test_unreadable_certificate_file_is_named(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    ran = run(protocol, Answer(), url="https://models.invalid")
    assert (ran.kind, ran.code) == (ErrorKind.TLS, ExitCode.FAILED)
    assert "SSL_CERT_FILE" in ran.message


@each_protocol
def test_unknown_host_name_is_reported(protocol: str) -> None:
    ran = run(protocol, Answer(), url="http://nowhere.invalid")
    assert (ran.kind, ran.code) == (ErrorKind.UNREACHABLE, ExitCode.TRANSIENT)
    assert "nowhere.invalid" in ran.message
