"""On a full or read-only disk the conversation continues with one warning."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qcode.agent.sessions.store import SessionStore
from tests.agent.sessions.conversations import CONVERSATION, PROMPT, Clock, begin, make_store, stored

REAL_WRITE = os.write
UNSAVED = "This session cannot be saved ({}); it continues in memory."
UNSYNCED = "This session is written, but may not survive a power failure ({})."
SAVED_AGAIN = "This session is saved again, including everything that was missing."


class Disk:
    """A disk with `room` free bytes; as on a real one, the last write is incomplete."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 30
        monkeypatch.setattr(os, "write", self.write)

    def write(self, handle: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = REAL_WRITE(handle, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 100, 400])
def test_full_disk_warns_once_and_leaves_complete_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    store = make_store(tmp_path)
    session = begin(store, PROMPT)
    file = store.folder / f"{session.session_id}.jsonl"
    before = file.read_bytes()
    disk = Disk(monkeypatch)
    disk.room = room
    for message in CONVERSATION[1:]:
        session.append(message)
        session.sync()
    assert session.take_warnings() == (UNSAVED.format("No space left on device"),)
    assert session.take_warnings() == ()
    assert not session.is_saved
    assert file.read_bytes().startswith(before)
    assert file.read_bytes().endswith(b"\n")
    disk.room = 1 << 30
    session.close()


def test_pending_records_are_written_in_order_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    disk = Disk(monkeypatch)
    session = begin(store, CONVERSATION[0])
    disk.room = 50
    session.append(CONVERSATION[1])
    session.append(CONVERSATION[2])
    disk.room = 1 << 30
    session.append(CONVERSATION[3])
    assert session.is_saved
    assert session.take_warnings() == (UNSAVED.format("No space left on device"), SAVED_AGAIN)
    session.close()
    loaded = store.load(session.session_id)
    assert (loaded.messages, loaded.notices) == (CONVERSATION, ())


@pytest.mark.parametrize("room", [0, 50])
def test_new_session_without_a_record_is_not_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    store = make_store(tmp_path)
    earlier = begin(store, PROMPT)
    earlier.close()
    disk = Disk(monkeypatch)
    disk.room = room
    begin(store, PROMPT).close()
    assert store.latest() == earlier.session_id
    assert len(list(store.folder.glob("*.jsonl"))) == 1


def test_second_failure_after_a_recovery_is_reported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = begin(make_store(tmp_path), PROMPT)
    disk = Disk(monkeypatch)
    for _ in range(2):
        disk.room = 0
        session.append(PROMPT)
        assert session.take_warnings() == (UNSAVED.format("No space left on device"),)
        disk.room = 1 << 30
        session.append(PROMPT)
        assert session.take_warnings() == (SAVED_AGAIN,)
    session.close()


def test_lock_file_that_cannot_be_removed_releases_the_session_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    store = make_store(tmp_path)
    session = begin(store, PROMPT)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        session.close()
    assert session.take_warnings() == ()
    again = store.resume(session.session_id).session
    again.close()


def test_partial_record_that_cannot_be_removed_does_not_join_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, size: int) -> None:
        raise OSError(errno.EIO, "broken")

    store = make_store(tmp_path)
    session = begin(store, CONVERSATION[0])
    disk = Disk(monkeypatch)
    monkeypatch.setattr(os, "ftruncate", refuse)
    disk.room = 20
    session.append(CONVERSATION[1])
    disk.room = 1 << 30
    session.append(CONVERSATION[2])
    session.append(CONVERSATION[3])
    session.close()
    loaded = store.load(session.session_id)
    assert loaded.messages == CONVERSATION
    assert loaded.notices == ("1 record was skipped in this session: unreadable or misplaced.",)


LIMITED = """
import resource, sys
from pathlib import Path
from tests.agent.sessions.conversations import begin, make_store
from qcode.protocol.messages import user
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
session = begin(make_store(Path(sys.argv[1])), *(user(f"{number} " + "x" * 300) for number in range(20)))
session.sync()
warnings = session.take_warnings()
session.close()
print(session.session_id, session.is_saved, len(warnings))
"""


def test_file_size_limit_is_handled_like_a_full_disk(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    session_id, is_saved, warnings = done.stdout.split()
    assert (is_saved, warnings) == ("False", "1")
    loaded = make_store(tmp_path).load(session_id)
    assert loaded.notices == ()
    assert [block.text[:2].strip() for block in loaded.messages[0].blocks] == ["0", "1", "2", "3"]  # type: ignore[union-attr]  # all are texts


def test_home_that_cannot_be_created_keeps_the_session_in_memory(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    session = begin(SessionStore(tmp_path / "state", tmp_path, Clock()), *CONVERSATION)
    session.sync()
    session.close()
    assert session.take_warnings() == (UNSAVED.format("Not a directory"),)


def test_session_on_a_read_only_disk_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_read_only(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real_open(path, flags, mode)

    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    file.write_bytes(file.read_bytes() + b'{"torn')
    before = file.read_bytes()
    real_open = os.open
    monkeypatch.setattr(os, "open", open_read_only)
    opened = store.resume(file.stem)
    session, loaded = opened.session, opened.loaded
    session.append(PROMPT)
    session.sync()
    session.close()
    assert loaded.messages == CONVERSATION
    assert loaded.notices == ("The last record of this session is incomplete and was skipped.",)
    assert session.take_warnings() == (UNSAVED.format("Read-only file system"),)
    assert file.read_bytes() == before


def test_failed_fsync_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    session = begin(make_store(tmp_path), PROMPT)
    monkeypatch.setattr(os, "fsync", refuse)
    session.sync()
    session.sync()
    session.close()
    assert session.take_warnings() == (UNSYNCED.format("Input/output error"),)
    assert session.is_saved


def test_failed_close_of_the_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def close(handle: int) -> None:
        real_close(handle)
        raise OSError(errno.EIO, "Input/output error")

    session = begin(make_store(tmp_path), PROMPT)
    real_close = os.close
    monkeypatch.setattr(os, "close", close)
    session.close()
    assert session.take_warnings() == (UNSYNCED.format("Input/output error"),)


def test_sync_calls_fsync_only_after_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = begin(make_store(tmp_path), PROMPT)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    session.sync()
    session.sync()
    assert len(synced) == 1
    session.append(PROMPT)
    session.sync()
    assert len(synced) == 2
    session.close()
