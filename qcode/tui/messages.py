"""Messages of widgets that load after the first paint. The app's handlers refer to them before that.

Other widgets define their messages as inner classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from qcode.protocol.approvals import Decision


@dataclass
class ApprovalDecided(Message):
    """The user decided the question in the approval panel."""

    approval_id: str
    decision: Decision


class SearchClosed(Message):
    """The search of the transcript was closed."""
