"""qcode is killed (SIGKILL) in the middle of its work: the text survives and the history is valid."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any, TypeGuard

import pytest

from qcode.protocol.messages import Block, Message, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.e2e.running import KEY, KEY_VARIABLES, PROTOCOLS, CliRunner
from tests.e2e.terminal import Answering, Terminal
from tests.fakes.replies import call
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Faults, ReceivedRequest, Turn

SHOWN = "The first half of the answer "
PATIENCE_S = 60.0


def stalling(asked: ReceivedRequest) -> Turn:
    """Stop in the middle of the reply to `ask`; answer everything else."""
    if any("finish it" in message.text for message in asked.messages):
        return Turn(text="The second half.")
    return Turn(text=(SHOWN, "and what never arrives"), faults=Faults(stall_after=_events_before_stall(asked)))


def _events_before_stall(asked: ReceivedRequest) -> int:
    if "GenerateContent" in asked.path:
        return 1
    return 4 if "/messages" in asked.path else 2


def wait_for_partial(cli: CliRunner, expected: str) -> None:
    """Block until the file of the reply under way holds `expected`: the moment from which a kill must not lose it."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(expected.strip() in path.read_text() for path in cli.home.rglob("*.partial")):
        assert time.monotonic() < deadline, "the shown text was not written"
        time.sleep(0.01)


def flags_of(server: FakeServer, protocol: ProtocolName) -> tuple[str, ...]:
    return ("-m", f"{protocol}/test-model", "--base-url", server.base_url)


def check_resumed(cli: CliRunner, server: FakeServer, protocol: ProtocolName) -> None:
    """Continue the killed session: its shown text is in the history, which a strict host accepts."""
    done = cli.ask(server, "-c", "-p", "finish it")
    assert (done.code, done.out) == (0, "The second half.\n"), done.err
    assert "qcode ended while the last reply was written; the text so far is kept." in done.err
    assert server.complaints == []
    assert [message.role for message in server.requests[-1].messages] == ["user", "assistant", "user"]
    assert server.requests[-1].messages[1].text == SHOWN
    assert list(cli.home.rglob("*.partial")) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reply_of_a_killed_pipe_is_in_the_resumed_history(protocol: ProtocolName, cli: CliRunner) -> None:
    with FakeServer(protocol, stalling) as server:
        environment = cli.environment({KEY_VARIABLES[protocol]: KEY})
        command = cli.command(*flags_of(server, protocol), "-p", "ask")
        process = subprocess.Popen(command, cwd=cli.work, env=environment, stdin=subprocess.DEVNULL)
        wait_for_partial(cli, SHOWN)
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        check_resumed(cli, server, protocol)


def test_draft_of_a_killed_app_is_in_the_prompt_of_the_next_one(cli: CliRunner) -> None:
    def drafts() -> list[str]:
        return [path.read_text() for path in cli.home.rglob("drafts/*.json")]

    with Terminal(cli, "-m", "demo/demo", "--trust") as terminal:
        terminal.wait_for("demo/demo")
        terminal.press("\x1b[200~line one\nline two\x1b[201~ and more")
        terminal.wait_for(lambda _: any("and more" in draft for draft in drafts()))
        terminal.send_signal(signal.SIGKILL)
    with Terminal(cli, "-m", "demo/demo", "--trust") as terminal:
        screen_text = terminal.wait_for("line two and more")
        assert "line one" in screen_text
        assert "Restored the prompt that was not sent" in screen_text
        terminal.press("\x15\x15\x15")
        terminal.wait_for(lambda _: not drafts())


def test_reply_of_a_killed_app_is_on_screen_after_resume(cli: CliRunner) -> None:
    with FakeServer("openai", stalling) as server:
        flags = (*flags_of(server, "openai"), "--trust")
        environment = {KEY_VARIABLES["openai"]: KEY}
        with Terminal(cli, *flags, env=environment) as terminal:
            terminal.wait_for("test-model")
            terminal.press("ask\r")
            terminal.wait_for(SHOWN.strip())
            wait_for_partial(cli, SHOWN)
            terminal.send_signal(signal.SIGKILL)
            terminal.wait_for_end()
        with Terminal(cli, *flags, "-c", env=environment) as terminal:
            terminal.wait_for(SHOWN.strip())
            terminal.wait_for("the text so far is kept")
            terminal.press("finish it\r")
            terminal.wait_for("The second half.")
            terminal.press("\x04")
            assert terminal.wait_for_end() == 0
        assert server.complaints == []
        assert server.requests[-1].messages[1].text == SHOWN


SEEDS = [seed if seed < 3 else pytest.param(seed, marks=pytest.mark.broad) for seed in range(100)]
"""With both ways 200 kills at random moments; a few of them in every run of the suite."""
LONGEST_RUN_S = 3.0
WORDS = 30


def words(letter: str) -> tuple[str, ...]:
    return tuple(f"{letter}{number} " for number in range(WORDS))


def working(asked: ReceivedRequest) -> Turn:
    """Play a turn with text, two commands, and a reply that is cut and escalated; answer `finish it` at once."""
    if any("finish it" in message.text for message in asked.messages):
        return Turn(text="Fine.")
    pace, done = Faults(pace=0.012), len(asked.results)
    if done == 0:
        return Turn(text=words("A"), calls=(call("shell", "call_1", command="echo one >> log"),), faults=pace)
    if done == 1 and (asked.cap or 0) <= 8_000:
        return Turn(text=words("B"), stop=StopReason.MAX_TOKENS, usage=Usage(input=10, output=8_000), faults=pace)
    if done == 1:
        return Turn(text=words("C"), calls=(call("shell", "call_2", command="echo two >> log"),), faults=pace)
    return Turn(text=words("D"), faults=pace)


