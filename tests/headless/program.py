"""Pipe mode as a separate program, for tests that send it signals: `python -m tests.headless.program SCRIPT FORMAT`.

It says `ready` on stderr once the turn waits, and `asked` when it is asked to end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import cast

from qcode.agent.options import OutputFormat
from qcode.headless import interrupts
from qcode.headless.run import run_headless
from qcode.protocol.approvals import NO_OPTIONS, TurnOptions
from qcode.protocol.events import StepStarted, TurnEvent
from qcode.protocol.messages import Block
from qcode.protocol.reply import Limit, TextDelta
from tests.headless.scripted import Scripted, Step, UntilCancelled, agent_of, ended, reply


def steps(script: str) -> tuple[Step, ...]:
    """Return the events of a named script; the wait of a deaf one never hears that it was cancelled."""
    if script == "long":
        return (reply("x" * 1_000_000), ended("x" * 1_000_000))
    return (StepStarted(1), TextDelta(0, "so far"), UntilCancelled("so far", is_deaf=script != "waiting"))


class ScriptWithSignal(Scripted):
    """Tells the test when there is nothing left to play before the wait."""

    async def submit(
        self, prompt: str, attached: tuple[Block, ...] = (), options: TurnOptions = NO_OPTIONS
    ) -> AsyncGenerator[TurnEvent]:
        async for event in super().submit(prompt, attached, options):
            yield event
            if isinstance(event, TextDelta):
                _say("ready")

    def cancel(self, limit: Limit | None = None) -> None:
        super().cancel(limit)
        _say("asked")


def _say(word: str) -> None:
    sys.stderr.write(f"{word}\n")
    sys.stderr.flush()


def main() -> int:
    script, format = sys.argv[1], cast(OutputFormat, sys.argv[2])
    if script == "patient":
        interrupts.GRACE_S = 3600
    conversation = ScriptWithSignal(*steps(script))
    return asyncio.run(
        run_headless(agent_of(conversation, format), "p", stdout=sys.stdout.buffer, stderr=sys.stderr.buffer)
    )


if __name__ == "__main__":
    sys.exit(main())
