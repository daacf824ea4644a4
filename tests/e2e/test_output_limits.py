"""The table of output limits, every row over real HTTP with the real SDK clients; a few rows through the program."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.driver import Driver
from qcode.protocol.reply import StopReason
from tests.e2e.limits.checks import check_row, messages_to_user
from tests.e2e.limits.invariants import check_invariants
from tests.e2e.limits.play import play
from tests.e2e.limits.row import BIG_CUT, FIRST, P, Row, cut, cut_call, done, stopped, write
from tests.e2e.limits.table import ROWS
from tests.e2e.running import PROTOCOLS, CliRunner, Finished, protocol_of
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import ReceivedRequest, Turn, refused

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
GUIDE = Path(__file__).parents[2] / "docs/guide/output-limits.md"
QUOTED = {
    ("text cut", "continuation 3"),
    ("thinking only", "nudge"),
    ("empty cut", "escalated"),
    ("window without room", "first"),
    ("stop for a full window", "first"),
    ("same write cut again", "fifth step"),
    ("money spent", "continuation 1"),
    ("repeats itself without end", "first"),
    ("damaged events", "twice"),
}
"""Rows that cause each message of the guide."""
WRITES = ("--trust", "--permission-mode", "accept-edits")


def _case(number: int, row: Row, protocol: ProtocolName) -> Any:
    reason = row.skips.get(protocol)
    marks = [pytest.mark.skip(reason=reason)] if reason else []
    possible = [other for other in PROTOCOLS if other not in row.skips]
    if protocol not in row.on and protocol != possible[number % len(possible)]:
        marks.append(pytest.mark.broad)
    return pytest.param(row, protocol, id=f"{row.cause}-{row.phase}-{protocol}".replace(" ", "_"), marks=marks)


@pytest.fixture(scope="module", autouse=True)
def _sdks_are_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pay for loading each SDK before the first row: rows with short time limits are about the host's silence."""
    for protocol in PROTOCOLS:
        play(Row("", "", (done(),), asked=(FIRST,)), protocol, tmp_path_factory.mktemp(protocol))


