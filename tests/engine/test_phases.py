"""The phase of a turn and of its reply is a value that can be printed and compared; no function is stored."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from itertools import groupby
from typing import Literal

import pytest

from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import CompactionSettings, CompactRequested, Input, TurnSettings, UserSubmitted
from qcode.engine.ledger import Ledger
from qcode.engine.model_facts import KnownModel
from qcode.engine.reply import phase as reply_phases
from qcode.engine.reply.reply import Reply
from qcode.engine.reply.requests import ReplyPlan
from qcode.engine.turn import (
    BeginStep,
    Calling,
    Compacting,
    EndCompaction,
    Ended,
    Idle,
    Replying,
    ResumeReply,
    TurnPhase,
)
from qcode.protocol.errors import ErrorKind
from qcode.protocol.messages import Message, Text, assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome, ReplyStarted, StopReason, TextDelta
from qcode.protocol.tools import ToolSpec
from tests.engine.play import TOOLS, Player, Script, broken, calls, cut, refused, text

WINDOW = ModelFacts(context_window=20_000)


def talk(turns: int, size: int = 4_000) -> list[Message]:
    found: list[Message] = []
    for number in range(turns):
        found += [user(f"question {number}"), assistant(Text(f"answer {number} " + "word " * (size // 5)))]
    return found


class Recorder(Player):
    """Records the phase of the turn after each input."""

    def __init__(self, *scripts: Script, history: list[Message] | None = None) -> None:
        settings = TurnSettings("Be brief.", TOOLS, compaction=CompactionSettings())
        super().__init__(*scripts, facts=WINDOW, settings=settings, history=history or [])
        self.phases: list[TurnPhase] = [self.turn.phase]
        self.printed = [repr(self.turn.phase)]
        self.check()

    def give(self, given: Input) -> None:
        super().give(given)
        self.phases.append(self.turn.phase)
        self.printed.append(repr(self.turn.phase))
        self.check()

    def check(self) -> None:
        assert list(stored_functions(self.turn, "turn")) == []

    def run(self, first: Input) -> Recorder:
        self.give(first)
        while self.step():
            pass
        return self


FULL = text("The first half", stop=StopReason.CONTEXT_WINDOW_EXCEEDED)
OVERFLOW = refused("the context is too long", ErrorKind.CONTEXT_OVERFLOW)
SPEECH = UserSubmitted(user("and now?"))
SCENARIOS: dict[str, tuple[tuple[Script, ...], int, Input]] = {
    "text": ((text("Hello"),), 0, SPEECH),
    "calls": ((calls(("read", '{"path": "a"}'), ("note", "{}")), text("Done.")), 0, SPEECH),
    "cut": ((cut("One, "), cut("One, "), text("two.")), 0, SPEECH),
    "cut call": ((calls(("write", '{"path": "a'), stop=StopReason.MAX_TOKENS), text("No.")), 0, SPEECH),
    "broken text": ((broken(ReplyStarted("m", "r"), TextDelta(0, "One, ")), text("two.")), 0, SPEECH),
    "unreachable": ((refused("down", ErrorKind.SERVER), text("Hello")), 0, SPEECH),
    "full": ((FULL, text("Task."), text(" and the second.")), 10, SPEECH),
    "full, nothing shorter": ((FULL,), 0, SPEECH),
    "overflow": ((OVERFLOW, text("Task."), text("Fine.")), 10, SPEECH),
    "no room": ((), 0, UserSubmitted(user("word " * 40_000))),
    "threshold": ((text("Task."), text("Now this.")), 16, SPEECH),
    "asked": ((text("Task."),), 10, CompactRequested()),
}


def recorded(name: str) -> Recorder:
    scripts, turns, first = SCENARIOS[name]
    return Recorder(*scripts, history=talk(turns)).run(first)


@pytest.mark.parametrize("name", SCENARIOS)
def test_phases_store_no_functions_and_print_no_addresses(name: str) -> None:
    player = recorded(name)
    assert isinstance(player.turn.phase, Ended)
    assert [shown for shown in player.printed if " at 0x" in shown] == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_same_inputs_lead_through_the_same_phases(name: str) -> None:
    assert recorded(name).printed == recorded(name).printed


def test_scenarios_reach_every_phase() -> None:
    seen = [phase for name in SCENARIOS for phase in recorded(name).phases]
    assert {type(phase) for phase in seen} == {Idle, Replying, Calling, Compacting, Ended}
    then = {type(phase.then) for phase in seen if isinstance(phase, Compacting)}
    assert then == {BeginStep, ResumeReply, EndCompaction}


def test_turn_passes_from_idle_through_replies_and_calls_to_ended() -> None:
    player = Recorder(calls(("read", '{"path": "a"}')), text("Done.")).run(SPEECH)
    kinds = [type(phase) for phase, _ in groupby(player.phases)]
    assert kinds == [Idle, Replying, Calling, Replying, Ended]
    idle, first, calling, second, ended = [phase for phase, _ in groupby(player.phases)]
    assert (idle, ended) == (Idle(), Ended(Outcome.END_TURN))
    assert isinstance(first, Replying)
    assert first == Replying(first.reply)
    assert first != second, "each step has its own reply"
    assert isinstance(calling, Calling)
    assert [judged.call.name for judged in calling.result.calls] == ["read"]


def streaming(player: Player) -> reply_phases.Streaming:
    phase = reply_of(player).phase
    assert isinstance(phase, reply_phases.Streaming)
    return phase


def reply_of(player: Player) -> Reply:
    phase = player.turn.phase
    assert isinstance(phase, Replying)
    return phase.reply


def test_reply_is_unsent_until_it_starts() -> None:
    settings = ReplyPlan("s", (user("go"),), TOOLS, output=OutputSettings())
    model = KnownModel("test", "m", ModelFacts())
    reply = Reply(settings, model, PromptCounter(), Ledger(None), turn=1, step=1)
    assert reply.phase == reply_phases.Unsent()
    assert repr(reply) == "Reply(Unsent())"
    assert reply.cancel()
    assert isinstance(reply.phase, reply_phases.Finished)
    assert reply.phase.result == reply.result
    assert reply.phase.result.ending == "cancelled"


@pytest.mark.parametrize(
    ("script", "then"),
    [
        (broken(ReplyStarted("m", "r"), TextDelta(0, "One, ")), "continue"),
        (broken(ReplyStarted("m", "r")), "replay"),
    ],
)
def test_broken_stream_puts_the_reply_in_backoff_with_the_failed_attempt(
    script: Script, then: Literal["continue", "replay"]
) -> None:
    player = Recorder(script, text("two."))
    player.give(SPEECH)
    first = streaming(player)
    assert repr(first) == "Streaming(attempt=Attempt('first', max_tokens=8000, shown_chars=0), cause='initial')"
    reply = reply_of(player)
    while isinstance(reply.phase, reply_phases.Streaming):
        player.step()
    assert reply.phase == reply_phases.Backoff(then, first.attempt)
    player.step()
    assert streaming(player).cause == "retries"
    assert streaming(player) != first


@pytest.mark.parametrize(
    ("scripts", "fallback"),
    [
        ((FULL, text("Task."), text(" and the second.")), reply_phases.KeepTruncated),
        ((OVERFLOW, text("Task."), text("Fine.")), reply_phases.EndWithError),
    ],
)
def test_reply_that_waits_for_a_compaction_stores_its_ending_without_one(
    scripts: tuple[Script, ...], fallback: type[object]
) -> None:
    player = Recorder(*scripts, history=talk(10))
    player.give(SPEECH)
    attempt = streaming(player).attempt
    while isinstance(player.turn.phase, Replying):
        player.step()
    phase = player.turn.phase
    assert isinstance(phase, Compacting)
    assert isinstance(phase.then, ResumeReply)
    waiting = phase.then.reply.phase
    assert isinstance(waiting, reply_phases.NeedsCompaction)
    assert isinstance(waiting.fallback, fallback)
    assert waiting == reply_phases.NeedsCompaction(
        waiting.fallback, None if fallback is reply_phases.KeepTruncated else attempt
    )
    while player.step():
        pass
    assert player.turn.phase == Ended(Outcome.END_TURN)


def test_oversized_prompt_needs_room_for_its_request() -> None:
    plan = ReplyPlan("s", (user("word " * 40_000),), TOOLS, can_compact=True)
    reply = Reply(plan, KnownModel("test", "m", WINDOW), PromptCounter(), Ledger(None), turn=1, step=1)
    assert reply.begin() == []
    assert isinstance(reply.phase, reply_phases.NeedsCompaction)
    assert isinstance(reply.phase.fallback, reply_phases.EndUnsent)
    assert reply.phase.fallback.request.messages == plan.messages
    assert reply.abort_uncompacted()
    assert reply.result is not None
    assert reply.result.ending == "failed"


def test_check_finds_a_function_stored_anywhere_in_a_phase() -> None:
    class Holder:
        __slots__ = ("inner",)

        def __init__(self, inner: object) -> None:
            self.inner = inner

    functions: list[object] = [lambda: None, print, functools.partial(print), [].append, Idle().__eq__]
    for stored in functions:
        for holder in (Holder(stored), Holder({"a": [(stored,)]}), Replying(Holder(stored))):  # type: ignore[arg-type]
            assert len(list(stored_functions(holder, "holder"))) == 1
    assert list(stored_functions(Holder([1, "a", None, Outcome.ERROR]), "holder")) == []


FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType, functools.partial,
    types.GeneratorType,
)  # fmt: skip


def stored_functions(root: object, name: str) -> Iterator[str]:
    """Yield the paths of functions stored in `root` or inside it, except in the facts of a tool (`ToolSpec`)."""
    seen: set[int] = set()
    todo: list[tuple[str, object]] = [(name, root)]
    while todo:
        where, value = todo.pop()
        if isinstance(value, FUNCTIONS):
            yield where
        if id(value) in seen or isinstance(value, (*FUNCTIONS, ToolSpec, type, str, bytes, int, float)):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            todo += [(f"{where}[{key!r}]", inner) for key, inner in value.items()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            todo += [(f"{where}[{index}]", inner) for index, inner in enumerate(value)]
        else:
            todo += [(f"{where}.{field}", inner) for field, inner in fields_of(value)]


def fields_of(value: object) -> Iterator[tuple[str, object]]:
    if type(value).__module__.partition(".")[0] not in ("qcode", "tests"):
        return
    yield from vars(value).items() if hasattr(value, "__dict__") else ()
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                yield slot, getattr(value, slot)
