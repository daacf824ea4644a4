"""Turns as the client sees them: text, cards, stop reasons, cancellation, and the order of messages."""

from __future__ import annotations

import gc
import json
import time
from pathlib import Path
from threading import Event

import pytest

from qcode.agent.agent import Agent
from qcode.agent.models.client import ModelClient
from qcode.agent.options import Options
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.acp.conftest import Connect
from tests.acp.editor import CANCELLED, Editor, select
from tests.fakes.turns import Call, Faults, Refusal, Turn, refused

FIRST, SECOND = "The change touches the parser, ", "and nothing else in the project."


def call(name: str, **arguments: object) -> Call:
    return Call(name, json.dumps(arguments))


def test_text_arrives_in_order_before_the_answer(connect: Connect, work: Path) -> None:
    with connect([Turn(text=("Hell", "o ", "there."), reasoning=("Hmm.",))]) as editor:
        session_id = editor.open(work)
        result = editor.prompt(session_id, "hi")
        last = editor.messages[-1]
    assert result["stopReason"] == "end_turn"
    assert editor.text() == "Hello there."
    assert editor.text("agent_thought_chunk") == "Hmm."
    ids = {update["messageId"] for update in editor.updates("agent_message_chunk")}
    assert len(ids) == 1
    assert {update["messageId"] for update in editor.updates("agent_thought_chunk")} == {f"{ids.pop()}t"}
    assert last.get("method") != "session/update" or last["params"]["update"]["sessionUpdate"] == "session_info_update"


def test_answer_carries_the_raw_reason_and_the_usage(connect: Connect, work: Path) -> None:
    with connect([Turn(text="Hi.")]) as editor:
        facts = editor.prompt(editor.open(work), "hi")["_meta"]["qcode"]
    assert facts["rawStopReason"] == "stop"
    assert (facts["provider"], facts["model"]) == ("openai", "some-model")
    assert facts["usage"]["inputTokens"] == 10
    assert (facts["apiCalls"], facts["numTurns"], facts["denials"]) == (1, 1, [])


def test_session_is_answered_before_its_updates(connect: Connect, work: Path) -> None:
    with connect() as editor:
        editor.open(work)
        editor.wait(lambda: editor.updates("available_commands_update"))
        kinds = ["answer" if "result" in message else message["method"] for message in editor.messages]
    assert kinds[:3] == ["answer", "answer", "session/update"]


def test_truncated_text_is_continued_and_never_taken_back(connect: Connect, work: Path) -> None:
    script = [Turn(text=FIRST, stop=StopReason.MAX_TOKENS), Turn(text=SECOND)]
    with connect(script) as editor:
        result = editor.prompt(editor.open(work), "tell me")
        chunks = editor.updates("agent_message_chunk")
    assert result["stopReason"] == "end_turn"
    assert editor.text() == FIRST + SECOND
    assert len({chunk["messageId"] for chunk in chunks}) == 1
    assert [chunk["_meta"]["qcode"] for chunk in chunks if "_meta" in chunk] == [{"continuation": 1}]


def test_reply_that_stays_truncated_says_so(connect: Connect, work: Path) -> None:
    script = [Turn(text=f"Part {number}, ", stop=StopReason.MAX_TOKENS) for number in range(4)]
    with connect(script) as editor:
        result = editor.prompt(editor.open(work), "tell me")
    assert result["stopReason"] == "max_tokens"
    assert result["_meta"]["qcode"]["rawStopReason"] == "length"
    assert editor.text() == "Part 0, Part 1, Part 2, Part 3, "


def test_truncated_call_after_text_is_sent_again_and_never_asks(connect: Connect, work: Path) -> None:
    cut = Call("shell", '{"command": "touch lo')
    script = [
        Turn(text="Now.", calls=(cut,), stop=StopReason.MAX_TOKENS),
        Turn(calls=(call("shell", command="touch whole"),)),
        Turn(text="Done."),
    ]
    with connect(script) as editor:
        editor.prompt(editor.open(work), "do it")
        assert editor.server is not None
        caps = editor.server.caps
        asked = [item["params"]["toolCall"]["rawInput"] for item in editor.asked]
        first, second = editor.cards()
    assert caps[1] is not None
    assert caps[0] is not None
    assert caps[1] > caps[0]
    assert asked == [{"command": "touch whole"}]
    assert (first["status"], second["status"]) == ("failed", "completed")
    assert [path.name for path in work.iterdir()] == ["whole"]


