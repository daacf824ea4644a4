"""One turn over the real client and driver against a scripted server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qcode.agent.driver import Driver, SwitchResult
from qcode.agent.outcomes import exit_code
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    CancelRequested,
    Compact,
    NoModelLeft,
    RecordRequests,
    SwitchModel,
    TurnSettings,
    UserSubmitted,
)
from qcode.engine.model_facts import KnownModel, Learn
from qcode.engine.turn import Turn
from qcode.protocol.errors import ProviderError
from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.protocol.messages import ToolCall, user
from qcode.protocol.model import RetrySettings
from qcode.protocol.reply import TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.providers.connection import Timeouts
from qcode.text.json import JsonObject
from tests.providers.cases import MODELS
from tests.providers.clients import KEY, PATIENT, provider_at
from tests.providers.events import recording
from tests.providers.loopback import Answer, Loopback


class NoServices:
    """Services of a turn without calls."""

    async def judge(self, asked: AskApproval) -> ApprovalAnswered:
        return ApprovalAnswered(asked.call.call_id, is_allowed=False, reason="")

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        raise AssertionError("nothing may run")

    def store_compaction(self, effect: Compact) -> None:
        raise AssertionError("nothing is compacted here")

    def append(self, effect: Append) -> None: ...
    def record_requests(self, effect: RecordRequests) -> None: ...
    def learn(self, effect: Learn) -> None: ...
    def record_intent(self, call: ToolCall) -> None: ...

    async def switch_model(self, effect: SwitchModel) -> SwitchResult:
        return SwitchResult(NoModelLeft())

    async def explain(self, error: ProviderError) -> ProviderError:
        return error


@dataclass
class Ran:
    """The result of a turn. `took` is the time from cancelling to its end."""

    events: list[TurnEvent] = field(default_factory=list)
    requests: int = 0
    took: float = 0.0

    @property
    def end(self) -> TurnEnded:
        (end,) = [event for event in self.events if isinstance(event, TurnEnded)]
        return end

    @property
    def code(self) -> int:
        return exit_code(self.end)

    @property
    def kind(self) -> str:
        return self.end.error.kind if self.end.error is not None else ""

    @property
    def message(self) -> str:
        return self.end.error.message if self.end.error is not None else ""


def run(
    protocol: str,
    *answers: Answer,
    retries: int = 0,
    timeouts: Timeouts = PATIENT,
    url: str = "",
    cancels: bool = False,
    before: Callable[[Loopback], None] = lambda server: None,
) -> Ran:
    """Play one turn; with `cancels` it is cancelled once the server stalls and its text has come."""

    async def main() -> Ran:
        async with Loopback(*answers) as server:
            before(server)
            provider = provider_at(protocol, url or server.url, timeouts)
            settings = TurnSettings("", (), retries=RetrySettings(retries))
            turn = Turn(settings, KnownModel(protocol, MODELS[protocol]), [], PromptCounter())
            driver = Driver(turn, provider, NoServices(), random_fraction=lambda: 0.0)
            ran = Ran()
            try:
                await _follow(driver, server, ran, cancels=cancels)
            finally:
                await provider.close()
            ran.requests = len(server.requests)
            return ran

    ran = asyncio.run(main())
    assert KEY not in ran.message
    assert "\n" not in ran.message
    assert "<html" not in ran.message
    return ran


async def _follow(driver: Driver, server: Loopback, ran: Ran, *, cancels: bool) -> None:
    cancelled_at = 0.0
    async for event in driver.run(UserSubmitted(user("Go."))):
        ran.events.append(event)
        if cancels and isinstance(event, TextDelta) and not cancelled_at:
            await server.is_stalling.wait()
            cancelled_at = time.monotonic()
            driver.put_input(CancelRequested())
    ran.took = time.monotonic() - cancelled_at


def text_of(protocol: str, name: str = "text") -> str:
    """Return the text that a recording says."""
    deltas: list[Any] = [event for event in recording(protocol, name).events if isinstance(event, list)]
    return "".join(event[2] for event in deltas if event[0] == "TextDelta")
