"""The model's to-do list: read from calls and messages, in a panel above the prompt, as text in linear mode."""

from __future__ import annotations

import json

from qcode.engine.compactor import is_summary
from qcode.protocol.events import ToolFinished
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.tools import ToolOutcome
from qcode.tools.dialog import TodoItem, TodoState
from qcode.tui.panels.todos import todo_changes, todo_lines, todo_summary, todos_in, todos_of
from qcode.tui.shared_widgets import hanging_rows
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, Script, ScriptedConversation, ended, says

ITEMS: tuple[tuple[str, TodoState], ...] = (
    ("read the code", "done"),
    ("fix [it]", "in_progress"),
    ("run tests", "pending"),
)


def todo(*items: tuple[str, TodoState], call_id: str = "t1") -> ToolCall:
    listed = [{"task": task, "state": state} for task, state in items]
    return ToolCall(call_id, "todo", json.dumps({"items": listed}))


def listed(*items: tuple[str, TodoState], call_id: str = "t1") -> ToolFinished:
    return ToolFinished(todo(*items, call_id=call_id), ToolOutcome("listed"), "done")


def stored(call: ToolCall, *, is_error: bool = False) -> tuple[Message, ...]:
    result = ToolResult(call.call_id, call.name, "listed", is_error=is_error)
    return user("go"), assistant(call), Message("user", (result,)), assistant(Text("done"))


def panel(run: Running) -> list[str]:
    """Return the rows of the panel on the screen, empty if it is hidden."""
    widget = run.app.widgets.todos
    if not widget.display:
        return []
    lines = run.app.screen._compositor.render_strips()
    return [lines[y].text.strip() for y in range(widget.region.y, widget.region.bottom)]


def test_summary_of_the_list_names_the_current_item() -> None:
    items = tuple(TodoItem(*item) for item in ITEMS)
    assert todo_summary(items) == "1/3 · doing: fix [it]"
    assert todo_summary((TodoItem("a\x1b[31m\nb", "pending"),)) == "0/1 · next: a⏎b"
    assert todo_summary((TodoItem("a", "done"),)) == "1/1 · all done"


def test_todo_list_comes_from_the_last_successful_call() -> None:
    newer = (*stored(todo(("a", "pending"))), *stored(todo(("b", "pending"), call_id="t2"), is_error=True))
    assert [item.task for item in todos_in(newer)] == ["a"]
    assert todos_in(stored(ToolCall("t1", "todo", '{"items": "none"}'))) == ()
    assert todos_in(()) == ()


def test_list_survives_a_compaction() -> None:
    kept_list = '{"items": [{"task": "b", "state": "pending"}]}'
    text = f"<conversation_summary>\nx\n</conversation_summary>\n<open_todos>\n{kept_list}\n</open_todos>"
    summary = user(text)
    assert is_summary(summary)
    assert [item.task for item in todos_in((summary, assistant(Text("on"))))] == ["b"]


def test_changes_are_described_in_words() -> None:
    before = (TodoItem("a", "in_progress"), TodoItem("b", "pending"), TodoItem("c", "pending"))
    after = (TodoItem("a", "done"), TodoItem("b", "in_progress"), TodoItem("d", "pending"))
    descriptions = todo_changes(before, after)
    assert descriptions.split("\n") == ["1/3 · doing: b", "done: a", "now: b", "to do: d", "no longer on the list: c"]
    assert todo_changes(after, after) == ""
    assert todo_changes((TodoItem("a", "done"),), ()) == ""


def test_changes_of_a_task_that_is_listed_twice_are_counted_for_each() -> None:
    twice = (TodoItem("run tests", "done"), TodoItem("fix", "pending"), TodoItem("run tests", "pending"))
    assert todo_changes(twice, twice) == ""
    assert todo_changes(twice, twice[:2]).split("\n")[1:] == ["no longer on the list: run tests"]


def test_panel_opens_by_itself_and_collapses_at_the_end_of_the_turn() -> None:
    before, after = Gate(), Gate()
    conversation = ScriptedConversation([before, listed(*ITEMS), after, *says("done"), ended()])

    async def test(run: Running) -> None:
        assert panel(run) == []
        await run.send("go")
        await before.reached.wait()
        assert panel(run) == []
        before.open()
        await after.reached.wait()
        await run.pilot.pause()
        assert panel(run) == ["todos 1/3 · doing: fix [it]  Ctrl+T", "✓ read the code", "● fix [it]", "○ run tests"]
        after.open()
        await run.until_idle()
        assert panel(run) == ["todos 1/3 · doing: fix [it]  Ctrl+T"]
        await run.pilot.press("ctrl+t")
        await run.pilot.pause()
        assert len(panel(run)) == 4

    drive(test, conversation)


