"""An imported session is a session of qcode: it is written once, loads, continues and is accepted by every protocol."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from qcode.agent.imports.migration import Migration
from qcode.agent.imports.sources import find_sessions, read_file, sessions_in
from qcode.agent.sessions.store import SessionStore
from qcode.engine.transcript import make_valid
from qcode.protocol.errors import InputError, SessionBusy, SessionError
from qcode.protocol.messages import ToolResult, user
from qcode.protocol.model import ModelRequest
from qcode.safety.redaction import Redactor
from tests.agent.imports.written import (
    AGAIN,
    ASKED,
    KEY,
    LAST,
    MADE,
    READ,
    RECORDS,
    Claude,
    claude_records,
    codex_records,
    gemini_records,
    lines,
    qwen_records,
    result,
    text,
    use,
    write,
)
from tests.providers.cases import READ_FILE
from tests.providers.events import PROTOCOLS, encode
from tests.providers.rules import RULES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


def migration(root: Path, redact: Redactor | None = None) -> Migration:
    return Migration(root.parent / "state", root, (redact or Redactor()).redact)


def store_of(root: Path) -> SessionStore:
    return SessionStore(root.parent / "state", root)


@pytest.mark.parametrize("program", RECORDS)
def test_imported_session_loads_unchanged(program: str, root: Path) -> None:
    path = write(root.parent / "session.jsonl", RECORDS[program](str(root)))
    before = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
    source = read_file(path)
    done = migration(root).run(source)
    assert (done.status, done.added) == ("imported", 6)
    assert done.session_id.startswith("20260120-1157")
    loaded = store_of(root).load(done.session_id)
    assert loaded.messages == tuple(message.message for message in source.messages)
    assert loaded.notices == ()
    assert loaded.title == "A tab too many"
    assert loaded.entries[-1].timestamp.startswith("2026-01-20T11:57")
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) == before


@pytest.mark.parametrize("program", RECORDS)
def test_second_import_writes_nothing(program: str, root: Path) -> None:
    source = read_file(write(root.parent / "session.jsonl", RECORDS[program](str(root))))
    first = migration(root).run(source)
    (file,) = store_of(root).folder.glob("*.jsonl")
    content = file.read_bytes()
    second = migration(root).run(source)
    assert (second.status, second.session_id, second.added) == ("unchanged", first.session_id, 0)
    assert file.read_bytes() == content
    assert store_of(root).ids() == (first.session_id,)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("program", RECORDS)
def test_next_request_of_an_imported_session_is_accepted(program: str, protocol: str, root: Path) -> None:
    claude = Claude(str(root))
    claude.user(ASKED)
    claude.reply("m1", use("toolu:1 ü", "web.run/page", q="x"), use("toolu_2", "Bash", command="make"))
    claude.user([result("toolu:1 ü", READ)])
    broken = claude.records if program == "claude-code" else []
    for number, records in enumerate((RECORDS[program](str(root)), broken)):
        if records:
            done = migration(root).run(read_file(write(root.parent / f"s{number}.jsonl", records)))
            opened = store_of(root).resume(done.session_id)
            session, loaded = opened.session, opened.loaded
            session.close()
            messages = make_valid([*loaded.messages, user("continue")])
            request = ModelRequest("claude-sonnet-4-5", "Be brief.", messages, (READ_FILE,), 8_000)
            assert RULES[protocol](encode(protocol, request)) == []


def test_session_continued_elsewhere_gets_the_new_messages_once(root: Path) -> None:
    records = claude_records(str(root))
    path = write(root.parent / "s.jsonl", records[:-3])
    first = migration(root).run(read_file(path))
    write(path, records)
    second = migration(root).run(read_file(path))
    assert (second.status, second.session_id) == ("updated", first.session_id)
    assert (first.added, second.added) == (4, 2)
    assert store_of(root).load(first.session_id).messages == tuple(
        message.message for message in read_file(path).messages
    )
    assert migration(root).run(read_file(path)).status == "unchanged"


def test_session_imported_in_the_middle_of_a_call_gets_its_result_later(root: Path) -> None:
    records = claude_records(str(root))
    for end in range(2, len(records) + 1):
        session_id = migration(root).run(read_file(write(root.parent / "s.jsonl", records[:end]))).session_id
    messages = tuple(message.message for message in read_file(root.parent / "s.jsonl").messages)
    assert store_of(root).load(session_id).messages == messages
    assert len(store_of(root).ids()) == 1


@pytest.mark.parametrize("program", RECORDS)
def test_import_of_a_truncated_file_removes_no_message(program: str, root: Path) -> None:
    whole = write(root.parent / "s.jsonl", RECORDS[program](str(root)))
    first = migration(root).run(read_file(whole))
    kept_messages = store_of(root).load(first.session_id).messages
    data = whole.read_bytes()
    for end in range(len(data) - 1, 0, -97):
        whole.write_bytes(data[:end])
        with suppress(InputError):  # too little of it is left
            migration(root).run(read_file(whole))
    assert store_of(root).load(first.session_id).messages == kept_messages


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_file_with_a_byte_order_mark_is_read_whole(encoding: str, root: Path) -> None:
    path = write(root.parent / "s.jsonl", claude_records(str(root)))
    plain, words = read_file(path), path.read_text(encoding="utf-8")
    path.write_bytes((b"\xfe\xff" if encoding == "utf-16-be" else b"") + words.encode(encoding))
    assert read_file(path) == plain


def test_pipe_or_device_is_refused_and_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe.jsonl", tmp_path / "zero.jsonl"):
        with pytest.raises(InputError, match="not a regular file"):
            read_file(path)
    assert sessions_in(tmp_path) == []


def test_failed_import_leaves_no_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source = read_file(write(root.parent / "s.jsonl", claude_records(str(root))))
    with monkeypatch.context() as patched, pytest.raises(SessionError, match="No space left"):
        patched.setattr(os, "write", full)
        migration(root).run(source)
    assert list(store_of(root).folder.iterdir()) == []
    assert migration(root).run(source).status == "imported"


def test_temporary_files_of_a_killed_import_are_removed(root: Path) -> None:
    source = read_file(write(root.parent / "s.jsonl", claude_records(str(root))))
    rest = store_of(root).folder / ".import-killed"
    rest.mkdir(parents=True)
    os.utime(rest, (0, 0))
    migration(root).run(source)
    assert not rest.exists()


def test_session_that_is_open_is_not_replaced(root: Path) -> None:
    records = claude_records(str(root))
    path = write(root.parent / "s.jsonl", records[:-3])
    session = store_of(root).resume(migration(root).run(read_file(path)).session_id).session
    with pytest.raises(SessionBusy):
        migration(root).run(read_file(write(path, records)))
    session.close()
    assert migration(root).run(read_file(path)).status == "updated"


def test_session_continued_in_qcode_is_not_overwritten(root: Path) -> None:
    path = write(root.parent / "s.jsonl", claude_records(str(root)))
    first = migration(root).run(read_file(path))
    session = store_of(root).resume(first.session_id).session
    session.append(user("here"))
    session.close()
    assert migration(root).run(read_file(path)).status == "unchanged"
    claude = Claude(str(root))
    claude.records = claude_records(str(root))
    claude.user("there")
    write(path, claude.records)
    assert migration(root).run(read_file(path)).status == "changed"
    assert store_of(root).load(first.session_id).messages[-1] == user("here")


def test_compaction_shortens_the_request_and_not_the_transcript(root: Path) -> None:
    claude = Claude(str(root))
    claude.user(ASKED)
    last = claude.reply("m1", text("a long story"))
    claude.add("system", parent=None, subtype="compact_boundary", logicalParentUuid=last)
    claude.user("In short: a tab.", isCompactSummary=True)
    claude.user(AGAIN)
    claude.reply("m2", text(LAST))
    path = write(root.parent / "s.jsonl", claude.records)
    done = migration(root).run(read_file(path))
    loaded = store_of(root).load(done.session_id)
    assert [message.text for message in loaded.messages] == [f"In short: a tab.{AGAIN}", LAST]
    assert [entry.message.text for entry in loaded.all_entries()] == [ASKED, "a long story", AGAIN, LAST]
    assert migration(root).run(read_file(path)).status == "unchanged"
    claude.user("and now?")
    assert migration(root).run(read_file(write(path, claude.records))).added == 1


def test_secrets_are_redacted(root: Path) -> None:
    claude = Claude(str(root))
    claude.user(f"my key is {KEY} and hunter2-hunter2")
    claude.reply("m1", use("t1", "Bash", command=f"curl -H 'x-api-key: {KEY}'"))
    claude.user([result("t1", f"{MADE} {KEY}")])
    claude.add("custom-title", customTitle=f"About {KEY}")
    path = write(root.parent / "s.jsonl", claude.records)
    migration(root, Redactor(["hunter2-hunter2"])).run(read_file(path))
    (file,) = store_of(root).folder.glob("*.jsonl")
    assert KEY not in file.read_text()
    assert "hunter2-hunter2" not in file.read_text()
    assert file.read_text().count("[redacted]") >= 4
    assert file.stat().st_mode & 0o777 == 0o600
    assert migration(root, Redactor(["hunter2-hunter2"])).run(read_file(path)).status == "unchanged"


def test_model_of_each_reply_is_kept(root: Path) -> None:
    claude = Claude(str(root))
    claude.user(ASKED)
    claude.reply("m1", text("one"))
    claude.user(AGAIN)
    claude.reply("m2", text("two"))
    claude.records[-1]["message"]["model"] = "claude-haiku-4-5"
    done = migration(root).run(read_file(write(root.parent / "s.jsonl", claude.records)))
    history = store_of(root).load(done.session_id).history
    assert [history.model_of(number) for number in (1, 3)] == [
        "anthropic/claude-opus-4-5",
        "anthropic/claude-haiku-4-5",
    ]


def test_sessions_that_begin_in_the_same_second_get_different_ids(root: Path) -> None:
    source = read_file(write(root.parent / "s.jsonl", claude_records(str(root))))
    done = [migration(root).run(replace(source, session_id=f"other-{number}")).session_id for number in range(5)]
    assert len(set(done)) == 5


def homes(tmp_path: Path, root: Path) -> dict[str, str]:
    """Write a session of every program at its usual place, and one of another folder."""
    home, folder = tmp_path / "home", str(root).replace("/", "-")
    digest = hashlib.sha256(str(root.resolve()).encode()).hexdigest()
    places = {
        f".claude/projects/{folder}/95e6.jsonl": claude_records(str(root)),
        f".claude/projects/{folder}/agent-12.jsonl": claude_records(str(root)),
        f".claude/projects/{folder}-elsewhere/95e7.jsonl": claude_records(f"{root}-elsewhere"),
        ".codex/sessions/2026/01/20/rollout-2026-01-20T11-57-00-0199.jsonl": codex_records(str(root / "sub")),
        ".codex/sessions/2026/01/21/rollout-2026-01-21T11-57-00-0200.jsonl": codex_records("/elsewhere"),
        f".qwen/projects/{folder.lower()}/chats/5c.jsonl": qwen_records(str(root)),
        f".gemini/tmp/{digest}/chats/session-2026-01-20.jsonl": gemini_records(),
        f".gemini/tmp/{'0' * 64}/chats/session-2026-01-20.jsonl": gemini_records(),
    }
    for number, (name, records) in enumerate(places.items()):
        path = write(home / name, records)
        os.utime(path, (1_000 + number, 1_000 + number))
    return {"HOME": str(home)}


def test_sessions_of_this_folder_are_found_newest_first(tmp_path: Path, root: Path) -> None:
    found = find_sessions(homes(tmp_path, root), root)
    assert [item.head.program for item in found] == ["gemini-cli", "qwen-code", "codex", "claude-code"]
    assert [item.modified for item in found] == sorted((item.modified for item in found), reverse=True)
    assert {item.head.title for item in found} == {"A tab too many"}


def test_sessions_of_all_folders_are_found_without_sub_agents(tmp_path: Path, root: Path) -> None:
    assert len(find_sessions(homes(tmp_path, root), None)) == 7


def test_session_with_an_impossible_folder_is_of_no_project(tmp_path: Path, root: Path) -> None:
    env = homes(tmp_path, root)
    broken = next(Path(env["HOME"]).glob(".codex/sessions/**/*.jsonl")).with_name("rollout-broken.jsonl")
    write(broken, codex_records(f"{root}/\0"))
    assert len(find_sessions(env, root)) == 4


def test_homes_of_other_programs_follow_their_variables(tmp_path: Path, root: Path) -> None:
    write(tmp_path / "cc/projects/x/1.jsonl", claude_records(str(root)))
    write(tmp_path / "cx/sessions/rollout-1.jsonl", codex_records(str(root)))
    env = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "cc"), "CODEX_HOME": str(tmp_path / "cx")}
    assert {item.head.program for item in find_sessions(env, None)} == {"claude-code", "codex"}


def test_folder_is_searched_below_and_other_files_are_passed_over(tmp_path: Path, root: Path) -> None:
    homes(tmp_path, root)
    (tmp_path / "home" / "package.json").write_text('{"name": "x"}')
    (tmp_path / "home" / "broken.jsonl").write_bytes(b"\x00\xff")
    assert len(sessions_in(tmp_path / "home")) == 7


def test_first_prompt_larger_than_the_head_is_found(tmp_path: Path, root: Path) -> None:
    claude = Claude(str(root))
    claude.user("x" * 700_000)
    path = tmp_path / "big.jsonl"
    path.write_bytes(lines([*claude.records, {"type": "mode"}]))
    assert len(sessions_in(tmp_path)) == 1


def test_results_follow_the_reply_with_their_calls(root: Path) -> None:
    done = migration(root).run(read_file(write(root.parent / "s.jsonl", claude_records(str(root)))))
    results = [
        block
        for message in store_of(root).load(done.session_id).messages
        for block in message.blocks
        if isinstance(block, ToolResult)
    ]
    assert [(item.name, item.is_error) for item in results] == [("Read", False), ("Bash", True)]
