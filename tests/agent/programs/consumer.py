"""A program that uses the library, as strict type checkers see it: `test_types` checks and runs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import qcode
from qcode import (
    Agent,
    Allow,
    Approval,
    Decision,
    Deny,
    ExitCode,
    FunctionTool,
    ModelError,
    Options,
    Result,
    TextDelta,
    ToolApproval,
    TurnStream,
    UsageError,
    tool,
)
from qcode.testing import Call, Scripted

ANSWER = '{"score": 3}'


@dataclass
class Review:
    score: int


class Row(TypedDict):
    score: int


@tool
def ticket(number: int) -> str:
    """Return the text of a ticket."""
    return f"ticket {number}"


async def approve(request: Approval) -> Decision:
    match request:
        case ToolApproval(tool=name, input=given):
            assert_type(name, str)
            return Allow("session") if given else Deny("no")
        case _:
            return Deny()


def one_question() -> None:
    review = qcode.run("Review", output=Review, model=Scripted([ANSWER]), no_session=True)
    assert_type(review, Result[Review])
    assert review.output.score == 3
    row = qcode.run("Review", output=Row, model=Scripted([ANSWER]), no_session=True)
    assert_type(row.output, Row)
    unchecked = qcode.run("Review", output=Review, check=False, model=Scripted([ANSWER]), no_session=True)
    assert_type(unchecked.output, Review | None)
    plain = qcode.run("Hello", model=Scripted(["Hi."]), no_session=True)
    assert_type(plain, Result[None])
    assert_type(plain.text, str)
    schema = qcode.run("Review", output={"type": "object"}, model=Scripted([ANSWER]), no_session=True)
    assert_type(schema, Result[Any])


async def several_turns() -> None:
    assert_type(ticket, FunctionTool)
    assert_type(ticket.spec.name, str)
    call = Call("ticket", number=7)
    assert_type(call.arguments, str)
    model = Scripted([[call], "Done.", ANSWER])
    async with Agent.open(Options(model=model, no_session=True), approve=approve, tools=[ticket]) as agent:
        async with agent.stream("Look") as turn:
            assert_type(turn, TurnStream)
            texts = [event.text async for event in turn if isinstance(event, TextDelta)]
        assert_type(texts, list[str])
        review = await agent.run("Review", output=Review, max_turns=3)
        assert_type(review, Result[Review])
        try:
            await agent.run("more than the script has")
        except ModelError as error:
            assert_type(error.exit_code, ExitCode)
            assert_type(error.status, int | None)
            assert_type(error.retry_after, float | None)
            assert_type(error.is_transient, bool)
        try:
            await agent.run("Hello", max_turns=0)
        except UsageError as error:
            assert_type(error.exit_code, ExitCode)


if __name__ == "__main__":
    one_question()
    asyncio.run(several_turns())
