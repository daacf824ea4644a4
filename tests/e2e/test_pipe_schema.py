"""`--json-schema` against the fake server over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from qcode.protocol.reply import StopReason
from tests.e2e.running import PROTOCOLS, CliRunner
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Call, Turn

SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
ASK = ("-p", "count", "--json-schema", SCHEMA)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_valid_answer_is_the_only_output_as_json(protocol: ProtocolName, cli: CliRunner) -> None:
    with FakeServer(protocol, [Turn(text='```json\n{"n": 1}\n```')]) as server:
        done = cli.ask(server, *ASK)
        (asked,) = server.requests
    assert (done.code, done.out, done.err) == (0, '{"n": 1}\n', "")
    assert '"required": ["n"]' in asked.system


def test_invalid_answer_is_returned_with_its_errors_and_every_try_is_counted(cli: CliRunner) -> None:
    script = [Turn(text="It is one."), Turn(text='{"n": "one"}'), Turn(text='{"n": 1}')]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, *ASK, "-o", "stream-json")
        assert server.complaints == []
        last = server.requests[-1].messages
    assert done.code == 0
    result = done.result
    assert (result["result"], result["structured_output"], result["subtype"]) == ('{"n": 1}', {"n": 1}, "success")
    assert (result["num_turns"], result["api_calls"]["initial"], result["api_calls"]["total"]) == (3, 3, 3)
    assert [message.role for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert "is not of type 'integer'" in last[-1].text
    assert [line["type"] for line in done.lines if line["type"] != "system"] == [
        "assistant", "user", "assistant", "user", "assistant", "result",
    ]  # fmt: skip


def test_third_invalid_answer_fails_the_run_and_keeps_the_text(cli: CliRunner) -> None:
    script = [Turn(text="a"), Turn(text="b"), Turn(text="c")]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, *ASK, "-o", "json")
        assert len(server.requests) == 3
    assert done.code == 1
    result = done.result
    assert result["subtype"] == "error_max_structured_output_retries"
    assert (result["is_error"], result["stop_reason"], result["structured_output"]) == (True, None, None)
    assert (result["result"], result["num_turns"]) == ("c", 3)
    assert result["error"]["kind"] == "structured_output"
    assert done.err.count("\n") == 1


def test_limits_of_a_prompt_cover_all_tries(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="a"), Turn(text='{"n": 1}')]) as server:
        done = cli.ask(server, *ASK, "--max-turns", "1", "-o", "json")
        assert len(server.requests) == 1
    assert (done.code, done.result["subtype"]) == (53, "error_max_turns")


def test_tools_run_before_the_answer_is_validated(cli: CliRunner) -> None:
    (cli.work / "a.txt").write_text("alpha")
    script = [Turn(text="Let me look.", calls=[Call("read", '{"path": "a.txt"}')]), Turn(text='{"n": 2}')]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, *ASK, "--trust")
        assert len(server.requests) == 2
    assert (done.code, done.out) == (0, '{"n": 2}\n')


def test_truncated_answer_is_validated_only_when_complete(cli: CliRunner) -> None:
    script = [
        Turn(text='{"n"', stop=StopReason.MAX_TOKENS),
        Turn(text='{"n"', stop=StopReason.MAX_TOKENS),
        Turn(text=": 7}"),
    ]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, *ASK)
        assert len(server.requests) == 3
    assert (done.code, done.out) == (0, '{"n": 7}\n')


def test_answer_that_stays_truncated_is_not_a_schema_error(cli: CliRunner) -> None:
    script = [Turn(text=f'{{"part {number}": ', stop=StopReason.MAX_TOKENS) for number in range(5)]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, *ASK, "-o", "json")
    assert (done.code, done.result["subtype"], done.result["structured_output"]) == (56, "error_max_tokens", None)


def in_file(text: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        (folder / "schema.json").write_text(text)
        return "@schema.json"

    return make


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda folder: "nonsense", "is not JSON"),
        (lambda folder: '{"type": "nonsense"}', "is not a valid JSON Schema: $.type"),
        (lambda folder: "@missing.json", "cannot read --json-schema @missing.json: No such file"),
        (lambda folder: "missing.json", "a file is named as @missing.json"),
        (lambda folder: "", "is not JSON"),
        (in_file("[1]"), "--json-schema @schema.json is not a valid JSON Schema"),
        (in_file('{"$ref": "http://127.0.0.1:9/schema"}'), "external references are not supported"),
    ],
    ids=["no json", "no schema", "no file", "no at sign", "empty", "bad file", "remote"],
)
def test_invalid_schema_is_an_input_error_before_any_request(
    given: Callable[[Path], str], message: str, cli: CliRunner
) -> None:
    with FakeServer("openai", []) as server:
        done = cli.ask(server, "-p", "x", "--json-schema", given(cli.work), "-o", "json")
        assert server.requests == []
    assert (done.code, done.result["error"]["kind"]) == (42, "bad_input")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_schema_from_a_file_is_used(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text='{"n": 3}')]) as server:
        done = cli.ask(server, "-p", "x", "--json-schema", in_file(SCHEMA)(cli.work), "-o", "json")
    assert (done.code, done.result["structured_output"]) == (0, {"n": 3})
