"""Cost of storing shown text and messages, as ratios of CPU time measured in one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qcode.agent.outcomes import AnswerSoFar
from qcode.agent.sessions.partial import PartialReply
from qcode.agent.sessions.store import SessionStore
from qcode.protocol.events import AttemptRecord
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.reply import TextDelta
from qcode.protocol.usage import Usage
from qcode.safety.redaction import Redactor
from tests.fakes.conversation import open_conversation
from tests.perf.flood import Flood
from tests.providers.clients import provider_at

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

CHUNKS = 12_500


def best_of(runs: int, work: Callable[[], Awaitable[None]]) -> float:
    """Return the least CPU time of several runs in this thread, in seconds; the host of `Flood` has threads."""

    async def timed() -> float:
        started = time.thread_time()
        await work()
        return time.thread_time() - started

    return min(asyncio.run(timed()) for _ in range(runs))


def resumed(base: Path, messages: int) -> tuple[float, int]:
    """Return the least CPU time in seconds and peak memory in MB of a prompt in a session of so many messages."""
    work, home = base / f"work-{messages}", base / f"home-{messages}"
    work.mkdir()
    session = SessionStore(home / "state", work).create("demo/demo", work)
    for number in range(messages // 4):
        session.append(user(f"question {number} about the thing"))
        session.append(
            assistant(Text("I look at it now."), ToolCall(f"c{number}", "read", '{"path": "a.py"}')), ATTEMPT
        )
        session.append(Message("user", (ToolResult(f"c{number}", "read", "some lines of a file\n" * 8),)))
        session.append(assistant(Text("It says something about it. " * 6)), ATTEMPT)
    session.close()
    command = [sys.executable, "-m", "qcode", "-c", "-p", "hi", "-m", "demo/demo"]
    figures = []
    for _ in range(4):
        environment = {**os.environ, "QCODE_HOME": str(home)}
        process = subprocess.Popen(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        figures.append((used.ru_utime + used.ru_stime, used.ru_maxrss // 1024))
    return min(figures)


ATTEMPT = (AttemptRecord("first", 8_000, "end_turn", Usage(100, 20)),)


def test_prompt_in_10000_messages_costs_at_most_twice_that_in_100(tmp_path: Path) -> None:
    (short, _), (long, memory) = resumed(tmp_path, 100), resumed(tmp_path, 10_000)
    sys.stdout.write(f"\n100 messages: {short:.2f} s of CPU; 10,000 messages: {long:.2f} s and {memory} MB")
    assert long <= 2.2 * short
    assert memory <= 90


def test_partial_of_a_reply_costs_at_most_three_percent_of_streaming_it(tmp_path: Path) -> None:
    deltas = [TextDelta(0, f"{number * 7919 % 997} and a few words more.\n") for number in range(CHUNKS)]
    redact = Redactor(["sk-a-key-of-the-user-0123456789", "another-key-of-the-user"]).redact

    async def keep() -> None:
        partial = PartialReply(tmp_path / "partial", lambda: 1, redact)
        for event in deltas:
            partial.handle(event)
        partial.clear()

    async def stream() -> None:
        """Consume a turn as pipe mode does, from the bytes on."""
        provider = provider_at("openai", host.url)
        conversation = open_conversation(Path(tempfile.mkdtemp(dir=tmp_path)), provider).conversation
        answer, written = AnswerSoFar(), 0
        async for event in conversation.submit("go"):
            answer.handle(event)
            written += 1
        assert written > CHUNKS
        await conversation.close()

    with Flood("openai", CHUNKS) as host:
        streaming = best_of(4, stream)
    keeping = best_of(6, keep)
    sys.stdout.write(f"\n{CHUNKS} chunks: streamed in {streaming:.3f} s, kept in {keeping:.4f} s")
    assert keeping <= 0.03 * streaming
