"""Cost of storing shown text and messages, as ratios of CPU time measured in one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from qcode.agent.outcomes import AnswerSoFar
from qcode.agent.sessions.partial import PartialReply
from qcode.agent.sessions.store import SessionStore
from qcode.protocol.events import AttemptRecord
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.reply import TextDelta
from qcode.protocol.usage import Usage as TokenUsage
from qcode.safety.redaction import Redactor
from tests.e2e.running import KEY, KEY_VARIABLES, CliRunner
from tests.e2e.terminal import Terminal
from tests.e2e.test_long_run import Usage
from tests.fakes.conversation import open_conversation
from tests.fakes.server import FakeServer
from tests.fakes.turns import Turn
from tests.perf.flood import Flood
from tests.providers.clients import provider_at

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

CHUNKS = 12_500


def seconds(work: Callable[[], Awaitable[None]]) -> float:
    """Return the CPU time of a run in this thread, because the host of `Flood` runs in others."""

    async def timed() -> float:
        started = time.thread_time()
        await work()
        return time.thread_time() - started

    return asyncio.run(timed())


def write_session(work: Path, home: Path, messages: int, model: str = "demo/demo") -> None:
    session = SessionStore(home / "state", work).create(model, work)
    for number in range(messages // 4):
        session.append(user(f"question {number} about the thing"))
        session.append(
            assistant(Text("I look at it now."), ToolCall(f"c{number}", "read", '{"path": "a.py"}')), ATTEMPT
        )
        session.append(Message("user", (ToolResult(f"c{number}", "read", "some lines of a file\n" * 8),)))
        session.append(assistant(Text(f"Answer {number}. " + "It says something about it. " * 6)), ATTEMPT)
    session.close()


def resumed(folder: Path) -> tuple[float, int]:
    """Return the CPU time in seconds and peak memory in MB of a prompt in the session of `folder`."""
    command = [sys.executable, "-m", "qcode", "-c", "-p", "hi", "-m", "demo/demo"]
    environment = {**os.environ, "QCODE_HOME": str(folder / "home")}
    process = subprocess.Popen(
        command, cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


ATTEMPT = (AttemptRecord("first", 8_000, "end_turn", TokenUsage(100, 20)),)


def test_prompt_in_10000_messages_costs_at_most_twice_that_in_100(tmp_path: Path) -> None:
    folders = [tmp_path / f"{messages}" for messages in (100, 10_000)]
    for folder in folders:
        (folder / "work").mkdir(parents=True)
        write_session(folder / "work", folder / "home", int(folder.name))
    # In turns, so that other load of the machine affects both equally.
    rounds = [[resumed(folder) for folder in folders] for _ in range(6)]
    (short, _), (long, memory) = (min(figures) for figures in zip(*rounds, strict=True))
    sys.stdout.write(f"\n100 messages: {short:.2f} s of CPU; 10,000 messages: {long:.2f} s and {memory} MB")
    assert long <= 2 * short
    assert memory <= 90


@dataclass(frozen=True)
class Opened:
    """An app that resumed a session: seconds until its end shows, CPU time of a turn in ns, memory in MB."""

    seconds: float
    turn: float
    memory: int


def is_idle_with(expected: str) -> Callable[[str], bool]:
    return lambda text: expected in text and "Esc to interrupt" not in text


def opened(base: Path, messages: int) -> Opened:
    """Resume a session of so many messages in a new process of the app, twice, and play some turns in it."""
    (base / f"app-{messages}").mkdir()
    cli = CliRunner(base / f"app-{messages}")
    cli.is_warm = False
    write_session(cli.work, cli.home, messages, "openai/test-model")
    environment = {KEY_VARIABLES["openai"]: KEY, "QCODE_HOME": str(cli.home)}
    seconds, last = [], f"Answer {messages // 4 - 1}."
    with FakeServer("openai", lambda asked: Turn(text=f"Reply {len(asked.messages)}.")) as server:
        flags = ("-m", "openai/test-model", "--base-url", server.base_url, "--trust", "-c")
        for number in range(5):
            began = time.monotonic()
            with Terminal(cli, *flags, env=environment) as terminal:
                terminal.wait_for(last)
                seconds.append(time.monotonic() - began)
                if number:
                    continue
                usage = Usage(terminal.pid)
                for turn in range(12):
                    terminal.press(f"more {turn}\r")
                    last = f"Reply {messages + 1 + 2 * turn}."
                    terminal.wait_for(is_idle_with(last))
                    usage.sample()
    return Opened(min(seconds), usage.turns(2, len(usage.cpu)), usage.memory[-1] // 1024)


def test_app_opens_10000_messages_at_their_end_and_appends_to_them(tmp_path: Path) -> None:
    short, long = opened(tmp_path, 100), opened(tmp_path, 10_000)
    sys.stdout.write(f"\n100 messages: {short}\n10,000 messages: {long}\n")
    assert long.seconds - short.seconds < 0.6
    assert long.seconds <= 2.2 * short.seconds
    assert long.turn <= 2 * short.turn
    assert long.memory <= 95


def test_partial_of_a_reply_costs_at_most_three_percent_of_streaming_it(tmp_path: Path) -> None:
    deltas = [TextDelta(0, f"{number * 7919 % 997} and a few words more.\n") for number in range(CHUNKS)]
    redactor = Redactor(["sk-a-key-of-the-user-0123456789", "another-key-of-the-user"])

    async def keep() -> None:
        partial = PartialReply(tmp_path / "partial", lambda: 1, redactor.redact, redactor.partial_secret_length)
        for event in deltas:
            partial.observe(event)
        partial.clear()

    async def stream() -> None:
        """Consume a turn as pipe mode does, from the bytes on."""
        provider = provider_at("openai", host.url)
        conversation = open_conversation(Path(tempfile.mkdtemp(dir=tmp_path)), provider).conversation
        answer, written = AnswerSoFar(), 0
        async for event in conversation.submit("go"):
            answer.observe(event)
            written += 1
        assert written > CHUNKS
        await conversation.close()

    with Flood("openai", CHUNKS) as host:
        # In turns, so that other load of the machine affects both equally.
        pairs = [(seconds(stream), seconds(keep)) for _ in range(6)]
    streaming, keeping = (min(times) for times in zip(*pairs, strict=True))
    sys.stdout.write(f"\n{CHUNKS} chunks: streamed in {streaming:.3f} s, kept in {keeping:.4f} s")
    assert keeping <= 0.03 * streaming
