"""Settings and model facts: overrides, limits, policies, budgets, prefill."""

from __future__ import annotations

from decimal import Decimal

from qcode.engine.caps import OutputSettings
from qcode.protocol.errors import ExitCode
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome, StopReason
from qcode.protocol.usage import Price
from tests.e2e.limits.play import Played
from tests.e2e.limits.row import (
    BIG_CUT,
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    HALF_CALLS,
    LONGER,
    STILL_CUT,
    UP,
    Ends,
    P,
    Row,
    api,
    continued,
    cut,
    cut_call,
    done,
    glob,
    write,
)
from tests.fakes.turns import refused

_SPENT = "ended budget_exhausted"
_TWO = P[0] + P[1]
_PREFILLS = ModelFacts(can_prefill=True)


def _last_role(played: Played, number: int) -> str:
    return played.requests[number].messages[-1].role


def _continues_the_message_itself(played: Played) -> None:
    assert _last_role(played, 2) == "assistant"
    assert played.requests[2].messages[-1].text == "Eins zwei"


def _asks_in_words(played: Played) -> None:
    assert _last_role(played, 2) == "user"


def _remembers_the_refusal(played: Played) -> None:
    assert [_last_role(played, number) for number in (2, 3)] == ["assistant", "user"]
    assert played.later_requests[2].messages[-1].role == "user"


_CAPS = (
    Row(
        "override", "first", (cut(P[0]), done(P[1])),
        asked=("first 500", "continuation 500"), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        settings=OutputSettings(override=500), again_caps=(500,),
    ),
    Row(
        "override", "continuation 3", tuple(map(cut, P[:4])),
        asked=("first 500", *["continuation 500"] * 3), text="".join(P[:4]), events=(*continued(1, 2, 3), STILL_CUT),
        api=api(on=3), ends=CUT, settings=OutputSettings(override=500), notice="output cap 500 tokens each",
    ),
    Row(
        "override above the default", "first", (cut(P[0]), done(P[1])),
        asked=("first 20000", "continuation 20000"), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        settings=OutputSettings(override=20_000),
    ),
    Row(
        "override above the known limit", "first", (cut(P[0]), done(P[1])),
        asked=("first 4096", "continuation 4096"), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        settings=OutputSettings(override=9_000), facts=ModelFacts(max_output_tokens=4_096),
    ),
    Row(
        "override and a write cut", "first", (cut_call("write", BIG_CUT), write(), done()),
        asked=("first 500",) * 3, events=(STILL_CUT, "repair cut_arguments attempted"), api=api(3),
        stored=("call", "call", "text"), ran=("write",), results=("MUST split", ""),
        files={"big.py": "line one\nline two\n"}, settings=OutputSettings(override=500), skips=HALF_CALLS,
    ),
    Row(
        "escalation switched off", "first", (cut(P[0]), done(P[1])),
        asked=(FIRST, "continuation 8000"), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        settings=OutputSettings(can_escalate=False),
    ),
    Row(
        "small known limit", "first", (cut(P[0]), done(P[1])),
        asked=("first 4096", "continuation 4096"), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        facts=ModelFacts(max_output_tokens=4_096),
    ),
    Row(
        "small known limit", "continuation 3", tuple(map(cut, P[:4])),
        asked=("first 4096", *["continuation 4096"] * 3), text="".join(P[:4]), events=(*continued(1, 2, 3), STILL_CUT),
        api=api(on=3), ends=CUT, facts=ModelFacts(max_output_tokens=4_096),
    ),
    Row(
        "known limit", "first", (cut("lost"), done()),
        asked=("-first 8000", "escalated 32000"), events=("over max_tokens", "escalated 8000>32000", COMPLETED),
        api=api(up=1), facts=ModelFacts(max_output_tokens=32_000),
    ),
    Row(
        "known limit", "escalated", (cut("lost"), cut(P[0]), done(P[1])),
        asked=("-first 8000", "escalated 32000", "continuation 32000"), text=_TWO,
        events=("over max_tokens", "escalated 8000>32000", *continued(1), COMPLETED), api=api(up=1, on=1),
        facts=ModelFacts(max_output_tokens=32_000),
    ),
    Row(
        "known limit without gain", "first", (cut(P[0]), done(P[1])),
        asked=(FIRST, "continuation 9000"), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        facts=ModelFacts(max_output_tokens=9_000),
    ),
    Row(
        "more gain asked for than there is", "first", (cut(P[0]), done(P[1])),
        asked=(FIRST, LONGER), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        settings=OutputSettings(min_escalation_gain=10),
    ),
)  # fmt: skip

