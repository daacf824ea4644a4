"""Models that behave oddly, over real HTTP: each case ends with a named outcome and runs no unintended call."""

from __future__ import annotations

import json

import pytest

from qcode.protocol.usage import Usage
from tests.e2e.running import PROTOCOLS, CliRunner
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Call, Turn, refused

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
EDITS = ("--trust", "--permission-mode", "accept-edits")
LINE = "The model repeats this sentence again and again, and the end is never near.\n"


@pytest.mark.sampled(3)
@each_protocol
@pytest.mark.parametrize("where", ["text", "reasoning"])
def test_repeating_model_is_stopped(protocol: ProtocolName, where: str, cli: CliRunner) -> None:
    with FakeServer(protocol, [Turn(**{where: [LINE] * 300})]) as server:  # type: ignore[arg-type]  # one of two fields
        done = cli.ask(server, "-p", "go", "-o", "json")
        assert len(server.requests) == 1
    assert done.code == 1
    assert done.result["error"]["kind"] == "repetition"
    assert (done.result["result"] == "") == (where == "reasoning")


def test_repetition_at_the_end_of_a_reply_is_detected(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text=["Well.\n", *[LINE] * 39, LINE.strip()])]) as server:
        done = cli.ask(server, "-p", "go", "-o", "json")
    assert (done.code, done.result["error"]["kind"]) == (1, "repetition")
    assert done.result["result"] == "Well.\n" + (LINE * 40).strip()


def test_arguments_with_a_duplicate_key_never_run(cli: CliRunner) -> None:
    twice = Turn(calls=[Call("write", '{"path": "a.txt", "content": "one", "path": "b.txt"}')])
    once = Turn(calls=[Call("write", json.dumps({"path": "c.txt", "content": "one"}))])
    with FakeServer("openai", [twice, once, Turn(text="Done.")]) as server:
        done = cli.ask(server, "-p", "go", *EDITS)
        assert server.complaints == []
        (result,) = server.requests[1].results
    assert done.code == 0
    assert 'the key "path" twice' in result.content
    assert [path.name for path in cli.work.iterdir()] == ["c.txt"]


def test_second_call_with_a_duplicate_key_ends_the_turn(cli: CliRunner) -> None:
    twice = Turn(calls=[Call("shell", '{"command": "ls", "command": "touch x"}')])
    with FakeServer("openai", [twice, twice]) as server:
        done = cli.ask(server, "-p", "go", "-o", "json", "--yolo", "--trust")
    assert (done.code, done.result["error"]["kind"]) == (1, "unreadable_call")
    assert list(cli.work.iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("body", [None, "", '{"detail": "Not Found"}'])
def test_error_404_names_the_requested_model_and_the_nearest(body: str | None, cli: CliRunner) -> None:
    with FakeServer("openai", [refused(404, "no such model", body=body)], models=("text-model", "large-2")) as server:
        done = cli.ask(server, "-p", "hi")
    assert done.code == 1
    assert "openai/test-model" in done.err
    assert "the nearest: openai/text-model" in done.err


def test_exceeded_limit_of_the_prompt_is_reported(cli: CliRunner) -> None:
    script = [Turn(calls=[Call("ls", "{}")], usage=Usage(input=10, output=5))]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, "-p", "go", "-o", "json", "--max-turns", "1")
    assert done.code == 53
    assert done.result["error"]["kind"] == "budget"
    assert "--max-turns" in done.result["error"]["message"]


def test_sub_agent_type_has_its_own_output_limits(cli: CliRunner) -> None:
    kind = cli.work / ".qcode/agents/short.toml"
    kind.parent.mkdir(parents=True)
    kind.write_text('description = "Short."\nprompt = "Be short."\n[output]\nmax_tokens = 500\nmax_continuations = 0\n')
    start = {"description": "look", "prompt": "look", "kind": "short"}
    cut = Turn(text="half", stop="length", usage=Usage(input=10, output=500))
    with FakeServer("openai", [Turn(calls=[Call("agent", json.dumps(start))]), cut, Turn(text="Done.")]) as server:
        done = cli.ask(server, "-p", "go", *EDITS)
        assert server.caps == [8000, 500, 8000]
        (result,) = server.requests[2].results
    assert done.code == 0
    assert "Not a finished answer" in result.content


NOTHING = Turn(calls=[Call("search_files", '{"q": "x"}')])


