"""The title of the session, which the terminal shows and the small model writes after a turn."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from qcode.protocol.usage import Usage

if TYPE_CHECKING:
    from qcode.agent.sessions.library import SessionLibrary


class SessionTitle:
    """The title of the session. `show` gets each new title, `add_usage` the usage and cost of writing one."""

    def __init__(
        self,
        sessions: SessionLibrary,
        show: Callable[[str], None],
        add_usage: Callable[[Usage, Decimal | None], None],
    ) -> None:
        self._sessions = sessions
        self.show = show
        self._add_usage = add_usage

    def refresh(self) -> None:
        self.show(self._sessions.title)

    async def write_if_due(self) -> None:
        """Let the small model write a title if one is due."""
        self.refresh()
        request = await self._sessions.make_title()
        if request is not None:
            self._add_usage(request.usage, request.cost)
            self.refresh()
