"""Shows a stored conversation as it looked when it ran, through the presenter that also shows running turns.

Only the end of a long conversation is shown at once, from the message `first_shown_message` on; `show_earlier` adds the
messages before it in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from qcode.agent.context.attachments import Attachment, attached_lines, hook_notice, parse_attached
from qcode.agent.sessions.history import StoredMessage
from qcode.agent.sessions.loader import has_unfinished_turn, is_about_interrupted_turn
from qcode.agent.sessions.partial import COPIED_REPLY, KILLED_REPLY
from qcode.agent.sessions.replay import (
    ReplayedPrompt,
    ended_job,
    job_call_state,
    replay_messages,
)
from qcode.agent.sessions.shown import StoredJob, Thought
from qcode.protocol.approvals import TurnApproval
from qcode.protocol.events import TurnEnded, UsageUpdated
from qcode.protocol.messages import Text, typed_text
from qcode.text.clean import one_line
from qcode.tui.presenter import Presenter
from qcode.tui.shell_lines import line_state, shown_output
from qcode.tui.status import Activity
from qcode.tui.transcript.cards import CardUpdate, TranscriptView

if TYPE_CHECKING:
    from qcode.agent.conversation import Conversation
    from qcode.tui.transcript.transcript import Transcript

UNFINISHED = (
    "The last turn did not finish: qcode ended while it ran. No call was run again. Send a message to continue."
)


MAX_MESSAGES_AT_ONCE = 400
"""The maximum number of messages at the end that are shown in the first paint."""
_ITEMS_PER_SLICE = 200
"""After this many events, the replay lets the app handle keys."""


def replay(
    messages: Sequence[StoredMessage],
    transcript: TranscriptView,
    clock: Callable[[], float],
    *,
    max_continuations: int,
) -> None:
    """Add `messages`, with their notices and marks, to `transcript`.

    `max_continuations` is the configured number, for marks such as `continued 1/3`.
    """
    for _ in _replay_steps(messages, transcript, clock, max_continuations):
        pass


def first_shown_message(messages: Sequence[StoredMessage]) -> int:
    """Return the index of the first message to show at once: a prompt if possible, and never a result of a call."""
    first = max(0, len(messages) - MAX_MESSAGES_AT_ONCE)
    if not first:
        return 0
    last_indexes = range(first, len(messages))
    for index in last_indexes:
        if messages[index].is_turn_start:
            return index
    for index in last_indexes:
        if messages[index].entry.message.role == "assistant":
            return index
    return 0


async def show_earlier(
    messages: Sequence[StoredMessage], transcript: Transcript, clock: Callable[[], float], *, max_continuations: int
) -> None:
    """Add `messages` above those in `transcript`; stop if it meanwhile shows another conversation."""
    content = transcript.content
    earlier = transcript.new_content()
    for number, _ in enumerate(_replay_steps(messages, earlier, clock, max_continuations), 1):
        if number % _ITEMS_PER_SLICE == 0:
            await asyncio.sleep(0)
            if transcript.content is not content:
                return
    transcript.insert_earlier(earlier)


def _replay_steps(
    messages: Sequence[StoredMessage], transcript: TranscriptView, clock: Callable[[], float], max_continuations: int
) -> Iterator[None]:
    """Add one item of `messages` to `transcript` for each step of the iterator."""
    presenter = Presenter(transcript, _NoInteraction(), _NoInteraction(), clock, max_continuations=max_continuations)
    for item in replay_messages(messages):
        match item:
            case ReplayedPrompt():
                _show_user(item, transcript)
            case Thought(seconds=seconds):
                transcript.end_reasoning(seconds)
            case _:
                presenter.present(item)
        yield
    transcript.settle()


def show_resumed(conversation: Conversation, transcript: TranscriptView) -> None:
    """Show when the session was last used, and a warning if its last turn did not finish."""
    stored = conversation.stored_messages
    try:
        when = datetime.fromisoformat(stored[-1].entry.timestamp).astimezone()
    except (ValueError, IndexError):
        transcript.add_mark("resumed")
    else:
        transcript.add_mark(f"resumed from {when:%Y-%m-%d %H:%M}")
    if has_unfinished_turn(stored):
        transcript.add_notice("warning", UNFINISHED)


def show_end(conversation: Conversation, transcript: TranscriptView, *, is_resumed: bool) -> None:
    """Show the mark of a resume below the messages, and output that is attached to the next prompt."""
    if is_resumed:
        show_resumed(conversation, transcript)
    for number, block in enumerate(conversation.attachments.blocks):
        if isinstance(block, Text):
            show_attached(block.text, transcript, conversation.session.history.new_jobs, number)


def is_shown_by_resume(conversation: Conversation, notice: str) -> bool:
    """Return whether a replay or `show_resumed` already reports the fact in `notice`, a notice of the session."""
    stored = conversation.stored_messages
    marks = (KILLED_REPLY, COPIED_REPLY)
    is_marked = bool(stored) and any(item.event in marks for item in stored[-1].shown_events)
    return is_about_interrupted_turn(notice) and (is_marked or has_unfinished_turn(stored))


def show_attached(
    text: str, transcript: TranscriptView, jobs: Mapping[int, StoredJob] | None = None, number: int = 0
) -> bool:
    """Show the card of an attached block: a shell line, output of a job, or a side question; return False for others.

    `number` distinguishes the cards of one message.
    """
    attached = parse_attached(text)
    if attached is None or attached.kind not in ("shell", "job", "aside"):
        return False
    # After this function nothing updates the card, so its id need only differ from those of running lines.
    card_id = f"stored {number}"
    update = CardUpdate(state="done", output=attached.content, summary=one_line(attached.result))
    if attached.kind == "shell":
        card_name = "!"
        update = _shell_line_update(attached, jobs or {})
    elif attached.kind == "job":
        card_name = "jobs"
    else:
        from qcode.tui.transcript.markdown import text_of_markdown  # not needed for the first paint

        card_name = "btw"
        update = replace(update, output=text_of_markdown(attached.content))
    transcript.add_card(card_id, card_name, one_line(attached.name))
    transcript.update_card(card_id, update)
    return True


def _shell_line_update(attached: Attachment, jobs: Mapping[int, StoredJob]) -> CardUpdate:
    """Return the final state and output of a shell line; if it became a job, those of the job."""
    output = shown_output(attached.content)
    job = ended_job(attached.result, jobs)
    if job is not None:
        return CardUpdate(
            state=job_call_state(job), output=job.output or output, summary=one_line(job.state), seconds=job.seconds
        )
    state = line_state(attached.result)
    summary = one_line(attached.result) if state != "stopped" else None  # the state says all
    return CardUpdate(state=state, output=output, summary=summary)


def _show_user(item: ReplayedPrompt, transcript: TranscriptView) -> None:
    """Show a prompt, the shell lines that the user ran before it, the output of jobs, and side questions."""
    typed_texts: list[str] = []
    for number, block in enumerate(item.message.blocks):
        if not isinstance(block, Text):
            continue
        if parse_attached(block.text) is None:
            typed_texts.append(block.text)
        else:
            show_attached(block.text, transcript, item.jobs, number)
    if item.typed_text:
        typed_texts = [item.typed_text]
    # The text of a hook before a prompt is not shown, as in a running turn.
    elif notice := hook_notice(typed_text(item.message)):
        transcript.add_notice("info", notice)
    for text in typed_texts:
        transcript.add_user(text)
    # The last block is the prompt itself.
    if lines := attached_lines(item.message.blocks[:-1], typed_text(item.message)):
        transcript.add_attached(lines)


class _NoInteraction:
    """A status line and a user that do nothing: in a replay, nothing runs and there are no open questions."""

    def show_activity(self, activity: Activity | None) -> None: ...
    def show_usage(self, event: UsageUpdated) -> None: ...
    def add_turn(self, event: TurnEnded) -> None: ...
    def ask(self, approval: TurnApproval, position: str) -> None: ...
    def withdraw(self, approval_id: str) -> bool:
        return False

    def show_steering(self, text: str) -> None: ...