_POLICIES = (
    Row(
        "no continuations allowed", "first", (cut(P[0]),),
        asked=("first 500",), text=P[0], events=(STILL_CUT,), ends=CUT, notice="incomplete after 1 request",
        settings=OutputSettings(override=500, max_continuations=0),
    ),
    Row(
        "no continuations allowed", "escalated", (cut("lost"), cut(P[0])),
        asked=("-first 8000", ESCALATED), text=P[0], events=(*UP, STILL_CUT), api=api(up=1), ends=CUT,
        settings=OutputSettings(max_continuations=0),
    ),
    Row(
        "one continuation allowed", "continuation 1", (cut("lost"), cut(P[0]), cut(P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=_TWO, events=(*UP, *continued(1), STILL_CUT),
        api=api(up=1, on=1), ends=CUT, settings=OutputSettings(max_continuations=1),
    ),
    Row(
        "policy continue", "first", (cut(P[0]), done(P[1])),
        asked=(FIRST, LONGER), text=_TWO, events=(*continued(1), COMPLETED), api=api(on=1),
        settings=OutputSettings(policy="continue"),
    ),
    Row(
        "policy continue and a call cut", "first", (cut_call("glob", '{"pattern": "*', P[0]), glob(P[0]), done()),
        asked=("-first 8000", ESCALATED, FIRST), events=(*UP, COMPLETED), api=api(2, up=1),
        stored=("text+call", "text"), ran=("glob",), results=("",), settings=OutputSettings(policy="continue"),
        skips=HALF_CALLS,
    ),
    Row(
        "policy continue and thinking only", "first", (cut(thinking="Hm … "), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
        settings=OutputSettings(policy="continue"),
    ),
    Row(
        "token budget spent", "escalated", (cut("lost"), cut(P[0])),
        asked=("-first 8000", ESCALATED), text=P[0], events=(*UP, _SPENT), api=api(up=1), ends=CUT,
        settings=OutputSettings(max_total_completion_tokens=64_000), notice="output budget is used up",
    ),
    Row(
        "token budget spent", "continuation 1", (cut("lost"), cut(P[0]), cut(P[1])),
        asked=("-first 8000", ESCALATED, "continuation 36000"), text=_TWO, events=(*UP, *continued(1), _SPENT),
        api=api(up=1, on=1), ends=CUT, settings=OutputSettings(max_total_completion_tokens=100_000),
    ),
    Row(
        "default token budget spent", "continuation 3", (cut("lost"), *map(cut, P[:4])),
        asked=("-first 8000", ESCALATED, *[LONGER] * 3), text="".join(P[:4]), events=(*UP, *continued(1, 2, 3), _SPENT),
        api=api(up=1, on=3), ends=CUT, settings=OutputSettings(max_continuations=9),
    ),
    Row(
        "character budget spent", "escalated", (cut("lost"), cut(P[0])),
        asked=("-first 8000", ESCALATED), text=P[0], events=(*UP, _SPENT), api=api(up=1), ends=CUT,
        settings=OutputSettings(max_total_output_chars=5),
    ),
    Row(
        "character budget spent", "continuation 1", (cut("lost"), cut(P[0]), cut(P[1])),
        asked=("-first 8000", ESCALATED, LONGER), text=_TWO, events=(*UP, *continued(1), _SPENT),
        api=api(up=1, on=1), ends=CUT, settings=OutputSettings(max_total_output_chars=10),
    ),
)  # fmt: skip

_PREFILL = (
    Row(
        "prefill accepted", "continuation 1", (cut("lost"), cut("Eins zwei"), done(" drei.")),
        asked=("-first 8000", ESCALATED, LONGER), text="Eins zwei drei.", events=(*UP, *continued(1), COMPLETED),
        api=api(up=1, on=1), facts=_PREFILLS, on={"openai": {"provider": "vllm"}},
        check=_continues_the_message_itself,
    ),
    Row(
        "prefill that would end in white space", "continuation 1", (cut("lost"), cut("Eins "), done("zwei.")),
        asked=("-first 8000", ESCALATED, LONGER), text="Eins zwei.", events=(*UP, *continued(1), COMPLETED),
        api=api(up=1, on=1), facts=_PREFILLS, on={"openai": {"provider": "vllm"}}, check=_asks_in_words,
    ),
    Row(
        "prefill refused", "continuation 1",
        (cut("lost"), cut("Eins zwei"), refused(400, "prefilling the assistant message is not supported"), done(".")),
        asked=("-first 8000", ESCALATED, LONGER, LONGER), text="Eins zwei.", events=(*UP, *continued(1), COMPLETED),
        api=api(up=1, on=1, retries=1), facts=_PREFILLS, on={"openai": {"provider": "vllm"}},
        check=_remembers_the_refusal, again=(cut("lost"), cut("Uno"), done(" dos.")),
        again_caps=(8_000, 64_000, 64_000),
    ),
)  # fmt: skip

_OUTPUT_PRICE = ModelFacts(price=Price(Decimal(0), Decimal(1)))
"""One millionth of a dollar for each token that comes out: 8,000 of them are $0.008."""
_OVERSPENT: Ends = (Outcome.MAX_TURN_REQUESTS, StopReason.MAX_TOKENS, ExitCode.LIMIT_REACHED)
_NO_MORE = "continuing would exceed --max-budget-usd"

_MONEY = (
    Row(
        "money spent", "first", (cut(P[0]),),
        asked=(FIRST,), text=P[0], events=(_SPENT,), ends=_OVERSPENT, facts=_OUTPUT_PRICE, money=Decimal("0.008"),
        notice=_NO_MORE, again=(done("Next."),),
    ),
    Row(
        "money spent", "escalated", (cut(P[0]), cut(_TWO)),
        asked=("-first 8000", ESCALATED), text=_TWO, events=(*UP, _SPENT), api=api(up=1), ends=_OVERSPENT,
        facts=_OUTPUT_PRICE, money=Decimal("0.07"), notice=_NO_MORE,
    ),
    Row(
        "money spent", "continuation 1", (cut(P[0]), cut(P[1]), cut(P[2])),
        asked=("-first 8000", ESCALATED, LONGER), text=P[1] + P[2], events=(*UP, *continued(1), _SPENT),
        api=api(up=1, on=1), ends=_OVERSPENT, facts=_OUTPUT_PRICE, money=Decimal("0.1"), notice=_NO_MORE,
    ),
    Row(
        "money spent", "first cut thinking", (cut(thinking="hm"),),
        asked=(FIRST,), text="", events=(_SPENT,), ends=_OVERSPENT, stored=(), facts=_OUTPUT_PRICE,
        money=Decimal("0.008"), notice=_NO_MORE,
    ),
    Row(
        "money spent", "first cut call", (cut_call("write", BIG_CUT),),
        asked=(FIRST,), text="", events=(STILL_CUT, "repair cut_arguments attempted"), ends=_OVERSPENT,
        stored=("call",), results=("split",), facts=_OUTPUT_PRICE, money=Decimal("0.008"), skips=HALF_CALLS,
    ),
)  # fmt: skip

SETTINGS = (*_CAPS, *_POLICIES, *_PREFILL, *_MONEY)
