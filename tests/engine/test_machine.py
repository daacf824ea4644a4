"""A state machine that tries any behavior of host, user and tools against the invariants of output recovery.

The longest run scripts the replies themselves; a shorter one runs over the wire format of each protocol.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from qcode.engine.caps import OutputSettings
from qcode.engine.effects import CompactionSettings, TurnSettings, WaitElapsed
from qcode.engine.model_facts import KnownModel
from qcode.protocol.errors import ErrorKind
from qcode.protocol.model import ModelFacts, RetrySettings
from qcode.protocol.reply import StopReason
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from tests.engine.play import TOOLS
from tests.engine.step_records import failed, inputs
from tests.engine.summary_invariants import true_size
from tests.engine.wires import wire_of
from tests.engine.world import World
from tests.fakes.examples import share
from tests.fakes.turns import Call, Faults, Turn

WORDS = [
    "word ", "another ", "line.\n", "\n", " ", "größe ", "漢字", "🙂 ", "# Title\n", "```python\n", "```\n", "- item\n",
    "| a | b |\n", "|---|---|\n", "Continuing from where I left off:\n", "<think>", "</think>", "x = 1\n", "the end",
]  # fmt: skip
ARGUMENTS = [
    '{"path": "a.py", "content": "one\\ntwo\\nthree"}', '{"path": "b"}', '{"command": "ls -l"}', "{}", "",
    '{"path": }', '{"command": "echo \\"\\u00e9\\"", "n": [1, 2.5, null, true]}', '{"path": "a.py"} tail',
]  # fmt: skip
TRANSIENT = [ErrorKind.RATE_LIMIT, ErrorKind.SERVER, ErrorKind.CONNECTION, ErrorKind.OVERLOADED, ErrorKind.UNREACHABLE]
FINAL = [ErrorKind.QUOTA, ErrorKind.AUTH, ErrorKind.BAD_RESPONSE, ErrorKind.BAD_REQUEST]

outputs = st.builds(
    OutputSettings,
    override=st.sampled_from([None, None, None, 300, 9_000]),
    can_escalate=st.sampled_from([True, True, True, False]),
    max_continuations=st.sampled_from([3, 3, 3, 1, 0]),
    policy=st.sampled_from(["escalate", "escalate", "continue"]),
    tool_call_repair=st.sampled_from(["reject", "reject", "resume"]),
    max_total_completion_tokens=st.sampled_from([None, None, 1_000, 20_000]),
    max_total_output_chars=st.sampled_from([None, None, 200]),
    is_append_only=st.sampled_from([False, False, True]),
)
facts = st.builds(
    ModelFacts,
    context_window=st.sampled_from([None, None, 30_000, 12_000, 7_000]),
    max_output_tokens=st.sampled_from([None, None, 4_096, 9_000, 32_000]),
    can_prefill=st.booleans(),
    has_inline_thinking=st.sampled_from([False, False, True]),
)
compactions = st.sampled_from(
    [
        None,
        CompactionSettings(),
        CompactionSettings(share=0.2),
        CompactionSettings(KnownModel("other", "small", ModelFacts(context_window=6_000)), share=0.3),
    ]
)
texts = st.lists(st.sampled_from(WORDS), max_size=8)
calls = st.lists(
    st.tuples(st.sampled_from(["read", "write", "write", "shell", "note", "raed"]), st.sampled_from(ARGUMENTS)),
    max_size=3,
)
solid_texts = texts.filter(lambda pieces: bool("".join(pieces).strip()))
fed = st.sampled_from([0, 1, 2, 3, 5, 1_000, 1_000, 1_000, 1_000])
stops = st.sampled_from([*StopReason, *[StopReason.MAX_TOKENS] * 8, "auto", "auto", "auto"])


class Recovery(RuleBasedStateMachine):
    protocol = "by hand"

    @initialize(
        output=outputs, facts=facts, max_turns=st.sampled_from([None, 3]), max_calls=st.sampled_from([None, 2]),
        compaction=compactions,
    )  # fmt: skip
    def begin(
        self, output: OutputSettings, facts: ModelFacts, max_turns: int | None, max_calls: int | None,
        compaction: CompactionSettings | None,
    ) -> None:  # fmt: skip
        turn_settings = TurnSettings(
            "s", TOOLS, output=output, retries=RetrySettings(3), max_turns=max_turns, max_tool_calls=max_calls,
            compaction=compaction,
        )  # fmt: skip
        self.world = World(turn_settings, KnownModel("test", "claude-3-5-m", facts), wire_of(self.protocol))
        self.calls = 0

    def is_idle(self) -> bool:
        return self.world.turn is None or self.world.ended is not None

    def is_asked(self) -> bool:
        return not self.is_idle() and self.world.to_answer is not None

    @precondition(is_idle)
    @rule(prompt=st.sampled_from(["go", "and then?", "long " * 500]), is_new=st.booleans())
    def submit(self, prompt: str, is_new: bool) -> None:
        if is_new:
            self.world.forget()
        self.world.submit(prompt)

    @precondition(is_asked)
    @rule(
        text=texts, reasoning=texts, calls=calls, stop=stops, replays=st.booleans(),
        output=st.sampled_from(["none", "small", "small", "cap", "cap", "above"]), late=st.sampled_from([None, False]),
        cut_at=st.none() | st.floats(0, 1), breaks_at=st.none() | st.none() | st.floats(0, 1),
        kind=st.sampled_from(TRANSIENT), is_signed=st.booleans(), fed=fed,
    )  # fmt: skip
    def script(
        self, text: list[str], reasoning: list[str], calls: list[tuple[str, str]], stop: StopReason | str,
        replays: bool, output: str, late: bool | None, cut_at: float | None, breaks_at: float | None,
        kind: ErrorKind, is_signed: bool, fed: int,
    ) -> None:  # fmt: skip
        """Script any reply."""
        request = self.world.to_answer
        assert request is not None
        made = [self._call(name, raw) for name, raw in calls]
        if made and cut_at is not None:
            last = made[-1]
            made[-1] = Call(last.name, last.arguments[: int(cut_at * len(last.arguments))], last.call_id)
        if replays and self.world.steps and self.world.step.shown:
            text = [self.world.step.shown[-30:], *text]
        count = {"none": None, "small": 3, "cap": request.max_tokens, "above": 3 * request.max_tokens}[output]
        usage = None if count is None else Usage(input=true_size(request) + 20, output=count)
        signature = "c2ln" if is_signed else ""
        turn = Turn(text, reasoning, made, stop, usage, signature, faults=Faults(late_usage=late))
        self._queue(turn, breaks_at, kind, fed)

    @precondition(lambda self: self.is_idle() and hasattr(self, "world") and self.world.settings.compaction)
    @rule(focus=st.sampled_from(["", "the parser"]))
    def ask_for_a_compaction(self, focus: str) -> None:
        self.world.compact(focus)

    @precondition(lambda self: self.is_asked() and self.world.is_summarizing)
    @rule(text=st.sampled_from(["Task: go.", "Task: go. " * 40, "", "word " * 3_000]), is_cut=st.booleans())
    def script_summary(self, text: str, is_cut: bool) -> None:
        stop = StopReason.MAX_TOKENS if is_cut else StopReason.END_TURN
        self._queue(Turn([text], stop=stop, usage=self._usage(is_at_cap=is_cut)))

    @precondition(is_asked)
    @rule(text=solid_texts, reasoning=texts)
    def script_full_window(self, text: list[str], reasoning: list[str]) -> None:
        full = StopReason.CONTEXT_WINDOW_EXCEEDED
        self._queue(Turn(text, reasoning, stop=full, usage=self._usage(is_at_cap=False)))

    @precondition(is_asked)
    @rule(text=solid_texts, reasoning=texts, reports=st.booleans(), fed=fed)
    def script_cut_text(self, text: list[str], reasoning: list[str], reports: bool, fed: int) -> None:
        self._queue(Turn(text, reasoning, stop=StopReason.MAX_TOKENS, usage=self._usage(is_at_cap=reports)), fed=fed)

    @precondition(is_asked)
    @rule(before=texts, name=st.sampled_from(["write", "write", "shell"]), at=st.floats(0, 1), reports=st.booleans())
    def script_cut_call(self, before: list[str], name: str, at: float, reports: bool) -> None:
        raw = ARGUMENTS[0]
        call = self._call(name, raw[: int(at * len(raw))])
        usage = self._usage(is_at_cap=reports)
        self._queue(
            Turn(before, calls=[self._call("read", ARGUMENTS[1]), call], stop=StopReason.MAX_TOKENS, usage=usage)
        )

    @precondition(is_asked)
    @rule(names=st.lists(st.sampled_from(["read", "write", "shell", "note"]), min_size=1, max_size=3), before=texts)
    def script_calls(self, names: list[str], before: list[str]) -> None:
        whole = {"read": ARGUMENTS[1], "write": ARGUMENTS[0], "shell": ARGUMENTS[2], "note": "{}"}
        calls = [self._call(name, whole[name]) for name in names]
        self._queue(Turn(before, calls=calls, usage=self._usage(is_at_cap=False)))

    @precondition(is_asked)
    @rule(thinks=st.booleans(), reports=st.booleans())
    def script_nothing_to_show(self, thinks: bool, reports: bool) -> None:
        usage = self._usage(is_at_cap=reports)
        self._queue(Turn(reasoning="hm" if thinks else "", stop=StopReason.MAX_TOKENS, usage=usage))

    @precondition(is_asked)
    @rule(text=solid_texts, begun=st.sampled_from(["", "read"]), kind=st.sampled_from(TRANSIENT), at=st.floats(0.5, 1))
    def script_a_break(self, text: list[str], begun: str, kind: ErrorKind, at: float) -> None:
        calls = [self._call(begun, ARGUMENTS[1])] if begun else []
        self._queue(Turn(text, calls=calls, usage=self._usage(is_at_cap=False)), breaks_at=at, kind=kind)

    @precondition(is_asked)
    @rule(
        line=st.sampled_from(["the same line again and again and again, without an end\n", "ab" * 50]),
        is_call=st.booleans(),
    )
    def script_repetition(self, line: str, is_call: bool) -> None:
        if is_call:
            raw = '{"path": "a", "content": "' + line.replace("\n", "\\n") * 400
            made = [self._call("write", raw)]
            self._queue(Turn(calls=made, stop=StopReason.MAX_TOKENS, usage=self._usage(is_at_cap=True)))
        else:
            self._queue(Turn([line] * 60, stop=StopReason.MAX_TOKENS, usage=self._usage(is_at_cap=True)))

    def _usage(self, *, is_at_cap: bool) -> Usage:
        """Return the usage that a truthful host reports: the engine may trust a count."""
        request = self.world.to_answer
        assert request is not None
        return Usage(input=true_size(request) + 20, output=request.max_tokens if is_at_cap else 4)

    def _call(self, name: str, raw: str) -> Call:
        self.calls += 1
        return Call(name, raw, f"toolu_{self.calls}")

    def _queue(
        self, turn: Turn, breaks_at: float | None = None, kind: ErrorKind = ErrorKind.CONNECTION, fed: int = 1_000
    ) -> None:
        world = self.world
        request, world.to_answer = world.to_answer, None
        assert request is not None
        events = inputs(world.wire.play(turn, request, world.requests))
        if breaks_at is not None:
            events = [*events[: int(breaks_at * (len(events) - 1))], failed(kind)]
        world.queue.extend(events)
        world.feed(fed)

    @precondition(is_asked)
    @rule(
        kind=st.sampled_from([*TRANSIENT, *TRANSIENT, *FINAL]),
        limit=st.sampled_from([0, 0, 300, 2_000, 8_192, 30_000]),
        of=st.sampled_from(["supports at most", "maximum context length is"]),
    )
    def refuse(self, kind: ErrorKind, limit: int, of: str) -> None:
        self.world.to_answer = None
        error = failed(ErrorKind.BAD_REQUEST, f"max_tokens: this model {of} {limit} tokens", 400) if limit else None
        self.world.queue.append(error or failed(kind, status=429))
        self.world.feed(1)

    def is_streaming(self) -> bool:
        return not self.is_idle() and bool(self.world.queue)

    @precondition(is_streaming)
    @rule(count=st.sampled_from([1, 2, 5, 1_000, 1_000]))
    def feed(self, count: int) -> None:
        self.world.feed(count)

    @precondition(lambda self: not self.is_idle() and self.world.steered < 2)
    @rule(text=st.sampled_from(["faster", "stop that"]))
    def steer(self, text: str) -> None:
        self.world.steer(text)

    @precondition(lambda self: not self.is_idle() and self.world.requests > 1 and self.world.steered)
    @rule()
    def cancel(self) -> None:
        self.world.cancel()

    @precondition(lambda self: not self.is_idle() and bool(self.world.asking))
    @rule(
        at=st.integers(0, 2),
        is_allowed=st.sampled_from([True, True, True, False]),
        text=st.sampled_from(["", "", "blue"]),
    )
    def answer(self, at: int, is_allowed: bool, text: str) -> None:
        self.world.answer_approval(at, is_allowed, text if is_allowed else "")

    @precondition(lambda self: not self.is_idle() and bool(self.world.running))
    @rule(
        at=st.integers(0, 2),
        content=st.sampled_from(["done", "done", "no such file", "data " * 800]),
        is_error=st.booleans(),
    )
    def end_tool(self, at: int, content: str, is_error: bool) -> None:
        self.world.end_tool(at, ToolOutcome(content, is_error))

    @precondition(is_asked)
    @rule(count=st.integers(2, 3))
    def script_reading(self, count: int) -> None:
        """Script several read-only calls, which may run in parallel."""
        self._queue(
            Turn(calls=[self._call("read", ARGUMENTS[1]) for _ in range(count)], usage=self._usage(is_at_cap=False))
        )

    @precondition(lambda self: not self.is_idle() and self.world.is_waiting)
    @rule()
    def wait(self) -> None:
        self.world.is_waiting = False
        self.world.give(WaitElapsed())

    @invariant()
    def something_is_always_under_way(self) -> None:
        if hasattr(self, "world") and not self.is_idle():
            world = self.world
            under_way = (world.to_answer, world.queue, world.asking, world.running, world.is_waiting)
            assert any(under_way), "the turn waits for nothing"

    @invariant()
    def stored_calls_are_valid_json(self) -> None:
        if hasattr(self, "world"):
            for message in self.world.messages[-2:]:
                assert all(isinstance(json.loads(call.arguments), dict) for call in message.calls)


class ManyByHand(Recovery):
    """More examples, for the broad run."""


class OverOpenAI(Recovery):
    protocol = "openai"


class OverAnthropic(Recovery):
    protocol = "anthropic"


class OverGemini(Recovery):
    protocol = "gemini"


class OverResponses(Recovery):
    protocol = "openai-responses"


def _settings(examples: int) -> settings:
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    return settings(max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=slow)


TestByHand = Recovery.TestCase
TestByHand.settings = _settings(share(100))
TestManyByHand = pytest.mark.broad(pytest.mark.timeout(900)(ManyByHand.TestCase))
TestManyByHand.settings = _settings(400)
TestOverOpenAI = OverOpenAI.TestCase
TestOverOpenAI.settings = _settings(share(40))
TestOverAnthropic = OverAnthropic.TestCase
TestOverAnthropic.settings = _settings(share(40))
TestOverGemini = OverGemini.TestCase
TestOverGemini.settings = _settings(share(40))
TestOverResponses = OverResponses.TestCase
TestOverResponses.settings = _settings(share(40))
