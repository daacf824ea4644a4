"""Which confinement a session's folders call for, and which sandbox is used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qcode.safety.paths import SandboxScope
from qcode.safety.probes import WorkspaceContents
from qcode.safety.sandbox import bubblewrap, detection
from qcode.safety.sandbox import confinement as scope_module
from qcode.safety.sandbox.bubblewrap import BwrapVariant
from qcode.safety.sandbox.confinement import Confinement, confinement_for, links_to, program_folders
from qcode.safety.sandbox.detection import Sandbox, find_sandbox, is_effective
from qcode.safety.sandbox.index import WorkspaceIndex
from qcode.safety.verdict import SandboxSupport
from tests.safety.sandbox.running import WORKING, Box


@pytest.fixture
def scope(tmp_path: Path) -> SandboxScope:
    base = Path(os.path.realpath(tmp_path))
    root, home, own = base / "home/work", base / "home", base / "home/.local/state/qcode"
    for folder in (root / ".git/hooks", home / ".ssh", home / ".aws", own, home / ".config", base / "scratch"):
        folder.mkdir(parents=True)
    for name in ("work/AGENTS.md", ".netrc", ".python_history", ".bashrc", "notes.txt", "work/.git/config"):
        (home / name).write_text("x\n")
    return SandboxScope(root, (), base / "scratch", home, (own,), "/usr/bin:/bin")


def contents(scope: SandboxScope) -> WorkspaceContents:
    return WorkspaceIndex(scope.roots).refresh()


def test_read_only_command_sees_no_home_and_nothing_writable(scope: SandboxScope) -> None:
    confinement = confinement_for("read-only", scope, contents(scope))
    assert (confinement.writable, confinement.pinned_folders, confinement.protected_paths) == ((), (), ())
    assert str(scope.root) in confinement.readable
    assert str(scope.home) not in confinement.readable
    assert "/" not in confinement.readable


def test_workspace_command_cannot_see_credentials_histories_and_qcode_files(scope: SandboxScope) -> None:
    confinement = confinement_for("workspace", scope, contents(scope))
    hidden = {os.path.relpath(path, scope.home_path) for path in confinement.hidden_paths}
    assert hidden == {".ssh", ".aws", ".netrc", ".python_history", ".local/state/qcode"}
    assert set(confinement.writable) == {str(scope.root), str(scope.scratch)}


def test_workspace_inside_a_hidden_folder_stays_visible(scope: SandboxScope) -> None:
    assert scope.home is not None
    inside = SandboxScope(scope.home / ".aws", home=scope.home)
    for level in ("read-only", "workspace"):
        hidden = confinement_for(level, inside, WorkspaceContents()).hidden_paths
        assert str(scope.home / ".aws") not in hidden


def test_credentials_inside_a_workspace_that_is_the_home_are_hidden(scope: SandboxScope) -> None:
    assert scope.home is not None
    at_home = SandboxScope(scope.home, home=scope.home, qcode_folders=scope.qcode_folders)
    hidden = confinement_for("read-only", at_home, WorkspaceContents()).hidden_paths
    assert {f"{scope.home}/.ssh", f"{scope.home}/.netrc", f"{scope.home}/.local/state/qcode"} <= set(hidden)


def test_every_folder_above_a_protected_path_is_pinned(scope: SandboxScope) -> None:
    (scope.root / "a/b").mkdir(parents=True)
    (scope.root / "a/b/CLAUDE.md").write_text("x")
    pinned = confinement_for("workspace", scope, contents(scope)).pinned_folders
    assert [os.path.relpath(path, scope.root) for path in pinned] == [".git", "a", "a/b"]


def test_protect_level_protects_git_the_home_and_qcode_files_but_not_instructions(scope: SandboxScope) -> None:
    confinement = confinement_for("protect", scope, contents(scope))
    protected = {os.path.relpath(path, scope.home_path) for path in confinement.protected_paths}
    of_home = {".ssh", ".aws", ".netrc", ".python_history", ".bashrc", ".local/state/qcode"}
    assert protected == {"work/.git/config", "work/.git/hooks", *of_home}
    assert scope.home_path in confinement.pinned_folders


def test_configuration_of_git_is_not_masked(scope: SandboxScope) -> None:
    assert f"{scope.root}/.git/config" not in confinement_for("read-only", scope, contents(scope)).masked_files


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "home"


def tree(home: Path, *paths: str) -> None:
    for path in paths:
        (home / path).mkdir(parents=True, exist_ok=True)


def folders(home: Path, *parts: str) -> set[str]:
    found = program_folders(":".join(str(home / part) for part in parts), str(home))
    return {os.path.relpath(path, home) for path in found}


def test_programs_of_an_installation_include_their_libraries(home: Path) -> None:
    tree(home, ".nvm/v20/bin", ".nvm/v20/lib", ".nvm/v20/share", ".nvm/v20/etc")
    assert folders(home, ".nvm/v20/bin") == {".nvm/v20/bin", ".nvm/v20/lib", ".nvm/v20/share"}


def test_programs_in_folders_with_credentials_are_mounted_alone(home: Path) -> None:
    tree(home, ".cargo/bin", ".local/bin", ".local/lib", ".local/share/keyrings", "bin", ".config", "lib")
    assert folders(home, ".cargo/bin", ".local/bin", "bin") == {".cargo/bin", ".local/bin", ".local/lib", "bin"}


def test_shims_include_the_installations_of_their_manager(home: Path) -> None:
    tree(home, ".pyenv/shims", ".pyenv/versions")
    assert folders(home, ".pyenv/shims") == {".pyenv"}


def test_virtual_environment_includes_its_interpreter(home: Path) -> None:
    tree(home, "venv/bin", "venv/lib", "python/bin", "python/lib")
    (home / "venv/pyvenv.cfg").touch()
    (home / "python/bin/python3").touch()
    (home / "venv/bin/python").symlink_to(home / "python/bin/python3")
    assert folders(home, "venv/bin") == {"venv", "python/bin", "python/lib"}


def test_home_and_its_parents_are_never_visible(home: Path) -> None:
    tree(home, "bin")
    (home / "pyvenv.cfg").touch()
    assert folders(home, ".", "..", "../..", "bin") == {"bin"}
    assert program_folders("/:relative::/usr/bin", str(home)) == ()


def test_links_to_a_visible_folder_are_recreated(home: Path) -> None:
    tree(home, "real/a")
    (home / "link").symlink_to("real")
    (home / "real/inner").symlink_to("a")
    path = f"{home}/link/inner"
    assert links_to([path], []) == ((f"{home}/link", "real"), (f"{home}/real/inner", "a"))
    assert links_to([path], [f"{home}/real"]) == ((f"{home}/link", "real"),)


def test_linked_workspace_is_reached_by_its_path(bubble: Box) -> None:
    (bubble.home / "link").symlink_to(bubble.work)
    scope = bubble.scope
    behind = SandboxScope(bubble.home / "link", home=scope.home, search_path=scope.search_path)
    assert (str(bubble.home / "link"), str(bubble.work)) in confinement_for(
        "read-only", behind, WorkspaceContents()
    ).links


@pytest.mark.parametrize("is_root", [True, False])
def test_command_line_drops_rights_network_and_processes(is_root: bool) -> None:
    way = BwrapVariant("/usr/bin/bwrap", is_root=is_root, has_user_namespace=not is_root, mounts_in_thread=is_root)
    for level in ("read-only", "workspace"):
        launch = bubblewrap.launch(way, ["/bin/true"], Confinement(level))
        options = launch.argv
        assert {"--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"} < set(options)
        assert options[options.index("--cap-drop") + 1] == "ALL"
        assert ("--unshare-user" in options, "--cap-add" in options) == (not is_root, False)
        assert options[launch.data_index - 1] == "--seccomp"
        assert options[-2:] == ("--", "/bin/true")


def test_capabilities_of_a_sandbox_follow_its_kind() -> None:
    assert SandboxSupport().levels == ()
    for sandbox in WORKING.values():
        assert sandbox.support.kind == sandbox.kind
        assert sandbox.support.masks is (sandbox.kind == "bubblewrap")
        assert ("workspace" in sandbox.levels) is (sandbox.kind == "bubblewrap")
    with pytest.raises(ValueError, match="workspace"):
        Sandbox("landlock", ("read-only",)).launch(["/bin/true"], Confinement("workspace"))


def test_sandbox_is_probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = find_sandbox()
    monkeypatch.setattr(detection, "is_effective", lambda sandbox: pytest.fail("it was tried again"))
    assert find_sandbox() is first


@pytest.mark.parametrize("name", WORKING)
def test_sandbox_that_allows_a_write_is_not_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "ATTEMPTS", "exit 1")
    assert not is_effective(WORKING[name])


@pytest.mark.parametrize("removed", ["--seccomp", "--cap-drop"])
def test_bubblewrap_without_one_of_its_restrictions_is_not_used(removed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in WORKING if name.startswith("bubblewrap")]
    if not names:
        pytest.skip("bubblewrap does not work on this machine")
    real = bubblewrap.launch

    def without(way: BwrapVariant, argv: list[str], confinement: Confinement) -> object:
        launch = real(way, argv, confinement)
        at = launch.argv.index(removed)
        options = (*launch.argv[:at], *launch.argv[at + 2 :])
        shift = 2 if at < launch.data_index else 0
        is_gone = removed == "--seccomp"
        return type(launch)(options, launch.restrict, b"" if is_gone else launch.data, launch.data_index - shift)

    assert is_effective(WORKING[names[0]])
    monkeypatch.setattr(bubblewrap, "launch", without)
    # Root keeps its rights without the option; another user has none to drop, and gets none.
    assert is_effective(WORKING[names[0]]) is (removed == "--cap-drop" and os.geteuid() != 0)


def test_ineffective_landlock_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    if "landlock" not in WORKING:
        pytest.skip("Landlock does not work on this machine")
    from qcode.safety.sandbox import kernel

    monkeypatch.setattr(kernel, "landlock_restrict", lambda ruleset: None)
    assert not is_effective(WORKING["landlock"])
    monkeypatch.undo()
    monkeypatch.setattr(kernel, "load_filter", lambda program: None)
    assert not is_effective(WORKING["landlock"])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_landlock_without_truncation_control_is_not_used(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from qcode.safety.sandbox import kernel

    monkeypatch.setattr(kernel, "landlock_version", lambda: version)
    assert detection.candidates("landlock") == []


def test_too_many_secrets_are_masked_by_folder(bubble: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_module, "MAX_MASKED", 5)
    for number in range(10):
        (bubble.work / "keys").mkdir(exist_ok=True)
        (bubble.work / f"keys/{number}.pem").write_text("CANARY\n")
    done = bubble.run("read-only", "grep -r CANARY .; cat keys/1.pem .env; cat file.txt")
    assert "CANARY" not in done.text
    assert "seen" in done.text
