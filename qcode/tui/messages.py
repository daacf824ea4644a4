"""Messages of widgets that load after the first paint. The app's handlers refer to them before that.

Other widgets define their messages as inner classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from qcode.protocol.approvals import Decision


class ApprovalDecided(Message):
    """The user decided the question in the approval panel."""

    def __init__(self, approval_id: str, decision: Decision) -> None:
        super().__init__()
        self.approval_id = approval_id
        self.decision = decision


class SearchClosed(Message):
    """The search of the transcript was closed."""


QUESTION_WAITING = "a question is waiting"
"""The note in the title of a screen that covers an open question."""


class QuestionWaiting(Message, bubble=False):
    """A question of the turn was opened below the screen in front, or the last open one was answered or withdrawn."""

    def __init__(self, *, is_waiting: bool) -> None:
        super().__init__()
        self.is_waiting = is_waiting
