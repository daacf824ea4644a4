"""The prompt, rights, cost and result of a sub-agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from qcode.agent.models.limits import LimitStore
from qcode.agent.options import Options
from qcode.agent.sessions.replay import replay_messages
from qcode.protocol.approvals import AcceptPlan, Allow, ApprovalMode, CallApproval, Decision, Deny, Revise, ToolApproval
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    Notice,
    ReplyFinished,
    ToolFinished,
    ToolStarted,
    UsageUpdated,
)
from qcode.protocol.messages import ToolResult, user
from qcode.protocol.reply import Limit, Outcome, UsageReported
from qcode.protocol.usage import Usage
from qcode.safety.rules import Rules
from qcode.text.json import parse_object
from tests.agent.subagents.runner import FACTS, inner_results, open_conversation, results, resumed, starting
from tests.fakes.conversation import Model, ended
from tests.fakes.scripted import (
    Call,
    Hang,
    ScriptedProvider,
    begun,
    call_reply,
    calls_reply,
    cut_text,
    fails,
    text_reply,
)

DONE = text_reply("All done.")
WRITE = call_reply("write", {"path": "a.txt", "content": "new\n"})


def test_only_the_last_reply_of_a_sub_agent_is_in_the_transcript(tmp_path: Path) -> None:
    one = open_conversation(
        tmp_path, {"": [starting("look"), DONE], "look": [call_reply("ls", {}), text_reply("Nothing there.")]}
    )
    events = one.run()
    assert [finished.outcome.content for finished in results(events)] == ["Nothing there."]
    answer = one.conversation.messages[2].blocks[0]
    assert isinstance(answer, ToolResult)
    assert answer.content == "Nothing there."
    assert len(one.conversation.messages) == 4
    assert ended(events).text == "All done."


def test_sub_agent_starts_with_only_its_task_and_has_no_conversation_tools(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("look", kind="general"), DONE], "look": [text_reply("Yes.")]})
    one.run()
    request = one.model.parts["look"].requests[0]
    assert request.messages == (user("look"),)
    assert "sub-agent" in request.system
    names = {tool.name for tool in request.tools}
    assert {"read", "write", "shell"} <= names
    assert not names & {"agent", "ask_person", "todo"}


def test_explorer_has_only_read_tools(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("look"), DONE], "look": [text_reply("Yes.")]})
    one.run()
    names = {tool.name for tool in one.model.parts["look"].requests[0].tools}
    assert names == {"read", "ls", "glob", "grep", "shell"}


@pytest.mark.parametrize("mode", ["plan", "default", "accept-edits", "auto", "bypass"])
def test_explorer_never_changes_anything_in_any_mode(tmp_path: Path, mode: ApprovalMode) -> None:
    hostile = calls_reply(
        Call("shell", {"command": "touch stolen"}, "1"),
        Call("write", {"path": "stolen", "content": "x"}, "2"),
        Call("agent", {"description": "d", "prompt": "p", "kind": "general"}, "3"),
        Call("fetch", {"url": "https://example.com/"}, "4"),
    )
    one = open_conversation(tmp_path, {"": [starting("look"), DONE], "look": [hostile, text_reply("No.")]}, mode=mode)
    asked: list[CallApproval] = []
    events = one.run(one.answering(Allow(), asked))
    assert not asked
    assert [finished.state for finished in inner_results(events)] == ["denied", "rejected", "rejected", "rejected"]
    assert not (one.work / "stolen").exists()


@pytest.mark.parametrize(
    ("mode", "state"),
    [("plan", "denied"), ("default", "asked"), ("accept-edits", "done"), ("bypass", "done")],
)
def test_general_sub_agent_has_the_rights_of_the_mode(tmp_path: Path, mode: ApprovalMode, state: str) -> None:
    one = open_conversation(
        tmp_path, {"": [starting("do", kind="general"), DONE], "do": [WRITE, text_reply("Ok.")]}, mode=mode
    )
    asked: list[CallApproval] = []
    events = one.run(one.answering(Deny(), asked))
    assert [finished.state for finished in inner_results(events)] == ["denied" if state == "asked" else state]
    assert len(asked) == (state == "asked")


def test_untrusted_folder_and_deny_rules_apply_to_sub_agents(tmp_path: Path) -> None:
    scripts = {"": [starting("do", kind="general"), DONE], "do": [WRITE, text_reply("Ok.")]}
    asked: list[CallApproval] = []
    one = open_conversation(tmp_path, scripts, mode="bypass", is_trusted=False)
    one.run(one.answering(Deny(), asked))
    assert len(asked) == 1
    one = open_conversation(tmp_path, scripts, mode="bypass", rules=Rules.of(deny=["edit(a.txt)"]))
    events = one.run()
    assert [finished.state for finished in inner_results(events)] == ["denied"]
    assert not (one.work / "a.txt").exists()


def test_rights_revoked_during_the_task_apply_at_its_next_call(tmp_path: Path) -> None:
    one = open_conversation(
        tmp_path,
        {"": [starting("do", kind="general"), DONE], "do": [call_reply("ls", {}), WRITE, text_reply("Ok.")]},
        mode="accept-edits",
    )

    def leave_the_mode(event: object) -> None:
        if isinstance(event, AgentEvent) and isinstance(event.event, ToolStarted):
            one.conversation.set_mode("plan")

    events = one.run(leave_the_mode)
    assert [finished.state for finished in inner_results(events)] == ["done", "denied"]


@pytest.mark.parametrize(("kind", "mode"), [("explore", "default"), ("general", "plan"), ("explore", "bypass")])
def test_read_only_sub_agent_is_never_offered_a_change(tmp_path: Path, kind: str, mode: ApprovalMode) -> None:
    hostile = calls_reply(
        Call("shell", {"command": "echo x > /etc/no-such-folder/x"}, "1"),
        Call("shell", {"command": "ls", "unconfined": True}, "2"),
    )
    one = open_conversation(
        tmp_path, {"": [starting("do", kind=kind), DONE], "do": [hostile, text_reply("Ok.")]}, mode=mode
    )
    asked: list[CallApproval] = []
    events = one.run(one.answering(Deny(), asked))
    assert asked == []
    assert [finished.state for finished in inner_results(events)] == ["denied", "denied"]


def test_open_approval_of_a_sub_agent_is_denied_when_plan_mode_starts(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("do", kind="general"), DONE], "do": [WRITE, text_reply("Ok.")]})

    def switching(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            one.conversation.set_mode("plan")
            one.conversation.answer(event.approval.id, Allow())

    events = one.run(switching)
    assert [finished.state for finished in inner_results(events)] == ["denied"]
    assert not (one.work / "a.txt").exists()


def test_sub_agent_approval_names_it_and_always_applies_to_the_conversation(tmp_path: Path) -> None:
    touch = call_reply("shell", {"command": "touch b"})
    one = open_conversation(
        tmp_path,
        {"": [starting("do", kind="general"), touch, DONE], "do": [touch, touch, text_reply("Ok.")]},
    )
    asked: list[CallApproval] = []
    events = one.run(one.answering(Allow("session"), asked))
    (approval,) = asked
    assert isinstance(approval, ToolApproval)
    assert (approval.agent, approval.id) == ("do do", "agent_0/call_1")
    assert [finished.state for finished in inner_results(events)] == ["done", "done"]
    assert results(events)[-1].state == "done"


def test_decision_of_another_kind_denies_the_call_of_a_sub_agent_and_is_reported(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("do", kind="general"), DONE], "do": [WRITE, text_reply("Ok.")]})
    events = one.run(one.answering(AcceptPlan(), []))
    assert [finished.state for finished in inner_results(events)] == ["denied"]
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == ["AcceptPlan does not decide a ToolApproval; it was denied."]


def test_sub_agent_call_that_the_user_edits_asks_again_and_runs_as_edited(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("do", kind="general"), DONE], "do": [WRITE, text_reply("Ok.")]})
    asked: list[ToolApproval] = []
    decisions: list[Decision] = [Revise("mine\n"), Allow()]

    def decide(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            assert isinstance(event.approval, ToolApproval)
            asked.append(event.approval)
            one.conversation.answer(event.approval.id, decisions.pop(0))

    events = one.run(decide)
    assert [(approval.id, approval.agent, approval.is_revised) for approval in asked] == [
        ("agent_0/call_1", "do do", False),
        ("agent_0/call_1", "do do", True),
    ]
    assert [finished.is_revised for finished in inner_results(events)] == [True]
    assert (one.work / "a.txt").read_text() == "mine\n"
    for conversation in (one.conversation, resumed(one).conversation):
        items = [event for event in replay_messages(conversation.stored_messages) if isinstance(event, AgentEvent)]
        (finished,) = (event.event for event in items if isinstance(event.event, ToolFinished))
        assert parse_object(finished.call.arguments) == {"path": "a.txt", "content": "mine\n"}
        assert finished.is_revised
    conversation.release()


def test_denial_in_a_sub_agent_counts_for_the_turn(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("do", kind="general"), DONE], "do": [WRITE, text_reply("Ok.")]})
    events = one.run(one.answering(Deny("no"), []))
    assert [(denial.call.call_id, denial.reason) for denial in ended(events).denials] == [("agent_0/call_1", "no")]


def test_four_explorers_run_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        hangs = [Hang() for _ in range(5)]
        scripts = {str(n): [(*begun("a"), hang, *text_reply("b")[1:])] for n, hang in enumerate(hangs)}
        one = open_conversation(tmp_path, {"": [starting(*scripts), DONE], **scripts})
        playing = asyncio.ensure_future(one.play("go"))
        for hang in hangs[:4]:
            await hang.reached.wait()
        assert not one.model.parts["4"].requests
        for hang in hangs:
            hang.go.set()
        events = await playing
        assert [finished.state for finished in results(events)] == ["done"] * 5

    asyncio.run(play())


def test_general_sub_agents_run_one_after_another(tmp_path: Path) -> None:
    one = open_conversation(
        tmp_path, {"": [starting("x", "y", kind="general"), DONE], "x": [text_reply("1")], "y": [text_reply("2")]}
    )
    order = [event.call_id for event in one.run() if isinstance(event, AgentEvent)]
    assert order == sorted(order)


def test_usage_of_a_sub_agent_counts_for_the_turn(tmp_path: Path) -> None:
    usage = Usage(input=1_000_000, output=0)
    one = open_conversation(
        tmp_path,
        {"": [starting("look"), text_reply("x", usage=usage)], "look": [text_reply("y", usage=usage)]},
    )
    events = one.run()
    end = ended(events)
    assert end.replies == end.api_calls.initial == 3
    assert end.usage.input == 2_000_100
    assert end.cost is not None
    assert end.cost > 2
    live = [event.cost for event in events if isinstance(event, UsageUpdated)]
    assert any(cost is not None and 1 < cost < 2 for cost in live), "the total moves while it works"
    assert one.conversation.usage()[-1].usage.input == 2_000_100


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        (Options(max_turns=2), Limit.TURNS),
        (Options(max_tool_calls=2), Limit.TOOL_CALLS),
        (Options(max_budget_usd=Decimal("0.000001")), Limit.COST),
    ],
)
def test_limit_of_the_prompt_ends_the_sub_agent_and_then_the_turn(
    tmp_path: Path, options: Options, limit: Limit
) -> None:
    looks = [call_reply("ls", {"path": "."}), call_reply("glob", {"pattern": "*"}), text_reply("never")]
    one = open_conversation(tmp_path, {"": [starting("look"), DONE], "look": looks}, options=options)
    end = ended(one.run())
    assert (end.outcome, end.limit) == (Outcome.MAX_TURN_REQUESTS, limit)
    assert one.model.parts["look"].left >= 1
    assert one.model.main.left == 1


def test_spent_budget_starts_no_other_sub_agent(tmp_path: Path) -> None:
    one = open_conversation(
        tmp_path,
        {"": [starting("x", "y", kind="general"), DONE], "x": [text_reply("1")], "y": [text_reply("2")]},
        options=Options(max_turns=2),
    )
    events = one.run()
    assert [finished.state for finished in results(events)] == ["done", "failed"]
    assert not one.model.parts["y"].requests


def test_truncated_answer_of_a_sub_agent_is_continued(tmp_path: Path) -> None:
    one = open_conversation(
        tmp_path,
        {"": [starting("look"), DONE], "look": [cut_text("lost"), cut_text("One, "), text_reply("two.")]},
    )
    events = one.run()
    assert results(events)[0].outcome.content == "One, two."
    assert ended(events).api_calls.escalations == 1
    assert ended(events).discarded_output_tokens > 0


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (fails(ErrorKind.BAD_REQUEST, message="no\nsuch thing"), "no such thing"),
        (text_reply(""), "no text"),
    ],
)
def test_failed_sub_agent_is_a_one_line_error_of_its_call(tmp_path: Path, reply: tuple[object], message: str) -> None:
    one = open_conversation(tmp_path, {"": [starting("look"), DONE], "look": [reply]})  # type: ignore[list-item]  # steps
    events = one.run()
    outcome = results(events)[0].outcome
    assert outcome.is_error
    assert message in outcome.content
    assert "\n" not in outcome.content
    assert ended(events).outcome is Outcome.END_TURN


def test_call_without_a_task_starts_no_sub_agent(tmp_path: Path) -> None:
    bad = call_reply("agent", {"description": "x", "prompt": " ", "kind": "explore"})
    odd = call_reply("agent", {"description": "x", "prompt": "y", "kind": "root"})
    dear = call_reply("agent", {"description": "x", "prompt": "y", "kind": "explore", "model": "opus"})
    one = open_conversation(tmp_path, {"": [bad, odd, dear, DONE]})
    assert [finished.state for finished in results(one.run())] == ["failed"] * 3


def test_long_answer_is_shortened_and_complete_in_a_file(tmp_path: Path) -> None:
    long = "\n".join(f"line {number}" for number in range(9_000))
    one = open_conversation(tmp_path, {"": [starting("look"), DONE], "look": [text_reply(long)]})
    content = results(one.run())[0].outcome.content
    assert len(content) < 31_000
    path = Path(content.split("all of it in ")[1].split(" ...]")[0])
    assert path.read_text() == long
    one.conversation.release()


def test_cancel_ends_all_sub_agents_at_once_and_counts_their_usage(tmp_path: Path) -> None:
    async def play() -> None:
        hangs = [Hang(), Hang()]
        spent = UsageReported(Usage(input=1_000))
        scripts = {str(n): [(*begun("part"), spent, hang)] for n, hang in enumerate(hangs)}
        one = open_conversation(tmp_path, {"": [starting(*scripts)], **scripts})
        playing = asyncio.ensure_future(one.play("go"))
        for hang in hangs:
            await hang.reached.wait()
        one.conversation.cancel()
        end = ended(await asyncio.wait_for(playing, 5))
        assert end.outcome is Outcome.CANCELLED
        assert [part.broken_off for name, part in one.model.parts.items() if name] == [1, 1]
        assert end.api_calls.initial == 3
        assert end.usage.input == 2_100
        content = [block.content for block in one.conversation.messages[-1].blocks if isinstance(block, ToolResult)]
        assert len(content) == 2
        assert all("Cancelled" in text for text in content)

    asyncio.run(play())


def test_open_approval_of_a_cancelled_turn_runs_nothing(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("do", kind="general")], "do": [WRITE]})

    def give_up(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            one.conversation.cancel()
            one.conversation.answer(event.approval.id, Allow())

    assert ended(one.run(give_up)).outcome is Outcome.CANCELLED
    assert not (one.work / "a.txt").exists()


def test_subagent_uses_the_model_that_was_chosen_during_the_session(tmp_path: Path) -> None:
    one = open_conversation(tmp_path, {"": [starting("look"), DONE], "look": [text_reply("From the first model.")]})
    chosen = ScriptedProvider([starting("look"), text_reply("From the chosen model."), DONE], name="other")
    one.conversation.set_model(Model("chosen", facts=FACTS).client(chosen, LimitStore(tmp_path / "state")))
    assert results(one.run())[0].outcome.content == "From the chosen model."


def test_small_model_is_the_configured_one(tmp_path: Path) -> None:
    small = ScriptedProvider([text_reply("Small.")], name="tiny")
    one = open_conversation(
        tmp_path,
        {"": [starting("look", model="small"), DONE]},
        small=(small, Model("t", facts=FACTS)),
    )
    assert results(one.run())[0].outcome.content == "Small."
    assert small.requests[0].model == "t"


def test_model_without_a_price_is_not_used_under_a_budget(tmp_path: Path) -> None:
    small = ScriptedProvider([], name="tiny")
    one = open_conversation(
        tmp_path,
        {"": [starting("look", model="small"), DONE]},
        small=(small, Model("t", facts=replace(FACTS, price=None))),
        options=Options(max_budget_usd=Decimal(1)),
    )
    outcome = results(one.run())[0].outcome
    assert outcome.is_error
    assert "price" in outcome.content
    assert not small.requests


def test_events_of_a_sub_agent_have_unique_call_ids(tmp_path: Path) -> None:
    scripts = {"x": [call_reply("ls", {}), text_reply("1")], "y": [call_reply("ls", {}), text_reply("2")]}
    one = open_conversation(tmp_path, {"": [starting("x", "y"), call_reply("ls", {}), DONE], **scripts})
    events = one.run()
    ids = [finished.call.call_id for finished in (*results(events), *inner_results(events))]
    assert len(set(ids)) == len(ids) == 5
    inside = [event.event for event in events if isinstance(event, AgentEvent)]
    texts = [event.message for event in inside if isinstance(event, ReplyFinished) and event.message is not None]
    assert {call.call_id for message in texts for call in message.calls} == {"agent_0/call_1", "agent_1/call_1"}