def test_truncated_call_without_text_keeps_its_card_for_the_next_attempt(connect: Connect, work: Path) -> None:
    cut = Call("shell", '{"command": "touch lo')
    script = [
        Turn(calls=(cut,), stop=StopReason.MAX_TOKENS),
        Turn(calls=(call("shell", command="touch whole"),)),
        Turn(text="Done."),
    ]
    with connect(script) as editor:
        editor.prompt(editor.open(work), "do it")
        (card,) = editor.cards()
    assert card["statuses"] == ["pending", "in_progress", "completed"]
    assert card["title"] == "Run touch whole"


def test_edit_shows_the_whole_texts_before_and_after(connect: Connect, work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\n")
    script = [
        Turn(calls=(call("read", path="a.txt"),)),
        Turn(calls=(call("edit", path="a.txt", old_text="two", new_text="three"),)),
        Turn(text="Edited."),
    ]
    with connect(script) as editor:
        editor.prompt(editor.open(work), "edit it")
        read, edit = editor.cards()
        (asked,) = [item["params"] for item in editor.asked]
    diff = {"type": "diff", "path": str(work / "a.txt"), "oldText": "one\ntwo\n", "newText": "one\nthree\n"}
    assert asked["toolCall"]["content"][0] == diff
    assert edit["content"] == [diff]
    assert edit["locations"] == [{"path": str(work / "a.txt"), "line": 2}]
    assert (read["kind"], edit["kind"], edit["name"]) == ("read", "edit", "edit")
    assert edit["title"] == "Edit a.txt"
    assert isinstance(edit["rawOutput"], dict)
    assert (work / "a.txt").read_text() == "one\nthree\n"


def test_denied_call_does_not_run_and_its_card_fails(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="touch b.txt"),)), Turn(text="Then not.")]
    with connect(script, choose=lambda _: select("deny")) as editor:
        result = editor.prompt(editor.open(work), "make a file")
        (card,) = editor.cards()
    assert result["stopReason"] == "end_turn"
    assert card["status"] == "failed"
    assert not (work / "b.txt").exists()
    assert [denial["tool"] for denial in result["_meta"]["qcode"]["denials"]] == ["shell"]


@pytest.mark.parametrize(
    "answer",
    [select("made-up"), {}, {"outcome": "once"}, {"outcome": {"outcome": "selected"}}, RuntimeError("no dialog")],
)
def test_answer_that_was_not_offered_denies(answer: object, connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="touch b.txt"),)), Turn(text="Then not.")]
    with connect(script, choose=lambda _: answer) as editor:
        assert editor.prompt(editor.open(work), "make a file")["stopReason"] == "end_turn"
    assert not (work / "b.txt").exists()


@pytest.mark.parametrize("answer", [select("deny"), CANCELLED])
def test_refusal_to_let_the_model_try_again_cancels_the_turn(answer: object, connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("fly", to="moon"),)) for _ in range(4)]
    with connect([*script, Turn(text="Never.")], choose=lambda _: answer) as editor:
        result = editor.prompt(editor.open(work), "go")
        (asked,) = [item["params"] for item in editor.asked]
    assert "Let it try again?" in asked["toolCall"]["title"]
    assert result["stopReason"] == "cancelled"


def test_cancelled_permission_request_ends_the_turn(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="touch b.txt"),)), Turn(text="Never.")]
    with connect(script, choose=lambda _: CANCELLED) as editor:
        assert editor.prompt(editor.open(work), "make a file")["stopReason"] == "cancelled"
    assert not (work / "b.txt").exists()
    assert editor.text() == ""


def _cancelled_within_a_second(editor: Editor, session_id: str, running: int) -> None:
    began = time.monotonic()
    editor.notify("session/cancel", sessionId=session_id)
    answer = editor.answer(running)
    assert answer["result"]["stopReason"] == "cancelled"
    assert time.monotonic() - began < 1.0


def test_cancel_while_the_model_is_silent(connect: Connect, work: Path) -> None:
    script = [Turn(text=("Working", " on it"), faults=Faults(stall_after=2)), Turn(text="Again.")]
    with connect(script) as editor:
        session_id = editor.open(work)
        running = editor.start_prompt(session_id, "work")
        editor.wait(editor.text)
        _cancelled_within_a_second(editor, session_id, running)
        assert editor.server is not None
        editor.server.release()
        assert editor.prompt(session_id, "again")["stopReason"] == "end_turn"
    assert editor.text().endswith("Again.")


