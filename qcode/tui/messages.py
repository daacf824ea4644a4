"""Messages of widgets that load after the first paint. The app names them in its handlers before that.

The messages of all other widgets are classes inside the widget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from qcode.protocol.approvals import Answer


@dataclass
class ApprovalAnswered(Message):
    """A request in the approval panel was answered."""

    call_id: str
    answer: Answer


class SearchClosed(Message):
    """The search of the transcript was closed."""
