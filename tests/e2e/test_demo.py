"""Every scenario of the demo model, played by the whole program without a key and without a network."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.running import HELLO, CliRunner, Finished
from tests.e2e.terminal import Answering, Terminal

ALLOWED = ("--trust", "--permission-mode", "bypass")


def play(cli: CliRunner, request: str, *flags: str) -> Finished:
    return cli.run("-m", "demo/demo", "-p", request, "-o", "stream-json", *flags)


def used(done: Finished) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of committed messages, as name and arguments."""
    return [
        (block["name"], block["input"])
        for line in done.lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block["type"] == "tool_use"
    ]


def results(done: Finished) -> list[dict[str, Any]]:
    return [
        block
        for line in done.lines
        if line["type"] == "user"
        for block in line["message"]["content"]
        if block["type"] == "tool_result"
    ]


def of_subtype(done: Finished, subtype: str) -> list[dict[str, Any]]:
    return [line for line in done.lines if line.get("subtype") == subtype]


def test_demo_says_that_it_is_one_and_how_to_add_a_key(cli: CliRunner) -> None:
    done = play(cli, "hello there")
    assert done.code == 0
    assert "demo model" in done.result["result"]
    assert "ANTHROPIC_API_KEY" in done.result["result"]


def test_demo_lists_the_folder(cli: CliRunner) -> None:
    (cli.work / "apple.txt").write_text("x")
    done = play(cli, "list the folder")
    assert [name for name, _ in used(done)] == ["glob"]
    assert "apple.txt" in done.result["result"]


def test_demo_answers_with_the_plan_if_no_user_can_approve_it(cli: CliRunner) -> None:
    done = play(cli, "make a plan", "--permission-mode", "plan")
    assert used(done) == []
    assert "# Write `planned.py`" in done.result["result"]
    assert "Shift+Tab" not in done.result["result"]


def test_demo_reads_a_file(cli: CliRunner) -> None:
    (cli.work / "README.md").write_text("# Apples\n")
    done = play(cli, "read README.md")
    assert used(done) == [("read", {"path": "README.md"})]
    assert "Apples" in results(done)[0]["content"]


def test_demo_edits_a_file(cli: CliRunner) -> None:
    (cli.work / "hello.py").write_text(HELLO)
    done = play(cli, "add a docstring to hello.py", "--trust", "--permission-mode", "accept-edits")
    assert [name for name, _ in used(done)] == ["read", "edit"]
    assert '"""' in (cli.work / "hello.py").read_text()


def test_edit_without_approval_changes_nothing(cli: CliRunner) -> None:
    (cli.work / "hello.py").write_text(HELLO)
    done = play(cli, "add a docstring to hello.py", "--trust")
    assert (cli.work / "hello.py").read_text() == HELLO
    assert [denial["tool_name"] for denial in done.result["permission_denials"]] == ["edit"]


def test_demo_runs_a_shell_command(cli: CliRunner) -> None:
    (cli.work / "apple.txt").write_text("x")
    done = play(cli, "run ls", *ALLOWED)
    assert [name for name, _ in used(done)] == ["shell"]
    assert "apple.txt" in results(done)[0]["content"]


def test_demo_shows_a_failed_tool(cli: CliRunner) -> None:
    done = play(cli, "read a missing file")
    assert [result["is_error"] for result in results(done)] == [True]
    assert done.code == 0
    assert done.result["result"]


