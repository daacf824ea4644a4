"""The context window of a local server: one warning, requests that fit, and no delay."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from qcode.engine.model_facts import Learn, LearnedLimit
from qcode.protocol.events import Notice, TurnEvent, UsageUpdated
from qcode.protocol.reply import Outcome
from qcode.providers.local import WindowQuery
from tests.fakes.conversation import Model, Talk, ended, talk
from tests.fakes.scripted import text_reply
from tests.providers.loopback import Answer, Loopback, Stall
from tests.providers.test_local_windows import Server, listed, serving


def asking(base: Path, address: str, *replies: object) -> Talk:
    return talk(base, *replies, model=Model(window_query=WindowQuery("mine", address, "qwen3")))  # type: ignore[arg-type]  # builders of the fake give its own steps


def warnings(events: list[TurnEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]


def windows(events: list[TurnEvent]) -> set[int]:
    return {event.context_window for event in events if isinstance(event, UsageUpdated)}


def test_small_window_warns_once_and_every_request_fits(tmp_path: Path) -> None:
    server = Server({"/v1/models": listed("vllm", max_model_len=9_000)})

    async def main() -> None:
        async with serving(server):
            it = asking(tmp_path, server.url, text_reply("One."), text_reply("Two."))
            first, second = await it.play("hi"), await it.play("again")
            (warning,) = warnings(first)
            assert "9,000 tokens" in warning
            assert "--max-model-len" in warning
            assert warnings(second) == []
            assert windows(first) == windows(second) == {9_000}
            assert [request.max_tokens < 7_000 for request in it.provider.requests] == [True, True]
            assert server.asked == ["GET /v1/models"]

    asyncio.run(main())


def test_large_window_is_used_without_a_warning(tmp_path: Path) -> None:
    server = Server({"/v1/models": listed("vllm", max_model_len=65_536)})

    async def main() -> None:
        async with serving(server):
            it = asking(tmp_path, server.url, text_reply("One."))
            events = await it.play("hi")
            assert (warnings(events), windows(events)) == ([], {65_536})

    asyncio.run(main())


def test_current_window_of_the_server_overrides_a_learned_one(tmp_path: Path) -> None:
    server = Server({"/v1/models": listed("vllm", max_model_len=65_536)})

    async def main() -> None:
        async with serving(server):
            it = asking(tmp_path, server.url, text_reply("One."))
            it.conversation.learn(Learn(LearnedLimit("window", 40_000)))
            assert windows(await it.play("hi")) == {65_536}

    asyncio.run(main())


def test_turn_cancelled_during_the_window_request_ends_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with Loopback(Answer([Stall()])) as server:
            it = asking(tmp_path, f"{server.url}/v1", text_reply("never"))
            turn = asyncio.ensure_future(it.play("hi"))
            await server.is_stalling.wait()
            started = time.monotonic()
            it.conversation.cancel()
            assert ended(await turn).outcome is Outcome.CANCELLED
            assert time.monotonic() - started < 0.2

    asyncio.run(main())
