"""Converts the events of a turn to updates of the protocol: text, cards with live output, plan, usage, notices.

Sent text cannot be removed again, and a reply without text may be requested again. So white space at the start of a
reply is held until text follows it. `replay` sends a stored session in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypeAlias

from qcode.acp import cards
from qcode.acp.cards import CallCard, Cards
from qcode.agent.outcomes import fallback_text, limit_wait_text, retry_text, waiting_text
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    Compacted,
    CompactionStarted,
    LimitReached,
    ModelFellBack,
    Notice,
    ReplyFinished,
    Retry,
    StepStarted,
    ToolCallProgress,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    UsageUpdated,
    Waiting,
)
from qcode.protocol.messages import Image, Text, ToolCall
from qcode.protocol.reply import ReasoningDelta, TextDelta
from qcode.protocol.tools import Refused
from qcode.text.clean import clean, one_line
from qcode.text.json import JsonObject, parse_object
from qcode.text.numbers import count_text
from qcode.tools.dialog import Todo, todo_items
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.sessions.replay import ReplayItem

TEXT_S = 0.03
"""The minimum time in seconds between two updates with the text of a reply."""
OUTPUT_S = 0.5
"""The same for updates with the end of the output of a call."""
TERMINAL_S = 0.1
"""The same for new output in a terminal of the client."""
USAGE_S = 1.0
"""The same for usage."""
MAX_CHUNK_CHARS = 100_000
"""The maximum length of the text in an update; longer text is sent in several updates."""
Stream: TypeAlias = Literal["agent_message_chunk", "agent_thought_chunk"]
Send: TypeAlias = Callable[[JsonObject], None]
TODO = Todo.spec.name
SHELL = "shell"


@dataclass(frozen=True, slots=True)
class ClientFeatures:
    """The features that the client announced."""

    has_notices: bool = False
    """The client shows notices."""
    has_compaction: bool = False
    """The client shows that a conversation is compacted."""
    has_terminals: bool = False
    """The client shows the output of commands in a terminal."""


class TurnView:
    """Sends the updates of one turn. `turn` is the number of its prompt, or a key such as `3c` for a compaction.

    `cost_before` is the cost of the session before the turn in US dollars, None if it is unknown.
    """

    def __init__(
        self, turn: int | str, folder: str, features: ClientFeatures, send: Send, cost_before: Decimal | None = None
    ) -> None:
        self._turn = turn
        self._folder = folder
        self._features = features
        self._send = send
        self._cost_before = cost_before
        self._step = 0
        self._attempt = 1
        """The number of the current attempt. The reasoning of each attempt has a separate message id."""
        self._cards = Cards(turn)
        self._stream: Stream = "agent_message_chunk"
        self._text: list[str] = []
        """The unsent text of the current stream."""
        self._blank = ""
        """The unsent white space at the start of the reply."""
        self._has_text = False
        """The reply has text that is not white space."""
        self._continuation = 0
        """The number of the continuation that starts with the next text; 0: the next text starts no continuation."""
        self._compactions = 0
        self._is_compacting = False
        self._usage: UsageUpdated | None = None
        """The latest usage, which is sent at the end in any case."""
        self._usage_at = float("-inf")
        """The time of the event loop at which usage was last sent."""
        self._timer: asyncio.TimerHandle | None = None
        self._output_timers: dict[str, asyncio.TimerHandle] = {}
        """The timers that send new output, by the id of the card."""
        self.notices: list[str] = []
        """The warnings and errors so far, if the client does not show notices."""

    def send_event(self, event: TurnEvent) -> None:
        """Send the updates of an event."""
        match event:
            case TextDelta(text=text):
                self._add_text(text)
            case ReasoningDelta(text=text):
                self._add("agent_thought_chunk", text)
            case StepStarted(step=step):
                self.flush()
                self._begin_reply(step)
            case Retry():
                self._retry(event)
            case ToolCallProgress(call_id=call_id, name=name):
                self._announce(call_id, name)
            case ReplyFinished(message=message):
                self._end_reply(message.calls if message is not None else ())
            case UsageUpdated():
                self._update_usage(event)
            case TurnEnded():
                self.end()
            case Notice() | CompactionStarted() | Compacted() | Waiting() | LimitReached() | ModelFellBack():
                self._send_notice_of(event)
            case _:
                self._send_call_event(event)

    def _begin_reply(self, step: int) -> None:
        self._step = step
        self._attempt = 1
        self._has_text = False
        self._blank = ""
        self._cards.begin_step(step)

    def _send_call_event(self, event: TurnEvent) -> None:
        match event:
            case ApprovalRequested(approval=approval):
                self.card_of(approval.call)
            case ToolStarted(call=call):
                self._begin_call(call)
            case ToolOutput(call_id=call_id, text=text):
                self._add_output(call_id, text)
            case ToolFinished():
                self._end_call(event)
            case AgentEvent(event=(ToolStarted() | ToolFinished()) as inner):
                self._send_call_event(inner)
            case _:
                pass

    def end(self) -> None:
        """Send the remaining text, and finish every card."""
        self.flush()
        for timer in self._output_timers.values():
            timer.cancel()
        self._output_timers.clear()
        for card in self._cards.unfinished():
            self._drop(card, "cancelled")
        if self._is_compacting:
            self._is_compacting = False
            self._compaction("failed")
        if self._usage is not None:
            self._send_usage(self._usage)
            self._usage = None

    def _add_text(self, text: str) -> None:
        """Add text of the reply, but hold white space until text follows it."""
        if not self._has_text:
            self._blank += text
            if not self._blank.strip():
                return
            text = self._blank
            self._blank = ""
            self._has_text = True
        self._add("agent_message_chunk", text)

    def _add(self, stream: Stream, text: str) -> None:
        """Add text to a stream; the timer sends it after `TEXT_S`."""
        if stream != self._stream:
            self.flush()
            self._stream = stream
        self._text.append(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TEXT_S, self.flush)

    def flush(self) -> None:
        """Send the collected text."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text, is_thought = "".join(self._text), self._stream == "agent_thought_chunk"
        self._text = []
        message_id = f"{self._turn}.{self._step}"
        if is_thought:
            message_id += "t" if self._attempt == 1 else f"t{self._attempt}"
        for start in range(0, len(text), MAX_CHUNK_CHARS):
            update = chunk(self._stream, text[start : start + MAX_CHUNK_CHARS], message_id)
            if self._continuation and not is_thought:
                update["_meta"] = {"qcode": {"continuation": self._continuation}}
                self._continuation = 0
            self._send(update)

    def _retry(self, retry: Retry) -> None:
        self.flush()
        if retry.is_continuation:
            self._continuation = retry.attempt
        else:
            self._attempt += 1
            self._blank = ""
            self._cards.start_over()
        self._notice("info", retry_text(retry))

    def _end_reply(self, calls: Iterable[ToolCall]) -> None:
        """Send the remaining text, and update the card of each call in the finished reply.

        The reply was truncated before the end of a call that has a card but is not in the reply.
        """
        if self._blank:
            self._add("agent_message_chunk", self._blank)
            self._blank = ""
        self.flush()
        shown_calls = [call for call in calls if call.name != TODO]
        committed = self._cards.commit(shown_calls)
        for card, call in zip(committed.cards, shown_calls, strict=True):
            arguments = parse_object(call.arguments) or {}
            if card.is_shown:
                self._send(cards.arguments_update(card, arguments, self._folder))
            else:
                self._send_announcement(card, arguments)
        for card in committed.unused:
            self._drop(card, cards.TRUNCATED_CALL)

    def card_of(self, call: ToolCall) -> CallCard:
        """Return the card of a call; create and send it if there is none."""
        self.flush()
        card = self._cards.find(call.call_id)
        if card is not None:
            return card
        card, parent_id = self._cards.add_subagent_call(call)
        self._send_announcement(card, parse_object(call.arguments) or {}, parent_id)
        return card

    def _announce(self, call_id: str, name: str) -> None:
        if name == TODO:
            return
        card = self._cards.announce(call_id, name)
        if card is not None:
            self.flush()
            self._send_announcement(card, arguments=None)

    def _send_announcement(self, card: CallCard, arguments: JsonObject | None, parent_id: str = "") -> None:
        """Send a card for the first time; `parent_id` is the id of the card of its sub-agent."""
        card.is_shown = True
        update = cards.announcement(card, arguments, self._folder)
        meta: JsonObject = {"qcode": {"parentToolCallId": parent_id}} if parent_id else {}
        if self._has_terminal(card):
            update["content"] = [{"type": "terminal", "terminalId": card.card_id}]
            meta["terminal_info"] = {"terminal_id": card.card_id, "cwd": self._folder}
        if meta:
            update["_meta"] = meta
        self._send(update)

    def _begin_call(self, call: ToolCall) -> None:
        if call.name == TODO:
            return
        card = self.card_of(call)
        self._send({"sessionUpdate": "tool_call_update", "toolCallId": card.card_id, "status": "in_progress"})

    def _add_output(self, call_id: str, text: str) -> None:
        card = self._cards.find(call_id)
        if card is None or not text:
            return
        card.add_output(clean(text))
        if card.card_id not in self._output_timers:
            delay_s = TERMINAL_S if self._has_terminal(card) else OUTPUT_S
            self._output_timers[card.card_id] = asyncio.get_running_loop().call_later(delay_s, self._send_output, card)

    def _send_output(self, card: CallCard) -> None:
        """Send the new output of a call for its terminal, or the end of all its output for its card."""
        self._output_timers.pop(card.card_id, None)
        update: JsonObject = {"sessionUpdate": "tool_call_update", "toolCallId": card.card_id}
        text = "".join(card.output)
        if self._has_terminal(card):
            card.output, card.output_chars = [], 0
            update["_meta"] = {"terminal_output": {"terminal_id": card.card_id, "data": text}}
        else:
            update["content"] = cards.output_content(text)
        if text:
            self._send(update)

    def _has_terminal(self, card: CallCard) -> bool:
        return card.name == SHELL and self._features.has_terminals

    def _end_call(self, event: ToolFinished) -> None:
        """Send the last update of a card."""
        call = event.call
        if call.name == TODO:
            self._send_plan(event)
            return
        card = self.card_of(call)
        timer = self._output_timers.pop(card.card_id, None)
        if timer is not None:
            timer.cancel()
        has_terminal = self._has_terminal(card)
        if has_terminal and card.output:
            self._send_output(card)
        card.is_over = True
        outcome, state = event.outcome, event.state
        code = outcome.exit_code if has_terminal else None
        # Without an exit code, such as after a refusal, the card has the text of the result instead of the terminal.
        update = cards.finished_update(card, call, outcome, state, self._folder, has_terminal=code is not None)
        if code is not None:
            # A negative code is the number of the signal that ended the command.
            exit_code, signal = (code, None) if code >= 0 else (None, str(-code))
            ended: JsonObject = {"terminal_id": card.card_id, "exit_code": exit_code, "signal": signal}
            update["_meta"] = {"terminal_exit": ended}
        self._send(update)

    def _drop(self, card: CallCard, why: str) -> None:
        card.is_over = True
        self._send(cards.dropped_update(card, why))

    def _send_plan(self, event: ToolFinished) -> None:
        """Send the to-do list as a plan."""
        if event.state != "done":
            return
        try:
            items = todo_items(parse_object(event.call.arguments) or {})
        except Refused:
            return
        self.flush()
        self._send(
            {
                "sessionUpdate": "plan",
                "entries": [
                    {
                        "content": one_line(item.task, 1_000),
                        "priority": "medium",
                        "status": "completed" if item.state == "done" else item.state,
                    }
                    for item in items
                ],
            }
        )

    def _update_usage(self, usage: UsageUpdated) -> None:
        self._usage = usage
        now = asyncio.get_running_loop().time()
        if now - self._usage_at >= USAGE_S:
            self._usage_at = now
            self._send_usage(usage)

    def _send_usage(self, usage: UsageUpdated) -> None:
        self.flush()
        if usage.context_window <= 0 or not usage.context_tokens:
            return
        cost = None if usage.cost is None or self._cost_before is None else self._cost_before + usage.cost
        self._send(usage_update(usage.context_tokens, usage.context_window, cost))

    def _send_notice_of(
        self, event: Notice | CompactionStarted | Compacted | Waiting | LimitReached | ModelFellBack
    ) -> None:
        """Send an event that is not about text, calls or usage: a notice, or the state of a compaction."""
        match event:
            case Notice(level=level, text=text):
                self._notice(level, text)
            case CompactionStarted():
                self._compactions += 1
                self._is_compacting = True
                self._compaction("in_progress")
            case Compacted():
                self._is_compacting = False
                self._compaction("completed")
            case Waiting():
                self._notice("info", waiting_text(event))
            case LimitReached():
                self._notice("warning", limit_wait_text(event))
            case ModelFellBack():
                self._notice("warning", fallback_text(event))

    def _compaction(self, status: str) -> None:
        if self._features.has_compaction:
            self.flush()
            compaction_id = f"{self._turn}.{self._compactions}"
            self._send({"sessionUpdate": "compaction_update", "compactionId": compaction_id, "status": status})

    def _notice(self, severity: Literal["info", "warning", "error"], text: str) -> None:
        line = one_line(text, 1_000)
        if self._features.has_notices:
            self.flush()
            self._send({"sessionUpdate": "notice", "severity": severity, "title": line})
        elif severity != "info":
            self.notices.append(line)


