"""Which walls a session's folders call for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qcode.safety.sandbox import bubblewrap
from qcode.safety.sandbox.confinement import Confinement
from qcode.safety.sandbox.finding import find_sandbox
from qcode.safety.sandbox.walls import Grounds, confinement_for


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    root, home, own = tmp_path / "work", tmp_path / "home", tmp_path / "state"
    for folder in (root / ".git" / "hooks", root / ".github" / "workflows", home / ".ssh", home / ".aws", own):
        folder.mkdir(parents=True)
    (root / "AGENTS.md").write_text("rules")
    (home / ".netrc").write_text("canary")
    (home / ".python_history").write_text("canary")
    (home / "notes.txt").write_text("fine")
    return Grounds(root, (), None, home, (own,), f"/usr/bin:relative:{tmp_path}/bin")


def test_reading_only_may_write_nowhere(grounds: Grounds) -> None:
    confinement = confinement_for("read-only", grounds)
    assert confinement.writable == ()
    assert grounds.root in confinement.visible


def test_what_steers_later_is_protected_in_a_workspace_that_may_be_written(grounds: Grounds) -> None:
    confinement = confinement_for("workspace", grounds)
    assert confinement.writable == (grounds.root,)
    names = {path.relative_to(grounds.root).as_posix() for path in confinement.protected}
    assert names == {".git/hooks", ".github/workflows", "AGENTS.md"}


def test_credentials_histories_and_what_is_qcodes_own_are_hidden(grounds: Grounds) -> None:
    hidden = {path.name for path in confinement_for("read-only", grounds).hidden}
    assert hidden == {".ssh", ".aws", ".netrc", ".python_history", "state"}


def test_a_workspace_inside_something_hidden_stays_in_sight(grounds: Grounds) -> None:
    assert grounds.home is not None
    inside = Grounds(grounds.home / ".aws", home=grounds.home)
    assert grounds.home / ".aws" not in confinement_for("read-only", inside).hidden


def test_programs_below_a_covered_folder_stay_in_sight(grounds: Grounds) -> None:
    visible = confinement_for("read-only", grounds).visible
    assert Path(grounds.search_path.rpartition(":")[2]) in visible
    assert Path("/usr/bin") not in visible


def test_the_walls_of_a_session_hold_for_a_real_command(grounds: Grounds) -> None:
    sandbox = find_sandbox()
    if sandbox is None:
        pytest.skip("no sandbox works on this machine")
    argv = ["/bin/sh", "-c", "cat ../home/.netrc; cat ../home/notes.txt AGENTS.md; echo x > new"]
    argv = sandbox.wrap(argv, confinement_for("read-only", grounds))
    done = subprocess.run(argv, cwd=grounds.root, capture_output=True, text=True, timeout=60)
    assert "canary" not in done.stdout
    assert "rules" in done.stdout
    assert not (grounds.root / "new").exists()


@pytest.mark.parametrize("keeps_user", [True, False])
def test_the_command_line_takes_away_network_processes_and_rights(keeps_user: bool) -> None:
    argv = bubblewrap.command("/usr/bin/bwrap", ["/bin/true"], Confinement(), keeps_user=keeps_user)
    assert {"--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent"} < set(argv)
    assert ("--cap-drop" in argv, "--unshare-user" in argv) == (keeps_user, not keeps_user)
    assert argv[argv.index("/proc/sys") - 1] == "--ro-bind-try"
    assert argv[-2:] == ["--", "/bin/true"]


def test_later_walls_stand_before_earlier_ones(tmp_path: Path) -> None:
    inner, none = tmp_path / "inner", tmp_path / "none"
    inner.mkdir()
    confinement = Confinement(visible=(tmp_path,), writable=(tmp_path,), protected=(inner,), hidden=(none,))
    argv = bubblewrap.command("bwrap", ["x"], confinement, keeps_user=False)
    order = [argv[n + 2] for n, option in enumerate(argv) if option in ("--ro-bind-try", "--bind-try")]
    assert order[-3:] == [str(tmp_path), str(tmp_path), str(inner)]
    assert str(none) not in argv
