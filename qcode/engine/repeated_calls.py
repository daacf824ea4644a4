"""Notices a model that makes the same call again and again and gets the same result every time. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from qcode.protocol.json import parse_object
from qcode.protocol.messages import ToolCall

MAX_SAME_CALLS = 3


@dataclass(slots=True)
class Repetition:
    """The last call that ran, and how often in a row it ran with the result it had."""

    call: tuple[str, str] | None = None
    result: str = ""
    count: int = 0

    def note(self, call: ToolCall, result: str) -> None:
        """A call ran and gave this result."""
        same = _key(call)
        is_again = same == self.call and result == self.result
        self.call, self.result, self.count = same, result, self.count + 1 if is_again else 1

    def repeats_of(self, call: ToolCall) -> int:
        """Return how often in a row `call` has brought the same, or 0 where that is not yet often."""
        return self.count if self.count >= MAX_SAME_CALLS and _key(call) == self.call else 0

    def forget(self) -> None:
        """Count anew: the person has let the call run again."""
        self.call, self.count = None, 0


def _key(call: ToolCall) -> tuple[str, str]:
    """Return what makes two calls the same, however their arguments are spelled."""
    return call.name, json.dumps(parse_object(call.arguments), sort_keys=True)
