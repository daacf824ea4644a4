"""Changes by turn: what each turn did to which file, and undo of one file or one hunk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.checkpoints.rewind import MoveImpossible, session_diffs
from qcode.agent.checkpoints.turn_changes import ConflictError, TurnChanges, changes_text, remove_hunks, turn_changes
from tests.agent.checkpoints.runner import CheckpointRunner

LINES = [f"line {number}" for number in range(1, 41)]
BASE = "\n".join(LINES).encode() + b"\n"


def edited(content: bytes, **changes: str) -> bytes:
    """Return a content with lines replaced: `l3="new"` is the third."""
    lines = content.decode().split("\n")
    for name, line in changes.items():
        lines[int(name[1:]) - 1] = line
    return "\n".join(lines).encode()


def listed(runner: CheckpointRunner) -> tuple[TurnChanges, ...]:
    return turn_changes(runner.session.history, runner.blobs, runner.workspace.show)


def undo_part(runner: CheckpointRunner, number: int, name: str, hunk: int | None = None) -> str:
    return runner.do(runner.rewinder.plan_partial_undo(number, str(runner.path(name)), hunk)).text


@pytest.fixture
def runner(tmp_path: Path) -> CheckpointRunner:
    made = CheckpointRunner(tmp_path)
    made.path("a.txt").write_bytes(BASE)
    return made


def test_each_turn_lists_its_files_with_their_hunks(runner: CheckpointRunner) -> None:
    runner.turn("talk only")
    runner.turn("two places", a_txt=edited(BASE, l3="three", l30="thirty"), b_txt=b"new\n")
    runner.turn("one more", a_txt=edited(BASE, l3="three", l30="thirty", l31="more"))
    first, second = listed(runner)
    assert [(file.label, file.note, len(file.hunks)) for file in first.files] == [("a.txt", "", 2), ("b.txt", "new", 1)]
    assert [(hunk.line, hunk.added, hunk.removed) for hunk in first.files[0].hunks] == [(3, 1, 1), (30, 1, 1)]
    assert "+thirty" in first.files[0].hunks[1].diff
    assert "+three" not in first.files[0].hunks[1].diff
    assert [(file.label, len(file.hunks)) for file in second.files] == [("a.txt", 1)]
    assert "-line 31\n+more" in second.files[0].diff
    assert changes_text((first, second)).split("\n") == [
        "Turn 2: two places",
        "   a.txt  +2 -2",
        "     line 3  +1 -1",
        "     line 30  +1 -1",
        "   b.txt  +1 -0, new",
        "Turn 3: one more",
        "   a.txt  +1 -1",
    ]


def test_binary_file_is_listed_with_its_sizes(runner: CheckpointRunner) -> None:
    runner.turn("picture", p_png=b"\0" * 950)
    runner.turn("larger", p_png=b"\0" * 1_200)
    created, changed = (turn.files[0] for turn in listed(runner))
    assert (created.label, created.note, created.hunks) == ("p.png", "new, binary, 950 B", ())
    assert (changed.label, changed.note, changed.hunks) == ("p.png", "binary, 950 B → 1.2 kB", ())
    (whole,) = session_diffs(runner.session, runner.blobs, lambda path: path.name)
    assert (whole.path, whole.diff, whole.note) == ("p.png", "", "new, binary, 1.2 kB")


def test_undo_of_one_file_leaves_the_others_and_the_conversation(runner: CheckpointRunner) -> None:
    number = runner.turn("both", a_txt=edited(BASE, l3="three"), b_txt=b"new\n")
    messages = runner.said
    assert undo_part(runner, number, "b.txt") == "Undone: b.txt deleted. /redo reverts this."
    assert runner.files == {"a.txt": edited(BASE, l3="three")}
    assert runner.said == messages
    assert [file.label for file in listed(runner)[0].files] == ["a.txt"]
    with pytest.raises(MoveImpossible, match="already undone"):
        runner.rewinder.plan_partial_undo(number, str(runner.path("b.txt")))
    assert runner.redo().text == "Redone: 1 file restored. Ctrl+X in /diff reverts this."
    assert runner.files == {"a.txt": edited(BASE, l3="three"), "b.txt": b"new\n"}
    undo_part(runner, number, "b.txt")
    assert runner.files == {"a.txt": edited(BASE, l3="three")}


def test_rewind_that_keeps_every_file_names_no_command_that_reverts_it(runner: CheckpointRunner) -> None:
    number = runner.turn("one", a_txt=b"new\n")
    runner.path("a.txt").write_bytes(b"mine\n")
    plan = runner.rewinder.plan_rewind(number, "files")
    assert runner.do(plan).text == "Rewound: no change was needed."


def test_redone_rewind_of_files_names_the_command_that_reverts_it(runner: CheckpointRunner) -> None:
    number = runner.turn("one", a_txt=b"new\n")
    runner.do(runner.rewinder.plan_rewind(number, "files"))
    assert runner.redo().text == "Redone: 1 file restored. /rewind reverts this."


def test_undo_of_one_hunk_leaves_the_other_hunks(runner: CheckpointRunner) -> None:
    number = runner.turn("two places", a_txt=edited(BASE, l3="three", l30="thirty"))
    assert undo_part(runner, number, "a.txt", 0) == "Undone: 1 hunk of a.txt. /redo reverts this."
    assert runner.files == {"a.txt": edited(BASE, l30="thirty")}
    undo_part(runner, number, "a.txt", 1)
    assert runner.files == {"a.txt": BASE}
    runner.redo()
    assert runner.files == {"a.txt": edited(BASE, l30="thirty")}
    runner.redo()
    assert runner.files == {"a.txt": edited(BASE, l3="three", l30="thirty")}


def test_undone_hunk_is_not_listed_and_the_others_can_be_undone(runner: CheckpointRunner) -> None:
    both = edited(BASE, l3="three", l30="thirty")
    number = runner.turn("two places", a_txt=both)
    assert undo_part(runner, number, "a.txt", 0)
    (file,) = listed(runner)[0].files
    assert [(hunk.index, hunk.line) for hunk in file.hunks] == [(1, 30)]
    assert "+thirty" in file.diff
    assert "+three" not in file.diff
    with pytest.raises(MoveImpossible, match="already undone"):
        undo_part(runner, number, "a.txt", 0)
    assert undo_part(runner, number, "a.txt") == "Undone: a.txt restored. /redo reverts this."
    assert (runner.files, listed(runner)) == ({"a.txt": BASE}, ())
    runner.redo()
    runner.redo()
    assert runner.files == {"a.txt": both}
    assert [hunk.index for hunk in listed(runner)[0].files[0].hunks] == [0, 1]


def test_undone_hunk_of_an_earlier_turn_is_not_listed(runner: CheckpointRunner) -> None:
    number = runner.turn("first", a_txt=edited(BASE, l3="three", l30="thirty"))
    runner.turn("second", a_txt=edited(BASE, l3="three", l16="sixteen", l30="thirty"))
    undo_part(runner, number, "a.txt", 1)
    assert [[hunk.line for hunk in turn.files[0].hunks] for turn in listed(runner)] == [[3], [16]]


def test_undo_of_an_earlier_turn_keeps_later_changes_elsewhere_in_the_file(runner: CheckpointRunner) -> None:
    number = runner.turn("first", a_txt=edited(BASE, l3="three\nand a half"))
    runner.turn("second", a_txt=edited(BASE, l3="three\nand a half", l30="thirty"))
    undo_part(runner, number, "a.txt")
    assert runner.files == {"a.txt": edited(BASE, l30="thirty")}


def test_undo_of_an_earlier_turn_keeps_changes_by_the_user_elsewhere_in_the_file(runner: CheckpointRunner) -> None:
    number = runner.turn("first", a_txt=edited(BASE, l3="three"))
    runner.path("a.txt").write_bytes(edited(BASE, l3="three", l20="mine"))
    undo_part(runner, number, "a.txt", 0)
    assert runner.files == {"a.txt": edited(BASE, l20="mine")}
    runner.redo()
    assert runner.files == {"a.txt": edited(BASE, l3="three", l20="mine")}


@pytest.mark.parametrize("line", ["l2", "l3", "l4"])
def test_undo_is_refused_if_its_lines_or_their_neighbors_were_changed_later(
    runner: CheckpointRunner, line: str
) -> None:
    number = runner.turn("first", a_txt=edited(BASE, l3="three", l30="thirty"))
    later = edited(edited(BASE, l3="three", l30="thirty"), **{line: "later"})
    runner.path("a.txt").write_bytes(later)
    next_move_id = runner.session.history.next_move_id
    for hunk in (None, 0):
        with pytest.raises(MoveImpossible, match=r"a\.txt was not changed: line 3 of this change was changed later"):
            runner.rewinder.plan_partial_undo(number, str(runner.path("a.txt")), hunk)
    assert runner.files == {"a.txt": later}
    assert runner.session.history.next_move_id == next_move_id
    undo_part(runner, number, "a.txt", 1)
    assert b"thirty" not in runner.files["a.txt"]


def test_undo_is_refused_if_the_file_was_deleted_or_replaced(runner: CheckpointRunner) -> None:
    number = runner.turn("first", a_txt=edited(BASE, l3="three"), b_txt=b"new\n")
    runner.path("a.txt").unlink()
    with pytest.raises(MoveImpossible, match="deleted or replaced after this turn"):
        runner.rewinder.plan_partial_undo(number, str(runner.path("a.txt")))
    runner.path("b.txt").write_bytes(b"mine\n")
    with pytest.raises(MoveImpossible, match=r"b\.txt was not changed: it was changed after this turn"):
        runner.rewinder.plan_partial_undo(number, str(runner.path("b.txt")))
    assert runner.files == {"b.txt": b"mine\n"}


def test_file_that_became_a_pipe_or_very_large_is_listed_and_not_read(runner: CheckpointRunner) -> None:
    number = runner.turn("first", a_txt=edited(BASE, l3="three"), b_txt=b"new\n")
    runner.path("a.txt").unlink()
    os.mkfifo(runner.path("a.txt"))
    with runner.path("b.txt").open("wb") as sparse:
        sparse.truncate(10 * 1024**4)
    (turn,) = listed(runner)
    assert [(file.label, len(file.hunks)) for file in turn.files] == [("a.txt", 1), ("b.txt", 1)]
    for name in ("a.txt", "b.txt"):
        with pytest.raises(MoveImpossible):
            runner.rewinder.plan_partial_undo(number, str(runner.path(name)))


def test_undo_of_a_deleted_file_brings_it_back(runner: CheckpointRunner) -> None:
    runner.command("remove", lambda: runner.path("a.txt").unlink())
    (turn,) = listed(runner)
    assert [(file.label, file.note) for file in turn.files] == [("a.txt", "deleted")]
    undo_part(runner, turn.number, "a.txt")
    assert runner.files == {"a.txt": BASE}


def test_undo_of_the_turn_after_undo_of_a_hunk_asks_nothing(runner: CheckpointRunner) -> None:
    number = runner.turn("two places", a_txt=edited(BASE, l3="three", l30="thirty"))
    undo_part(runner, number, "a.txt", 0)
    plan = runner.rewinder.plan_undo()
    assert plan.doubtful == ()
    runner.do(plan)
    assert runner.files == {"a.txt": BASE}


def test_undo_of_a_hunk_keeps_line_endings_encoding_and_missing_last_newline(runner: CheckpointRunner) -> None:
    runner.path("c.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix")
    after = b"\xef\xbb\xbfONE\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix"
    number = runner.turn("case", c_txt=after)
    runner.path("c.txt").write_bytes(after + b"!")
    undo_part(runner, number, "c.txt")
    assert runner.files["c.txt"] == b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix!"


def test_binary_and_unknown_contents_have_a_note_instead_of_hunks(runner: CheckpointRunner) -> None:
    runner.path("d.bin").write_bytes(b"\0old")
    runner.turn("binary", d_bin=b"\0new")
    runner.command("command", lambda: runner.path("a.txt").write_bytes(b"by a command\n"))
    runner.path("a.txt").write_bytes(b"something else\n")
    turn = listed(runner)[0]
    notes = {file.label: (file.hunks, file.note) for item in listed(runner) for file in item.files}
    assert notes["d.bin"][0] == ()
    assert "binary" in notes["d.bin"][1]
    assert notes["a.txt"] == ((), "was changed later, and its content after this turn was not saved")
    undo_part(runner, turn.number, "d.bin")
    assert runner.files["d.bin"] == b"\0old"


def test_turn_changes_are_the_same_after_a_resume(runner: CheckpointRunner) -> None:
    number = runner.turn("two places", a_txt=edited(BASE, l3="three", l30="thirty"))
    before = listed(runner)
    runner = runner.again()
    assert listed(runner) == before
    undo_part(runner, number, "a.txt", 1)
    assert runner.files == {"a.txt": edited(BASE, l3="three")}


TEXTS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=30).map("\n".join)


@given(TEXTS, TEXTS, TEXTS)
def test_reverting_hunks_gives_the_old_text_or_is_refused(before: str, after: str, current: str) -> None:
    """Without later changes all hunks give the text before; with them, no line of others is lost without a refusal."""
    assert remove_hunks(before, after, after, None, 0) == before
    try:
        remove_hunks(before, after, current, None, 0)
    except ConflictError as refused:
        assert "changed later" in str(refused)
