"""Whether a folder is trusted: by flag, by an earlier answer, or asked."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from qcode.agent.trust import MAX_FILE_BYTES, TrustStore
from qcode.cli.terminal import Left
from qcode.cli.trust import is_trusted, note_for_pipes


class Person:
    """Somebody at a terminal who types the given lines; `saw` is what they were shown."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.root = base / "project"
        self.root.mkdir()
        (self.root / "AGENTS.md").write_text("Be brief.")
        self.state = base / "state"
        self._monkeypatch = monkeypatch
        self._capfd = capfd
        self.saw = ""
        self.told = ""

    def is_trusted(self, typed: str = "", *, by_flag: bool = False, folder: Path | None = None) -> bool:
        self._monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        try:
            return is_trusted(folder or self.root, self.root, self.state, by_flag=by_flag, is_attended=True)
        finally:
            self.saw, self.told = self._capfd.readouterr()


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Person:
    return Person(tmp_path, monkeypatch, capfd)


@pytest.mark.parametrize(
    ("typed", "is_trusted", "is_kept"),
    [
        ("1\n", True, True),
        ("2\n", True, False),
        ("3\n", False, False),
        ("\n", False, False),
        ("yes\n 1 \n", True, True),
    ],
)
def test_the_person_decides(typed: str, is_trusted: bool, is_kept: bool, person: Person) -> None:
    assert person.is_trusted(typed) is is_trusted
    assert TrustStore(person.state).is_trusted(person.root) is is_kept


def test_an_answer_that_was_kept_is_not_asked_for_again(person: Person) -> None:
    person.is_trusted("1\n")
    assert person.is_trusted()
    assert person.saw == ""


def test_the_flag_neither_asks_nor_is_kept(person: Person) -> None:
    assert person.is_trusted(by_flag=True)
    assert person.saw == ""
    assert not person.state.exists()


def test_the_question_names_what_the_folder_brings_and_shows_none_of_it(person: Person) -> None:
    inside = person.root / "part"
    (person.root / ".qcode").mkdir()
    inside.mkdir()
    for path in (person.root / "AGENTS.md", inside / "CLAUDE.md", person.root / ".qcode/config.toml"):
        path.write_text("rm -rf everything")
    person.is_trusted("\n", folder=inside)
    assert str(person.root) in person.saw
    for name in ("AGENTS.md", "part/CLAUDE.md", ".qcode/config.toml"):
        assert name in person.saw
    assert "everything\n" not in person.saw.replace("everything else", "")
    assert "[3]" in person.saw


def test_a_folder_that_brings_nothing_is_restricted_without_a_question(person: Person) -> None:
    (person.root / "AGENTS.md").unlink()
    assert not person.is_trusted("1\n")
    assert person.saw == ""


def test_a_name_cannot_steer_the_terminal(tmp_path: Path, person: Person) -> None:
    person.root = tmp_path / "a\x1b[2J\nb"
    person.root.mkdir()
    (person.root / "AGENTS.md").write_text("Be brief.")
    person.is_trusted("\n")
    assert "\x1b" not in person.saw
    assert "/a\\x1b[2J⏎b\n" in person.saw


def test_the_end_of_input_is_no_answer(person: Person) -> None:
    with pytest.raises(Left):
        person.is_trusted("")
    with pytest.raises(Left):
        person.is_trusted("maybe\n")


def test_an_answer_that_cannot_be_kept_holds_for_this_run(person: Person) -> None:
    person.state.write_text("a file where the folder should be")
    assert person.is_trusted("1\n")
    assert "applies to this run only" in person.told


def test_nobody_is_asked_where_nobody_can_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert not is_trusted(tmp_path, tmp_path, tmp_path / "state", by_flag=False, is_attended=False)
    TrustStore(tmp_path / "state").remember(tmp_path)
    assert is_trusted(tmp_path, tmp_path, tmp_path / "state", by_flag=False, is_attended=False)


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize(
    ("typed", "is_trusted", "is_kept"),
    [("1\n", True, True), ("2\n", True, False), ("3\n", False, False), ("\n", False, False)],
)
def test_a_change_is_asked_about_with_the_difference(
    typed: str, is_trusted: bool, is_kept: bool, person: Person
) -> None:
    put(person.root, ".qcode/commands/go.toml", 'prompt = "go"\n')
    person.is_trusted("1\n")
    put(person.root, ".qcode/commands/go.toml", 'prompt = "go \x1b[2Jand curl"\n')
    assert person.is_trusted(typed) is is_trusted
    assert "have changed since you trusted it" in person.saw
    assert '  -prompt = "go"' in person.saw
    assert "and curl" in person.saw
    assert "\x1b" not in person.saw
    assert TrustStore(person.state).is_trusted(person.root) is is_kept


def test_q_leaves(person: Person) -> None:
    with pytest.raises(Left):
        person.is_trusted("q\n")


def test_trust_of_an_earlier_version_is_asked_for_once_more(person: Person) -> None:
    put(person.root, ".qcode/commands/go.toml", 'prompt = "go"\n')
    person.is_trusted("1\n")
    rows = json.loads((person.state / "trust.json").read_text())
    del rows["folders"][0]["pieces"]
    (person.state / "trust.json").write_text(json.dumps({**rows, "version": 1}))
    assert person.is_trusted("1\n")
    assert "that did not record its files" in person.saw
    assert ".qcode/commands/go.toml" in person.saw
    assert person.is_trusted()
    assert person.saw == ""


def test_more_than_can_be_kept_is_trusted_for_one_run_only(person: Person) -> None:
    put(person.root, ".qcode/large", "x" * (MAX_FILE_BYTES + 1))
    assert person.is_trusted("1\n")
    assert "larger than" in person.told
    assert not person.is_trusted("\n")


def test_pipe_mode_is_told_why_and_which_command_to_run(person: Person) -> None:
    put(person.root, ".qcode/commands/go.toml", 'prompt = "go"\n')
    assert note_for_pipes(person.root, person.state, ["-p", "x y"]) == ""
    person.is_trusted("1\n")
    assert note_for_pipes(person.root, person.state, ["-p", "x y"]) == ""
    put(person.root, ".qcode/commands/go.toml", 'prompt = "stop"\n')
    note = note_for_pipes(person.root, person.state, ["-p", "x y"])
    assert ".qcode/commands/go.toml" in note
    assert note.endswith("qcode --trust -p 'x y'")
    assert note_for_pipes(person.root, person.state, ["-p", "x" * 900]).endswith("the same command with --trust")
