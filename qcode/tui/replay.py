"""Shows a stored transcript, as when a session is resumed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from qcode.protocol.messages import Message, Reasoning, Text, ToolCall, ToolResult
from qcode.tui.calls import main_argument
from qcode.tui.presenter import TranscriptView
from qcode.tui.text import one_line


class ReplayView(TranscriptView, Protocol):
    """The transcript, with the one call that only a stored message needs."""

    def add_user(self, text: str) -> None: ...


def replay(messages: Iterable[Message], transcript: ReplayView) -> None:
    """Add `messages` to `transcript`, each call with the result that followed it."""
    for message in messages:
        if message.role == "user" and message.text:
            transcript.add_user(message.text)
        for block in message.blocks:
            match block:
                case Text(text=text) if message.role == "assistant":
                    transcript.append_text(text)
                case Reasoning(text=text):
                    transcript.append_reasoning(text)
                case ToolCall():
                    transcript.settle()
                    transcript.add_card(block.call_id, one_line(block.name, 60), main_argument(block))
                    transcript.update_card(block.call_id, state="cancelled")
                case ToolResult():
                    state = "failed" if block.is_error else "done"
                    transcript.update_card(block.call_id, state=state, output=block.content)
                case _:
                    pass
        transcript.settle()
