"""Undo, redo and rewind restore exactly the changes of qcode and keep those of the user."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from qcode.agent.checkpoints.rewind import MoveImpossible, Rewinder, RewindScope, SessionFileDiff, session_diffs
from qcode.agent.checkpoints.watch import MAX_CONTENT_BYTES
from qcode.protocol.messages import user
from qcode.tools.disk import open_folder, remove_file
from tests.agent.checkpoints.runner import CheckpointRunner


def test_undo_reverts_files_and_messages_of_the_last_turn(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("a.txt").write_bytes(b"mine\r\n\xff")
    runner.turn("one", a_txt=b"first")
    runner.turn("two", a_txt=b"second", b_txt=b"new")
    report = runner.undo()
    assert runner.files == {"a.txt": b"first"}
    assert runner.said == ["one", "did one"]
    assert report.prompt == "two"
    assert report.text == "Undone: 1 turn removed, 1 file restored, 1 file deleted. /redo reverts this."
    runner.undo()
    assert runner.files == {"a.txt": b"mine\r\n\xff"}
    assert runner.said == []
    with pytest.raises(MoveImpossible):
        runner.undo()


def test_redo_restores_each_undone_turn(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"first")
    runner.turn("two", a_txt=b"second", b_txt=b"new")
    before = runner.files
    runner.undo()
    runner.undo()
    assert runner.files == {}
    runner.redo()
    assert (runner.files, runner.said) == ({"a.txt": b"first"}, ["one", "did one"])
    runner.redo()
    assert (runner.files, runner.said) == (before, ["one", "did one", "two", "did two"])
    with pytest.raises(MoveImpossible):
        runner.redo()


def test_undo_and_redo_work_after_a_resume(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"first")
    runner.turn("two", a_txt=b"second")
    runner.undo()
    runner = runner.again()
    assert runner.loaded.messages == tuple(entry.message for entry in runner.session.entries())
    assert runner.said == ["one", "did one"]
    runner.redo()
    runner = runner.again()
    assert (runner.files, runner.said) == ({"a.txt": b"second"}, ["one", "did one", "two", "did two"])
    runner.undo()
    runner.again().undo()
    assert runner.files == {}


def test_new_turn_after_an_undo_clears_redo(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"first")
    runner.undo()
    runner.turn("other", b_txt=b"b")
    with pytest.raises(MoveImpossible):
        runner.redo()
    runner = runner.again()
    assert runner.said == ["other", "did other"]
    with pytest.raises(MoveImpossible):
        runner.redo()
    runner.undo()
    assert runner.files == {}


@pytest.mark.parametrize("what", ["conversation", "files", "both"])
def test_rewind_reverts_files_messages_or_both(tmp_path: Path, what: RewindScope) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"1")
    number = runner.turn("two", a_txt=b"2", b_txt=b"b")
    runner.turn("three", a_txt=b"3")
    before, messages = runner.files, runner.said
    runner.do(runner.rewinder.plan_rewind(number, what))
    assert runner.files == (before if what == "conversation" else {"a.txt": b"1"})
    assert runner.said == (messages if what == "files" else ["one", "did one"])
    runner.redo()
    assert (runner.files, runner.said) == (before, messages)


def test_files_can_be_reverted_after_only_the_conversation_was(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    first = runner.turn("one", a_txt=b"1")
    second = runner.turn("two", a_txt=b"2")
    runner.do(runner.rewinder.plan_rewind(second, "conversation"))
    runner.do(runner.rewinder.plan_rewind(first, "both"))
    assert runner.files == {}


def test_file_changed_since_is_skipped_unless_the_user_confirms(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"first", b_txt=b"b")
    runner.path("a.txt").write_bytes(b"my edit")
    plan = runner.rewinder.plan_undo()
    assert [(file.path, file.action, file.doubt) for file in plan.files] == [
        ("a.txt", "delete", "has been changed since"),
        ("b.txt", "delete", ""),
    ]
    runner.do(plan)
    assert runner.files == {"a.txt": b"my edit"}
    runner.redo()
    assert runner.files == {"a.txt": b"my edit", "b.txt": b"b"}
    runner.undo(overwrite=["a.txt"])
    assert runner.files == {}
    runner.redo()
    assert runner.files == {"a.txt": b"my edit", "b.txt": b"b"}


def test_user_edit_between_two_turns_needs_confirmation(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    number = runner.turn("one", a_txt=b"first")
    runner.path("a.txt").write_bytes(b"first, and my words")
    runner.turn("two", a_txt=b"second")
    (file,) = runner.rewinder.plan_rewind(number, "both").files
    assert file.doubt == "was also changed outside qcode in between"
    runner.undo()
    assert runner.files == {"a.txt": b"first, and my words"}


def test_deleted_file_is_restored_with_its_mode(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("run.sh").write_bytes(b"#!/bin/sh\n")
    runner.path("run.sh").chmod(0o751)
    runner.session.append(user("delete it"))
    place = runner.workspace.resolve("run.sh", "write")
    old = runner.workspace.load(place)
    with open_folder(place.base, ()) as folder, runner.recorder.record_change(place.path, old, None):
        remove_file(folder, "run.sh", old, "run.sh")
    assert runner.files == {}
    runner.undo()
    assert runner.files == {"run.sh": b"#!/bin/sh\n"}
    assert runner.path("run.sh").stat().st_mode & 0o777 == 0o751


def test_write_that_failed_leaves_nothing_to_undo(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("a.txt").write_bytes(b"mine")
    runner.session.append(user("write it"))
    place = runner.workspace.resolve("a.txt", "write")
    stale = runner.workspace.load(place)
    runner.path("a.txt").write_bytes(b"mine, later")
    with pytest.raises(Exception, match="changed by another program"):
        runner.workspace.write(place, b"qcode", stale)
    assert runner.rewinder.plan_undo().files == ()


def test_link_or_folder_that_replaced_a_file_is_never_touched(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"a", b_txt=b"b")
    outside = tmp_path / "outside"
    outside.write_bytes(b"a")
    runner.path("a.txt").unlink()
    runner.path("a.txt").symlink_to(outside)
    runner.path("b.txt").unlink()
    runner.path("b.txt").mkdir()
    report = runner.undo(overwrite=["a.txt", "b.txt"])
    assert outside.read_bytes() == b"a"
    assert runner.path("a.txt").is_symlink()
    assert runner.path("b.txt").is_dir()
    assert len(report.problems) == 2


def test_file_changed_between_plan_and_confirmation_is_kept(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"a")
    plan = runner.rewinder.plan_undo()
    runner.path("a.txt").write_bytes(b"typed meanwhile")
    report = runner.do(plan)
    assert runner.files == {"a.txt": b"typed meanwhile"}
    assert "changed just now" in report.problems[0]


def test_undo_plan_expires_when_another_turn_ends(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"a")
    plan = runner.rewinder.plan_undo()
    runner.turn("two")
    with pytest.raises(MoveImpossible, match="has changed since"):
        runner.do(plan)


def test_files_changed_by_a_command_are_found_and_need_confirmation(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    for name in ("keep.txt", "edit.txt", "gone.txt"):
        runner.path(name).write_bytes(name.encode())
    runner.path(".gitignore").write_text("*.log\n")

    def command() -> None:
        runner.path("edit.txt").write_bytes(b"by the command")
        runner.path("gone.txt").unlink()
        runner.path("made.txt").write_bytes(b"made")
        runner.path("noise.log").write_bytes(b"ignored")
        os.utime(runner.path("keep.txt"), ns=(1, 1))

    runner.command("run it", command)
    plan = runner.rewinder.plan_undo()
    assert {(file.path, file.action) for file in plan.doubtful} == {
        ("edit.txt", "restore"),
        ("gone.txt", "create"),
        ("made.txt", "delete"),
    }
    runner.do(plan, overwrite=[file.path for file in plan.doubtful])
    assert runner.files == {
        "keep.txt": b"keep.txt",
        "edit.txt": b"edit.txt",
        "gone.txt": b"gone.txt",
        ".gitignore": b"*.log\n",
        "noise.log": b"ignored",
    }


def test_fork_can_be_undone_separately(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"first")
    runner.turn("two", a_txt=b"second")
    session = runner.store.fork(runner.session.session_id, cwd=runner.work).session
    session.close()
    fork = CheckpointRunner(tmp_path, session.session_id)
    assert fork.said == runner.said
    fork.undo()
    assert runner.files == {"a.txt": b"first"}
    assert runner.said == ["one", "did one", "two", "did two"]


def test_deleted_session_takes_its_checkpoints_with_it(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("a.txt").write_bytes(b"secret words")
    runner.turn("one", a_txt=b"first")
    assert any(blob.read_bytes() == b"secret words" for blob in (tmp_path / "state").rglob("*") if blob.is_file())
    runner.session.close()
    runner.store.delete(runner.session.session_id)
    assert [path for path in (tmp_path / "state").rglob("*") if path.is_file()] == []


def test_rewind_point_names_files_in_full_if_the_workspace_is_the_root_folder(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"1\n")
    (point,) = Rewinder(runner.session, runner.blobs, [Path("/")]).rewind_points()
    assert point.files == (str(runner.path("a.txt")).removeprefix("/"),)


def test_rewind_points_list_the_files_changed_after_them(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one", a_txt=b"1", b_txt=b"2")
    runner.turn("two")
    runner.turn("three", a_txt=b"3")
    found = [(own.text, own.files, own.created) for own in runner.rewinder.rewind_points()]
    assert found == [("one", ("a.txt", "b.txt"), ("a.txt", "b.txt")), ("two", (), ()), ("three", ("a.txt",), ())]


def test_undo_restores_links_that_a_command_replaced_removed_or_redirected(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("target.txt").write_bytes(b"target")
    for name in ("replaced", "removed", "turned"):
        runner.path(name).symlink_to("target.txt")
    runner.path("dangling").symlink_to("nowhere/at all")
    runner.path("slash").symlink_to("folder/")

    def command() -> None:
        for name in ("replaced", "removed", "turned", "dangling", "slash"):
            runner.path(name).unlink()
        runner.path("replaced").write_bytes(b"now a file")
        runner.path("turned").symlink_to("elsewhere")
        runner.path("made").symlink_to("target.txt")

    runner.command("run it", command)
    paths = {file.path for file in runner.rewinder.plan_undo().doubtful}
    assert paths == {"replaced", "removed", "turned", "dangling", "slash", "made"}
    report = runner.undo(overwrite=paths)
    assert report.problems == ()
    for name in ("replaced", "removed", "turned"):
        assert runner.path(name).readlink() == Path("target.txt")
    assert runner.path("dangling").readlink() == Path("nowhere/at all")
    assert runner.path("slash").readlink() == Path("folder/")
    assert not runner.path("made").is_symlink()
    assert runner.path("target.txt").read_bytes() == b"target"

    assert runner.redo(overwrite=paths).problems == ()
    assert runner.path("replaced").read_bytes() == b"now a file"
    assert not runner.path("replaced").is_symlink()
    assert runner.path("turned").readlink() == Path("elsewhere")
    assert runner.path("made").readlink() == Path("target.txt")
    assert not runner.path("removed").is_symlink()
    assert [asked_diff.note for asked_diff in asked_diffs(runner) if asked_diff.path.endswith("turned")] == [
        "a symbolic link was made, changed or removed"
    ]


def test_undo_restores_modes_that_a_command_changed(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    large = b"x" * (MAX_CONTENT_BYTES + 1)
    for name, content in (("small.sh", b"#!/bin/sh"), ("large.bin", large)):
        runner.path(name).write_bytes(content)
        runner.path(name).chmod(0o600)

    def command() -> None:
        runner.path("small.sh").chmod(0o755)
        runner.path("large.bin").chmod(0o644)

    runner.command("run it", command)
    assert {asked_diff.note for asked_diff in asked_diffs(runner)} == {
        "mode changed from 600 to 755",
        "mode changed from 600 to 644",
    }
    again = runner.again()
    assert again.undo(overwrite=["small.sh", "large.bin"]).problems == ()
    assert [mode_of(again.path(name)) for name in ("small.sh", "large.bin")] == [0o600, 0o600]
    assert again.path("large.bin").read_bytes() == large
    again.redo(overwrite=["small.sh", "large.bin"])
    assert [mode_of(again.path(name)) for name in ("small.sh", "large.bin")] == [0o755, 0o644]


def test_mode_set_by_the_user_after_an_edit_is_not_reverted(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("a.sh").write_bytes(b"old")
    runner.turn("edit", a_sh=b"new")
    runner.path("a.sh").write_bytes(b"old")
    runner.path("a.sh").chmod(0o700)
    assert runner.undo().problems == ()
    assert mode_of(runner.path("a.sh")) == 0o700


def test_link_changed_since_the_command_needs_confirmation(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    (runner.path("folder")).mkdir()
    runner.path("folder/link").symlink_to("one")
    runner.command("run it", lambda: runner.path("folder/link").unlink())
    runner.path("folder/link").symlink_to("mine")
    assert [file.doubt for file in runner.rewinder.plan_undo().files] == ["has been changed since"]
    assert runner.undo().problems == ()
    assert runner.path("folder/link").readlink() == Path("mine")
    runner.redo()
    outside = tmp_path / "outside"
    runner.path("folder").rename(outside)
    runner.path("folder").symlink_to(outside)
    report = runner.undo(overwrite=["folder/link"])
    assert report.problems == ("folder/link is now behind a symbolic link",)
    assert (outside / "link").readlink() == Path("mine")


def asked_diffs(runner: CheckpointRunner) -> tuple[SessionFileDiff, ...]:
    return session_diffs(runner.session, runner.blobs, str)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_undo_restores_the_files_of_a_folder_that_became_a_link(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.path("d/sub").mkdir(parents=True)
    runner.path("d/x.txt").write_bytes(b"x")
    runner.path("d/sub/y.txt").write_bytes(b"y")
    runner.path("other").mkdir()

    def replace_folder() -> None:
        shutil.rmtree(runner.path("d"))
        runner.path("d").symlink_to("other")

    runner.command("replace", replace_folder)
    report = runner.undo(["d", "d/x.txt", "d/sub/y.txt"])
    assert report.problems == ()
    assert runner.files == {"d/x.txt": b"x", "d/sub/y.txt": b"y"}


def test_undo_and_redo_of_a_compaction_are_reported_as_such(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one")
    runner.turn("two")
    runner.session.compact((user("a summary"), (2,), (3,)))
    assert runner.undo().text == "Undone: the messages from before the compaction are back. /redo reverts this."
    assert runner.redo().text == "Redone: the conversation is compacted again. /undo reverts this."
    runner.undo()
    assert runner.undo().text == "Undone: 1 turn removed. /redo reverts this."
    assert runner.redo().text == "Redone: 1 turn back. /undo reverts this."


def test_rewind_to_before_a_compaction_says_how_many_turns_it_removes(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    runner.turn("one")
    number = runner.turn("two")
    runner.turn("three")
    runner.session.compact((user("a summary"), (2,), (3,)))
    plan = runner.rewinder.plan_rewind(number, "both")
    assert plan.summary == "Rewind: removes 2 turns"
    assert (
        runner.do(plan).text
        == "Rewound: 2 turns removed, the messages from before the compaction are back. /redo reverts this."
    )
    assert runner.redo().text == "Redone: 2 turns back, the conversation is compacted again. /rewind reverts this."


def test_redone_rewind_names_the_command_that_reverts_all_of_it(tmp_path: Path) -> None:
    runner = CheckpointRunner(tmp_path)
    number = runner.turn("one", a_txt=b"new\n")
    runner.turn("two", a_txt=b"newer\n")
    runner.do(runner.rewinder.plan_rewind(number, "both"))
    assert runner.redo().text == "Redone: 2 turns back, 1 file restored. /rewind reverts this."
