"""A restore that is killed at any moment, or meets a full disk, leaves complete files and can be repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qcode.agent.checkpoints.blobs import Blobs
from qcode.agent.checkpoints.checkpoints import Recorder
from qcode.agent.checkpoints.rewind import MoveImpossible
from tests.agent.checkpoints.runner import CheckpointRunner

FILES = {f"f{at}_txt": f"old {at}".encode() * 500 for at in range(4)}
NEW = {name: content.replace(b"old", b"new") for name, content in FILES.items()}

KILLED = """
import os, sys
from pathlib import Path
from tests.agent.checkpoints.runner import CheckpointRunner
runner = CheckpointRunner(Path(sys.argv[1]), sys.argv[2])
left = int(sys.argv[3])
real = {name: getattr(os, name) for name in ("replace", "unlink", "write", "fsync", "link")}
def counted(name):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return real[name](*args, **kwargs)
    return call
for name in real:
    setattr(os, name, counted(name))
runner.undo()
"""


def killed_in_an_undo(base: Path, session_id: str, after: int) -> bool:
    """Undo in a process that is killed at its disk change number `after`. Return False if the undo finished first."""
    command = [sys.executable, "-c", KILLED, str(base), session_id, str(after)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("after", [0, 2, 5, 9, 14, 17, 20])
def test_killed_undo_leaves_complete_files_and_can_be_undone_or_redone(tmp_path: Path, after: int) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("before", **FILES)
    runner.turn("after", **NEW)
    old = {name.replace("_", "."): content for name, content in FILES.items()}
    new = {name.replace("_", "."): content for name, content in NEW.items()}
    runner.session.close()
    assert killed_in_an_undo(tmp_path, runner.session.session_id, after)

    runner = CheckpointRunner(tmp_path, runner.session.session_id)
    found = {name: content for name, content in runner.files.items() if not name.endswith("qcode-tmp")}
    assert set(found) == set(old)
    assert all(content in (old[name], new[name]) for name, content in found.items()), "half a file"
    is_told = any("interrupted" in notice for notice in runner.loaded.notices)
    assert is_told == (runner.said == ["before", "did before"]), "a turn that was undone is reported as interrupted"
    if after % 2:
        runner.undo()
        assert {name: runner.files[name] for name in old} == old
    elif is_told:
        runner.redo()
        assert {name: runner.files[name] for name in new} == new
        assert runner.said[-1] == "did after"
    assert not any("interrupted" in notice for notice in runner.again().loaded.notices)


def test_file_that_cannot_be_saved_first_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("a.txt").write_bytes(b"mine")
    runner.turn("one", a_txt=b"qcode")
    runner.path("a.txt").write_bytes(b"mine again")
    monkeypatch.setattr(Blobs, "store", lambda self, data: False)
    report = runner.undo(overwrite=["a.txt"])
    assert runner.files == {"a.txt": b"mine again"}
    assert "could not be saved first" in report.problems[0]


def test_full_disk_warns_once_that_the_change_cannot_be_undone(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("a.txt").write_bytes(b"x" * 100)
    runner.path("b.txt").write_bytes(b"y" * 100)
    runner.blobs.max_total_bytes = 10
    runner.turn("one", a_txt=b"1", b_txt=b"2")
    assert runner.files == {"a.txt": b"1", "b.txt": b"2"}
    (warning,) = runner.recorder.take_warnings()
    assert "could not be saved" in warning
    report = runner.undo(overwrite=["a.txt", "b.txt"])
    assert runner.files == {"a.txt": b"1", "b.txt": b"2"}
    assert [problem.split(" ", 1)[1] for problem in report.problems] == ["was not saved, so it cannot be restored"] * 2


def test_damaged_checkpoint_is_not_restored(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("a.txt").write_bytes(b"mine")
    runner.turn("one", a_txt=b"qcode")
    assert runner.session.blobs is not None
    for blob in runner.session.blobs.iterdir():
        blob.write_bytes(b"garbage")
    report = runner.undo()
    assert runner.files == {"a.txt": b"qcode"}
    assert "missing" in report.problems[0]


def test_checkpoint_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        runner = CheckpointRunner(tmp_path)
        runner.path("a.txt").write_bytes(b"mine")
        runner.turn("one", a_txt=b"qcode")
        blobs = runner.session.blobs
        assert blobs is not None
        assert blobs.stat().st_mode & 0o777 == 0o700
        assert {blob.stat().st_mode & 0o777 for blob in blobs.iterdir()} == {0o600}
    finally:
        os.umask(before)


def test_unsaved_session_can_be_undone_and_leaves_no_files(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.session = runner.store.create("m/m", runner.work, is_saved=False)
    runner.workspace.recorder = runner.recorder = Recorder(runner.session)
    runner.blobs = runner.recorder.blobs
    runner.rewinder.__init__(runner.session, runner.blobs, (runner.workspace.root,))  # type: ignore[misc]  # the same
    runner.path("a.txt").write_bytes(b"mine")
    runner.turn("one", a_txt=b"qcode")
    runner.undo()
    assert runner.files == {"a.txt": b"mine"}
    folder = runner.blobs.folder
    assert folder is not None
    runner.blobs.close()
    assert not folder.exists()
    assert list((tmp_path / "state").rglob("*.files")) == []
    with pytest.raises(MoveImpossible):
        runner.undo()
