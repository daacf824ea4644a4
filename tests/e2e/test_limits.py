"""Limits that reset, and fallback models, in pipe mode against fake hosts over real HTTP."""

from __future__ import annotations

import re

import pytest

from qcode.config.paths import CONFIG_NAME
from tests.e2e.running import KEY, CliRunner, Finished
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, Turn, refused

LIMIT = "Rate limit reached"


def configure(cli: CliRunner, text: str) -> dict[str, str]:
    """Write the configuration, and return the environment that uses it."""
    (cli.home / CONFIG_NAME).write_text(text)
    return {"QCODE_HOME": str(cli.home), "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}


def ask(cli: CliRunner, server: FakeServer, config: str, *flags: str) -> Finished:
    env = configure(cli, config)
    return cli.run("-m", "openai/m", "--base-url", server.base_url, "-p", "hi", *flags, env=env)


def beside(first: FakeServer, second: FakeServer, more: str = "") -> str:
    """Return a configuration with two hosts: `openai` fails, and `anthropic` takes over."""
    return (
        f'fallback = ["anthropic/claude-x"]\n{more}\n[network]\nmax_retries = 0\n'
        f'[providers.openai]\nbase_url = "{first.base_url}"\n[providers.anthropic]\nbase_url = "{second.base_url}"\n'
    )


def run_aside(cli: CliRunner, first: FakeServer, second: FakeServer, *flags: str, more: str = "") -> Finished:
    env = configure(cli, beside(first, second, more))
    return cli.run("-m", "openai/m", "-p", "hi", *flags, env=env)


def test_wait_for_limit_waits_and_sends_the_same_request_again(cli: CliRunner) -> None:
    with FakeServer("openai", [refused(429, LIMIT, retry_after=1), Turn(text="ok")]) as server:
        done = ask(cli, server, "[network]\nretry_after_max_s = 0\n", "--wait-for-limit=1m", "-o", "stream-json")
        assert server.requests[0] == server.requests[1]
    assert done.code == 0
    (wait,) = [line for line in done.lines if line.get("subtype") == "limit_wait"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", wait["resets_at"])
    assert wait["seconds"] == 1
    assert re.search(rf"{LIMIT}.*; waiting until \d\d:\d\d", done.err)


def test_limit_beyond_the_longest_wait_ends_at_once_and_names_the_time(cli: CliRunner) -> None:
    with FakeServer("openai", [refused(429, LIMIT, retry_after=9_000)]) as server:
        done = ask(cli, server, "", "--wait-for-limit=2h", "-o", "json")
        assert len(server.requests) == 1
    assert done.code == 75
    result = done.result
    assert result["error"]["kind"] == "rate_limit"
    assert result["resets_at"] == result["error"]["resets_at"]
    again = r"limit reached until \d\d:\d\d.* \(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\)"
    assert re.search(
        f"{again}, later than the maximum wait of 2 h 00 min; then run qcode --continue -p TEXT$",
        done.err,
        re.MULTILINE,
    )


def test_short_limit_beyond_the_longest_wait_names_the_time_too(cli: CliRunner) -> None:
    with FakeServer("openai", [refused(429, LIMIT, retry_after=30)]) as server:
        done = ask(cli, server, "[network]\nretry_after_max_s = 1\n", "--wait-for-limit=10s")
    assert done.code == 75
    assert re.search(r"limit reached until .*, later than the maximum wait of 10 s; then run", done.err)


def test_limit_that_must_not_be_retried_does_not_suggest_to_wait(cli: CliRunner) -> None:
    with FakeServer("openai", [refused(429, LIMIT, retry_after=9_000, headers={"x-should-retry": "false"})]) as server:
        done = ask(cli, server, "")
    assert done.code == 75
    assert "and the provider asks not to retry; then run qcode --continue" in done.err


@pytest.mark.parametrize("given", ["", "soon", "0s", "-5m", "2 h"])
def test_wait_for_limit_refuses_an_invalid_duration(given: str, cli: CliRunner) -> None:
    done = cli.run("-p", "hi", f"--wait-for-limit={given}")
    assert (done.code, done.out) == (2, "")
    assert "is not a duration such as 90s, 30m, 2h or 1d" in done.err


def test_wait_for_limit_without_a_value_does_not_consume_the_prompt(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        env = configure(cli, "")
        done = cli.run("-m", "openai/m", "--base-url", server.base_url, "--wait-for-limit", "hi", "-p", env=env)
        assert server.requests[0].messages[-1].text == "hi"
    assert (done.code, done.out) == (0, "ok\n")


def test_fallback_model_of_another_protocol_takes_over(cli: CliRunner) -> None:
    limit = refused(429, LIMIT, retry_after=9_000)
    with FakeServer("openai", [limit]) as first, FakeServer("anthropic", [Turn(text="ok")]) as second:
        done = run_aside(cli, first, second, "-o", "stream-json")
        assert second.complaints == []
        assert second.requests[0].model == "claude-x"
    assert done.code == 0
    assert done.result["result"] == "ok"
    (changed,) = [line for line in done.lines if line.get("subtype") == "model_fallback"]
    assert (changed["from"], changed["to"]) == ("openai/m", "anthropic/claude-x")
    assert changed["error"]["kind"] == "rate_limit"
    assert "This turn continues with anthropic/claude-x." in done.err


def test_fallback_in_the_middle_of_a_turn_runs_no_tool_twice(cli: CliRunner) -> None:
    call = Turn(calls=(Call("shell", '{"command": "echo once >> ran.txt"}'),))
    with (
        FakeServer("openai", [call, refused(529, "Overloaded")]) as first,
        FakeServer("anthropic", [Turn(text="ok")]) as second,
    ):
        done = run_aside(cli, first, second, "--yolo", "--trust")
        assert second.complaints == []
    assert (done.code, done.out) == (0, "ok\n")
    assert (cli.work / "ran.txt").read_text() == "once\n"


def test_text_that_was_shown_is_continued_by_the_fallback_model(cli: CliRunner) -> None:
    half = Turn(text="The first half of it, and", faults=Faults(error_after=2))
    with FakeServer("openai", [half]) as first, FakeServer("anthropic", [Turn(text=" the second.")]) as second:
        done = run_aside(cli, first, second)
        assert second.complaints == []
    assert done.code == 0
    assert done.out.endswith("the second.\n")


@pytest.mark.parametrize(
    "failure", [refused(400, "no such parameter"), refused(401, "bad key"), refused(402, "Insufficient credits")]
)
def test_failure_not_caused_by_the_host_never_falls_back(failure: Turn, cli: CliRunner) -> None:
    with FakeServer("openai", [failure]) as first, FakeServer("anthropic", []) as second:
        done = run_aside(cli, first, second)
        assert second.requests == []
    assert done.code in (1, 41)


def test_empty_account_falls_back_if_that_is_set(cli: CliRunner) -> None:
    failure = refused(402, "Insufficient credits")
    with FakeServer("openai", [failure]) as first, FakeServer("anthropic", [Turn(text="ok")]) as second:
        done = run_aside(cli, first, second, more='fallback_on = ["quota"]')
    assert (done.code, done.out) == (0, "ok\n")


def test_fallback_model_without_a_key_is_skipped_with_a_line(cli: CliRunner) -> None:
    with FakeServer("openai", [refused(529, "Overloaded")]) as server:
        done = ask(cli, server, 'fallback = ["gemini/x"]\n[network]\nmax_retries = 0\n')
    assert done.code == 75
    assert "fallback model gemini/x skipped:" in done.err


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nobody/x", 'fallback model "nobody/x" cannot take over: unknown provider "nobody"; '),
        ("gemini/gemini-2.5-pro", "fallback model gemini/gemini-2.5-pro cannot take over: no key for gemini; "),
        (
            "anthropic/claude-opsu",
            "fallback model anthropic/claude-opsu is not in the catalog; the nearest: anthropic/claude-",
        ),
        ("anthropic/claude-opus-4-5", ""),
    ],
)
def test_fallback_model_that_cannot_take_over_is_reported_at_the_start(name: str, why: str, cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        done = ask(cli, server, f'fallback = ["{name}"]\n')
    assert (done.code, done.out) == (0, "ok\n")
    assert done.err.startswith(f"qcode: {why}") if why else not done.err


def test_fallback_model_of_unknown_price_is_skipped_with_a_budget(cli: CliRunner) -> None:
    price = '[models."openai/m"]\nprice = { input = 1, output = 1 }\n'
    with FakeServer("openai", [refused(529, "Overloaded")]) as first, FakeServer("anthropic", []) as second:
        env = configure(cli, beside(first, second) + price)
        done = cli.run("-m", "openai/m", "-p", "hi", "--max-budget-usd", "1", env=env)
        assert second.requests == []
    assert done.code == 75
    assert "fallback model anthropic/claude-x skipped:" in done.err


def test_project_cannot_set_a_fallback_model(cli: CliRunner) -> None:
    (cli.work / ".qcode").mkdir()
    (cli.work / ".qcode" / CONFIG_NAME).write_text('fallback = ["evil/m"]\n')
    with FakeServer("openai", [Turn(text="ok")]) as server:
        done = ask(cli, server, "", "--trust")
    assert "fallback" in done.err


def test_fallback_flag_takes_models_separated_by_commas(cli: CliRunner) -> None:
    with (
        FakeServer("openai", [refused(529, "Overloaded")]) as first,
        FakeServer("anthropic", [Turn(text="ok")]) as second,
    ):
        config = beside(first, second).split("\n", 1)[1]
        env = configure(cli, config)
        done = cli.run("-m", "openai/m", "-p", "hi", "--fallback-model", "openai/m,anthropic/claude-x", env=env)
    assert (done.code, done.out) == (0, "ok\n")


def test_fallback_that_fails_names_the_limit_that_ends_first(cli: CliRunner) -> None:
    limits = [refused(429, LIMIT, retry_after=wait) for wait in (500, 9_000)]
    with FakeServer("openai", limits[:1]) as first, FakeServer("anthropic", limits[1:]) as second:
        done = run_aside(cli, first, second)
    assert done.code == 75
    assert "anthropic: Rate limit reached (429) (request req_fake); limit of openai/m reached until" in done.err


def test_wait_for_limit_after_a_failed_fallback_waits_for_the_first_model(cli: CliRunner) -> None:
    hosts = [refused(429, LIMIT, retry_after=1), Turn(text="back")]
    with FakeServer("openai", hosts) as first, FakeServer("anthropic", [refused(503, "down")]) as second:
        done = run_aside(cli, first, second, "--wait-for-limit=1m")
    assert (done.code, done.out) == (0, "back\n")
    assert "the limit of openai/m has ended. This turn continues with it." in done.err
