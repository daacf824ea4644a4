"""Pipe mode against the fake server over real HTTP, for each of the three protocols."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from qcode.protocol.reply import StopReason
from tests.e2e.running import HELLO, KEY, KEY_VARIABLES, PROTOCOLS, CliRunner
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.server_cli import SCENARIOS
from tests.fakes.turns import Call, Faults, Turn, refused

DOCSTRING_FLAGS = ("-p", "add a docstring to hello.py", "--trust", "--permission-mode", "accept-edits")
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.mark.sampled(2)
@each_protocol
def test_docstring_is_added_end_to_end(protocol: ProtocolName, cli: CliRunner) -> None:
    (cli.work / "hello.py").write_text(HELLO)
    with FakeServer(protocol, SCENARIOS["docstring"].make_answer()) as server:
        done = cli.ask(server, *DOCSTRING_FLAGS)
        assert server.complaints == []
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Done:")
    changed = (cli.work / "hello.py").read_text()
    assert '"""' in changed
    assert changed.replace(" ", "").endswith('returnf"Hello,{name}"\n')


@pytest.mark.sampled(2)
@each_protocol
def test_stream_json_shows_every_step_and_one_result(protocol: ProtocolName, cli: CliRunner) -> None:
    (cli.work / "hello.py").write_text(HELLO)
    with FakeServer(protocol, SCENARIOS["docstring"].make_answer()) as server:
        done = cli.ask(server, *DOCSTRING_FLAGS, "-o", "stream-json")
    assert done.code == 0
    lines = done.lines
    assert lines[0]["subtype"] == "init"
    assert {"read", "edit"} <= set(lines[0]["tools"])
    used = [
        block["name"]
        for line in lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block["type"] == "tool_use"
    ]
    assert used == ["read", "edit"]
    results = [block for line in lines if line["type"] == "user" for block in line["message"]["content"]]
    assert [block["is_error"] for block in results] == [False, False]
    result = done.result
    assert result["subtype"] == "success"
    assert result["num_turns"] == 3
    assert result["api_calls"] == {
        "total": 3, "initial": 3, "escalations": 0, "continuations": 0, "repairs": 0, "retries": 0,
    }  # fmt: skip
    assert result["permission_denials"] == []


@pytest.mark.sampled(3)
@each_protocol
def test_reply_truncated_five_times_costs_five_requests_and_is_printed_once(
    protocol: ProtocolName, cli: CliRunner
) -> None:
    parts = [f"Part {number} of the story.\n" for number in range(1, 6)]
    script = [Turn(text=part, stop=StopReason.MAX_TOKENS) for part in parts]
    with FakeServer(protocol, script) as server:
        done = cli.ask(server, "-p", "tell me a story")
        assert server.caps == [8000, 64000, 64000, 64000, 64000]
        assert server.complaints == []
    assert done.out == "".join(parts[1:])
    assert done.code == 56
    assert "incomplete" in done.err


def test_json_reports_the_final_text_and_counts_every_attempt(cli: CliRunner) -> None:
    script = [Turn(text=f"part {number}\n", stop=StopReason.MAX_TOKENS) for number in range(5)]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, "-p", "go", "-o", "json")
    assert done.code == 56
    result = done.result
    assert result["result"] == "part 1\npart 2\npart 3\npart 4\n"
    assert (result["subtype"], result["stop_reason"]) == ("error_max_tokens", "max_tokens")
    assert result["api_calls"]["total"] == 5
    assert result["discarded_output_tokens"] > 0


@pytest.mark.sampled(3)
@each_protocol
def test_truncated_call_never_runs_and_gets_guidance(protocol: ProtocolName, cli: CliRunner) -> None:
    cut = Turn(calls=[Call("write", '{"path": "big.py", "content": "line one\\nline tw')], stop=StopReason.MAX_TOKENS)
    whole = Turn(calls=[Call("write", json.dumps({"path": "big.py", "content": "line one\n"}))])
    with FakeServer(protocol, [cut, cut, whole, Turn(text="Written.")]) as server:
        done = cli.ask(server, "-p", "write", "--trust", "--permission-mode", "accept-edits")
        assert server.complaints == []
        assert server.caps[:2] == [8000, 64000]
        results = [result.content for asked in server.requests for result in asked.results]
    if protocol == "gemini":
        # Gemini drops a half call, so the reply is empty: escalated once, then it ends.
        assert done.code == 56
        return
    assert done.code == 0
    assert (cli.work / "big.py").read_text() == "line one\n"
    assert "MUST split" in results[0]


