"""Going back and forth in a conversation: what there is to go back to, and what that would do to files."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, Protocol, TypeAlias

from qcode.values import dataclass

What: TypeAlias = Literal["conversation", "files", "both"]


@dataclass(frozen=True, slots=True)
class OwnMessage:
    """A message of the person that a conversation can be taken back to; `files` are those changed after it.

    `number` names it. `at` is ISO 8601.
    """

    number: int
    text: str
    at: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What would happen to one file. `doubt`: why it is only done where the person says so. `refusal`: why never."""

    path: str
    action: Literal["restore", "create", "delete"]
    doubt: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """A step back or forth, worked out and not done. It holds until anything else happens in the conversation.

    `summary` says what it does, one line. `messages` is how many messages leave the conversation (negative: come back).
    """

    plan_id: int
    summary: str
    files: tuple[FilePlan, ...]
    messages: int

    @property
    def doubtful(self) -> tuple[FilePlan, ...]:
        return tuple(file for file in self.files if file.doubt and not file.refusal)


@dataclass(frozen=True, slots=True)
class RewindReport:
    """What was done. `prompt` is the text of the message that was taken out, for the prompt to hold again.

    `problems` are lines about files that stay as they are.
    """

    text: str
    prompt: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A file that the session changed. `diff` is unified, from before its first change to now; `note` is for people.

    Empty with a note where there is no text to compare.
    """

    path: str
    diff: str
    note: str = ""


class Rewinds(Protocol):
    """Going back and forth. What refuses raises `ValueError` with one line for a person, also while a turn runs."""

    def own_messages(self) -> tuple[OwnMessage, ...]:
        """Return what the conversation can be taken back to, the first one first."""
        ...

    async def plan_undo(self) -> RewindPlan:
        """Plan to take back the last turn, or a compaction that was asked for after it."""
        ...

    async def plan_redo(self) -> RewindPlan: ...

    async def plan_rewind(self, number: int, what: What) -> RewindPlan:
        """Plan to go back to before the message `number`."""
        ...

    async def perform(self, plan: RewindPlan, overwrite: Collection[str] = ()) -> RewindReport:
        """Do what was planned; of the doubtful files only those whose path is in `overwrite`."""
        ...

    async def file_changes(self) -> tuple[FileDiff, ...]:
        """Return what the session changed in files that were not put back."""
        ...
