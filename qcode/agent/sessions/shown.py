"""Items that the user saw beside the messages of a session, stored for a replay. Pure values.

Examples: the prompt `/review src` in place of the text that was sent, the diff of a call, a notice, a retry.
"""

from __future__ import annotations

from typing import TypeAlias

from qcode.protocol.events import CallState, Compacted, Notice, OutputEscalated, PartialRestored, Retry, TurnEnded
from qcode.protocol.reply import WebSearched
from qcode.protocol.tools import SandboxUse
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class ShownResult:
    """The display of a call's result."""

    state: CallState
    summary: str = ""
    diff: str = ""
    seconds: float | None = None
    output: str | None = None
    """The text that the user saw; None if it is the content of the result."""
    ran_arguments: str = ""
    """The arguments with which the call ran, as JSON, if the user edited them; otherwise empty."""
    problems: str = ""
    """The problems that an edit caused, shown below its diff."""
    sandbox: SandboxUse = ""
    files_without_diff: tuple[str, ...] = ()
    """The files that a command or a sub-agent changed. Earlier versions of qcode did not store them."""


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """The text shown for a prompt, if it differs from the text sent, such as `/review src`."""

    text: str


def precedes_prompt(text: str, shown: str) -> bool:
    """Return whether a command was shown that only precedes the text sent, as in `/plan fix it` for `fix it`."""
    return shown.startswith("/") and shown.endswith(f" {text}")


def typed_prompt(text: str, shown: str) -> str:
    """Return the command that was shown for a prompt, such as `/init` or `/plan fix it`; otherwise `text`, as sent.

    A shown prompt that is not a command has labels in place of pasted texts. `text` is returned, which contains them.
    """
    is_command = shown.startswith("/")
    if is_command and not text.startswith(shown.split(maxsplit=1)[0]):
        return shown
    return text


_PASTE_LABEL = lazy_pattern(r"\[Pasted text #\d+ [^\[\]\n]{1,200}\]")


def title_prompt(text: str, shown: str) -> str:
    """Return the part of a prompt that can be the title of a session: the typed words without pasted texts.

    Example: `[Pasted text #1 +40 lines] why does it fail?` was shown, so the result is `why does it fail?`. A
    command that precedes the prompt is left out. Without typed words, or without the label of a pasted text, the result
    is that of `typed_prompt`.
    """
    if precedes_prompt(text, shown):
        return text
    words = _PASTE_LABEL.sub(" ", shown).strip()
    return words if words and words != shown.strip() else typed_prompt(text, shown)


@dataclass(frozen=True, slots=True)
class Thought:
    """The duration of one section of reasoning."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """An open question about a call, stored before the user answers, so that a crash does not lose the diff shown.

    `diff` is the diff of an edit, otherwise empty. `arguments` are those of a call that the user or a hook edited, as
    JSON, otherwise empty.
    """

    call_id: str
    diff: str = ""
    arguments: str = ""


JOB_RUNNING = "running"
JOB_ENDED_WITH_QCODE = "stopped when qcode ended"
JOB_LEFT = "outcome unknown: it was running when you left the session"


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A background job for a replay."""

    number: int
    since: int
    """The number of the next message when the job started.

    The job of a call belongs to the message before that number, the job of a `!` command to the next prompt.
    """
    state: str
    """The state of the job, such as `exit 0`, or one of the constants above."""
    output: str = ""
    seconds: float = 0.0
    """The duration until the end, or until the session was left; 0 if it is unknown."""


ShownEvent: TypeAlias = (
    Notice
    | Retry
    | OutputEscalated
    | PartialRestored
    | Compacted
    | WebSearched
    | TurnEnded
    | ShownPrompt
    | ShownQuestion
    | Thought
    | StoredJob
)


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An event that was shown with a message, after `offset` characters of its text."""

    event: ShownEvent
    offset: int = 0
    is_undone: bool = False
    """The event of a compaction that was undone; a replay leaves it out."""