def chunk(stream: str, text: str, message_id: str) -> JsonObject:
    return {"sessionUpdate": stream, "content": {"type": "text", "text": text}, "messageId": message_id}


def usage_update(used: int, size: int, cost: Decimal | None) -> JsonObject:
    update: JsonObject = {"sessionUpdate": "usage_update", "used": max(0, used), "size": size}
    return update if cost is None else {**update, "cost": {"amount": float(cost), "currency": "USD"}}


def replay(items: Iterable[tuple[int, ReplayItem]], folder: str, send: Send) -> None:
    """Send a stored session. Each item is given with the number of the prompt that began its turn."""
    from qcode.agent.sessions.replay import ReplayedPrompt
    from qcode.agent.sessions.shown import Thought

    view: TurnView | None = None
    view_turn = 0
    for turn, item in items:
        if view is None or turn != view_turn:
            if view is not None:
                view.end()
            view = TurnView(turn, folder, ClientFeatures(), send)
            view_turn = turn
        match item:
            case ReplayedPrompt(message=message, typed_text=shown):
                texts = [block.text for block in message.blocks if isinstance(block, Text)]
                images = [block for block in message.blocks if isinstance(block, Image)]
                text = shown or (texts[-1] if texts else "")  # the texts before the last one are attachments
                for start in range(0, len(text), MAX_CHUNK_CHARS):
                    send(chunk("user_message_chunk", text[start : start + MAX_CHUNK_CHARS], f"{turn}u"))
                if images:
                    send(chunk("user_message_chunk", f"[{count_text(len(images), 'image')}]", f"{turn}u"))
            case Retry() | Thought() | UsageUpdated() | Notice():
                pass
            case _:
                view.send_event(item)
    if view is not None:
        view.end()
