"""Rewinding and switching sessions in the app, over a real conversation."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Never

import pytest
from textual import events
from textual.screen import Screen

from qcode.agent.checkpoints.checkpoints import Checkpoints
from qcode.agent.checkpoints.rewind import FilePlan, RewindPlan, RewindPoint, SessionFileDiff
from qcode.agent.checkpoints.turn_changes import ChangeHunk, TurnChanges, TurnFile
from qcode.agent.context.attachments import shell_block
from qcode.agent.context.window import ContextReport, context_text
from qcode.agent.sessions.library import SessionInfo
from qcode.agent.usage import TurnUsage, usage_report_text
from qcode.protocol.events import ApiCalls
from qcode.protocol.messages import Message, Text, assistant, user
from qcode.protocol.reply import TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.text.numbers import age_text
from qcode.tui.app import AppOptions
from qcode.tui.screens import changes as changes_screen
from qcode.tui.screens.changes import ChangePart, ChangesScreen, ChangesSource, changes_lines, diff_rows
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.screens.picker import Picker
from qcode.tui.screens.rewind import OutsideChangesPicker, RewindPicker, RewindScopePicker, doubt_lines, effect_text
from qcode.tui.screens.sessions import OpenElsewherePicker, SessionPicker, preview_of, session_row
from qcode.tui.terminal import driver
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import Hang, begun, call_reply, text_reply
from tests.tui.harness import Running, drive, make_agent, running, until_ready
from tests.tui.scripted import FixedClock, ScriptedConversation, ScriptedLibrary
from tests.tui.staged_app import StagedApp


def played(base: Path, test: Callable[[Running, Talk], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> None:
    """Run `test` on an app in which one turn wrote a file."""
    writes = call_reply("write", {"path": "a.txt", "content": "new\n"})
    it = talk(base, writes, text_reply("Written."), text_reply("Second."), text_reply("Third."), mode="bypass")

    async def body() -> None:
        async with running(it.conversation, size=size, folder=base, sessions=it.sessions) as run:
            await run.send("write it")
            await run.until_idle()
            await test(run, it)

    asyncio.run(body())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_double_escape_on_an_empty_prompt_rewinds_to_a_message(tmp_path: Path, size: tuple[int, int]) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.pilot.press("escape", "escape")
        await run.until(lambda: isinstance(run.app.screen, RewindPicker))
        row = run.app.screen.rows[0]  # type: ignore[attr-defined]  # a picker
        assert row.label == "write it"
        assert row.detail == "changed a.txt"
        assert re.fullmatch(r"turn 1  \d\d:\d\d", "  ".join(row.cells))
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, RewindScopePicker))
        await run.pilot.press("enter")
        await run.until(lambda: "Rewound" in run.text)
        assert list(it.work.iterdir()) == []
        assert run.app.widgets.prompt.text == "write it"
        assert "Written." not in run.text

    played(tmp_path, test, size)


def test_escape_in_rewind_goes_back_one_step_and_rows_say_what_they_do(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("second")
        await run.until_idle()
        (it.work / "a.txt").write_text("mine\n")
        await run.send("/rewind")
        await run.until(lambda: isinstance(run.app.screen, RewindPicker))
        await run.pilot.press("down", "enter")
        await run.until(lambda: isinstance(run.app.screen, RewindScopePicker))
        assert "Esc back" in run.screen
        assert [row.detail for row in run.app.screen.rows] == [  # type: ignore[attr-defined]  # a picker
            "removes 2 turns; deletes 1 file",
            "removes 2 turns; files stay unchanged",
            "deletes 1 file; conversation stays unchanged",
        ]
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, OutsideChangesPicker))
        await run.until(lambda: "Esc back" in run.screen)
        await run.pilot.press("escape")
        await run.until(lambda: isinstance(run.app.screen, RewindScopePicker))
        await run.pilot.press("escape")
        await run.until(lambda: isinstance(run.app.screen, RewindPicker))
        assert run.app.screen.row.label == "write it"  # type: ignore[attr-defined]  # a picker
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        assert len(it.conversation.messages) > 2

    played(tmp_path, test)


def test_message_to_rewind_to_is_cut_only_to_the_width_of_a_wide_screen() -> None:
    text = " ".join(["rename the total"] * 9)

    async def test(run: Running) -> None:
        await run.app.push_screen(RewindPicker([RewindPoint(1, text, "", ("a.py",))]))
        await run.until(lambda: f"{text}  turn 1  changed a.py" in run.screen)

    drive(test, size=(200, 24))


@pytest.mark.parametrize(
    ("rewound_turns", "effect"),
    [(2, "removes 2 turns; restores 1 file, deletes 1 file"), (1, "removes 1 turn; restores 2 files")],
)
def test_scope_of_a_rewind_counts_the_files_that_it_deletes(rewound_turns: int, effect: str) -> None:
    turns = (
        RewindPoint(1, "one", "", ("old.py", "new.py"), created=("new.py",)),
        RewindPoint(3, "two", "", ("new.py", "old.py")),
    )

    async def test(run: Running) -> None:
        screen = RewindScopePicker(turns[-rewound_turns:])
        await run.app.push_screen(screen)
        await run.until(lambda: bool(screen.rows))
        assert screen.rows[0].detail == effect

    drive(test)


def test_rewind_without_changed_files_offers_only_the_conversation_and_tells_equal_messages_apart(
    tmp_path: Path,
) -> None:
    it = talk(tmp_path, text_reply("One."), text_reply("Two."))

    async def body() -> None:
        async with running(it.conversation, folder=tmp_path, sessions=it.sessions) as run:
            await run.pilot.press("escape")
            assert "rewind" not in run.status, "there is nothing to rewind to"
            for _ in range(2):
                await run.send("next?")
                await run.until_idle()
            await run.pilot.press("escape", "escape")
            await run.until(lambda: isinstance(run.app.screen, RewindPicker))
            first, second = run.app.screen.rows  # type: ignore[attr-defined]  # a picker
            assert (first.label, second.label) == ("next?", "next?")
            assert (first.cells[0], second.cells[0]) == ("turn 2", "turn 1")
            await run.pilot.press("enter")
            await run.until(lambda: isinstance(run.app.screen, RewindScopePicker))
            rows = [(row.id, row.detail) for row in run.app.screen.rows]  # type: ignore[attr-defined]  # a picker
            assert rows == [("conversation", "removes 1 turn; no files were changed")]

    asyncio.run(body())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["/undo", "/redo"])
def test_undo_and_redo_are_refused_while_a_turn_runs(tmp_path: Path, command: str) -> None:
    it = talk(tmp_path, [*begun(), Hang()])

    async def body() -> None:
        async with running(it.conversation, folder=tmp_path, sessions=it.sessions) as run:
            await run.send("go")
            await run.until(lambda: run.app.turns.is_running)
            await run.send(command)
            await run.until(lambda: "! A turn is running." in run.text)
            await run.pilot.press("escape")
            await run.until_idle()

    asyncio.run(body())


def test_diff_is_shown_while_a_turn_runs_and_undoes_nothing(tmp_path: Path) -> None:
    writes = call_reply("write", {"path": "a.txt", "content": "new\n"})
    it = talk(tmp_path, writes, [*begun(), Hang()], mode="bypass")

    async def body() -> None:
        async with running(it.conversation, folder=tmp_path, sessions=it.sessions) as run:
            await run.send("write it")
            await run.until(lambda: (it.work / "a.txt").exists())
            await run.send("/diff")
            await run.until(lambda: "Turn 1: write it" in run.screen)
            await run.pilot.press("down", "ctrl+x")
            await run.until(lambda: "A turn is running. Undo this once it has ended." in run.screen)
            assert (it.work / "a.txt").read_text() == "new\n"
            await run.pilot.press("escape")
            assert run.app.turns.is_running
            await run.pilot.press("escape")
            await run.until_idle()

    asyncio.run(body())


def test_question_of_redo_says_what_redo_does_and_that_undo_reverts_it(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/undo")
        await run.until(lambda: "Undone: 1 turn removed, 1 file deleted." in run.text)
        (it.work / "a.txt").write_text("mine\n")
        await run.pilot.press("ctrl+c")
        await run.send("/redo")
        await run.until(lambda: isinstance(run.app.screen, OutsideChangesPicker))
        await run.until(lambda: "Redo: keep or change a.txt?" in run.screen)
        assert "Brings back 1 turn; 1 file stays as it is." in run.screen
        await run.pilot.press("down")
        await run.until(lambda: "Brings back 1 turn and changes 1 file. /undo brings" in run.screen)

    played(tmp_path, test)


def test_rewind_asks_about_externally_changed_file_and_skips_it_by_default(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        (it.work / "a.txt").write_text("mine\n")
        await run.send("/undo")
        await run.until(lambda: isinstance(run.app.screen, OutsideChangesPicker))
        await run.pilot.press("enter")
        await run.until(lambda: "Kept as it is: a.txt" in run.text)
        assert "!" not in run.text, "the user has chosen to keep the file, so nothing warns of it"
        assert (it.work / "a.txt").read_text() == "mine\n"
        await run.pilot.press("ctrl+c")
        await run.send("/redo")
        await run.until(lambda: "Redone" in run.text)
        assert "Written." in run.text

    played(tmp_path, test)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_question_about_an_externally_changed_file_says_what_each_answer_does(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def test(run: Running, it: Talk) -> None:
        (it.work / "a.txt").write_text("mine\n")
        await run.send("/undo")
        await run.until(lambda: isinstance(run.app.screen, OutsideChangesPicker))
        await run.until(lambda: "Removes 1 turn; 1 file stays as it" in run.screen)
        assert "Undo: keep or delete a.txt?" in run.screen
        assert "› " in run.screen
        assert "Keep a.txt as it is" in run.screen
        assert "a.txt has been changed since" in run.screen
        assert "Esc change nothing" in run.screen
        await run.pilot.press("down")
        await run.until(lambda: "deletes 1 file" in run.screen)
        assert "Delete a.txt too" in run.screen
        words = " ".join(run.screen.replace("▌", " ").split())
        assert "Removes 1 turn and deletes 1 file. /redo brings back the current content." in words
        await run.pilot.press("escape")
        await run.until(lambda: "Nothing was changed." in run.text)
        assert (it.work / "a.txt").read_text() == "mine\n"

    played(tmp_path, test, size)


REASON = "changed while a command ran, possibly not by the command"
LONG_PATH = "src/components/checkout/summary/deeply/nested/folders/cart_summary_of_the_customer.tsx"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [40, 80])
def test_question_about_a_long_path_keeps_the_file_name_and_the_whole_reason(tmp_path: Path, width: int) -> None:
    plan = RewindPlan(1, "Undo: removes 20 turns", (FilePlan(LONG_PATH, "restore", REASON),), 40, 20)

    async def test(run: Running, it: Talk) -> None:
        run.app.push_screen(OutsideChangesPicker(plan, can_go_back=False))
        await run.until(lambda: "Removes 20 turns; 1 file stays" in run.screen)
        lines = [line.strip(" ▌") for line in run.screen.splitlines()]
        (question,) = (line for line in lines if line.startswith("Undo: keep or restore …"))
        assert question.endswith("customer.tsx?" if width == 80 else "mer.tsx?")
        (answer,) = (line for line in lines if line.startswith("›   Keep …"))
        assert answer.endswith("er.tsx as it is")
        assert REASON in " ".join(" ".join(lines).split())

    played(tmp_path, test, (width, 24))


def test_effect_counts_turns_changed_files_and_kept_files() -> None:
    files = [FilePlan("a.py", "restore"), FilePlan("b.py", "delete"), FilePlan("x.py", "restore", refusal="is a link")]
    doubtful = [FilePlan("c.py", "restore", REASON), FilePlan("d.py", "restore", REASON)]
    plan = RewindPlan(1, "", (*files, *doubtful), 40, 20)
    assert (
        effect_text(plan, "skip") == "Removes 20 turns, restores 1 file and deletes 1 file; 2 files stay as they are."
    )
    assert effect_text(plan, "overwrite") == (
        "Removes 20 turns, restores 3 files and deletes 1 file. /redo brings back the current content."
    )
    # A rewind to before a compaction removes turns, but the conversation has more messages than now.
    before_compaction = RewindPlan(1, "", (files[0],), messages=-7, turns=2)
    assert effect_text(before_compaction, "overwrite").startswith("Removes 2 turns and restores 1 file.")
    redone_rewind = RewindPlan(1, "", (files[0],), messages=0, is_redo=True, reverting_command="/rewind")
    assert effect_text(redone_rewind, "overwrite") == "Changes 1 file. /rewind brings back the current content."
    only = RewindPlan(1, "", (doubtful[0],), 0)
    assert effect_text(only, "skip") == "Changes nothing; 1 file stays as it is."


def test_reasons_that_do_not_fit_are_counted() -> None:
    plans = [FilePlan(f"src/{number}/{LONG_PATH}", "restore", REASON) for number in range(9)]
    lines = doubt_lines(plans, 76).plain.splitlines()
    assert (len(lines), lines[-1]) == (7, "and 6 more")
    assert max(map(len, lines)) <= 76


def test_diff_shows_the_changes_of_the_session(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/diff")
        await run.until(lambda: isinstance(run.app.screen, ChangesScreen))
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, PagerScreen))
        screen_text = run.app.export_screenshot().replace("&#160;", " ")
        assert "Changed in this session: 1 file" in screen_text
        assert "a.txt" in screen_text
        await run.pilot.press("escape", "escape")
        await run.pilot.pause()
        assert len(run.app.screen_stack) == 1

    played(tmp_path, test)


def test_diff_preview_says_how_many_rows_it_hides(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        (it.work / "a.txt").write_text("".join(f"line {number}\n" for number in range(30)))
        await run.send("/diff")
        await run.until(lambda: isinstance(run.app.screen, ChangesScreen))
        await run.pilot.pause()
        (hidden,) = re.findall(r"… (\d+) more rows · Enter shows all", run.screen)
        (last_shown, *_) = re.findall(r"line (\d+)", run.screen)[::-1]
        assert int(hidden) == 29 - int(last_shown)

    played(tmp_path, test)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("turns", "files", "size"), [(3, 4, (80, 24)), (1, 12, (80, 24)), (3, 4, (80, 16))])
def test_diff_always_shows_its_keys_and_the_end_of_its_preview(turns: int, files: int, size: tuple[int, int]) -> None:
    diff = "--- a\n+++ b\n@@ -0,0 +1,9 @@\n" + "".join(f"+line {number}\n" for number in range(9))
    changed = tuple(TurnFile(f"{name}.txt", f"/{name}.txt", diff) for name in range(files))
    listed = [TurnChanges(number, number, "write", "", changed) for number in range(turns)]

    async def read() -> tuple[list[SessionFileDiff], list[TurnChanges]]:
        return [], listed

    async def undo(part: ChangePart) -> str:
        return "Undone."

    async def test(run: Running) -> None:
        run.app.push_screen(
            ChangesScreen([SessionFileDiff("a.txt", diff)], listed, ChangesSource(undo=undo, read=read))
        )
        await run.until(lambda: "Esc close" in run.screen)
        assert re.search(r"… \d+ more rows", run.screen)
        assert "Ctrl+X" not in run.screen, "the row of all changes has no part to undo"
        await run.pilot.press("down")
        await run.until(lambda: "Ctrl+X undo" in run.screen)
        await run.pilot.press("ctrl+x")
        await run.until(lambda: "Undone." in run.screen)
        assert "Ctrl+X undo" in run.screen
        assert re.search(r"… \d+ more rows", run.screen)

    drive(test, ScriptedConversation(), size=size)


def test_second_undo_of_a_change_waits_for_the_first() -> None:
    diff = "--- a\n+++ b\n@@ -0,0 +1 @@\n+line\n"
    listed = [TurnChanges(1, 1, "write", "", (TurnFile("a.txt", "/a.txt", diff),))]
    undone: list[str] = []
    may_end = asyncio.Event()

    async def read() -> tuple[list[SessionFileDiff], list[TurnChanges]]:
        return [], []

    async def undo(part: ChangePart) -> str:
        undone.append(part.file.label)
        await may_end.wait()
        return "Undone."

    async def test(run: Running) -> None:
        run.app.push_screen(
            ChangesScreen([SessionFileDiff("a.txt", diff)], listed, ChangesSource(undo=undo, read=read))
        )
        await run.pilot.press("down", "ctrl+x", "ctrl+x")
        await run.until(lambda: bool(undone))
        await run.pilot.press("ctrl+x")
        may_end.set()
        await run.until(lambda: "Undone." in run.screen)
        assert undone == ["a.txt"]

    drive(test, ScriptedConversation())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("added", "files", "listed"), [(1, 10, 10), (9, 10, 10), (1, 30, 9), (9, 30, 9)])
def test_diff_list_takes_the_rows_that_its_preview_does_not_need(added: int, files: int, listed: int) -> None:
    """The first of `files` changes has `added` rows, the others one; a list of 24 rows shows `listed` of them."""
    diffs = ["@@ -0,0 +1,9 @@\n" + "+line\n" * (1 if number else added) for number in range(files)]
    changed = tuple(TurnFile(f"{number}.txt", f"/{number}.txt", diff) for number, diff in enumerate(diffs))
    changes = [SessionFileDiff("0.txt", diffs[0])]

    async def unused(*_: object) -> Never:
        raise AssertionError

    async def test(run: Running) -> None:
        turns = [TurnChanges(1, 1, "write", "", changed)]
        run.app.push_screen(ChangesScreen(changes, turns, ChangesSource(undo=unused, read=unused)))
        await run.until(lambda: "Esc close" in run.screen)
        assert len(re.findall(r"^▌ {5}\d+\.txt *$", run.screen, re.MULTILINE)) == listed, run.screen

    drive(test, ScriptedConversation())


def test_output_that_waits_for_the_next_prompt_stays_in_the_transcript_after_an_undo(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        it.conversation.attach((shell_block("make", ToolOutcome("no rule", is_error=True, summary="exit 2")),))
        await run.send("/undo")
        await run.until(lambda: "Undone: 1 turn removed" in run.text)
        assert "✗ ! make  failed · exit 2" in run.text
        assert "no rule" in run.text

    played(tmp_path, test)


def test_diff_fits_the_screen_after_a_resize(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        (it.work / "a.txt").write_text("word " * 40 + "end\n" * 30)
        await run.send("/diff")
        await run.until(lambda: isinstance(run.app.screen, ChangesScreen))
        await run.until(lambda: run.screen.count("word") > 10)
        await run.pilot.resize_terminal(40, 20)
        await run.until(lambda: "Esc close  ·  ↑↓ move" in run.screen)
        preview = run.screen[run.screen.rindex("a.txt") :].split("\n")
        assert [row.count("word") for row in preview[1:4]] == [6, 6, 0], "wrapped at the new width, in 4 rows"
        assert "more rows · Enter shows all" in preview[3]

    played(tmp_path, test)


def test_short_preview_of_a_diff_begins_with_the_change() -> None:
    diff = "@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-old 5\n+new 5\n line 6\n line 7\n line 8\n"
    file = TurnFile("a.txt", "/a.txt", diff, (ChangeHunk(0, 5, 1, 1, diff),))
    turns = [TurnChanges(number, number, f"prompt {number}", "", (file,)) for number in range(1, 9)]
    changes = [SessionFileDiff("a.txt", diff)]

    async def undo(part: ChangePart) -> str:
        return f"Undone: {part.file.label}."

    async def read() -> tuple[list[SessionFileDiff], list[TurnChanges]]:
        return changes, turns

    async def test(run: Running) -> None:
        run.app.push_screen(ChangesScreen(changes, turns, ChangesSource(undo=undo, read=read)))
        await run.until(lambda: "… 6 more rows · Enter shows all" in run.screen)
        preview = run.screen[run.screen.rindex("a.txt") :].split("\n")
        assert [row.strip("▌ ") for row in preview[1:3]] == ["5 - old 5", "5 + new 5"]
        await run.pilot.press("down")
        await run.until(lambda: "… 5 more rows · Enter shows all" in run.screen)
        assert "line 4" not in run.screen
        assert "5 - old 5" in run.screen

    drive(test, ScriptedConversation())


def test_highlight_stays_in_the_file_after_undo_of_its_last_hunk() -> None:
    diffs = [f"@@ -{line} +{line} @@\n-old {line}\n+new {line}\n" for line in (5, 25, 45)]
    hunks = [ChangeHunk(index, 20 * index + 5, 1, 1, diff) for index, diff in enumerate(diffs)]

    def turns() -> list[TurnChanges]:
        file = TurnFile("a.txt", "/a.txt", "".join(hunk.diff for hunk in hunks), tuple(hunks))
        other = TurnFile("b.txt", "/b.txt", diffs[0], (ChangeHunk(0, 5, 1, 1, diffs[0]),))
        return [TurnChanges(1, 1, "one", "", (file, other))]

    async def read() -> tuple[list[SessionFileDiff], list[TurnChanges]]:
        return [SessionFileDiff("a.txt", diffs[0])], turns()

    async def undo(part: ChangePart) -> str:
        hunks[:] = [hunk for hunk in hunks if hunk.index != part.hunk]
        return f"Undone: hunk {part.hunk}."

    async def test(run: Running) -> None:
        changes, listed = await read()
        run.app.push_screen(ChangesScreen(changes, listed, ChangesSource(undo=undo, read=read)))
        await run.until(lambda: "line 45" in run.screen)
        await run.pilot.press("down", "down", "ctrl+x")
        await run.until(lambda: "Undone: hunk 0." in run.screen)
        assert "›   line 25: old 25" in run.screen
        await run.pilot.press("down", "ctrl+x")
        await run.until(lambda: "Undone: hunk 2." in run.screen)
        assert "›   a.txt" in run.screen

    drive(test, ScriptedConversation())


def test_diff_describes_a_binary_file() -> None:
    file = TurnFile("a.bin", "/a.bin", note="binary, 12 B → 15 B")
    assert diff_rows("", 40, ChangePart(1, file).note)[0].text == "Binary, 12 B → 15 B."


@pytest.mark.parametrize("is_whole", [False, True])
def test_long_diff_ends_with_the_number_of_its_other_characters(
    is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    diff = "--- a\n+++ b\n@@ -0,0 +1,100 @@\n" + "+line\n" * 100
    monkeypatch.setattr(changes_screen, "MAX_CHARS", len(diff) if is_whole else 300)
    rows = {
        "one": diff_rows(diff, 80),
        "all": changes_lines([SessionFileDiff("a", diff), SessionFileDiff("b", "")], 80),
    }
    mark = f"… [{len(diff) - 300} more characters; use git diff]"
    for name, lines in rows.items():
        assert (lines[-1].text == mark) is not is_whole, name


def rows_above(screen: str, text: str) -> int:
    return next(number for number, row in enumerate(screen.split("\n")) if text in row)


def test_diff_lists_the_files_of_each_turn_and_undoes_one(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        written = (it.work / "a.txt").read_bytes()
        await run.send("/diff")
        await run.until(lambda: isinstance(run.app.screen, ChangesScreen))
        screen = run.app.screen
        assert isinstance(screen, ChangesScreen)
        assert [row.label for row in screen.rows] == ["All changes", "a.txt"]
        assert screen.rows[1].group == "Turn 1: write it"
        assert "Turn 1: write it" in run.screen
        await run.pilot.press("ctrl+x")
        await run.until(lambda: "Select a file or a hunk" in run.screen)
        assert "Changes  1\n" in run.screen
        before = rows_above(run.screen, "Turn 1")
        await run.pilot.press("down")
        await run.until(lambda: "›   a.txt" in run.screen)
        assert rows_above(run.screen, "Turn 1") == before
        await run.pilot.press("ctrl+x")
        await run.until(lambda: "/redo reverts this" in run.screen)
        assert not (it.work / "a.txt").exists()
        assert screen.rows == ()
        assert "No file differs from the start of this session." in run.screen
        await run.pilot.press("escape")
        assert "Written." in run.text, "the conversation stays"
        assert "• Undone: a.txt deleted. /redo reverts this." in run.text
        await run.send("/redo")
        await run.until(lambda: "Redone" in run.text)
        assert (it.work / "a.txt").read_bytes() == written

    played(tmp_path, test)


def test_undo_in_diff_is_refused_with_its_reason_after_a_later_change(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        (it.work / "a.txt").write_text("mine\n")
        await run.send("/diff")
        await run.until(lambda: isinstance(run.app.screen, ChangesScreen))
        await run.pilot.press("down", "ctrl+x")
        await run.until(lambda: "a.txt was not changed" in run.screen)
        assert (it.work / "a.txt").read_text() == "mine\n"

    played(tmp_path, test, size=(40, 20))


def test_cleared_conversation_names_the_command_that_brings_it_back(tmp_path: Path) -> None:
    hint = "New session. /resume brings the previous one back."

    async def test(run: Running, it: Talk) -> None:
        await run.send("/clear")
        await run.until(lambda: hint in run.text)
        await run.send("/clear")
        await run.until(lambda: hint not in run.text)

    played(tmp_path, test)


def test_sessions_are_found_by_their_content(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        first = it.conversation.session_id
        await run.send("/clear")
        await run.send("another")
        await run.until_idle()
        await run.send("/resume")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        screen = run.app.screen
        assert isinstance(screen, SessionPicker)
        await run.until(lambda: len(screen.rows) == 2)
        await run.pilot.press(*"written")
        await run.until(lambda: [row.id for row in screen.rows] == [first])
        await run.until(lambda: "found: Written." in run.screen)
        await run.pilot.press(*" nowhere")
        await run.until(lambda: "No match." in run.screen)
        await run.pilot.press("escape")
        await run.until(lambda: len(screen.rows) == 2)

    played(tmp_path, test)


def type_keys(run: Running, text: str) -> None:
    """Let all keys of `text` arrive before the app handles the first of them."""
    for character in text:
        run.app.post_message(events.Key("enter", "\r") if character == "\n" else events.Key(character, character))


def test_keys_right_after_resume_become_the_filter_of_its_list(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        first = it.conversation.session_id
        await run.send("/clear")
        await run.send("another")
        await run.until_idle()
        type_keys(run, "/resume\nwri")
        run.app.post_message(events.Paste("tten"))
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        screen = run.app.screen
        assert isinstance(screen, SessionPicker)
        await run.until(lambda: [row.id for row in screen.rows] == [first])
        assert screen.finder.filter_text == "written"
        type_keys(run, "\nnext")  # the Enter closes the list: the keys after it are for the prompt
        await run.until(lambda: run.app.widgets.prompt.text == "next")
        assert it.conversation.session_id == first

    played(tmp_path, test)


def delay(checkpoints: Checkpoints, method: str, ends: asyncio.Event | None = None) -> None:
    """Let a method of `checkpoints` take many turns of the event loop, or wait until `ends` is set."""
    original = getattr(checkpoints, method)

    async def delayed() -> object:
        for _ in range(300):
            await asyncio.sleep(0)
        if ends is not None:
            await ends.wait()
        return await original()

    setattr(checkpoints, method, delayed)


def test_keys_right_after_diff_become_the_filter_of_its_list(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        delay(it.conversation.checkpoints, "file_changes")
        type_keys(run, "/diff\na")
        run.app.post_message(events.Paste("bc"))
        await run.until(lambda: isinstance(run.app.screen, ChangesScreen))
        screen = run.app.screen
        assert isinstance(screen, ChangesScreen)
        await run.until(lambda: screen.finder.filter_text == "abc")
        assert run.app.widgets.prompt.text == ""

    played(tmp_path, test)


def test_keys_right_after_undo_answer_its_question(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        (it.work / "a.txt").write_text("mine\n")
        delay(it.conversation.checkpoints, "plan_undo")
        type_keys(run, "/undo\n")
        run.app.post_message(events.Key("down", None))
        type_keys(run, "\n")
        await run.until(lambda: "Undone" in run.text)
        assert not (it.work / "a.txt").exists(), "the second answer restores the file"

    played(tmp_path, test)


def test_keys_right_after_a_command_without_a_screen_go_to_the_prompt(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/undo")
        await run.until(lambda: run.app.widgets.prompt.text == "write it")
        await run.pilot.press("ctrl+c")
        delay(it.conversation.checkpoints, "plan_undo")
        type_keys(run, "/undo\nnext")
        await run.until(lambda: run.app.widgets.prompt.text == "next")
        assert "nothing to undo" in run.text

    played(tmp_path, test)


def test_keys_after_a_command_that_takes_long_go_to_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MAX_WORK_HOLD_S", 0.0)

    async def test(run: Running, it: Talk) -> None:
        is_read = asyncio.Event()
        delay(it.conversation.checkpoints, "file_changes", is_read)
        type_keys(run, "/diff\nnext")
        await run.until(lambda: run.app.widgets.prompt.text == "next")
        is_read.set()
        await run.until(lambda: isinstance(run.app.screen, ChangesScreen))

    played(tmp_path, test)


def test_keys_right_after_a_sent_prompt_are_the_next_prompt(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        type_keys(run, "one\ntwo\nthree")
        await run.until(lambda: run.app.widgets.prompt.text == "three")
        await run.until_idle()
        prompts = [stored.text for stored in it.conversation.messages if stored.role == "user"]
        assert prompts[-2:] == ["one", "two"]

    played(tmp_path, test)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["/sessions written nowhere-else", "/sessions written"])
def test_words_after_sessions_are_searched_in_all_of_them(tmp_path: Path, command: str) -> None:
    async def test(run: Running, it: Talk) -> None:
        first = it.conversation.session_id
        await run.send("/clear")
        await run.send("another")
        await run.until_idle()
        await run.send(command)
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        screen = run.app.screen
        assert isinstance(screen, SessionPicker)
        if command.endswith("else"):
            await run.until(lambda: "No match." in run.screen)
            await run.pilot.press("escape")
            await run.until(lambda: len(screen.rows) == 2)
            return
        await run.until(lambda: [row.id for row in screen.rows] == [first])
        await run.until(lambda: "found: Written." in run.screen)
        await run.pilot.press("enter")
        await run.until(lambda: it.conversation.session_id == first)
        assert not run.app.widgets.prompt.text

    played(tmp_path, test)


def test_slow_search_blocks_neither_typing_nor_leaving(tmp_path: Path) -> None:
    is_done = threading.Event()

    async def test(run: Running, it: Talk) -> None:
        def passages(text: str, session_ids: Iterable[str]) -> dict[str, str]:
            is_done.wait(20)
            return {}

        it.sessions.passages = passages  # type: ignore[method-assign]  # a slow disk
        await run.send("/resume")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        screen = run.app.screen
        assert isinstance(screen, SessionPicker)
        await run.until(lambda: len(screen.rows) == 1)
        await run.pilot.press(*"write")
        await run.until(lambda: "searching" in run.screen)
        assert screen.finder.filter_text == "write"
        assert len(screen.rows) == 1, "titles match at once"
        await run.pilot.press("escape", "escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        is_done.set()

    played(tmp_path, test)


def test_search_that_ends_while_the_screen_closes_is_ignored(tmp_path: Path) -> None:
    is_done = threading.Event()

    async def test(run: Running, it: Talk) -> None:
        def passages(text: str, session_ids: Iterable[str]) -> dict[str, str]:
            is_done.wait(20)
            return dict.fromkeys(session_ids, "a passage")

        it.sessions.passages = passages  # type: ignore[method-assign]  # a slow disk
        await run.send("/resume")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        screen = run.app.screen
        assert isinstance(screen, SessionPicker)
        await run.until(lambda: len(screen.rows) == 1)
        await run.pilot.press(*"write")
        await run.until(lambda: "searching" in run.screen)
        # Textual closes a screen in this order: it is not current, its widgets are removed, its workers end. The first
        # of two screens above it covers it.
        for _ in range(2):
            await run.app.push_screen(Screen[None]())
        await screen.finder.remove_children()
        is_done.set()
        await run.app.workers.wait_for_complete([worker for worker in run.app.workers if worker.group == "search"])

    played(tmp_path, test)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("ctrl+r", "ctrl+u", "enter"), "The name is empty."),
        (("ctrl+x",), "Press Ctrl+X again to delete"),
    ],
    ids=["rename", "delete"],
)
def test_message_about_a_session_stays_when_a_search_ends(tmp_path: Path, keys: tuple[str, ...], message: str) -> None:
    may_end = threading.Event()

    async def test(run: Running, it: Talk) -> None:
        def passages(text: str, session_ids: Iterable[str]) -> dict[str, str]:
            may_end.wait(20)
            return dict.fromkeys(session_ids, "a passage")

        it.sessions.passages = passages  # type: ignore[method-assign]  # a slow disk
        await run.send("/resume")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        screen = run.app.screen
        assert isinstance(screen, SessionPicker)
        await run.until(lambda: len(screen.rows) == 1)
        await run.pilot.press(*"write")
        await run.until(lambda: "searching" in run.screen)
        await run.pilot.press(*keys)
        await run.until(lambda: message in run.screen)
        may_end.set()
        await run.until(lambda: "searching" not in run.screen)
        await run.pilot.pause()
        assert message in run.screen
        if "ctrl+r" in keys:
            await run.pilot.press("escape")
        await run.pilot.press("escape")
        await run.until(lambda: message not in run.screen)

    played(tmp_path, test)


def test_sessions_are_previewed_renamed_deleted_and_resumed(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        first = it.conversation.session_id
        await run.send("/clear")
        await run.send("another")
        await run.until_idle()
        await run.send("/resume")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        screen = run.app.screen
        assert isinstance(screen, SessionPicker)
        await run.pilot.press(*"write")
        await run.until(lambda: screen.row is not None and screen.row.id == first)
        await run.pilot.press("ctrl+r")
        await run.until(lambda: "Enter save  ·  Esc cancel" in run.screen)
        await run.pilot.press("ctrl+u", "enter")
        await run.until(lambda: "The name is empty. Type one, or press Esc to keep the current name." in run.screen)
        await run.pilot.press(*"Name", "enter")
        await run.until(lambda: it.store.load(first).title == "Name")
        await run.pilot.press("escape")
        await run.until(lambda: len(screen.rows) == 2)
        screen.finder.move_to([row.id for row in screen.rows].index(first))
        await run.pilot.press("enter")
        await run.until(lambda: it.conversation.session_id == first)
        assert "Written." in run.text
        assert "another" not in run.text

    played(tmp_path, test)


def test_preview_of_a_session_that_the_filter_hides_is_not_shown() -> None:
    """`/resume WORDS` highlights the first session, and WORDS hide it before its preview is read."""
    may_read = threading.Event()

    class Library(ScriptedLibrary):
        def sessions(self) -> tuple[SessionInfo, ...]:
            return (SessionInfo("20261127-a", "Fix the parser", "demo/demo", 100.0, 2),)

        def preview(self, session_id: str) -> tuple[Message, ...]:
            assert may_read.wait(10)
            return (user("fix it"),)

    async def test(run: Running) -> None:
        await run.app.push_screen(SessionPicker(Library(), lambda: 300.0, filter_text="zzqq"))
        await run.until(lambda: "No match" in run.screen)
        may_read.set()
        await run.until(lambda: not [worker for worker in run.app.workers if worker.group == "preview"])
        await run.pilot.pause()
        assert "qcode --resume" not in run.screen

    drive(test)


class SessionRows(Picker):
    COLUMNS = SessionPicker.COLUMNS


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("size", "facts"),
    [
        ((80, 24), "3 min ago  12 messages  feature/a-long-name"),
        ((60, 20), "3 min ago  12 messages"),
        ((40, 20), "3 min ago"),
    ],
)
def test_row_of_a_session_cuts_its_title_and_no_fact(size: tuple[int, int], facts: str) -> None:
    title = "Fix the parser of the configuration file when a value spans several lines"
    info = SessionInfo("20261127-a", title, "demo/demo", 100.0, 12, branch="feature/a-long-name")

    async def test(run: Running) -> None:
        await run.app.push_screen(SessionRows("Sessions", [session_row(info, now=300.0)]))
        await run.until(lambda: "Fix the parser" in run.screen)
        row = next(line for line in run.screen.split("\n") if "Fix the parser" in line)
        shown, _, after = row.partition("…")
        assert after.strip() == facts
        words = shown[shown.index("Fix") :]
        assert title[len(words)] in " ,", "cut between words"

    drive(test, size=size)


@pytest.mark.parametrize(("size", "is_time_shown"), [((80, 24), True), ((40, 20), False)])
def test_fork_and_its_original_are_told_apart(tmp_path: Path, size: tuple[int, int], is_time_shown: bool) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/fork")
        await run.until(lambda: "Forked to" in run.text)
        await run.send("/resume")
        await run.until(lambda: "qcode --resume" in run.screen)
        rows = [line for line in run.screen.split("\n") if "write" in line and "ago" in line]
        assert ["fork ·" in row for row in rows] == [True, False]
        assert (" ·  forked " in run.screen) == is_time_shown
        await run.pilot.press("down")
        await run.until(lambda: "forked" not in run.screen)

    played(tmp_path, test, size)


def test_session_that_is_open_elsewhere_is_marked_and_continued_in_a_copy(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        first = it.conversation.session_id
        await run.send("/clear")
        await run.send("another")
        await run.until_idle()
        other_window = it.store.resume(first).session
        await run.send("/resume")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        await run.until(lambda: "open elsewhere" in run.screen)
        await run.pilot.press(*"write")
        await run.until(lambda: f"Open in another window (process {os.getpid()})" in run.screen)
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, OpenElsewherePicker))
        await run.until(lambda: '"write it" is open in another window' in run.screen)
        await run.pilot.press("down", "enter")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        await run.until(lambda: run.app.screen.row is not None)  # type: ignore[attr-defined]  # a picker
        assert run.app.screen.row.id == first  # type: ignore[attr-defined]  # a picker
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, OpenElsewherePicker))
        await run.pilot.press("enter")
        await run.until(lambda: "Forked to" in run.text)
        assert "Written." in run.text
        assert it.conversation.session_id not in (first, "")
        other_window.close()
        assert len(it.store.ids()) == 3

    played(tmp_path, test)


def test_rename_and_delete_of_a_session_that_is_open_elsewhere_name_no_flag(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        first = it.conversation.session_id
        await run.send("/clear")
        other_window = it.store.resume(first).session
        refusals: tuple[Callable[[], object], ...] = (
            lambda: it.sessions.rename(first, "x"),
            lambda: it.sessions.delete(first),
        )
        for refused in refusals:
            with pytest.raises(ValueError, match="Close it there") as refusal:
                refused()
            assert "--fork" not in str(refusal.value)
        other_window.close()

    played(tmp_path, test)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("answer", ["copy", "new"])
def test_start_with_a_session_that_is_open_elsewhere_offers_a_copy_or_a_new_one(tmp_path: Path, answer: str) -> None:
    it = talk(tmp_path, text_reply("First."), text_reply("Second."))
    other_window = it.store.create("fake/m", tmp_path)
    other_window.append(user("the other window"))
    options = AppOptions(clock=FixedClock(), busy_session=other_window.session_id)
    app = StagedApp(make_agent(it.conversation, folder=tmp_path, sessions=it.sessions, prompt="next?"), options=options)

    async def body() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await until_ready(app, pilot)
            run = Running(app, pilot, it.conversation, FixedClock())  # type: ignore[arg-type]  # a real one
            await run.until(lambda: isinstance(app.screen, OpenElsewherePicker))
            await run.until(lambda: "Esc new session" in run.screen)
            assert not app.turns.is_running
            await pilot.press("enter" if answer == "copy" else "escape")
            await run.until(lambda: "First." in run.text)
            assert ("the other window" in run.text) == (answer == "copy")
            assert "next?" in run.text

    asyncio.run(body())
    other_window.close()


def test_delete_needs_a_second_press(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        first = it.conversation.session_id
        await run.send("/clear")
        await run.send("/resume")
        await run.until(lambda: isinstance(run.app.screen, SessionPicker))
        await run.pilot.press("ctrl+x")
        assert it.store.ids() == (first,)
        await run.pilot.press("ctrl+x")
        assert it.store.ids() == ()

    played(tmp_path, test)


def test_export_names_its_file(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/export out.html")
        await run.until(lambda: "Exported to" in run.text)
        assert (tmp_path / "out.html").read_text().lower().startswith("<!doctype html>")
        await run.send("/export")
        await run.send("/export")
        session_id = it.conversation.session_id
        await run.until(lambda: f"Exported to qcode-{session_id}-2.md" in run.text)
        assert (tmp_path / f"qcode-{session_id}.md").exists()
        assert (tmp_path / f"qcode-{session_id}-2.md").exists()
        await run.send("/rename My [work]")
        assert "My [work]" in run.text

    played(tmp_path, test)


def test_context_and_cost_open_as_panels(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/context")
        assert run.app.widgets.help.heading == "Context"
        await run.pilot.press("escape")
        await run.send("/cost")
        assert run.app.widgets.help.heading == "Usage"
        assert "compact" in context_text(it.conversation.context_report())

    played(tmp_path, test)


def test_context_report_has_shares_and_advice() -> None:
    text = context_text(ContextReport("m", 100_000, 1_000, 11_000, 500, 10_000, 50_000, 8_000, is_counted=True))
    assert "72% , counted" in text.replace("%,", "% ,")
    assert "Tool output       50k   50%" in text
    assert "narrower reads" in text
    assert "/compact frees space" in text
    assert "Instruction files" in text


def test_context_report_says_when_qcode_compacts_below_and_above_the_limit() -> None:
    def text(messages: int) -> str:
        return context_text(ContextReport("m", 100_000, 0, 0, 0, messages, 0, 8_000))

    assert "qcode compacts automatically at 80%." in text(79_000)
    assert "qcode compacts automatically" not in text(81_000)
    assert "Over 80% full: qcode compacts before the next request." in text(81_000)


def test_context_bar_has_a_mark_for_the_smallest_share() -> None:
    def bar(messages: int) -> str:
        return context_text(ContextReport("m", 1_000_000, 0, 0, 0, messages, 0, 8_000)).split()[0]

    assert bar(0) == "░" * 20
    assert bar(4_000) == "▏" + "░" * 19
    assert bar(50_000) == "█" + "░" * 19


def test_cost_report_has_the_tokens_of_truncated_calls() -> None:
    turn = TurnUsage("go", "a/m", Usage(100, 9_000), None, ApiCalls(1, 1), 8_000, truncated_call_tokens=700)
    assert "Output      9k  (discarded 8k, in truncated tool calls 700)" in usage_report_text([turn])


def test_cost_report_omits_discarded_tokens_if_there_are_none() -> None:
    assert "discarded" not in usage_report_text([TurnUsage("go", "a/m", Usage(100, 9_000), None, ApiCalls(1))])


def test_cost_report_lists_kinds_cache_and_discarded_tokens() -> None:
    turns = [
        TurnUsage("go", "a/m", Usage(10_000, 500, 8_000, None, 100), None, ApiCalls(1, 1, 3, 0, 0, 1), 8_000),
        TurnUsage("on", "b/m", Usage(1_000, 50), None, ApiCalls(2)),
    ]
    text = usage_report_text(turns)
    assert "API calls   8 (3 first attempts, 1 retry with a higher output limit, 3 continuations, 1 compaction)" in text
    assert "73% from the cache" in text
    assert "discarded 8k)" in text
    assert "By model" in text
    assert "unknown" in text


def test_cost_report_names_turns_of_unknown_cost_and_only_models_that_were_called() -> None:
    turns = [
        TurnUsage("go", "a/m", Usage(10_000, 500), Decimal("0.5"), ApiCalls(1)),
        TurnUsage("on", "b/m", Usage(), None, ApiCalls(1)),
        TurnUsage("/compact", "c/m", Usage(), None, ApiCalls()),
    ]
    lines = usage_report_text(turns[:2]).split("\n")
    assert lines[0].endswith(", plus 1 turn of unknown cost")
    assert f"  {'b/m':<34} usage not reported" in lines
    assert "c/m" not in usage_report_text(turns)


def test_cost_report_says_that_a_compaction_without_enough_text_sent_no_request() -> None:
    nothing = TurnUsage("/compact", "a/b", Usage(), None, ApiCalls())
    failed = TurnUsage("/compact", "a/b", Usage(), None, ApiCalls(compactions=1))
    text = usage_report_text([nothing, failed])
    assert text.split("\n")[-2:] == [
        f"  {'/compact':<30} no request sent",
        f"  {'/compact':<30} usage not reported  unknown",
    ]


def test_cost_report_says_that_the_usage_of_an_interrupted_turn_is_not_reported() -> None:
    turns = [
        TurnUsage("go", "a/m", Usage(), None, ApiCalls(1), is_interrupted=True),
        TurnUsage("on", "a/m", Usage(1_000), None, ApiCalls(1), is_interrupted=True),
    ]
    first, second = usage_report_text(turns).split("\n")[-2:]
    assert first.split("go")[1].strip() == "usage not reported (interrupted)  unknown"
    assert second.split("on ")[1].strip() == "1k in, output not reported (interrupted)  unknown"
    assert "?" not in usage_report_text(turns)
    assert "Cost        unknown (usage not reported)" in usage_report_text(turns[:1])


def test_interrupted_turn_is_known_as_such_live_and_in_a_resumed_session(tmp_path: Path) -> None:
    it = talk(tmp_path, [*begun("Some"), Hang()], is_attended=True)

    async def body() -> None:
        async for event in it.conversation.submit("go"):
            if isinstance(event, TextDelta):
                it.conversation.cancel()

    asyncio.run(body())
    assert [turn.is_interrupted for turn in it.conversation.usage()] == [True]
    it.conversation.release()
    again = talk(tmp_path, resumes=it.conversation.session_id)
    assert [turn.is_interrupted for turn in again.conversation.usage()] == [True]
    again.conversation.release()


def test_preview_shows_typed_text_without_attachments() -> None:
    shell = shell_block("make test", ToolOutcome("3 passed", summary="exit 0"))
    file = Text('<file path="a.py">\nsecret lines\n</file>')
    hook = Text('<hook event="UserPromptSubmit">\nbranch main\n</hook>')
    messages = (Message("user", (hook, shell, file, Text("look @a.py"))), assistant(Text("I see.")))
    assert preview_of(messages, 60).plain == "› !make test look @a.py\n  I see."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59, "59 s"), (587, "9 min"), (3_600, "1 h"), (90_000, "25 h"), (200_000, "2 days")],
)
def test_age_of_a_session_has_one_unit(seconds: float, text: str) -> None:
    assert age_text(seconds) == text
