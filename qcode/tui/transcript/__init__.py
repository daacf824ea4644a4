"""The transcript widget: everything said and done in a session, as one scrolling column of text.

Read `widget` first, then `content` (what was said), `column` (where it is), `entries`, `cards` and `markdown` (how it
looks). Only `widget`, what it is made of (`searching`, `marking`, `pane`) and `palette` know Textual. Nothing here
knows events, models or tools.
"""

from __future__ import annotations

from qcode.tui.transcript.searching import Found
from qcode.tui.transcript.widget import Transcript

__all__ = ["Found", "Transcript"]
