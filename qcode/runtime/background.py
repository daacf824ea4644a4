"""The running calls that the person may let go on in the background of the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from qcode.protocol.tools import ToolOutcome
from qcode.runtime.judged import Judged
from qcode.runtime.toolbox import Toolbox
from qcode.tools.refusal import Refused


class Background:
    """The real `protocol.conversation.Background`: runs calls and knows which of them can be moved."""

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

    async def run(self, call_id: str, judged: Judged, output: Callable[[str], None]) -> ToolOutcome:
        """Run a call; it can be moved for as long as this takes."""
        if not self._toolbox.can_go_on(judged.name):
            return await self._toolbox.run(judged.name, judged.arguments, output, judged.level, judged.targets)
        asked = self._asked[call_id] = asyncio.Event()
        try:
            return await self._toolbox.run(
                judged.name, judged.arguments, output, judged.level, judged.targets, goes_on=asked
            )
        finally:
            del self._asked[call_id]
