"""A truncated or damaged file, or one of a killed process, loads as a conversation that can continue."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qcode.agent.sessions.export import ExportHeading, ExportRequest, export_turns
from qcode.agent.sessions.loader import (
    INTERRUPTED,
    LOST,
    NEVER_RUN,
    NOT_STARTED,
    STILL_RUNNING,
    is_about_interrupted_turn,
)
from qcode.agent.sessions.replay import replay_messages
from qcode.agent.sessions.turns import session_turns
from qcode.protocol.events import ToolFinished
from qcode.protocol.messages import Message, Text, ToolResult, assistant, user
from tests.agent.sessions.conversations import CALL, CONVERSATION, MODEL, OTHER, PROMPT, begin, make_store, stored

LAST = CONVERSATION[-1]


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip `fsync`: these tests do not simulate a power failure."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("without_waiting")
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.broad)])
def test_file_cut_at_any_byte_loses_at_most_the_last_record(step: int, tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    whole = file.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 0x0A]
    aside = file.with_suffix(".corrupt")
    at_ends = {size for end in ends for size in range(end - 2, end + 2) if size <= len(whole)}
    for size in sorted({*range(0, len(whole) + 1, step), *at_ends}):
        aside.unlink(missing_ok=True)
        file.write_bytes(whole[:size])
        survived = sum(end - 1 <= size for end in ends) - 1
        torn = whole[:size].rpartition(b"\n")[2] if size + 1 not in ends else b""
        opened = store.resume(file.stem)
        session, loaded = opened.session, opened.loaded
        assert loaded.messages[: max(survived, 0)] == CONVERSATION[: max(survived, 0)]
        assert bool(loaded.notices) == bool(torn or not size), size
        assert (aside.read_bytes() if aside.exists() else b"") == (torn + b"\n" if torn else b"")
        session.append(LAST)
        session.close()
        again = store.load(file.stem)
        assert again.messages[-1] == LAST, size
        assert again.messages[: len(loaded.messages)] == loaded.messages
        assert not any("left out" in notice for notice in again.notices)
        assert again.has_header


def test_resume_of_a_session_without_a_header_writes_the_project_folder(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, PROMPT)
    file.write_bytes(file.read_bytes().partition(b"\n")[2])
    session = store.resume(file.stem).session
    session.append(LAST)
    session.close()
    (cwd,) = [record["cwd"] for record in map(json.loads, file.read_text().splitlines()) if "cwd" in record]
    assert Path(cwd).is_dir()


def test_reading_reports_a_torn_tail_and_does_not_repair_it(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, PROMPT)
    file.write_bytes(file.read_bytes() + b'{"kind":"mess')
    before = file.read_bytes()
    loaded = store.load(file.stem)
    assert loaded.messages == (PROMPT,)
    assert loaded.notices == ("The last record of this session is incomplete and was skipped.",)
    assert file.read_bytes() == before


def test_each_torn_tail_is_added_to_the_corrupt_file(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, PROMPT)
    for torn in (b"\x00\x00\xff", b'{"kind"'):
        file.write_bytes(file.read_bytes() + torn)
        opened = store.resume(file.stem)
        session, loaded = opened.session, opened.loaded
        session.close()
        assert str(file.with_suffix(".corrupt")) in loaded.notices[0]
    assert file.with_suffix(".corrupt").read_bytes() == b'\x00\x00\xff\n{"kind"\n'
    assert file.with_suffix(".corrupt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"\xff\xfe",
        b"\x00" * 9,
        b"[]",
        b"{}",
        b'{"kind":5}',
        b'{"kind":"message","role":"user"}',
        b'{"kind":"message","role":[],"blocks":[]}',
        b'{"kind":"compaction","runs":[[0,1000000000000]],"new":[]}',
        b'{"kind":"shown","items":[{"type":"turn","outcome":"end_turn","cost":"NaN"}]}',
        b"[" * 9999,
    ],
)
def test_invalid_line_in_the_middle_is_skipped_and_counted(tmp_path: Path, line: bytes) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    first, second, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([first, second, line + b"\n", *rest]))
    opened = store.resume(file.stem)
    session, loaded = opened.session, opened.loaded
    session.close()
    assert loaded.messages == CONVERSATION
    assert loaded.notices == ("1 record was skipped in this session: unreadable or misplaced.",)


@pytest.mark.parametrize("damage", [{"cwd": None}, {"created": 5}], ids=str)
def test_session_with_a_damaged_header_is_resumed(tmp_path: Path, damage: dict[str, object]) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    header, _, messages = file.read_bytes().partition(b"\n")
    file.write_bytes(json.dumps({**json.loads(header), **damage}).encode() + b"\n" + messages)
    opened = store.resume(file.stem)
    opened.session.close()
    assert opened.loaded.messages == CONVERSATION


def test_record_of_a_newer_version_is_counted_separately(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, PROMPT)
    file.write_bytes(file.read_bytes() + b'{"kind":"hologram"}\n')
    loaded = store.load(file.stem)
    assert (loaded.messages, loaded.notices) == (
        (PROMPT,),
        ("1 record was skipped, written by a newer version of qcode.",),
    )


def test_emptied_file_is_reported_and_can_be_continued(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    file.write_bytes(b"")
    opened = store.resume(file.stem)
    session, loaded = opened.session, opened.loaded
    session.append(PROMPT)
    session.close()
    lost = "The file of this session is empty, so its messages are lost."
    assert (loaded.messages, loaded.notices) == ((), (lost,))
    assert (store.load(file.stem).messages, store.load(file.stem).notices) == ((PROMPT,), ())


@pytest.mark.parametrize("missing", range(len(CONVERSATION)))
def test_history_is_valid_after_losing_any_one_message(tmp_path: Path, missing: int) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[missing + 1] = b"lost\n"
    file.write_bytes(b"".join(lines))
    loaded = store.load(file.stem)
    assert_valid(loaded.messages)
    assert loaded.notices
    assert (Message("user", (Text(LOST),)) in loaded.messages) == (missing == 0)


def test_running_call_loads_as_interrupted_and_a_waiting_one_as_never_run(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, *CONVERSATION[:2])
    session.record_intent(CALL)
    session.close()
    opened = store.resume(session.session_id)
    resumed, loaded = opened.session, opened.loaded
    results = Message(
        "user",
        (
            ToolResult("c1", "shell", INTERRUPTED, is_error=True),
            ToolResult("c2", "read", NEVER_RUN, is_error=True),
        ),
    )
    assert INTERRUPTED.startswith("interrupted, outcome unknown")
    assert loaded.messages == (*CONVERSATION[:2], results)
    assert loaded.notices == ("1 call was interrupted: the outcome is unknown, nothing was run again.",)
    resumed.append(LAST)
    resumed.close()
    assert store.load(session.session_id).messages == (*CONVERSATION[:2], results, LAST)
    assert store.load(session.session_id).notices == ()


def test_call_of_an_open_session_loads_as_running_and_is_interrupted_only_after_the_end(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, *CONVERSATION[:2])
    session.record_intent(CALL)
    loaded = store.load(session.session_id)
    assert [block.content for block in loaded.messages[-1].blocks if isinstance(block, ToolResult)] == [
        STILL_RUNNING,
        NOT_STARTED,
    ]
    assert loaded.notices == ("1 call is still running.",)
    export = export_turns(
        session_turns(loaded.history, lambda name: None, str),
        ExportHeading(session.session_id, "", MODEL),
        ExportRequest("md"),
    )
    assert "`make` (still running)" in export
    assert "(not started · this call waits for an approval or for another call)" in export
    assert "interrupted" not in export
    session.close()
    assert store.load(session.session_id).notices == (
        "1 call was interrupted: the outcome is unknown, nothing was run again.",
    )


def test_copy_of_an_open_session_does_not_say_that_its_calls_were_interrupted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, *CONVERSATION[:2])
    session.record_intent(CALL)
    opened = store.fork(session.session_id, cwd=tmp_path)
    copy, loaded = opened.session, opened.loaded
    copy.close()
    assert loaded.notices == (
        "1 call was running in the original session: the outcome is unknown here, nothing was run again.",
    )
    again = store.load(copy.session_id)
    for messages in (loaded.messages, again.messages):
        started, waiting = (block for block in messages[-1].blocks if isinstance(block, ToolResult))
        assert started.content.startswith("outcome unknown: the conversation was copied while this call was running.")
        assert waiting.content == "not run: the conversation was copied before this call was started."
    finished = [item for item in replay_messages(list(again.history.stored.values())) if isinstance(item, ToolFinished)]
    assert [(item.state, item.outcome.summary) for item in finished] == [
        ("failed", "outcome unknown"),
        ("rejected", ""),
    ]
    assert is_about_interrupted_turn(loaded.notices[0])
    session.close()
    opened = store.fork(session.session_id, cwd=tmp_path)
    closed_copy, after_end = opened.session, opened.loaded
    closed_copy.close()
    assert after_end.messages[-1].blocks[0] == ToolResult("c1", "shell", INTERRUPTED, is_error=True)


def test_page_does_not_mark_running_and_waiting_calls_as_failed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, *CONVERSATION[:2])
    session.record_intent(CALL)
    history = store.load(session.session_id).history
    session.close()
    turns = session_turns(history, lambda name: None, str)
    page = export_turns(turns, ExportHeading(session.session_id, "", MODEL), ExportRequest("html"))
    assert "<small>still running</small>" in page
    assert "<small>not started</small>" in page
    assert "call failed" not in page.partition("<body")[2]


def test_written_result_survives_a_crash_during_the_next_call(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, *CONVERSATION[:2])
    known = ToolResult("c1", "shell", "built")
    session.record_intent(CALL)
    session.record_result(known)
    session.record_intent(OTHER)
    session.close()
    (last,) = store.load(session.session_id).messages[2:]
    assert last.blocks == (known, ToolResult("c2", "read", INTERRUPTED, is_error=True))


def test_reused_call_id_is_another_call(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    done = Message("user", (ToolResult("c1", "shell", "ok"),))
    session = begin(store, PROMPT, assistant(CALL))
    session.record_intent(CALL)
    session.record_result(ToolResult("c1", "shell", "ok"))
    session.append(done)
    session.append(assistant(CALL))
    session.close()
    (last,) = store.load(session.session_id).messages[4:]
    assert last.blocks == (ToolResult("c1", "shell", NEVER_RUN, is_error=True),)


def test_unanswered_prompt_is_merged_with_the_next_one(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, user("first"), user("second"), LAST)
    assert store.load(file.stem).messages == (Message("user", (Text("first"), Text("second"))), LAST)


def test_note_is_not_part_of_the_message(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, PROMPT, LAST)
    session.copy_records({"kind": "note", "text": text} for text in ("cancelled", "twice"))
    session.close()
    loaded = store.load(session.session_id)
    assert loaded.messages == (PROMPT, LAST)
    assert [entry.note for entry in loaded.entries] == ["", "cancelled\ntwice"]


WRITER = """
import sys
from pathlib import Path
from tests.agent.sessions.conversations import begin, make_store
from qcode.protocol.messages import assistant, Text, user
store = make_store(Path(sys.argv[1]))
session = begin(store)
print(session.session_id, flush=True)
for number in range(100000):
    session.append(user(f"{number} " + "é\u2028" * 5000))
    session.append(assistant(Text(str(number))))
    session.sync()
    print(number, flush=True)
"""


def test_killed_writer_loses_no_synced_record(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        session_id = writer.stdout.readline().strip()
        while writer.stdout.readline().strip() != "20":
            pass
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
    synced = max([20, *map(int, rest)])
    store = make_store(tmp_path)
    opened = store.resume(session_id)
    session, loaded = opened.session, opened.loaded
    numbers = [int(message.text.split()[0]) for message in loaded.messages]
    assert numbers[: 2 * synced + 2] == [number for number in range(synced + 1) for _ in range(2)]
    assert all(left == right for left, right in zip(numbers[::2], numbers[1::2], strict=False))
    session.append(PROMPT)
    session.close()
    assert store.load(session_id).messages[-1].blocks[-1] == PROMPT.blocks[0]


def assert_valid(messages: tuple[Message, ...]) -> None:
    """Assert that roles alternate from the user on, and that each call has exactly one result."""
    assert [message.role for message in messages] == [
        "user" if at % 2 == 0 else "assistant" for at in range(len(messages))
    ]
    for at, message in enumerate(messages):
        results = [block.call_id for block in message.blocks if isinstance(block, ToolResult)]
        calls = [call.call_id for call in messages[at - 1].calls] if at else []
        assert results == calls
        assert message.blocks
    assert not messages[-1].calls