def test_denied_call_is_listed_with_the_flags_that_would_allow_it(cli: CliRunner) -> None:
    script = [Turn(calls=[Call("write", '{"path": "a.txt", "content": "x"}')]), Turn(text="I could not write it.")]
    with FakeServer("openai", script) as server:
        done = cli.ask(server, "-p", "write a.txt", "--trust", "-o", "json")
    assert done.code == 0
    assert [denial["tool_name"] for denial in done.result["permission_denials"]] == ["write"]
    assert not (cli.work / "a.txt").exists()
    assert "--permission-mode accept-edits" in done.err or "--allowed-tools" in done.err


def test_piped_input_comes_before_the_prompt(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        done = cli.ask(server, "-p", "summarize", stdin=b"line of a log\n")
        sent = server.requests[0].messages[-1].text
    assert done.code == 0
    assert sent == "line of a log\n\nsummarize"


def test_piped_input_alone_is_the_prompt(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        done = cli.ask(server, stdin=b"what is this?\n")
        assert server.requests[0].messages[-1].text.strip() == "what is this?"
    assert done.out == "ok\n"


def test_file_and_a_mention_are_attached(cli: CliRunner) -> None:
    (cli.work / "a.txt").write_text("alpha")
    (cli.work / "b.txt").write_text("beta")
    with FakeServer("openai", [Turn(text="ok")]) as server:
        cli.ask(server, "-p", "compare with @b.txt and @missing", "-f", "a.txt")
        sent = server.requests[0].messages[-1].text
    assert "alpha" in sent
    assert "beta" in sent
    assert "@missing" in sent


def test_resumed_session_contains_exactly_the_committed_messages(cli: CliRunner) -> None:
    script = [Turn(text="first", stop=StopReason.MAX_TOKENS), Turn(text="One, "), Turn(text="two.")]
    with FakeServer("openai", script) as server:
        first = cli.ask(server, "-p", "count", "-o", "json")
        session = first.result["session_id"]
        cli.ask(server, "-p", "continue", "-c")
        resumed = server.requests[-1].messages
    assert [message.role for message in resumed] == ["user", "assistant", "user"]
    assert resumed[1].text == "One, "
    assert [message.text for message in resumed[::2]] == ["count", "continue"]
    with FakeServer("openai", [Turn(text="three.")]) as server:
        cli.ask(server, "-p", "and on", "--resume", session[:-1])
        assert [message.text for message in server.requests[0].messages] == [
            "count", "One, ", "continue", "two.", "and on",
        ]  # fmt: skip


def test_run_without_a_session_stores_nothing(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        cli.ask(server, "-p", "hi", "--no-session")
    assert list(cli.home.rglob("*.jsonl")) == []


def test_key_is_in_no_written_file(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text=f"your key is {KEY}"), refused(401, f"bad key {KEY}")]) as server:
        cli.ask(server, "-p", "hi", "--debug-log", "debug.jsonl")
        denied = cli.ask(server, "-p", "hi", "--debug-log", "debug.jsonl")
    assert denied.code == 41
    assert "OPENAI_API_KEY" in denied.err
    assert KEY not in denied.err
    files = [path for base in (cli.home, cli.work) for path in base.rglob("*") if path.is_file()]
    assert any(path.name == "debug.jsonl" for path in files)
    assert [path for path in files if KEY in path.read_text(errors="replace")] == []


@pytest.mark.sampled(3)
@each_protocol
def test_ctrl_c_ends_the_run_within_a_second_and_keeps_the_text(protocol: ProtocolName, cli: CliRunner) -> None:
    script = [Turn(text=["One. ", "Two. ", "Three."], faults=Faults(stall_after=4))]
    with FakeServer(protocol, script) as server:
        flags = ("-m", f"{protocol}/m", "--base-url", server.base_url, "-p", "go", "-o", "json")
        process = subprocess.Popen(
            cli.command(*flags),
            cwd=cli.work,
            env=cli.environment({KEY_VARIABLES[protocol]: KEY}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        server.wait_until(lambda seen: seen.stalls == 1)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
        took = time.monotonic() - began
    assert process.returncode == 130
    assert took < 1.0
    assert json.loads(out)["subtype"] == "error_cancelled"


def test_second_ctrl_c_leaves_no_command_running(cli: CliRunner) -> None:
    command = "trap '' TERM INT; echo $$ > pid; while true; do sleep 1; done"
    script = [Turn(calls=[Call("shell", json.dumps({"command": command}))], stop=StopReason.TOOL_USE)]
    pid = cli.work / "pid"
    with FakeServer("openai", script) as server:
        process = subprocess.Popen(
            cli.command("-m", "openai/m", "--base-url", server.base_url, "-p", "go", "-o", "json", "--trust", "--yolo"),
            cwd=cli.work,
            env=cli.environment({"OPENAI_API_KEY": KEY}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
        group = int(pid.read_text())
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert json.loads(out)["subtype"] == "error_cancelled"
    wait_for(lambda: not is_alive(group))


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ctrl_c_does_not_wait_for_a_dns_lookup(cli: CliRunner) -> None:
    program = (
        "import socket, sys, time\n"
        "def slow(*_, **__):\n    sys.stderr.write('asked\\n'); sys.stderr.flush(); time.sleep(30)\n"
        "socket.getaddrinfo = slow\n"
        "from qcode.cli.main import main\n"
        "sys.exit(main(['-p', 'hi', '-m', 'openai/m', '--base-url', 'http://far.example/v1', '-o', 'json']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=cli.work,
        env=cli.environment({"OPENAI_API_KEY": KEY}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"asked\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=25)
    assert process.returncode == 130
    assert time.monotonic() - began < 5
    assert json.loads(out)["subtype"] == "error_cancelled"


def test_flags_proposed_after_a_denial_allow_the_same_run(cli: CliRunner) -> None:
    script = [Turn(calls=[Call("shell", json.dumps({"command": "touch made"}))], stop=StopReason.TOOL_USE)]
    with FakeServer("openai", [*script, Turn(text="")]) as server:
        denied = cli.ask(server, "-p", "go")
    assert denied.code == 55
    assert not (cli.work / "made").exists()
    flags = shlex.split(denied.err.splitlines()[-1].partition("to allow it: ")[2])
    with FakeServer("openai", [*script, Turn(text="Made.")]) as server:
        done = cli.ask(server, "-p", "go", *flags)
    assert (done.code, done.out, done.err) == (0, "Made.\n", "")
    assert (cli.work / "made").exists()


def test_closed_reader_ends_the_run_silently(cli: CliRunner) -> None:
    text = "\n".join(f"line {number}" for number in range(50_000))
    with FakeServer("openai", [Turn(text=text)]) as server:
        command = " ".join(cli.command("-m", "openai/m", "--base-url", server.base_url, "-p", "go"))
        done = subprocess.run(
            ["bash", "-c", f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}"],
            cwd=cli.work,
            env=cli.environment({"OPENAI_API_KEY": KEY}),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.stdout == "line 0\n141\n"
    assert done.stderr == ""


def test_busy_host_is_retried(cli: CliRunner) -> None:
    with FakeServer("openai", [refused(429, "slow down", retry_after=0), Turn(text="ok")]) as server:
        done = cli.ask(server, "-p", "hi", "-o", "json")
    assert done.code == 0
    assert done.result["api_calls"]["retries"] == 1


def test_model_with_text_calls_writes_its_calls_as_text(cli: CliRunner) -> None:
    (cli.work / "a.txt").write_text("alpha")
    (cli.home / "config.toml").write_text('[models."openai/m"]\ntext_tool_calls = true\n')
    call = '<tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>'
    with FakeServer("openai", [Turn(text=f"I read it.\n{call}"), Turn(text="It says alpha.")]) as server:
        done = cli.run(
            "-m", "openai/m", "--base-url", server.base_url, "-p", "what is in a.txt?",
            env={"QCODE_HOME": str(cli.home), "OPENAI_API_KEY": KEY},
        )  # fmt: skip
        assert "alpha" in server.requests[1].messages[-1].text
        assert server.requests[0].tools == ()
    assert (done.code, done.out) == (0, "It says alpha.\n")


def test_debug_log_ends_with_the_result_of_recovery(cli: CliRunner) -> None:
    cut = Turn(text="part ", stop=StopReason.MAX_TOKENS)
    with FakeServer("openai", [cut, cut, Turn(text="the end")]) as server:
        cli.ask(server, "-p", "hi", "--debug-log", "debug.jsonl")
    last = json.loads((cli.work / "debug.jsonl").read_text().splitlines()[-1])
    assert sum(last["metrics"]["continuations"].values()) == 1
    assert last["metrics"]["continuation_attempts"] == {"1": 1}


def test_verbose_line_names_the_command_that_chose_the_model(cli: CliRunner) -> None:
    folder = cli.home / "commands"
    folder.mkdir()
    (folder / "go.toml").write_text('prompt = "hi"\nmodel = "demo/demo"\n')
    done = cli.run("-v", "-p", "/go", env={"QCODE_HOME": str(cli.home)})
    assert done.code == 0
    assert "qcode: model demo/demo (named by /go), permission mode ask\n" in done.err