def test_cancel_while_a_permission_request_is_open(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="touch b.txt"),)), Turn(text="Next.")]
    with connect(script, choose=lambda _: None) as editor:
        session_id = editor.open(work)
        running = editor.start_prompt(session_id, "make a file")
        (asked,) = [editor.wait(lambda: editor.asked)]
        _cancelled_within_a_second(editor, session_id, running)
        assert isinstance(asked, list)
        # The answer comes too late and allows nothing.
        editor.send({"jsonrpc": "2.0", "id": asked[0]["id"], "result": select("once")})
        assert editor.prompt(session_id, "next")["stopReason"] == "end_turn"
    assert not (work / "b.txt").exists()


def test_cancel_while_a_command_runs_kills_it(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="echo begun; sleep 60; touch late"),))]
    with connect(script) as editor:
        session_id = editor.open(work)
        running = editor.start_prompt(session_id, "wait")
        editor.wait(lambda: any(update.get("status") == "in_progress" for update in editor.updates("tool_call_update")))
        _cancelled_within_a_second(editor, session_id, running)
    assert not (work / "late").exists()


def test_waiting_prompts_run_in_order_and_are_cancelled_together(connect: Connect, work: Path) -> None:
    script = [Turn(text="One."), Turn(text="Two."), Turn(text="Three", faults=Faults(stall_after=2))]
    with connect(script) as editor:
        session_id = editor.open(work)
        both = [editor.start_prompt(session_id, word) for word in ("one", "two")]
        assert [editor.answer(item)["result"]["stopReason"] for item in both] == ["end_turn", "end_turn"]
        assert editor.text() == "One.Two."
        first, second = (editor.start_prompt(session_id, word) for word in ("three", "four"))
        editor.wait(lambda: "Three" in editor.text())
        _cancelled_within_a_second(editor, session_id, first)
        assert editor.answer(second)["result"]["stopReason"] == "cancelled"
        assert editor.server is not None
        editor.server.release()


def test_cancelled_request_of_a_prompt_is_answered_as_cancelled(connect: Connect, work: Path) -> None:
    with connect([Turn(text=("Working", " on it"), faults=Faults(stall_after=2))]) as editor:
        running = editor.start_prompt(editor.open(work), "work")
        editor.wait(editor.text)
        editor.notify("$/cancel_request", requestId=running)
        assert editor.answer(running)["result"]["stopReason"] == "cancelled"
        assert editor.server is not None
        editor.server.release()


def test_cancel_without_a_turn_is_ignored(connect: Connect, work: Path) -> None:
    with connect([Turn(text="Hi.")]) as editor:
        session_id = editor.open(work)
        editor.notify("session/cancel", sessionId=session_id)
        editor.notify("session/cancel", sessionId="unknown")
        assert editor.prompt(session_id, "hi")["stopReason"] == "end_turn"


def test_limit_of_replies_is_its_own_stop_reason(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("ls", path="."),)), Turn(text="Never.")]
    with connect(script, options=Options(trust=True, max_turns=1)) as editor:
        assert editor.prompt(editor.open(work), "look")["stopReason"] == "max_turn_requests"


def test_refused_turn_is_left_out_of_the_next_request(connect: Connect, work: Path) -> None:
    script = [Turn(text="I", stop=StopReason.REFUSAL), Turn(text="Hello.")]
    with connect(script) as editor:
        session_id = editor.open(work)
        assert editor.prompt(session_id, "something bad")["stopReason"] == "refusal"
        assert editor.prompt(session_id, "something good")["stopReason"] == "end_turn"
        assert editor.server is not None
        last = editor.server.requests[-1]
    assert "something bad" not in str(last.messages)
    assert "something good" in str(last.messages)


def test_rejected_key_is_an_error_of_authentication(connect: Connect, work: Path) -> None:
    with connect([Turn(refusal=Refusal(401, "no such key"))]) as editor:
        error = editor.refused("session/prompt", sessionId=editor.open(work), prompt=[{"type": "text", "text": "hi"}])
    assert error["code"] == -32000
    assert "\n" not in error["message"]
    assert error["data"]["kind"] == "auth"


def test_failure_of_the_provider_is_an_error_in_its_words(connect: Connect, work: Path) -> None:
    with connect([Turn(refusal=Refusal(400, "the model is tired"))]) as editor:
        error = editor.refused("session/prompt", sessionId=editor.open(work), prompt=[{"type": "text", "text": "hi"}])
    assert error["code"] == -32603
    assert "the model is tired" in error["message"]
    assert error["data"]["details"] == error["message"]
    assert (error["data"]["status"], error["data"]["retryable"]) == (400, False)


