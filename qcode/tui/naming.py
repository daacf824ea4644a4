"""The name of the session outside the screen: shown as it is, and made by the small model where one is due."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from qcode.protocol.conversation import Conversation
from qcode.protocol.usage import Usage


class SessionName:
    """`show` is told the name whenever it may have changed; `count` what making one used."""

    def __init__(
        self,
        conversation: Conversation,
        show: Callable[[str], None],
        count: Callable[[Usage, Decimal | None], None],
    ) -> None:
        self._conversation = conversation
        self._show = show
        self._count = count

    def refresh(self) -> None:
        self._show(self._conversation.library.title)

    async def make(self) -> None:
        """Have a name made where one is due, beside whatever else goes on."""
        self.refresh()
        used = await self._conversation.library.make_title()
        if used is not None:
            self._count(used.usage, used.cost)
            self.refresh()
