"""Sub-agents are shown in the card of the call that started them, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qcode.protocol.approvals import ToolApproval
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    Notice,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnStarted,
    UsageUpdated,
    Waiting,
)
from qcode.protocol.reply import Outcome, Source, TextDelta, WebSearched
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.tui.panels.choices import question_with_asker
from qcode.tui.transcript.cards import Card, CardUpdate
from tests.tui.scripted import FixedClock, call, ended, reply
from tests.tui.test_presenter import present
from tests.tui.transcript.test_cards import rows

STARTS = call("agent", '{"description": "look around", "prompt": "Look.", "kind": "explore"}', "a1")
READ = call("read", '{"path": "src/app.py"}', "a1/c1")


def inside(*events: TurnEvent) -> list[TurnEvent]:
    return [AgentEvent("a1", event) for event in events]


def updates(*events: TurnEvent) -> list[dict[str, str]]:
    record = present(reply("", STARTS), ToolStarted(STARTS), *events)
    return [changes for _, call_id, changes in record.of("update") if call_id == "a1"]


def joined(given: list[dict[str, str]], key: str) -> str:
    return "".join(item[key] for item in given if key in item)


def card_after(given: list[dict[str, str]]) -> Card:
    card = Card("agent", "look around", FixedClock())
    for changes in given:
        shown: dict[str, Any] = {key: text for key, text in changes.items() if key in ("append", "detail", "summary")}
        card.change(CardUpdate(**shown))
    return card


def test_each_call_of_a_sub_agent_is_a_line_of_its_card_with_the_outcome() -> None:
    denied = ToolFinished(call("shell", '{"command": "rm x"}', "a1/c2"), ToolOutcome("Denied", is_error=True), "denied")
    declined = replace(denied, outcome=replace(denied.outcome, summary="declined"))
    done = ToolFinished(READ, ToolOutcome("1\tcode"), "done")
    given = updates(*inside(StepStarted(1), ToolStarted(READ), done, denied, declined))
    assert joined(given, "append") == "✓ Read src/app.py\n✗ Run rm x  denied\n✗ Run rm x  declined\n"


def test_card_of_a_running_sub_agent_shows_steps_and_tokens() -> None:
    spent = UsageUpdated(Usage(input=12_000, output=300), None, 0, 0)
    given = updates(*inside(StepStarted(3), spent))
    assert given[-1] == {"summary": "3 steps, 12.3k tokens"}


def test_call_of_a_sub_agent_has_no_separate_card() -> None:
    question = ApprovalRequested(ToolApproval(READ, "Read it?", "", agent="look around"))
    record = present(reply("", STARTS), ToolStarted(STARTS), *inside(ToolStarted(READ)), question)
    assert [made[1] for made in record.of("card")] == ["a1"]
    assert record.of("ask") == [("ask", "a1/c1")]


def test_approval_of_a_sub_agent_is_withdrawn_when_its_call_or_task_ends() -> None:
    question = ApprovalRequested(ToolApproval(READ, "Read it?", "", agent="look around"))
    over = ToolFinished(STARTS, ToolOutcome("done"), "done")
    for last in (*inside(ToolFinished(READ, ToolOutcome(""), "cancelled")), over, ended()):
        record = present(reply("", STARTS), ToolStarted(STARTS), *inside(StepStarted(1)), question, last)
        assert ("withdraw", "a1/c1") in record.of("withdraw")


def test_open_question_of_a_sub_agent_is_the_status_of_its_card_until_the_call_starts() -> None:
    question = ApprovalRequested(ToolApproval(READ, "Read it?", "", agent="look around"))
    spent = UsageUpdated(Usage(input=1_000, output=0), None, 0, 0)
    asking = (*inside(StepStarted(1), spent), question, *inside(spent))
    assert updates(*asking)[-1] == {"summary": "Read src/app.py is waiting for your answer"}
    answered = updates(*asking, *inside(ToolStarted(READ), ToolFinished(READ, ToolOutcome("1\tcode"), "done")))
    assert "your answer" not in "\n".join(rows(card_after(answered)))
    assert "1 step, 1k tokens" in "\n".join(rows(card_after(answered)))
    assert updates(*asking, ended(Outcome.CANCELLED))[-1] == {"summary": "1 step, 1k tokens"}


def test_approval_names_the_sub_agent() -> None:
    question = ToolApproval(READ, "Read it?", "", agent="look\naround \x1b[31m")
    assert question_with_asker(question).startswith('Sub-agent "look')
    assert "\x1b" not in question_with_asker(question)
    assert "\n" not in question_with_asker(question)


def test_diff_of_a_sub_agent_shows_invisible_characters() -> None:
    edit = ToolFinished(READ, ToolOutcome("Edited.", diff="+ne\u200bw\u202e\n"), "done")
    assert "+ne\\u200bw\\u202e" in joined(updates(*inside(edit)), "detail")


def test_call_without_a_result_has_no_blank_row_below_it_in_the_detail() -> None:
    done = ToolFinished(READ, ToolOutcome("\n"), "done")
    assert joined(updates(*inside(done)), "detail") == "✓ Read src/app.py\n\n"


def test_expanded_card_shows_task_text_and_results_instead_of_lines() -> None:
    given = updates(
        *inside(TurnStarted("Find it."), reply("I look."), ToolFinished(READ, ToolOutcome("1\tcode"), "done")),
        *inside(Notice("warning", "careful")),
    )
    card = card_after(given)
    folded = "\n".join(rows(card))
    assert "✓ Read src/app.py" in folded
    assert "Find it." not in folded
    card.unfold(is_unfolded=True)
    unfolded = "\n".join(rows(card))
    assert [part in unfolded for part in ("Task: Find it.", "I look.", "✓ Read src/app.py", "code", "! careful")] == [
        True
    ] * 5


UNREACHABLE = Waiting(0.5, "cannot reach off at http://off.example/v1", attempt=1)


def test_failed_sub_agent_shows_its_error_once_also_when_unfolded() -> None:
    error = "1 step: cannot reach off at http://off.example/v1 (after 1 retry)"
    over = ToolFinished(STARTS, ToolOutcome("The sub-agent gave no answer.", is_error=True, summary=error), "failed")
    spent = UsageUpdated(Usage(), None, 0, 0)
    card = card_after(updates(*inside(TurnStarted("Look."), StepStarted(1), UNREACHABLE, spent), over))
    assert "\n".join(rows(card)).count("cannot reach") == 1
    card.unfold(is_unfolded=True)
    assert "\n".join(rows(card)).count("cannot reach") == 1


def test_wait_of_a_sub_agent_is_its_status_and_then_a_line_of_both_forms() -> None:
    waiting = inside(TurnStarted("Look."), StepStarted(1), UNREACHABLE, UNREACHABLE)
    assert updates(*waiting)[-1] == {"summary": "cannot reach off at http://off.example/v1"}
    card = card_after(updates(*waiting, *inside(reply("I look."))))
    folded = "\n".join(rows(card))
    assert folded.count("! cannot reach off") == folded.count("cannot reach") == 1
    card.unfold(is_unfolded=True)
    assert "! cannot reach off" in "\n".join(rows(card))


def test_hosted_search_is_shown_below_the_reply() -> None:
    search = WebSearched(
        ("newest",), (Source("https://a.example/x", "A [b]page[/b]\nof it"), Source("https://b.example"))
    )
    record = present(TextDelta(0, "It is 3."), search, reply("It is 3."))
    entries = [entry for entry in record.calls if entry[0] in ("settle", "notice")]
    assert [entry[0] for entry in entries] == ["settle", "notice"]
    assert entries[1][2].splitlines() == [
        'Searched the web for "newest".',
        "1. A [b]page[/b]⏎of it https://a.example/x",
        "2. https://b.example",
    ]
