"""A call that the user moves to the background."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.protocol.approvals import Allow
from qcode.protocol.events import ApprovalRequested, ToolFinished, ToolOutput, ToolStarted, TurnEvent
from qcode.protocol.reply import Outcome
from qcode.tools.jobs import MAX_JOBS
from tests.fakes.conversation import Talk, ended, talk
from tests.fakes.scripted import Steps, call_reply, text_reply

COMMAND = "echo begun; until [ -e go ]; do sleep 0.01; done; echo done"


def listing() -> Steps:
    return call_reply("jobs", {"action": "read", "job": 1, "wait_s": 30}, call_id="call_2")


def play(it: Talk) -> list[TurnEvent]:
    """Run a turn; move its command to the background after its first output."""
    known: list[tuple[str, ...]] = []

    def on_event(event: TurnEvent) -> None:
        background = it.conversation.background
        if isinstance(event, ApprovalRequested):
            it.conversation.answer(event.approval.id, Allow())
        if isinstance(event, ToolOutput) and "begun" in event.text:
            known.append(background.calls)
            background.move("call_1")
            background.move("nobody")
            known.append(background.calls)
        if isinstance(event, ToolFinished) and event.call.call_id == "call_1":
            (it.work / "go").touch()

    async def turn() -> list[TurnEvent]:
        try:
            return await it.play("run it", on_event)
        finally:
            await it.conversation.close()

    events = asyncio.run(turn())
    assert known == [("call_1",), ()]
    return events


def test_backgrounded_call_ends_with_its_output_and_the_job_continues(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("shell", {"command": COMMAND}), listing(), text_reply("Fine."))
    events = play(it)
    assert [event.is_backgroundable for event in events if isinstance(event, ToolStarted)] == [True, False]
    first, second = (event.outcome for event in events if isinstance(event, ToolFinished))
    assert first.content.startswith("begun\n[the user moved it")
    assert not first.is_error
    assert second.content.startswith("done\n")
    assert ended(events).outcome is Outcome.END_TURN
    assert it.conversation.background.calls == ()


def test_full_job_list_keeps_the_command_in_the_foreground(tmp_path: Path) -> None:
    starts = [
        call_reply("shell", {"command": "sleep 60", "background": True}, call_id=f"job_{number}")
        for number in range(MAX_JOBS)
    ]
    it = talk(tmp_path, *starts, call_reply("shell", {"command": COMMAND}), text_reply("Fine."))

    def on_event(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            it.conversation.answer(event.approval.id, Allow())
        if isinstance(event, ToolOutput) and "begun" in event.text:
            with pytest.raises(ValueError, match="stop one with jobs first"):
                it.conversation.background.move("call_1")
            assert it.conversation.background.calls == ("call_1",)
            (it.work / "go").touch()

    async def turn() -> list[TurnEvent]:
        try:
            return await it.play("run it", on_event)
        finally:
            await it.conversation.close()

    events = asyncio.run(turn())
    (last,) = (e.outcome for e in events if isinstance(e, ToolFinished) and e.call.call_id == "call_1")
    assert last.content == "begun\ndone\n[exit code 0]"
