"""Show a stored conversation as it was seen, through the presenter that shows running turns.

App and linear mode share it, for `qcode -c`, /resume and a rewind. `sessions.replay` converts the stored messages to
events.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from qcode.agent.context.attachments import attached_lines, split_attached
from qcode.agent.sessions.history import Thought
from qcode.agent.sessions.replay import UserSaid, has_unfinished_turn, replayed
from qcode.protocol.approvals import TurnApproval
from qcode.protocol.events import UsageUpdated
from qcode.protocol.messages import Text, typed_text
from qcode.protocol.usage import Usage
from qcode.text.clean import one_line
from qcode.tui.presenter import Presenter
from qcode.tui.shell_lines import line_state, without_code
from qcode.tui.status import Activity
from qcode.tui.transcript.cards import CardUpdate, TranscriptView

if TYPE_CHECKING:
    from qcode.agent.conversation import Conversation

UNFINISHED = "The last turn did not finish: qcode ended while it ran. Send a message to continue."


def replay(
    conversation: Conversation, transcript: TranscriptView, clock: Callable[[], float], *, max_continuations: int = 3
) -> None:
    """Add the messages of `conversation`, and what was shown with them, to `transcript`."""
    presenter = Presenter(transcript, _Nothing(), _Nothing(), clock, max_continuations=max_continuations)
    for item in replayed(conversation.stored):
        match item:
            case UserSaid():
                _show_user(item, transcript)
            case Thought(seconds=seconds):
                transcript.end_reasoning(seconds)
            case _:
                presenter.present(item)
    transcript.settle()


def show_resumed(conversation: Conversation, transcript: TranscriptView) -> None:
    """Say when the session was used last, and whether its last turn finished."""
    stored = conversation.stored
    try:
        when = datetime.fromisoformat(stored[-1].entry.at).astimezone()
    except (ValueError, IndexError):
        transcript.add_mark("resumed")
    else:
        transcript.add_mark(f"resumed from {when:%Y-%m-%d %H:%M}")
    if has_unfinished_turn(stored):
        transcript.add_notice("warning", UNFINISHED)


def _show_user(said: UserSaid, transcript: TranscriptView) -> None:
    """Show a prompt, the shell lines that the user ran before it, the output of jobs, and asides."""
    typed: list[str] = []
    for number, block in enumerate(said.message.blocks):
        if not isinstance(block, Text):
            continue
        attached = split_attached(block.text)
        if attached is None:
            typed.append(block.text)
        elif attached.kind == "shell":
            # This card is never updated, so its id need not match a call.
            card, state = f"!{number}", line_state(attached.result)
            transcript.add_card(card, "!", one_line(attached.name))
            result = one_line(attached.result) if state != "cancelled" else None
            transcript.update_card(card, CardUpdate(state=state, output=without_code(attached.content), summary=result))
        elif attached.kind in ("job", "aside"):
            transcript.add_card(f"!{number}", "jobs" if attached.kind == "job" else "btw", one_line(attached.name))
            summary = one_line(attached.result)
            transcript.update_card(f"!{number}", CardUpdate(state="done", output=attached.content, summary=summary))
    for text in [said.shown] if said.shown else typed:
        transcript.add_user(text)
    if lines := attached_lines(said.message.blocks[:-1], typed_text(said.message)):
        transcript.add_attached(lines)


class _Nothing:
    """The status line and the user of a replay: what was running and asked is over."""

    def show_activity(self, activity: Activity | None) -> None: ...
    def show_usage(self, event: UsageUpdated) -> None: ...
    def add_turn(self, usage: Usage, cost: Decimal | None) -> None: ...
    def ask(self, approval: TurnApproval, position: str) -> None: ...
    def withdraw(self, approval_id: str) -> bool:
        return False

    def take_steering(self, text: str) -> None: ...
