"""Cost of the engine, as ratios of CPU time measured in one run: it must stay linear, and small beside parsing."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable

import pytest

from qcode.engine.counting import PromptCounter
from qcode.engine.effects import TurnSettings, UserSubmitted
from qcode.engine.model_facts import KnownModel
from qcode.engine.reply.repetition import RepetitionDetector
from qcode.engine.reply.seam import Seam
from qcode.engine.turn import Turn
from qcode.protocol.messages import user
from qcode.protocol.reply import ReplyEvent
from qcode.providers.openai.chat import ChatDecoder
from qcode.providers.sse import SseParser
from qcode.text.json import Json, JsonObject
from tests.engine.play import TOOLS

pytestmark = pytest.mark.perf

CHUNKS = 12_500
WORDS = ("The model says ", "something, then ", "a little more: ", "`code` 漢字 🙂 ", "and a full line.\n")


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Return the least CPU time of several runs, in seconds."""
    times = []
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def tell(what: str, less: float, more: float) -> None:
    sys.stdout.write(f"\n{what}: 100 kB {less * 1000:.1f} ms, 1 MB {more * 1000:.1f} ms, x{more / less:.1f}")


def prose(size: int) -> str:
    lines: list[str] = []
    length = number = 0
    while length < size:
        number += 1
        lines.append(f"Line {number} says {number * 7919 % 1000} and something of its own.\n")
        length += len(lines[-1])
    return "".join(lines)[:size]


def clean(before: str, continuation: str, piece: int = 16) -> int:
    seam = Seam(before)
    size = sum(len(seam.feed(continuation[at : at + piece])) for at in range(0, len(continuation), piece))
    return size + len(seam.flush())


CASES: dict[str, Callable[[str], tuple[str, str]]] = {
    "nothing replayed": lambda text: (text[: len(text) // 2], text[len(text) // 2 :]),
    "all replayed": lambda text: (text, text + "The end."),
    "replayed and then another way": lambda text: (text, text[: len(text) - 40] + "Something else entirely."),
    "the tail replayed": lambda text: (text, text[-3_900:] + text),
    "one line": lambda text: ("```\nx", "```" + text.replace("\n", " ")),
    "blanks": lambda text: (text, " " * len(text)),
    "one character": lambda text: ("=" * len(text), "=" * len(text)),
}


@pytest.mark.parametrize("case", CASES)
def test_seam_removal_is_linear(case: str) -> None:
    small, large = CASES[case](prose(100_000)), CASES[case](prose(1_000_000))
    less = best_of(5, lambda: clean(*small))
    more = best_of(3, lambda: clean(*large))
    tell(f"seam, {case}", less, more)
    assert more <= 12 * less


def watch(text: str, *, is_arguments: bool) -> None:
    detector = RepetitionDetector(is_arguments=is_arguments)
    for at in range(0, len(text), 16):
        assert detector.add(text[at : at + 16]) is None


NEARLY_REPEATED: dict[str, str] = {
    "one long line": "".join(f"{number} " for number in range(3_000)),
    "short lines": "".join(f"{number % 97}\n" for number in range(6_000)),
    "empty lines": ("\n" * 1_900 + "x\n") * 6,
    "a period just too long": "".join(chr(0x4E00 + index) for index in range(201)) * 60,
    "a line repeated almost often enough": ("The same line, over and over again, and then not.\n" * 39 + "x\n") * 6,
    "a fence never closed": "```py\n" + ("The same line, over and over again.\n" * 300 + "x\n"),
}


@pytest.mark.parametrize("is_arguments", [False, True])
@pytest.mark.parametrize("case", NEARLY_REPEATED)
def test_repetition_detection_is_linear(case: str, is_arguments: bool) -> None:
    text = NEARLY_REPEATED[case]
    small, large = ((text * (size // len(text) + 1))[:size] for size in (100_000, 1_000_000))
    less = best_of(5, lambda: watch(small, is_arguments=is_arguments))
    more = best_of(3, lambda: watch(large, is_arguments=is_arguments))
    sys.stdout.write(
        f"\nrepetition, {case}: 100 kB {less * 1000:.1f} ms, 1 MB {more * 1000:.1f} ms, x{more / less:.1f}"
    )
    assert more <= 15 * less


def test_engine_costs_no_more_than_parsing_the_reply() -> None:
    stream = _stream()
    pieces = [stream[at : at + 1_400] for at in range(0, len(stream), 1_400)]
    parsing = best_of(7, lambda: _parsed(pieces))
    events = _events(_parsed(pieces))
    deciding = best_of(7, lambda: _decided(events))
    sys.stdout.write(f"\n{CHUNKS} chunks: parsed in {parsing:.3f} s, assembled and decided in {deciding:.3f} s")
    assert deciding <= parsing


def _stream() -> bytes:
    """Return a reply of `CHUNKS` chunks as a Chat Completions server sends it."""
    base: JsonObject = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    frames: list[Json] = []
    for number in range(CHUNKS):
        delta: Json = {"content": f"{number % 997} {WORDS[number % len(WORDS)]}"}
        frames.append({**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]})
    frames.append({**base, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]})
    return "".join(f"data: {json.dumps(frame, ensure_ascii=False)}\n\n" for frame in frames).encode()


def _parsed(pieces: list[bytes]) -> list[Json]:
    parser = SseParser()
    return [json.loads(event.data) for piece in pieces for event in parser.feed(piece)]


def _events(sent: list[Json]) -> list[ReplyEvent]:
    decoder = ChatDecoder()
    events = [event for item in sent if isinstance(item, dict) for event in decoder.feed(item)]
    return [*events, *decoder.finish()]


def _decided(events: list[ReplyEvent]) -> None:
    turn = Turn(TurnSettings("s", TOOLS), KnownModel("test", "m"), [], PromptCounter())
    turn.handle(UserSubmitted(user("go")))
    for event in events:
        turn.handle(event)
    assert turn.is_over