def test_calls_of_a_sub_agent_are_cards_below_that_of_the_agent(connect: Connect, work: Path) -> None:
    (work / "a.txt").write_text("found\n")
    task = call("agent", description="look", prompt="Look into a.txt.", kind="general")
    script = [
        Turn(calls=(task,)),
        Turn(calls=(call("read", path="a.txt"), call("shell", command="touch b.txt"))),
        Turn(text="Found."),
        Turn(text="Done."),
    ]
    with connect(script) as editor:
        editor.prompt(editor.open(work), "ask one")
        agent, read, shell = editor.cards()
        (asked,) = [item["params"] for item in editor.asked]
    assert (agent["kind"], agent["status"], agent["title"]) == ("think", "completed", "Task look")
    for number, card in enumerate((read, shell), start=1):
        assert card["toolCallId"] == f"{agent['toolCallId']}/{number}"
        assert card["status"] == "completed"
    announced = editor.updates("tool_call")
    assert [item.get("_meta") for item in announced[1:]] == [{"qcode": {"parentToolCallId": agent["toolCallId"]}}] * 2
    assert "sub-agent: look" in asked["toolCall"]["title"]
    assert editor.text() == "Done."


def test_notices_and_compactions_are_shown_if_the_client_can(connect: Connect, work: Path) -> None:
    features: dict[str, object] = {"session": {"notices": {}, "compaction": {}}}
    script = [Turn(text="One."), Turn(text="Two."), Turn(text="Task: go. " * 20)]
    with connect(script, capabilities=features) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "first " * 2_000)
        editor.prompt(session_id, "second")
        assert editor.prompt(session_id, "/compact the parser")["stopReason"] == "end_turn"
    states = [update["status"] for update in editor.updates("compaction_update")]
    assert states[0] == "in_progress"
    assert states[1] in ("completed", "failed")
    with connect([Turn(text=FIRST, stop=StopReason.MAX_TOKENS), Turn(text=SECOND)], capabilities=features) as editor:
        editor.prompt(editor.open(work), "tell me")
    assert [update["severity"] for update in editor.updates("notice")] == ["info"]


def test_wait_before_a_retry_has_the_same_words_as_in_pipe_mode(connect: Connect, work: Path) -> None:
    script = [refused(503, "busy", retry_after=0.01), Turn(text="Ok.")]
    with connect(script, capabilities={"session": {"notices": {}}}) as editor:
        assert editor.prompt(editor.open(work), "hi")["stopReason"] == "end_turn"
    notice = editor.updates("notice")[0]["title"]
    assert "503" in notice
    assert notice.endswith(", retry 1 of 5 in 1 s")


def test_warnings_are_in_the_answer_for_a_client_without_notices(connect: Connect, work: Path) -> None:
    script = [Turn(text=f"Part {number}, ", stop=StopReason.MAX_TOKENS) for number in range(4)]
    with connect(script) as editor:
        facts = editor.prompt(editor.open(work), "tell me")["_meta"]["qcode"]
    assert "incomplete after 4 requests" in facts["notices"][0]
    assert "incomplete" in facts["shortfall"]


def test_usage_has_the_context_and_the_cost_of_the_session(connect: Connect, work: Path) -> None:
    usage = Usage(input=1_000, output=500)
    config = work.parent / "prices.toml"
    config.write_text('[models."openai/some-model"]\ncontext_window = 50000\nprice = { input = 1.0, output = 2.0 }\n')
    options = Options(trust=True, settings=config)
    with connect([Turn(text="One.", usage=usage), Turn(text="Two.", usage=usage)], options=options) as editor:
        session_id = editor.open(work)
        first = editor.prompt(session_id, "one")
        editor.prompt(session_id, "two")
        last = editor.updates("usage_update")[-1]
    assert first["_meta"]["qcode"]["costUsd"] == 0.002
    assert last["size"] == 50_000
    assert last["used"] >= 1_500
    assert last["cost"] == {"amount": 0.004, "currency": "USD"}


def test_one_way_calls_are_in_the_answer(connect: Connect, work: Path, tmp_path: Path) -> None:
    tools = tmp_path / "exit.json"
    tools.write_text(json.dumps([{"name": "report", "description": "Report.", "parameters": {"type": "object"}}]))
    options = Options(trust=True, exit_tools=tools)
    with connect([Turn(text="So.", calls=(call("report", grade=1),))], options=options) as editor:
        result = editor.prompt(editor.open(work), "judge")
    assert result["_meta"]["qcode"]["signals"] == [{"name": "report", "arguments": {"grade": 1}}]


