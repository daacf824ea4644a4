"""A prompt that may not fit is counted with the vocabulary, in a thread, before it is sent."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

from qcode.agent.sessions.session import ReportedCount
from qcode.engine.effects import Compact
from qcode.protocol.events import TurnEvent
from qcode.protocol.messages import user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome
from qcode.protocol.usage import Usage
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


def test_short_prompt_needs_no_vocabulary(tmp_path: Path) -> None:
    counter = Watched()
    it = counting(tmp_path, counter)
    assert ended(play(it, "hello")).outcome is Outcome.END_TURN
    assert (counter.loaded_in, counter.counted_in) == ([], [])


def test_prompt_of_long_words_fits_despite_its_bytes(tmp_path: Path) -> None:
    prompt = "antidisestablishmentarianism " * 3_350
    assert len(prompt) // 4 > WINDOW - 2_048
    (tmp_path / "estimated").mkdir()
    assert ended(play(counting(tmp_path / "estimated", None), prompt)).outcome is Outcome.ERROR
    counter = Watched()
    it = counting(tmp_path, counter)
    assert ended(play(it, prompt)).outcome is Outcome.END_TURN
    assert threading.main_thread() not in counter.loaded_in
    assert threading.main_thread() not in counter.counted_in, "what was counted ahead is not counted again"


def test_prompt_of_short_tokens_lowers_the_cap_to_fit(tmp_path: Path) -> None:
    prompt = "q;7~" * 4_000
    it = counting(tmp_path, Watched())
    play(it, prompt)
    (request,) = it.provider.requests
    assert request.max_tokens < 8_000
    assert request.max_tokens + 16_000 <= WINDOW


def resumed(base: Path, counter: TokenCounter, *, model: str = "m") -> Talk:
    """Continue a session of 60 kB, whose only reply said that the prompt had 15,000 tokens."""
    first = talk(base, text_reply("Read.", usage=Usage(input=15_000, output=10)), model=WIDE)
    play(first, "words and more words " * 3_000)
    asyncio.run(first.conversation.close())
    second = replace(WIDE, name=model, tokens=lambda: counter)
    return talk(base, text_reply("More."), model=second, resumes=first.conversation.session_id)


WIDE = Model(facts=ModelFacts(context_window=WINDOW))


def test_resumed_long_session_needs_no_vocabulary(tmp_path: Path) -> None:
    counter = Watched()
    it = resumed(tmp_path, counter)
    assert ended(play(it, "hello")).outcome is Outcome.END_TURN
    assert (counter.loaded_in, counter.counted_in) == ([], [])
    assert it.provider.requests[0].max_tokens == 8_000


def test_session_resumed_with_another_model_is_counted_again(tmp_path: Path) -> None:
    counter = Watched()
    it = resumed(tmp_path, counter, model="other")
    assert ended(play(it, "hello")).outcome is Outcome.END_TURN
    assert counter.loaded_in


def test_count_from_before_a_compaction_is_not_used(tmp_path: Path) -> None:
    it = resumed(tmp_path, Watched())
    transcript = it.conversation.transcript
    assert transcript.last_reported_count("scripted/m") == ReportedCount(tuple(transcript.messages[:1]), 15_000, 10)
    transcript.compact(Compact((user("A summary."), 1)))
    assert transcript.last_reported_count("scripted/m") is None
