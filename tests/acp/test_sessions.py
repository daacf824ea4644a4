"""Sessions of one client: several at once, loaded again, listed, closed, deleted; modes, options and commands."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from threading import Event

import pytest

from qcode.acp import session_list
from qcode.acp.commands import BUILT_IN
from qcode.acp.updates import replay
from qcode.agent.agent import Agent
from qcode.agent.options import Options
from qcode.agent.sessions.replay import ReplayedPrompt
from qcode.protocol.messages import Image, Message, Text
from qcode.protocol.reply import StopReason
from qcode.text.json import JsonObject
from tests.acp.conftest import Connect
from tests.acp.editor import Editor, InThread, select
from tests.agent.skills.folders import put
from tests.fakes.turns import Call, Turn


def call(name: str, **arguments: object) -> Call:
    return Call(name, json.dumps(arguments))


TALK = [
    Turn(text="Look.", calls=(call("ls", path="."),)),
    Turn(calls=(call("write", path="new.txt", content="new\n"),)),
    Turn(text="Written.", reasoning="Hm."),
    Turn(text="Bye."),
]


def shape(editor: Editor, session_id: str, since: int = 0) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Return the texts by message and the cards, as the client shows them."""
    texts: dict[tuple[str, str], str] = {}
    cards: dict[str, list[str]] = {}
    for message in editor.messages[since:]:
        if message.get("method") != "session/update" or message["params"]["sessionId"] != session_id:
            continue
        update = message["params"]["update"]
        if "messageId" in update and update["sessionUpdate"] != "user_message_chunk":
            key = (update["sessionUpdate"], update["messageId"])
            texts[key] = texts.get(key, "") + update["content"]["text"]
        if "toolCallId" in update:
            card = cards.setdefault(update["toolCallId"], ["", ""])
            card[0] = update.get("title", card[0])
            card[1] = update.get("status", card[1])
    return [(key[1], text) for key, text in texts.items()], [(key, card[0], card[1]) for key, card in cards.items()]


def test_loaded_session_shows_the_same_text_cards_and_ids(connect: Connect, work: Path) -> None:
    with connect(TALK) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "make it")
        editor.prompt(session_id, "bye")
        live = shape(editor, session_id)
        editor.request("session/close", sessionId=session_id)
        before = len(editor.messages)
        loading = editor.start("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
        editor.answer(loading)
        kinds = [
            message["params"]["update"]["sessionUpdate"] for message in editor.messages[before:] if "params" in message
        ]
        replayed = shape(editor, session_id, before)
        prompts = [update["content"]["text"] for update in editor.updates("user_message_chunk", session_id)]
        diffs = [
            entry
            for update in editor.updates("tool_call_update")
            for entry in update.get("content", [])
            if entry["type"] == "diff"
        ]
        editor.messages = [message for message in editor.messages[before:] if message.get("method") != "session/update"]
    assert replayed == live
    assert prompts == ["make it", "bye"]
    assert kinds[0] == "user_message_chunk"
    assert {(diff["oldText"], diff["newText"]) for diff in diffs} == {(None, "new\n")}


def test_resumed_session_is_continued_and_not_shown_again(connect: Connect, work: Path) -> None:
    with connect([Turn(text="One."), Turn(text="Two.")]) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "first prompt")
        editor.request("session/close", sessionId=session_id)
        before = len(editor.updates("agent_message_chunk"))
        result = editor.request("session/resume", sessionId=session_id, cwd=str(work), mcpServers=[])
        assert len(editor.updates("agent_message_chunk")) == before
        assert result["modes"]["currentModeId"] == "default"
        editor.prompt(session_id, "second prompt")
        assert editor.server is not None
        asked = str(editor.server.requests[-1].messages)
    assert "first prompt" in asked


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_session_of_another_folder_is_not_found(method: str, connect: Connect, work: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with connect([Turn(text="One.")]) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "hi")
        params = {"cwd": str(other), "mcpServers": []}
        assert editor.refused(method, sessionId=session_id, **params)["code"] == -32002
        editor.request("session/close", sessionId=session_id)
        assert editor.refused(method, sessionId=session_id, **params)["code"] == -32002
        assert editor.refused(method, sessionId=session_id[:-1], cwd=str(work), mcpServers=[])["code"] == -32002


