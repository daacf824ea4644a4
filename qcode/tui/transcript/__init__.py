"""The transcript widget: everything said and done in a session, as one scrolling column of text.

Read `widget` first (Textual), then `content` (what was said), `column` (where it is), `entries`, `cards` and
`markdown` (how it looks). Only `widget` and `palette` know Textual. Nothing here knows events, models or tools.
"""

from __future__ import annotations

from qcode.tui.transcript.widget import Transcript

__all__ = ["Transcript"]
