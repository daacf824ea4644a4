"""A small front end: a line-based chat with approvals. It imports only `qcode.agent` and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from qcode.agent.agent import Agent
from qcode.agent.outcomes import incomplete_reason
from qcode.protocol.approvals import (
    AcceptPlan,
    Allow,
    Answer,
    ApprovalMode,
    CallApproval,
    Decision,
    Deny,
    PlanApproval,
    Question,
    RepeatedCall,
    ToolApproval,
)
from qcode.protocol.events import (
    ApprovalRequested,
    Notice,
    ReplyFinished,
    Retry,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    Waiting,
)
from qcode.protocol.reply import TextDelta
from qcode.text.clean import clean, single_spaced

HELP = "A line is a prompt. /mode NAME, /sessions, /rules, /clear and /help are commands."


class Chat:
    """Reads prompts, commands and answers from `lines` and reports events with `write`."""

    def __init__(self, agent: Agent, lines: Iterator[str], write: Callable[[str], None]) -> None:
        self._agent = agent
        self._lines = lines
        self._write = write
        self._reply = ""

    async def run(self) -> None:
        """Talk until there are no more lines."""
        self._write(f"{self._agent.conversation.model} in {self._agent.context.folder}")
        for notice in self._agent.notices:
            self._write(f"! {notice}")
        for line in self._lines:
            if line.startswith("/"):
                self._command(*line[1:].split(maxsplit=1))
            else:
                await self._turn(line)

    def cancel(self) -> None:
        self._agent.conversation.cancel()

    def _command(self, name: str = "", argument: str = "") -> None:
        agent = self._agent
        match name:
            case "mode" if mode := next((mode for mode in get_args(ApprovalMode) if mode == argument), None):
                agent.conversation.set_mode(mode)
                self._write(f"mode {agent.conversation.mode}")
            case "sessions":
                for info in agent.sessions.sessions():
                    self._write(f"{info.session_id} {single_spaced(info.title)}")
            case "rules":
                for rule in agent.permissions.rules():
                    self._write(f"{rule.effect} {rule.text} ({rule.origin})")
            case "clear":
                agent.conversation.clear()
            case _:
                self._write(HELP)

    async def _turn(self, prompt: str) -> None:
        async for event in self._agent.conversation.submit(prompt):
            self._show(event)

    def _show(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._reply += text
            case Retry(is_continuation=False):
                self._reply = ""
            case Retry():
                self._write("! the reply was truncated and is continued")
            case ReplyFinished():
                self._flush()
            case ToolStarted(call=call):
                self._write(f"* {call.name} {single_spaced(call.arguments)}")
            case ToolFinished(state=state, outcome=outcome):
                self._write(f"  {state}: {single_spaced(outcome.summary)}")
            case ApprovalRequested(approval=approval):
                self._agent.conversation.answer(approval.id, self._decision(approval))
            case Notice(level=level, text=text) if level != "info":
                self._write(f"! {clean(text)}")
            case Waiting(seconds=seconds, reason=reason):
                self._write(f"! waiting {seconds:.0f} s: {single_spaced(reason)}")
            case TurnEnded():
                self._flush()
                if line := incomplete_reason(event):
                    self._write(f"! {line}")
            case _:
                pass

    def _flush(self) -> None:
        if self._reply.strip():
            self._write(clean(self._reply))
        self._reply = ""

    def _decision(self, approval: CallApproval) -> Decision:
        if approval.detail:
            self._write(clean(approval.detail))
        self._write(f"? {single_spaced(approval.question)}")
        answer = next(self._lines, "n")
        match approval:
            case Question():
                return Answer(answer)
            case ToolApproval() if answer == "a":
                return Allow("session")
            case ToolApproval() | RepeatedCall() if answer == "y":
                return Allow()
            case PlanApproval() if answer == "y":
                return AcceptPlan()
            case _:
                return Deny(answer.removeprefix("n").strip())