def test_session_is_loaded_again_after_a_cancelled_request(
    connect: Connect, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_opening, may_finish = Event(), Event()
    report_file_texts = Agent.report_file_texts

    def slowly(agent: Agent) -> None:
        is_opening.set()
        assert may_finish.wait(10)
        report_file_texts(agent)

    other = tmp_path / "other"
    other.mkdir()
    with connect([Turn(text="One.")]) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "hi")
        editor.request("session/close", sessionId=session_id)
        monkeypatch.setattr(Agent, "report_file_texts", slowly)
        params = {"sessionId": session_id, "mcpServers": []}
        first = editor.start("session/load", cwd=str(work), **params)
        assert is_opening.wait(10)  # the session is locked
        editor.notify("$/cancel_request", requestId=first)
        assert editor.answer(first)["error"]["code"] == -32800
        second = editor.start("session/load", cwd=str(work), **params)
        elsewhere = editor.start("session/load", cwd=str(other), **params)
        editor.request("session/list")
        may_finish.set()
        assert "modes" in editor.answer(second)["result"]
        assert editor.answer(elsewhere)["error"]["code"] == -32002


def test_session_that_is_open_elsewhere_offers_a_copy(connect: Connect, work: Path) -> None:
    with connect([Turn(text="One.")]) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "hi")
        with InThread(Editor(), Options(model="openai/some-model", base_url="http://127.0.0.1:9/v1")) as other:
            other.initialize()
            error = other.refused("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
    assert error["code"] == -32603
    assert "--fork-session" in error["message"]


def test_list_has_all_folders_newest_first_in_pages(
    connect: Connect, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_list, "PAGE_SIZE", 5)
    other = tmp_path / "other"
    other.mkdir()
    count = 7
    with connect([Turn(text=f"{number}") for number in range(count)]) as editor:
        ids = []
        for number in range(count):
            ids.append(editor.open(other if number == 3 else work))
            editor.prompt(ids[-1], f"prompt {number}")
            editor.request("session/close", sessionId=ids[-1])
        first = editor.request("session/list")
        second = editor.request("session/list", cursor=first["nextCursor"])
        only = editor.request("session/list", cwd=f"{other}/")
    listed = [session["sessionId"] for session in (*first["sessions"], *second["sessions"])]
    assert listed == ids[::-1]
    assert len(first["sessions"]) == 5
    assert "nextCursor" not in second
    assert [(session["sessionId"], session["title"]) for session in only["sessions"]] == [(ids[3], "prompt 3")]


@pytest.mark.parametrize("cursor", ["x", "", 5, [], base64.b64encode(b"[1]").decode(), base64.b64encode(b"{").decode()])
def test_invalid_cursor_is_refused(cursor: object, connect: Connect) -> None:
    with connect() as editor:
        assert editor.refused("session/list", cursor=cursor)["code"] == -32602


def test_deleted_session_is_gone_and_deleting_an_unknown_one_is_not_an_error(connect: Connect, work: Path) -> None:
    with connect([Turn(text="One.")]) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "hi")
        assert editor.request("session/delete", sessionId=session_id) == {}
        assert editor.request("session/list")["sessions"] == []
        assert editor.request("session/delete", sessionId=session_id) == {}
        assert editor.request("session/delete", sessionId="../../x") == {}
        assert editor.refused("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])["code"] == -32002


def test_sessions_of_two_folders_run_side_by_side(connect: Connect, work: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder in (work, other):
        (folder / "name.txt").write_text(folder.name)

    script = [
        Turn(calls=(call("shell", command="touch here"),)),
        Turn(calls=(call("shell", command="touch here"),)),
        Turn(text="Done."),
        Turn(text="Done."),
    ]
    with connect(script, choose=lambda _: None) as editor:
        sessions = [editor.open(folder) for folder in (work, other)]
        running = [editor.start_prompt(session_id, "go") for session_id in sessions]
        editor.wait(lambda: len(editor.asked) == 2)
        for asked in editor.asked:
            editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": select("once")})
        for item in running:
            assert editor.answer(item)["result"]["stopReason"] == "end_turn"
        assert [editor.text(session_id=session) for session in sessions] == ["Done.", "Done."]
    assert (work / "here").exists()
    assert (other / "here").exists()


def test_mode_model_and_effort_are_options_in_sync_with_the_modes(connect: Connect, work: Path) -> None:
    with connect() as editor:
        opened = editor.request("session/new", cwd=str(work), mcpServers=[])
        session_id = opened["sessionId"]
        assert {config_option["id"] for config_option in opened["configOptions"]} >= {"mode", "model"}
        modes = [offered_mode["id"] for offered_mode in opened["modes"]["availableModes"]]
        assert [mode for mode in modes if mode != "auto"] == ["plan", "default", "accept-edits"]
        assert editor.request("session/set_mode", sessionId=session_id, modeId="plan") == {}
        editor.wait(lambda: editor.updates("config_option_update"))
        assert editor.updates("current_mode_update")[-1]["currentModeId"] == "plan"
        options = editor.updates("config_option_update")[-1]["configOptions"]
        assert next(option["currentValue"] for option in options if option["id"] == "mode") == "plan"
        answer = editor.request("session/set_config_option", sessionId=session_id, configId="mode", value="default")
        assert (
            next(
                config_option["currentValue"]
                for config_option in answer["configOptions"]
                if config_option["id"] == "mode"
            )
            == "default"
        )
        answer = editor.request(
            "session/set_config_option", sessionId=session_id, configId="model", value="openai/another"
        )
        assert (
            next(
                config_option["currentValue"]
                for config_option in answer["configOptions"]
                if config_option["id"] == "model"
            )
            == "openai/another"
        )
        assert editor.request("session/set_model", sessionId=session_id, modelId="openai/third") == {}


@pytest.mark.parametrize(
    ("option", "value"),
    [("mode", "bypass"), ("mode", "root"), ("mode", True), ("model", "nowhere/x"), ("effort", "huge"), ("trust", "on")],
)
def test_option_that_is_not_offered_is_refused(option: str, value: object, connect: Connect, work: Path) -> None:
    with connect() as editor:
        session_id = editor.open(work)
        error = editor.refused("session/set_config_option", sessionId=session_id, configId=option, value=value)
        assert error["code"] == -32602
        assert editor.refused("session/set_mode", sessionId=session_id, modeId="bypass")["code"] == -32602


def test_approved_plan_ends_plan_mode_and_says_so(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("exit_plan_mode", plan="1. Write it."),)), Turn(text="Working.")]
    with connect(script) as editor:
        session_id = editor.open(work)
        editor.request("session/set_mode", sessionId=session_id, modeId="plan")
        editor.prompt(session_id, "plan it")
        (asked,) = [item["params"] for item in editor.asked]
    assert [(option["optionId"], option["kind"]) for option in asked["options"]] == [
        ("default", "allow_once"),
        ("accept-edits", "allow_always"),
        ("plan", "reject_once"),
    ]
    assert asked["toolCall"]["kind"] == "switch_mode"
    assert editor.updates("current_mode_update")[-1]["currentModeId"] == "default"


