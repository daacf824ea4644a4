"""The fake host of a row: plays the steps in order, breaks streams at the given events, and records reported usage.

`reports` is computed from the sent events by the rules of each protocol, without a codec.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from qcode.protocol.usage import Usage
from tests.e2e.limits.row import AT_CAP, Step
from tests.fakes.server import ProtocolName, Wire, wire_of
from tests.fakes.turns import Faults, Frame, ReceivedRequest, Turn, refused

_SPLIT = 61
"""The number of bytes that are sent at a time, so that characters and lines are split."""


class Host:
    """A script for `FakeServer`."""

    def __init__(self, protocol: ProtocolName) -> None:
        self.protocol = protocol
        self.wire: Wire = wire_of(protocol)
        self.reports: list[Usage] = []
        """The usage that each answer reported."""
        self.overruns = 0
        """The number of requests for which no step was left."""
        self._steps: deque[Step] = deque()
        self._answered = 0

    @property
    def is_through(self) -> bool:
        """Whether all steps were played."""
        return not self._steps

    def plan(self, steps: Iterable[Turn | Step]) -> None:
        """Answer the next requests with these steps."""
        self._steps.extend(step if isinstance(step, Step) else Step(step) for step in steps)

    def __call__(self, asked: ReceivedRequest) -> Turn:
        if not self._steps:
            self.overruns += 1
            self.reports.append(Usage(0, 0))
            return refused(400, "nothing more is planned")
        step = self._steps.popleft()
        self._answered += 1
        turn = self._with_figures(step.turn, asked)
        if turn.refusal is not None:
            self.reports.append(Usage(0, 0))
            return turn
        frames = self.wire.frames(turn, asked)
        faults, sent = _faults(turn.faults, step, frames)
        self.reports.append(_reported(sent))
        return replace(turn, faults=faults)

    def _with_figures(self, turn: Turn, asked: ReceivedRequest) -> Turn:
        usage = turn.usage
        if usage is not None and usage.output == AT_CAP:
            usage = replace(usage, output=asked.cap)
        if self.protocol == "gemini":
            return replace(turn, usage=usage)
        calls = [replace(each, call_id=f"c{self._answered}n{number}") for number, each in enumerate(turn.calls)]
        return replace(turn, usage=usage, calls=calls)


def _faults(given: Faults, step: Step, frames: Sequence[Frame]) -> tuple[Faults, Sequence[Frame]]:
    """Return the faults of a step and the events that are sent before them."""
    faults = replace(given, split_every=_SPLIT)
    if step.how is None:
        return faults, frames
    if step.how == "end":
        return replace(faults, without_end=True), [frame for frame in frames if frame.part == "body"]
    count = _frames_through(step.after, frames)
    if step.how == "damage":
        return replace(faults, damaged=json.dumps(step.after, ensure_ascii=False)), frames[: count - 1]
    if step.how == "drop":
        faults = replace(faults, cut_after=count)
    elif step.how == "error":
        faults = replace(faults, error_after=count)
    else:
        faults = replace(faults, stall_after=count)
    return faults, frames[:count]


def _frames_through(text: str, frames: Sequence[Frame]) -> int:
    """Return the number of events up to the one that contains `text`, 0 for an empty text."""
    if not text:
        return 0
    expected = json.dumps(text, ensure_ascii=False)
    return next(number for number, frame in enumerate(frames) if expected in frame.data) + 1


def _reported(frames: Sequence[Frame]) -> Usage:
    """Return the usage that these events report together: later counts replace earlier ones, missing ones are 0."""
    counts: dict[str, Any] = {}
    for frame in frames:
        sent = json.loads(frame.data) if frame.data.startswith("{") else {}
        counts |= sent.get("usage") or sent.get("usageMetadata") or (sent.get("message") or {}).get("usage") or {}
    inputs = ("prompt_tokens", "promptTokenCount", "input_tokens", *_CACHED)
    outputs = ("completion_tokens", "output_tokens", "candidatesTokenCount", "thoughtsTokenCount")
    return Usage(sum(counts.get(name, 0) for name in inputs), sum(counts.get(name, 0) for name in outputs))


_CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens")
