"""The queue of prompts that were sent during a turn, and the attachments of the next prompt, one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from qcode.protocol.approvals import NO_OPTIONS, TurnOptions
from qcode.tui.transcript.line import shorten
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.protocol.messages import Block

_MAX_ROWS = 5
"""The maximum number of rows for the prompts, and for the attachments."""
_REMOVE_HINT = " · Backspace removes"
_WIDTH_BEFORE_MOUNT = 80


@dataclass(frozen=True, slots=True)
class Submission:
    """A sent prompt. With options it runs as a separate turn after the current one, instead of steering that turn."""

    text: str
    """The text with pastes expanded."""
    typed_text: str
    """The text as it was on the screen, with labels."""
    attached: tuple[Block, ...] = ()
    options: TurnOptions = NO_OPTIONS

    @property
    def is_steering(self) -> bool:
        return self.options == NO_OPTIONS


class Queue(Static):
    """The queued prompts in the order they were sent, and the attachments of the next prompt; hidden while empty."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._submissions: list[Submission] = []
        self._attachments: tuple[str, ...] = ()
        self.on_change: Callable[[], None] = lambda: None
        """Called after each change of the prompts or the attachments."""
        self.display = False

    @property
    def typed_texts(self) -> tuple[str, ...]:
        return tuple(item.typed_text for item in self._submissions)

    @property
    def last(self) -> Submission | None:
        return self._submissions[-1] if self._submissions else None

    def add(self, submission: Submission) -> None:
        self._submissions.append(submission)
        self._changed()

    def show_attachments(self, lines: Sequence[str]) -> None:
        """Show the attachments of the next prompt, one line each."""
        self._attachments = tuple(lines)
        self._changed()

    def drop_last(self) -> None:
        self._submissions.pop()
        self._changed()

    def remove_steering(self, text: str) -> Submission | None:
        """Remove and return the first steering prompt with this text, which the turn now has; None without one."""
        submission = next(
            (submission for submission in self._submissions if submission.is_steering and submission.text == text), None
        )
        if submission is not None:
            self._submissions.remove(submission)
            self._changed()
        return submission

    def take_next(self) -> Submission | None:
        """Remove and return the next prompt: steering prompts are joined into one, others are sent one by one."""
        if not self._submissions:
            return None
        steering = list(takewhile(lambda submission: submission.is_steering, self._submissions))
        next_prompts = steering or self._submissions[:1]
        self._submissions = self._submissions[len(next_prompts) :]
        self._changed()
        return _joined(next_prompts)

    def take_all(self) -> tuple[Submission, ...]:
        """Empty the queue and return its content."""
        prompts = tuple(self._submissions)
        self._submissions = []
        self._changed()
        return prompts

    def on_resize(self) -> None:
        self._paint()

    def _changed(self) -> None:
        self.on_change()
        self._paint()

    def _paint(self) -> None:
        self.display = bool(self._submissions or self._attachments)
        width = (self.size.width or _WIDTH_BEFORE_MOUNT) - 2  # without the margins
        prompt_width = max(20, width - len("queued: "))
        hidden_prompts = _hidden_count(self._submissions)
        rows = [f"… {hidden_prompts} more queued"] if hidden_prompts else []
        rows += [f"queued: {shorten(text, prompt_width)}" for text in self.typed_texts[hidden_prompts:]]
        hidden_attachments = _hidden_count(self._attachments)
        rows += [f"… {hidden_attachments} more attached"] if hidden_attachments else []
        line_width = max(10, width - len("+ "))
        rows += [f"+ {shorten(line, line_width)}" for line in self._attachments[hidden_attachments:]]
        # The end of a line is the state of a command, which matters more than the hint.
        if self._attachments and cell_len(rows[-1]) + len(_REMOVE_HINT) <= line_width + len("+ "):
            rows[-1] += _REMOVE_HINT
        self.update(Content("\n").join(Content.styled(row, "$muted") for row in rows))


def _hidden_count(items: Sequence[object]) -> int:
    """Return the number of items that are hidden if `_MAX_ROWS` are shown, one of them with this number."""
    return len(items) - _MAX_ROWS + 1 if len(items) > _MAX_ROWS else 0


def _joined(submissions: list[Submission]) -> Submission:
    if len(submissions) == 1:
        return submissions[0]
    return Submission(
        "\n\n".join(submission.text for submission in submissions),
        "\n\n".join(submission.typed_text for submission in submissions),
        tuple(block for submission in submissions for block in submission.attached),
    )