def test_wrapped_item_aligns_with_its_text() -> None:
    shown = Gate()
    task = "write a test that fails, then change the parser until it passes"
    conversation = ScriptedConversation([listed((task, "in_progress"), ("run tests", "pending")), shown, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await shown.reached.wait()
        await run.pilot.pause()
        rows = run.app.screen._compositor.render_strips()
        top = run.app.widgets.todos.region.y
        assert [strip.text.rstrip() for strip in rows[top + 1 : top + 4]] == [
            "   ● write a test that fails, then",
            "     change the parser until it passes",
            "   ○ run tests",
        ]
        shown.open()
        await run.until_idle()

    drive(test, conversation, size=(40, 24))


def test_dismissed_list_stays_hidden_until_reopened() -> None:
    first, second, again = Gate(), Gate(), Gate()
    script: Script = [listed(("a", "pending")), first, listed(("a", "in_progress")), second, ended()]
    conversation = ScriptedConversation(script, [listed(("a", "done")), listed(("b", "pending")), again])

    async def test(run: Running) -> None:
        await run.send("go")
        await first.reached.wait()
        await run.pilot.press("ctrl+t")
        first.open()
        await second.reached.wait()
        await run.pilot.pause()
        assert panel(run) == []
        second.open()
        await run.until_idle()
        await run.send("more")
        await again.reached.wait()
        await run.pilot.pause()
        assert panel(run) == []
        await run.pilot.press("ctrl+t")
        await run.pilot.pause()
        assert panel(run) == ["todos 0/1 · next: b  Ctrl+T", "○ b"]

    drive(test, conversation)


def test_finished_list_is_hidden_at_the_end_of_its_turn() -> None:
    gate = Gate()
    conversation = ScriptedConversation([listed(("a", "done")), gate, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.pilot.pause()
        assert panel(run) == ["todos 1/1 · all done  Ctrl+T"]
        gate.open()
        await run.until_idle()
        assert panel(run) == []

    drive(test, conversation)


def test_long_list_takes_a_third_of_the_screen_and_keeps_the_current_item_in_view() -> None:
    items: list[tuple[str, TodoState]] = [
        (f"step {n} of a plan that is too long for a narrow screen", "done") for n in range(20)
    ]
    items[15:] = [("the one under way", "in_progress"), *[(f"later {n}", "pending") for n in range(4)]]
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.until(lambda: any("the one under way" in row for row in panel(run)[1:]))
        assert len(panel(run)) == 8
        assert panel(run)[0].startswith("todos 15/20 · doing: the one")

    for size in ((80, 24), (40, 24)):
        gate = Gate()
        drive(test, ScriptedConversation([listed(*items), gate]), size=size)


def test_resumed_session_shows_its_list_collapsed_and_a_new_one_has_none() -> None:
    conversation = ScriptedConversation(messages=stored(todo(*ITEMS)))

    async def test(run: Running) -> None:
        assert panel(run) == ["todos 1/3 · doing: fix [it]  Ctrl+T"]
        await run.send("/clear")
        await run.pilot.pause()
        assert panel(run) == []

    drive(test, conversation)


def test_key_reports_a_missing_list_and_the_command_shows_the_full_one() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+t")
        await run.pilot.pause()
        assert "No to-do list yet" in run.text

    drive(test)

    async def read(run: Running) -> None:
        await run.send("/todos all")
        await run.pilot.pause()
        assert run.app.widgets.help.heading == "Todos"

    drive(read, ScriptedConversation(messages=stored(todo(*ITEMS))))


def test_hint_names_the_users_own_key() -> None:
    async def test(run: Running) -> None:
        assert panel(run) == ["todos 1/3 · doing: fix [it]  F6"]
        await run.pilot.press("f6")
        await run.pilot.pause()
        assert len(panel(run)) == 4

    drive(test, ScriptedConversation(messages=stored(todo(*ITEMS))), keys={"todos": "f6"})


def test_finished_list_leaves_the_screen_and_can_still_be_shown() -> None:
    messages = stored(todo(("read the code", "done"), ("fix it", "done")))

    async def test(run: Running) -> None:
        assert panel(run) == []
        await run.pilot.press("ctrl+t")
        await run.until(lambda: "To-do list: 2/2 · all done. /todos all shows it." in run.text)
        await run.send("/todos all")
        await run.until(lambda: "done:  fix it" in run.screen)

    drive(test, ScriptedConversation(messages=messages))


def test_full_list_aligns_the_tasks_and_indents_their_further_rows() -> None:
    first, second = todos_of(todo(("read " + "the code " * 8, "done"), ("fix it", "pending"))) or ()
    _, done, to_do = todo_lines([first, second]).split("\n")
    assert to_do == "to do:  fix it"
    assert [row[:8] for row in hanging_rows(done, 40)] == ["done:   ", " " * 8, " " * 8]
