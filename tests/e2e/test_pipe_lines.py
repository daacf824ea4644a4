"""`--input-format stream-json` against the fake server: a line in for each turn, a result out for each."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.running import KEY, CliRunner
from tests.fakes.server import FakeServer
from tests.fakes.turns import Faults, Turn

LINES = ("-p", "--input-format", "stream-json", "-o", "stream-json")
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 16).decode()


def user(content: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}}


def interrupt(request_id: str = "r1") -> dict[str, Any]:
    return {"type": "control_request", "request_id": request_id, "request": {"subtype": "interrupt"}}


def as_input(*values: dict[str, Any] | str) -> bytes:
    return "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values).encode()


def results(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == "result"]


class Talk:
    """A running qcode whose lines are written and read one by one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []

    def say(self, *values: dict[str, Any] | str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(as_input(*values))
        self.process.stdin.flush()

    def until(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            self.seen.append(json.loads(raw))
            if self.seen[-1]["type"] == kind:
                return self.seen[-1]
        raise AssertionError(f"no {kind} line came")

    def end(self) -> int:
        out, _ = self.process.communicate(timeout=30)
        self.seen += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode


@contextmanager
def talking(cli: CliRunner, server: FakeServer, *flags: str) -> Iterator[Talk]:
    command = cli.command("-m", "openai/m", "--base-url", server.base_url, *LINES, "--include-partial-messages", *flags)
    with subprocess.Popen(
        command,
        cwd=cli.work,
        env=cli.environment({"OPENAI_API_KEY": KEY}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield Talk(process)
        finally:
            process.kill()


def test_each_line_is_a_turn_of_one_conversation_with_one_result(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="one"), Turn(text="two")]) as server:
        stdin = as_input(user("first"), "", user([{"type": "text", "text": "second"}]))
        done = cli.ask(server, *LINES, stdin=stdin)
        assert [message.text for message in server.requests[1].messages] == ["first", "one", "second"]
    assert done.code == 0
    assert [line.get("subtype") for line in done.lines].count("init") == 1
    assert done.lines[0]["subtype"] == "init"
    assert [result["result"] for result in results(done.lines)] == ["one", "two"]
    assert [result["num_turns"] for result in results(done.lines)] == [1, 1]
    assert done.lines[-1]["type"] == "result"


def test_accepted_lines_are_written_back_on_request(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="one"), Turn(text="two")]) as server:
        stdin = as_input({**user("first"), "uuid": "u1"}, user(""), user("second"))
        done = cli.ask(server, *LINES, "--replay-user-messages", stdin=stdin)
    replayed = [line for line in done.lines if line.get("isReplay")]
    assert [line["message"]["content"] for line in replayed] == ["first", "second"]
    assert replayed[0]["uuid"] == "u1"
    assert replayed[1]["uuid"]
    assert {line["session_id"] for line in replayed} == {done.lines[0]["session_id"]}
    assert done.lines[1] == replayed[0]


def test_last_line_without_a_line_break_counts(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="one")]) as server:
        done = cli.ask(server, *LINES, stdin=as_input(user("x")).rstrip(b"\n"))
    assert [result["result"] for result in results(done.lines)] == ["one"]


def test_blocks_keep_their_order(cli: CliRunner) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG}}
    content = [{"type": "text", "text": "this:"}, image, {"type": "text", "text": "what is it?"}]
    with FakeServer("anthropic", [Turn(text="a picture")]) as server:
        done = cli.ask(server, *LINES, stdin=as_input(user(content)))
        (request,) = server.requests
    assert done.code == 0
    sent = request.body["messages"][-1]["content"]
    assert [part["type"] for part in sent] == ["text", "image", "text"]
    assert sent[1]["source"]["media_type"] == "image/png"


