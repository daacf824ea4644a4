"""Questions of one server while a request to it runs: forms, addresses to visit, and replies of the model.

Each question is asked on behalf of one running request, whose time limit pauses meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from qcode.agent.mcp.elicitation import fill_form, visit
from qcode.agent.mcp.session import error_text
from qcode.agent.mcp.spec import MAX_REASON, ServerError
from qcode.protocol.approvals import Ask, Choice
from qcode.text.clean import single_spaced, visible
from qcode.values import dataclass

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestFormParams,
        ElicitRequestURLParams,
        ElicitResult,
        ErrorData,
    )

    from qcode.agent.mcp.context import Sample

ValueT = TypeVar("ValueT")


@dataclass(slots=True)
class RunningRequest:
    """A running request to a server, and the questions that the server asks meanwhile."""

    output: Callable[[str], None] = lambda text: None
    """Gets the progress that the server reports."""
    ask: Ask | None = None
    """Asks the user; None if no user can answer."""
    notes: list[str] = field(default_factory=list)
    """Lines by qcode that are appended to the result."""
    timer: asyncio.Timeout | None = None
    """The time limit; None before the request is sent and after it ended."""
    questions: set[asyncio.Future[Any]] = field(default_factory=set)
    """The questions of the server that are not answered yet."""

    async def answer_or_default(self, question: Awaitable[ValueT], default: ValueT) -> ValueT:
        """Return the answer to a question of the server, `default` if this request ends before the answer."""
        task = asyncio.ensure_future(question)
        self.questions.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if task in self.questions:  # the connection ends
                raise
            return default
        finally:
            task.cancel()
            self.questions.discard(task)

    def close_questions(self) -> None:
        """Withdraw the open questions, so that the next question of the server does not wait behind them."""
        questions, self.questions = self.questions, set()
        for question in questions:
            question.cancel()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Pause the time limit of the request."""
        timer, clock = self.timer, asyncio.get_running_loop().time
        deadline = timer.when() if timer is not None else None
        if timer is None or deadline is None:
            yield
            return
        remaining_s = deadline - clock()
        timer.reschedule(None)
        try:
            yield
        finally:
            has_ended = self.timer is not timer
            if not has_ended and not timer.expired():
                timer.reschedule(clock() + max(0.0, remaining_s))


class ServerQuestions:
    """The questions of one server, one at a time. `sample` requests a reply from the model, if that is possible."""

    def __init__(self, server: str, sample: Sample | None) -> None:
        self._server = server
        self._sample = sample
        self._requests: list[RunningRequest] = []
        self._lock = asyncio.Lock()

    @contextmanager
    def during(self, running: RunningRequest) -> Iterator[None]:
        """Allow questions on behalf of a request; those that are open at its end are withdrawn."""
        self._requests.append(running)
        try:
            yield
        finally:
            self._requests.remove(running)
            running.timer = None
            running.close_questions()

    async def visit_all(self, error: MCPError, running: RunningRequest) -> None:
        """Ask the user to open the addresses that the server requires; raise `ServerError` unless all are accepted."""
        import mcp_types as types

        for params in types.ElicitationRequiredErrorData.model_validate(error.error.data).elicitations:
            if (await self._elicit_for(running, params)).action != "accept":
                raise ServerError(
                    f"the server requires the user to open a page, which was declined: {error_text(error)}"
                )
        if running.ask is not None:
            await running.ask("Continue when you are done on that page.", "", (Choice("Done"),), accepts_text=False)

    async def elicit(self, params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        """Ask on behalf of the latest request that can ask: a server does not say which request its question is for."""
        return await self._elicit_for(self._latest_request(), params)

    def _latest_request(self) -> RunningRequest:
        """Return the latest request that can ask the user; if none can, the latest one."""
        answerable = [running for running in self._requests if running.ask is not None]
        return (answerable or self._requests or [RunningRequest()])[-1]

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Ask the model on behalf of the latest request that can ask; the request's time limit pauses meanwhile."""
        running = self._latest_request()
        if running.ask is None:
            running.notes.append(
                "[The server requested a reply from the model. No user can approve this, so it was refused.]"
            )
        import mcp_types as types

        ended = types.ErrorData(code=types.INTERNAL_ERROR, message="the request that needed this reply has ended")
        return await running.answer_or_default(self._sample_for(running, params), ended)

    async def _sample_for(
        self, running: RunningRequest, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        assert self._sample is not None
        async with self._lock, running.paused():
            return await self._sample(self._server, params, running.ask)

    async def _elicit_for(
        self, running: RunningRequest, params: ElicitRequestFormParams | ElicitRequestURLParams
    ) -> ElicitResult:
        """Ask the user; the time limit of the request pauses meanwhile."""
        import mcp_types as types

        if running.ask is None:
            message = visible(single_spaced(params.message, MAX_REASON))
            running.notes.append(f'[The server asked the user: "{message}". No user can answer, so it was cancelled.]')
            return types.ElicitResult(action="cancel")
        return await running.answer_or_default(
            self._ask_user(running, running.ask, params), types.ElicitResult(action="cancel")
        )

    async def _ask_user(
        self, running: RunningRequest, ask: Ask, params: ElicitRequestFormParams | ElicitRequestURLParams
    ) -> ElicitResult:
        """Show the form or the address to the user; a form or address that is not supported is declined with a note."""
        import mcp_types as types

        async with self._lock, running.paused():
            try:
                if isinstance(params, types.ElicitRequestURLParams):
                    return types.ElicitResult(action=await visit(params.message, params.url, ask))
                answer = await fill_form(self._server, params.message, params.requested_schema, ask)
            except ValueError as problem:
                running.notes.append(f"[The server asked for input, which was declined: {problem}.]")
                return types.ElicitResult(action="decline")
        is_accepted = answer.action == "accept"
        return types.ElicitResult(action=answer.action, content=dict(answer.values) if is_accepted else None)
