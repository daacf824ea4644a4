"""A line to type on, as every screen and panel has it."""

from __future__ import annotations

from textual.reactive import reactive
from textual.widgets import Input


class Field(Input):
    """An `Input` whose cursor stays: a blinking one is a timer that runs while nothing moves."""

    cursor_blink = reactive(False, init=False)
