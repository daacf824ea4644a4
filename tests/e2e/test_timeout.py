"""`--timeout`: a prompt is cancelled at its time limit, and what it wrote is kept."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from qcode.config.paths import CONFIG_NAME
from tests.e2e.running import KEY, CliRunner
from tests.fakes.replies import call, calls
from tests.fakes.server import FakeServer
from tests.fakes.turns import Faults, Turn, refused

SAID = "stopped after 1 model reply: the limit of --timeout was reached"


def stalled() -> Turn:
    return Turn(text=("so ", "far ", "and more"), faults=Faults(stall_after=4))


def test_text_so_far_is_printed_at_the_time_limit(cli: CliRunner) -> None:
    with FakeServer("openai", [stalled()]) as server:
        done = cli.ask(server, "-p", "hi", "--timeout", "2s")
    assert done.code == 53
    assert done.out.startswith("so")
    assert SAID in done.err


def test_result_names_the_limit(cli: CliRunner) -> None:
    with FakeServer("openai", [stalled()]) as server:
        result = cli.ask(server, "-p", "hi", "--timeout", "2s", "-o", "json").result
    assert (result["subtype"], result["stop_reason"]) == ("error_timeout", "max_turn_requests")
    assert result["result"].startswith("so")
    assert result["error"]["kind"] == "budget"
    assert result["errors"] == [f"{SAID}; set a higher one, or continue with qcode --continue -p TEXT"]


def test_running_command_is_ended_at_the_time_limit(cli: CliRunner) -> None:
    with FakeServer("openai", [calls(call("shell", command="sleep 60"))]) as server:
        done = cli.ask(server, "-p", "hi", "--timeout", "1s", "--trust", "--yolo", "-o", "json")
    assert done.code == 53
    assert done.result["duration_ms"] < 20_000


def test_sub_agents_share_the_time_limit_and_count_in_the_usage(cli: CliRunner) -> None:
    looks = [call("agent", f"a{n}", kind="explore", prompt=f"Look at {n}.", description="look") for n in range(2)]
    with FakeServer("openai", [calls(*looks), stalled(), stalled()]) as server:
        done = cli.ask(server, "-p", "hi", "--timeout", "1s", "--trust", "-o", "json")
        assert len(server.requests) == 3
    assert done.code == 53
    assert (done.result["subtype"], done.result["api_calls"]["total"]) == ("error_timeout", 3)
    assert done.result["duration_ms"] < 20_000


def test_wait_before_a_retry_counts(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok", faults=Faults(first_byte_delay=60))]) as server:
        done = cli.ask(server, "-p", "hi", "--timeout", "0.5s", "-o", "stream-json")
    assert done.code == 53
    assert done.result["result"] == ""


def test_first_line_is_init_if_tool_servers_are_still_starting_at_the_limit(cli: CliRunner) -> None:
    servers = {"silent": {"command": "sleep", "args": ["60"]}}
    given = ("--mcp-config", json.dumps({"mcpServers": servers}), "--trust", "-o", "stream-json")
    with FakeServer("openai", [Turn(text="ok")]) as server:
        done = cli.ask(server, "-p", "hi", "--timeout", "0.5s", *given)
        assert server.requests == []
    assert done.code == 53
    assert [line.get("subtype") for line in done.lines] == ["init", "error_timeout"]


def test_run_within_its_time_is_not_affected(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        done = cli.ask(server, "-p", "hi", "--timeout", "1h")
    assert (done.code, done.out, done.err) == (0, "ok\n", "")


def test_input_that_does_not_end_counts(cli: CliRunner) -> None:
    argv = cli.command("-m", "demo/demo", "-p", "hi", "--timeout", "1", "-o", "json")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"begun")
        process.stdin.flush()
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout.read(), process.stderr.read()
        process.stdin.close()
    assert process.returncode == 53
    assert err == b"qcode: standard input did not end within the limit of --timeout\n"
    assert json.loads(out)["error"]["kind"] == "budget"


@pytest.mark.parametrize("given", ["0", "0s", "-1", "soon", "inf", "nan", ""])
def test_invalid_time_is_refused(cli: CliRunner, given: str) -> None:
    done = cli.run("-p", "hi", f"--timeout={given}")
    assert (done.code, done.out) == (2, "")
    assert "is not a duration such as 90s, 30m, 2h or 1d" in done.err


def test_each_prompt_of_a_stream_has_the_whole_time(cli: CliRunner) -> None:
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "hi"}}).encode() + b"\n"
    with FakeServer("openai", [stalled(), Turn(text="second")]) as server:
        flags = ("--timeout", "1s", "-o", "stream-json", "--input-format", "stream-json")
        done = cli.ask(server, *flags, stdin=line * 2)
    results = [item for item in done.lines if item["type"] == "result"]
    assert [result["subtype"] for result in results] == ["error_timeout", "success"]


def test_command_for_the_key_counts(cli: CliRunner) -> None:
    (cli.home / CONFIG_NAME).write_text(
        '[providers.lab]\ntype = "openai"\nbase_url = "http://127.0.0.1:1"\napi_key_command = ["sleep", "9"]\n'
    )
    started = time.monotonic()
    done = cli.run("-m", "lab/m", "-p", "hi", "--timeout", "1s", "-o", "json", env={"QCODE_HOME": str(cli.home)})
    assert time.monotonic() - started < 9
    assert done.code == 53
    assert done.result["error"]["kind"] == "budget"
    assert done.err == "qcode: the turn could not begin within the limit of --timeout\n"


def test_tool_server_that_does_not_start_counts_from_the_beginning(cli: CliRunner) -> None:
    server = {"mcpServers": {"slow": {"command": "sleep", "args": ["60"]}}}
    flags = ("--trust", "--mcp-config", json.dumps(server), "--timeout", "1s", "-o", "json")
    done = cli.run("-m", "demo/demo", "-p", "hi", *flags)
    assert (done.code, done.result["subtype"]) == (53, "error_timeout")
    assert done.result["duration_ms"] < 2_000


def test_key_of_a_fallback_model_counts(cli: CliRunner) -> None:
    with FakeServer("openai", [refused(529, "Overloaded")]) as server:
        (cli.home / CONFIG_NAME).write_text(
            'fallback = ["lab/m"]\nnetwork.max_retries = 0\n[providers.lab]\ntype = "openai"\n'
            'base_url = "http://127.0.0.1:1"\napi_key_command = ["sleep", "9"]\n'
        )
        env = {"QCODE_HOME": str(cli.home), "OPENAI_API_KEY": KEY}
        flags = ("--base-url", server.base_url, "--timeout", "2s", "-o", "json")
        done = cli.run("-m", "openai/m", "-p", "hi", *flags, env=env)
    assert (done.code, done.result["subtype"]) == (53, "error_timeout")
    assert done.result["duration_ms"] < 4_000
