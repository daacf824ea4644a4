"""The screens about rules, tools, instruction files and findings, used by keyboard."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from qcode.agent.permissions import MAX_DECISIONS, CallRecord, Origins, Permissions
from qcode.protocol.approvals import TurnOptions
from qcode.protocol.messages import ToolCall
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.tui.panels.picker_list import PickerRow
from qcode.tui.screens.inspection import FindingsScreen, MemoryPicker, MemoryTargetPicker, ToolPicker, findings_lines
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.screens.permission_text import decision_label, decision_text, permissions_text
from qcode.tui.screens.permissions import PermissionsScreen
from qcode.tui.screens.picker import Picker
from qcode.tui.shared_widgets import HangingText
from tests.safety.policies import NO_SANDBOX
from tests.tui.harness import Running, drive
from tests.tui.sample_project import FINDINGS, Project
from tests.tui.scripted import Gate, ScriptedConversation, ended

ScreenT = TypeVar("ScreenT", bound=Screen[Any])


def plain(run: Running, selector: str) -> str:
    content = run.app.screen.query_one(selector, Static).content
    assert isinstance(content, Content)
    return content.plain


def findings(run: Running) -> str:
    return run.app.screen.query_one(HangingText).plain


def said(run: Running) -> str:
    return plain(run, "#picker-message")


async def fill(run: Running, key: str, text: str) -> None:
    """Open the field with `key` and enter `text`."""
    await run.pilot.press(key)
    run.app.screen.query_one("#permission-field", Input).value = text
    await run.pilot.press("enter")
    await run.pilot.pause()


async def opened(run: Running, command: str, kind: type[ScreenT]) -> ScreenT:
    await run.send(command)
    await run.until(lambda: isinstance(run.app.screen, kind) and run.app.screen.is_mounted)
    await run.pilot.pause()
    screen = run.app.screen
    assert isinstance(screen, kind)
    return screen


def labels(screen: PermissionsScreen) -> list[str]:
    return [row.label for row in screen.rows]


def go(project: Project, test: Callable[[Running], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> None:
    drive(test, size=size, project=project)


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_rules_and_decisions_are_listed_with_their_origin(tmp_path: Path, size: tuple[int, int]) -> None:
    async def test(run: Running) -> None:
        screen = await opened(run, "/permissions", PermissionsScreen)
        assert labels(screen) == ["mode ask", "deny read(private/**)", "allow shell(make test)"]
        assert plain(run, "#picker-title") == "Permissions: rules  2", "the mode is not a rule"
        await run.pilot.press("down")
        await run.pilot.pause()
        assert said(run) == "deny read(private/**)\n~/config.toml:5"
        await run.pilot.press("tab")
        await run.pilot.pause()
        assert labels(screen) == ["read a.py", "shell make doc"]
        await run.pilot.press("ctrl+home")
        await run.pilot.pause()
        assert "ran without asking: it only reads" in said(run)
        assert "path:workspace" not in said(run)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)

    go(Project(tmp_path), test, size)


def test_note_about_a_restricted_folder_is_set_apart_from_the_origin_of_the_mode(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await opened(run, "/permissions", PermissionsScreen)
        assert "mode ask (restricted folder: allow rules do not apply)  the default" in run.screen

    go(Project(tmp_path, is_trusted=False), test, (120, 24))


@pytest.mark.parametrize("keys", [("down",), ("down", "ctrl+a")])
@pytest.mark.parametrize("size", [(80, 24), (40, 24), (40, 20), (40, 16)])
def test_key_hints_stay_on_the_screen_below_many_long_decisions(
    size: tuple[int, int], keys: tuple[str, ...], tmp_path: Path
) -> None:
    project = Project(tmp_path)
    command = json.dumps({"command": "make test " * 60})
    for number in range(40):
        project.permissions.record(ToolCall(f"c{number}", "shell", command), "ran", "it only reads")

    async def test(run: Running) -> None:
        screen = await opened(run, "/permissions", PermissionsScreen)
        await run.pilot.press("tab", *keys)
        await run.pilot.pause()
        foot = screen.query_one("#picker-foot").region
        assert foot.bottom == size[1]
        assert foot.height > 0

    go(project, test, size)


def test_enter_shows_all_of_a_long_decision(tmp_path: Path) -> None:
    project = Project(tmp_path)
    command = json.dumps({"command": "make test " * 200 + "&& touch the-end"})
    project.permissions.record(ToolCall("c9", "shell", command), "ran", "it only reads")

    async def test(run: Running) -> None:
        screen = await opened(run, "/permissions", PermissionsScreen)
        await run.pilot.press("tab")
        await run.until(lambda: "Enter show all" in run.screen)
        assert "the-end" not in run.screen
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, PagerScreen))
        await run.pilot.press("end")
        await run.until(lambda: "the-end" in run.screen)
        assert "ran without asking: it only reads" in run.screen
        await run.pilot.press("escape")
        await run.until(lambda: run.app.screen is screen)
        await run.pilot.press("tab", "enter")
        await run.until(lambda: len(run.app.screen_stack) == 1)

    go(project, test)


def test_rule_is_added_stored_and_removed(tmp_path: Path) -> None:
    project = Project(tmp_path)

    async def test(run: Running) -> None:
        screen = await opened(run, "/permissions", PermissionsScreen)
        await fill(run, "ctrl+a", "ask shell(make doc)")
        assert labels(screen)[2] == "ask shell(make doc)"
        assert "this session" in said(run)
        await run.pilot.press("ctrl+home", "down", "down")
        await run.pilot.pause()
        await run.pilot.press("ctrl+s")
        await run.pilot.pause()
        assert "Saved for this folder" in said(run)
        assert [rule.scope for rule in Project(tmp_path).permissions.rules()] == ["settings", "folder", "settings"]
        await run.pilot.press("ctrl+x")
        await run.pilot.pause()
        assert "Removed: ask shell(make doc)" in said(run)
        assert len(project.permissions.rules()) == 2
        assert len(Project(tmp_path).permissions.rules()) == 2

    go(project, test)


def test_refused_rule_reports_reason_and_changes_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)

    async def test(run: Running) -> None:
        await opened(run, "/permissions", PermissionsScreen)
        await fill(run, "ctrl+a", "shell(python *)")
        assert "every use needs approval" in said(run)
        assert run.app.screen.query_one("#permission-field", Input).value == "shell(python *)"
        await run.pilot.press("escape", "down", "ctrl+x")
        await run.pilot.pause()
        assert "~/config.toml:5; change it there" in said(run)
        await run.pilot.press("ctrl+home", "ctrl+s")
        await run.pilot.pause()
        assert "This is the mode, not a rule." in said(run)
        await run.pilot.press("ctrl+a")
        assert said(run) == ""
        await run.pilot.press("escape", "tab", "ctrl+x")
        await run.pilot.pause()
        assert "A decision cannot be changed." in said(run)
        assert len(project.permissions.rules()) == 2

    go(project, test)


def test_keys_that_change_a_rule_are_offered_only_for_a_rule_of_the_session(tmp_path: Path) -> None:
    project = Project(tmp_path)

    async def test(run: Running) -> None:
        await opened(run, "/permissions", PermissionsScreen)
        await fill(run, "ctrl+a", "ask shell(make doc)")
        screen = run.app.screen
        assert isinstance(screen, PermissionsScreen)
        offered: dict[bool, list[bool]] = {True: [], False: []}
        await run.pilot.press("ctrl+home")
        for _ in screen.rows:
            await run.pilot.pause()
            row = screen.row
            assert row is not None
            foot = str(screen.query_one("#picker-foot", Static).content)
            offered["make doc" in row.label].append("Ctrl+X remove" in foot and "Ctrl+S save" in foot)
            await run.pilot.press("down")
        assert (offered[True], any(offered[False])) == ([True], False)

    go(project, test)


def test_saved_rule_offers_no_save_key(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await opened(run, "/permissions", PermissionsScreen)
        await fill(run, "ctrl+a", "ask shell(make doc)")
        screen = run.app.screen
        assert isinstance(screen, PermissionsScreen)
        foot = screen.query_one("#picker-foot", Static)
        await run.pilot.press("ctrl+home")
        while screen.row is None or "make doc" not in screen.row.label:
            await run.pilot.press("down")
            await run.pilot.pause()
        await run.until(lambda: "Ctrl+S save" in str(foot.content))
        await run.pilot.press("ctrl+s")
        await run.until(lambda: "Ctrl+S" not in str(foot.content))
        assert "Ctrl+X remove" in str(foot.content)

    go(Project(tmp_path), test)


def test_time_in_a_detail_is_whole_or_left_out() -> None:
    rows = [PickerRow("a", "allow shell(make)", "added with a command at 14:03")]

    async def test(run: Running) -> None:
        for width in range(44, 70, 3):  # a time has five characters, so one of the widths would cut it
            await run.pilot.resize_terminal(width, 24)
            run.app.push_screen(Picker("Rules", rows))
            await run.until(lambda: "allow shell" in run.screen)
            (line,) = (line for line in run.screen.splitlines() if "allow shell" in line)
            assert "14:03" in line or not re.search(r"\d", line), line
            await run.pilot.press("escape")
            await run.pilot.pause()

    drive(test)


def test_call_can_be_tried_inside_the_screen(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await opened(run, "/permissions", PermissionsScreen)
        await fill(run, "ctrl+t", "make doc")
        await run.until(lambda: "asks first" in said(run))
        assert "To allow it: shell(make doc)" in said(run)
        field = run.app.screen.query_one("#permission-field", Input)
        field.value = "https://127.0.0.1/"
        await run.pilot.press("enter")
        await run.until(lambda: ": denied" in said(run))
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert not field.display
        assert isinstance(run.app.screen, PermissionsScreen)

    go(Project(tmp_path), test)


def test_highlighted_decision_is_described_after_older_ones_were_dropped(tmp_path: Path) -> None:
    project = Project(tmp_path)

    async def test(run: Running) -> None:
        screen = await opened(run, "/permissions", PermissionsScreen)
        await run.pilot.press("tab", "ctrl+home", "down")
        await run.pilot.pause()
        assert "shell make doc" in said(run)
        for number in range(MAX_DECISIONS):
            project.permissions.record(ToolCall(f"later{number}", "ls", "{}"), "ran")
        await run.pilot.press("up", "down")
        await run.pilot.pause()
        assert screen.row is not None
        assert "shell make doc" in screen.row.label
        assert "shell make doc" in said(run)

    go(project, test)


@pytest.mark.parametrize(
    ("decided_by", "reason", "label"),
    [
        ("shell(make *)", "the rule shell(make *) denies it", "denied by rule"),
        ("fetch", "the rule fetch denies it", "denied by rule"),
        ("fetch", "it is a URL, and this run denies everything that would ask", "denied by a built-in check"),
        ("path:credentials", "it holds private keys", "denied by a built-in check"),
        ("mode:plan", "plan mode only reads", "denied by the mode"),
        ("hook:PreToolUse", "no", "denied by a hook"),
    ],
)
def test_denial_names_whether_a_rule_a_hook_the_mode_or_a_check_decided(
    decided_by: str, reason: str, label: str
) -> None:
    record = CallRecord(0.0, ToolCall("c", "shell", "{}"), "refused", reason, decided_by)
    assert decision_label(record) == label


def test_decision_of_a_rule_or_a_hook_names_it() -> None:
    def text(reason: str, decided_by: str) -> str:
        return decision_text(CallRecord(0.0, ToolCall("c", "shell", "{}"), "ran", reason, decided_by))

    assert text("it only reads", "shell(ls *)").endswith("ran without asking: it only reads (rule shell(ls *))")
    assert text("the rule shell(ls *) allows it", "shell(ls *)").endswith("the rule shell(ls *) allows it")
    assert text("fine", "hook:PreToolUse").endswith("fine (a PreToolUse hook)")
    assert text("in the workspace", "path:workspace").endswith("ran without asking: in the workspace")


def test_tools_show_their_verdict_and_enter_shows_the_details_of_one(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.permissions.set_mode("plan")

    async def test(run: Running) -> None:
        screen = await opened(run, "/tools", ToolPicker)
        standing = {row.label: row.detail.split(" · ")[0] for row in screen.rows}
        assert standing["Read"] == "runs"
        assert standing["Write"] == "denied"
        assert standing["Run (shell)"] == "runs if the call only reads, denied otherwise"
        assert standing["Ask (ask_person)"] == "asks you"
        assert "tokens with each request" in screen.heading
        await run.pilot.press(*"grep", "enter")
        await run.until(lambda: isinstance(run.app.screen, PagerScreen))
        await run.pilot.pause()
        assert "Tool Search (grep)" in run.screen
        assert "  pattern  " in run.screen
        await run.pilot.press("escape")
        assert run.app.screen is screen, "Esc returns to the list"

    go(project, test)


def test_instruction_file_opens_in_the_editor(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (project.work / "AGENTS.md").write_text("Use tabs.\n")

    async def test(run: Running) -> None:
        edited: list[str] = []
        run.app.view.edit_file = edited.append  # type: ignore[assignment,method-assign]  # a pilot has no terminal to lend
        screen = await opened(run, "/memory", MemoryPicker)
        assert [row.label for row in screen.rows] == ["AGENTS.md", str(tmp_path / "home/AGENTS.md")]
        assert screen.rows[0].cells == ("10 bytes", "for this project")
        assert screen.describe(screen.rows[0]) == "For this project; 10 bytes"
        await run.pilot.press("enter")
        await run.until(lambda: bool(edited))
        assert edited == [str(project.work / "AGENTS.md")]

    go(project, test)


def test_line_is_added_to_the_picked_file(tmp_path: Path) -> None:
    project = Project(tmp_path)

    async def test(run: Running) -> None:
        screen = await opened(run, "/memory use tabs", MemoryTargetPicker)
        assert len(screen.rows) == 2
        await run.pilot.press("down", "enter")
        await run.until(lambda: "applies from the next turn" in run.text)
        assert (tmp_path / "home/AGENTS.md").read_text() == "- use tabs\n"
        await run.send("/memory project: write tests")
        await run.pilot.pause()
        assert (project.work / "AGENTS.md").read_text() == "- write tests\n"

    go(project, test)


def test_restricted_folder_explains_why_nothing_is_read_and_that_init_needs_trust(tmp_path: Path) -> None:
    project = Project(tmp_path, is_trusted=False)
    (project.work / "AGENTS.md").write_text("orders\n")

    async def test(run: Running) -> None:
        screen = await opened(run, "/memory", MemoryPicker)
        assert [row.label for row in screen.rows] == [str(tmp_path / "home/AGENTS.md")]
        assert "restricted" in said(run)
        await run.pilot.press("escape")
        await run.send("/init")
        await run.pilot.pause()
        assert "Type /trust first" in run.text
        assert run.conversation.prompts == []

    go(project, test)


def test_init_sends_its_prompt_and_shows_the_typed_command(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await run.send("/init say how to release")
        await run.until_idle()
        assert "write an AGENTS.md" in run.conversation.prompts[0]
        assert "say how to release" in run.conversation.prompts[0]
        assert "/init say how to release" in run.text
        assert "Find out first" not in run.text

    go(Project(tmp_path), test)


def test_plan_switches_the_mode_and_sends_the_prompt(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await run.send("/plan")
        await run.pilot.pause()
        assert run.conversation.mode == "plan"
        assert "Plan mode" in run.text
        assert run.conversation.prompts == []
        await run.send("/plan add a cache")
        await run.until_idle()
        assert run.conversation.prompts == ["add a cache"]
        assert run.conversation.options == [TurnOptions(shown_prompt="/plan add a cache")]
        assert "> /plan add a cache" in run.text

    go(Project(tmp_path), test)


def test_plan_during_a_turn_adds_its_prompt_to_the_turn(tmp_path: Path) -> None:
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("/plan add a cache")
        assert run.conversation.steered == ["add a cache"]
        await run.pilot.press("up")
        assert run.app.widgets.prompt.text == "/plan add a cache"

    drive(test, ScriptedConversation([gate, ended()]), project=Project(tmp_path))


def test_findings_are_collected_in_the_background_and_can_be_copied(tmp_path: Path) -> None:
    may_go, threads = threading.Event(), []

    def examine() -> tuple[str, ...]:
        threads.append(threading.current_thread())
        assert may_go.wait(20)
        return FINDINGS

    async def test(run: Running) -> None:
        await opened(run, "/doctor", FindingsScreen)
        await run.until(lambda: bool(threads))
        assert findings(run) == "Checking…"
        may_go.set()
        await run.until(lambda: "bubblewrap" in findings(run))
        assert threads[0] is not threading.main_thread()
        assert "[brackets]" in findings(run)
        await run.pilot.press("c")
        assert run.app.clipboard == "\n".join(FINDINGS)
        assert plain(run, "#findings-title") == "Doctor  copied the findings through the terminal (OSC 52)"
        await run.pilot.press("q")
        await run.until(lambda: len(run.app.screen_stack) == 1)

    go(Project(tmp_path, examine=examine), test)


def test_failed_check_is_a_line_and_does_not_end_the_app(tmp_path: Path) -> None:
    def examine() -> tuple[str, ...]:
        raise OSError("no [disk]")

    async def test(run: Running) -> None:
        await opened(run, "/doctor", FindingsScreen)
        await run.until(lambda: "no [disk]" in findings(run))

    go(Project(tmp_path, examine=examine), test)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/permissions allow shell(make doc)", "allow shell(make doc) applies to this session"),
        ("/permissions allow shell(sudo *)", "! shell(sudo *) was not added: "),
        ("/permissions allow shell(sudo *)", "every use needs approval"),
        ("/permissions allow foo(x)", 'Invalid rule "foo(x)" at position 1: "foo" is not a kind of rule'),
        ("/permissions allow foo(x)", "there are shell, edit, read, fetch, mcp."),
        ("/permissions remove shell(make test)", "change it there"),
        ("/permissions save shell(make test)", "already applies to every session"),
        ("/permissions keep shell(make test)", "already applies to every session"),
        ("/permissions undo shell(make test)", "change it there"),
        ("/permissions undo shell(none)", "No active rule shell(none)"),
        ("/permissions check make doc", "shell make doc: asks first"),
        ("/permissions check write a.py", "write a.py: asks first"),
        ("/permissions what", "Use /permissions [list"),
        ("/tools gerp", "Did you mean grep?"),
    ],
)
def test_each_screen_can_be_opened_by_a_typed_command(tmp_path: Path, typed: str, answer: str) -> None:
    async def test(run: Running) -> None:
        await run.send(typed)
        await run.until(lambda: answer in " ".join(run.text.split()))

    go(Project(tmp_path), test)


def test_menu_offers_the_possible_arguments(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.permissions.add("deny", "shell(make doc)")

    async def test(run: Running) -> None:
        commands = {command.id: command for command in run.app.commands.commands}
        assert "remove shell(make doc)" in commands["permissions"].choices(run.app.commands)
        assert "grep" in commands["tools"].choices(run.app.commands)
        assert list(commands["memory"].choices(run.app.commands)) == ["project: ", "yours: "]

    go(project, test)


def test_findings_keep_their_columns_and_what_needs_attention_stands_out() -> None:
    given = [
        "programs",
        "  ✓ git  /usr/bin/git",
        "    editor  vi",
        "  ! rg  not found",
        "      install ripgrep",
        "  ✗ x  y",
    ]
    assert findings_lines(given) == [
        ("programs", "bold $text-accent"),
        ("  ✓ git  /usr/bin/git", ""),
        ("    editor  vi", ""),
        ("  ! rg  not found", "$text-warning"),
        ("      install ripgrep", ""),
        ("  ✗ x  y", "$text-error"),
    ]


def test_list_of_permissions_shortens_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/you")
    policy = Policy("default", Rules.of(deny=["shell(rm *)"]), True, Path("/home/you/work"), probes=NO_SANDBOX)
    origins = Origins({"deny": ("/home/you/.config/qcode/config.toml:3",)}, "/home/you/.config/qcode/config.toml:1")
    lines = permissions_text(Permissions(policy, origins)).split("\n")
    assert lines[0].endswith("(~/.config/qcode/config.toml:1)")
    assert "  deny shell(rm *)  (~/.config/qcode/config.toml:3)" in lines
