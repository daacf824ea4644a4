"""Holds the answer of a turn against what was asked of it, and says what the model is told where it does not fit.

Pure. What is asked is given as a function (a JSON schema, say); how often the model may try is counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.values import dataclass

MAX_TRIES = 3


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why an answer does not do: `reason` in one line for a person, `request` is what the model is sent."""

    reason: str
    request: str


AnswerCheck: TypeAlias = Callable[[str], Complaint | None]
"""Takes a whole, final answer; None where nothing is wrong with it. Pure: the same text, the same complaint."""


class Review:
    """The tries of one turn. `complaint` is what is wrong with the answer that was looked at last."""

    def __init__(self, check: AnswerCheck | None) -> None:
        self.complaint: Complaint | None = None
        self.tries = 0
        self._check = check

    def asks_again(self, answer: str) -> bool:
        """Look at an answer that would end the turn; return whether the model gets another try."""
        if self._check is None:
            return False
        self.tries += 1
        self.complaint = self._check(answer)
        return self.complaint is not None and self.tries < MAX_TRIES

    @property
    def notice(self) -> str:
        reason = self.complaint.reason if self.complaint else ""
        return f"the answer does not do: {reason}; asking again, try {self.tries + 1} of {MAX_TRIES}"

    @property
    def error(self) -> ErrorInfo | None:
        """What the turn ends with where its answer does not do."""
        if self.complaint is None:
            return None
        text = f"no answer did in {MAX_TRIES} tries; the last one: {self.complaint.reason}"
        return ErrorInfo(ErrorKind.STRUCTURED_OUTPUT, text)
