"""Fallback models over several turns of one conversation, with the clock of the test."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from qcode.agent.agent import Agent
from qcode.agent.models.client import Clients
from qcode.agent.models.fallback import FallbackModels, FirstModel, NextModel
from qcode.agent.options import Options, RunContext
from qcode.engine.effects import SwitchModel
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import ModelFellBack, Notice, TurnEnded, TurnEvent
from tests.fakes.server import FakeServer
from tests.fakes.turns import Turn, refused

KEY = "k" * 20
END = 1_000_000
LIMIT = ErrorInfo(ErrorKind.RATE_LIMIT, "limit", 429, None, 600, END)


def context_in(base: Path, config: str) -> RunContext:
    (base / "home").mkdir()
    (base / "work").mkdir()
    (base / "home" / "config.toml").write_text(config)
    env = {"HOME": str(base), "QCODE_HOME": str(base / "home"), "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    return RunContext.read(Options(model="openai/m", cwd=base / "work"), env, is_attended=True)


def test_turn_after_a_fallback_begins_with_the_first_model_again(tmp_path: Path) -> None:
    first_host = [refused(529, "Overloaded"), Turn(text="back again")]
    with FakeServer("openai", first_host) as first, FakeServer("anthropic", [Turn(text="taken over")]) as second:
        config = (
            f'fallback = ["anthropic/n"]\n[network]\nmax_retries = 0\n'
            f'[providers.openai]\nbase_url = "{first.base_url}"\n'
            f'[providers.anthropic]\nbase_url = "{second.base_url}"\n'
        )

        async def run() -> list[list[TurnEvent]]:
            async with Agent.open(context_in(tmp_path, config)) as agent:
                conversation = agent.conversation
                turns = [[event async for event in conversation.submit(prompt)] for prompt in ("one", "two")]
                assert conversation.model == "openai/m"
                return turns

        one, two = asyncio.run(run())
        # The second host's reply is part of the history that the first one gets.
        assert "taken over" in [message.text for message in first.requests[1].messages]
    assert [type(event) for event in one].count(ModelFellBack) == 1
    assert not any(isinstance(event, ModelFellBack) for event in two)
    ends = [event.text for event in (*one, *two) if isinstance(event, TurnEnded)]
    assert ends == ["taken over", "back again"]


@pytest.mark.parametrize(("now", "uses_other"), [(END - 1, True), (END, False)])
def test_model_is_not_asked_before_its_limit_ends(now: int, uses_other: bool, tmp_path: Path) -> None:
    async def run() -> None:
        async with Agent.open(context_in(tmp_path, 'fallback = ["anthropic/n"]\n')) as agent:
            clients = Clients(agent.context, agent.prompts)
            own = clients.client_named("openai/m")
            models = FallbackModels(clients, agent.context.settings, clock=lambda: now)
            assert models.begin_turn(own) == FirstModel(own)
            following = await models.next_after(own, SwitchModel(LIMIT))
            other = following.client
            assert other is not None
            assert (other.name, following.skipped) == ("anthropic/n", ())
            first = models.begin_turn(own)
            used, events = first.client, first.events
            assert used is (other if uses_other else own)
            assert events == ((ModelFellBack("openai/m", "anthropic/n", None),) if uses_other else ())

    asyncio.run(run())


def test_model_whose_own_limit_has_not_ended_is_skipped_with_a_line(tmp_path: Path) -> None:
    async def run() -> None:
        async with Agent.open(context_in(tmp_path, 'fallback = ["anthropic/n", "nowhere/x"]\n')) as agent:
            clients = Clients(agent.context, agent.prompts)
            own = clients.client_named("openai/m")
            models = FallbackModels(clients, agent.context.settings, clock=lambda: END - 1)
            models.begin_turn(own)
            other = (await models.next_after(own, SwitchModel(LIMIT))).client
            assert other is not None
            await models.next_after(other, SwitchModel(LIMIT))
            first = models.begin_turn(own)
            used, events = first.client, first.events
            assert used is own
            texts = [event.text for event in events if isinstance(event, Notice)]
            assert texts[0] == "Fallback model anthropic/n skipped: its limit has not ended."
            assert texts[1].startswith("Fallback model nowhere/x skipped: ")

    asyncio.run(run())


def test_limit_that_ends_first_is_waited_for_and_its_model_is_next(tmp_path: Path) -> None:
    now = END - 600

    async def run() -> None:
        async with Agent.open(context_in(tmp_path, 'fallback = ["anthropic/n"]\n')) as agent:
            clients = Clients(agent.context, agent.prompts)
            own = clients.client_named("openai/m")
            models = FallbackModels(clients, agent.context.settings, clock=lambda: now)
            models.begin_turn(own)
            other = (await models.next_after(own, SwitchModel(LIMIT))).client
            assert other is not None
            later = SwitchModel(replace(LIMIT, resets_at=END + 50))
            assert await models.next_after(other, later) == NextModel(None)
            assert models.limit == replace(LIMIT, retry_after=600, limited_model="openai/m")
            returned = (await models.next_after(other, SwitchModel(later.error, has_waited=True))).client
            assert returned is own
            assert models.limit is None

    asyncio.run(run())
