"""Calls as text, for models without calls of their own; used only where a model is marked `text_tool_calls`.

`provider` wraps any provider: tools become instructions, calls and results in the history become text, and calls in
the text of a reply become calls. All but that wrapper is pure. Nothing that a model wrote is ever lost: what is no
call of a known tool stays text. Read `text_filter` next, then `forms`.
"""

from __future__ import annotations

from qcode.providers.text_calls.events import CallEvents, as_event_stream
from qcode.providers.text_calls.history import as_text_history
from qcode.providers.text_calls.instructions import instructions
from qcode.providers.text_calls.provider import TextCallProvider
from qcode.providers.text_calls.reading import WrittenCall
from qcode.providers.text_calls.text_filter import Piece, Rejected, Taken, TextCalls, Visible

__all__ = [
    "CallEvents",
    "Piece",
    "Rejected",
    "Taken",
    "TextCallProvider",
    "TextCalls",
    "Visible",
    "WrittenCall",
    "as_event_stream",
    "as_text_history",
    "instructions",
]
