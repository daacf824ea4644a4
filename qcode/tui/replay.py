"""Shows a stored transcript, as when a session is resumed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from qcode.protocol.messages import Message, Reasoning, Text, ToolCall, ToolResult
from qcode.runtime.attachments import split_attached
from qcode.tui.calls import main_argument, plan_of
from qcode.tui.presenter import TranscriptView
from qcode.tui.shell_lines import line_state, without_code
from qcode.tui.text import one_line


class ReplayView(TranscriptView, Protocol):
    """The transcript, with the one call that only a stored message needs."""

    def add_user(self, text: str) -> None: ...


def replay(messages: Iterable[Message], transcript: ReplayView) -> None:
    """Add `messages` to `transcript`, each call with the result that followed it."""
    plans: dict[str, str] = {}
    for message in messages:
        if message.role == "user":
            _show_user(message, transcript)
        for block in message.blocks:
            match block:
                case Text(text=text) if message.role == "assistant":
                    transcript.append_text(text)
                case Reasoning(text=text):
                    transcript.append_reasoning(text)
                case ToolCall():
                    transcript.settle()
                    plans[block.call_id] = plan_of(block)
                    transcript.add_card(block.call_id, one_line(block.name, 60), main_argument(block))
                    transcript.update_card(block.call_id, state="cancelled")
                case ToolResult():
                    state = "failed" if block.is_error else "done"
                    transcript.update_card(block.call_id, state=state, output=plans.get(block.call_id) or block.content)
                case _:
                    pass
        transcript.settle()


def _show_user(message: Message, transcript: ReplayView) -> None:
    """Show what was typed, and the commands the person ran; attached files are named in what was typed."""
    typed: list[str] = []
    for number, block in enumerate(message.blocks):
        if not isinstance(block, Text):
            continue
        attached = split_attached(block.text)
        if attached is None:
            typed.append(block.text)
        elif attached.kind == "shell":
            # The card is never changed again, so its id need not be one.
            transcript.add_card(f"!{number}", "!", one_line(attached.name))
            state = line_state(attached.result)
            transcript.update_card(f"!{number}", state=state, output=without_code(attached.content))
    if typed:
        transcript.add_user("\n\n".join(typed))
