"""Limits at every moment of a turn: a cancel is answered within a second, and a slow client loses nothing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from qcode.agent.options import Options
from qcode.streams import MAX_LINE_BYTES
from tests.acp.conftest import Connect
from tests.acp.editor import Editor, InProcess, select
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, Turn


def call(name: str, **arguments: object) -> Call:
    return Call(name, json.dumps(arguments))


def delays_of_threads() -> dict[str, float]:
    """Return the seconds for which each thread of this process was ready to run, but other programs ran instead.

    Empty on systems that do not count them.
    """
    threads = Path("/proc/self/task").glob("*")
    return {thread.name: int((thread / "schedstat").read_text().split()[1]) / 1e9 for thread in threads}


SCRIPT = [
    Turn(reasoning=("Let me", " see."), text=("First ", "look.")),
    Turn(text="Now.", calls=(call("ls", path="."), call("read", path="a.txt"))),
    Turn(calls=(call("shell", command="echo one; echo two"),)),
    Turn(text=("All ", "done."), faults=Faults(pace=0.02)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("at", range(1, 14))
def test_cancel_after_any_update_is_answered_within_a_second(at: int, connect: Connect, work: Path) -> None:
    (work / "a.txt").write_text("text\n")
    with connect([*SCRIPT[1:], Turn(text="Again.")]) as editor:
        session_id = editor.open(work)
        editor.wait(lambda: editor.updates("available_commands_update"))
        before = len(editor.messages)
        running = editor.start_prompt(session_id, "go")
        editor.wait(
            lambda: (
                len(editor.messages) >= before + at or any(message.get("id") == running for message in editor.messages)
            )
        )
        began, delays = time.monotonic(), delays_of_threads()
        editor.notify("session/cancel", sessionId=session_id)
        answer = editor.answer(running)
        delay_s = sum(now - delays.get(thread, 0.0) for thread, now in delays_of_threads().items())
        assert time.monotonic() - began - delay_s < 1.0
        assert answer["result"]["stopReason"] in ("cancelled", "end_turn")
        end = editor.messages.index(answer)
        assert editor.request("session/list")["sessions"] is not None
        late = [message for message in editor.messages[end + 1 :] if message.get("method") == "session/update"]
        kinds = {item["params"]["update"]["sessionUpdate"] for item in late}
    assert kinds <= {"session_info_update"}


def test_client_that_stops_reading_for_a_while_gets_everything(home: Path, work: Path) -> None:
    words = [f"word {number} " * 40 for number in range(2_000)]
    with FakeServer("openai", [Turn(text=words)]) as server:
        flags = ("-m", "openai/some-model", "--base-url", server.base_url)
        with InProcess(SlowEditor(), dict(os.environ), *flags) as run:
            run.editor.initialize()
            session_id = run.editor.open(work)
            assert run.editor.prompt(session_id, "go")["stopReason"] == "end_turn"
            assert run.editor.text() == "".join(words)


class SlowEditor(Editor):
    """An editor that reads nothing for a second after the first text."""

    has_slept = False

    def _take(self, message: dict[str, object], line: bytes) -> None:
        super()._take(message, line)
        if b"agent_message_chunk" in line and not self.has_slept:
            self.has_slept = True
            time.sleep(1)


def test_message_that_is_too_long_is_refused_and_the_next_one_is_served(connect: Connect) -> None:
    with connect() as editor:
        editor.send_line(b'{"jsonrpc":"2.0","id":99,"method":"initialize","params":"' + b"x" * MAX_LINE_BYTES + b'"}')
        editor.wait(lambda: any("error" in message for message in editor.messages))
        assert editor.messages[-1]["error"]["code"] == -32600
        assert editor.request("session/list")["sessions"] == []


def test_huge_output_of_a_command_stays_below_the_limit_of_a_message(connect: Connect, work: Path) -> None:
    script = [Turn(calls=(call("shell", command="head -c 3000000 /dev/zero | tr '\\0' x"),)), Turn(text="Done.")]
    with connect(script, choose=lambda _: select("once"), options=Options(trust=True)) as editor:
        assert editor.prompt(editor.open(work), "go")["stopReason"] == "end_turn"
        (card,) = editor.cards()
    assert card["status"] == "completed"
    assert len(json.dumps(card["content"])) < 10_000
