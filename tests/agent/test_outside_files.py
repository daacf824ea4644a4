"""File tools outside the workspace: reading needs the user's approval, which is enough. Judge and files are real."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.protocol.approvals import Allow, Decision, Deny
from qcode.protocol.events import ApprovalRequested, ToolFinished, TurnEvent
from qcode.safety.rules import Rules
from qcode.text.json import JsonObject
from qcode.tools.workspace import OUTSIDE
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import call_reply, text_reply
from tests.safety.policies import policy_for

CALLS: dict[str, JsonObject] = {
    "read": {"path": "../beside/deep/note.txt"},
    "grep": {"path": "../beside", "pattern": "needle"},
    "glob": {"path": "../beside", "pattern": "**/*.txt"},
    "ls": {"path": "../beside/deep"},
}


def beside(base: Path) -> Path:
    folder = base / "beside"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "note.txt").write_text("a needle\n")
    (folder / ".env").write_text("needle=secret\n")
    return folder


def results(it: Talk, decision: Decision) -> tuple[int, list[ToolFinished]]:
    """Play a turn whose questions get `decision`; return the number of questions, and the results."""
    asked = 0

    def answer(event: TurnEvent) -> None:
        nonlocal asked
        if isinstance(event, ApprovalRequested):
            asked += 1
            it.conversation.answer(event.approval.id, decision)

    events = asyncio.run(it.play("go", answer))
    return asked, [event for event in events if isinstance(event, ToolFinished)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_approved_call_outside_the_workspace_runs(tmp_path: Path, tool: str, mode: str) -> None:
    beside(tmp_path)
    it = talk(tmp_path, call_reply(tool, CALLS[tool]), text_reply("Done."), mode=mode)
    asked, (finished,) = results(it, Allow())
    assert asked == 1
    assert finished.state == "done", finished.outcome.content
    assert ("needle" if tool in ("read", "grep") else "note.txt") in finished.outcome.content
    assert "=secret" not in finished.outcome.content


@pytest.mark.parametrize("tool", CALLS)
def test_denied_call_outside_the_workspace_does_not_run(tmp_path: Path, tool: str) -> None:
    beside(tmp_path)
    it = talk(tmp_path, call_reply(tool, CALLS[tool]), text_reply("Done."))
    asked, (finished,) = results(it, Deny("no"))
    assert asked == 1
    assert finished.state == "denied"
    assert "needle" not in finished.outcome.content


def test_folder_swapped_for_a_link_after_the_approval_is_not_read(tmp_path: Path) -> None:
    folder = beside(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "note.txt").write_text("private\n")
    it = talk(tmp_path, call_reply("read", CALLS["read"]), text_reply("Done."))

    def swap(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            (folder / "deep").rename(folder / "old")
            (folder / "deep").symlink_to(other)
            it.conversation.answer(event.approval.id, Allow())

    events = asyncio.run(it.play("go", swap))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.state == "failed"
    assert "private" not in finished.outcome.content


def test_search_of_an_approved_folder_keeps_asking_about_files_of_an_ask_rule(tmp_path: Path) -> None:
    folder = beside(tmp_path)
    rules = Rules.of(ask=(f"read({folder}/deep/**)",))
    it = talk(tmp_path, call_reply("grep", CALLS["grep"]), text_reply("Done."), rules=rules)
    _, (finished,) = results(it, Allow())
    assert "a needle" not in finished.outcome.content


@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_write_outside_the_workspace_fails_without_asking(tmp_path: Path, mode: str) -> None:
    folder = beside(tmp_path)
    call = call_reply("write", {"path": "../beside/deep/new.txt", "content": "new\n"})
    asked, (finished,) = results(talk(tmp_path, call, text_reply("Done."), mode=mode), Allow())
    assert asked == 0
    assert "is outside the workspace" in finished.outcome.content
    assert not (folder / "deep" / "new.txt").exists()


def test_rule_of_outside_paths_is_the_one_of_the_judge(tmp_path: Path) -> None:
    beside(tmp_path)
    policy = policy_for(tmp_path / "work")
    assert policy.judge_file("../beside/deep/note.txt", "read").check == OUTSIDE
    assert policy.judge_file("../beside/.env", "read").check == "path:secret"
