"""The join of a continuation with the text before it: repeated text is removed, intended text is kept."""

from __future__ import annotations

from qcode.engine.reply.seam import RESTART_MARK
from qcode.protocol.reply import Outcome, StopReason
from tests.e2e.limits.row import (
    COMPLETED,
    CUT,
    ESCALATED,
    FIRST,
    LONGER,
    UP,
    P,
    Row,
    Step,
    api,
    continued,
    cut,
    done,
)

_FOX = "The quick brown fox jumps over the lazy"
_LINES = "Line one é.\nLine two.\nLine thr"
_TABLE = "| a | b |\n|---|---|\n"
_CODE = "Code:\n\n```python\nprint(1)\npri"
_LOOP = "and so on and on\n" * 400


def _seam(cause: str, before: str, answer: str, text: str) -> Row:
    return Row(
        cause,
        "continuation 1",
        (cut("lost"), cut(before), done([answer[:5], answer[5:]])),
        asked=("-first 8000", ESCALATED, LONGER),
        text=text,
        events=(*UP, *continued(1), COMPLETED),
        api=api(up=1, on=1),
    )


_CLEANED = (
    _seam("overlap", _FOX, "fox jumps over the lazy dog — ✓.", "The quick brown fox jumps over the lazy dog — ✓."),
    _seam("code fence opened again", _CODE, "```python\nnt(2)\n```\n", _CODE + "nt(2)\n```\n"),
    _seam("lead-in", "Eins ", "Continuing from where I left off:\n\nzwei.", "Eins zwei."),
    _seam("table header again", _TABLE + "| 1 | 2 |\n", _TABLE + "| 3 | 4 |\n", _TABLE + "| 1 | 2 |\n| 3 | 4 |\n"),
    _seam("heading again", "Hi.\n\n## Part\nEins.\n", "## Part\nZwei.\n", "Hi.\n\n## Part\nEins.\nZwei.\n"),
    _seam("restart that goes further", _LINES, _LINES + "ee.\nLine four.", _LINES + "ee.\nLine four."),
    _seam(
        "restart that departs", _LINES, "Line one é.\nLine two.\nSomething else.",
        _LINES + RESTART_MARK + "Something else.",
    ),
    _seam("list opener that may be meant", "- one\n- ", "- two\n", "- one\n- - two\n"),
)  # fmt: skip

_ELSEWHERE = (
    Row(
        "overlap", "continuation 2", (cut("lost"), cut("Well. "), cut(_FOX), done("fox jumps over the lazy dog.")),
        asked=("-first 8000", ESCALATED, LONGER, LONGER), text=f"Well. {_FOX} dog.",
        events=(*UP, *continued(1, 2), COMPLETED), api=api(up=1, on=2),
    ),
    Row(
        "overlap", "transport continuation",
        (Step(done([_FOX, "…"]), "drop", after=_FOX), done("fox jumps over the lazy dog.")),
        asked=(FIRST, "continuation 8000"), text=f"{_FOX} dog.", events=("waiting", "on transport"),
        api=api(retries=1),
    ),
    Row(
        "nothing but the text before", "continuation 1", (cut("lost"), cut(_FOX), cut("fox jumps over the lazy")),
        asked=("-first 8000", ESCALATED, LONGER), text=_FOX, events=(*UP, *continued(1), "ended no_progress"),
        api=api(up=1, on=1), ends=CUT, notice="added nothing",
    ),
    Row(
        "nothing but white space", "continuation 2", (cut("lost"), cut(P[0]), cut("zwei"), cut(" \n ")),
        asked=("-first 8000", ESCALATED, LONGER, LONGER), text=None,
        events=(*UP, *continued(1, 2), "ended no_progress"), api=api(up=1, on=2), ends=CUT,
    ),
    Row(
        "one new character", "continuation 1", (cut("lost"), cut(_FOX), cut("!"), done(" Ende.")),
        asked=("-first 8000", ESCALATED, LONGER, LONGER), text=f"{_FOX}! Ende.",
        events=(*UP, *continued(1, 2), COMPLETED), api=api(up=1, on=2),
    ),
    Row(
        "repeats itself without end", "first", (Step(done(["Now: ", _LOOP]), "stall", after=_LOOP),),
        asked=(FIRST,), text=None, ends=(Outcome.ERROR, None, 1), notice="repeating itself",
    ),
    Row(
        "repeats itself without end", "continuation 1",
        (cut("lost"), cut(P[0]), Step(done(["Now: ", _LOOP]), "stall", after=_LOOP)),
        asked=("-first 8000", ESCALATED, LONGER), text=None, events=(*UP, *continued(1), "ended no_progress"),
        api=api(up=1, on=1), ends=(Outcome.MAX_TOKENS, StopReason.MAX_TOKENS, 56), notice="repeating itself",
    ),
    Row(
        "repeats itself without end", "escalated", (cut("lost"), Step(done(["Now: ", _LOOP]), "stall", after=_LOOP)),
        asked=("-first 8000", ESCALATED), text=None, events=(*UP, "ended error"), api=api(up=1),
        ends=(Outcome.ERROR, None, 1), notice="repeating itself",
    ),
)  # fmt: skip

SEAMS = (*_CLEANED, *_ELSEWHERE)
