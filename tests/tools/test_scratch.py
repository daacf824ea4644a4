"""Private temporary folders of killed runs are removed by a later one, and those of running ones never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from qcode.tools.workspace import MIN_SCRATCH_AGE_S, Scratch, sweep_scratch

OWNER = """
import sys
from qcode.tools.workspace import Scratch
scratch = Scratch()
(scratch.path / "held.txt").write_text("x")
print(scratch.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """A time at which every folder is old enough, with a temporary folder that belongs to the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return time.time() + MIN_SCRATCH_AGE_S + 1


def test_scratch_of_a_killed_process_is_swept_and_that_of_a_running_one_is_not(tmp_path: Path, later: float) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", OWNER], stdin=pipe, stdout=pipe, env=environment) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().decode().strip())
        assert sweep_scratch(later) == 0
        assert (folder / "held.txt").exists()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert sweep_scratch() == 0, "too young: its owner may not have locked it yet"
    assert sweep_scratch(later) == 1
    assert not folder.exists()


def test_scratch_of_this_process_is_kept_until_it_is_closed(later: float) -> None:
    scratch = Scratch()
    assert sweep_scratch(later) == 0
    assert scratch.path.stat().st_mode & 0o777 == 0o700
    scratch.close()
    scratch.close()
    assert not scratch.path.exists()


def test_scratch_is_created_where_no_file_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def find_none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "gettempdir", find_none)
    assert sweep_scratch() == 0
    scratch = Scratch()
    assert scratch.path.parent == tmp_path.resolve()
    scratch.close()


def test_sweep_leaves_links_files_and_open_folders_of_others_alone(tmp_path: Path, later: float) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (tmp_path / "qcode-link").symlink_to(outside)
    (tmp_path / "qcode-file").write_text("x")
    (tmp_path / "qcode-shared").mkdir()
    (tmp_path / "qcode-shared").chmod(0o755)
    assert sweep_scratch(later) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "qcode-file", "qcode-link", "qcode-shared"]


def test_other_private_folders_of_qcode_are_kept(tmp_path: Path, later: float) -> None:
    draft = Path(tempfile.mkdtemp(prefix="qcode-")) / "prompt.md"
    draft.write_text("a draft that is open in an editor")
    assert sweep_scratch(later) == 0
    assert draft.exists()
