"""Thinking that uses up the cap, empty truncated replies, and stored thinking."""

from __future__ import annotations

from collections.abc import Mapping

from qcode.engine.caps import OutputSettings
from qcode.protocol.model import ModelFacts
from tests.e2e.limits.play import Played
from tests.e2e.limits.row import (
    BIG_CUT,
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    LONGER,
    UP,
    P,
    Row,
    api,
    continued,
    cut,
    cut_call,
    done,
)
from tests.fakes.server import ProtocolName

_THOUGHT = cut(thinking="Hm, so … ")
_TO_1 = (cut("lost"), cut(P[0]))
_ASKED_1 = ("-first 8000", ESCALATED, LONGER)
_NOTHING = ("ended no_progress",)
_THINK_TWICE = ("-first 8000", "-escalated 64000")
_INLINE = ModelFacts(has_inline_thinking=True)
_THINKS = ("reasoning+text",)
_SENDS_HALF_CALLS: Mapping[ProtocolName, str] = {"openai": "sends half calls", "anthropic": "sends half calls"}
_HALF = cut_call("write", BIG_CUT)


def _nudge_is_no_resume_message(played: Played) -> None:
    sent = played.requests[2].messages[-1].text
    assert "thinking" in sent.lower()
    assert "text_so_far" not in sent


_THINKING = (
    Row(
        "thinking only", "first", (_THOUGHT, done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row(
        "thinking only", "escalated", (_THOUGHT, _THOUGHT, done()),
        asked=(*_THINK_TWICE, "nudge 64000"), events=(*UP, "over thinking", COMPLETED), api=api(up=1, repairs=1),
        check=_nudge_is_no_resume_message,
    ),
    Row(
        "thinking only", "nudge", (_THOUGHT,) * 3,
        asked=(*_THINK_TWICE, "nudge 64000"), text="", events=(*UP, "over thinking", *_NOTHING),
        api=api(up=1, repairs=1), ends=CUT, stored=(), notice="Thinking used up the output limit",
    ),
    Row(
        "thinking only", "continuation 1", (*_TO_1, _THOUGHT),
        asked=_ASKED_1, text=P[0], events=(*UP, *continued(1), *_NOTHING), api=api(up=1, on=1), ends=CUT,
        on={"anthropic": {"stored": ("text+reasoning",)}},
    ),
    Row(
        "thinking only after a text", "escalated", (cut(P[0]), _THOUGHT, done(P[1])),
        asked=(FIRST, "-escalated 64000", LONGER), text=P[0] + P[1],
        events=(*UP, "restored", *continued(1), COMPLETED), api=api(up=1, on=1),
    ),
    Row(
        "thinking only with an override", "first", (_THOUGHT, done()),
        asked=("-first 500", "nudge 500"), events=("over thinking", COMPLETED), api=api(repairs=1),
        settings=OutputSettings(override=500), again_caps=(500,),
    ),
    Row(
        "thinking before a text cut", "first", (cut("lost", thinking="Hm "), done(thinking="So … ")),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1), stored=_THINKS,
    ),
    Row(
        "thinking before a text cut", "escalated", (cut("lost"), cut(P[0], thinking="Hm "), done(P[1])),
        asked=_ASKED_1, text=P[0] + P[1], events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1), stored=_THINKS,
    ),
    Row(
        "thinking before the rest", "continuation 1", (*_TO_1, done(P[1], thinking="Hm ")),
        asked=_ASKED_1, text=P[0] + P[1], events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1),
        on={"anthropic": {"stored": ("text+reasoning+text",)}},
    ),
)  # fmt: skip

_INLINE_THINKING = (
    Row(
        "inline thinking cut", "first", (cut("<think>Hm, "), done("<think>So.</think>" + P[0])),
        asked=("-first 8000", ESCALATED), text=P[0], events=(*UP, COMPLETED), api=api(up=1), stored=_THINKS,
        facts=_INLINE,
    ),
    Row(
        "inline thinking cut", "escalated", (cut("<think>Hm, "), cut("<think>Hm, and "), done()),
        asked=(*_THINK_TWICE, "nudge 64000"), events=(*UP, "over thinking", COMPLETED), api=api(up=1, repairs=1),
        facts=_INLINE,
    ),
    Row(
        "inline thinking before the rest", "continuation 1", (*_TO_1, done("<think>And?</think>" + P[1])),
        asked=_ASKED_1, text=P[0] + P[1], events=(*UP, *continued(1), COMPLETED), api=api(up=1, on=1), facts=_INLINE,
    ),
)  # fmt: skip

_EMPTY = (
    Row(
        "empty cut", "first", (cut(), done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1),
    ),
    Row(
        "empty cut", "escalated", (cut(), cut()),
        asked=("-first 8000", ESCALATED), text="", events=(*UP, *_NOTHING), api=api(up=1), ends=CUT, stored=(),
        notice="truncated before any text",
    ),
    Row(
        "empty cut after a text", "escalated", (cut(P[0]), cut(), done(P[1])),
        asked=(FIRST, "-escalated 64000", LONGER), text=P[0] + P[1],
        events=(*UP, "restored", *continued(1), COMPLETED), api=api(up=1, on=1),
    ),
    Row(
        "empty cut", "continuation 1", (*_TO_1, cut()),
        asked=_ASKED_1, text=P[0], events=(*UP, *continued(1), *_NOTHING), api=api(up=1, on=1), ends=CUT,
        notice="added nothing",
    ),
    Row(
        "empty cut", "nudge", (_THOUGHT, _THOUGHT, cut()),
        asked=(*_THINK_TWICE, "nudge 64000"), text="", events=(*UP, "over thinking", *_NOTHING),
        api=api(up=1, repairs=1), ends=CUT, stored=(),
    ),
    Row(
        "empty cut with an override", "first", (cut(),),
        asked=("first 500",), text="", events=_NOTHING, ends=CUT, stored=(), settings=OutputSettings(override=500),
        notice="truncated before any text",
    ),
    Row(
        "half call dropped by the host", "first", (_HALF, done()),
        asked=("-first 8000", ESCALATED), events=(*UP, COMPLETED), api=api(up=1), skips=_SENDS_HALF_CALLS,
    ),
    Row(
        "half call dropped by the host", "escalated", (_HALF, _HALF),
        asked=("-first 8000", ESCALATED), text="", events=(*UP, *_NOTHING), api=api(up=1), ends=CUT, stored=(),
        notice="truncated before any text", skips=_SENDS_HALF_CALLS,
    ),
)  # fmt: skip

THINKING = (*_THINKING, *_INLINE_THINKING, *_EMPTY)