def test_plan_in_a_restricted_folder_does_not_offer_to_accept_edits(connect: Connect, work: Path) -> None:
    script = [
        Turn(calls=(call("exit_plan_mode", plan="1. Write it."),)),
        Turn(calls=(call("write", path="a.txt", content="x"),)),
        Turn(text="Done."),
    ]
    options = Options(permission_mode="plan")
    with connect(script, options=options, choose=lambda _: select("default")) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "plan it")
        plan, edit = ([option["optionId"] for option in item["params"]["options"]] for item in editor.asked)
    assert plan == ["default", "plan"]
    assert edit == ["once", "deny"]


def test_commands_are_announced_and_run(connect: Connect, work: Path) -> None:
    commands = work / ".qcode" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.toml").write_text('description = "Review a file."\nprompt = "Review {{args}} now."\n')
    with connect([Turn(text="Fine."), Turn(text="As text.")]) as editor:
        session_id = editor.open(work)
        editor.wait(lambda: editor.updates("available_commands_update"))
        names = {
            offered_command["name"]
            for offered_command in editor.updates("available_commands_update")[0]["availableCommands"]
        }
        assert names >= {*BUILT_IN, "review"}
        for name in ("context", "cost", "undo", "redo", "memory", "permissions", "trust"):
            before = len(editor.text())
            assert editor.prompt(session_id, f"/{name}")["stopReason"] == "end_turn"
            assert editor.text()[before:].strip(), name
        editor.prompt(session_id, "/review a.py")
        editor.prompt(session_id, "/unknown thing")
        assert editor.server is not None
        asked = [request.messages[-1].text for request in editor.server.requests]
    assert asked == ["Review a.py now.", "/unknown thing"]


