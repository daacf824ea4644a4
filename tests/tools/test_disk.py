"""A file is replaced atomically, keeps its mode, owner and attributes, and leaves no temporary file."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcode.tools import disk
from tests.tools.conftest import ToolRunner

HERE = Path(__file__).parents[2]


def names(runner: ToolRunner) -> list[str]:
    return sorted(entry.name for entry in runner.root.iterdir())


@pytest.fixture(params=["nameless", "by name"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to write a file: the second is for file systems without unnamed files."""
    if request.param == "by name":
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    return str(request.param)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755, 0o2755, 0o1644, 0o640])
@pytest.mark.usefixtures("way")
def test_every_mode_bit_is_kept(runner: ToolRunner, mode: int) -> None:
    target = runner.have_read("a.txt", "one\n")
    target.chmod(mode)
    assert not runner.run("edit", path="a.txt", old_text="one", new_text="1").is_error
    assert stat.S_IMODE(target.stat().st_mode) == mode
    assert names(runner) == ["a.txt"]


@pytest.mark.usefixtures("way")
def test_new_file_gets_the_default_mode(runner: ToolRunner) -> None:
    old = os.umask(0o027)
    try:
        runner.run("write", path="a.txt", content="x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((runner.root / "a.txt").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.usefixtures("way")
def test_owner_is_kept(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    os.chown(target, 1234, 4321)
    target.chmod(0o6755)
    assert not runner.run("edit", path="a.txt", old_text="one", new_text="1").is_error
    info = target.stat()
    assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (1234, 4321, 0o6755)


@pytest.mark.usefixtures("way")
def test_file_is_unchanged_if_its_owner_cannot_be_kept(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    target = runner.have_read("a.txt", "one\n")

    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    seen = disk.load

    def owned_by_another(folder: int, name: str, shown: str) -> disk.LoadedFile:
        loaded = seen(folder, name, shown)
        return disk.LoadedFile(loaded.data, loaded.snapshot, loaded.mode, disk.FileOwner(999, 999), loaded.links)

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(disk, "load", owned_by_another)
    outcome = runner.run("edit", path="a.txt", old_text="one", new_text="1")
    assert outcome.content == "a.txt may not be changed (operation not permitted). Nothing was changed"
    assert (target.read_text(), names(runner)) == ("one\n", ["a.txt"])


@pytest.mark.usefixtures("way")
def test_extended_attributes_are_kept(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    try:
        os.setxattr(target, "user.note", b"mine")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    assert not runner.run("edit", path="a.txt", old_text="one", new_text="1").is_error
    assert os.getxattr(target, "user.note") == b"mine"


@pytest.mark.parametrize("depth", [1, 2])
def test_edit_through_a_link_keeps_the_link(runner: ToolRunner, depth: int) -> None:
    target = runner.add("real/a.txt", "one\n")
    (runner.root / "links").mkdir()
    (runner.root / "links/l1").symlink_to("../real/a.txt")
    (runner.root / "links/l2").symlink_to("l1")
    path = f"links/l{depth}"
    runner.run("read", path=path)
    assert not runner.run("edit", path=path, old_text="one", new_text="1").is_error
    assert target.read_text() == "1\n"
    assert [(runner.root / f"links/l{n}").is_symlink() for n in (1, 2)] == [True, True]


def test_special_files_are_refused(runner: ToolRunner) -> None:
    os.mkfifo(runner.root / "pipe")
    for name, arguments in (("read", {}), ("write", {"content": "x"}), ("edit", {"old_text": "a", "new_text": "b"})):
        assert "device, pipe or socket" in runner.run(name, path="pipe", **arguments).content


@pytest.mark.usefixtures("way")
def test_folders_created_for_a_failed_file_are_removed(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.add("old/x")

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(os, "write", full)
    outcome = runner.run("write", path="old/new/deep/a.txt", content="x")
    assert "the disk is full. Nothing was changed" in outcome.content
    assert [path.name for path in (runner.root / "old").iterdir()] == ["x"]


_LIMITED = """
import asyncio, resource, signal, sys
from pathlib import Path
from qcode.tools.editing.edit import Edit
from qcode.tools.files.read import Read
from qcode.tools.tool import ToolRunContext
from qcode.tools.workspace import Workspace

workspace, context = Workspace(Path(sys.argv[1])), ToolRunContext(print)
asyncio.run(Read().run({"path": "a.txt"}, workspace, context))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
arguments = {"path": "a.txt", "old_text": "one", "new_text": "1" * 5000}
print(asyncio.run(Edit().run(arguments, workspace, context)).content)
"""


def test_file_beyond_the_size_limit_of_the_system_is_unchanged(runner: ToolRunner) -> None:
    target = runner.add("a.txt", "one\n")
    argv = [sys.executable, "-c", _LIMITED, str(runner.root)]
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=HERE, check=True)
    assert "larger than this system allows (file size limit). Nothing was changed" in ended.stdout
    assert (target.read_text(), names(runner)) == ("one\n", ["a.txt"])
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    from qcode.tools.workspace import Workspace

    runner = ToolRunner(Workspace(small_disk))
    target = runner.have_read("a.txt", "one\n" + "x" * 20_000)
    outcome = runner.run("edit", path="a.txt", old_text="one", new_text="1" * 60_000)
    assert outcome.content == "a.txt could not be written: the disk is full. Nothing was changed"
    assert target.read_text().startswith("one\n")
    assert names(runner) == ["a.txt"]


_KILLED = """
import os, sys, time
from pathlib import Path
from qcode.tools.workspace import Workspace

def stop(*arguments, **keywords):
    print("here", flush=True)
    time.sleep(60)

workspace = Workspace(Path(sys.argv[1]))
place = workspace.resolve("a.txt", "write")
loaded = workspace.load(place) if workspace.exists(place) else None
setattr(os, sys.argv[2], stop)
workspace.write(place, b"new\\n" * 100_000, loaded)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("call", ["write", "fsync", "link"])
@pytest.mark.parametrize("is_there", [True, False])
def test_killed_write_leaves_no_temporary_file(runner: ToolRunner, call: str, is_there: bool) -> None:
    try:
        os.close(os.open(runner.root, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("the file system has no files without a name")
    if is_there:
        runner.add("a.txt", b"old\n" * 100_000)
    argv = [sys.executable, "-c", _KILLED, str(runner.root), call]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=HERE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
    assert names(runner) == (["a.txt"] if is_there else [])
    assert not is_there or (runner.root / "a.txt").read_bytes() == b"old\n" * 100_000


def test_read_state_of_many_files_is_bounded(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.tools.workspace.MAX_KEPT_BYTES", 40)
    first, last = runner.have_read("a.txt", "one\n"), runner.have_read("b.txt", "two\n")
    for index in range(3):
        runner.have_read(f"{index}.txt", f"{index} more text\n")
    last = runner.have_read("b.txt", "two\n")
    first.write_text("theirs\n")
    last.write_text("theirs\n")
    results = [runner.run("edit", path=name, old_text="x", new_text="y").content for name in ("a.txt", "b.txt")]
    assert all("was changed since it was read" in text for text in results)
    assert ["Changes:" in text for text in results] == [False, True]