def test_demo_shows_thinking(cli: CliRunner) -> None:
    done = play(cli, "think about something", "--include-partial-messages")
    events = [line["event"] for line in done.lines if line["type"] == "stream_event"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert {delta["type"] for delta in deltas} == {"thinking_delta", "text_delta"}
    assert done.result["result"]


def test_long_reply_is_truncated_and_escalated(cli: CliRunner) -> None:
    done = play(cli, "a long reply")
    (retry,) = of_subtype(done, "retry")
    assert (retry["is_continuation"], retry["max_tokens"]) == (False, 64_000)
    assert done.result["api_calls"]["total"] == 2
    assert done.result["discarded_output_tokens"] == 8_000
    sections = [line for line in done.result["result"].splitlines() if line.startswith("## ")]
    assert len(sections) == len(set(sections)) > 50


def test_very_long_reply_is_continued_without_a_seam(cli: CliRunner) -> None:
    done = play(cli, "a very long reply")
    assert done.result["api_calls"] == {
        "total": 3, "initial": 1, "escalations": 1, "continuations": 1, "repairs": 0, "retries": 0,
    }  # fmt: skip
    sections = [line for line in done.result["result"].splitlines() if line.startswith("## ")]
    assert len(sections) == len(set(sections)) > 500
    assert done.code == 0


def test_truncated_write_is_rejected_and_then_split(cli: CliRunner) -> None:
    done = play(cli, "write a huge file", "--trust", "--permission-mode", "accept-edits")
    assert done.code == 0
    first = results(done)[0]
    assert first["is_error"]
    assert "MUST split" in first["content"]
    names = [name for name, _ in used(done)]
    assert names[:2] == ["write", "write"]
    assert "edit" in names[2:]
    assert not any(result["is_error"] for result in results(done)[1:])
    written = next(arguments["path"] for name, arguments in used(done) if "path" in arguments)
    assert (cli.work / written).stat().st_size > 100


@pytest.mark.broad
def test_rate_limit_is_waited_out(cli: CliRunner) -> None:
    done = play(cli, "rate limit")
    (waited,) = of_subtype(done, "api_retry")
    assert waited["delay_ms"] == 3000
    assert done.result["api_calls"]["retries"] == 1
    assert done.code == 0


def test_endless_thinking_ends_in_an_answer(cli: CliRunner) -> None:
    done = play(cli, "overthink it")
    assert done.result["api_calls"]["repairs"] == 1
    assert done.result["result"]


@pytest.mark.broad  # the quick twin is in tests/tui/test_status.py, with a controlled clock
def test_app_counts_down_a_rate_limit(cli: CliRunner) -> None:
    with Terminal(cli, "rate limit", "-m", "demo/demo", columns=100) as terminal:
        terminal.wait_for("retry 1 of 5 in 2 s")
        terminal.wait_for("retry 1 of 5 in 1 s")
        terminal.wait_for(lambda text: "retry 1" not in text and "demo" in text)


def test_app_collapses_thinking(cli: CliRunner) -> None:
    with Terminal(cli, "think about something", "-m", "demo/demo") as terminal:
        terminal.wait_for("∴ thought")


@pytest.mark.broad  # the quick twin is test_truncated_write_is_rejected_and_then_split
def test_app_shows_a_rejected_write_and_its_split(cli: CliRunner) -> None:
    flags = ("-m", "demo/demo", "--trust", "--permission-mode", "accept-edits")
    with Terminal(cli, "write a huge file", *flags, rows=60) as terminal:
        terminal.wait_for("write")
        terminal.wait_for(lambda text: "edit" in text and "Done" in text)


@pytest.mark.broad
def test_app_plans_and_writes_instructions_with_approval(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--trust", rows=50) as terminal:
        terminal.wait_for("/ commands")
        terminal.press("/plan make a plan\r")
        terminal.wait_for("2 Yes, and accept edits")
        assert not (cli.work / "planned.py").exists()
        terminal.wait_for(Answering(terminal, "as planned: planned.py", "a"))
        assert "accept edits · Shift+Tab" in terminal.text
        assert (cli.work / "planned.py").exists()
        terminal.press("/init\r")
        terminal.wait_for("Create AGENTS.md")
        terminal.wait_for(Answering(terminal, "Done: AGENTS.md"))
    assert "- `planned.py`" in (cli.work / "AGENTS.md").read_text()