def test_todo_list_is_a_plan_and_no_card(connect: Connect, work: Path) -> None:
    items = [{"task": "read", "state": "done"}, {"task": "write", "state": "in_progress"}]
    with connect([Turn(calls=(call("todo", items=items),)), Turn(text="Planned.")]) as editor:
        editor.prompt(editor.open(work), "plan")
        (plan,) = editor.updates("plan")
        assert editor.cards() == []
    assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
        ("read", "completed"),
        ("write", "in_progress"),
    ]


def test_output_of_a_command_streams_into_a_terminal_if_the_client_has_one(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="echo one; exit 3"),)), Turn(text="Done.")]
    with connect(script, capabilities={"_meta": {"terminal_output": True}}) as editor:
        editor.prompt(editor.open(work), "run")
        (card_id,) = [update["toolCallId"] for update in editor.updates("tool_call")]
        updates = [update for update in editor.updates() if update.get("toolCallId") == card_id]
    metas = [update["_meta"] for update in updates if "_meta" in update]
    assert metas[0]["terminal_info"] == {"terminal_id": card_id, "cwd": str(work)}
    assert "".join(meta["terminal_output"]["data"] for meta in metas if "terminal_output" in meta) == "one\n"
    assert metas[-1]["terminal_exit"] == {"terminal_id": card_id, "exit_code": 3, "signal": None}
    assert [update["content"] for update in updates if "content" in update] == [
        [{"type": "terminal", "terminalId": card_id}]
    ]


def test_output_of_a_command_is_text_for_other_clients(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="printf '\\033[31mred\\n'"),)), Turn(text="Done.")]
    with connect(script) as editor:
        editor.prompt(editor.open(work), "run")
        (card,) = editor.cards()
    assert card["content"] == [{"type": "content", "content": {"type": "text", "text": "red\n"}}]


def test_prompt_after_a_slow_change_of_the_model_uses_the_new_one(
    connect: Connect, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Event()
    connect_model = Agent.connect_model

    def slowly(agent: Agent, name: str) -> ModelClient:
        assert asked.wait(10)
        return connect_model(agent, name)

    monkeypatch.setattr(Agent, "connect_model", slowly)
    with connect([Turn(text="Hi.")]) as editor:
        session_id = editor.open(work)
        change = editor.start("session/set_model", sessionId=session_id, modelId="openai/other")
        prompt = editor.start("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hi"}])
        listed = editor.request("session/list")  # answered while the keyring is read
        asked.set()
        assert editor.answer(change)["result"] == {}
        assert editor.answer(prompt)["result"]["stopReason"] == "end_turn"
        assert editor.server is not None
        assert [request.body["model"] for request in editor.server.requests] == ["other"]
    assert "sessions" in listed


def test_last_change_of_the_model_wins_over_a_slow_one_before_it(
    connect: Connect, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_second_sent = Event()
    connect_model = Agent.connect_model

    def first_slowly(agent: Agent, name: str) -> ModelClient:
        if name == "openai/first":
            assert is_second_sent.wait(10)
        return connect_model(agent, name)

    monkeypatch.setattr(Agent, "connect_model", first_slowly)
    with connect([Turn(text="Hi.")]) as editor:
        session_id = editor.open(work)
        first = editor.start("session/set_model", sessionId=session_id, modelId="openai/first")
        second = editor.start("session/set_model", sessionId=session_id, modelId="openai/second")
        editor.request("session/list")  # answered after the start of both changes
        is_second_sent.set()
        assert editor.answer(first)["result"] == editor.answer(second)["result"] == {}
        editor.prompt(session_id, "hi")
        assert editor.server is not None
        assert [request.body["model"] for request in editor.server.requests] == ["second"]


def test_failure_of_a_cancelled_change_of_the_model_is_not_reported_as_unhandled(
    connect: Connect, work: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_fail = Event(), Event()

    def fail(agent: Agent, name: str) -> ModelClient:
        begun.set()
        assert may_fail.wait(10)
        raise ValueError("the keyring is locked")

    monkeypatch.setattr(Agent, "connect_model", fail)
    with connect([Turn(text="Hi.")]) as editor:
        session_id = editor.open(work)
        change = editor.start("session/set_model", sessionId=session_id, modelId="openai/other")
        assert begun.wait(10)
        editor.notify("$/cancel_request", requestId=change)
        assert editor.answer(change)["error"]["message"] == "the request was cancelled"
        may_fail.set()
        assert editor.prompt(session_id, "hi")["stopReason"] == "end_turn"
    gc.collect()
    assert "never retrieved" not in caplog.text
