"""The instruments, compared with the requests that the hosts saw: results, `/cost`, `qcode stats`, logs, telemetry."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from qcode.config.paths import CONFIG_NAME
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from qcode.text.numbers import tokens_text
from tests.e2e.running import KEY, CliRunner
from tests.e2e.terminal import Terminal
from tests.e2e.test_telemetry import Receiver, facts
from tests.fakes.replies import call
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, ReceivedRequest, Turn, refused

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
MAIN, OTHER = "openai/test-model", "anthropic/claude-x"
PRICES = {MAIN: (1, 2), OTHER: (10, 20)}
KINDS = (
    "plain", "tool", "escalated", "continued", "truncated", "refused", "delegated", "broken", "fallback", "malformed",
    "filtered",
)  # fmt: skip
CAUSES: dict[tuple[str, int], str] = {
    ("escalated", 2): "escalations", ("continued", 2): "escalations", ("continued", 3): "continuations",
    ("truncated", 2): "escalations", ("truncated", 3): "continuations", ("truncated", 4): "continuations",
    ("truncated", 5): "continuations", ("refused", 2): "retries", ("inner", 2): "escalations",
    ("broken", 2): "retries", ("fallback", 2): "retries", ("fallback", 3): "retries",
}  # fmt: skip
"""The cause of the n-th request of a turn; all others begin a reply."""


@dataclass(frozen=True)
class Seen:
    """A request as a host saw it, with its cause by the script, and what the host sent."""

    model: str
    turn: int
    cause: str
    cap: int
    sent: Turn

    @property
    def usage(self) -> Usage:
        """The usage that the host reported: none for a refused request, and for a stream that breaks."""
        is_reported = self.sent.refusal is None and self.sent.faults.cut_after is None
        return self.sent.usage or Usage() if is_reported else Usage(0, 0)


@dataclass
class Hosts:
    """Answers by the words of the prompt, `turn 7 escalated`, and keeps what was asked."""

    seen: list[Seen] = field(default_factory=list)
    _counts: Counter[tuple[int, str]] = field(default_factory=Counter)

    def main(self, asked: ReceivedRequest) -> Turn:
        return self._answer(MAIN, asked)

    def other(self, asked: ReceivedRequest) -> Turn:
        return self._answer(OTHER, asked)

    def _answer(self, model: str, asked: ReceivedRequest) -> Turn:
        texts = (message.text for message in reversed(asked.messages) if message.role == "user")
        # The prompt of a turn without a stored reply is sent in one message with the next one.
        found = next(matches[-1] for text in texts if (matches := re.findall(r"turn (\d+) (\w+)", text)))
        turn, kind = int(found[0]), found[1]
        self._counts[turn, kind] += 1
        count = self._counts[turn, kind]
        sent = Turn(text="From the other.", usage=Usage(100, 21)) if model == OTHER else reply(kind, count, turn)
        assert asked.cap is not None
        self.seen.append(Seen(model, turn, CAUSES.get((kind, count), "initial"), asked.cap, sent))
        return sent

    def of(self, turn: int) -> list[Seen]:
        return [item for item in self.seen if item.turn == turn]


def reply(kind: str, count: int, turn: int) -> Turn:
    """Return the answer to the n-th request of a turn."""
    match kind, count:
        case "tool", 1:
            return Turn(text="I look.", calls=(call("ls", f"c{turn}", path="."),), usage=Usage(100, 9))
        case (("escalated" | "continued" | "truncated" | "inner"), 1):
            return cut("Some words of it ", 8_000)
        case "escalated", 2:
            return Turn(text="Some words of it and the rest.", usage=Usage(100, 9_000))
        case "continued", 2:
            return cut("Some words of it and some more ", 64_000)
        case "truncated", _:
            return cut(f"Part {count} of it continues here.\n", 64_000)
        case ("refused", 1) | ("fallback", _):
            return refused(529, "Overloaded")
        case "delegated", 1:
            task = {"description": "look", "prompt": f"turn {turn} inner", "kind": "explore"}
            return Turn(calls=(call("agent", f"c{turn}", **task),), usage=Usage(100, 12))
        case "broken", 1:
            pieces = ("Some words ", "that are shown ", "and more")
            return Turn(text=pieces, usage=Usage(100, 5), faults=Faults(cut_after=3))
        case "malformed", 1:
            return Turn(text="I try.", calls=(Call("ls", '{"path": oops}', f"c{turn}"),), usage=Usage(100, 13))
        case "filtered", _:  # nothing of this reply is committed
            return Turn(stop=StopReason.REFUSAL, usage=Usage(100, 6))
    return Turn(text=f"Done {turn}.", usage=Usage(100, 7))


def cut(text: str, output: int) -> Turn:
    return Turn(text=text, stop=StopReason.MAX_TOKENS, usage=Usage(100, output))


class Run:
    """Two hosts and a configuration that falls back from the first to the second."""

    def __init__(self, cli: CliRunner, main: FakeServer, other: FakeServer, url: str) -> None:
        self._cli = cli
        price = "".join(
            f'[models."{model}"]\nprice = {{ input = {into}, output = {out} }}\n'
            for model, (into, out) in PRICES.items()
        )
        (cli.home / CONFIG_NAME).write_text(
            f'model = "{MAIN}"\nfallback = ["{OTHER}"]\n[network]\nmax_retries = 1\n{price}'
            f'[providers.openai]\nbase_url = "{main.base_url}"\n[providers.anthropic]\nbase_url = "{other.base_url}"\n'
        )
        keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
        self.env = {"QCODE_HOME": str(cli.home), **keys}
        self.telemetry = {"OTEL_EXPORTER_OTLP_ENDPOINT": url}
        self.log = cli.home / "debug.jsonl"

    def talk(self, prompts: Sequence[str]) -> list[dict[str, Any]]:
        """Send the prompts to one process; return the result of each."""
        flags = ("-p", "--input-format", "stream-json", "-o", "stream-json", "--yolo", "--trust")
        command = self._cli.command(*flags, "--debug-log", str(self.log))
        environment = self._cli.environment({**self.env, **self.telemetry})
        results = []
        with subprocess.Popen(
            command, cwd=self._cli.work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for prompt in prompts:
                line = {"type": "user", "message": {"role": "user", "content": prompt}}
                process.stdin.write(json.dumps(line).encode() + b"\n")
                process.stdin.flush()
                while (line := json.loads(process.stdout.readline()))["type"] != "result":
                    pass
                results.append(line)
            process.stdin.close()
        return results

    def one_shot(self, prompt: str) -> dict[str, Any]:
        flags = ("-p", prompt, "-o", "json", "--yolo", "--trust", "--debug-log", str(self.log))
        found: dict[str, Any] = json.loads(self._cli.run(*flags, env={**self.env, **self.telemetry}).out)
        return found

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._cli.run("stats", "--json", env=self.env).out)
        return found

    def cost(self) -> str:
        """Return what `/cost` of the app shows after the last session was resumed."""
        with Terminal(self._cli, "--trust", "-c", env=self.env, columns=120, rows=40) as terminal:
            terminal.wait_for("test-model")
            terminal.press("/cost\r")
            return terminal.wait_for(lambda text: bool(re.search(r"API calls +\d", text)))


@contextmanager
def hosts(cli: CliRunner) -> Iterator[tuple[Hosts, Run, Receiver]]:
    known, receiver = Hosts(), Receiver()
    try:
        with FakeServer("openai", known.main) as main, FakeServer("anthropic", known.other) as other:
            yield known, Run(cli, main, other, receiver.url), receiver
            assert main.complaints == other.complaints == []
    finally:
        receiver.close()


def check_turn(result: dict[str, Any], seen: Sequence[Seen]) -> None:
    """Compare the result of a turn with its requests."""
    assert {cause: count for cause, count in result["api_calls"].items() if count and cause != "total"} == Counter(
        item.cause for item in seen
    )
    assert result["api_calls"]["total"] == len(seen)
    used = result["usage"]
    assert (used["input_tokens"], used["output_tokens"]) == tokens(seen)
    for model in PRICES:
        by_model = result["modelUsage"].get(model, {"inputTokens": 0, "outputTokens": 0})
        assert (by_model["inputTokens"], by_model["outputTokens"]) == tokens(seen, model)
    is_priced = not any(item.sent.faults.cut_after for item in seen)
    assert result["total_cost_usd"] == (pytest.approx(money(seen)) if is_priced else None)


def tokens(seen: Sequence[Seen], model: str = "") -> tuple[int, int]:
    used = [item.usage for item in seen if model in ("", item.model)]
    return sum(item.input or 0 for item in used), sum(item.output or 0 for item in used)


def money(seen: Sequence[Seen]) -> float:
    return sum(
        (tokens(seen, model)[0] * into + tokens(seen, model)[1] * out) / 1e6 for model, (into, out) in PRICES.items()
    )


def check_stats(found: dict[str, Any], seen: Sequence[Seen], turns: int) -> None:
    total, causes = found["total"], Counter(item.cause for item in seen)
    assert (total["turns"], total["requests"]) == (turns, len(seen))
    assert (total["input_tokens"], total["output_tokens"]) == tokens(seen)
    assert {cause: total[cause] for cause in ("escalations", "continuations", "retries")} == {
        cause: causes[cause] for cause in ("escalations", "continuations", "retries")
    }
    assert total["cost_usd"] == pytest.approx(money(seen))
    assert total["requests_without_price"] == sum(item.sent.faults.cut_after is not None for item in seen)
    by_model = {row["model"]: (row["requests"], row["output_tokens"]) for row in found["by_day_and_model"]}
    assert by_model == {
        model: (len([item for item in seen if item.model == model]), tokens(seen, model)[1])
        for model in {item.model for item in seen}
    }


def check_log(path: Path, seen: Sequence[Seen], metrics: dict[str, Any]) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    requests = [(f"{row['request']}/{row['model']}", row["max_tokens"]) for row in rows if "request" in row]
    assert requests == [(item.model, item.cap) for item in seen]
    assert [row["metrics"] for row in rows if "metrics" in row][-1] == metrics


def check_telemetry(receiver: Receiver, seen: Sequence[Seen]) -> None:
    chats = [facts(span) for span in receiver.spans if span.name.startswith("chat ")]
    names = {"initial": "first", "escalations": "escalation", "continuations": "continuation", "retries": "retry"}
    assert Counter(chat["qcode.attempt.kind"] for chat in chats) == Counter(names[item.cause] for item in seen)
    assert sum(chat["gen_ai.request.max_tokens"] for chat in chats) == sum(item.cap for item in seen)
    reported = tuple(sum(chat.get(f"gen_ai.usage.{kind}_tokens", 0) for chat in chats) for kind in ("input", "output"))
    assert reported == tokens(seen)


def check_metrics(metrics: dict[str, Any], seen: Sequence[Seen], turns: Sequence[int]) -> None:
    continued = Counter(item.turn for item in seen if item.cause == "continuations")
    assert sum(metrics["continuations"].values()) == continued.total()
    assert metrics["continuation_attempts"] == Counter(str(continued[turn]) for turn in turns)
    recovered = {item.turn for item in seen if item.cause in ("escalations", "continuations")}
    assert sum(metrics["recovered_turn_seconds"].values()) == len(recovered)
    assert metrics["reserved_output_tokens"] == sum(item.cap for item in seen)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("turns", [len(KINDS), pytest.param(200, marks=pytest.mark.broad)])
def test_instruments_of_a_conversation_agree_with_the_requests_of_the_hosts(turns: int, cli: CliRunner) -> None:
    with hosts(cli) as (known, run, receiver):
        results = run.talk([f"turn {turn} {KINDS[turn % len(KINDS)]}" for turn in range(turns)])
        for turn, result in enumerate(results):
            check_turn(result, known.of(turn))
        check_metrics(results[-1]["metrics"], known.seen, range(turns))
        check_stats(run.stats(), known.seen, turns)
        check_log(run.log, known.seen, results[-1]["metrics"])
        check_telemetry(receiver, known.seen)
        cost = run.cost()
    causes = Counter(item.cause for item in known.seen)
    repeats = f"{causes['escalations']} retries with a higher output limit"
    parts = f"{causes['initial']} first attempts, {repeats}, {causes['continuations']} continuations"
    assert f"API calls   {len(known.seen)} ({parts}, {causes['retries']} retries)" in " ".join(cost.split("\n "))
    for model in PRICES:
        sent, received = map(tokens_text, tokens(known.seen, model))
        assert re.search(rf"{model} +{sent} in, {received} out", cost)


@pytest.mark.broad
def test_instruments_of_one_shots_agree_with_the_requests_of_the_hosts(cli: CliRunner) -> None:
    with hosts(cli) as (known, run, _):
        for turn, kind in enumerate(KINDS):
            result = run.one_shot(f"turn {turn} {kind}")
            check_turn(result, known.of(turn))
            check_metrics(result["metrics"], known.of(turn), [turn])
        check_stats(run.stats(), known.seen, len(KINDS))
        check_log(run.log, known.seen, result["metrics"])
