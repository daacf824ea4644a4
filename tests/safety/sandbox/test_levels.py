"""Abilities and limits of confined commands, by running them in each kind of sandbox that works here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qcode.agent.sandbox import SessionSandbox
from qcode.safety.paths import SandboxScope
from qcode.safety.sandbox import confinement
from qcode.safety.verdict import Level
from tests.safety.sandbox.running import WORKING, Box, run_launch


def test_files_are_read_and_programs_run_at_the_read_only_level(box: Box) -> None:
    done = box.run("read-only", "cat file.txt && ls && echo x > /dev/null && sort file.txt | head -n 1; exit 3")
    assert (done.code, done.text) == (3, "seen\nfile.txt\nsrc\nseen\n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "command",
    [
        "echo x > file.txt",
        "echo x > new.txt",
        "rm file.txt",
        "mkdir d",
        "chmod 777 .",
        "touch file.txt",
        "ln file.txt b",
        "mv file.txt b",
        "truncate -s 0 file.txt",
        "perl -e 'utime(1, 1, \"file.txt\") or exit 1'",
    ],
)
def test_workspace_cannot_change_at_the_read_only_level(box: Box, command: str) -> None:
    before = (box.work.stat().st_mode, (box.work / "file.txt").stat().st_mtime_ns)
    assert box.run("read-only", command).code != 0
    assert sorted(path.name for path in box.work.iterdir()) == [".env", ".git", "file.txt", "src"]
    assert (box.work / "file.txt").read_text() == "seen\n"
    assert (box.work.stat().st_mode, (box.work / "file.txt").stat().st_mtime_ns) == before


def test_home_and_secrets_are_not_readable_at_the_read_only_level(box: Box) -> None:
    done = box.run("read-only", "cat ~/.ssh/id_ed25519 ~/.netrc ~/notes.txt ~/.bashrc; ls ~; true")
    assert "CANARY" not in done.text
    assert "mine" not in done.text


def test_secret_in_the_workspace_is_masked_at_the_read_only_level(bubble: Box) -> None:
    assert "CANARY" not in bubble.run("read-only", "cat .env; grep -r CANARY .; git grep --no-index CANARY").text


def test_protected_names_stay_unchanged_in_a_writable_workspace(bubble: Box) -> None:
    config = (bubble.work / ".git/config").read_text()
    done = bubble.run(
        "workspace",
        "echo x >> .git/config; echo x > .git/hooks/post-commit; mv .git g; mkdir -p .claude; echo x > .claude/a;"
        " echo new > file.txt",
    )
    assert (bubble.work / ".git/config").read_text() == config
    assert not (bubble.work / ".git/hooks/post-commit").exists()
    assert not (bubble.work / ".claude").exists()
    assert not (bubble.work / "g").exists()
    assert "replaced" in done.text
    assert (bubble.work / "file.txt").read_text() == "new\n"


def test_start_up_file_is_not_written_at_the_protect_level(bubble: Box) -> None:
    done = bubble.run("protect", 'x=1; echo evil >> "$HOME/.bashrc"; echo y > ~/made; echo evil > ~/.profile')
    assert (bubble.home / ".bashrc").read_text() == "# mine\n"
    assert not (bubble.home / ".profile").exists()
    assert (bubble.home / "made").read_text() == "y\n"
    assert "replaced" in done.text


def test_home_of_a_read_only_command_exists_and_is_empty(every_bubble: Box) -> None:
    elsewhere = SandboxScope(every_bubble.outside, home=every_bubble.home, search_path=every_bubble.search_path)
    session = SessionSandbox("auto", elsewhere, lambda: every_bubble.session.sandbox)
    launch = session.launch("read-only", ["/bin/ls", "-A", str(every_bubble.home)])
    done = run_launch(launch, every_bubble.outside, every_bubble.environment)
    assert (done.code, done.text) == (0, "")
    assert every_bubble.run("read-only", "ls -A ~").text == "work\n"


def test_home_in_a_system_folder_is_not_readable_at_the_read_only_level(
    box: Box, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (box.home / "bin").mkdir()
    (box.home / "bin/mine").write_text("#!/bin/sh\necho started\n")
    (box.home / "bin/mine").chmod(0o755)
    (base / "beside").write_text("system\n")
    (base / "linked").symlink_to("beside")
    monkeypatch.setattr(confinement, "SYSTEM_FOLDERS", (*confinement.SYSTEM_FOLDERS, str(base)))
    box.search_path = f"{box.home}/bin:{box.search_path}"
    session = SessionSandbox("auto", box.scope, lambda: box.session.sandbox)
    command = f"cat ~/notes.txt ~/.bashrc; mine; cat {base}/linked file.txt"
    launch = session.launch("read-only", ["/bin/bash", "--noprofile", "--norc", "-c", command])
    done = run_launch(launch, box.work, {**box.environment, "PATH": box.search_path})
    assert "CANARY" not in done.text
    assert "# mine" not in done.text
    assert done.text.endswith("started\nsystem\nseen\n"), done.text


def test_temporary_files_are_private_to_a_command(every_bubble: Box) -> None:
    done = every_bubble.run("read-only", "f=$(mktemp) && echo x > $f && cat $f && cat <<< here && echo $f")
    assert done.code == 0, done.text
    *lines, path = done.text.split()
    assert lines == ["x", "here"]
    assert not os.path.lexists(path)


@pytest.mark.parametrize("name", [name for name in WORKING if name.startswith("bubblewrap")])
def test_workspace_below_a_private_folder_is_masked_and_reached_by_its_link(name: str, tmp_path: Path) -> None:
    box = Box(WORKING[name], tmp_path)
    (tmp_path / "link").symlink_to(box.work)
    behind = SandboxScope(tmp_path / "link", (), box.scratch, box.home, (), box.search_path)
    session = SessionSandbox("auto", behind, lambda: WORKING[name])
    for level in ("read-only", "workspace"):
        launch = session.launch(level, ["/bin/cat", f"{tmp_path}/link/file.txt"])
        done = run_launch(launch, tmp_path / "link", box.environment)
        assert (done.code, done.text) == (0, "seen\n") or level == "workspace", done.text
    launch = session.launch("read-only", ["/bin/cat", f"{tmp_path}/link/.env"])
    assert "CANARY" not in run_launch(launch, tmp_path / "link", box.environment).text
    launch = session.launch("workspace", ["/bin/sh", "-c", "echo new > file.txt; echo evil > .git/config"])
    run_launch(launch, tmp_path / "link", box.environment)
    assert (box.work / "file.txt").read_text() == "new\n"
    assert "evil" not in (box.work / ".git/config").read_text()


@pytest.mark.parametrize("version", [3, 4, 5])
def test_older_landlock_refuses_signals_instead_of_scoping_them(
    version: int, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "landlock" not in WORKING:
        pytest.skip("Landlock does not work on this machine")
    from qcode.safety.sandbox import kernel

    monkeypatch.setattr(kernel, "landlock_version", lambda: version)
    box = Box(WORKING["landlock"], base)
    done = box.run("read-only", "cat file.txt; kill -0 $PPID; echo x > file.txt; truncate -s 0 file.txt; exit 0")
    assert "seen" in done.text
    assert "not permitted" in done.text
    assert (box.work / "file.txt").read_text() == "seen\n"


_DEVICES = "head -c 2 /dev/zero | wc -c; head -c 1 /dev/urandom | wc -c; echo x > /dev/null; : > /dev/full; echo $?"


@pytest.mark.parametrize("level", ["read-only", "workspace", "protect"])
def test_root_makes_few_mounts_and_no_device_or_kernel_file_can_be_changed(every_bubble: Box, level: Level) -> None:
    if not every_bubble.mounts_in_thread:
        pytest.skip("only root prepares the mounts")
    assert every_bubble.run(level, _DEVICES).text == "2\n1\n0\n"
    mounts = every_bubble.run(level, "cat /proc/self/mountinfo").text
    assert " /dev/null " not in mounts
    if level != "protect":
        assert " /proc/irq " not in mounts
    for change in ("mknod /dev/mine c 1 3", ": >> /proc/sys/kernel/core_pattern", ": >> /proc/sysrq-trigger"):
        assert every_bubble.run(level, change).code != 0


def test_devices_are_mounted_if_root_may_not_make_them(every_bubble: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    if not every_bubble.mounts_in_thread:
        pytest.skip("only root prepares the mounts")

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mknod", refuse)
    assert every_bubble.run("read-only", _DEVICES).text == "2\n1\n0\n"
    assert " /dev/null " in every_bubble.run("read-only", "cat /proc/self/mountinfo").text