@pytest.fixture(autouse=True)
def _backoffs_elapse_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a backoff is belongs to the tests of the engine."""
    wait = Driver.pause

    async def at_once(self: Driver, seconds: float) -> None:
        await wait(self, 0)

    monkeypatch.setattr(Driver, "pause", at_once)


CASES = [_case(number, row, protocol) for number, row in enumerate(ROWS) for protocol in PROTOCOLS]
"""Not broad: every row over one protocol, the protocols in turn, and over those where the row differs."""


@pytest.mark.parametrize(("row", "protocol"), CASES)
def test_run_ends_as_its_row_of_the_table_says(row: Row, protocol: ProtocolName, tmp_path: Path) -> None:
    played = play(row.at(protocol), protocol, tmp_path)
    check_row(played)
    check_invariants(played)


def test_table_has_at_least_eighty_pairs_of_cause_and_phase() -> None:
    pairs = [(row.cause, row.phase) for row in ROWS]
    assert len(set(pairs)) == len(pairs)
    assert len(pairs) >= 80


def test_guide_quotes_messages_exactly(tmp_path: Path) -> None:
    quoted = re.findall(r"^\| \*(.+?)\*", GUIDE.read_text("utf-8"), re.MULTILINE)
    replies = []
    for number, row in enumerate(row for row in ROWS if (row.cause, row.phase) in QUOTED):
        base = tmp_path / str(number)
        base.mkdir()
        replies.append(messages_to_user(play(row, "openai", base)))
    assert len(replies) == len(quoted) == len(QUOTED)
    for message in quoted:
        assert any(all(piece.strip() in text for piece in message.split("…")) for text in replies), message


def _ask(cli: CliRunner, protocol: ProtocolName, script: Sequence[Turn], *flags: str) -> tuple[Finished, list[int]]:
    """Run `qcode -p` against a host that plays `script`; return how it ended and the caps it sent."""
    played = iter(script)

    def answer(asked: ReceivedRequest) -> Turn:
        turn = next(played)
        usage = turn.usage
        if usage is not None and usage.output == -1:
            assert asked.cap is not None
            turn = Turn(turn.text, turn.reasoning, turn.calls, turn.stop, type(usage)(usage.input, asked.cap))
        return turn

    with FakeServer(protocol, answer) as server:
        assert protocol_of(server) == protocol
        finished = cli.ask(server, "-p", "go", *flags)
        assert server.complaints == []
        return finished, [asked.cap or 0 for asked in server.requests]


def _subtypes(finished: Finished) -> list[str]:
    shown = ("retry", "partial_restored", "output_escalated", "continuation_attempt", "continuation_terminated")
    return [line["subtype"] for line in finished.lines if line.get("subtype") in shown]


@each_protocol
def test_stream_json_reports_an_escalation_and_a_continuation_once_each(protocol: ProtocolName, cli: CliRunner) -> None:
    script = [cut("lost é"), cut(P[0]), done(P[1])]
    flags = ("-o", "stream-json", "--include-partial-messages")
    finished, caps = _ask(cli, protocol, script, *flags)
    assert (finished.code, caps) == (0, [8_000, 64_000, 64_000])
    assert _subtypes(finished) == [
        "retry", "output_escalated", "retry", "continuation_attempt", "continuation_terminated",
    ]  # fmt: skip
    result = finished.result
    assert result["result"] == P[0] + P[1]
    assert result["api_calls"] == {
        "total": 3, "initial": 1, "escalations": 1, "continuations": 1, "repairs": 0, "retries": 0,
    }  # fmt: skip
    assert result["discarded_output_tokens"] == 8_000
    texts = [block["text"] for line in finished.lines if line["type"] == "assistant" for block in _content(line)]
    assert texts == [P[0] + P[1]]


def _content(line: dict[str, Any]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = line["message"]["content"]
    return content


def test_restored_partial_is_reported_and_is_the_answer(cli: CliRunner) -> None:
    finished, _ = _ask(cli, "openai", [cut(P[0]), refused(400, "no")], "-o", "stream-json")
    assert finished.code == 56
    assert _subtypes(finished) == ["retry", "output_escalated", "partial_restored", "continuation_terminated"]
    assert (finished.result["result"], finished.result["subtype"]) == (P[0], "error_max_tokens")


def test_flag_sets_the_cap_of_every_request(cli: CliRunner) -> None:
    script = [cut(piece) for piece in P[:3]]
    finished, caps = _ask(cli, "anthropic", script, "--max-output-tokens", "700", "--max-continuations", "2")
    assert (finished.code, caps) == (56, [700, 700, 700])
    assert finished.out == "".join(P[:3]) + "\n"
    assert "incomplete after 3 requests (output cap 700 tokens each)" in finished.err


def test_config_file_sets_the_cap_of_one_model(cli: CliRunner) -> None:
    config = cli.home / ".config" / "qcode" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[output]\nmax_tokens = 900\n\n[models."gemini/test-model"]\noutput = { max_tokens = 600 }\n')
    assert _ask(cli, "gemini", [done()])[1] == [600]
    assert _ask(cli, "openai", [done()])[1] == [900]


def test_escalation_can_be_switched_off(cli: CliRunner) -> None:
    finished, caps = _ask(cli, "openai", [cut(P[0]), done(P[1])], "--no-escalation")
    assert (finished.code, caps, finished.out) == (0, [8_000, 8_000], P[0] + P[1] + "\n")


def test_learned_limit_applies_in_the_next_run(cli: CliRunner) -> None:
    refusal = refused(400, "max_tokens must be at most 4096")
    assert _limits_of_two_runs(cli, [refusal, done(), done()]) == [8_000, 4_096, 4_096]


def _limits_of_two_runs(cli: CliRunner, script: Sequence[Turn]) -> list[int]:
    """Run twice against one host: learned limits belong to its address."""
    with FakeServer("openai", list(script)) as server:
        codes = [cli.ask(server, "-p", "go").code for _ in range(2)]
        assert codes == [0, 0]
        return [asked.cap or 0 for asked in server.requests]


def test_repaired_write_is_reported_and_written_once(cli: CliRunner) -> None:
    script = [cut_call("write", BIG_CUT)] * 2 + [write(), done()]
    finished, _ = _ask(cli, "openai", script, "-o", "stream-json", *WRITES)
    assert finished.code == 0
    (repair,) = [line for line in finished.lines if line.get("subtype") == "tool_payload_repair"]
    assert (repair["issue"], repair["attempted"], repair["succeeded"]) == ("cut_arguments", True, False)
    assert (cli.work / "big.py").read_text() == "line one\nline two\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([stopped(StopReason.REFUSAL, P[0])], 57),
        ([refused(400, "prompt is too long: 210000 tokens > 200000 maximum")], 42),
        ([refused(429, "tomorrow", retry_after=9_000)], 75),
    ],
    ids=["refused", "window", "busy"],
)
def test_exit_code_follows_the_outcome(script: Sequence[Turn], code: int, cli: CliRunner) -> None:
    finished, _ = _ask(cli, "openai", script, "-o", "json")
    assert finished.code == code
    assert json.loads(finished.out)["is_error"] is True
    assert finished.err.startswith("qcode: ")


def test_error_is_printed_once(cli: CliRunner) -> None:
    finished, _ = _ask(cli, "openai", [cut(), cut()])
    assert finished.err.count("\n") == 1


@pytest.mark.parametrize("format", ["json", "stream-json"])
def test_reason_for_a_call_that_stays_truncated_is_in_errors_and_printed_once(format: str, cli: CliRunner) -> None:
    call = cut_call("shell", '{"command": "ec')
    finished, _ = _ask(cli, "openai", [call, call], "--max-output-tokens", "500", "-o", format)
    reason = (
        "The model's `shell` call was truncated by the output limit 2 times in a row, so qcode stopped the turn. Ask "
        "for smaller steps, or set a higher --max-output-tokens."
    )
    assert finished.code == 56
    assert finished.result["errors"] == [reason]
    assert finished.err == f"qcode: t{reason[1:]}\n"
