"""Requests of a host that change the run: tool servers, folders, skills, instructions for plan mode, questions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.turns import Call, Turn
from tests.headless.host.running import FAKE_SERVER as FAKE
from tests.headless.host.running import Host, hosting, make_skill
from tests.headless.host.scripts import FORM, shell

PROMPTED = ("--permission-prompt-tool", "stdio")


def statuses(host: Host) -> dict[str, str]:
    return {server["name"]: server["status"] for server in host.control("mcp_status")["response"]["mcpServers"]}


def set_servers(host: Host, servers: Any, *, serves: str = "") -> dict[str, Any]:
    """Send the servers and return the response; answer the requests to the server `serves` meanwhile."""
    host.send(
        {
            "type": "control_request",
            "request_id": "set",
            "request": {"subtype": "mcp_set_servers", "servers": servers},
        }
    )

    def is_answer(line: dict[str, Any]) -> bool:
        return bool(line["type"] == "control_response" and line["response"]["request_id"] == "set")

    line = host.serve(is_answer, serves) if serves else host.until(is_answer)
    response: dict[str, Any] = line["response"]
    return response


def test_servers_are_added_called_and_removed_while_the_host_runs(tmp_path: Path) -> None:
    script = [
        Turn(text="Hello."),
        Turn(calls=(Call("fake__add", '{"a": 2, "b": 3}'),)),
        Turn(text="5"),
        Turn(text="Bye."),
    ]
    with hosting(tmp_path, script, "--allowed-tools", "mcp(fake/*)") as host:
        host.greet()
        host.ask()
        host.result()
        bad = {"command": ["not", "a", "text"]}
        answer = set_servers(host, {"fake": FAKE, "bad": bad})["response"]
        assert (answer["added"], answer["removed"], list(answer["errors"])) == (["fake"], [], ["bad"])
        assert statuses(host) == {"fake": "connected"}
        host.ask()
        result = host.result()
        assert (result["result"], [item.content for item in host.server.requests[-1].results]) == ("5", ["5"])
        assert set_servers(host, {"fake": FAKE})["response"] == {"added": [], "removed": [], "errors": {}}
        assert set_servers(host, {})["response"] == {"added": [], "removed": ["fake"], "errors": {}}
        assert statuses(host) == {}
        host.ask()
        host.result()
        host.end()
    tools = [line["tools"] for line in host.seen if line.get("subtype") == "init"]
    assert ["mcp__fake__add" in names for names in tools] == [False, True, False]


def test_server_inside_the_host_is_added_and_servers_of_the_handshake_are_replaced(tmp_path: Path) -> None:
    script = [Turn(text="Hello."), Turn(calls=(Call("more__add", "{}"),)), Turn(text="5")]
    with hosting(tmp_path, script, "--allowed-tools", "mcp(more/*)") as host:
        host.greet(sdkMcpServers=["calc"])
        host.ask()
        host.serve(lambda line: line["type"] == "result")
        answer = set_servers(host, {"more": {"type": "sdk", "name": "more"}}, serves="more")["response"]
        assert answer == {"added": ["more"], "removed": ["calc"], "errors": {}}
        host.ask()
        assert host.serve(lambda line: line["type"] == "result", "more")["result"] == "5"
        assert host.server.requests[-1].results[0].content == "sum 5"


def test_withdrawal_ends_every_request_with_its_id(tmp_path: Path) -> None:
    def is_end(line: dict[str, Any]) -> bool:
        return bool(line["type"] == "control_response" and line["response"]["request_id"] == "end")

    def send(request_id: str, subtype: str, **fields: Any) -> None:
        request = {"subtype": subtype, **fields}
        host.send({"type": "control_request", "request_id": request_id, "request": request})

    with hosting(tmp_path, []) as host:
        host.greet()
        send("same", "mcp_set_servers", servers={"more": {"type": "sdk", "name": "more"}})
        unanswered = host.request("mcp_message")
        send("same", "get_context_usage")
        host.until(lambda line: line["type"] == "control_response")
        host.send({"type": "control_cancel_request", "request_id": "same"})
        host.control("mcp_status")
        host.answer(unanswered, mcp_response={"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}})
        send("end", "mcp_set_servers", servers={})
        host.serve(is_end, "more")
        host.end()
    ids = [line["response"]["request_id"] for line in host.seen if line["type"] == "control_response"]
    assert ids.count("same") == 1


def test_server_that_fails_is_reported_and_one_of_the_configuration_stays(tmp_path: Path) -> None:
    config = tmp_path / "qcode" / "config.toml"
    config.parent.mkdir()
    config.write_text(f"[mcp_servers.own]\ncommand = {json.dumps(sys.executable)}\nargs = ['-c', 'pass']\n")
    with hosting(tmp_path, []) as host:
        host.greet()
        exits = {**FAKE, "args": [*FAKE["args"], "exits"]}
        answer = set_servers(host, {"own": FAKE, "exits": exits})["response"]
    assert (answer["added"], answer["removed"]) == (["exits"], [])
    assert "the configuration has a server of this name" in answer["errors"]["own"]
    assert answer["errors"]["exits"]


def test_server_of_the_command_line_can_be_replaced(tmp_path: Path) -> None:
    given = json.dumps({"mcpServers": {"fake": {**FAKE, "args": ["-c", "pass"]}}})
    with hosting(tmp_path, [], "--mcp-config", given) as host:
        host.greet()
        assert set_servers(host, {"fake": FAKE})["response"] == {"added": ["fake"], "removed": [], "errors": {}}
        assert statuses(host) == {"fake": "connected"}


def test_process_server_does_not_start_in_an_untrusted_folder(tmp_path: Path) -> None:
    with hosting(tmp_path, [], trust=False) as host:
        host.greet()
        answer = set_servers(host, {"fake": FAKE})["response"]
        assert "not trusted" in answer["errors"]["fake"]
        assert statuses(host) == {"fake": "disabled"}


def test_servers_that_are_not_an_object_are_an_error(tmp_path: Path) -> None:
    with hosting(tmp_path, []) as host:
        host.greet()
        assert "needs servers" in set_servers(host, ["x"])["error"]


def test_prompts_and_resources_of_a_server_are_used_unless_the_host_composed_the_text(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"memo": {**FAKE, "args": [*FAKE["args"], "prompts"]}}})
    with hosting(tmp_path, [Turn(text="a"), Turn(text="b"), Turn(text="c")], "--mcp-config", config) as host:
        host.greet()
        host.ask("/mcp__memo__review a.py")
        init = host.until(lambda line: line.get("subtype") == "init")
        host.result()
        host.ask("What does @memo:memo://today say?")
        host.result()
        host.ask("/mcp__memo__review")
        assert "missing code" in host.result()["errors"][0]
        host.ask("/mcp__memo__review a.py", client_composed=True)
        host.result()
        first, second, last = (str(request.messages[-1]) for request in host.server.requests)
    assert "mcp__memo__review" in init["slash_commands"]
    assert "Review a.py, see @/etc/hostname" in first
    assert "buy milk" in second
    assert "/mcp__memo__review a.py" in last


def reading(path: Path) -> Turn:
    return Turn(calls=(Call("read", json.dumps({"path": str(path)})),))


def test_folders_are_added_and_removed_by_an_answer(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "note.txt").write_text("found it")
    script = [
        Turn(calls=(shell("touch b.txt"),)),
        reading(outside / "note.txt"),
        Turn(calls=(shell("touch c.txt"),)),
        reading(outside / "note.txt"),
        Turn(text="Done."),
    ]

    def update(kind: str) -> dict[str, Any]:
        return {"type": kind, "directories": [str(outside)], "destination": "session"}

    with hosting(tmp_path, script, *PROMPTED) as host:
        host.greet()
        host.ask()
        host.answer(host.request(), behavior="allow", updatedPermissions=[update("addDirectories")])
        host.answer(host.request(), behavior="allow", updatedPermissions=[update("removeDirectories")])
        last = host.request()
        host.answer(last, behavior="deny", message="no")
        host.result()
        results = [result.content for request in host.server.requests for result in request.results]
        system = [json.dumps(request.body) for request in host.server.requests]
    assert last["request"]["tool_name"] == "Read"
    assert any("found it" in text for text in results)
    assert f"Added folder: {outside}" in system[1]
    assert f"Added folder: {outside}" not in system[4]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("folder", ["/nonexistent", "a.txt"])
def test_folder_that_cannot_be_added_is_a_notice(folder: str, tmp_path: Path) -> None:
    update = {"type": "addDirectories", "directories": [folder], "destination": "localSettings"}
    with hosting(tmp_path, [Turn(calls=(shell("touch b.txt"),)), Turn(text="Done.")], *PROMPTED) as host:
        host.greet()
        host.ask()
        host.answer(host.request(), behavior="allow", updatedPermissions=[update])
        assert host.result()["result"] == "Done."
        host.end()
    assert "a permission update was not applied" in json.dumps(host.seen)


def test_folder_with_a_file_that_a_hook_runs_is_not_added(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "check.sh").write_text("exit 0\n")
    config = tmp_path / "qcode" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'[[hooks.PreToolUse]]\ncommand = "sh {tools}/check.sh"\n')
    update = {"type": "addDirectories", "directories": [str(tools)], "destination": "session"}
    with hosting(tmp_path, [Turn(calls=(shell("touch b.txt"),)), Turn(text="Done.")], *PROMPTED) as host:
        host.greet()
        host.ask()
        host.answer(host.request(), behavior="allow", updatedPermissions=[update])
        host.result()
        host.end()
    assert "one of your hooks runs" in json.dumps(host.seen)


def test_model_can_load_only_the_skills_that_the_host_lists(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf")
    make_skill(tmp_path, "secret")
    script = [
        Turn(calls=(Call("skill", '{"name": "pdf"}'),)),
        Turn(calls=(Call("skill", '{"name": "secret"}'),)),
        Turn(text="Done."),
    ]
    with hosting(tmp_path, script) as host:
        host.greet(skills=["pdf"])
        host.ask()
        host.result()
        first = json.dumps(host.server.requests[0].body)
        results = [result.content for result in host.server.requests[-1].results]
    assert "About pdf." in first
    assert "About secret." not in first
    assert "The text of pdf." in results[0]
    assert 'must be one of "pdf"' in results[1]


def test_empty_list_of_skills_offers_none(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf")
    with hosting(tmp_path, [Turn(text="Done.")]) as host:
        host.greet(skills=[])
        host.ask()
        host.result()
        assert "About pdf." not in json.dumps(host.server.requests[0].body)


@pytest.mark.parametrize("flags", [(), ("--system-prompt", "")])
def test_instructions_of_the_host_for_plan_mode_reach_the_model(flags: tuple[str, ...], tmp_path: Path) -> None:
    with hosting(tmp_path, [Turn(text="a"), Turn(text="b")], "--permission-mode", "plan", *PROMPTED, *flags) as host:
        host.greet(planModeInstructions="Write a design with three options.")
        host.ask()
        host.result()
        host.control("set_permission_mode", mode="default")
        host.ask()
        host.result()
        planning, working = (json.dumps(request.body) for request in host.server.requests)
        host.end()
    assert "Write a design with three options." in planning
    assert "exit_plan_mode" in planning
    assert "names files and steps" not in planning.split("exit_plan_mode")[0]
    assert "three options" not in working
    assert "without effect" not in json.dumps(host.seen)


def test_host_is_never_offered_the_patch_tool(tmp_path: Path) -> None:
    patching = ("-m", "openai/gpt-5.2")
    with hosting(tmp_path, [Turn(text="Done.")], *patching) as host:
        host.greet()
        host.ask()
        host.result()
        names = [tool["function"]["name"] for tool in host.server.requests[0].body["tools"]]
    init = next(line for line in host.seen if line.get("subtype") == "init")
    assert "apply_patch" not in {*names, *init["tools"]}
    assert {"Edit", "Write"} <= set(init["tools"])


def test_permission_prompts_none_denies_calls_that_would_ask(tmp_path: Path) -> None:
    flags = (*PROMPTED, "--permission-prompts=none")
    with hosting(tmp_path, [Turn(calls=(shell("touch b.txt"),)), Turn(text="Then not.")], *flags) as host:
        host.greet()
        host.ask()
        assert host.result()["permission_denials"][0]["tool_name"] == "Bash"
        assert not [line for line in host.seen if line["type"] == "control_request"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ({"action": "accept", "content": {"answer": "blue"}}, {"action": "accept", "content": {"color": "blue"}}),
        ({"action": "decline"}, {"action": "decline"}),
        ({"action": "cancel"}, {"action": "cancel"}),
        ({"action": "accept", "content": {"answer": 7}}, {"action": "cancel"}),
        (None, {"action": "cancel"}),
    ],
)
def test_question_of_a_server_is_an_elicitation(
    reply: dict[str, Any] | None, answer: dict[str, Any], tmp_path: Path
) -> None:
    script = [Turn(calls=(Call("fake__ask", json.dumps({"params": FORM})),)), Turn(text="Done.")]
    config = json.dumps({"mcpServers": {"fake": FAKE}})
    with hosting(tmp_path, script, *PROMPTED, "--mcp-config", config, "--allowed-tools", "mcp(fake/*)") as host:
        host.greet()
        host.ask()
        request = host.request("elicitation")
        if reply is None:
            error = {"subtype": "error", "request_id": request["request_id"], "error": "not supported"}
            host.send({"type": "control_response", "response": error})
        else:
            host.answer(request, **reply)
        host.result()
        result = host.server.requests[-1].results[0].content
    fields = request["request"]
    assert (fields["mcp_server_name"], fields["mode"]) == ("fake", "form")
    assert "Which color?" in fields["message"]
    assert "Color" in fields["message"]
    assert fields["requested_schema"]["properties"]["answer"]["enum"][:2] == ["red", "blue"]
    given = json.loads(result[result.index("{") :])
    assert {name: given[name] for name in answer} == answer


LISTS = {
    "message": "Set it up",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "parts": {"type": "array", "items": {"type": "string", "enum": ["a", "b, c", "d"]}},
            "count": {"type": "integer"},
        },
    },
}


@pytest.mark.parametrize(
    ("parts", "count", "confirmation", "sent"),
    [
        ({"answer": ["d", "b, c"]}, {"answer": "3"}, "Send", {"parts": ["d", "b, c"], "count": 3}),
        ({"answer": []}, {}, "Send", {}),
        ({}, {"answer": "4"}, "Send", {"count": 4}),
        ({}, {"answer": "4"}, "not one of the choices", None),
    ],
)
def test_lists_and_numbers_of_a_server_are_fields_of_their_type(
    parts: dict[str, Any], count: dict[str, Any], confirmation: str, sent: dict[str, Any] | None, tmp_path: Path
) -> None:
    script = [Turn(calls=(Call("fake__ask", json.dumps({"params": LISTS})),)), Turn(text="Done.")]
    config = json.dumps({"mcpServers": {"fake": FAKE}})
    with hosting(tmp_path, script, *PROMPTED, "--mcp-config", config, "--allowed-tools", "mcp(fake/*)") as host:
        host.greet()
        host.ask()
        asked = []
        for content in (parts, count, {"answer": confirmation}):
            request = host.request("elicitation")
            asked.append(request["request"]["requested_schema"]["properties"]["answer"])
            host.answer(request, action="accept", content=content)
        host.result()
        result = host.server.requests[-1].results[0].content
        host.end()
    assert asked[:2] == [{"type": "array", "items": {"type": "string", "enum": ["a", "b, c", "d"]}}, {"type": "string"}]
    answered = json.loads(result[result.index("{") :])
    assert (answered["action"], answered.get("content")) == ("cancel" if sent is None else "accept", sent)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (["A", "B, too"], 'A, "B, too"'),
        ("A, B, too", "A, B, too"),
        ("neither", "neither"),
        ([], "skipped the question"),
    ],
)
def test_question_with_several_answers_is_asked_and_answered_as_in_claude_code(
    answer: object, result: str, tmp_path: Path
) -> None:
    choices = [{"label": "A"}, {"label": "B, too", "detail": "better"}]
    question = {"question": "Which ones?", "choices": choices, "multi_select": True}
    script = [Turn(calls=(Call("ask_person", json.dumps(question)),)), Turn(text="Done.")]
    with hosting(tmp_path, script, *PROMPTED) as host:
        host.greet()
        host.ask()
        request = host.request()
        asked = request["request"]["input"]
        host.answer(request, behavior="allow", updatedInput={**asked, "answers": {"Which ones?": answer}})
        host.result()
        content = host.server.requests[-1].results[0].content
        host.end()
    assert asked["questions"] == [
        {
            "question": "Which ones?",
            "header": "Which ones?",
            "options": [{"label": "A", "description": ""}, {"label": "B, too", "description": "better"}],
            "multiSelect": True,
        }
    ]
    assert result in content


def test_changed_input_of_a_repeated_call_is_used(tmp_path: Path) -> None:
    again = Turn(calls=(Call("read", '{"path": "a.txt"}'),))
    with hosting(tmp_path, [again] * 4 + [Turn(text="Done.")], *PROMPTED) as host:
        (tmp_path / "work" / "b.txt").write_text("two\n")
        host.greet()
        host.ask()
        request = host.request()
        changed = {**request["request"]["input"], "file_path": str(tmp_path / "work" / "b.txt")}
        host.answer(request, behavior="allow", updatedInput=changed)
        assert host.result()["result"] == "Done."
        results = [result.content for result in host.server.requests[-1].results]
        host.end()
    assert "one" in results[2]
    assert "two" in results[3]
