"""The guard restores changed files with protected names, loses nothing, and follows no link."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcode.safety.sandbox import nofollow
from qcode.safety.sandbox.guard import MAX_RECORDED_BYTES, MAX_REPORTED, FoundPaths, Guard


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "aside").mkdir()
    root = Path(os.path.realpath(tmp_path)) / "work"
    root.mkdir()
    return root


def steering_paths(root: Path) -> FoundPaths:
    return FoundPaths(tuple(sorted(map(str, root.rglob("steer*")))), is_complete=True)


def guard(root: Path, mounted: tuple[str, ...] = ()) -> Guard:
    """Return a guard of everything whose name begins with `steer`."""
    return Guard(lambda: steering_paths(root), mounted, str(root.parent / "aside"))


def aside(root: Path) -> list[str]:
    return sorted(path.name.split("-", 1)[1] for path in (root.parent / "aside/replaced").iterdir())


def test_changed_file_is_restored_with_its_mode_and_the_change_is_kept(root: Path) -> None:
    (root / "steer").write_text("kept")
    (root / "steer").chmod(0o640)
    watching = guard(root)
    (root / "steer").write_text("changed")
    (root / "steer").chmod(0o777)
    (line,) = watching.check()
    assert "restored" in line
    assert (root / "steer").read_text() == "kept"
    assert (root / "steer").stat().st_mode & 0o777 == 0o640
    (kept_file,) = (root.parent / "aside/replaced").iterdir()
    assert kept_file.read_text() == "changed"
    assert watching.check() == ()


def test_removed_file_and_link_are_restored(root: Path) -> None:
    (root / "steer").write_text("kept")
    (root / "steer-link").symlink_to("steer")
    watching = guard(root)
    (root / "steer").unlink()
    (root / "steer-link").unlink()
    assert len(watching.check()) == 2
    assert (root / "steer").read_text() == "kept"
    assert (root / "steer-link").readlink() == Path("steer")


def test_file_rewritten_with_the_same_content_is_not_a_change(root: Path) -> None:
    (root / "steer").write_text("kept")
    watching = guard(root)
    (root / "new").write_text("kept")
    (root / "new").replace(root / "steer")
    assert watching.check() == ()


def test_path_protected_by_a_mount_is_not_restored(root: Path) -> None:
    (root / "steer").write_text("kept")
    watching = guard(root, (str(root / "steer"),))
    (root / "steer").write_text("the user edits it meanwhile")
    assert watching.check() == ()
    assert (root / "steer").read_text() == "the user edits it meanwhile"


def test_change_of_a_large_file_is_reported(root: Path) -> None:
    (root / "steer").write_bytes(b"x" * (MAX_RECORDED_BYTES + 1))
    watching = guard(root)
    (root / "steer").write_text("changed")
    (line,) = watching.check()
    assert "cannot be restored" in line
    assert watching.check() == ()


def test_many_changes_are_reported_in_a_few_lines(root: Path) -> None:
    watching = guard(root)
    for number in range(MAX_REPORTED + 5):
        (root / f"steer{number}").touch()
    lines = watching.check()
    assert len(lines) == MAX_REPORTED + 1
    assert lines[-1].startswith("5 more")
    assert list(root.iterdir()) == []


def test_changed_files_with_the_same_name_are_all_kept(root: Path) -> None:
    watching = guard(root)
    for folder in ("a", "b"):
        (root / folder).mkdir()
        (root / folder / "steer").write_text(folder)
    watching.check()
    assert aside(root) == ["steer", "steer"]


def test_new_protected_name_is_reported_and_stays_without_a_private_folder(root: Path) -> None:
    watching = Guard(lambda: steering_paths(root), (), "")
    (root / "steer").touch()
    (line,) = watching.check()
    assert "could not be removed" in line
    assert (root / "steer").exists()


def test_protected_name_missed_in_a_huge_tree_is_not_new(root: Path) -> None:
    (root / "steer-old").touch()
    os.utime(root / "steer-old")
    moment = time.time_ns() + 50_000_000
    while time.time_ns() < moment:  # the clock of a file system ticks more slowly
        pass
    found: list[str] = []
    watching = Guard(lambda: FoundPaths(tuple(found), is_complete=False), (), str(root.parent / "aside"))
    (root / "steer-new").touch()
    found += [str(root / "steer-old"), str(root / "steer-new")]
    (line,) = watching.check()
    assert "steer-new" in line
    assert (root / "steer-old").exists()


def test_link_swapped_into_the_path_is_not_followed(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "folder").mkdir()
    (root / "folder/steer").write_text("kept")
    watching = guard(root)
    (root / "folder/steer").unlink()
    (root / "folder").rmdir()
    (root / "folder").symlink_to(outside)
    (line,) = watching.check()
    assert "could not be restored" in line
    assert list(outside.iterdir()) == []


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another file system than the folders of tests."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system to write on")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(os.path.realpath(folder))


def test_folder_is_moved_to_another_file_system_with_its_contents(root: Path, elsewhere: Path) -> None:
    (root / "steer/inner").mkdir(parents=True)
    (root / "steer/inner/file").write_text("content")
    (root / "steer/inner/file").chmod(0o755)
    (root / "steer/link").symlink_to("/etc/passwd")
    os.mkfifo(root / "steer/pipe")
    nofollow.move(str(root / "steer"), str(elsewhere / "kept"))
    assert not (root / "steer").exists()
    assert (elsewhere / "kept/inner/file").read_text() == "content"
    assert (elsewhere / "kept/inner/file").stat().st_mode & 0o777 == 0o755
    assert (elsewhere / "kept/link").readlink() == Path("/etc/passwd")


def test_folder_too_large_to_copy_stays(root: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "steer").mkdir()
    for number in range(5):
        (root / f"steer/{number}").write_text("content")
    monkeypatch.setattr(nofollow, "MAX_COPIED_ENTRIES", 3)
    with pytest.raises(OSError, match="too many") as raised:
        nofollow.move(str(root / "steer"), str(elsewhere / "kept"))
    assert raised.value.errno == errno.EFBIG
    assert len(list((root / "steer").iterdir())) == 5


def test_path_through_a_link_is_refused(root: Path) -> None:
    (root / "real").mkdir()
    (root / "real/file").write_text("x")
    (root / "link").symlink_to("real")
    for action in (
        lambda: nofollow.read(str(root / "link/file"), 9),
        lambda: nofollow.write_new(str(root / "link/new"), b"x", 0o600),
        lambda: nofollow.move(str(root / "link/file"), str(root / "moved")),
        lambda: nofollow.make_folder(str(root / "link/folder")),
        lambda: nofollow.link_new(str(root / "link/l"), "x"),
        lambda: nofollow.read(str(root / "link"), 9),
    ):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            action()
    assert [path.name for path in (root / "real").iterdir()] == ["file"]
