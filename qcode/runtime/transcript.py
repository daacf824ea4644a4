"""What was said in the open session: its messages as they are sent, and where each is in the session's file.

The file is the session's; here is only the order that a turn, a compaction or a rewind leaves behind.
"""

from __future__ import annotations

from qcode.engine.effects import Append, Compact
from qcode.protocol.events import ToolFinished
from qcode.protocol.messages import Message, ToolResult
from qcode.runtime.store.session import Session


class SessionTranscript:
    """The messages of one session. `known` are those of a session whose file does not have them."""

    def __init__(self, session: Session, known: tuple[Message, ...] = ()) -> None:
        self.session = session
        self._messages: list[Message] = []
        self._numbers: list[tuple[int, ...]] = []
        self.read_again()
        if not self._messages:
            self._messages, self._numbers = list(known), [()] * len(known)

    @property
    def messages(self) -> list[Message]:
        """The messages of now; the list is replaced, or grows, with what comes next."""
        return self._messages

    def read_again(self) -> None:
        """Hold what the session consists of at the point where it is now."""
        entries = self.session.entries()
        self._messages = [entry.message for entry in entries]
        self._numbers = [entry.numbers for entry in entries]

    def append(self, effect: Append, *, is_own: bool) -> None:
        """Store and hold a message; `is_own`: the person typed it."""
        number = self.session.append(effect.message, effect.attempts, effect.mark, is_own=is_own)
        self._messages.append(effect.message)
        self._numbers.append((number,))

    def compact(self, effect: Compact) -> None:
        """Go on with the parts of a compaction: messages by their place, or new ones."""
        parts = [self._numbers[part] if isinstance(part, int) else part for part in effect.parts]
        self._numbers = self.session.compact(parts)
        self._messages = [self._messages[part] if isinstance(part, int) else part for part in effect.parts]

    def keep_result(self, finished: ToolFinished) -> None:
        """Have the result of a call on the disk while other calls of its step are still to run."""
        call, outcome = finished.call, finished.outcome
        result = ToolResult(call.call_id, call.name, outcome.content, outcome.is_error, outcome.images)
        self.session.record_result(result)
