"""The queue of prompts that wait while a turn runs, without an app."""

from __future__ import annotations

from qcode.protocol.approvals import TurnOptions
from qcode.tui.prompt.queue import Queue, Submission

COMMAND = Submission("look again", "/look", options=TurnOptions(model="demo/demo"))
"""A prompt that runs as a separate turn."""
MESSAGE = Submission("look again", "look again")
"""A prompt with the same text, which steers the running turn."""


def queue_of(*submissions: Submission) -> Queue:
    queue = Queue()
    for submission in submissions:
        queue.add(submission)
    return queue


def test_message_that_the_turn_has_is_removed_and_a_command_with_the_same_text_stays() -> None:
    queue = queue_of(COMMAND, MESSAGE)
    assert queue.remove_steering("look again") is MESSAGE
    assert queue.take_all() == (COMMAND,)
    assert queue_of(COMMAND).remove_steering("look again") is None


def test_messages_are_sent_together_and_a_command_alone() -> None:
    queue = queue_of(MESSAGE, Submission("and here", "and here"), COMMAND, MESSAGE)
    sent = []
    while (submission := queue.take_next()) is not None:
        sent.append(submission.text)
    assert sent == ["look again\n\nand here", "look again", "look again"]