def test_commands_and_mentioned_files_are_expanded_as_in_a_typed_prompt(cli: CliRunner) -> None:
    (cli.work / "notes.txt").write_text("the notes\n")
    commands = cli.home / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("Review this: $ARGUMENTS\n")
    with FakeServer("openai", [Turn(text="one"), Turn(text="two")]) as server:
        composed_line = {**user("/review @x.md"), "client_composed": True}
        done = cli.ask(server, *LINES, stdin=as_input(user("/review @notes.txt and @missing.txt"), composed_line))
        expanded, _, composed = [message.text for message in server.requests[1].messages]
    assert "the notes\n" in expanded
    assert expanded.endswith("Review this: @notes.txt and @missing.txt")
    assert composed == "/review @x.md"
    assert done.err.count("not attached") == 1
    assert "missing.txt" in done.err


def test_command_that_needs_approval_gets_its_result_and_the_next_line_runs(cli: CliRunner) -> None:
    skill = cli.home / ".claude/skills/status"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: status\ndescription: d\n---\nNow: !`touch made`\n")
    with FakeServer("openai", [Turn(text="two")]) as server:
        done = cli.ask(server, *LINES, stdin=as_input(user("/status"), user("next")))
        assert [message.text for message in server.requests[0].messages] == ["next"]
    refused, answered = results(done.lines)
    assert "needs approval" in refused["errors"][0]
    assert answered["result"] == "two"
    assert done.code == 0
    assert not (cli.work / "made").exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"type": "assistant"}', 'its type is "assistant"'),
        ('{"type": "user"}', "needs"),
        (json.dumps(user("  ")), "empty"),
        (json.dumps(user([])), "empty"),
        (json.dumps(user([{"type": "tool_result", "content": "x"}])), 'type "tool_result"'),
        (json.dumps(user([{"type": "image", "source": {"type": "base64", "data": "!"}}])), "not base64"),
        (json.dumps(user([{"type": "image", "source": {"type": "base64", "data": "AAAA"}}])), "not PNG"),
    ],
)
def test_invalid_line_gets_an_error_result_and_the_run_continues(line: str, message: str, cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="one")]) as server:
        done = cli.ask(server, *LINES, stdin=as_input(line, user("x")))
    bad, good = results(done.lines)
    assert (bad["is_error"], bad["subtype"], bad["error"]["kind"]) == (True, "error_during_execution", "bad_input")
    assert bad["error"]["message"].startswith("line 1 of standard input is invalid: ")
    assert message in bad["error"]["message"]
    assert (good["result"], done.code) == ("one", 0)


def test_exit_code_is_that_of_the_last_turn(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="one")]) as server:
        done = cli.ask(server, *LINES, stdin=as_input(user("x"), "nonsense"))
    assert done.code == 42


def test_input_without_messages_is_a_missing_prompt(cli: CliRunner) -> None:
    with FakeServer("openai", []) as server:
        done = cli.ask(server, *LINES, stdin=b"\n")
    assert (done.code, [line["type"] for line in done.lines]) == (2, ["system", "result"])
    assert "no message arrived" in done.err


def test_turn_waits_for_its_line_and_deltas_are_streamed(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="one"), Turn(text="two")]) as server, talking(cli, server) as talk:
        talk.say(user("first"))
        assert talk.until("result")["result"] == "one"
        talk.say(user("second"))
        assert talk.until("result")["result"] == "two"
        assert talk.end() == 0
    assert [line["type"] for line in talk.seen].count("stream_event") >= 2


def test_interrupt_ends_the_running_turn_and_the_next_one_runs(cli: CliRunner) -> None:
    script = [Turn(text=["One. ", "Two. "], faults=Faults(stall_after=3)), Turn(text="after")]
    with FakeServer("openai", script) as server, talking(cli, server) as talk:
        talk.say(user("first"))
        server.wait_until(lambda seen: seen.stalls == 1)
        talk.until("stream_event")
        talk.say(interrupt())
        answer = talk.until("control_response")
        cancelled = talk.until("result")
        talk.say(user("second"))
        after = talk.until("result")
        assert talk.end() == 0
    assert answer["response"] == {"subtype": "success", "request_id": "r1"}
    assert (cancelled["subtype"], cancelled["stop_reason"]) == ("error_cancelled", "cancelled")
    assert cancelled["result"].startswith("One.")
    assert after["result"] == "after"