class Shown:
    """The output of a killed pipe: each line with the time at which it arrived."""

    def __init__(self, killed_at: float, lines: list[tuple[float, dict[str, Any]]]) -> None:
        self.messages: list[str] = []
        self.results: list[tuple[str, str]] = []
        self.live = self.superseded = ""
        for at, line in lines:
            match line["type"]:
                case "assistant":
                    self.messages += [item["text"] for item in line["message"]["content"] if item["type"] == "text"]
                    self.live = self.superseded = ""
                case "user":
                    found = [item for item in line["message"]["content"] if item["type"] == "tool_result"]
                    self.results += [(item["tool_use_id"], item["content"]) for item in found]
                case "stream_event" if at <= killed_at - 0.5:
                    self.live += line["event"].get("delta", {}).get("text", "")
                case "system" if line["subtype"] == "retry":
                    self.live, self.superseded = "", self.live

    def check(self, history: Sequence[Message]) -> None:
        """Check that the resumed history holds all that was acknowledged, and all text older than half a second."""
        message_text = [message.text for message in history if message.role == "assistant"]
        results = {
            (block.call_id, block.content) for message in history for block in message.blocks if is_result(block)
        }
        assert [text for text in self.messages if text not in message_text] == []
        assert [result for result in self.results if result not in results] == []
        if self.live or self.superseded:
            expected = [self.live] if len(self.live) > len(self.superseded) else [self.live, self.superseded]
            assert any(message_text[-1].startswith(text.rstrip()) for text in expected if text.strip()), (
                expected,
                message_text,
            )


def is_result(block: Block) -> TypeGuard[ToolResult]:
    return isinstance(block, ToolResult)


def kill_pipe(cli: CliRunner, server: FakeServer, delay: float) -> Shown:
    """Start a turn in pipe mode and kill it after `delay` seconds."""
    flags = ("-p", "ask", "--yolo", "-o", "stream-json", "--include-partial-messages", "--trust")
    process = subprocess.Popen(
        cli.command(*flags_of(server, "openai"), *flags),
        cwd=cli.work,
        env=cli.environment({KEY_VARIABLES["openai"]: KEY}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    lines: list[tuple[float, dict[str, Any]]] = []
    killed_at = 0.0

    def kill() -> None:
        nonlocal killed_at
        killed_at = time.monotonic()
        process.kill()

    ending = threading.Timer(delay, kill)
    ending.start()
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith(b"\n"):
                lines.append((time.monotonic(), json.loads(line)))
    ending.cancel()
    ending.join()
    return Shown(killed_at or time.monotonic(), lines)


def check_place(cli: CliRunner, server: FakeServer) -> Sequence[Message]:
    """Continue after a kill: nothing is half-written or run twice, and a strict host accepts the history."""
    done = cli.ask(server, "-c", "-p", "finish it", "--trust")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert "skipped" not in done.err
    assert server.complaints == []
    log = cli.work / "log"
    runs = log.read_text().split() if log.exists() else []
    assert runs in ([], ["one"], ["one", "two"])
    for file in cli.home.rglob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            assert isinstance(json.loads(line), dict)
    assert [path for path in cli.home.rglob("*.partial") if path.stat().st_size] == []
    return server.requests[-1].messages


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_pipe_killed_at_a_random_moment_loses_nothing_that_was_shown(seed: int, cli: CliRunner) -> None:
    with FakeServer("openai", working) as server:
        shown_text = kill_pipe(cli, server, random.Random(seed).uniform(0.1, LONGEST_RUN_S))
        shown_text.check(check_place(cli, server))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_app_killed_at_a_random_moment_loses_nothing_that_was_shown(seed: int, cli: CliRunner) -> None:
    chance = random.Random(1_000 + seed)
    flags = ("--trust", *(("--yolo",) if seed % 2 else ()))
    seen: dict[str, float] = {}
    with FakeServer("openai", working) as server:
        with Terminal(cli, *flags_of(server, "openai"), *flags, env={KEY_VARIABLES["openai"]: KEY}) as terminal:
            terminal.wait_for("test-model")
            terminal.press("ask\r")
            answering = Answering(terminal, "D29")
            end = time.monotonic() + chance.uniform(0.1, LONGEST_RUN_S + 2 * (1 - seed % 2))

            def is_time(text: str) -> bool:
                for word in re.findall(r"\b[ACD]\d+\b", text):
                    seen.setdefault(word, time.monotonic())
                answering(text)
                return time.monotonic() >= end

            terminal.wait_for(is_time)
            killed_at = time.monotonic()
            terminal.send_signal(signal.SIGKILL)
            terminal.wait_for_end()
        history = check_place(cli, server)
        message_text = " ".join(message.text for message in history if message.role == "assistant").split()
        shown_words = [word for word, at in seen.items() if at < killed_at - 0.5]
        if "B0" in message_text:  # the truncated attempt is kept until the escalated one has ended
            shown_words = [word for word in shown_words if not word.startswith("C")]
        assert [word for word in shown_words if word not in message_text] == []


def test_partial_file_is_private(cli: CliRunner) -> None:
    with FakeServer("openai", stalling) as server:
        environment = cli.environment({KEY_VARIABLES["openai"]: KEY})
        command = cli.command(*flags_of(server, "openai"), "-p", "ask")
        process = subprocess.Popen(command, cwd=cli.work, env=environment, stdin=subprocess.DEVNULL)
        wait_for_partial(cli, SHOWN)
        (found,) = cli.home.rglob("*.partial")
        assert found.stat().st_mode & 0o777 == 0o600
        assert found.parent.stat().st_mode & 0o777 == 0o700
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        assert list(cli.home.rglob("*.partial")) == [], "the interrupted reply is in the session now"
