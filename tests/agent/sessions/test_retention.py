"""Old sessions are removed, except open ones."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.agent.sessions.conversations import CONVERSATION, make_store, stored
from tests.agent.sessions.test_locks import another_process

NOW = datetime(2025, 6, 15, tzinfo=UTC)


def written(file: Path, days_ago: float) -> str:
    """Set the modification time of `file`; return the id of its session."""
    at = (NOW - timedelta(days=days_ago)).timestamp()
    os.utime(file, (at, at))
    return file.stem


def test_old_session_is_deleted_with_its_files(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    old, young = stored(store, *CONVERSATION), stored(store, *CONVERSATION)
    old.with_suffix(".corrupt").write_text("a torn line")
    written(old, 30.1)
    kept_id = written(young, 29.9)
    assert store.prune(NOW - timedelta(days=30)) == 1
    assert list(store.ids()) == [kept_id]
    assert not old.with_suffix(".corrupt").exists()
    assert store.load(kept_id).messages == CONVERSATION


def test_open_session_is_kept_in_this_and_other_processes(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    here, elsewhere = (written(stored(store, *CONVERSATION), 90) for _ in range(2))
    with another_process(tmp_path, elsewhere):
        os.utime(store.folder / f"{elsewhere}.jsonl", (0, 0))
        assert store.prune(NOW, keep=(here,)) == 0
    assert set(store.ids()) == {here, elsewhere}
