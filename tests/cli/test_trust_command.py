"""`qcode trust` and `/trust`: their output, the stored trust, and that a change must be shown before it is trusted."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from rich.cells import cell_len

from qcode.agent.agent import Agent
from qcode.agent.trust.store import TrustStore
from qcode.cli.arguments import parse
from qcode.cli.context import run_context
from tests.cli.test_subcommands import Printed, printed

__all__ = ["printed"]


def brings(work: Path, text: str) -> None:
    (work / ".qcode").mkdir(exist_ok=True)
    (work / ".qcode/config.toml").write_text(text)


def test_trust_show_lists_files_and_changes(printed: Printed) -> None:
    out, _ = printed("trust")
    assert out == [f"{printed.work}: restricted (not trusted)", "it contains no files for qcode"]
    brings(printed.work, "[output]\nmax_continuations = 1\n")
    store = TrustStore(printed.state)
    store.remember(printed.work)
    out, _ = printed("trust", "show")
    assert out[0] == f"{printed.work}: trusted"
    assert "  .qcode/config.toml  settings of the project" in out
    brings(printed.work, "[output]\nmax_continuations = 2\n")
    out, _ = printed("trust")
    assert "changed since it was trusted" in out[0]
    assert out[-2:] == ["  -output.max_continuations = 1", "  +output.max_continuations = 2"]
    out, _ = printed("trust", "list")
    assert out == [f"{printed.work}  restricted (changed since it was trusted)"]


def test_trust_aligns_names_with_wide_characters_by_terminal_cells(printed: Printed) -> None:
    commands = printed.work / ".qcode/commands"
    commands.mkdir(parents=True)
    for name in ("日本語の手順.md", "e\u0301t.md", "review.md"):
        (commands / name).write_text("Do it.\n")
    out, _ = printed("trust")
    rows = [line for line in out if ".qcode/commands" in line]
    starts = [row.removesuffix(row.partition(".md")[2].lstrip()) for row in rows]
    assert len(starts) == 3
    assert len(set(map(cell_len, starts))) == 1, out


def test_settings_that_changed_are_not_used(printed: Printed) -> None:
    brings(printed.work, "[output]\nmax_continuations = 1\n")
    TrustStore(printed.state).remember(printed.work)
    brings(printed.work, "[output]\nmax_continuations = 2\n")
    out, err = printed("config", "show")
    assert "output.max_continuations = 3  (default)" in out
    assert "not trusted" in err[0]


def test_trust_accept_needs_a_terminal(printed: Printed) -> None:
    brings(printed.work, "[output]\nmax_continuations = 1\n")
    _, err = printed("trust", "accept", code=2)
    assert "use --trust to trust a folder for one run" in err[0]
    assert not TrustStore(printed.state).is_trusted(printed.work)


@pytest.mark.parametrize(("typed", "is_trusted"), [("y\n", True), ("n\n", False), ("", False)])
def test_trust_accept_applies_only_to_the_files_shown(
    typed: str, is_trusted: bool, printed: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    brings(printed.work, "[output]\nmax_continuations = 1\n")
    (tmp_path / "typed").write_text(typed)
    with (tmp_path / "typed").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("os.isatty", lambda descriptor: True)
        out, _ = printed("trust", "accept")
    assert "  .qcode/config.toml  settings of the project" in out
    assert TrustStore(printed.state).is_trusted(printed.work) is is_trusted


def test_trust_forget_removes_trust(printed: Printed) -> None:
    TrustStore(printed.state).remember(printed.work)
    out, _ = printed("trust", "forget")
    assert out == [f"{printed.work}: no longer trusted"]
    out, _ = printed("trust", "forget", str(printed.work))
    assert out == [f"{printed.work}: was not trusted"]
    assert printed("trust", "list")[0] == ["no folder is trusted"]


def test_loop_of_links_is_forgotten_like_any_path(printed: Printed) -> None:
    (printed.work / "loop").symlink_to("loop")
    out, _ = printed("trust", "forget", "loop")
    assert out[0].endswith("loop: was not trusted")


def test_pipe_in_the_place_of_the_project_file_does_not_hang(printed: Printed) -> None:
    (printed.work / ".qcode").mkdir(exist_ok=True)
    os.mkfifo(printed.work / ".qcode/config.toml")
    shown: list[list[str]] = []
    command = threading.Thread(target=lambda: shown.append(printed("trust", "show")[0]), daemon=True)
    command.start()
    command.join(30)
    assert len(shown) == 1


def test_unknown_trust_words_are_wrong_usage(printed: Printed) -> None:
    _, err = printed("trust", "everything", code=2)
    assert "trust accept" in err[0]


def test_trust_command_in_the_app_shows_a_change_before_it_accepts_it(printed: Printed) -> None:
    brings(printed.work, "[output]\nmax_continuations = 1\n")
    store = TrustStore(printed.state)
    store.remember(printed.work)
    brings(printed.work, "[output]\nmax_continuations = 2\n")
    context = run_context(parse(["-m", "demo/demo"]), printed.work, is_attended=False)
    ready = Agent.begin(context)
    try:
        trust = ready.trust
        assert "+output.max_continuations = 2" in trust.accept()
        brings(printed.work, "[output]\nmax_continuations = 0\n")
        assert "+output.max_continuations = 0" in trust.accept()
        is_trusted_meanwhile = ready.conversation.policy.is_trusted
        done = trust.accept()
        assert "Folder trusted, with .qcode/config.toml" in done
        assert done.endswith("Restart qcode to use its other files.")
        assert (is_trusted_meanwhile, ready.conversation.policy.is_trusted) == (False, True)
        assert store.is_trusted(printed.work)
        named = "This folder is trusted, with .qcode/config.toml. qcode asks again if these files change."
        assert trust.accept() == named
    finally:
        ready.conversation.release()


def test_trusted_folder_without_files_names_none(printed: Printed) -> None:
    store = TrustStore(printed.state)
    store.remember(printed.work)
    ready = Agent.begin(run_context(parse(["-m", "demo/demo"]), printed.work, is_attended=False))
    try:
        assert ready.trust.accept() == "This folder is trusted. qcode asks again if files that it would use are added."
    finally:
        ready.conversation.release()
    brings(printed.work, "[output]\nmax_continuations = 1\n")
    assert not store.is_trusted(printed.work)


def test_pipe_mode_reports_on_stderr_why_a_folder_is_restricted(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    brings(printed.work, "[output]\nmax_continuations = 1\n")
    TrustStore(printed.state).remember(printed.work)
    brings(printed.work, "[output]\nmax_continuations = 2\n")
    given = ["-p", "hello", "-m", "demo/demo"]
    monkeypatch.setattr("sys.argv", ["qcode", *given])
    monkeypatch.setattr("sys.stdin", None)
    _, err = printed(*given)
    assert "have changed since you trusted it (.qcode/config.toml), so it is restricted" in err[0]
    assert err[0].endswith("qcode --trust -p hello -m demo/demo")
