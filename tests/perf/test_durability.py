"""Cost of storing shown text and messages, as ratios of CPU time measured in one run."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qcode.agent.outcomes import AnswerSoFar
from qcode.agent.sessions.partial import PartialReply
from qcode.protocol.reply import TextDelta
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
