"""The files of a sub-agent: checkpoints, stale reads, the session file, a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from qcode.agent.context.memory import InstructionFiles
from qcode.protocol.events import AgentEvent, Compacted, ToolFinished
from qcode.protocol.messages import ToolResult
from tests.agent.subagents.runner import FACTS, inner_results, open_conversation, results, resumed, starting
from tests.fakes.conversation import ended
from tests.fakes.scripted import call_reply, text_reply

DONE = text_reply("All done.")
WRITE = call_reply("write", {"path": "a.txt", "content": "new\n"})


def test_undo_reverts_changes_of_a_sub_agent_by_tools_and_commands(tmp_path: Path) -> None:
    command = call_reply("shell", {"command": "echo more > b.txt"})
    one = open_conversation(
        tmp_path,
        {"": [starting("do", kind="general"), DONE], "do": [WRITE, command, text_reply("Ok.")]},
        mode="bypass",
    )

    async def do_and_undo() -> None:
        events = await one.play("go")
        (task,) = [event.outcome for event in events if isinstance(event, ToolFinished)]
        assert task.files_without_diff == ("a.txt", "b.txt")
        assert (one.work / "a.txt").read_text() == "new\n"
        assert (one.work / "b.txt").exists()
        await one.conversation.checkpoints.perform(await one.conversation.checkpoints.plan_undo(), ["b.txt"])

    asyncio.run(do_and_undo())
    assert not (one.work / "a.txt").exists()
    assert not (one.work / "b.txt").exists()
    assert one.conversation.messages == ()


def test_file_changed_by_a_sub_agent_must_be_read_again(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("old\n")
    edit = call_reply("edit", {"path": "a.txt", "old_text": "new", "new_text": "newer"})
    look = call_reply("read", {"path": "a.txt"})
    one = open_conversation(
        tmp_path,
        {
            "": [look, starting("do", kind="general"), edit, look, edit, DONE],
            "do": [WRITE, look, WRITE, text_reply("Ok.")],
        },
        mode="accept-edits",
    )
    events = one.run()
    assert [finished.state for finished in inner_results(events)] == ["failed", "done", "done"], "it had read nothing"
    states = [finished.state for finished in results(events)]
    assert states == ["done", "done", "failed", "done", "done"]
    assert "was changed since it was read" in results(events)[2].outcome.content
    assert (one.work / "a.txt").read_text() == "newer\n"


def test_session_with_a_sub_agent_survives_a_round_trip_with_its_cost(tmp_path: Path) -> None:
    one = open_conversation(
        tmp_path, {"": [starting("look"), DONE], "look": [call_reply("ls", {}), text_reply("Nothing.")]}
    )
    events = one.run()
    before, spent = one.conversation.messages, one.conversation.usage()[-1]
    again = resumed(one)
    assert again.conversation.messages == before
    assert again.conversation.usage()[-1].usage == spent.usage == ended(events).usage
    loaded = again.store.load(again.conversation.session_id)
    assert loaded.notices == ()
    again.conversation.release()


KILLED = """
import sys
from pathlib import Path
from tests.fakes.scripted import call_reply
from tests.agent.subagents.runner import open_conversation, starting

base = Path(sys.argv[1])
wait = call_reply("shell", {"command": "echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 60"})
write = call_reply("write", {"path": "a.txt", "content": "new"})
one = open_conversation(base, {"": [starting("do", kind="general")], "do": [write, wait]}, mode="bypass")
one.run()
"""


def test_killed_sub_agent_is_answered_with_the_calls_it_started(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=Path(__file__).parents[3])
    file = tmp_path / "work" / "pid"
    deadline = time.monotonic() + 30
    while not file.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)  # looks again; the test waits for the file
    process.kill()
    process.wait()
    os.kill(int(file.read_text()), signal.SIGKILL)
    one = open_conversation(tmp_path, {"": ()})
    opened = one.store.resume(one.store.ids()[0])
    session, loaded = opened.session, opened.loaded
    answer = loaded.messages[-1].blocks[0]
    assert isinstance(answer, ToolResult)
    assert answer.call_id == "agent_0"
    assert answer.is_error
    assert "outcome unknown" in answer.content
    assert "- write " in answer.content
    assert "- shell " in answer.content
    assert any("the outcome is unknown" in notice for notice in loaded.notices)
    session.close()
    one.conversation.release()


def test_compaction_of_a_sub_agent_lets_folder_instructions_come_again(tmp_path: Path) -> None:
    docs = tmp_path / "work/docs"
    docs.mkdir(parents=True)
    for name, text in {
        "AGENTS.md": "rules of docs",
        "a.md": "a",
        "b.md": "b",
        "big.txt": "some words\n" * 2_000,
    }.items():
        (docs / name).write_text(text)
    reads = [call_reply("read", {"path": f"docs/{name}"}) for name in ("a.md", "big.txt", "b.md")]
    memory = InstructionFiles(docs.parent, docs.parent, None, lambda: True)
    facts = replace(FACTS, context_window=12_000)
    one = open_conversation(
        tmp_path,
        {"": [starting("look"), text_reply("Done.")], "look": [*reads, text_reply("Read.")]},
        facts=facts,
        nested=memory.nested,
    )
    events = one.run()
    assert any(isinstance(event, AgentEvent) and isinstance(event.event, Compacted) for event in events)
    assert ["rules of docs" in inner.outcome.content for inner in inner_results(events)] == [True, False, True]