def test_skills_are_announced_and_run(connect: Connect, work: Path) -> None:
    put(work / ".claude/skills", "pdf", body="Fill $ARGUMENTS.", argument_hint="file")
    put(work / ".claude/skills", "made", body="!`touch made`")
    with connect([Turn(text="Fine."), Turn(text="Fine.")]) as editor:
        session_id = editor.open(work)
        editor.wait(lambda: editor.updates("available_commands_update"))
        (row,) = [
            offered_command
            for offered_command in editor.updates("available_commands_update")[0]["availableCommands"]
            if offered_command["name"] == "pdf"
        ]
        assert row["input"] == {"hint": "file"}
        editor.prompt(session_id, "/pdf form.pdf")
        editor.prompt(session_id, "/skills pdf other.pdf")
        editor.prompt(session_id, "/skills")
        assert "made" in editor.text()
        editor.prompt(session_id, "/made")
        assert "needs approval" in editor.text()
        assert editor.server is not None
        asked = [request.messages[-1].text for request in editor.server.requests]
    assert ["Fill form.pdf." in asked[0], "Fill other.pdf." in asked[1], len(asked)] == [True, True, 2]
    assert not (work / "made").exists()


def test_undo_restores_the_files_of_the_last_turn(connect: Connect, work: Path) -> None:
    with connect(TALK) as editor:
        session_id = editor.open(work)
        editor.prompt(session_id, "make it")
        assert (work / "new.txt").exists()
        editor.prompt(session_id, "/undo")
        assert not (work / "new.txt").exists()
        editor.prompt(session_id, "/redo")
    assert (work / "new.txt").exists()


def test_untrusted_folder_is_trusted_only_by_the_command_and_after_it_was_shown(connect: Connect, work: Path) -> None:
    (work / "AGENTS.md").write_text("Always answer in French.\n")
    (work / ".qcode").mkdir()
    (work / ".qcode" / "config.toml").write_text("")
    script = [Turn(calls=(call("edit", path="a.txt", old_text="", new_text="x"),)), Turn(text="No."), Turn(text="Oui.")]
    with connect(script, options=Options(), choose=lambda _: select("deny")) as editor:
        opened = editor.request("session/new", cwd=str(work), mcpServers=[])
        session_id = opened["sessionId"]
        modes = {mode["id"]: mode["description"] for mode in opened["modes"]["availableModes"]}
        assert "once this folder is trusted (/trust)" in modes["accept-edits"]
        assert "trusted" not in modes["plan"] + modes["default"]
        refused = editor.refused("session/set_mode", sessionId=session_id, modeId="accept-edits")
        assert "needs a trusted folder" in str(refused)
        editor.prompt(session_id, "edit")
        assert len(editor.asked) == 1
        assert [option["optionId"] for option in editor.asked[0]["params"]["options"]] == ["once", "deny"]
        editor.prompt(session_id, "/trust accept")
        assert "AGENTS.md" in editor.text()
        assert "Folder trusted" not in editor.text()
        (work / ".qcode" / "config.toml").write_text("model = 5\n")
        editor.prompt(session_id, "/trust accept")
        assert "Folder trusted" not in editor.text()
        editor.prompt(session_id, "/trust accept")
        assert "Folder trusted" in editor.text()
        editor.prompt(session_id, "hello")
        assert editor.server is not None
        assert "French" in str(editor.server.requests[-1].body)
    assert len(editor.asked) == 1


def test_project_of_an_untrusted_folder_adds_no_commands(connect: Connect, work: Path) -> None:
    commands = work / ".qcode" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.toml").write_text('prompt = "Review."\n')
    with connect(options=Options()) as editor:
        editor.open(work)
        editor.wait(lambda: editor.updates("available_commands_update"))
    assert "review" not in json.dumps(editor.updates("available_commands_update"))


def test_title_is_the_first_words_of_the_user(connect: Connect, work: Path) -> None:
    with connect([Turn(text="Hi.", stop=StopReason.END_TURN)]) as editor:
        editor.prompt(editor.open(work), "Explain\nthe \x1b[31mparser")
        editor.wait(lambda: editor.updates("session_info_update"))
    assert editor.updates("session_info_update")[-1]["title"] == "Explain the parser"


@pytest.mark.parametrize(("count", "shown"), [(1, "[1 image]"), (2, "[2 images]")])
def test_replayed_prompt_has_the_number_of_its_images(count: int, shown: str) -> None:
    message = Message("user", (*(Image("image/png", "QQ=="),) * count, Text("look")))
    updates: list[JsonObject] = []
    replay([(1, ReplayedPrompt(message))], "/work", updates.append)
    assert [update["content"] for update in updates] == [{"type": "text", "text": text} for text in ("look", shown)]
