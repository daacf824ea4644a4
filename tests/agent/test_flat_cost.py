"""The work of a turn does not grow with the conversation: function calls are counted, which no busy machine changes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from types import CodeType, FrameType

import pytest

import qcode
from qcode.agent.models.limits import LENGTHS_NAME, LimitStore
from qcode.engine.caps import MAX_KEPT_LENGTHS
from tests.fakes.conversation import open_conversation
from tests.fakes.replies import call
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import ReceivedRequest, Turn
from tests.providers.clients import provider_at

TURNS, WINDOW = 75, 15
FOLDER = f"{Path(qcode.__file__).parent}{os.sep}"
PROTOCOLS = (
    "openai",
    *(pytest.param(name, marks=pytest.mark.broad) for name in ("openai-responses", "anthropic", "gemini")),
)


def scripted(asked: ReceivedRequest) -> Turn:
    """Call a tool for each prompt, then answer."""
    last = asked.messages[-1]
    if last.text.startswith("look"):
        return Turn(text=("I look. ",), calls=(call("ls", f"c{len(asked.messages)}", path="."),))
    return Turn(text=("There is ", "nothing. " * 20))


def fill_lengths(state_dir: Path) -> None:
    """Keep as many lengths of replies as are kept at most, which would otherwise take 200 replies."""
    ((host, models),) = json.loads((state_dir / LENGTHS_NAME).read_text()).items()
    for model in models:
        for _ in range(MAX_KEPT_LENGTHS):
            LimitStore(state_dir).record_reply_length(host, model, 10)


def is_of_qcode(code: CodeType | str) -> bool:
    """Return whether a function belongs to the product; a function written in C is only a name."""
    return isinstance(code, CodeType) and code.co_filename.startswith(FOLDER)


class CallCount:
    """Counts the calls of functions of qcode in this thread, which the fake server does not share.

    `cProfile` counts those of all threads from Python 3.12 on.
    """

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> CallCount:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and is_of_qcode(frame.f_code):
            self.calls += 1


@pytest.mark.broad
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_turn_calls_no_more_functions_after_many_turns(protocol: ProtocolName, tmp_path: Path) -> None:
    with FakeServer(protocol, scripted) as server:
        url = server.base_url.removesuffix("/v1")
        staged = open_conversation(tmp_path, provider_at(protocol, url), mode="bypass")

        async def window(start: int) -> int:
            with CallCount() as counted:
                for number in range(start, start + WINDOW):
                    async for _ in staged.conversation.submit(f"look {number}"):
                        pass
            return counted.calls

        async def turns() -> tuple[int, int]:
            await window(0)
            fill_lengths(tmp_path / "state")
            windows = [await window(start) for start in range(WINDOW, TURNS, WINDOW)]
            await staged.conversation.close()
            return windows[0], windows[-1]

        early, late = asyncio.run(turns())
        assert server.complaints == []
        assert len(server.requests) == 2 * TURNS
    assert 1_000 < late <= 1.05 * early