@pytest.mark.sampled(2)
@each_protocol
def test_unknown_tools_end_the_turn_after_four_requests(protocol: ProtocolName, cli: CliRunner) -> None:
    with FakeServer(protocol, lambda _: NOTHING) as server:
        done = cli.ask(server, "-p", "go", "-o", "json")
        assert server.complaints == []
        results = [asked.results[-1].content for asked in server.requests if asked.results]
        assert len(server.requests) == 4
    assert (done.code, done.result["error"]["kind"]) == (1, "tool_failure")
    assert done.result["permission_denials"] == []
    assert "The tools are:" in results[0]
    assert "another such reply may end the turn" in results[2]
    assert "search_files" in done.err
    assert "approval" not in done.err


def test_missing_arguments_end_the_turn_after_four_requests(cli: CliRunner) -> None:
    with FakeServer("openai", lambda _: Turn(calls=[Call("read", "{}")])) as server:
        done = cli.ask(server, "-p", "go", "-o", "json")
        assert len(server.requests) == 4
    assert (done.code, done.result["error"]["kind"]) == (1, "tool_failure")


def test_repeated_denied_call_ends_as_denied(cli: CliRunner) -> None:
    script = Turn(text="I will write it.", calls=[Call("write", '{"path": "a.txt", "content": "x"}')])
    with FakeServer("openai", lambda _: script) as server:
        done = cli.ask(server, "-p", "go", "--trust", "-o", "json")
        assert len(server.requests) == 4
    assert (done.code, done.result["error"]["kind"]) == (55, "denied")
    assert len(done.result["permission_denials"]) == 4


def test_endlessly_repeated_call_ends_the_turn(cli: CliRunner) -> None:
    (cli.work / "a.txt").write_text("one")
    with FakeServer("openai", lambda _: Turn(calls=[Call("read", '{"path": "a.txt"}')])) as server:
        done = cli.ask(server, "-p", "go", "--trust", "-o", "json")
        assert len(server.requests) == 7
    assert (done.code, done.result["error"]["kind"]) == (1, "tool_failure")


def test_strict_tools_fail_the_turn_at_the_first_unknown_tool(cli: CliRunner) -> None:
    write = Call("write", '{"path": "a.txt", "content": "x"}')
    with FakeServer("openai", [Turn(calls=[write, *NOTHING.calls])]) as server:
        done = cli.ask(server, "-p", "go", *EDITS, "--strict-tools", "-o", "json")
        assert len(server.requests) == 1
    assert (done.code, done.result["error"]["kind"]) == (1, "tool_failure")
    assert list(cli.work.iterdir()) == []


def one_way(cli: CliRunner) -> str:
    file = cli.work / "exits.json"
    file.write_text(json.dumps([{"name": "report", "description": "Report."}]))
    return str(file)


@pytest.mark.sampled(2)
@each_protocol
def test_signals_are_reported_and_left_out_of_the_next_request(protocol: ProtocolName, cli: CliRunner) -> None:
    (cli.work / "a.txt").write_text("one")
    calls = [Call("report", '{"n": 1}'), Call("read", '{"path": "a.txt"}')]
    with FakeServer(protocol, [Turn(calls=calls), Turn(text="Done.")]) as server:
        done = cli.ask(server, "-p", "go", "-v", "--exit-tools", one_way(cli), "--trust")
        assert server.complaints == []
        history = server.requests[1].messages
    assert [call.name for message in history for call in message.calls] == ["read"]
    assert (done.code, done.out) == (0, "Done.\n")
    assert 'qcode: signal report: {"n": 1}\n' in done.err


def test_signals_stay_out_of_a_later_run_without_the_tools(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="Bye.", calls=[Call("report", '{"n": 1}')]), Turn(text="Hi.")]) as server:
        assert cli.ask(server, "-p", "go", "--exit-tools", one_way(cli)).code == 0
        assert cli.ask(server, "-c", "-p", "more").code == 0
        history = server.requests[1].messages
    assert [(message.text, message.calls) for message in history] == [("go", ()), ("Bye.", ()), ("more", ())]


def test_malformed_signal_is_recorded_unchanged_and_costs_no_request(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="Bye.", calls=[Call("report", '{"n": 1, "n": 2')])]) as server:
        done = cli.ask(server, "-p", "go", "--exit-tools", one_way(cli), "-o", "json")
        assert len(server.requests) == 1
    assert done.code == 0
    assert [signal["arguments"] for signal in done.result["signals"]] == ['{"n": 1, "n": 2']


