"""Sends requests to the host and receives its answers. It handles the envelope of the protocol, not its requests.

A cancelled request is withdrawn with a `control_cancel_request`. After the end of the input every request fails at
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from qcode.headless.lines import encode
from qcode.text.json import Json, JsonObject

INPUT_CLOSED = "the host closed its input"


class HostError(Exception):
    """The host did not answer a request, or answered with an error. The text is one line."""


class HostWire:
    """The connection to the host. `write_line` writes whole lines, in the order of the calls."""

    def __init__(self, write_line: Callable[[bytes], Awaitable[None]]) -> None:
        self._write_line = write_line
        self._pending_answers: dict[str, asyncio.Future[JsonObject]] = {}
        self._count = 0
        self._is_closed = False
        self._write_tasks: set[asyncio.Task[None]] = set()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def request(self, subtype: str, fields: JsonObject) -> JsonObject:
        """Send a request and return the answer; raise `HostError`. There is no time limit. Cancelling withdraws it."""
        if self._is_closed:
            raise HostError(INPUT_CLOSED)
        self._count += 1
        request_id = f"qcode_{self._count}"
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._pending_answers[request_id] = answer
        request: JsonObject = {"subtype": subtype, **fields}
        try:
            await self.send({"type": "control_request", "request_id": request_id, "request": request})
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled() or not answer.done():  # a cancelled task also cancels the future it awaits
                self.send_soon({"type": "control_cancel_request", "request_id": request_id})
            raise
        finally:
            self._pending_answers.pop(request_id, None)

    def resolve(self, response: Json) -> None:
        """Complete the request that a response answers; ignore a response with an unknown id."""
        if not isinstance(response, dict):
            return
        pending = self._pending_answers.get(str(response.get("request_id")))
        if pending is None or pending.done():
            return
        answer = response.get("response")
        if response.get("subtype") == "success" and (answer is None or isinstance(answer, dict)):
            pending.set_result(answer or {})
            return
        reason = response.get("error")
        pending.set_exception(HostError(reason if isinstance(reason, str) and reason else "the answer was not valid"))

    def cancel(self, request_id: str) -> None:
        """Fail a request that the host will not answer."""
        self.resolve({"request_id": request_id, "subtype": "error", "error": "the host withdrew the request"})

    def close(self) -> None:
        """Fail every open request, because the host sends no more answers."""
        self._is_closed = True
        for pending in self._pending_answers.values():
            if not pending.done():
                pending.set_exception(HostError(INPUT_CLOSED))

    async def send(self, line: JsonObject) -> None:
        await self._write_line(encode(line))

    def send_soon(self, line: JsonObject) -> None:
        """Write a line without waiting for it."""
        task = asyncio.get_running_loop().create_task(self.send(line))
        self._write_tasks.add(task)
        task.add_done_callback(self._after_write)

    async def flush(self) -> None:
        """Wait until the lines of `send_soon` are written."""
        if self._write_tasks:
            await asyncio.wait(self._write_tasks)

    def _after_write(self, task: asyncio.Task[None]) -> None:
        self._write_tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a lost reader is reported by the next write of the turn
