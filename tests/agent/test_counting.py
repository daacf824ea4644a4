"""A prompt that may not fit is counted with the vocabulary, in a thread, before it is sent."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from qcode.protocol.events import TurnEvent
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome
from qcode.providers.tokens import TokenCounter
from tests.fakes.conversation import Model, Talk, ended, talk
from tests.fakes.scripted import text_reply

WINDOW = 26_000


class Watched(TokenCounter):
    """The real counter; it records the threads that load it and count."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded_in: list[threading.Thread] = []
        self.counted_in: list[threading.Thread] = []

    def load(self) -> bool:
        self.loaded_in.append(threading.current_thread())
        return super().load()

    def count(self, text: str) -> int | None:
        self.counted_in.append(threading.current_thread())
        return super().count(text)


def counting(base: Path, counter: TokenCounter | None) -> Talk:
    model = Model(facts=ModelFacts(context_window=WINDOW), tokens=None if counter is None else lambda: counter)
    return talk(base, text_reply("Read."), model=model)


def play(it: Talk, prompt: str) -> list[TurnEvent]:
    return asyncio.run(it.play(prompt))


def test_a_short_prompt_needs_no_vocabulary(tmp_path: Path) -> None:
    counter = Watched()
    it = counting(tmp_path, counter)
    assert ended(play(it, "hello")).outcome is Outcome.END_TURN
    assert (counter.loaded_in, counter.counted_in) == ([], [])


def test_a_prompt_of_long_words_fits_although_its_bytes_say_otherwise(tmp_path: Path) -> None:
    prompt = "antidisestablishmentarianism " * 3_350
    assert len(prompt) // 4 > WINDOW - 2_048
    (tmp_path / "estimated").mkdir()
    assert ended(play(counting(tmp_path / "estimated", None), prompt)).outcome is Outcome.ERROR
    counter = Watched()
    it = counting(tmp_path, counter)
    assert ended(play(it, prompt)).outcome is Outcome.END_TURN
    assert threading.main_thread() not in counter.loaded_in
    assert threading.main_thread() not in counter.counted_in, "what was counted ahead is not counted again"


def test_a_prompt_of_short_tokens_is_not_sent_with_a_cap_it_leaves_no_room_for(tmp_path: Path) -> None:
    prompt = "q;7~" * 4_000
    it = counting(tmp_path, Watched())
    play(it, prompt)
    (request,) = it.provider.requests
    assert request.max_tokens < 8_000
    assert request.max_tokens + 16_000 <= WINDOW
