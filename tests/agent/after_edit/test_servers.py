"""Edits checked by a language server: the fake one, in every mood."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from qcode.acp import cards
from qcode.acp.cards import CallCard
from qcode.agent.after_edit import client, session
from qcode.agent.after_edit.client import LanguageServerError, MessageSplitter
from qcode.agent.after_edit.servers import find_server, language_of, server_choices
from qcode.agent.sessions.replay import replay_messages
from qcode.agent.sessions.store import SessionStore
from qcode.protocol.events import Notice, SteeringAdded, ToolFinished, TurnEvent
from qcode.tools.workspace import Workspace
from tests.agent.after_edit.editing import DONE, READ, Editing, edit, fake_server, write

TWO = "error: one\nfine\nwarning: two\n"


def notices(editing: Editing) -> list[str]:
    return [event.text for event in editing.events if isinstance(event, Notice)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [(), ("pull",), ("unversioned",), ("chatty",), ("busy",)])
def test_new_problems_are_appended_to_the_result(tmp_path: Path, options: tuple[str, ...]) -> None:
    editing = Editing(tmp_path, write(TWO), DONE, server=fake_server(*options))
    (finished,) = editing.run()
    assert editing.told[0] == (
        'Created a.fake (3 lines).\n\n<diagnostics file="a.fake">\n2 new problems after this edit:\n'
        "a.fake:1:1: error: one (fake F1)\na.fake:3:1: warning: two (fake F1)\n</diagnostics>"
    )
    assert finished.outcome.summary == "+3 -0 lines, 2 new problems"
    assert finished.outcome.problems.split("\n")[0] == "a.fake:1:1: error: one (fake F1)"
    assert finished.outcome.shown == "Created a.fake (3 lines)."
    assert finished.outcome.edits == ()


def test_resumed_session_shows_the_problems_again(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write(TWO), DONE)
    (finished,) = editing.run()
    stored = SessionStore(tmp_path / "state", editing.work).load(editing.it.conversation.session_id)
    (again,) = [
        item for item in replay_messages(tuple(stored.history.stored.values())) if isinstance(item, ToolFinished)
    ]
    assert again.outcome.problems == finished.outcome.problems
    assert (again.outcome.diff, again.outcome.shown) == (finished.outcome.diff, finished.outcome.shown)


def test_editor_gets_the_problems_with_the_diff(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write(TWO), DONE)
    (finished,) = editing.run()
    card = CallCard("1", "c", "write")
    update = cards.finished_update(card, finished.call, finished.outcome, "done", str(editing.work), has_terminal=False)
    assert "a.fake:1:1: error: one (fake F1)" in json.dumps(update["content"])


def test_problems_that_were_there_before_are_not_repeated(tmp_path: Path) -> None:
    replies = write(TWO), edit("fine", "error: three"), edit("error: three", "fine again"), DONE
    editing = Editing(tmp_path, *replies)
    _, second, third = editing.run()
    assert "1 new problem after this edit:\na.fake:2:1: error: three" in editing.told[1]
    assert second.outcome.summary.endswith("1 new problem")
    assert "<diagnostics" not in editing.told[2]
    assert third.outcome.problems == ""


def test_old_text_is_checked_first_if_the_file_existed(tmp_path: Path) -> None:
    editing = Editing(tmp_path, READ, edit("x", "error: new"), DONE, server=fake_server(f"log={tmp_path}/log"))
    (editing.work / "a.fake").write_text("error: old\nx\n")
    editing.run()
    assert "1 new problem after this edit:\na.fake:2:1: error: new" in editing.told[1]
    methods = [message["method"] for message in logged(tmp_path) if "method" in message]
    assert methods[:3] == ["initialize", "initialized", "workspace/didChangeConfiguration"]
    assert [name for name in methods if name in ("textDocument/didOpen", "textDocument/didChange")] == [
        "textDocument/didOpen",
        "textDocument/didChange",
    ]


def logged(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def test_requests_of_a_language_server_are_answered_and_change_nothing(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write("x\n"), DONE, server=fake_server("asks"))
    editing.run()
    answers = editing.told[0]
    for answer in ('{"result": [null, null]}', '"applied": false', '{"result": {"success": false}}', '"code": -32601'):
        assert answer in answers
    assert f'"uri": "{editing.work.as_uri()}"' in answers


def test_slow_check_is_reported_with_the_next_result_and_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.01)
    editing = Editing(
        tmp_path, write("error: slow\n"), write("x\n", "b.txt"), DONE, server=fake_server(f"waits={tmp_path}/go")
    )

    async def played() -> None:
        async for event in editing.it.conversation.submit("go"):
            if isinstance(event, ToolFinished) and event.outcome.content.startswith("Created a.fake"):
                (tmp_path / "go").touch()
                (check,) = editing.made[0].checks.values()
                await asyncio.wait([check.task], timeout=5)
        await editing.it.conversation.close()

    asyncio.run(played())
    assert editing.told[0] == "Created a.fake (1 line)."
    assert editing.told[1] == (
        'Created b.txt (1 line).\n\n<diagnostics file="a.fake">\nFrom an earlier edit, 1 new problem after this edit:\n'
        "a.fake:1:1: error: slow (fake F1)\n</diagnostics>"
    )


def test_slow_check_is_reported_with_the_result_of_any_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.01)
    editing = Editing(tmp_path, write("warning: slow\n"), READ, DONE, server=fake_server(f"waits={tmp_path}/go"))

    async def played() -> list[ToolFinished]:
        finished = []
        async for event in editing.it.conversation.submit("go"):
            if isinstance(event, ToolFinished):
                finished.append(event)
                (tmp_path / "go").touch()
                await asyncio.wait([check.task for check in editing.made[0].checks.values()] or [_done()], timeout=5)
        await editing.it.conversation.close()
        return finished

    _, read = asyncio.run(played())
    assert "From an earlier edit, 1 new problem after this edit:\na.fake:1:1: warning: slow" in editing.told[1]
    assert read.outcome.problems == ""
    assert read.outcome.shown == "     1\twarning: slow"
    assert read.outcome.summary == "1 line, 1 new problem"


def _done() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


def test_errors_found_late_prevent_the_end_of_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.01)
    editing = Editing(tmp_path, write("error: slow\n"), DONE, DONE, server=fake_server(f"waits={tmp_path}/go"))

    async def played() -> list[TurnEvent]:
        events = []
        async for event in editing.it.conversation.submit("go"):
            events.append(event)
            if isinstance(event, ToolFinished):
                (tmp_path / "go").touch()
                (check,) = editing.made[0].checks.values()
                await asyncio.wait([check.task], timeout=5)
        await editing.it.conversation.close()
        return events

    steered = [event.text for event in asyncio.run(played()) if isinstance(event, SteeringAdded)]
    assert len(steered) == 1
    assert "Found late: 1 new problem after this edit:\na.fake:1:1: error: slow" in steered[0]


def test_warning_of_another_slow_check_is_kept_when_errors_prevent_the_end_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.01)
    replies = write("warning: later\n", "w.fake"), write("error: slow\n"), DONE, READ, DONE
    editing = Editing(tmp_path, *replies, server=fake_server(f"waits={tmp_path}/go"))

    async def played() -> None:
        async for event in editing.it.conversation.submit("go"):
            if isinstance(event, ToolFinished) and event.outcome.content.startswith("Created a.fake"):
                (tmp_path / "go").touch()
                tasks = [check.task for check in editing.made[0].checks.values()]
                await asyncio.wait(tasks, timeout=5)
        await editing.it.conversation.close()

    asyncio.run(played())
    assert "From an earlier edit, 1 new problem after this edit:\nw.fake:1:1: warning: later" in editing.told[2]


def test_second_edit_before_the_first_result_reports_both_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.01)
    replies = write("x\n"), edit("x", "error: one\nx"), edit("x", "error: two"), DONE
    editing = Editing(tmp_path, *replies, server=fake_server(f"waits={tmp_path}/go"))

    async def played() -> None:
        count = 0
        async for event in editing.it.conversation.submit("go"):
            count += isinstance(event, ToolFinished)
            if count == 2:
                monkeypatch.setattr(session, "WAIT_S", 10.0)
                (tmp_path / "go").touch()
        await editing.it.conversation.close()

    asyncio.run(played())
    assert "<diagnostics" not in editing.told[0] + editing.told[1]
    assert (
        "2 new problems after this edit:\na.fake:1:1: error: one (fake F1)\na.fake:2:1: error: two" in editing.told[2]
    )


def test_server_that_dies_is_restarted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WAIT_S", 20.0)
    server = fake_server(f"dies-once={tmp_path}/died")
    editing = Editing(tmp_path, write("error: seen\n"), DONE, server=server)
    editing.run()
    assert "a.fake:1:1: error: seen" in editing.told[0]
    assert notices(editing) == []


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("dies", "it ended: the fake server exits, because of its option"),
        ("garbage", "its output is not the Language Server Protocol"),
        ("huge", "it sent a message larger than 16 MiB"),
    ],
)
def test_broken_server_fails_no_edit_and_is_reported_once(tmp_path: Path, option: str, why: str) -> None:
    editing = Editing(tmp_path, write("error: a\n"), edit("a", "b"), DONE, server=fake_server(option))
    finished = editing.run()
    assert [item.state for item in finished] == ["done", "done"]
    assert editing.told == ["Created a.fake (1 line).", "Edited a.fake at line 1."]
    assert len(notices(editing)) == 1
    assert notices(editing)[0].endswith(f"no longer checks edits in this session: {why}")


def test_server_that_never_answers_delays_neither_edit_nor_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.05)
    monkeypatch.setattr(client, "START_TIMEOUT_S", 1_000.0)
    editing = Editing(tmp_path, write("error: a\n"), DONE, server=fake_server("silent"))
    editing.run()
    assert editing.told == ["Created a.fake (1 line)."]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("ends", ["close", "release"])
def test_server_ends_with_the_session(tmp_path: Path, ends: str) -> None:
    editing = Editing(tmp_path, write("x\n"), DONE)

    async def played() -> int:
        await editing.play()
        (pid,) = editing.made[0].pids
        assert alive(pid)
        if ends == "close":
            await editing.it.conversation.close()
        else:
            editing.it.conversation.release()
            async with asyncio.timeout(5):
                while alive(pid):  # a thread reaps it
                    await asyncio.sleep(0.01)
        return pid

    assert not alive(asyncio.run(played()))


def test_no_server_starts_without_an_edit(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write("x\n", "b.txt"), DONE)
    editing.run()
    assert editing.made[0].pids == ()
    assert Editing(tmp_path / "two", DONE).run() == []


def test_denied_and_failed_edits_are_not_checked(tmp_path: Path) -> None:
    editing = Editing(tmp_path, edit("not there", "error: x"), DONE, server=fake_server(f"log={tmp_path}/log"))
    (editing.work / "a.fake").write_text("x\n")
    editing.run()
    editing = Editing(tmp_path, write("error: x\n"), DONE, mode="plan", server=fake_server(f"log={tmp_path}/log"))
    editing.run()
    assert not (tmp_path / "log").exists()


def test_untrusted_folder_starts_nothing(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write("error: x\n"), DONE, is_trusted=False, server=fake_server(f"log={tmp_path}/log"))
    editing.run(on_event=editing.allow)
    assert editing.told == ["Created a.fake (1 line)."]
    assert not (tmp_path / "log").exists()


def test_no_checker_starts_with_diagnostics_false_or_auto_without_a_sandbox(tmp_path: Path) -> None:
    for number, value in enumerate((False, "auto")):
        editing = Editing(tmp_path / str(number), write("error: x\n"), DONE, settings={"diagnostics": value})
        editing.run()
        assert editing.told == ["Created a.fake (1 line)."]


def test_secret_file_is_not_given_to_a_server(tmp_path: Path) -> None:
    log = f"log={tmp_path}/log"
    editing = Editing(tmp_path, write("error: x\n", ".env.fake"), DONE, server=fake_server(log))
    editing.run(on_event=editing.allow)
    assert editing.told == ["Created .env.fake (1 line)."]
    assert not (tmp_path / "log").exists()


def test_framing_accepts_any_split_and_survives_broken_json() -> None:
    body = '{"id": 1, "result": "é"}'.encode()
    stream = b"Content-Type: x\r\ncontent-length: 3\r\n\r\n{{{" + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for size in range(1, len(stream) + 1):
        splitter = MessageSplitter()
        found = [item for at in range(0, len(stream), size) for item in splitter.add(stream[at : at + size])]
        assert found == [{"id": 1, "result": "é"}]


@pytest.mark.parametrize("stream", [b"x" * 5000, b"Content-Length: -1\r\n\r\n", b"Content-Length: 9999999999\r\n\r\n"])
def test_framing_rejects_output_that_is_not_a_message(stream: bytes) -> None:
    with pytest.raises(LanguageServerError):
        MessageSplitter().add(stream)


def test_program_inside_the_workspace_is_never_a_server(tmp_path: Path) -> None:
    inside = tmp_path / "node_modules" / ".bin"
    inside.mkdir(parents=True)
    for name in ("typescript-language-server", "gopls"):
        (inside / name).write_text("#!/bin/sh\n")
        (inside / name).chmod(0o755)
    workspace = Workspace(tmp_path)
    typescript = language_of(Path("a.ts"), {})
    assert typescript is not None
    path = {"PATH": f"{inside}:/nonexistent"}
    assert find_server(typescript, {}, path, workspace).argv == ()
    own = {"typescript": (str(inside / "typescript-language-server"),)}
    assert find_server(typescript, own, path, workspace).argv == ()
    outside = find_server(typescript, {}, path, Workspace(tmp_path / "node_modules" / ".bin" / ".."))
    assert outside.argv == ()
    workspace.close()


def test_server_outside_the_workspace_is_found_and_settings_replace_it(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("gopls", "mine"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    workspace, env = Workspace(work), {"PATH": str(programs)}
    rows = {row.language.name: row for row in server_choices({"zig": ("mine", "--stdio"), "rust": ()}, env, workspace)}
    assert rows["go"].argv == (str(programs / "gopls"),)
    assert rows[".zig"].argv == (str(programs / "mine"), "--stdio")
    assert rows["rust"].reason == "off (after_edit.servers)"
    assert rows["python"].argv == ()
    workspace.close()


def test_python_is_checked_even_if_its_interpreter_cannot_be_reached(tmp_path: Path) -> None:
    programs = tmp_path / "work" / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("n" * 300)  # like a link into the home of another user, `exists` raises
    editing = Editing(tmp_path, write("error: one\n", "a.py"), DONE, settings={"servers": {"python": fake_server()}})
    editing.run()
    assert "a.py:1:1: error: one" in editing.told[0]


def test_program_of_settings_that_cannot_be_reached_is_not_found(tmp_path: Path) -> None:
    program = tmp_path / "pyright-langserver"
    program.symlink_to("n" * 300)
    workspace = Workspace(tmp_path / "work")
    rows = server_choices({"python": (str(program),)}, {"PATH": ""}, workspace)
    assert [row.argv for row in rows if row.language.name == "python"] == [()]
    workspace.close()
