"""A session without faults: written, found, resumed, copied, listed, deleted."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC
from pathlib import Path

import pytest

from qcode.agent.sessions.store import SessionStore, new_session_id, project_folder_name
from qcode.protocol.errors import SessionError, SessionNotFound
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant, user
from tests.agent.sessions.conversations import (
    ATTEMPTS,
    CALL,
    CONVERSATION,
    MODEL,
    PROMPT,
    START,
    Clock,
    begin,
    make_store,
    stored,
)


def test_written_records_are_read_back_value_for_value(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, *CONVERSATION[:-1])
    session.append(CONVERSATION[-1], ATTEMPTS, "still cut after 3 continuations")
    session.set_title("Sizes")
    session.record_model("openai/gpt-x")
    session.close()
    loaded = store.load(session.session_id)
    assert loaded.messages == CONVERSATION
    assert loaded.entries[-1].attempts == ATTEMPTS
    assert loaded.entries[-1].note == "still cut after 3 continuations"
    assert loaded.entries[0].timestamp.startswith("2026-11-21T07:35:")
    assert (loaded.title, loaded.model, loaded.cwd) == ("Sizes", "openai/gpt-x", "/work/project")
    assert loaded.notices == ()


def test_change_of_the_model_creates_no_file_before_the_first_message(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = store.create(MODEL, tmp_path)
    session.record_model("openai/gpt-x")
    assert store.ids() == (), "an empty session is not listed"
    session.append(PROMPT)
    session.close()
    loaded = store.load(session.session_id)
    assert (loaded.messages, loaded.model) == ((PROMPT,), "openai/gpt-x")


def test_first_record_is_the_header(tmp_path: Path) -> None:
    file = stored(make_store(tmp_path), PROMPT)
    header = json.loads(file.read_text().splitlines()[0])
    assert header["kind"] == "session"
    assert (header["version"], header["id"], header["model"]) == (1, file.stem, MODEL)
    assert header["root"] == str(tmp_path / "project")


def test_each_record_is_one_write_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    real = os.write

    def write(handle: int, data: bytes) -> int:
        writes.append(data)
        return real(handle, data)

    session = begin(make_store(tmp_path))
    monkeypatch.setattr(os, "write", write)
    for message in CONVERSATION:
        session.append(message)
    session.close()
    records = [item for item in writes if item.startswith(b"{")]
    assert len(records) == 1 + len(CONVERSATION)
    assert all(record.endswith(b"\n") and record.count(b"\n") == 1 for record in records)


def test_session_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = make_store(tmp_path)
        session = begin(store, PROMPT)
        assert {file.stat().st_mode & 0o777 for file in store.folder.iterdir()} == {0o600}
        folders = (store.folder, store.folder.parent, tmp_path / "state")
        assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
        session.close()
    finally:
        os.umask(before)


def test_empty_session_leaves_no_file(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    begin(store).close()
    assert list(store.folder.iterdir()) == []
    assert store.latest() is None


def test_unsaved_session_writes_no_file(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = store.create(MODEL, tmp_path, is_saved=False)
    session.append(PROMPT)
    session.record_intent(CALL)
    session.close()
    assert not (tmp_path / "state").exists()
    assert (session.is_saved, session.take_warnings()) == (False, ())


def test_resumed_session_appends_to_the_same_file(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    before = file.read_bytes()
    opened = store.resume(file.stem[:-2])
    session, loaded = opened.session, opened.loaded
    assert (session.session_id, loaded.messages) == (file.stem, CONVERSATION)
    session.append(PROMPT)
    session.close()
    assert file.read_bytes().startswith(before)
    assert store.load(file.stem).messages == (*CONVERSATION, PROMPT)


def test_resume_and_close_leave_the_file_unchanged(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    before = file.read_bytes()
    store.resume(file.stem).session.close()
    assert file.read_bytes() == before
    assert [path.name for path in store.folder.iterdir()] == [file.name]


def test_latest_session_is_the_last_one_written(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first, second = stored(store, PROMPT), stored(store, PROMPT)
    os.utime(first, ns=(1, 1))
    os.utime(second, ns=(2, 2))
    assert store.latest() == second.stem
    session = store.resume(first.stem).session
    session.append(CONVERSATION[-1])
    session.close()
    assert store.latest() == first.stem


def test_each_project_sees_its_own_sessions(tmp_path: Path) -> None:
    here = make_store(tmp_path)
    stored(here, PROMPT)
    (tmp_path / "other").mkdir()
    there = SessionStore(tmp_path / "state", tmp_path / "other", Clock())
    assert there.ids() == ()
    assert len(here.ids()) == 1


def test_unknown_id_error_lists_the_sessions(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with pytest.raises(SessionNotFound, match=r'no session "x": this folder has no sessions yet'):
        store.load("x")
    file = stored(store, PROMPT)
    almost = file.stem[:-1] + ("0" if file.stem[-1] != "0" else "1")
    with pytest.raises(SessionNotFound, match=f"the nearest: {file.stem}$"):
        store.resume(almost)
    with pytest.raises(SessionNotFound, match=f"the latest: {file.stem}$"):
        store.resume("zzz")
    with pytest.raises(SessionNotFound):
        store.resume("")
    with pytest.raises(SessionNotFound):
        store.resume(f"../{store.folder.name}/{file.stem}")


def test_ambiguous_prefix_is_refused_with_its_matches(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    names = {stored(store, PROMPT).stem for _ in range(2)}
    with pytest.raises(SessionNotFound, match=r'"2026" matches 2 sessions: ') as caught:
        store.resume("2026")
    assert all(name in str(caught.value) for name in names)


def test_fork_is_a_copy_and_leaves_the_original_unchanged(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, *CONVERSATION[:3])
    session.append(CONVERSATION[3], ATTEMPTS, "cut")
    session.set_title("Sizes")
    before = (store.folder / f"{session.session_id}.jsonl").read_bytes()
    opened = store.fork(session.session_id, cwd=tmp_path)
    copy, loaded = opened.session, opened.loaded
    copy.append(PROMPT)
    copy.close()
    session.close()
    assert loaded.messages == CONVERSATION
    again = store.load(copy.session_id)
    assert again.messages == (*CONVERSATION, PROMPT)
    assert (again.title, again.entries[3].attempts, again.entries[3].note) == ("Sizes", ATTEMPTS, "cut")
    assert (store.folder / f"{session.session_id}.jsonl").read_bytes() == before


def test_renamed_session_keeps_its_time_of_last_use(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    old, recent = stored(store, PROMPT), stored(store, PROMPT)
    os.utime(old, ns=(10**18, 10**18))
    store.rename(old.stem, "Sizes")
    assert [(row.session_id, row.title) for row in store.summaries()][1] == (old.stem, "Sizes")
    assert old.stat().st_mtime_ns == 10**18
    assert store.latest() == recent.stem


def test_session_list_shows_the_title_or_the_first_words(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first = stored(store, user("please\n  sort " + "x" * 100), CONVERSATION[3])
    session = begin(store, PROMPT)
    session.set_title("Early")
    session.set_title("Späte Arbeit")
    session.record_model("openai/gpt-x")
    session.close()
    os.utime(first, ns=(10**18, 10**18))
    by_id = {summary.session_id: summary for summary in store.summaries()}
    row = by_id[first.stem]
    assert row.title.startswith("please sort xx")
    assert len(row.title) == 80
    assert (row.messages, row.model, row.size) == (2, MODEL, first.stat().st_size)
    assert row.updated.tzinfo is UTC
    assert (by_id[session.session_id].title, by_id[session.session_id].model) == ("Späte Arbeit", "openai/gpt-x")
    assert store.summaries()[-1].session_id == first.stem


def test_deleted_session_leaves_no_files(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, PROMPT)
    with file.open("ab") as stream:
        stream.write(b'{"torn')
    store.resume(file.stem).session.close()
    assert len(list(store.folder.iterdir())) == 2
    assert store.delete(file.stem[:-1]) == file.stem
    assert list(store.folder.iterdir()) == []


def test_used_id_is_never_reused(tmp_path: Path) -> None:
    names = iter(["same", "same", "other"])
    store = SessionStore(tmp_path / "state", tmp_path, Clock(), lambda _: next(names))
    first = begin(store, PROMPT)
    second = begin(store, PROMPT)
    assert (first.session_id, second.session_id) == ("same", "other")
    first.close()
    second.close()
    stuck = SessionStore(tmp_path / "state", tmp_path, Clock(), lambda _: "same")
    with pytest.raises(SessionError, match="no free name"):
        begin(stuck)


def test_ids_sort_by_time_and_are_random() -> None:
    found = {new_session_id(START) for _ in range(20)}
    assert len(found) > 1
    assert all(re.fullmatch(r"20261121-073520-[0-9a-f]{4}", item) for item in found)


def test_project_folder_is_named_after_its_real_path(tmp_path: Path) -> None:
    real = tmp_path / "Mein Projekt"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "Mein-Projekt").mkdir()
    name = project_folder_name(real)
    assert re.fullmatch(r"[A-Za-z0-9-]*Mein-Projekt-[0-9a-f]{10}", name)
    assert project_folder_name(tmp_path / "link") == name
    assert project_folder_name(tmp_path / "Mein-Projekt") != name
    assert re.fullmatch(r"root-[0-9a-f]{10}", project_folder_name(Path("/")))


def test_secrets_never_reach_the_file(tmp_path: Path) -> None:
    store = make_store(tmp_path, redact=lambda text: text.replace("canary", "[redacted]").replace('"q"', "[q]"))
    call = ToolCall("c1", "shell", '{"command": "echo canary", "other": ["canary", 1], "x": "q"}')
    session = begin(store, user("key canary"), assistant(Text("canary"), call))
    session.record_intent(call)
    session.record_result(ToolResult("c1", "shell", "canary"))
    session.append(Message("user", (ToolResult("c1", "shell", "canary"),)), note="canary")
    session.set_title("canary")
    session.close()
    text = (store.folder / f"{session.session_id}.jsonl").read_text()
    assert "canary" not in text
    (kept_file,) = store.load(session.session_id).messages[1].calls
    assert json.loads(kept_file.arguments) == {"command": "echo [redacted]", "other": ["[redacted]", 1], "x": "q"}
