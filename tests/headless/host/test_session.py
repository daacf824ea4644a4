"""Host mode as a host sees it, line by line: the conversation, control requests, and the end of the input."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from qcode.headless.host.lines import HostLines, Names
from qcode.protocol import events as ev
from qcode.protocol.reply import StopReason
from tests.agent.skills.folders import put
from tests.fakes.turns import Call, Faults, Turn
from tests.headless.host.running import Host, hosting
from tests.headless.host.scripts import EDIT, shell

PROMPTED = ("--permission-prompt-tool", "stdio")


def kinds(host: Host) -> list[str]:
    return [line.get("subtype") or line["type"] for line in host.seen]


def tool_results(host: Host) -> list[str]:
    """Return the results that the model got."""
    return [result.content for request in host.server.requests[-1:] for result in request.results]


def working() -> Turn:
    """A reply that stops in the middle until the server is released."""
    return Turn(text=("Working", " on it"), faults=Faults(stall_after=2))


def test_handshake_is_answered_before_init_which_waits_for_the_first_message(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        answer = host.greet()
        assert answer["subtype"] == "success"
        assert {"commands", "agents", "models", "output_style", "account"} <= set(answer["response"])
        assert host.control("mcp_status")["response"] == {"mcpServers": []}
        assert [line["type"] for line in host.seen] == ["control_response", "control_response"]
        host.ask()
        result = host.result()
        assert host.end() == 0
    assert kinds(host)[2:] == ["init", "stop_reason_observed", "assistant", "success"]
    assert host.seen[2]["claude_code_version"] == "2.1.330"
    assert (result["qcode_subtype"], result["usage"]["cache_read_input_tokens"]) == ("success", 0)
    assert (tmp_path / "stderr").read_bytes() == b""


def test_handshake_without_a_message_ends_with_0_and_no_result(tmp_path: Path) -> None:
    with hosting(tmp_path, []) as host:
        host.greet()
        assert host.end() == 0
    assert kinds(host) == ["control_response"]


def test_signal_before_the_first_message_ends_with_a_result(tmp_path: Path) -> None:
    with hosting(tmp_path, []) as host:
        host.greet()
        os.kill(host.process.pid, signal.SIGTERM)
        assert host.end() == 143
    assert kinds(host) == ["control_response", "init", "error_during_execution"]
    assert host.seen[-1]["qcode_subtype"] == "error_cancelled"


def test_session_that_cannot_be_resumed_is_reported_before_the_first_message(tmp_path: Path) -> None:
    with hosting(tmp_path, [], "--resume", "20260101-000000-none") as host:
        host.greet()
        assert "20260101-000000-none" in host.result()["errors"][0]
        assert host.end() == 42


def test_host_gets_init_and_result_if_the_start_fails(tmp_path: Path) -> None:
    with hosting(tmp_path, [], "--settings", '{"permissions": {"deny": ["shell(ls"]}}') as host:
        host.send({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}})
        assert host.end() == 52
    init, result = host.seen
    assert (init["subtype"], init["claude_code_version"]) == ("init", "2.1.330")
    assert (result["qcode_subtype"], result["total_cost_usd"]) == ("error_during_execution", 0)
    assert "shell(ls" in result["errors"][0]


def test_retry_has_the_status_of_the_failure() -> None:
    lines = HostLines("s", "m", Names("", {}), mode=lambda: "default", max_retries=5)
    (line,) = lines.lines(ev.Waiting(1.5, "rate limit", 2, 429))
    assert {name: line[name] for name in ("subtype", "attempt", "max_retries", "retry_delay_ms", "error_status")} == {
        "subtype": "api_retry", "attempt": 2, "max_retries": 5, "retry_delay_ms": 1500, "error_status": 429
    }  # fmt: skip


def test_init_is_repeated_only_if_it_has_changed(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text=str(number)) for number in range(3)]) as host:
        host.greet()
        for change in ("", "", "plan"):
            if change:
                assert host.control("set_permission_mode", mode=change)["response"] == {"mode": "plan"}
            host.ask()
            host.result()
        host.end()
    inits = [line for line in host.seen if line.get("subtype") == "init"]
    assert [(line["permissionMode"], line["permission_mode"]) for line in inits] == [
        ("default", "default"),
        ("plan", "plan"),
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("subtype", "fields", "message"),
    [
        ("initialize", {}, "already sent"),
        ("stop_task", {"task_id": "t"}, '"stop_task" is not supported'),
        ("set_permission_mode", {"mode": "root"}, 'unknown permission mode "root"'),
        ("set_permission_mode", {"mode": "bypassPermissions"}, "--allow-dangerously-skip-permissions"),
        ("set_model", {"model": 3}, "must be a name"),
        ("set_model", {"model": "nonsense/x"}, "unknown provider"),
        ("set_max_thinking_tokens", {"max_thinking_tokens": "many"}, "must be a whole number of at least 0, or null"),
        ("mcp_reconnect", {"serverName": "none"}, 'no tool server "none"'),
    ],
)
def test_request_that_cannot_be_carried_out_is_an_error_of_that_request(
    subtype: str, fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.greet()
        answer = host.control(subtype, **fields)
        assert answer["subtype"] == "error"
        assert message in answer["error"]
        host.ask()
        assert host.result()["result"] == "Hello."


@pytest.mark.parametrize("fields", [{}, {"request": 5}, {"request": {}}, {"request": {"subtype": None}}])
def test_request_without_a_subtype_is_an_error_of_that_request(fields: dict[str, Any], tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.greet()
        host.send({"type": "control_request", "request_id": "r", **fields})
        answer = host.until(lambda line: line["type"] in ("control_response", "result"))
        assert answer["type"] == "control_response"
        assert (answer["response"]["subtype"], answer["response"]["request_id"]) == ("error", "r")
        host.ask()
        assert host.result()["result"] == "Hello."


def test_irrelevant_lines_are_ignored_and_a_bad_message_gets_an_error_result(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.greet()
        unknown = {"type": "control_response", "response": {"subtype": "success", "request_id": "x", "response": {}}}
        host.send({"type": "keep_alive"}, unknown, "", "nonsense", {"type": "control_cancel_request", "request_id": 1})
        host.ask([{"type": "document"}])
        bad = host.result()
        host.ask()
        assert host.result()["result"] == "Hello."
    assert (bad["subtype"], bad["error"]["kind"]) == ("error_during_execution", "bad_input")
    assert "document" in bad["errors"][0]
    assert "line 5 of standard input is not a JSON object with a type" in json.dumps(host.seen)


def test_interrupt_ends_the_turn_and_waiting_messages_stay(tmp_path: Path) -> None:
    script = [working(), Turn(text="second"), Turn(text="third")]
    with hosting(tmp_path, script, "--include-partial-messages") as host:
        host.greet()
        host.ask("first")
        host.ask("second", uuid="u2")
        host.until(lambda line: "Working" in json.dumps(line))
        assert host.control("interrupt")["response"] == {"still_queued": ["u2"]}
        cancelled, answered = host.result(), host.result()
        host.end()
    assert (cancelled["subtype"], cancelled["stop_reason"]) == ("error_during_execution", "cancelled")
    assert cancelled["terminal_reason"] == "aborted_streaming"
    assert (answered["result"], answered["user_message_uuid"]) == ("second", "u2")
    aborted = [line for line in host.seen if line["type"] == "assistant" and line.get("aborted")]
    assert [line["message"]["content"][0]["text"] for line in aborted] == ["Working"]


def test_interrupt_can_drop_the_waiting_messages(tmp_path: Path) -> None:
    with hosting(tmp_path, [working(), Turn(text="third")]) as host:
        host.greet()
        host.ask("first")
        host.ask("second", uuid="u2")
        host.server.wait_until(lambda seen: seen.stalls == 1)
        answer = host.control("interrupt", cancel_queued=True)["response"]
        assert answer == {"still_queued": [], "cancelled": ["u2"]}
        host.result()
        host.ask("third")
        assert host.result()["result"] == "third"


def test_messages_are_echoed_and_message_without_a_query_joins_the_next(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")], "--replay-user-messages") as host:
        host.greet()
        host.ask("context", uuid="u1", shouldQuery=False)
        host.ask("question", uuid="u2")
        result = host.result()
        sent = host.server.requests[0].messages[-1]
        host.end()
    echoes = [line for line in host.seen if line.get("isReplay")]
    assert [(line["uuid"], line["message"]["content"]) for line in echoes] == [("u1", "context"), ("u2", "question")]
    assert result["user_message_uuids"] == ["u1", "u2"]
    assert "context" in sent.text
    assert "question" in sent.text


def test_composed_prompt_is_sent_unchanged(tmp_path: Path) -> None:
    commands = tmp_path / "qcode" / "commands"
    commands.mkdir(parents=True)
    (commands / "shout.toml").write_text('prompt = "Shout {{args}}"\n')
    with hosting(tmp_path, [Turn(text=str(number)) for number in range(4)]) as host:
        host.greet()
        for text in ("see @a.txt", "/shout hi"):
            for is_composed in (True, False):
                host.ask(text, client_composed=is_composed)
                host.result()
        texts = [request.messages[-1].text for request in host.server.requests]
        host.end()
    assert texts[0] == "see @a.txt"
    assert "one\n" in texts[1]
    assert texts[2] == "/shout hi"
    assert texts[3] == "Shout hi"


def test_skill_and_command_in_markdown_are_commands_of_a_host(tmp_path: Path) -> None:
    put(tmp_path / "qcode" / "skills", "pdf", body="Fill $ARGUMENTS.")
    commands = tmp_path / "qcode" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("---\ndescription: A review\n---\nReview $ARGUMENTS, !`touch made`.\n")
    with hosting(tmp_path, [Turn(text="Filled.")]) as host:
        answer = host.greet()
        host.ask("/pdf a.pdf")
        assert host.result()["result"] == "Filled."
        host.ask("/review b")
        refused = host.result()
        (request,) = host.server.requests
        host.end()
    assert {"pdf", "review"} <= {command["name"] for command in answer["response"]["commands"]}
    assert "Fill a.pdf." in request.messages[-1].text
    assert refused["is_error"]
    assert "touch made" in refused["errors"][0]


def test_compact_is_a_command_of_a_host(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello."), Turn(text="Summary.")]) as host:
        host.greet()
        host.ask()
        host.result()
        host.ask("/compact")
        host.result()
        host.end()
    assert "status" in kinds(host)


def ask_for(host: Host, *, prompt: str = "work") -> dict[str, Any]:
    host.greet()
    host.ask(prompt)
    return host.request()


def test_end_of_the_input_denies_and_finishes_the_turn(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")], *PROMPTED) as host:
        ask_for(host)
        assert host.end() == 0
        assert tool_results(host) == ["Error: Denied: the host did not allow the call: the host closed its input"]
    assert host.seen[-1]["result"] == "Then not."
    assert not (tmp_path / "work" / "b.txt").exists()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "answer",
    [
        {"subtype": "error", "error": "no callback"},
        {"subtype": "success", "response": {"behavior": "perhaps"}},
        {"subtype": "success", "response": "yes"},
        {"subtype": "success", "response": {"behavior": "allow", "updatedInput": {"command": 7}}},
        {"subtype": "success", "response": {"behavior": "allow", "updatedInput": {}}},
        {"subtype": "success", "response": {"behavior": "allow", "updatedInput": "touch b.txt"}},
        {"subtype": "other"},
    ],
)
def test_answer_that_is_not_valid_denies(answer: dict[str, Any], tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")], *PROMPTED) as host:
        request = ask_for(host)
        host.send({"type": "control_response", "response": {**answer, "request_id": request["request_id"]}})
        result = host.result()
    assert (result["result"], result["permission_denials"][0]["tool_name"]) == ("Then not.", "Bash")
    assert not (tmp_path / "work" / "b.txt").exists()


def test_request_of_a_turn_that_ends_is_withdrawn(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(calls=(shell("touch b.txt"),)), Turn(text="never")], *PROMPTED) as host:
        request = ask_for(host)
        host.control("interrupt")
        assert host.result()["terminal_reason"] == "aborted_tools"
        withdrawn = [line["request_id"] for line in host.seen if line["type"] == "control_cancel_request"]
        host.answer(request, behavior="allow")
        host.end()
    assert withdrawn == [request["request_id"]]
    assert not (tmp_path / "work" / "b.txt").exists()


def test_mode_after_an_approved_plan_is_reported(tmp_path: Path) -> None:
    script = [Turn(calls=(Call("exit_plan_mode", '{"plan": "1. Do it."}'),)), Turn(text="Done.")]
    with hosting(tmp_path, script, "--permission-mode", "plan", *PROMPTED) as host:
        request = ask_for(host)
        accept = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
        host.answer(request, behavior="allow", updatedInput=request["request"]["input"], updatedPermissions=[accept])
        host.result()
        host.end()
    modes = [line["permissionMode"] for line in host.seen if line.get("subtype") == "status"]
    assert modes == ["acceptEdits"]


def test_interrupted_command_is_reported_as_aborted_tools(tmp_path: Path) -> None:
    command = "touch began; sleep 30"
    script = [Turn(calls=(shell(command),)), Turn(text="never")]
    with hosting(tmp_path, script, "--allow-dangerously-skip-permissions") as host:
        host.greet()
        host.control("set_permission_mode", mode="bypassPermissions")
        host.ask()
        end = time.monotonic() + 20
        while not (tmp_path / "work" / "began").exists():
            assert time.monotonic() < end, host.seen[-3:]
            time.sleep(0.01)
        host.control("interrupt")
        assert host.result()["terminal_reason"] == "aborted_tools"


def test_calls_are_named_as_in_claude_code_in_both_directions(tmp_path: Path) -> None:
    with hosting(tmp_path, EDIT, *PROMPTED, "--include-partial-messages") as host:
        request = ask_for(host)["request"]
        path = str(tmp_path / "work" / "a.txt")
        assert (request["tool_name"], request["input"]) == (
            "Edit",
            {"file_path": path, "old_string": "one", "new_string": "two"},
        )
        assert {"type": "setMode", "mode": "acceptEdits", "destination": "session"} in request["permission_suggestions"]
        host.answer(host.seen[-1], behavior="allow", updatedInput={**request["input"], "new_string": "three"})
        host.result()
    assert (tmp_path / "work" / "a.txt").read_text() == "three\n"
    started = [line["event"]["content_block"] for line in host.seen if line.get("event", {}).get("content_block")]
    assert [block["name"] for block in started if block["type"] == "tool_use"] == ["Read", "Edit"]


def test_truncated_call_neither_asks_nor_runs_nor_appears_in_the_stream(tmp_path: Path) -> None:
    cut = Turn(calls=(Call("shell", '{"command": "touch b.txt; echo'),), stop=StopReason.MAX_TOKENS)
    script = [cut, cut, Turn(text="Gave up.")]
    with hosting(tmp_path, script, *PROMPTED, "--include-partial-messages") as host:
        host.greet()
        host.ask()
        host.result()
        host.end()
    assert not [line for line in host.seen if line["type"] == "control_request"]
    streamed = [line["event"] for line in host.seen if line["type"] == "stream_event"]
    assert {event["content_block"]["type"] for event in streamed if "content_block" in event} == {"text"}
    assert not (tmp_path / "work" / "b.txt").exists()


def test_wider_rule_than_the_proposed_one_is_refused(tmp_path: Path) -> None:
    script = [Turn(calls=(shell("touch b.txt"),)), Turn(calls=(shell("touch c.txt"),)), Turn(text="Done.")]
    wide = {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"}
    with hosting(tmp_path, script, *PROMPTED) as host:
        ask_for(host)
        host.answer(host.seen[-1], behavior="allow", updatedPermissions=[wide])
        assert host.request()["request"]["input"] == {"command": "touch c.txt"}
        host.answer(host.seen[-1], behavior="deny", message="no")
        host.result()
    assert "only the proposed rule can be kept" in json.dumps(host.seen)


def test_deny_rule_and_mode_of_an_answer_hold_for_the_session(tmp_path: Path) -> None:
    script = [Turn(calls=(shell("touch b.txt"),)), Turn(calls=(shell("touch c.txt"),)), *EDIT]
    updates = [
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "touch:*"}],
            "behavior": "deny",
            "destination": "session",
        },
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    ]
    with hosting(tmp_path, script, *PROMPTED) as host:
        ask_for(host)
        host.answer(host.seen[-1], behavior="allow", updatedPermissions=updates)
        host.result()
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["a.txt", "b.txt"]
    assert (tmp_path / "work" / "a.txt").read_text() == "two\n"


def test_call_that_asks_is_denied_without_a_callback_or_in_dont_ask_mode(tmp_path: Path) -> None:
    script = [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")]
    with hosting(tmp_path, script * 2, *PROMPTED) as host:
        host.greet()
        assert host.control("set_permission_mode", mode="dontAsk")["response"] == {"mode": "dontAsk"}
        host.ask()
        host.result()
        host.end()
    assert not [line for line in host.seen if line["type"] == "control_request"]
    inits = [line["permissionMode"] for line in host.seen if line.get("subtype") == "init"]
    assert inits == ["dontAsk"]


def test_untrusted_folder_asks_and_a_denial_names_the_flag(tmp_path: Path) -> None:
    script = [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")]
    with hosting(tmp_path, script, trust=False) as host:
        host.greet()
        host.ask()
        host.result()
        assert "--trust" in tool_results(host)[0]
        host.end()


def test_model_effort_and_prompts_of_the_host_reach_the_model(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="a"), Turn(text="b")], "--system-prompt", "") as host:
        prompts = {"systemPrompt": ["You are a pirate."], "appendSystemPrompt": "Be brief."}
        host.greet(**prompts, promptSuggestions=True, odd={"a": 1})
        host.ask()
        host.result()
        assert host.control("set_model", model="openai/other")["response"] == {"model": "openai/other"}
        assert host.control("set_max_thinking_tokens", max_thinking_tokens=5_000)["response"] == {}
        host.ask()
        host.result()
        first, second = host.server.requests
        host.end()
    assert "You are a pirate." in json.dumps(first.body)
    assert "Be brief." in json.dumps(first.body)
    assert second.body["model"] == "other"
    assert second.body["reasoning_effort"] == "medium"
    assert "without effect here: odd" in json.dumps(host.seen)


def test_files_are_rewound_to_a_message(tmp_path: Path) -> None:
    with hosting(tmp_path, EDIT, "--permission-mode", "accept-edits") as host:
        host.greet()
        host.ask(uuid="u1")
        host.result()
        assert host.control("rewind_files", user_message_id="none")["response"]["canRewind"] is False
        planned = host.control("rewind_files", user_message_id="u1", dry_run=True)["response"]
        assert planned == {"canRewind": True, "filesChanged": ["a.txt"]}
        assert (tmp_path / "work" / "a.txt").read_text() == "two\n"
        assert host.control("rewind_files", user_message_id="u1")["response"]["canRewind"] is True
        assert (tmp_path / "work" / "a.txt").read_text() == "one\n"


def test_file_that_the_user_edited_is_not_rewound_and_named(tmp_path: Path) -> None:
    with hosting(tmp_path, EDIT, "--permission-mode", "accept-edits") as host:
        host.greet()
        host.ask(uuid="u1")
        host.result()
        (tmp_path / "work" / "a.txt").write_text("mine\n")
        answer = host.control("rewind_files", user_message_id="u1")["response"]
        assert answer == {"canRewind": True, "filesChanged": [], "error": "a.txt has been changed since"}
        assert (tmp_path / "work" / "a.txt").read_text() == "mine\n"


def test_context_usage_adds_up(tmp_path: Path) -> None:
    with hosting(tmp_path, []) as host:
        host.greet()
        usage = host.control("get_context_usage")["response"]
    used = sum(row["tokens"] for row in usage["categories"] if row["kind"] == "used")
    assert used == usage["totalTokens"] > 0
    assert usage["maxTokens"] == 200_000


def test_limits_have_the_subtypes_of_claude_code(tmp_path: Path) -> None:
    with hosting(tmp_path, EDIT, "--max-tool-calls", "1", "--permission-mode", "accept-edits") as host:
        host.greet()
        host.ask()
        result = host.result()
        assert host.end() == 53
    assert (result["subtype"], result["qcode_subtype"]) == ("error_max_turns", "error_max_tool_calls")
    assert (result["stop_reason"], result["terminal_reason"]) == ("max_turn_requests", "max_turns")


def test_line_has_at_most_a_million_characters_and_the_model_gets_the_whole(tmp_path: Path) -> None:
    content = " ".join(map(str, range(100_000)))
    writes = [Call("write", json.dumps({"path": name, "content": content})) for name in ("b.txt", "c.txt")]
    with hosting(tmp_path, [Turn(calls=writes), Turn(text="Done.")], "--permission-mode", "accept-edits") as host:
        host.greet()
        host.ask()
        host.result()
        host.end()
    lines = [line for line in host.seen if line["type"] == "assistant"]
    assert "more characters, left out of this line" in lines[0]["message"]["content"][0]["input"]["content"]
    assert max(len(json.dumps(line, ensure_ascii=False)) for line in host.seen) <= 1_000_000
    assert (tmp_path / "work" / "c.txt").read_text() == content


def test_unknown_cost_is_0_for_a_host(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.greet()
        host.ask()
        result = host.result()
    assert (result["total_cost_usd"], result["qcode_total_cost_usd"]) == (0, None)
    assert [item["costUSD"] for item in result["modelUsage"].values()] == [0]


def test_existing_session_id_is_refused(tmp_path: Path) -> None:
    session = "9c6b1c4e-0c52-4bd0-9f0e-0c3f0a1d2b3c"
    for code in (0, 42):
        with hosting(tmp_path, [Turn(text="Hello.")], "--session-id", session) as host:
            host.send({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}})
            host.ask()
            result = host.result()
            assert host.end() == code
        (tmp_path / "work" / "a.txt").unlink()
        (tmp_path / "work").rmdir()
    assert session in result["errors"][0]


def greet_with_server(host: Host) -> None:
    """Send the handshake and a message, and answer the requests to the server `calc` until `init`."""
    host.greet(sdkMcpServers=["calc"])
    host.ask()
    host.serve(lambda line: line.get("subtype") == "init")


CALC = [Turn(calls=(Call("calc__add", "{}"),)), Turn(text="5")]


def test_server_of_the_host_is_listed_called_and_switched_off(tmp_path: Path) -> None:
    with hosting(tmp_path, CALC, "--allowed-tools", "mcp(calc/*)") as host:
        greet_with_server(host)
        assert host.seen[-1]["mcp_servers"] == [{"name": "calc", "status": "connected"}]
        assert "mcp__calc__add" in host.seen[-1]["tools"]
        host.serve(lambda line: line["type"] == "result")
        assert tool_results(host) == ["sum 5"]
        (server,) = host.control("mcp_status")["response"]["mcpServers"]
        assert (server["status"], server["tools"]) == ("connected", [{"name": "add"}])
        assert host.control("mcp_toggle", serverName="calc", enabled=False)["response"] == {}
        (server,) = host.control("mcp_status")["response"]["mcpServers"]
        assert server["status"] == "disabled"


def test_request_of_a_server_is_refused_and_a_bad_message_is_an_error(tmp_path: Path) -> None:
    with hosting(tmp_path, CALC) as host:
        greet_with_server(host)
        unknown = host.control("mcp_message", server_name="none", message={})
        assert unknown["subtype"] == "error"
        bad = host.control("mcp_message", server_name="calc", message={"jsonrpc": "1.0"})
        assert "not valid JSON-RPC" in bad["error"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("response", [{}, {"mcp_response": "none"}, {"mcp_response": {"result": {}}}])
def test_server_that_answers_nonsense_fails_and_the_turn_continues(response: dict[str, Any], tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.greet(sdkMcpServers=["calc"])
        host.ask()
        while (line := host.until(lambda line: line["type"] in ("control_request", "result")))["type"] != "result":
            host.answer(line, **response)
        assert line["result"] == "Hello."
    (init,) = [line for line in host.seen if line.get("subtype") == "init"]
    assert init["mcp_servers"] == [{"name": "calc", "status": "failed"}]


def test_invalid_response_of_a_server_ends_its_call_at_once_and_leaves_nothing_on_stderr(tmp_path: Path) -> None:
    with hosting(tmp_path, CALC, "--allowed-tools", "mcp(calc/*)") as host:
        greet_with_server(host)
        call = host.request("mcp_message")
        host.answer(call, mcp_response={"result": "not an object"})
        host.result()
        assert host.end() == 0
    (result,) = tool_results(host)
    assert result.endswith("the server answered with an error: the response of the host is not valid JSON-RPC")
    assert (tmp_path / "stderr").read_bytes() == b""


def test_agents_of_the_host_are_offered_and_a_bad_one_is_named(tmp_path: Path) -> None:
    agents = {"reviewer": {"description": "Reviews.", "prompt": "Review.", "tools": ["Read"]}, "bad": {"prompt": 3}}
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        answer = host.greet(agents=agents)["response"]
        assert "reviewer" in [agent["name"] for agent in answer["agents"]]
        host.ask()
        host.result()
        assert "reviewer" in json.dumps(host.server.requests[0].body)
    assert "the agent bad is left out" in json.dumps(host.seen)


def hook_of(event: str, **fields: Any) -> dict[str, Any]:
    return {event: [{"matcher": "Bash", "hookCallbackIds": ["hook_0"], **fields}]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", ["deny", "error", "closed"])
def test_hook_of_the_host_that_denies_or_fails_keeps_a_call_from_running(ending: str, tmp_path: Path) -> None:
    script = [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")]
    with hosting(tmp_path, script, "--permission-mode", "default", "--allowed-tools", "shell(touch *)") as host:
        host.control("initialize", hooks=hook_of("PreToolUse", onFailure="block"))
        host.ask()
        request = host.request("hook_callback")
        assert request["request"]["callback_id"] == "hook_0"
        assert request["request"]["input"]["tool_input"] == {"command": "touch b.txt"}
        output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}
        match ending:
            case "deny":
                host.answer(request, hookSpecificOutput=output)
            case "error":
                error = {"subtype": "error", "request_id": request["request_id"], "error": "raised"}
                host.send({"type": "control_response", "response": error})
            case _:
                host.end()
        if ending != "closed":
            host.result()
    assert host.seen[-1]["result"] == "Then not."
    assert ("The PreToolUse hook `hook_0` failed" in json.dumps(host.seen)) == (ending != "deny")
    assert not (tmp_path / "work" / "b.txt").exists()


def test_hook_for_an_unknown_event_is_named(tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="Hello.")]) as host:
        host.control("initialize", hooks=hook_of("WorktreeCreate"))
        host.ask()
        assert host.result()["result"] == "Hello."
        host.end()
    assert "hooks for WorktreeCreate never run" in json.dumps(host.seen)