def test_other_requests_are_answered_with_an_error(cli: CliRunner) -> None:
    request = {"type": "control_request", "request_id": "r2", "request": {"subtype": "mcp_status"}}
    with FakeServer("openai", [Turn(text="one")]) as server:
        done = cli.ask(server, *LINES, stdin=as_input(request, user("x")))
    (answer,) = [line["response"] for line in done.lines if line["type"] == "control_response"]
    assert (answer["subtype"], answer["request_id"]) == ("error", "r2")
    assert done.code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_a_run_that_waits_for_a_line(number: int, code: int, cli: CliRunner) -> None:
    with FakeServer("openai", []) as server, talking(cli, server) as talk:
        talk.say(interrupt())
        talk.until("control_response")
        talk.process.send_signal(number)
        # Its input stays open until it is gone: an end of it is another way to stop.
        assert talk.process.wait(timeout=30) == code
        talk.end()
    assert [line["type"] for line in talk.seen] == ["control_response", "system", "result"]


def test_signal_ends_the_turn_and_the_run(cli: CliRunner) -> None:
    script = [Turn(text=["One. ", "Two. "], faults=Faults(stall_after=3))]
    with FakeServer("openai", script) as server, talking(cli, server) as talk:
        talk.say(user("first"), user("second"))
        server.wait_until(lambda seen: seen.stalls == 1)
        talk.until("stream_event")
        talk.process.send_signal(signal.SIGINT)
        assert talk.end() == 130
        assert len(server.requests) == 1
    assert [result["subtype"] for result in results(talk.seen)] == ["error_cancelled"]
    assert talk.seen[-1]["type"] == "result"


@pytest.mark.parametrize(
    "flags",
    [("--input-format", "stream-json"), ("--input-format", "stream-json", "-o", "json"), (*LINES, "typed")],
)
def test_stream_input_needs_stream_output_and_no_prompt_argument(flags: tuple[str, ...], cli: CliRunner) -> None:
    done = cli.run(*flags, stdin=as_input(user("x")))
    assert done.code == 2


def test_message_that_is_interrupted_while_tool_servers_start_is_not_sent(cli: CliRunner) -> None:
    started = cli.home / "started"
    os.mkfifo(started)
    failing = {"command": "sh", "args": ["-c", f"echo > {started}; read line; cat {started}; rm -f {started}"]}
    given = ("--trust", "--mcp-config", json.dumps({"mcpServers": {"failing": failing}}))
    with FakeServer("openai", [Turn(text="one")]) as server, talking(cli, server, *given) as talk:
        talk.say(user("hi"))
        started.read_text()
        talk.say(interrupt(), user("again"))
        talk.until("control_response")
        started.write_text("go on\n")
        assert talk.end() == 0
        assert [message.text for message in server.requests[0].messages] == ["again"]
    assert [result["subtype"] for result in results(talk.seen)] == ["error_cancelled", "success"]


def test_interrupt_while_tool_servers_start_writes_init_and_one_result(cli: CliRunner) -> None:
    started = cli.home / "started"
    os.mkfifo(started)
    silent = {"command": "sh", "args": ["-c", f"echo > {started}; exec sleep 60"]}
    given = ("--trust", "--mcp-config", json.dumps({"mcpServers": {"silent": silent}}))
    with FakeServer("openai", [Turn(text="one")]) as server, talking(cli, server, *given) as talk:
        talk.say(user("hi"))
        started.read_text()
        talk.process.send_signal(signal.SIGINT)
        assert talk.end() == 130
        assert server.requests == []
    assert [line.get("subtype") for line in talk.seen] == ["init", "error_cancelled"]
