"""The connection to an editor, without an agent: a client that does not read makes the turns wait."""

from __future__ import annotations

import asyncio
import os

from qcode.acp.wire import MAX_BACKLOG_BYTES, EditorWire, Incoming, MethodResult

_CHUNK = "x" * 64_000


async def _answer(_: Incoming) -> MethodResult | None:
    return MethodResult({})


async def _has_to_wait(messages: int) -> bool:
    """Send messages that the client does not read, then read them; return whether a turn waited in between."""
    input_descriptor, input_end = os.pipe()
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as client:
        with os.fdopen(write_end, "wb", buffering=0) as output:
            wire = EditorWire(input_descriptor, output, _answer, on_lost=lambda: None, describe=repr)
            for _ in range(messages):
                wire.notify("session/update", {"text": _CHUNK})
            waiting = asyncio.ensure_future(wire.wait_until_writable())
            await asyncio.sleep(0)
            has_waited = not waiting.done()
            reading = asyncio.ensure_future(asyncio.to_thread(client.read))
            await waiting
            await wire.drain(10)
            wire.end()
        await reading
    os.close(input_end)
    return has_waited


def test_turn_waits_for_a_client_that_does_not_read() -> None:
    assert asyncio.run(_has_to_wait(2 * MAX_BACKLOG_BYTES // len(_CHUNK)))


def test_turn_does_not_wait_for_a_client_that_is_a_little_behind() -> None:
    assert not asyncio.run(_has_to_wait(2))
