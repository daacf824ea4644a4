"""Calls that the user edits before they run: judged again, told to the model, kept in the session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.sessions.replay import replay_messages
from qcode.protocol.approvals import Allow, Decision, Deny, Draft, Revise, ToolApproval
from qcode.protocol.events import Notice, ToolFinished, ToolStarted, TurnEvent
from qcode.protocol.messages import ToolCall, ToolResult
from qcode.protocol.tools import ToolSpec
from qcode.safety.rules import Rules
from qcode.text.json import JsonObject
from qcode.tools.files.notebooks import NotebookEdit
from qcode.tools.shell import Shell
from qcode.tools.tool import draft_of, revised_arguments
from tests.agent.test_approvals import asked_in
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import call_reply, text_reply

CONTENT = "first\nsecond\nthird\n"
WRITE = call_reply("write", {"path": "a.txt", "content": CONTENT})
TOUCH = call_reply("shell", {"command": "touch one"})


def deciding(it: Talk, *decisions: Decision) -> Callable[[ToolApproval], None]:
    left = list(decisions)
    return lambda approval: it.conversation.answer(approval.id, left.pop(0))


def result_of(it: Talk) -> str:
    results = [
        block for message in it.conversation.messages for block in message.blocks if isinstance(block, ToolResult)
    ]
    return results[-1].content


def test_edited_content_is_written_shown_again_and_reported_to_the_model(tmp_path: Path) -> None:
    it = talk(tmp_path, WRITE, text_reply("Done."))
    revised = CONTENT.replace("second", "2nd")
    asked, (finished,) = asked_in(it, deciding(it, Revise(revised), Allow()))
    assert [item.is_revised for item in asked] == [False, True]
    assert asked[0].draft == Draft(CONTENT, "content.txt")
    assert asked[1].draft == Draft(revised, "content.txt")
    assert asked[0].id == asked[1].id
    assert "+2nd" in asked[1].detail
    assert "+second" not in asked[1].detail
    assert (it.work / "a.txt").read_text() == revised
    assert finished.is_revised
    assert json.loads(finished.call.arguments)["content"] == revised
    assert finished.outcome.shown is not None
    assert "edited" not in finished.outcome.shown
    result = result_of(it)
    assert result.startswith(
        "The user edited this call before it ran. It ran with:\n- `content` with these changes:\n@@"
    )
    assert "\n-second\n+2nd\n" in result
    assert result.endswith(f"The result:\n{finished.outcome.shown}")


def test_edited_command_runs_and_is_reported_to_the_model(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    asked, (finished,) = asked_in(it, deciding(it, Revise("touch two"), Allow()))
    assert [item.detail for item in asked] == ["touch one", "touch two"]
    assert [item.rule for item in asked] == ["shell(touch one)", "shell(touch two)"]
    assert (finished.state, finished.is_revised) == ("done", True)
    assert not (it.work / "one").exists()
    assert (it.work / "two").exists()
    assert "It ran with:\n- `command`: touch two\nThe result:\n" in result_of(it)
    # The reply of the model stays as it was sent.
    assert [call.arguments for message in it.conversation.messages for call in message.calls] == [
        '{"command": "touch one"}'
    ]


def test_call_that_needs_no_approval_after_the_edit_is_still_shown(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    asked, (finished,) = asked_in(it, deciding(it, Revise("pwd"), Allow()))
    assert [item.detail for item in asked] == ["touch one", "pwd"]
    assert asked[1].reason.startswith("Asks because you edited it · the command runs ")
    assert finished.state == "done"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rm -rf one", "Your edit was not used: "),
        (" \n", "Your edit was not used: the text is empty."),
    ],
)
def test_edit_that_is_denied_or_empty_leaves_the_call_unchanged(tmp_path: Path, text: str, why: str) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."), rules=Rules.of(deny=["shell(rm *)"]))
    notices: list[TurnEvent] = []
    asked: list[ToolApproval] = []
    decisions: list[Decision] = [Revise(text), Allow()]

    def see(event: TurnEvent) -> None:
        notices.append(event)
        approval = getattr(event, "approval", None)
        if isinstance(approval, ToolApproval):
            asked.append(approval)
            it.conversation.answer(approval.id, decisions.pop(0))

    asyncio.run(it.play("go", see))
    assert asked[0] == asked[1]
    (notice,) = [event for event in notices if isinstance(event, Notice)]
    assert notice.level == "warning"
    assert notice.text.startswith(why)
    assert "The question shows the call as before" in notice.text
    assert (it.work / "one").exists()
    assert "edited" not in result_of(it)


def test_allowed_call_with_other_arguments_runs_without_another_question(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, TOUCH, text_reply("Done."))
    asked, finished = asked_in(it, deciding(it, Allow("session", {"command": "touch two"}), Deny("enough")))
    assert [item.detail for item in asked] == ["touch one", "touch one"]
    assert [(item.state, item.is_revised) for item in finished] == [("done", True), ("denied", False)]
    assert not (it.work / "one").exists()
    assert (it.work / "two").exists()
    told = [str(block) for message in it.conversation.messages for block in message.blocks]
    assert any("It ran with:\\n- `command`: touch two" in text for text in told)
    assert [rule.text for rule in it.conversation.permissions.rules()] == ["shell(touch two)"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"command": "rm -rf one"}, "the rule shell(rm *) denies it"),
        ({"command": 7}, "command"),
        ({}, "command"),
        ({"command": Path("x")}, "it is not a JSON object"),
        ({"command": "touch two", "timeout_s": float("nan")}, "it is not a JSON object"),
    ],
)
def test_allowed_call_with_unusable_arguments_is_denied_with_the_reason(
    tmp_path: Path, changed: Any, reason: str
) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."), rules=Rules.of(deny=["shell(rm *)"]))
    _, (finished,) = asked_in(it, deciding(it, Allow(input=changed)))
    assert finished.state == "denied"
    assert "the changed input cannot be used: " in result_of(it)
    assert reason in result_of(it)
    assert not (it.work / "one").exists()


def test_allowed_call_with_the_same_arguments_counts_as_unchanged(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    _, (finished,) = asked_in(it, deciding(it, Allow(input={"command": "touch one"})))
    assert (finished.state, finished.is_revised) == ("done", False)
    assert "edited" not in result_of(it)


def test_edited_call_can_be_denied_and_edited_twice(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    asked, (finished,) = asked_in(it, deciding(it, Revise("touch two"), Revise("touch three"), Deny("stop it")))
    assert [item.detail for item in asked] == ["touch one", "touch two", "touch three"]
    assert finished.state == "denied"
    assert result_of(it) == "Denied: stop it"


def test_rule_stored_with_an_edited_call_covers_the_edited_call(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    asked_in(it, deciding(it, Revise("touch two"), Allow("session")))
    assert [rule.text for rule in it.conversation.permissions.rules()] == ["shell(touch two)"]


def test_mode_that_allows_an_edited_change_runs_it_as_edited(tmp_path: Path) -> None:
    it = talk(tmp_path, WRITE, text_reply("Done."))
    count = iter(range(2))

    def decide(approval: ToolApproval) -> None:
        if next(count):
            it.conversation.set_mode("accept-edits")
        else:
            it.conversation.answer(approval.id, Revise("mine\n"))

    _, (finished,) = asked_in(it, decide)
    assert finished.is_revised
    assert (it.work / "a.txt").read_text() == "mine\n"


def test_plan_mode_refuses_a_call_that_is_being_edited(tmp_path: Path) -> None:
    it = talk(tmp_path, WRITE, text_reply("Done."))

    def decide(approval: ToolApproval) -> None:
        it.conversation.answer(approval.id, Revise("mine\n"))
        it.conversation.set_mode("plan")

    asked, (finished,) = asked_in(it, decide)
    assert len(asked) == 1
    assert finished.state == "denied"
    assert not (it.work / "a.txt").exists()


def test_session_stores_and_replays_the_edited_call(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    asked_in(it, deciding(it, Revise("touch two"), Allow()))
    session = it.conversation.session_id
    it.conversation.release()
    (file,) = (tmp_path / "state").rglob(f"*{session}*.jsonl")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    (intent,) = [record for record in records if record["kind"] == "intent"]
    assert json.loads(intent["arguments"]) == {"command": "touch two"}
    again = talk(tmp_path, text_reply("x"), resumes=session)
    items = replay_messages(again.conversation.stored_messages)
    tool_events = [item for item in items if isinstance(item, (ToolStarted, ToolFinished))]
    assert [json.loads(item.call.arguments) for item in tool_events] == 2 * [{"command": "touch two"}]
    assert isinstance(tool_events[1], ToolFinished)
    assert tool_events[1].is_revised
    again.conversation.release()


def test_edited_call_that_broke_off_is_reported_as_it_ran(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    asked_in(it, deciding(it, Revise("touch two"), Allow()))
    session = it.conversation.session_id
    it.conversation.release()
    (file,) = (tmp_path / "state").rglob(f"*{session}*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    last = next(index for index, line in enumerate(lines) if json.loads(line)["kind"] == "intent")
    file.write_text("".join(lines[: last + 1]))
    again = talk(tmp_path, text_reply("x"), resumes=session)
    assert 'it ran with {"command": "touch two"}.' in result_of(again)
    items = [
        item.call for item in replay_messages(again.conversation.stored_messages) if isinstance(item, ToolFinished)
    ]
    assert [json.loads(call.arguments) for call in items] == [{"command": "touch two"}]
    again.conversation.release()


def spec(**given: Any) -> ToolSpec:
    return ToolSpec("x", "", {}, **given)


@pytest.mark.parametrize(
    ("of", "arguments", "draft"),
    [
        (Shell.spec, {"command": "ls", "background": True}, Draft("ls", "command.sh")),
        (spec(draft_argument="content"), {"path": "a/b.py", "content": "x"}, Draft("x", "content.py")),
        (spec(draft_argument="content"), {"path": "a/b.e v/i.l$", "content": "x"}, Draft("x", "content.txt")),
        (NotebookEdit.spec, {"path": "n.ipynb", "mode": "delete"}, None),
        (spec(), {"ü": [1]}, Draft('{\n  "ü": [\n    1\n  ]\n}', "arguments.json")),
    ],
)
def test_editable_part_is_the_text_of_a_call_or_its_arguments(
    of: ToolSpec, arguments: JsonObject, draft: Draft | None
) -> None:
    assert draft_of(of, arguments) == (draft or Draft(json.dumps(arguments, indent=2), "arguments.json"))


def test_edited_json_is_an_object_and_the_rest_of_the_call_stays() -> None:
    assert revised_arguments(spec(), {"a": 1}, '{"a": 2}') == {"a": 2}
    assert revised_arguments(Shell.spec, {"command": "ls", "background": True}, "pwd") == {
        "command": "pwd",
        "background": True,
    }
    for broken in ('{"a": 2', "[1]", "no"):
        with pytest.raises(ValueError, match="not a JSON object"):
            revised_arguments(spec(), {"a": 1}, broken)


def test_call_ids_of_an_unknown_or_settled_approval_are_ignored(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("Done."))
    it.conversation.answer("nothing", Revise("x"))
    _, (finished,) = asked_in(it, deciding(it, Allow()))
    it.conversation.answer(finished.call.call_id, Revise("x"))
    assert isinstance(finished.call, ToolCall)
