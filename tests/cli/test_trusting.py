"""Trust in a folder by flag, by an earlier answer, or by a question."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from qcode.agent.options import Options
from qcode.agent.trust.store import MAX_PINNED_BYTES, TrustStore
from qcode.cli.app import run_app
from qcode.cli.main import main
from qcode.cli.terminal import InputEnded
from qcode.cli.trust import ask_in_lines, decide_trust, note_for_pipes
from qcode.protocol.errors import ExitCode
from qcode.tui.prompt.history import UnsentPrompt
from qcode.tui.screens.trust import TrustApp


class User:
    """A user at a terminal who types the given lines; `saw` is the output."""

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
            return decide_trust(folder or self.root, self.root, self.state, by_flag=by_flag, ask_user=ask_in_lines)
        finally:
            self.saw, self.told = self._capfd.readouterr()


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> User:
    return User(tmp_path, monkeypatch, capfd)


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
def test_answer_decides_about_trust(typed: str, is_trusted: bool, is_kept: bool, user: User) -> None:
    assert user.is_trusted(typed) is is_trusted
    assert TrustStore(user.state).is_trusted(user.root) is is_kept


def test_kept_answer_is_not_asked_for_again(user: User) -> None:
    user.is_trusted("1\n")
    assert user.is_trusted()
    assert user.saw == ""


@pytest.mark.parametrize("no_session", [False, True])
def test_draft_of_a_user_who_quits_the_question_is_stored_unless_the_run_stores_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, no_session: bool
) -> None:
    def quit_with_draft(app: TrustApp, **_: object) -> int:
        app.widgets.prompt.prompt_history.draft_file.save(UnsentPrompt("my draft"))
        return 0

    monkeypatch.setattr(TrustApp, "ask", quit_with_draft)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project/AGENTS.md").write_text("Be brief.")
    assert run_app(Options(cwd=tmp_path / "project", no_session=no_session)) == ExitCode.INTERRUPTED
    assert len(list(tmp_path.rglob("drafts/*"))) == (0 if no_session else 1)


def test_flag_neither_asks_nor_is_kept(user: User) -> None:
    assert user.is_trusted(by_flag=True)
    assert user.saw == ""
    assert not user.state.exists()


def test_trust_question_names_files_without_their_contents(user: User) -> None:
    inside = user.root / "part"
    (user.root / ".qcode").mkdir()
    inside.mkdir()
    for path in (user.root / "AGENTS.md", inside / "CLAUDE.md", user.root / ".qcode/config.toml"):
        path.write_text("rm -rf everything")
    user.is_trusted("\n", folder=inside)
    assert str(user.root) in user.saw
    for name in ("AGENTS.md", "part/CLAUDE.md", ".qcode/config.toml"):
        assert name in user.saw
    assert "everything\n" not in user.saw.replace("everything else", "")
    assert "[3]" in user.saw


def test_folder_without_files_for_qcode_is_restricted_without_a_question(user: User) -> None:
    (user.root / "AGENTS.md").unlink()
    assert not user.is_trusted("1\n")
    assert user.saw == ""


def test_name_cannot_steer_the_terminal(tmp_path: Path, user: User) -> None:
    user.root = tmp_path / "a\x1b[2J\nb"
    user.root.mkdir()
    (user.root / "AGENTS.md").write_text("Be brief.")
    user.is_trusted("\n")
    assert "\x1b" not in user.saw
    assert "/a\\x1b[2J⏎b\n" in user.saw


def test_end_of_input_is_not_an_answer(user: User) -> None:
    with pytest.raises(InputEnded):
        user.is_trusted("")
    with pytest.raises(InputEnded):
        user.is_trusted("maybe\n")


def test_answer_that_cannot_be_kept_holds_for_this_run(user: User) -> None:
    user.state.write_text("a file where the folder should be")
    assert user.is_trusted("1\n")
    assert "applies to this run only" in user.told


def test_trust_is_not_asked_about_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert not decide_trust(tmp_path, tmp_path, tmp_path / "state", by_flag=False, ask_user=None)
    TrustStore(tmp_path / "state").remember(tmp_path)
    assert decide_trust(tmp_path, tmp_path, tmp_path / "state", by_flag=False, ask_user=None)


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize(
    ("typed", "is_trusted", "is_kept"),
    [("1\n", True, True), ("2\n", True, False), ("3\n", False, False), ("\n", False, False)],
)
def test_trust_question_after_a_change_shows_the_difference(
    typed: str, is_trusted: bool, is_kept: bool, user: User
) -> None:
    put(user.root, ".qcode/commands/go.toml", 'prompt = "go"\n')
    user.is_trusted("1\n")
    put(user.root, ".qcode/commands/go.toml", 'prompt = "go \x1b[2Jand curl"\n')
    assert user.is_trusted(typed) is is_trusted
    assert "have changed since you trusted it" in user.saw
    assert '  -prompt = "go"' in user.saw
    assert "and curl" in user.saw
    assert "\x1b" not in user.saw
    assert TrustStore(user.state).is_trusted(user.root) is is_kept


def test_q_quits_the_trust_question(user: User) -> None:
    with pytest.raises(InputEnded):
        user.is_trusted("q\n")


def test_trust_of_an_earlier_version_is_confirmed_again(user: User) -> None:
    put(user.root, ".qcode/commands/go.toml", 'prompt = "go"\n')
    user.is_trusted("1\n")
    rows = json.loads((user.state / "trust.json").read_text())
    del rows["folders"][0]["pieces"]
    (user.state / "trust.json").write_text(json.dumps({**rows, "version": 1}))
    assert user.is_trusted("1\n")
    assert "that did not record its files" in user.saw
    assert ".qcode/commands/go.toml" in user.saw
    assert user.is_trusted()
    assert user.saw == ""


def test_folder_with_too_many_files_is_trusted_for_one_run_only(user: User) -> None:
    put(user.root, ".qcode/large", "x" * (MAX_PINNED_BYTES + 1))
    assert user.is_trusted("1\n")
    assert "more than 50 MB" in user.told
    assert not user.is_trusted("\n")


def test_pipe_mode_reports_the_reason_and_the_command_to_run(user: User) -> None:
    put(user.root, ".qcode/commands/go.toml", 'prompt = "go"\n')
    assert note_for_pipes(user.root, user.root, user.state, ["-p", "x y"]) == ""
    user.is_trusted("1\n")
    assert note_for_pipes(user.root, user.root, user.state, ["-p", "x y"]) == ""
    put(user.root, ".qcode/commands/go.toml", 'prompt = "stop"\n')
    note = note_for_pipes(user.root, user.root, user.state, ["-p", "x y"])
    assert ".qcode/commands/go.toml" in note
    assert note.endswith("qcode --trust -p 'x y'")
    assert note_for_pipes(user.root, user.root, user.state, ["-p", "x" * 900]).endswith("the same command with --trust")


def test_bypass_mode_says_that_trust_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", None)
    assert main(["-p", "hi", "-m", "demo/demo", "--yolo"]) == 0
    assert "this folder is not trusted, so bypass mode allows no commands" in capfd.readouterr().err
    assert main(["-p", "hi", "-m", "demo/demo", "--yolo", "--trust"]) == 0
    assert "not trusted" not in capfd.readouterr().err
