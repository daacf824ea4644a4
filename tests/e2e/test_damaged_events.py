"""Streams with an event that cannot be read, over real HTTP: nothing is missing without a word about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.running import CliRunner, Finished
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Call, Faults, Turn
from tests.pins.runner import KEYS, MODELS, PROTOCOLS

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
TEXT = ("The quick ", "brown fox ", "jumps.")
CONTENT = " ".join(f"word{number}" for number in range(100, 160))
WRITE = json.dumps({"path": "a.txt", "content": CONTENT})
"""It is sent in three pieces, and is valid JSON without the second one."""
DAMAGED, GAP = Faults(damaged="brown"), "The quick jumps."


def ask(cli: CliRunner, server: FakeServer, protocol: ProtocolName, *arguments: str) -> Finished:
    model = f"{protocol}/{MODELS[protocol]}"
    given = ("-m", model, "--base-url", server.base_url, "--trust", "-p", "go", "-o", "stream-json", *arguments)
    return cli.run(*given, env=KEYS[protocol])


def notices(done: Finished) -> list[str]:
    return [line["text"] for line in done.lines if line.get("subtype") == "notice"]


@pytest.mark.sampled(3)
@each_protocol
def test_text_after_a_damaged_event_is_requested_again(protocol: ProtocolName, cli: CliRunner) -> None:
    script = [Turn(text=TEXT, faults=DAMAGED), Turn(text="brown fox jumps.")]
    with FakeServer(protocol, script) as server:
        done = ask(cli, server, protocol)
        assert server.complaints == []
    assert (done.code, done.result["result"], notices(done)) == (0, "The quick brown fox jumps.", [])
    assert done.result["api_calls"]["retries"] == 1


@pytest.mark.sampled(3)
@each_protocol
def test_damage_before_any_text_is_repaired_silently(protocol: ProtocolName, cli: CliRunner) -> None:
    with FakeServer(protocol, [Turn(text=TEXT, faults=Faults(damaged="quick")), Turn(text=TEXT)]) as server:
        done = ask(cli, server, protocol)
    assert (done.code, done.result["result"], notices(done)) == (0, "".join(TEXT), [])


@pytest.mark.sampled(3)
@each_protocol
def test_text_with_a_gap_is_reported_if_the_second_stream_is_damaged_too(
    protocol: ProtocolName, cli: CliRunner
) -> None:
    again = Turn(text=("brown fox ", "jumps over ", "the dog."), faults=Faults(damaged="over"))
    with FakeServer(protocol, [Turn(text=TEXT, faults=DAMAGED), again]) as server:
        done = ask(cli, server, protocol)
    (notice,) = notices(done)
    assert (done.code, done.result["result"]) == (0, "The quick brown fox the dog.")
    assert "1 damaged event" in notice
    assert "may lack text" in notice
    assert done.result["metrics"]["damaged_events"] == {f"{protocol}/{MODELS[protocol]}": 1}


@pytest.mark.sampled(2)
@each_protocol
def test_text_with_a_gap_is_reported_without_retries(protocol: ProtocolName, cli: CliRunner) -> None:
    settings = cli.home / "settings.toml"
    settings.write_text("[network]\nmax_retries = 0\n")
    with FakeServer(protocol, [Turn(text=TEXT, faults=DAMAGED)]) as server:
        done = ask(cli, server, protocol, "--settings", str(settings))
    assert (done.code, done.result["result"], len(notices(done))) == (0, GAP, 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", [item for item in PROTOCOLS if item != "gemini"])
def test_call_with_a_gap_in_its_arguments_never_runs(protocol: ProtocolName, cli: CliRunner) -> None:
    """The first damaged stream is requested again, the second call is rejected, the third is whole."""
    whole = Turn(calls=[Call("write", WRITE)])
    broken = Turn(calls=[Call("write", WRITE)], faults=Faults(damaged="word130"))
    with FakeServer(protocol, [broken, broken, whole, Turn(text="Done.")]) as server:
        done = ask(cli, server, protocol, "--permission-mode", "accept-edits")
        (result,) = server.requests[2].results
        assert server.complaints == []
    assert (done.code, done.result["result"]) == (0, "Done.")
    assert "lost in transit" in result.content
    assert written(cli.work) == {"a.txt": CONTENT}


def test_text_that_is_not_json_is_not_damage(cli: CliRunner) -> None:
    pings = Faults(inserted={0: b"data: keep-alive\n\n", 1: b"data: [PING]\n\n", 2: b"event: ping\ndata: {\n\n"})
    with FakeServer("openai", [Turn(text=TEXT, faults=pings)]) as server:
        done = ask(cli, server, "openai")
        assert len(server.requests) == 1
    assert (done.result["result"], notices(done)) == ("".join(TEXT), [])


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}
