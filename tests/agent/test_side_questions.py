"""Side questions: answered from the current conversation, recovered like any reply, counted, and not part of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.models.side_questions import SideQuestions
from qcode.agent.options import Options
from qcode.agent.usage import EarlierTurns, TurnUsage
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.protocol.messages import ToolResult
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome, TextDelta
from qcode.protocol.usage import Price, Usage
from tests.fakes.conversation import Model, Talk, talk
from tests.fakes.scripted import Hang, begun, call_reply, cut_text, fails, text_reply

FACTS = ModelFacts(price=Price(Decimal(10), Decimal(100)))
PRICED = Model(facts=FACTS)


class Beside:
    """The side questions of a conversation; `used` is what was counted, `shown` the text of the last answer."""

    def __init__(self, it: Talk, max_budget_usd: Decimal | None = None) -> None:
        self._asides = SideQuestions(it.conversation, max_budget_usd)
        self.used: list[TurnUsage] = []
        self.shown = ""

    async def __call__(self, question: str = "What is it?") -> list[TurnEvent]:
        events: list[TurnEvent] = []
        self.shown = ""
        async with aclosing(self._asides.ask(question, on_usage=self.used.append)) as asked:
            async for event in asked:
                events.append(event)
                if isinstance(event, TextDelta):
                    self.shown += event.text
        return events


def ended(events: list[TurnEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


def test_side_question_sees_the_conversation_and_does_not_change_it(tmp_path: Path) -> None:
    it = talk(
        tmp_path,
        text_reply("A parser."),
        text_reply("About dates.", usage=Usage(1_000, 50)),
        text_reply("More."),
        model=PRICED,
    )
    beside = Beside(it)

    async def play() -> None:
        await it.play("Explain parse.py")
        before, stored = it.conversation.messages, it.conversation.session.history.all_numbers()
        file = it.store.load(it.conversation.session_id)
        assert ended(await beside("About what?")).text == "About dates."
        assert it.conversation.messages == before
        assert it.conversation.session.history.all_numbers() == stored
        assert it.store.load(it.conversation.session_id).messages == file.messages
        await it.play("Continue")
        await it.conversation.close()

    asyncio.run(play())
    first, aside, later = it.provider.requests
    assert not aside.allows_calls
    assert aside.messages[:2] == (first.messages[0], later.messages[1])
    assert aside.messages[2].text.startswith("About what?\n\n(Side question.")
    assert (aside.system, aside.tools) == (first.system, first.tools)
    assert "About what?" not in str(later.messages)
    assert "About dates." not in str(later.messages)


def test_usage_of_an_aside_is_counted(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("Dates.", usage=Usage(1_000, 50)), model=PRICED)
    beside = Beside(it)
    asyncio.run(beside("About what?"))
    (used,) = beside.used
    assert (used.prompt, used.usage, used.cost) == ("/btw About what?", Usage(1_000, 50), Decimal("0.015"))
    assert it.conversation.usage() == (used,)


def test_usage_of_side_questions_is_the_same_after_a_resume(tmp_path: Path) -> None:
    hang = Hang()
    it = talk(
        tmp_path,
        text_reply("Early.", usage=Usage(10, 1)),
        (*begun("Working "), hang, *text_reply("done.", usage=Usage(1_000, 50))[1:]),
        text_reply("Four files.", usage=Usage(20, 2)),
        text_reply("Five.", usage=Usage(30, 3)),
        text_reply("Yes.", usage=Usage(40, 4)),
        model=PRICED,
    )
    beside = Beside(it)

    async def play() -> None:
        await beside("Before?")
        turn = asyncio.ensure_future(it.play("Change the files"))
        await hang.reached.wait()
        await beside("How many?")
        hang.go.set()
        await turn
        await beside("And now?")
        await it.play("Again")
        await it.conversation.close()

    asyncio.run(play())
    history = it.store.load(it.conversation.session_id).history
    rows = EarlierTurns(history).usage({"scripted/m": FACTS.price}.get)
    live = it.conversation.usage()
    assert [row.prompt for row in live] == [
        "/btw Before?", "/btw How many?", "Change the files", "/btw And now?", "Again",
    ]  # fmt: skip
    assert [(row.prompt, row.model, row.usage, row.cost, row.api_calls) for row in rows] == [
        (row.prompt, row.model, row.usage, row.cost, row.api_calls) for row in live
    ]
    for turn, used in zip(rows, live, strict=True):
        assert turn.by_model == used.by_model


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_usage_of_an_unanswered_side_question_is_the_same_after_a_resume(end: str, tmp_path: Path) -> None:
    hang = Hang()
    steps = fails(ErrorKind.AUTH) if end == "failed" else (*begun("I th"), hang)
    it = talk(tmp_path, text_reply("Hello."), steps, model=PRICED)
    beside = Beside(it)

    async def play() -> None:
        await it.play("hi")
        asking = asyncio.ensure_future(beside("How many?"))
        if end == "cancelled":
            await hang.reached.wait()
            asking.cancel()
        await asyncio.wait([asking])
        await it.conversation.close()

    asyncio.run(play())
    history = it.store.load(it.conversation.session_id).history
    rows = EarlierTurns(history).usage({"scripted/m": FACTS.price}.get)
    live = it.conversation.usage()
    assert [row.prompt for row in live] == ["hi", "/btw How many?"]
    assert [(row.prompt, row.model, row.api_calls) for row in rows] == [
        (row.prompt, row.model, row.api_calls) for row in live
    ]


def test_truncated_aside_is_escalated_and_continued(tmp_path: Path) -> None:
    it = talk(
        tmp_path,
        cut_text("The first half of it, "),
        cut_text("The first half of it, more, "),
        text_reply("and the end."),
    )
    beside = Beside(it)
    events = asyncio.run(beside())
    assert ended(events).text == "The first half of it, more, and the end."
    assert it.provider.caps[0] < it.provider.caps[1]
    assert [request.allows_calls for request in it.provider.requests] == [False] * 3
    (used,) = beside.used
    assert (used.api_calls.initial, used.api_calls.escalations, used.api_calls.continuations) == (1, 1, 1)
    assert sum(it.conversation.metrics.continuations.values()) == 1


def test_failed_aside_reports_its_error_and_the_conversation_continues(tmp_path: Path) -> None:
    it = talk(tmp_path, fails(ErrorKind.AUTH), text_reply("Hello."))

    async def play() -> None:
        end = ended(await Beside(it)())
        assert end.outcome == Outcome.ERROR
        assert end.error is not None
        assert end.error.kind == ErrorKind.AUTH
        assert ended(await it.play("hi")).text == "Hello."
        await it.conversation.close()

    asyncio.run(play())


def test_call_in_an_aside_is_never_executed(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("write", {"path": "a.txt", "content": "x"}), text_reply("I cannot."), mode="bypass")
    assert ended(asyncio.run(Beside(it)())).text == "I cannot."
    assert not (it.work / "a.txt").exists()
    (result,) = it.provider.requests[1].messages[-1].blocks
    assert isinstance(result, ToolResult)
    assert "without tools" in result.content


def test_side_question_ends_after_two_replies_that_only_call(tmp_path: Path) -> None:
    writes = [call_reply("write", {"path": "a.txt", "content": "x"}, call_id=f"c{number}") for number in range(3)]
    it = talk(tmp_path, *writes, mode="bypass")
    assert ended(asyncio.run(Beside(it)())).outcome == Outcome.MAX_TURN_REQUESTS
    assert len(it.provider.requests) == 2
    assert not (it.work / "a.txt").exists()


def test_side_question_during_a_turn_is_answered_beside_it(tmp_path: Path) -> None:
    hang = Hang()
    it = talk(tmp_path, (*begun("Working "), hang, *text_reply("done.")[1:]), text_reply("Four files."))
    beside = Beside(it)

    async def play() -> None:
        turn = asyncio.ensure_future(it.play("Change the files"))
        await hang.reached.wait()
        assert ended(await beside("How many?")).text == "Four files."
        assert it.conversation.is_busy
        hang.go.set()
        assert ended(await turn).text == "Working done."
        assert [message.role for message in it.conversation.messages] == ["user", "assistant"]
        await it.conversation.close()

    asyncio.run(play())
    roles = [message.role for message in it.provider.requests[1].messages]
    assert roles == ["user", "assistant", "user"]
    assert [used.prompt for used in it.conversation.usage()] == ["/btw How many?", "Change the files"]


def test_side_question_during_a_call_says_that_the_call_is_running(tmp_path: Path) -> None:
    it = talk(
        tmp_path, call_reply("shell", {"command": "read x < pipe"}), text_reply("Waiting."), text_reply("Done."),
        mode="bypass",
    )  # fmt: skip
    pipe = it.work / "pipe"

    async def play() -> None:
        import os

        os.mkfifo(pipe)
        turn = asyncio.ensure_future(it.play("Wait"))
        while not it.conversation.background.calls:
            await asyncio.sleep(0)
        assert ended(await Beside(it)("What runs?")).text == "Waiting."
        await asyncio.to_thread(pipe.write_text, "x\n")
        assert ended(await turn).text == "Done."
        await it.conversation.close()

    asyncio.run(play())
    result, question = it.provider.requests[1].messages[-1].blocks
    assert isinstance(result, ToolResult)
    assert result.content == "(This call is still running or waits for approval.)"
    assert "Interrupted" not in str(it.provider.requests[1].messages)
    assert "What runs?" in str(question)


def test_closed_aside_stops_its_request_and_counts_its_usage(tmp_path: Path) -> None:
    hang = Hang()
    it = talk(tmp_path, (*begun("I th"), hang), text_reply("Hello."), model=PRICED)
    beside = Beside(it)

    async def play() -> None:
        asking = asyncio.ensure_future(beside())
        await hang.reached.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert it.provider.broken_off == 1
        assert beside.used[0].api_calls.initial == 1
        assert ended(await it.play("hi")).text == "Hello."
        await it.conversation.close()

    asyncio.run(play())


def priced_turn(tmp_path: Path, *replies: Any, budget: Decimal) -> Talk:
    return talk(tmp_path, *replies, model=PRICED, options=Options(max_budget_usd=budget))


def test_money_of_an_aside_counts_in_the_limit_of_the_running_turn(tmp_path: Path) -> None:
    hang, budget = Hang(), Decimal("0.02")
    it = priced_turn(
        tmp_path,
        (hang, *call_reply("ls", {}, usage=Usage(100, 10))),
        text_reply("Yes.", usage=Usage(1_000, 100)),
        budget=budget,
    )

    async def play() -> None:
        turn = asyncio.ensure_future(it.play("List"))
        await hang.reached.wait()
        assert ended(await Beside(it, budget)()).text == "Yes."
        hang.go.set()
        end = ended(await turn)
        assert end.outcome == Outcome.MAX_TURN_REQUESTS
        assert end.cost == Decimal("0.002")
        await it.conversation.close()

    asyncio.run(play())


def test_side_question_is_refused_if_the_running_turn_has_spent_its_money(tmp_path: Path) -> None:
    hang, budget = Hang(), Decimal("0.001")
    spent = call_reply("shell", {"command": "read x < pipe"}, usage=Usage(100, 10))
    it = priced_turn(tmp_path, (*spent[:-1], hang, spent[-1]), budget=budget)

    async def play() -> None:
        turn = asyncio.ensure_future(it.play("List"))
        await hang.reached.wait()
        running = it.conversation.turn
        assert running is not None
        running.tally.ledger.charge(Decimal("0.005"))
        with pytest.raises(ValueError, match="cost limit of this turn is reached"):
            await Beside(it, budget)()
        it.conversation.cancel()
        hang.go.set()
        await turn
        await it.conversation.close()

    asyncio.run(play())
    assert len(it.provider.requests) == 1
