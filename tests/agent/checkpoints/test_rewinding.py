"""Undo, redo and rewind restore exactly the changes of qcode and keep those of the user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qcode.agent.checkpoints.rewind import FileDiff, NothingToDo, What, session_diffs
from qcode.agent.checkpoints.watch import MAX_CONTENT_BYTES
from qcode.protocol.messages import user
from qcode.tools.disk import open_folder, remove_file
from tests.agent.checkpoints.desk import Desk


def test_undo_reverts_files_and_messages_of_the_last_turn(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.path("a.txt").write_bytes(b"mine\r\n\xff")
    desk.turn("one", a_txt=b"first")
    desk.turn("two", a_txt=b"second", b_txt=b"new")
    report = desk.undo()
    assert desk.files == {"a.txt": b"first"}
    assert desk.said == ["one", "did one"]
    assert report.prompt == "two"
    assert report.text == "Undone: 2 messages removed, 2 files restored. /redo reverts this."
    desk.undo()
    assert desk.files == {"a.txt": b"mine\r\n\xff"}
    assert desk.said == []
    with pytest.raises(NothingToDo):
        desk.undo()


def test_redo_restores_each_undone_turn(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"first")
    desk.turn("two", a_txt=b"second", b_txt=b"new")
    before = desk.files
    desk.undo()
    desk.undo()
    assert desk.files == {}
    desk.redo()
    assert (desk.files, desk.said) == ({"a.txt": b"first"}, ["one", "did one"])
    desk.redo()
    assert (desk.files, desk.said) == (before, ["one", "did one", "two", "did two"])
    with pytest.raises(NothingToDo):
        desk.redo()


def test_undo_and_redo_work_after_a_resume(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"first")
    desk.turn("two", a_txt=b"second")
    desk.undo()
    desk = desk.again()
    assert desk.loaded.messages == tuple(entry.message for entry in desk.session.entries())
    assert desk.said == ["one", "did one"]
    desk.redo()
    desk = desk.again()
    assert (desk.files, desk.said) == ({"a.txt": b"second"}, ["one", "did one", "two", "did two"])
    desk.undo()
    desk.again().undo()
    assert desk.files == {}


def test_new_turn_after_an_undo_clears_redo(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"first")
    desk.undo()
    desk.turn("other", b_txt=b"b")
    with pytest.raises(NothingToDo):
        desk.redo()
    desk = desk.again()
    assert desk.said == ["other", "did other"]
    with pytest.raises(NothingToDo):
        desk.redo()
    desk.undo()
    assert desk.files == {}


@pytest.mark.parametrize("what", ["conversation", "files", "both"])
def test_rewind_reverts_files_messages_or_both(tmp_path: Path, what: What) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"1")
    number = desk.turn("two", a_txt=b"2", b_txt=b"b")
    desk.turn("three", a_txt=b"3")
    before, said = desk.files, desk.said
    desk.do(desk.rewinder.plan_rewind(number, what))
    assert desk.files == (before if what == "conversation" else {"a.txt": b"1"})
    assert desk.said == (said if what == "files" else ["one", "did one"])
    desk.redo()
    assert (desk.files, desk.said) == (before, said)


def test_files_can_be_reverted_after_only_the_conversation_was(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    first = desk.turn("one", a_txt=b"1")
    second = desk.turn("two", a_txt=b"2")
    desk.do(desk.rewinder.plan_rewind(second, "conversation"))
    desk.do(desk.rewinder.plan_rewind(first, "both"))
    assert desk.files == {}


def test_file_changed_since_is_skipped_unless_the_user_confirms(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"first", b_txt=b"b")
    desk.path("a.txt").write_bytes(b"my edit")
    plan = desk.rewinder.plan_undo()
    assert [(file.path, file.action, file.doubt) for file in plan.files] == [
        ("a.txt", "delete", "has been changed since"),
        ("b.txt", "delete", ""),
    ]
    desk.do(plan)
    assert desk.files == {"a.txt": b"my edit"}
    desk.redo()
    assert desk.files == {"a.txt": b"my edit", "b.txt": b"b"}
    desk.undo(overwrite=["a.txt"])
    assert desk.files == {}
    desk.redo()
    assert desk.files == {"a.txt": b"my edit", "b.txt": b"b"}


def test_user_edit_between_two_turns_needs_confirmation(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    number = desk.turn("one", a_txt=b"first")
    desk.path("a.txt").write_bytes(b"first, and my words")
    desk.turn("two", a_txt=b"second")
    (file,) = desk.rewinder.plan_rewind(number, "both").files
    assert file.doubt == "was also changed outside qcode in between"
    desk.undo()
    assert desk.files == {"a.txt": b"first, and my words"}


def test_deleted_file_is_restored_with_its_mode(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.path("run.sh").write_bytes(b"#!/bin/sh\n")
    desk.path("run.sh").chmod(0o751)
    desk.session.append(user("delete it"))
    place = desk.workspace.resolve("run.sh", "write")
    old = desk.workspace.load(place)
    with open_folder(place.base, ()) as folder, desk.recorder.changing(place.path, old, None):
        remove_file(folder, "run.sh", old, "run.sh")
    assert desk.files == {}
    desk.undo()
    assert desk.files == {"run.sh": b"#!/bin/sh\n"}
    assert desk.path("run.sh").stat().st_mode & 0o777 == 0o751


def test_write_that_failed_leaves_nothing_to_undo(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.path("a.txt").write_bytes(b"mine")
    desk.session.append(user("write it"))
    place = desk.workspace.resolve("a.txt", "write")
    stale = desk.workspace.load(place)
    desk.path("a.txt").write_bytes(b"mine, later")
    with pytest.raises(Exception, match="changed meanwhile"):
        desk.workspace.write(place, b"qcode", stale)
    assert desk.rewinder.plan_undo().files == ()


def test_link_or_folder_that_replaced_a_file_is_never_touched(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"a", b_txt=b"b")
    outside = tmp_path / "outside"
    outside.write_bytes(b"a")
    desk.path("a.txt").unlink()
    desk.path("a.txt").symlink_to(outside)
    desk.path("b.txt").unlink()
    desk.path("b.txt").mkdir()
    report = desk.undo(overwrite=["a.txt", "b.txt"])
    assert outside.read_bytes() == b"a"
    assert desk.path("a.txt").is_symlink()
    assert desk.path("b.txt").is_dir()
    assert len(report.problems) == 2


def test_file_changed_between_plan_and_confirmation_is_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"a")
    plan = desk.rewinder.plan_undo()
    desk.path("a.txt").write_bytes(b"typed meanwhile")
    report = desk.do(plan)
    assert desk.files == {"a.txt": b"typed meanwhile"}
    assert "changed just now" in report.problems[0]


def test_undo_plan_expires_when_another_turn_ends(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"a")
    plan = desk.rewinder.plan_undo()
    desk.turn("two")
    with pytest.raises(NothingToDo, match="has changed since"):
        desk.do(plan)


def test_files_changed_by_a_command_are_found_and_need_confirmation(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for name in ("keep.txt", "edit.txt", "gone.txt"):
        desk.path(name).write_bytes(name.encode())
    desk.path(".gitignore").write_text("*.log\n")

    def command() -> None:
        desk.path("edit.txt").write_bytes(b"by the command")
        desk.path("gone.txt").unlink()
        desk.path("made.txt").write_bytes(b"made")
        desk.path("noise.log").write_bytes(b"ignored")
        os.utime(desk.path("keep.txt"), ns=(1, 1))

    desk.command("run it", command)
    plan = desk.rewinder.plan_undo()
    assert {(file.path, file.action) for file in plan.doubtful} == {
        ("edit.txt", "restore"),
        ("gone.txt", "create"),
        ("made.txt", "delete"),
    }
    desk.do(plan, overwrite=[file.path for file in plan.doubtful])
    assert desk.files == {
        "keep.txt": b"keep.txt",
        "edit.txt": b"edit.txt",
        "gone.txt": b"gone.txt",
        ".gitignore": b"*.log\n",
        "noise.log": b"ignored",
    }


def test_fork_can_be_undone_separately(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"first")
    desk.turn("two", a_txt=b"second")
    session, _ = desk.store.fork(desk.session.session_id, cwd=desk.work)
    session.close()
    fork = Desk(tmp_path, session.session_id)
    assert fork.said == desk.said
    fork.undo()
    assert desk.files == {"a.txt": b"first"}
    assert desk.said == ["one", "did one", "two", "did two"]


def test_deleted_session_takes_its_checkpoints_with_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.path("a.txt").write_bytes(b"secret words")
    desk.turn("one", a_txt=b"first")
    assert any(blob.read_bytes() == b"secret words" for blob in (tmp_path / "state").rglob("*") if blob.is_file())
    desk.session.close()
    desk.store.delete(desk.session.session_id)
    assert [one for one in (tmp_path / "state").rglob("*") if one.is_file()] == []


def test_rewind_points_list_the_files_changed_after_them(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.turn("one", a_txt=b"1", b_txt=b"2")
    desk.turn("two")
    desk.turn("three", a_txt=b"3")
    found = [(own.text, own.files) for own in desk.rewinder.own_messages()]
    assert found == [("one", ("a.txt", "b.txt")), ("two", ()), ("three", ("a.txt",))]


def test_undo_restores_links_that_a_command_replaced_removed_or_redirected(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.path("target.txt").write_bytes(b"target")
    for name in ("replaced", "removed", "turned"):
        desk.path(name).symlink_to("target.txt")
    desk.path("dangling").symlink_to("nowhere/at all")
    desk.path("slash").symlink_to("folder/")

    def command() -> None:
        for name in ("replaced", "removed", "turned", "dangling", "slash"):
            desk.path(name).unlink()
        desk.path("replaced").write_bytes(b"now a file")
        desk.path("turned").symlink_to("elsewhere")
        desk.path("made").symlink_to("target.txt")

    desk.command("run it", command)
    paths = {file.path for file in desk.rewinder.plan_undo().doubtful}
    assert paths == {"replaced", "removed", "turned", "dangling", "slash", "made"}
    report = desk.undo(overwrite=paths)
    assert report.problems == ()
    for name in ("replaced", "removed", "turned"):
        assert desk.path(name).readlink() == Path("target.txt")
    assert desk.path("dangling").readlink() == Path("nowhere/at all")
    assert desk.path("slash").readlink() == Path("folder/")
    assert not desk.path("made").is_symlink()
    assert desk.path("target.txt").read_bytes() == b"target"

    assert desk.redo(overwrite=paths).problems == ()
    assert desk.path("replaced").read_bytes() == b"now a file"
    assert not desk.path("replaced").is_symlink()
    assert desk.path("turned").readlink() == Path("elsewhere")
    assert desk.path("made").readlink() == Path("target.txt")
    assert not desk.path("removed").is_symlink()
    assert [one.note for one in asked_diffs(desk) if one.path.endswith("turned")] == [
        "a symbolic link was made, changed or removed"
    ]


def test_undo_restores_modes_that_a_command_changed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    large = b"x" * (MAX_CONTENT_BYTES + 1)
    for name, content in (("small.sh", b"#!/bin/sh"), ("large.bin", large)):
        desk.path(name).write_bytes(content)
        desk.path(name).chmod(0o600)

    def command() -> None:
        desk.path("small.sh").chmod(0o755)
        desk.path("large.bin").chmod(0o644)

    desk.command("run it", command)
    assert {one.note for one in asked_diffs(desk)} == {
        "mode changed from 600 to 755",
        "mode changed from 600 to 644",
    }
    again = desk.again()
    assert again.undo(overwrite=["small.sh", "large.bin"]).problems == ()
    assert [mode_of(again.path(name)) for name in ("small.sh", "large.bin")] == [0o600, 0o600]
    assert again.path("large.bin").read_bytes() == large
    again.redo(overwrite=["small.sh", "large.bin"])
    assert [mode_of(again.path(name)) for name in ("small.sh", "large.bin")] == [0o755, 0o644]


def test_mode_set_by_the_user_after_an_edit_is_not_reverted(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.path("a.sh").write_bytes(b"old")
    desk.turn("edit", a_sh=b"new")
    desk.path("a.sh").write_bytes(b"old")
    desk.path("a.sh").chmod(0o700)
    assert desk.undo().problems == ()
    assert mode_of(desk.path("a.sh")) == 0o700


def test_link_changed_since_the_command_needs_confirmation(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.path("folder")).mkdir()
    desk.path("folder/link").symlink_to("one")
    desk.command("run it", lambda: desk.path("folder/link").unlink())
    desk.path("folder/link").symlink_to("mine")
    assert [file.doubt for file in desk.rewinder.plan_undo().files] == ["has been changed since"]
    assert desk.undo().problems == ()
    assert desk.path("folder/link").readlink() == Path("mine")
    desk.redo()
    outside = tmp_path / "outside"
    desk.path("folder").rename(outside)
    desk.path("folder").symlink_to(outside)
    report = desk.undo(overwrite=["folder/link"])
    assert report.problems == ("folder/link is now behind a symbolic link",)
    assert (outside / "link").readlink() == Path("mine")


def asked_diffs(desk: Desk) -> tuple[FileDiff, ...]:
    return session_diffs(desk.session, desk.blobs, str)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777
