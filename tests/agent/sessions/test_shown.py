"""Durations of a turn and its parts, as the recorder of shown events measures them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qcode.agent.sessions.session import ShownRecorder
from qcode.protocol.approvals import PlanApproval, Question, ToolApproval
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    LimitReached,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    Waiting,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ToolOutcome
from tests.tui.scripted import FixedClock, ended

RUN, OTHER, AGENT = (ToolCall(name, "shell", "{}") for name in ("c1", "c2", "a1"))
ASK = ApprovalRequested(ToolApproval(RUN, "Run it?", "x"))
LIMIT = LimitReached(ErrorInfo("rate_limit", "limit"), 60.0, is_question=True)
OVER = ended()


def done(call: ToolCall) -> ToolFinished:
    return ToolFinished(call, ToolOutcome("ok"), "done")


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([(1, ASK), (31, ToolStarted(RUN)), (35, done(RUN)), (36, OVER)], 6),
        ([(1, ApprovalRequested(PlanApproval(RUN, "Do it?", "x"))), (31, done(RUN)), (32, OVER)], 2),
        ([(1, ApprovalRequested(Question(RUN, "Where?"))), (31, done(RUN)), (32, OVER)], 2),
        ([(1, ASK), (31, OVER)], 1),
        ([(1, LIMIT), (31, Waiting(5.0, "limit", 1)), (36, OVER)], 6),
        # Another call runs meanwhile, until the 20th second.
        (
            [(0, ToolStarted(OTHER)), (1, ASK), (20, done(OTHER)), (31, ToolStarted(RUN)), (32, done(RUN)), (33, OVER)],
            22,
        ),
        # The only sub-agent asks, so its call waits as well.
        (
            [
                (0, ToolStarted(AGENT)),
                (1, ApprovalRequested(ToolApproval(RUN, "Run it?", "x", agent="task"))),
                (31, AgentEvent("a1", ToolStarted(RUN))),
                (33, done(AGENT)),
                (34, OVER),
            ],
            4,
        ),
        # A tool server asks during a call, which may work meanwhile.
        ([(0, ToolStarted(RUN)), (1, ApprovalRequested(Question(RUN, "?", server="s"))), (9, done(RUN)), (9, OVER)], 9),
    ],
)
def test_duration_of_a_turn_leaves_out_the_time_it_only_waited_for_the_user(
    events: Sequence[tuple[float, TurnEvent]], seconds: float
) -> None:
    clock = FixedClock()
    clock.now = 0.0
    recorder = ShownRecorder(lambda items: None, clock)
    last: TurnEvent | None = None
    for at, event in events:
        clock.now = at
        last = recorder.see(event)
    assert isinstance(last, TurnEnded)
    assert last.seconds == seconds
