"""Each command as the user types it, and the table of commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qcode.agent.models.offered import OfferedModel, OfferedProvider
from qcode.agent.skills.listing import no_skills_text
from qcode.protocol.messages import Reasoning, Text, ToolResult, assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import TextDelta
from qcode.text.match import suggestion
from qcode.tui.commands.command import key_names, split_command
from qcode.tui.commands.table import COMMANDS
from qcode.tui.screens.copy_picker import CopyPicker, copy_items
from qcode.tui.shared_widgets import HangingText
from qcode.tui.terminal import driver
from tests.tui.harness import Running, drive
from tests.tui.sample_project import Project
from tests.tui.scripted import Gate, ScriptedConversation, call, ended, said, says
from tests.tui.scripted_models import ScriptedModelsService
from tests.tui.staged_app import NOWHERE, run_context


def _panel(run: Running) -> str:
    return run.app.query_one("#help-text", HangingText).plain


def test_help_lists_every_typed_command_and_topic() -> None:
    async def test(run: Running) -> None:
        await run.send("/help")
        await run.pilot.pause()
        for command in COMMANDS:
            if command.names:
                assert command.usage in _panel(run)
        assert "/help demo" in _panel(run)

    drive(test)


def test_help_explains_a_topic_or_command_and_reports_an_unknown_name() -> None:
    async def test(run: Running) -> None:
        await run.send("/help demo")
        await run.pilot.pause()
        assert _panel(run).startswith("The demo model answers these requests:\n  ")
        await run.send("/help exit")
        await run.pilot.pause()
        assert "Quit qcode." in _panel(run)
        await run.send("/help dmo")
        await run.pilot.pause()
        assert "Did you mean /help demo?" in run.text

    drive(test)


def test_command_without_arguments_refuses_one_and_keeps_the_text() -> None:
    conversation = ScriptedConversation([*says("hello"), ended()])

    async def test(run: Running) -> None:
        await run.send("hi")
        await run.until_idle()
        await run.send("/new session please")
        await run.pilot.pause()
        assert '/new takes no argument. Type /new without "session please".' in run.text
        assert "hello" in run.text
        assert run.app.widgets.prompt.text == "/new session please"
        run.app.widgets.prompt.text = ""
        await run.send("/todos alll")
        await run.pilot.pause()
        assert 'Unknown argument "alll". Type /todos or /todos all.' in run.text

    drive(test, conversation)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "command",
    [
        "/help nothing",
        "/model unlisted",
        "/effort hgh",
        "/connect unlisted",
        "/mode pln",
        "/todos alll",
        "/jobs 7",
        "/jobs burn 1",
        "/theme drk",
        "/config ui.thme dark",
        "/config ui.theme drk",
        "/config ui.bell perhaps",
        "/permissions alow shell(ls)",
        "/permissions undo shell(never)",
        "/tools nothing",
        "/mcp restart unlisted",
        "/export pdf",
    ],
)
def test_command_with_a_refused_argument_stays_in_the_prompt_with_its_reason(command: str, tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        run.app.widgets.prompt.text = ""
        before = run.text
        await run.send(command)
        await run.until(lambda: run.app.widgets.prompt.text == command)
        assert run.app.widgets.prompt.selected_text == command
        assert len(run.app.screen_stack) == 1
        assert run.text.removeprefix(before).count("!") == 1, run.text

    conversation = ScriptedConversation()
    drive(test, conversation, models=ScriptedModelsService(), project=Project(tmp_path))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "openai needs a key: set OPENAI_API_KEY, or store one with qcode auth login openai",
            "OpenAI needs a key: set OPENAI_API_KEY, or add one with /connect openai.",
        ),
        (
            "there is no key for it; store one with qcode auth login, or name another model with -m PROVIDER/MODEL",
            "There is no key for it; add one with /connect, or choose another model with /model.",
        ),
        ('unknown provider "opanai"; did you mean openai?', 'Unknown provider "opanai"; did you mean openai?'),
    ],
)
def test_advice_about_a_model_names_commands_of_the_app(reason: str, shown: str) -> None:
    def refuse(name: object) -> None:
        raise ValueError(reason)

    conversation = ScriptedConversation()
    conversation.set_model = refuse  # type: ignore[method-assign]  # a model that cannot be used

    async def test(run: Running) -> None:
        await run.send("/model x/y")
        await run.until(lambda: run.app.widgets.prompt.text == "/model x/y")
        assert shown in " ".join(run.text.split())
        await run.type_over("/hooks")
        await run.until(lambda: "!qcode help hooks.EVENT shows the keys" in " ".join(run.text.split()))

    conversation.hooks = None
    drive(test, conversation)


def test_command_that_needs_an_argument_waits_for_it_in_the_prompt() -> None:
    async def test(run: Running) -> None:
        run.app.agent.sessions.rename = refuse_name  # type: ignore[method-assign]  # as the real one
        await run.send("/rename")
        await run.until(lambda: run.app.widgets.prompt.text == "/rename ")
        assert "A name is needed: /rename NAME." in run.text

    def refuse_name(session_id: str, title: str) -> None:
        raise ValueError("A name is needed: /rename NAME.")

    drive(test)


def test_command_with_an_argument_that_cannot_run_during_a_turn_stays_in_the_prompt() -> None:
    async def test(run: Running) -> None:
        await run.send("hi")
        await run.until(lambda: run.app.turns.is_running)
        await run.send("/compact keep the names")
        await run.until(lambda: "A turn is running." in run.text)
        assert run.app.widgets.prompt.text == "/compact keep the names"
        gate.open()
        await run.until_idle()

    gate = Gate()
    drive(test, ScriptedConversation([gate, *says("hello"), ended()]))


def test_unknown_command_names_the_nearest_and_keeps_the_text() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("/thme light")
        await run.pilot.pause()
        assert "Unknown command /thme. Did you mean /theme?" in run.text
        assert run.app.widgets.prompt.text == "/thme light"
        assert conversation.prompts == []

    drive(test, conversation)


def test_named_model_is_selected_or_refused() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("/model demo/other")
        await run.pilot.pause()
        assert conversation.model == "demo/other"
        assert "demo/other" in run.status
        await run.send("/model gpt")
        await run.pilot.pause()
        assert "! No model is called 'gpt'; demo/scripted is near." in run.text
        assert conversation.model == "demo/other"

    drive(test, conversation)


def test_typed_model_name_without_provider_is_chosen_before_longer_names() -> None:
    names = ("gpt-5.6", "gpt-5-mini", "gpt-5", "not-gpt-5")
    offered = OfferedProvider("demo", models=tuple(OfferedModel(name, ModelFacts()) for name in names))
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.type("/model gpt-5")
        await run.until(lambda: run.app.widgets.menu.is_open)
        labels = [choice.label for choice in run.app.widgets.menu.choices]
        assert labels == ["demo/gpt-5", "demo/gpt-5.6", "demo/gpt-5-mini", "demo/not-gpt-5"]
        await run.pilot.press("enter")
        await run.until(lambda: conversation.model == "demo/gpt-5")

    drive(test, conversation, models=ScriptedModelsService(offered))


def test_mode_command_refuses_modes_that_only_a_flag_may_set() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("/mode plan")
        await run.pilot.pause()
        assert conversation.mode == "plan"
        await run.send("/mode bypass")
        await run.pilot.pause()
        assert conversation.mode == "plan"
        assert "Cannot switch to bypass here. Start qcode with --permission-mode" in run.text
        await run.type_over("/mode nope")
        await run.pilot.pause()
        assert 'Unknown mode "nope". Choose from plan, ask, accept-edits.' in run.text
        await run.type_over("/mode aks")
        await run.pilot.pause()
        assert 'Unknown mode "aks". Did you mean ask?' in run.text

    drive(test, conversation)


def test_mode_ask_and_mode_default_are_the_same() -> None:
    conversation = ScriptedConversation(mode="plan")

    async def test(run: Running) -> None:
        await run.send("/mode ask")
        await run.until(lambda: conversation.mode == "default")
        await run.send("/mode plan")
        await run.until(lambda: conversation.mode == "plan")
        await run.send("/mode default")
        await run.until(lambda: conversation.mode == "default")
        await run.send("/mode")
        await run.until(lambda: "● ask" in run.screen)
        assert "default" not in run.screen

    drive(test, conversation)


def test_clear_and_its_alias_start_a_new_session() -> None:
    for name in ("clear", "new"):
        conversation = ScriptedConversation([*says("old words"), ended()])

        async def test(run: Running, name: str = name, conversation: ScriptedConversation = conversation) -> None:
            await run.send("hello")
            await run.until_idle()
            assert "old words" in run.text
            await run.send(f"/{name}")
            await run.pilot.pause()
            assert conversation.clears == 1
            assert "old words" not in run.text
            assert "qcode 0.1.0" in run.text
            assert run.app.widgets.status.status.tokens == 0

        drive(test, conversation)


def test_clear_shows_the_current_model_after_a_switch() -> None:
    async def test(run: Running) -> None:
        await run.send("/model other/thing")
        await run.until(lambda: run.conversation.model == "other/thing")
        await run.send("/clear")
        await run.pilot.pause()
        assert "Model   other/thing\n" in run.text

    drive(test)


def test_welcome_names_the_current_model_until_the_conversation_begins() -> None:
    async def test(run: Running) -> None:
        await run.send("/model other/thing")
        await run.until(lambda: "Model   other/thing\n" in run.text)
        assert "demo/scripted" not in run.text
        await run.send("hello")
        await run.until_idle()
        assert "qcode" in (header := run.text.split("\n")[0])
        assert header.endswith("· other/thing")
        await run.send("/model other/third")
        await run.until(lambda: run.conversation.model == "other/third")
        await run.pilot.pause()
        assert run.text.split("\n")[0] == header

    drive(test, ScriptedConversation(says("Hello.")))


def test_clear_is_refused_while_a_turn_runs() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("/clear")
        await run.pilot.pause()
        assert conversation.clears == 0
        assert "Press Esc to interrupt it" in run.text
        gate.open()
        await run.until_idle()

    drive(test, conversation)


def test_quit_and_its_alias_leave_with_code_0() -> None:
    for name in ("quit", "exit"):

        async def test(run: Running, name: str = name) -> None:
            await run.send(f"/{name}")
            await run.until(lambda: run.app.return_value is not None)
            assert run.app.return_value == 0

        drive(test)


def test_copy_copies_the_complete_last_reply_and_confirms_it() -> None:
    async def test(run: Running) -> None:
        await run.send("/copy")
        await run.pilot.pause()
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert run.app.clipboard == "**bold** and `code`"
        assert "Copied the last reply (19 characters)" in run.text

    drive(test, ScriptedConversation(messages=said("**bold** and `code`")))


def test_skills_without_any_says_where_the_file_of_one_goes() -> None:
    async def test(run: Running) -> None:
        await run.send("/skills")
        await run.until(lambda: "No skills." in run.text)
        said_text = " ".join(run.text.split())
        assert f"A skill is a folder with a SKILL.md in {NOWHERE}/skills, ~/.claude/skills" in said_text
        assert "This folder is not trusted" not in said_text

    drive(test)


def test_skills_in_a_restricted_folder_or_turned_off_say_so() -> None:
    context = run_context()
    restricted = no_skills_text(replace(context, is_trusted=False))
    hint = "This folder is not trusted, so its own skills are not read; /trust trusts it."
    assert restricted == f"{no_skills_text(context)} {hint}"
    turned_off = replace(context, options=replace(context.options, no_skills=True))
    assert no_skills_text(turned_off) == "No skills: --no-skills was given."


WITH_CODE = "Use this:\n\n```python\nprint(1)\nprint(2)\n```\n\n- or\n\n  ```sh\n  make\n  ```\n"


def test_copy_lists_replies_newest_first_with_their_code_blocks() -> None:
    items = copy_items(ScriptedConversation(messages=(*said("first"), *said(WITH_CODE))).stored_messages)
    assert [(item.label, item.turn, item.time, item.size) for item in items] == [
        ("Use this: print(1) print(2) or make", "turn 2", "14:03", "12 lines"),
        ("  python: print(1)", "turn 2", "", "2 lines"),
        ("  sh: make", "turn 2", "", "1 line"),
        ("first", "turn 1", "14:03", "1 line"),
    ]


def test_copy_during_the_first_reply_offers_it_so_far() -> None:
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("/copy")
        await run.until(lambda: isinstance(run.app.screen, CopyPicker))
        await run.pilot.press("enter")
        await run.until(lambda: "Copied the reply so far (6 characters)" in run.text)
        assert run.app.clipboard == "so far"
        gate.open()
        await run.until_idle()

    drive(test, ScriptedConversation([TextDelta(0, "so "), TextDelta(0, "far"), gate, TextDelta(0, ", done"), ended()]))


def test_copied_code_block_has_no_fence() -> None:
    async def test(run: Running) -> None:
        await run.send("/copy")
        await run.pilot.pause()
        screen = run.app.screen
        assert isinstance(screen, CopyPicker)
        assert [row.label for row in screen.rows][1:] == ["  python: print(1)", "  sh: make"]
        await run.pilot.press("down", "enter")
        await run.pilot.pause()
        assert run.app.clipboard == "print(1)\nprint(2)\n"
        assert "Copied the code block (18 characters)" in run.text

    drive(test, ScriptedConversation(messages=said(WITH_CODE)))


@pytest.mark.parametrize(("typed", "suspensions", "left"), [("", 1, ""), ("ab", 0, "")])
def test_ctrl_z_suspends_on_an_empty_prompt_and_undoes_otherwise(
    typed: str, suspensions: int, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "has_job_control", lambda: True)

    async def test(run: Running) -> None:
        seen: list[None] = []
        run.app.action_suspend_process = lambda: seen.append(None)  # type: ignore[method-assign]
        await run.type(typed)
        await run.pilot.press("ctrl+z")
        await run.pilot.pause()
        assert len(seen) == suspensions
        assert run.app.widgets.prompt.text == left

    drive(test)


def test_ctrl_z_after_the_last_undo_suspends_only_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "has_job_control", lambda: True)

    async def test(run: Running) -> None:
        seen: list[None] = []
        run.app.action_suspend_process = lambda: seen.append(None)  # type: ignore[method-assign]
        await run.type("ab")
        await run.pilot.press("ctrl+z", "ctrl+z")
        run.clock.now += 0.9
        await run.pilot.press("ctrl+z")
        await run.until(lambda: "nothing left to undo" in run.status)
        run.clock.now += 0.9
        await run.pilot.press("ctrl+z")
        assert not seen
        run.clock.now += 1
        await run.pilot.press("ctrl+z")
        await run.until(lambda: len(seen) == 1)

    drive(test)


def test_copy_without_a_reply_says_so() -> None:
    async def test(run: Running) -> None:
        await run.send("/copy")
        await run.pilot.pause()
        assert "No reply to copy yet." in run.text

    drive(test)


def test_resumed_session_shows_its_messages() -> None:
    shell = call()
    messages = (
        user("look around"),
        assistant(Reasoning("hm"), Text("I look."), shell),
        type(user(""))("user", (ToolResult("c1", "shell", "a.py"),)),
        assistant(Text("There is a.py.")),
    )

    async def test(run: Running) -> None:
        for words in ("look around", "I look.", "Run", "ls -la", "a.py", "There is a.py."):
            assert words in run.text

    drive(test, ScriptedConversation(messages=messages))


def test_ids_and_names_are_unique_and_every_command_can_be_reached() -> None:
    ids = [command.id for command in COMMANDS]
    names = [name for command in COMMANDS for name in command.names]
    keys = [key for command in COMMANDS for key in command.keys]
    for values in (ids, names, keys):
        assert len(values) == len(set(values))
    for command in COMMANDS:
        assert command.names or command.keys
        assert command.title and command.help.endswith(".")


def test_split_command_distinguishes_commands_from_paths() -> None:
    assert split_command("/model  demo/x ") == ("model", "demo/x")
    assert split_command("/") == ("", "")
    for text in ("/etc/hosts", "/* comment */", "hello /help", "/help\nme", "//"):
        assert split_command(text) is None


def test_keys_are_named_as_on_keyboards() -> None:
    assert key_names(("ctrl+o", "pageup", "question_mark", "escape", "shift+tab")) == "Ctrl+O, PgUp, ?, Esc, Shift+Tab"


def test_unknown_command_without_a_near_name_suggests_nothing() -> None:
    assert suggestion("xyzzy", ["help", "quit"]) == ""
    assert suggestion("nope", ["anthropic", "openai"]) == ""
    assert suggestion("pnai", ["anthropic", "openai"]) == "did you mean openai?"
    assert suggestion("opnai", ["anthropic", "openai"]) == "did you mean openai?"
    assert suggestion("modle", ["mode", "model"]) == "did you mean model?"
    assert suggestion("mdoe", ["mode", "model"]) == "did you mean mode?"
    assert suggestion("mode1", ["mode", "model"]) == "did you mean mode?"


def test_page_keys_move_in_the_menu_by_a_page_and_stop_at_its_ends() -> None:
    async def test(run: Running) -> None:
        menu = run.app.widgets.menu
        await run.pilot.press("slash")
        await run.until(lambda: menu.is_open)
        count = len(menu.choices)
        places = []
        for key in ["pagedown", "pagedown", "pageup", *["pagedown"] * count, "pageup"]:
            await run.pilot.press(key)
            assert menu.chosen is not None
            places.append(menu.choices.index(menu.chosen))
        assert count > 20
        assert places[:3] == [7, 14, 7]
        assert places[-2:] == [count - 1, count - 8]

    drive(test)
