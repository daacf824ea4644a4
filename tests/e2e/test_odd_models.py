"""Models that behave oddly, over real HTTP: what they do ends by itself, is named, and never runs by accident."""

from __future__ import annotations

import json

import pytest

from qcode.protocol.usage import Usage
from tests.e2e.running import PROTOCOLS, Place
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Call, Turn, refused

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
EDITS = ("--trust", "--permission-mode", "accept-edits")
LINE = "This sentence is said again and again, all over, and the end is never near.\n"


@each_protocol
@pytest.mark.parametrize("where", ["text", "reasoning"])
def test_a_model_that_repeats_itself_is_stopped(protocol: ProtocolName, where: str, place: Place) -> None:
    with FakeServer(protocol, [Turn(**{where: [LINE] * 300})]) as server:  # type: ignore[arg-type]  # one of two fields
        done = place.ask(server, "-p", "go", "-o", "json")
        assert len(server.requests) == 1
    assert done.code == 1
    assert done.result["error"]["kind"] == "repetition"
    assert (done.result["result"] == "") == (where == "reasoning")


def test_a_repetition_that_ends_with_the_reply_is_noticed(place: Place) -> None:
    with FakeServer("openai", [Turn(text=["Well.\n", *[LINE] * 39, LINE.strip()])]) as server:
        done = place.ask(server, "-p", "go", "-o", "json")
    assert (done.code, done.result["error"]["kind"]) == (1, "repetition")
    assert done.result["result"] == "Well.\n" + (LINE * 40).strip()


def test_arguments_with_a_key_twice_are_never_run(place: Place) -> None:
    twice = Turn(calls=[Call("write", '{"path": "a.txt", "content": "one", "path": "b.txt"}')])
    once = Turn(calls=[Call("write", json.dumps({"path": "c.txt", "content": "one"}))])
    with FakeServer("openai", [twice, once, Turn(text="Done.")]) as server:
        done = place.ask(server, "-p", "go", *EDITS)
        assert server.complaints == []
        (result,) = server.requests[1].results
    assert done.code == 0
    assert 'the key "path" twice' in result.content
    assert [path.name for path in place.work.iterdir()] == ["c.txt"]


def test_arguments_with_a_key_twice_again_end_the_turn(place: Place) -> None:
    twice = Turn(calls=[Call("shell", '{"command": "ls", "command": "touch x"}')])
    with FakeServer("openai", [twice, twice]) as server:
        done = place.ask(server, "-p", "go", "-o", "json", "--yolo", "--trust")
    assert (done.code, done.result["error"]["kind"]) == (1, "unreadable_call")
    assert list(place.work.iterdir()) == []


@pytest.mark.parametrize("body", [None, "", '{"detail": "Not Found"}'])
def test_a_404_names_the_model_that_was_asked_for_and_the_nearest(body: str | None, place: Place) -> None:
    with FakeServer("openai", [refused(404, "no such model", body=body)], models=("text-model", "large-2")) as server:
        done = place.ask(server, "-p", "hi")
    assert done.code == 1
    assert "openai/test-model" in done.err
    assert "nearest: openai/text-model" in done.err


def test_a_limit_of_the_prompt_is_named_as_the_failure(place: Place) -> None:
    script = [Turn(calls=[Call("ls", "{}")], usage=Usage(input=10, output=5))]
    with FakeServer("openai", script) as server:
        done = place.ask(server, "-p", "go", "-o", "json", "--max-turns", "1")
    assert done.code == 53
    assert done.result["error"]["kind"] == "budget"
    assert "--max-turns" in done.result["error"]["message"]


def test_a_kind_of_sub_agents_has_its_own_output_limits(place: Place) -> None:
    kind = place.work / ".qcode/agents/short.toml"
    kind.parent.mkdir(parents=True)
    kind.write_text('description = "Short."\nprompt = "Be short."\n[output]\nmax_tokens = 500\nmax_continuations = 0\n')
    start = {"description": "look", "prompt": "look", "kind": "short"}
    cut = Turn(text="half", stop="length", usage=Usage(input=10, output=500))
    with FakeServer("openai", [Turn(calls=[Call("agent", json.dumps(start))]), cut, Turn(text="Done.")]) as server:
        done = place.ask(server, "-p", "go", *EDITS)
        assert server.caps == [8000, 500, 8000]
        (result,) = server.requests[2].results
    assert done.code == 0
    assert "Not a finished answer" in result.content
