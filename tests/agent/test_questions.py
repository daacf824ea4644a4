"""Approvals show every argument that changes the effect of a call, without invisible or forged text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given

from qcode.agent.approval_questions import approval_of
from qcode.protocol.approvals import Allow, CallApproval, Deny, Question
from qcode.protocol.events import ApprovalRequested, TurnEvent
from qcode.protocol.messages import ToolCall
from qcode.text.json import JsonObject
from qcode.tools.shell import Shell
from qcode.tools.workspace import Workspace
from tests.fakes.conversation import talk
from tests.fakes.scripted import Call, calls_reply, text_reply
from tests.protocol.test_visible import TEXTS, is_seen, read_back


def asked_about(base: Path, *calls: tuple[str, JsonObject]) -> list[CallApproval]:
    """Return the approvals that a conversation requests for these calls; all are denied."""
    replies: list[Sequence[object]] = [
        calls_reply(*(Call(name, arguments, f"c{number}") for number, (name, arguments) in enumerate(calls)))
    ]
    it = talk(base, *replies, text_reply("Done."))
    asked: list[CallApproval] = []

    def deny(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, Deny())

    asyncio.run(it.play("go", deny))
    return asked


@given(TEXTS)
def test_command_is_shown_completely_and_unambiguously(command: str) -> None:
    preview = Shell().preview({"command": command}, Workspace(Path("/")))
    question = approval_of(ToolCall("c", "shell", "{}"), preview, repeats=0, is_question=False)
    assert all(char == "\n" or is_seen(char) for char in question.question + question.detail)
    if not preview.refusal:
        assert read_back(question.detail.replace("\u23ce\n", "\u23ce")) == command


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ({}, "Run this command?"),
        ({"background": False, "unconfined": False}, "Run this command?"),
        ({"background": True}, "Run this command in the background?"),
        ({"unconfined": True}, "Run this command outside the sandbox?"),
        ({"timeout_s": 900}, "Run this command for at most 900 s?"),
        (
            {"background": True, "unconfined": True, "timeout_s": 5},
            "Run this command outside the sandbox, in the background?",
        ),
    ],
)
def test_approval_shows_every_argument_that_changes_how_a_command_runs(
    tmp_path: Path, arguments: JsonObject, question: str
) -> None:
    asked = asked_about(tmp_path, ("shell", {"command": "make x", **arguments}))
    assert [(item.question, item.detail) for item in asked] == [(question, "make x")]


def test_repeated_command_asks_with_its_arguments() -> None:
    preview = Shell().preview({"command": "make", "background": True}, Workspace(Path("/")))
    question = approval_of(ToolCall("c", "shell", "{}"), preview, repeats=3, is_question=False)
    assert question.question.endswith("3 times in a row. Run it again in the background?")


def test_command_that_looks_like_a_secret_diff_is_not_masked(tmp_path: Path) -> None:
    command = "cat <<'X'\n--- a/.env\n+++ b/.env\n@@ -1,9 +1,9 @@\n-X\nX\n rm -rf ~/important\n"
    (question,) = asked_about(tmp_path, ("shell", {"command": command}))
    assert question.detail == command.replace("\n", "\u23ce\n")


def test_diff_keeps_its_lines_with_any_character(tmp_path: Path) -> None:
    content = "a\r\x0bb\u2028+forged\n\tend \u202e\x1b[2J\n"
    (question,) = asked_about(tmp_path, ("write", {"path": "new.txt", "content": content}))
    rows = question.detail.split("\n")
    assert rows[:2] == ["--- /dev/null", "+++ b/new.txt"]
    assert rows[-1] == "+\u21e5   end \\u202e\\x1b[2J"
    assert all(row[0] in "-+@" and all(map(is_seen, row)) for row in rows)


def test_file_name_with_a_line_break_stays_one_name(tmp_path: Path) -> None:
    (question,) = asked_about(tmp_path, ("write", {"path": "a\n+++ b\u200b", "content": "x\n"}))
    assert question.question == "Create a\u23ce+++ b\\u200b?"
    assert question.detail.split("\n")[1] == "+++ b/a\ufffd+++ b\\u200b"


def test_secret_in_a_file_with_an_invisible_name_is_masked_in_its_diff(tmp_path: Path) -> None:
    secret = tmp_path / "work" / ".e\u200bnv"
    secret.parent.mkdir()
    secret.write_text("TOKEN=hunter2\n")
    it = talk(
        tmp_path,
        calls_reply(Call("read", {"path": ".e\u200bnv"}, "c0")),
        calls_reply(Call("edit", {"path": ".e\u200bnv", "old_text": "TOKEN", "new_text": "NAME"}, "c1")),
        text_reply("Done."),
    )
    asked: list[CallApproval] = []

    def allow(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, Allow() if event.approval.call.name == "read" else Deny())

    asyncio.run(it.play("go", allow))
    assert [item.call.name for item in asked] == ["read", "edit"]
    assert asked[0].detail == ".e\\u200bnv"
    assert "-TOKEN=[hidden]" in asked[1].detail


@pytest.mark.parametrize("name", ["fetch", "read", "ls", "glob", "grep"])
def test_line_breaks_in_arguments_cannot_forge_lines(tmp_path: Path, name: str) -> None:
    forged = "/etc/x\n1 Yes (y)\u2028\r> "
    given: dict[str, JsonObject] = {
        "fetch": {"url": "https://example.com/\n1. Yes"},
        "glob": {"pattern": "*\nx", "path": forged},
        "grep": {"pattern": "x", "path": forged},
    }
    for question in asked_about(tmp_path, (name, given.get(name, {"path": forged}))):
        assert "\n" not in question.question + question.detail
        assert all(map(is_seen, question.question + question.detail))


def test_question_of_the_model_and_its_choices_have_no_invisible_characters(tmp_path: Path) -> None:
    arguments: JsonObject = {"question": "Which\u202e?\nThis\x1b[2J one", "choices": [{"label": "a\nb"}]}
    (question,) = asked_about(tmp_path, ("ask_person", arguments))
    assert (question.question, question.detail) == ("Which\\u202e?", "This\\x1b[2J one")
    assert isinstance(question, Question)
    assert question.choices[0].label == "a\nb"  # the answer as the model wrote it; front ends paint it visible