def offered(cli: CliRunner, *flags: str) -> set[str]:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        assert cli.ask(server, "-p", "go", *flags).code == 0
        return set(server.requests[0].tools)


def test_tools_flag_selects_the_offered_tools(cli: CliRunner) -> None:
    flags = ("--exit-tools", one_way(cli))
    assert offered(cli, "--tools", "read, grep", *flags) == {"read", "grep", "report"}
    assert offered(cli, "--tools", "") == set()
    assert offered(cli, "--tools", "read", "--tools", "edit") == {"read", "edit", "multi_edit"}
    everything = offered(cli)
    assert offered(cli, "--disallowed-tools", "write,agent") == everything - {"write", "agent"}
    assert "shell" in offered(cli, "--disallowed-tools", "shell(rm *)")
    assert not {"write", "edit", "multi_edit"} & offered(cli, "--disallowed-tools", "edit")


@pytest.mark.parametrize("flag", ["--tools", "--disallowed-tools"])
def test_unknown_tool_is_named_with_the_nearest(flag: str, cli: CliRunner) -> None:
    done = cli.run("-m", "demo/demo", "-p", "hi", flag, "grepp")
    assert done.code == 2
    assert 'no tool "grepp"; the nearest is grep' in done.err


def test_tool_that_is_not_offered_cannot_be_called(cli: CliRunner) -> None:
    script = [Turn(calls=[Call("write", '{"path": "a.txt", "content": "x"}')]), Turn(text="Oh.")]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, "-p", "go", "--yolo", "--trust", "--tools", "read")
        assert "There is no tool `write`" in server.requests[1].results[-1].content
    assert done.code == 0
    assert list(cli.work.iterdir()) == []


@pytest.mark.sampled(2)
@each_protocol
def test_last_message_ends_with_the_remaining_limits(protocol: ProtocolName, cli: CliRunner) -> None:
    script = [Turn(calls=[Call("ls", "{}")]), Turn(text="Done."), Turn(text="Again.")]
    with FakeServer(protocol, script) as server:
        done = cli.ask(server, "-p", "go", "--max-tool-calls", "3", "--max-turns", "9", "-o", "json")
        cli.ask(server, "-p", "more", "-c", "--max-tool-calls", "3")
        assert server.complaints == []
        bodies = [
            json.dumps(asked.body["contents" if protocol == "gemini" else "messages"]) for asked in server.requests
        ]
        assert not any("Limits of this task" in asked.system for asked in server.requests)
    assert done.code == 0
    assert [body.count("Limits of this task") for body in bodies] == [1, 1, 1]
    assert "3 tool calls, 9 replies" in bodies[0]
    assert "2 tool calls, 8 replies" in bodies[1][-300:]
    assert "3 tool calls left" in bodies[2][-300:]


def test_limit_note_is_after_the_cached_part(cli: CliRunner) -> None:
    with FakeServer("anthropic", [Turn(text="ok")]) as server:
        cli.ask(server, "-p", "go", "--max-tool-calls", "3")
        content = server.requests[0].body["messages"][-1]["content"]
    assert ["cache_control" in block for block in content] == [True, False]
    assert content[-1]["text"].startswith("[Limits of this task")


def test_first_cap_rises_for_a_model_with_long_replies(cli: CliRunner) -> None:
    lengths = cli.home / ".local/state/qcode/reply_lengths.json"
    long = Turn(text="long", usage=Usage(input=10, output=9_000))
    with FakeServer("openai", lambda _: long) as server:
        cli.ask(server, "-p", "go")
        (host,) = json.loads(lengths.read_text())
        assert json.loads(lengths.read_text()) == {host: {"test-model": [9_000]}}
        lengths.write_text(json.dumps({host: {"test-model": [9_500] * 60}}))
        cli.ask(server, "-p", "go")
        cli.ask(server, "-p", "go", "--max-output-tokens", "500")
        (cli.work / "off.toml").write_text("[output]\nlearn_first_cap = false\n")
        cli.ask(server, "-p", "go", "--settings", "off.toml")
        assert server.caps == [8_000, 9_500, 500, 8_000]
    assert len(json.loads(lengths.read_text())[host]["test-model"]) == 61, "an override and a switch teach nothing"
    assert "first output cap 9,500" in cli.run("models", "test-model").out
