"""Plays a row: the real conversation, driver, store, rules, tools and SDK client against the fake host over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from qcode.agent.options import Options
from qcode.protocol.approvals import Allow
from qcode.protocol.events import ApprovalRequested, TurnEnded, TurnEvent
from qcode.protocol.messages import Message
from qcode.protocol.provider import Provider
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.providers import registry
from tests.e2e.limits.host import Host
from tests.e2e.limits.row import Row
from tests.e2e.running import KEY
from tests.fakes.conversation import ConversationRunner, Model, open_conversation
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import ReceivedRequest

PROMPT, NEXT_PROMPT = "Los — go.", "And on?"
REPORT = ToolSpec("report", "Record that the work is done.", {"type": "object", "properties": {}}, is_one_way=True)


@dataclass
class Played:
    """The result of a row."""

    row: Row
    protocol: ProtocolName
    events: list[TurnEvent] = field(default_factory=list)
    requests: list[ReceivedRequest] = field(default_factory=list)
    reports: list[Usage] = field(default_factory=list)
    messages: tuple[Message, ...] = ()
    """The messages of the conversation at the end of the turn."""
    loaded: tuple[Message, ...] = ()
    """The messages of the session file at that time."""
    files: dict[str, str] = field(default_factory=dict)
    later_events: list[TurnEvent] = field(default_factory=list)
    later_requests: list[ReceivedRequest] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    overruns: int = 0
    is_through: bool = True

    @property
    def end(self) -> TurnEnded:
        (end,) = [event for event in self.events if isinstance(event, TurnEnded)]
        return end


def play(row: Row, protocol: ProtocolName, base: Path) -> Played:
    """Play the turn of the row, then the next turn."""
    host = Host(protocol)
    with FakeServer(host.wire, host) as server:
        return asyncio.run(_Play(row, protocol, base, host, server).run())


class _Play:
    def __init__(self, row: Row, protocol: ProtocolName, base: Path, host: Host, server: FakeServer) -> None:
        self._row = row
        self._host = host
        self._server = server
        self._base = base
        self._played = Played(row, protocol)
        self._stage = self._staged(protocol)
        self._conversation = self._stage.conversation

    def _staged(self, protocol: ProtocolName) -> ConversationRunner[Provider]:
        row = self._row
        spec = registry.PROVIDERS[row.provider or protocol]
        provider = registry.connect(
            spec, base_url=self._server.base_url, api_key=KEY, key_source="a test", timeouts=row.timeouts
        )
        model = Model("test-model", facts=row.facts, output=row.settings, retries=row.retries)
        options = Options(max_budget_usd=row.money)
        return open_conversation(self._base, provider, model, options=options, exit_tools=(REPORT,))

    async def run(self) -> Played:
        played, row, conversation = self._played, self._row, self._conversation
        try:
            self._host.plan(row.script)
            played.events = await self._turn(PROMPT, is_cancelled=row.cancel is not None)
            sent = len(self._server.requests)
            played.requests = list(self._server.requests)
            played.reports = self._host.reports[:sent]
            played.is_through = self._host.is_through
            played.messages = conversation.messages
            played.loaded = self._stage.store.load(conversation.session_id).messages
            played.files = {path.name: path.read_text("utf-8") for path in self._stage.work.iterdir()}
            if row.again is not None:
                self._host.plan(row.again)
                played.later_events = await self._turn(NEXT_PROMPT, is_cancelled=False)
                played.later_requests = list(self._server.requests[sent:])
            played.complaints = list(self._server.complaints)
            played.overruns = self._host.overruns
        finally:
            await conversation.close()
        return played

    async def _turn(self, prompt: str, *, is_cancelled: bool) -> list[TurnEvent]:
        """Play one turn; approve every call, unless the row cancels at the question."""
        conversation, cancel = self._conversation, self._row.cancel if is_cancelled else None
        watching = None
        if cancel is not None and cancel.at is None:
            watching = asyncio.get_running_loop().create_task(self._cancel_at_a_stall())
        events: list[TurnEvent] = []
        async for event in conversation.submit(prompt):
            events.append(event)
            if cancel is not None and cancel.at is not None and cancel.at(event):
                cancel = None
                conversation.cancel()
            elif isinstance(event, ApprovalRequested):
                conversation.answer(event.approval.id, Allow())
        if watching is not None:
            assert watching.done(), "the turn ended before it was cancelled"
        return events

    async def _cancel_at_a_stall(self) -> None:
        await asyncio.to_thread(self._server.wait_until, lambda seen: seen.stalls > 0)
        self._conversation.cancel()
