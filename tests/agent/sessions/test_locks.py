"""One writer per session, across processes and after a crash."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qcode.agent.sessions.file import Lock
from qcode.protocol.errors import SessionBusy
from tests.agent.sessions.conversations import CONVERSATION, PROMPT, begin, make_store, stored

HOLDER = """
import sys
from pathlib import Path
from tests.agent.sessions.conversations import make_store
session = make_store(Path(sys.argv[1])).resume(sys.argv[2]).session
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(base: Path, session_id: str) -> Iterator[subprocess.Popen[str]]:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", HOLDER, str(base), session_id]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        yield holder
        holder.communicate()


def test_second_process_gets_an_error_and_may_read_or_fork(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, *CONVERSATION)
    with another_process(tmp_path, file.stem) as holder:
        with pytest.raises(
            SessionBusy, match=rf"^session {file.stem} is open in another window \(process {holder.pid}\)"
        ):
            store.resume(file.stem)
        with pytest.raises(SessionBusy):
            store.delete(file.stem)
        assert store.load(file.stem).messages == CONVERSATION
        copy = store.fork(file.stem, cwd=tmp_path).session
        copy.close()
        assert store.load(copy.session_id).messages == CONVERSATION
    session = store.resume(file.stem).session
    session.close()
    assert file.exists()


def test_holder_of_an_open_session_is_named_until_its_process_ends(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, PROMPT)
    assert store.holder(file.stem) is None
    with another_process(tmp_path, file.stem) as holder:
        assert store.holder(file.stem) == holder.pid
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert file.with_suffix(".lock").exists()
    assert store.holder(file.stem) is None


def test_lock_is_released_when_its_process_dies(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    file = stored(store, PROMPT)
    with another_process(tmp_path, file.stem) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert file.with_suffix(".lock").exists()
    opened = store.resume(file.stem)
    session, loaded = opened.session, opened.loaded
    assert loaded.messages == (PROMPT,)
    session.close()
    assert not file.with_suffix(".lock").exists()


def test_two_sessions_of_one_process_do_not_share_a_file(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, PROMPT)
    with pytest.raises(SessionBusy):
        store.resume(session.session_id)
    session.close()
    session.close()
    store.resume(session.session_id).session.close()


def test_removed_lock_file_is_not_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.lock"
    real = fcntl.flock
    removed: list[int] = []

    def remove_first(handle: int, how: int) -> None:
        real(handle, how)
        if not removed:
            removed.append(handle)
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", remove_first)
    lock = Lock(path)
    assert path.read_text() == str(os.getpid())
    with pytest.raises(SessionBusy):
        Lock(path)
    lock.release()


def share(path: Path) -> int:
    """Take a shared lock for a moment, as `lock_holder` of another process does; return its handle."""
    handle = os.open(path, os.O_RDONLY | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def test_lock_is_acquired_while_another_process_asks_for_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lock"
    handle = share(path)
    monkeypatch.setattr(time, "sleep", lambda seconds: os.close(handle))
    Lock(path).release()


def test_lock_that_stays_shared_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    handle = share(path)
    with pytest.raises(SessionBusy):
        Lock(path)
    os.close(handle)
    Lock(path).release()


def test_file_system_without_locks_is_still_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    file = stored(make_store(tmp_path), PROMPT)
    assert file.exists()
    assert not file.with_suffix(".lock").exists()


def test_lock_on_a_full_disk_is_held_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        lock = Lock(tmp_path / "x.lock")
    with pytest.raises(SessionBusy, match="open in another window;"):
        Lock(tmp_path / "x.lock")
    lock.release()
    assert list(tmp_path.iterdir()) == []
