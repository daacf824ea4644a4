"""Side questions (`/btw`): questions about the conversation that do not become part of it.

A side question is a separate turn with the same model, system prompt and history, without calls, compaction or
fallback. Truncated replies are continued as usual. The messages are not stored; the usage is added to that of the
conversation. The module is imported for the first side question.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from decimal import Decimal

from qcode.agent.conversation import Conversation
from qcode.agent.driver import Driver, SwitchResult
from qcode.agent.models.client import ModelClient
from qcode.agent.usage import TurnUsage
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    Compact,
    NoModelLeft,
    RecordRequests,
    SwitchModel,
    TurnSettings,
    UserSubmitted,
)
from qcode.engine.model_facts import Learn
from qcode.engine.turn import Turn
from qcode.protocol.approvals import CallApproval
from qcode.protocol.errors import ProviderError
from qcode.protocol.events import AgentEvent, AttemptRecord, ReplyFinished, TurnEvent
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant
from qcode.protocol.tools import ToolOutcome
from qcode.text.json import JsonObject

MAX_REPLIES = 2
"""The maximum number of model replies: if the first calls a tool, the second must answer without one."""
_AGENT_ID = "btw"
_NOTE = (
    "(Side question. Answer it from this conversation, briefly. You cannot call tools. Neither the question nor your "
    "answer becomes part of the conversation, and the work continues without you.)"
)
_PENDING = "(This call is still running or waits for approval.)"
_WORKING = "(I am still working on this.)"
_NO_CALLS = "A side question is answered without tools. Answer with text."


class SideQuestions:
    """The side questions about a conversation. `max_budget_usd` is the cost limit of one prompt."""

    def __init__(self, conversation: Conversation, max_budget_usd: Decimal | None) -> None:
        self._conversation = conversation
        self._max_budget_usd = max_budget_usd

    async def ask(
        self, question: str, *, on_usage: Callable[[TurnUsage], None] = lambda used: None
    ) -> AsyncGenerator[TurnEvent, None]:
        """Ask `question`, and yield the events of its turn. Closing the iterator cancels the request.

        `on_usage` is called at the end if a request was sent. Raise `ValueError` if the cost limit is reached.
        """
        conversation, client = self._conversation, self._conversation.client
        history, prompt = _side_request(question, conversation.messages)
        turn = Turn(self._settings(client), client.known_model(), history, client.counter())
        async with aclosing(run_side_turn(conversation, client, turn, prompt, f"/btw {question}", on_usage)) as events:
            async for event in events:
                yield event

    def _settings(self, client: ModelClient) -> TurnSettings:
        conversation = self._conversation
        return TurnSettings(
            system=client.system(conversation.mode),
            tools=conversation.tools,
            effort=conversation.effort,
            output=client.output,
            retries=client.retries.unattended,
            max_turns=MAX_REPLIES,
            max_budget_usd=self.remaining_budget(),
            allows_calls=False,
        )

    def remaining_budget(self) -> Decimal | None:
        """Return the cost limit of one prompt, or the remaining one of the running turn; None if unlimited.

        Raise `ValueError` if it is reached.
        """
        running = self._conversation.turn
        budget = self._max_budget_usd if running is None else running.settings.max_budget_usd
        if budget is None or running is None:
            return budget
        remaining = budget - running.tally.ledger.spent
        if remaining <= 0:
            raise ValueError("The cost limit of this turn is reached. Ask again when the turn has ended.")
        return remaining


async def run_side_turn(
    conversation: Conversation,
    client: ModelClient,
    turn: Turn,
    prompt: Message,
    name: str,
    on_usage: Callable[[TurnUsage], None] = lambda used: None,
) -> AsyncGenerator[TurnEvent, None]:
    """Run a turn that is not part of the conversation, and yield its events. `/cost` lists its usage as `name`."""
    running = conversation.turn
    services = _Services(client)
    driver = Driver(turn, client.observed_provider, services)
    try:
        async with aclosing(driver.run(UserSubmitted(prompt))) as events:
            async for event in events:
                if isinstance(event, ReplyFinished):
                    client.record_reply_length(event, turn.settings.output)
                conversation.observe(AgentEvent(_AGENT_ID, event))
                yield event
    finally:
        ledger = turn.tally.ledger
        if running is not None and running is conversation.turn:
            running.tally.ledger.charge(ledger.spent)
        if ledger.api_calls.total:
            discarded = ledger.discarded_output_tokens
            used = TurnUsage(name, client.name, ledger.usage, ledger.cost, ledger.api_calls, discarded, ledger.by_model)
            conversation.session_usage.add(used)
            conversation.session.record_requests(services.attempts, name)
            on_usage(used)


def _side_request(question: str, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], Message]:
    """Return the history and the message with the question. Notes replace a missing reply and missing results."""
    last = messages[-1] if messages else None
    calls = last.calls if last is not None and last.role == "assistant" else ()
    pending = (ToolResult(call.call_id, call.name, _PENDING) for call in calls)
    if last is not None and last.role == "user":
        messages = (*messages, assistant(Text(_WORKING)))
    return messages, Message("user", (*pending, Text(f"{question}\n\n{_NOTE}")))


class _Services:
    """The services for the driver of a side question: calls are denied, and no message is stored."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self.attempts: list[AttemptRecord] = []
        """All requests of the side question, also for a reply that failed or was cancelled."""

    async def judge(self, request: AskApproval) -> ApprovalAnswered | CallApproval:
        return ApprovalAnswered(request.call.call_id, is_allowed=False, reason=_NO_CALLS)

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        raise AssertionError("a denied call runs")

    def append(self, effect: Append) -> None:
        self.attempts += effect.attempts

    def record_requests(self, effect: RecordRequests) -> None:
        self.attempts += effect.attempts

    def store_compaction(self, effect: Compact) -> None:
        """Do nothing: a side question is not compacted."""

    def learn(self, effect: Learn) -> None:
        self._client.learn(effect)

    async def switch_model(self, effect: SwitchModel) -> SwitchResult:
        return SwitchResult(NoModelLeft())

    def record_intent(self, call: ToolCall) -> None:
        """Do nothing: no call runs."""

    async def explain(self, error: ProviderError) -> ProviderError:
        return await self._client.explain(error)
