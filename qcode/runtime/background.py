"""The running calls that the person may let go on in the background of the session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from qcode.runtime.toolbox import Toolbox
from qcode.tools.refusal import Refused


class Background:
    """The real `protocol.conversation.Background`: knows which calls run that can be moved."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._asked: dict[str, asyncio.Event] = {}

    @property
    def calls(self) -> tuple[str, ...]:
        return tuple(call_id for call_id, asked in self._asked.items() if not asked.is_set())

    def move(self, call_id: str) -> None:
        asked = self._asked.get(call_id)
        if asked is None:
            return
        try:
            self._toolbox.check_room_for_job()
        except Refused as refused:
            text = str(refused)
            raise ValueError(f"{text[:1].upper()}{text[1:]}.") from None
        asked.set()

    @contextmanager
    def running(self, call_id: str, name: str) -> Iterator[asyncio.Event | None]:
        """Give what is set where a call of this tool is to go on; None where it cannot."""
        if not self._toolbox.can_go_on(name):
            yield None
            return
        self._asked[call_id] = asyncio.Event()
        try:
            yield self._asked[call_id]
        finally:
            del self._asked[call_id]
