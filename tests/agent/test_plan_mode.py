"""Only the user's answer to a plan ends plan mode. The engine and driver are real."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from qcode.agent.sessions.replay import replay_messages
from qcode.protocol.approvals import AcceptPlan, Allow, Answer, ApprovalMode, CallApproval, Decision, Deny, PlanApproval
from qcode.protocol.events import ApprovalRequested, Notice, ToolFinished, ToolStarted, TurnEvent
from qcode.text.json import Json, JsonObject
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import Call, call_reply, calls_reply, text_reply

PLAN = "# Goal\n\n1. write a.txt"
NAME = "exit_plan_mode"
WRITE = call_reply("write", {"path": "a.txt", "content": "x\n"})


def planning(
    base: Path,
    *replies: Sequence[object],
    mode: ApprovalMode = "plan",
    is_attended: bool = True,
    is_trusted: bool = True,
) -> Talk:
    return talk(base, *replies, mode=mode, is_attended=is_attended, is_trusted=is_trusted)


def hands_in(**arguments: Json) -> Sequence[object]:
    return call_reply(NAME, {"plan": PLAN, **arguments})


def play(it: Talk, *answers: Decision) -> tuple[list[CallApproval], list[TurnEvent]]:
    left, asked = list(answers), []

    def answering(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, left.pop(0) if left else Deny())

    return asked, asyncio.run(it.play("plan it", answering))


def offered(it: Talk, request: int) -> list[str]:
    return [tool.name for tool in it.provider.requests[request].tools]


@pytest.mark.parametrize("mode", ["accept-edits", "default"])
def test_approved_plan_is_carried_out_in_the_chosen_mode(tmp_path: Path, mode: ApprovalMode) -> None:
    it = planning(tmp_path, hands_in(), WRITE, text_reply("Done."))
    asked, _ = play(it, AcceptPlan(mode), Allow())
    assert isinstance(asked[0], PlanApproval)
    assert asked[0].detail == PLAN
    assert len(asked) == (1 if mode == "accept-edits" else 2)
    assert it.conversation.mode == mode
    assert (it.work / "a.txt").read_text() == "x\n"
    assert NAME in offered(it, 0)
    assert NAME not in offered(it, 1)
    assert f"Be brief ({mode})." in it.provider.requests[1].system
    result = it.conversation.messages[2].blocks[0]
    assert f"The mode is now {mode}" in result.content  # type: ignore[union-attr]  # a result


def test_rejected_plan_returns_the_feedback_of_the_user(tmp_path: Path) -> None:
    it = planning(tmp_path, hands_in(), hands_in(), WRITE, text_reply("Hm."))
    asked, events = play(it, Deny("smaller steps"), Deny())
    assert len(asked) == 2
    assert it.conversation.mode == "plan"
    results = [event for event in events if isinstance(event, ToolFinished)]
    assert "smaller steps" in results[0].outcome.content
    assert [event.state for event in results] == ["denied", "denied", "denied"]
    assert not (it.work / "a.txt").exists()


def test_plan_in_an_untrusted_folder_never_accepts_edits(tmp_path: Path) -> None:
    it = planning(tmp_path, hands_in(), WRITE, text_reply("Done."), is_trusted=False)
    asked, events = play(it, AcceptPlan("accept-edits"), Allow())
    assert isinstance(asked[0], PlanApproval)
    assert not asked[0].is_trusted
    assert len(asked) == 2, "the edit asks"
    assert it.conversation.mode == "default"
    (plan, _) = [event for event in events if isinstance(event, ToolFinished)]
    assert plan.outcome.summary == "Plan approved · qcode asks before each change"


@pytest.mark.parametrize(("decision", "shown"), [(Deny("smaller"), "smaller"), (Deny(), "plan mode continues")])
def test_denied_plan_has_other_words_for_the_user_than_for_the_model(
    tmp_path: Path, decision: Deny, shown: str
) -> None:
    it = planning(tmp_path, hands_in(), text_reply("Hm."))
    _, events = play(it, decision)
    (denied,) = [event for event in events if isinstance(event, ToolFinished)]
    assert "change nothing" in denied.outcome.content
    assert denied.outcome.shown == f"Declined: {shown}"
    (replayed,) = [item for item in replay_messages(it.conversation.stored_messages) if isinstance(item, ToolFinished)]
    assert replayed.outcome.shown == f"Declined: {shown}"


@pytest.mark.parametrize("mode", ["bypass", "auto", "plan"])
def test_plan_answer_grants_at_most_accept_edits(tmp_path: Path, mode: ApprovalMode) -> None:
    it = planning(tmp_path, hands_in(), text_reply("Done."))
    play(it, AcceptPlan(mode))
    assert it.conversation.mode == "default"


def test_arguments_of_the_model_cannot_end_plan_mode(tmp_path: Path) -> None:
    it = planning(
        tmp_path, hands_in(mode="bypass", approved=True), WRITE, call_reply(NAME, {"plan": " "}), text_reply("Hm.")
    )
    asked, events = play(it)
    assert asked == []
    assert it.conversation.mode == "plan"
    assert all(event.outcome.is_error for event in events if isinstance(event, ToolFinished))


@pytest.mark.parametrize("decision", [Allow(), Allow("session"), Answer("yes")])
def test_decision_of_another_kind_denies_a_plan(tmp_path: Path, decision: Decision) -> None:
    it = planning(tmp_path, hands_in(), text_reply("Done."))
    _, events = play(it, decision)
    assert it.conversation.mode == "plan"
    assert it.conversation.permissions.rules() == ()
    assert [item.decision for item in it.conversation.permissions.decisions()] == ["denied"]
    message = f"{type(decision).__name__} does not decide a PlanApproval; it was denied."
    assert [event.text for event in events if isinstance(event, Notice)] == [message]


@pytest.mark.parametrize("decision", [AcceptPlan("accept-edits"), Answer("yes")])
def test_decision_of_another_kind_denies_a_call(tmp_path: Path, decision: Decision) -> None:
    it = planning(tmp_path, WRITE, text_reply("Done."), mode="default")
    _, events = play(it, decision)
    assert it.conversation.mode == "default"
    assert [event.state for event in events if isinstance(event, ToolFinished)] == ["denied"]
    assert any(isinstance(event, Notice) and "does not decide a ToolApproval" in event.text for event in events)


def test_plan_after_the_end_of_plan_mode_is_answered_without_asking(tmp_path: Path) -> None:
    it = planning(tmp_path, hands_in(), text_reply("Done."))

    async def turn() -> list[CallApproval]:
        asked = []
        async for event in it.conversation.submit("plan it"):
            if it.conversation.mode == "plan":
                it.conversation.set_mode("default")
            asked += [event.approval] if isinstance(event, ApprovalRequested) else []
        return asked

    assert asyncio.run(turn()) == []
    assert "no tool" in str(it.conversation.messages[2]) or "over already" in str(it.conversation.messages[2])


@pytest.mark.parametrize(("mode", "is_attended"), [("plan", False), ("default", True), ("accept-edits", True)])
def test_plan_tool_is_offered_only_in_plan_mode_with_a_user(
    tmp_path: Path, mode: ApprovalMode, is_attended: bool
) -> None:
    it = planning(tmp_path, text_reply("Here is the plan."), mode=mode, is_attended=is_attended)
    play(it)
    assert NAME not in offered(it, 0)


def test_mode_switched_during_a_turn_reaches_the_model_in_the_next_step(tmp_path: Path) -> None:
    it = planning(tmp_path, call_reply("ls", {}), text_reply("Done."), mode="default")

    async def turn() -> None:
        async for event in it.conversation.submit("look"):
            if isinstance(event, ToolStarted):
                it.conversation.set_mode("plan")

    asyncio.run(turn())
    assert "Be brief (plan)." in it.provider.requests[1].system
    assert NAME in offered(it, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "echo x > /etc/no-such-folder/x"},
        {"command": "echo x > /sys/no-such-folder/x"},
        {"command": "ls > /home/somebody/no-such-folder/x"},
        {"command": "ls", "unconfined": True},
    ],
    ids=str,
)
def test_command_not_known_to_only_read_is_denied_in_plan_mode(tmp_path: Path, arguments: JsonObject) -> None:
    # Even if these were offered and approved, there is no such folder to write to.
    it = planning(tmp_path, call_reply("shell", arguments), text_reply("Hm."))
    asked, events = play(it, Deny())
    assert asked == []
    assert [event.state for event in events if isinstance(event, ToolFinished)] == ["denied"]
    assert [decision.decision for decision in it.conversation.permissions.decisions()] == ["refused"]


def test_reading_outside_the_workspace_is_still_offered_in_plan_mode(tmp_path: Path) -> None:
    (tmp_path / "beside.txt").write_text("beside")
    it = planning(tmp_path, call_reply("read", {"path": "../beside.txt"}), text_reply("Hm."))
    asked, _ = play(it, Deny())
    assert [event.call.name for event in asked] == ["read"]


@pytest.mark.parametrize("tool", ["write", "shell"])
def test_open_approval_of_a_change_is_denied_when_plan_mode_starts(tmp_path: Path, tool: str) -> None:
    call = WRITE if tool == "write" else call_reply("shell", {"command": "touch a.txt"})
    it = planning(tmp_path, call, text_reply("Hm."), mode="default")
    asked: list[CallApproval] = []

    def switching(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.set_mode("plan")
            it.conversation.answer(event.approval.id, Allow())

    events = asyncio.run(it.play("write it", switching))
    assert len(asked) == 1
    assert [event.state for event in events if isinstance(event, ToolFinished)] == ["denied"]
    assert not (it.work / "a.txt").exists()


def test_open_approval_of_a_read_stays_open_when_plan_mode_starts(tmp_path: Path) -> None:
    (tmp_path / "beside.txt").write_text("beside")
    it = planning(tmp_path, call_reply("read", {"path": "../beside.txt"}), text_reply("Hm."), mode="default")

    def switching(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            it.conversation.set_mode("plan")
            it.conversation.answer(event.approval.id, Allow())

    events = asyncio.run(it.play("read it", switching))
    assert ["beside" in event.outcome.content for event in events if isinstance(event, ToolFinished)] == [True]


def test_allowed_change_that_has_not_started_does_not_run_in_plan_mode(tmp_path: Path) -> None:
    calls = calls_reply(Call("ls", {}, "c0"), Call("write", {"path": "a.txt", "content": "x\n"}, "c1"))
    it = planning(tmp_path, calls, text_reply("Hm."), mode="accept-edits")

    def switching(event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            it.conversation.set_mode("plan")

    asyncio.run(it.play("write it", switching))
    assert not (it.work / "a.txt").exists()
