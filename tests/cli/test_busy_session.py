"""A session to resume that another process has open: the question of the linear mode."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qcode.agent.options import LATEST, Options, RunContext
from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore
from qcode.cli.app import run_app
from qcode.protocol.messages import user

Resume = Callable[[str], Options]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Return an open session of the current folder."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TERM", "dumb")
    opened = SessionStore(tmp_path / "home" / "state", work).create("demo/demo", work)
    opened.append(user("hello"))
    yield opened
    opened.close()


@pytest.fixture
def resume(session: Session, monkeypatch: pytest.MonkeyPatch) -> Resume:
    """Return a function that resumes the latest session in the linear mode, with these typed lines as input."""

    def run(typed: str) -> Options:
        opened: list[RunContext] = []

        def run_linear(context: RunContext, *_: object) -> int:
            opened.append(context)
            return 0

        monkeypatch.setattr("qcode.tui.linear.app.run_linear", run_linear)
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert run_app(Options(resume=LATEST)) == (0 if opened else 130)
        return opened[0].options if opened else Options(resume="quit")

    return run


@pytest.mark.parametrize(
    ("typed", "is_copy"), [("\n", True), ("1\n", True), ("2\n", False), ("x\n1\n", True), ("3\n2\n", False)]
)
def test_session_open_elsewhere_is_continued_in_a_copy_or_not_at_all(
    typed: str, is_copy: bool, session: Session, resume: Resume, capfd: pytest.CaptureFixture[str]
) -> None:
    options = resume(typed)
    assert (options.resume, options.fork_session) == ((session.session_id, True) if is_copy else (None, False))
    shown = capfd.readouterr().out
    assert f"Session {session.session_id} is open in another window (process " in shown
    assert shown.count("Which? [1] ") == typed.count("\n")


def test_end_of_input_at_the_question_quits(session: Session, resume: Resume) -> None:
    assert resume("").resume == "quit"


def test_closed_session_is_resumed_without_a_question(
    session: Session, resume: Resume, capfd: pytest.CaptureFixture[str]
) -> None:
    session.close()
    assert resume("").resume == LATEST
    assert "Which?" not in capfd.readouterr().out
