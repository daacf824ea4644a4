"""Plans: shown whole once they are approved, brought back by /plan show, also after a resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qcode.agent.sessions.history import HistoryEntry, StoredMessage
from qcode.agent.sessions.replay import plans_in
from qcode.agent.sessions.shown import ShownResult
from qcode.protocol.approvals import AcceptPlan, ApprovalMode, PlanApproval
from qcode.protocol.events import ApprovalRequested, ToolFinished
from qcode.protocol.messages import Message, assistant
from qcode.protocol.tools import ToolOutcome
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.transcript.cards import Card, CardUpdate
from qcode.tui.transcript.line import shown_text
from qcode.tui.transcript.replay import replay
from tests.agent.test_plan_mode import planning, play
from tests.fakes.conversation import talk
from tests.fakes.scripted import call_reply, text_reply
from tests.tui.harness import Running, drive
from tests.tui.scripted import FixedClock, Script, ScriptedConversation, call, ended, reply
from tests.tui.test_linear import talk as linear
from tests.tui.test_presenter import Recorder

STEPS = "\n".join(f"{number}. step {number}" for number in range(1, 31))
PLAN = f"# Cache\n\nThe index is **slow**.\n\n{STEPS}"
CALL = call("exit_plan_mode", json.dumps({"plan": PLAN}))
APPROVED = "Plan approved · qcode asks before each change"
DONE = ToolFinished(CALL, ToolOutcome("The user approved the plan.", summary=APPROVED), "done")
SCRIPT: Script = [
    reply("", CALL),
    ApprovalRequested(PlanApproval(CALL, "Carry out this plan?", PLAN)),
    DONE,
    ended(),
]


class Planned(ScriptedConversation):
    """A conversation with stored plans, as states of their calls."""

    def __init__(self, *plans: tuple[str, str, str]) -> None:
        super().__init__([])
        self.plans = plans

    @property
    def stored_messages(self) -> tuple[StoredMessage, ...]:
        found = []
        for text, state, summary in self.plans:
            asks = call("exit_plan_mode", json.dumps({"plan": text}))
            one = StoredMessage(HistoryEntry(Message("assistant", assistant(asks).blocks)), False)
            one.shown_results[asks.call_id] = ShownResult(state, summary)  # type: ignore[arg-type]  # a state
            found.append(one)
        return tuple(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [40, 80, 120])
def test_approved_plan_is_shown_whole_as_markdown_under_its_heading(width: int) -> None:
    async def test(run: Running) -> None:
        await run.send("plan it")
        await run.until_idle()
        rows = run.text.split("\n")
        at = next(index for index, row in enumerate(rows) if row.startswith("✓ Plan approved"))
        assert " ".join(rows[at : at + 2]).startswith("✓ Plan approved · qcode asks before")
        assert "  Cache" in rows
        assert "The index is slow." in run.text
        assert all(f"{number}. step {number}" in run.text for number in range(1, 31))
        assert "more" not in run.text

    drive(test, ScriptedConversation(SCRIPT), size=(width, 24))


def test_declined_plan_shows_its_heading_once_and_its_first_rows() -> None:
    card = Card("exit_plan_mode", "Cache", FixedClock())
    card.change(CardUpdate(state="declined", summary="use a file", plan=PLAN))
    rows = shown_text(card.rows(80)).split("\n")
    assert rows[:4] == ["✗ Plan  declined · use a file", "  Cache", "", "  The index is slow."]
    assert rows[-2:] == ["  4. step 4", "  … 26 more rows"]


def test_declined_plan_shows_a_reason_of_several_lines_above_its_rows() -> None:
    card = Card("exit_plan_mode", "Cache", FixedClock())
    card.change(CardUpdate(state="declined", output="use a file\nand no index", plan=PLAN))
    rows = [row.strip(" │") for row in shown_text(card.rows(80)).split("\n")]
    assert rows[:4] == ["✗ Plan  declined", "use a file", "and no index", "Cache"]


def test_plan_that_was_not_approved_is_folded() -> None:
    script: Script = [reply("", CALL), ToolFinished(CALL, ToolOutcome("Denied", is_error=True), "denied"), ended()]

    async def test(run: Running) -> None:
        await run.send("plan it")
        await run.until_idle()
        assert "approved" not in run.text
        assert "step 15" not in run.text
        await run.pilot.press("ctrl+o")
        await run.until(lambda: "step 15" in run.text)

    drive(test, ScriptedConversation(script))


@pytest.mark.parametrize(
    ("mode", "heading"),
    [("default", APPROVED), ("accept-edits", "Plan approved · edits run without asking")],
)
def test_heading_names_the_mode_that_the_user_chose_live_and_on_replay(
    tmp_path: Path, mode: ApprovalMode, heading: str
) -> None:
    it = planning(tmp_path, call_reply("exit_plan_mode", {"plan": PLAN}), text_reply("Done."))
    _, events = play(it, AcceptPlan(mode))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.outcome.summary == heading
    session = it.conversation.session_id
    it.conversation.release()
    again = talk(tmp_path, text_reply("x"), resumes=session)
    assert [(plan.text, plan.is_approved, plan.summary) for plan in plans_in(again.conversation.stored_messages)] == [
        (PLAN, True, heading)
    ]
    seen = Recorder()
    replay(again.conversation.stored_messages, seen, lambda: 0.0, max_continuations=3)
    (update,) = [item[2] for item in seen.calls if item[0] == "update" and "plan" in item[2]]
    assert (update["plan"], update["summary"]) == (PLAN, heading)
    again.conversation.release()


@pytest.mark.parametrize(
    ("plans", "heading", "text"),
    [
        ((("# Old", "denied", ""), ("# New", "done", APPROVED)), "Plan approved", "New"),
        ((("# Old", "done", APPROVED), ("# New", "denied", "")), "Plan declined", "New"),
        ((("# Old", "done", APPROVED), ("# New", "cancelled", "")), "Plan, not approved", "New"),
    ],
)
def test_plan_show_opens_the_last_plan_with_its_state(
    plans: tuple[tuple[str, str, str], ...], heading: str, text: str
) -> None:
    async def test(run: Running) -> None:
        await run.send("/plan show")
        await run.until(lambda: isinstance(run.app.screen, PagerScreen))
        await run.pilot.pause()
        assert heading in run.screen
        assert text in run.screen
        assert "#" not in run.screen
        assert run.app.agent.conversation.mode == "default"
        await run.pilot.press("escape")
        await run.until(lambda: not isinstance(run.app.screen, PagerScreen))

    drive(test, Planned(*plans))


def test_plan_show_without_a_plan_says_so() -> None:
    async def test(run: Running) -> None:
        await run.send("/plan show")
        await run.until(lambda: "No plan in this session yet." in run.text)

    drive(test)


def test_linear_mode_prints_the_whole_plan_and_brings_it_back() -> None:
    lines = linear(ScriptedConversation([reply("", CALL), DONE, ended()]), "go")
    at = lines.index(APPROVED)
    assert lines[at + 1 : at + 5] == ["  # Cache", "  ", "  The index is **slow**.", "  "]
    assert "  15. step 15" in lines
    lines = linear(Planned(("# Old", "done", APPROVED)), "/plan show")
    assert f"{APPROVED}:" in lines
    assert "# Old" in lines
