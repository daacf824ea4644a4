"""Messages of widgets that load after the first paint. The app names them in its handlers before that.

The messages of all other widgets are classes inside the widget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from qcode.protocol.approvals import Decision


@dataclass
class ApprovalDecided(Message):
    """The user decided what the approval panel shows."""

    approval_id: str
    decision: Decision


class SearchClosed(Message):
    """The search of the transcript was closed."""
