"""Names of sessions: made by the small model beside the turns, kept unless the person names the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from qcode.agent.options import Options
from qcode.agent.reports import TurnUsage
from qcode.agent.sessions.library import title_of
from qcode.protocol.errors import ErrorKind
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Price, Usage
from tests.fakes.conversation import Model, Talk, talk
from tests.fakes.scripted import Hang, ScriptedProvider, fails, text_reply

PRICE = Price(Decimal(1), Decimal(10))


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Fix the parser of dates", "Fix the parser of dates"),
        ('\n  "**Title: Fix the parser.**"\nIt is about dates.', "Fix the parser"),
        ("<think>\nshort?\n</think>\n# Fix the parser", "Fix the parser"),
        ("Fix\x1b]0;owned\x07 the\u202e \x9b31mparser\u200b", "Fix the parser\u200b"),
        ("日期解析器的修复", "日期解析器的修复"),
        ("I would be glad to help you with that; first tell me which parser you mean", ""),
        ("x" * 100, "x" * 59 + "…"),
        (" \n``` \n", ""),
    ],
)
def test_a_name_is_one_clean_line(answer: str, title: str) -> None:
    assert title_of(answer) == title


def named_by(
    base: Path, *replies: object, is_kept: bool = True, model: str = "m", own: str = ""
) -> tuple[Talk, ScriptedProvider]:
    """Return a conversation that answers twice, and the small model beside it."""
    small = ScriptedProvider(replies, name="tiny")  # type: ignore[arg-type]  # builders of the fake give its own steps
    it = talk(
        base,
        text_reply("The parser reads dates."),
        text_reply("More."),
        model=Model(provider=own),
        small=(small, Model(model, facts=ModelFacts(price=PRICE))),
        options=Options(keeps_session=is_kept),
    )
    return it, small


def make(it: Talk, between: Callable[[], None] = lambda: None) -> TurnUsage | None:
    async def play() -> TurnUsage | None:
        await it.play("Fix the dates in parse.py, please")
        between()
        used = await it.sessions.make_title()
        assert await it.sessions.make_title() is None
        await it.conversation.close()
        return used

    return asyncio.run(play())


def stored_title(it: Talk) -> str:
    (summary,) = (one for one in it.store.summaries() if one.session_id == it.conversation.session_id)
    return summary.title


def test_the_small_model_names_the_session_and_its_cost_is_counted(tmp_path: Path) -> None:
    it, small = named_by(tmp_path, text_reply("Dates in the parser", usage=Usage(100, 10)))
    used = make(it)
    assert it.sessions.title == "Dates in the parser"
    assert stored_title(it) == "Dates in the parser"
    assert used is not None
    assert (used.model, used.usage, used.cost) == ("tiny/m", Usage(100, 10), Decimal("0.0002"))
    assert it.conversation.usage()[-1] == used
    (request,) = small.requests
    assert "Fix the dates in parse.py" in request.messages[0].text
    assert "The parser reads dates." in request.messages[0].text
    assert (len(request.messages), request.tools, request.max_tokens) == (1, (), 2_000)


def test_what_the_person_called_it_stays(tmp_path: Path) -> None:
    it, small = named_by(tmp_path, text_reply("Dates in the parser"))
    assert make(it, lambda: it.sessions.rename(it.conversation.session_id, "Mine")) is None
    assert it.sessions.title == "Mine"
    assert small.requests == []


def test_a_name_given_while_the_model_thinks_stays(tmp_path: Path) -> None:
    hang = Hang()
    it, _ = named_by(tmp_path, (hang, *text_reply("Dates in the parser")))

    async def play() -> None:
        await it.play("Fix the dates")
        making = asyncio.ensure_future(it.sessions.make_title())
        await hang.reached.wait()
        it.sessions.rename(it.conversation.session_id, "Mine")
        hang.go.set()
        assert await making is not None
        assert it.sessions.title == "Mine"
        await it.conversation.close()

    asyncio.run(play())


def test_a_session_that_was_left_meanwhile_gets_no_name_and_nor_does_the_next(tmp_path: Path) -> None:
    hang = Hang()
    it, _ = named_by(tmp_path, (hang, *text_reply("Dates in the parser")))

    async def play() -> None:
        await it.play("Fix the dates")
        making = asyncio.ensure_future(it.sessions.make_title())
        await hang.reached.wait()
        it.conversation.clear()
        hang.go.set()
        await making
        assert it.sessions.title == ""
        await it.conversation.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "reply",
    [
        fails(ErrorKind.RATE_LIMIT),
        text_reply("Dates in the", stop=StopReason.MAX_TOKENS),
        text_reply("I cannot do that.", stop=StopReason.REFUSAL),
        text_reply(""),
    ],
    ids=["fails", "cut", "refused", "empty"],
)
def test_without_a_name_the_first_words_stand(reply: object, tmp_path: Path) -> None:
    it, small = named_by(tmp_path, reply)
    assert make(it) is not None
    assert it.sessions.title == "Fix the dates in parse.py, please"
    assert len(small.requests) == 1


def test_nothing_is_asked_where_no_session_is_kept_no_model_set_or_the_demo_answers(tmp_path: Path) -> None:
    it, small = named_by(tmp_path, text_reply("x"), is_kept=False)
    assert make(it) is None
    assert small.requests == []
    (tmp_path / "b").mkdir()
    plain = talk(tmp_path / "b", text_reply("Hello."))
    assert make(plain) is None
    (tmp_path / "c").mkdir()
    it, small = named_by(tmp_path / "c", text_reply("x"), own="demo")
    assert make(it) is None
    assert small.requests == []
