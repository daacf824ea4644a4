"""Files that run or configure programs later cannot be changed by a command, also not through folders and links."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from qcode.protocol.tools import Launch
from qcode.safety.verdict import Level
from qcode.tools.processes import run_program
from tests.safety.sandbox.running import Box, git

LEVELS: tuple[Level, ...] = ("workspace", "protect")


@pytest.fixture
def full(bubble: Box) -> Box:
    """A workspace with everything that steers: at its root, below it, as links and under further names."""
    work = bubble.work
    git("config", "user.email", "me@example.com", cwd=work)
    git("config", "user.name", "Me", cwd=work)
    (work / "packages/a").mkdir(parents=True)
    for name in ("AGENTS.md", "packages/a/Claude.MD", "rules.md", ".envrc"):
        (work / name).write_text("kept\n")
    (work / ".github/workflows").mkdir(parents=True)
    (work / ".github/workflows/ci.yml").write_text("kept\n")
    (work / "CLAUDE.md").symlink_to("rules.md")
    os.link(work / "AGENTS.md", work / "other-name.txt")
    (work / ".vscode").symlink_to("editor")
    (work / "editor").mkdir()
    (work / "editor/settings.json").write_text("kept\n")
    return bubble


def steering(box: Box) -> dict[str, str]:
    """Return the content of the protected files of the workspace, by path."""
    found = {}
    names = ("AGENTS.md", "packages/a/Claude.MD", ".envrc", ".github/workflows/ci.yml", "CLAUDE.md", ".vscode")
    for name in (*names, ".vscode/settings.json", ".git/config", "other-name.txt", "rules.md"):
        path = box.work / name
        found[name] = f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
    found["hooks"] = " ".join(sorted(path.name for path in (box.work / ".git/hooks").iterdir()))
    return found


EVIL = {
    "write": "for f in AGENTS.md */*/Claude.MD .envrc CLAUDE.md rules.md other-name.txt; do echo evil > $f; done",
    "append": "echo evil | tee -a AGENTS.md CLAUDE.md .git/config .vscode/settings.json",
    "edit in place": "sed -i s/kept/evil/ AGENTS.md CLAUDE.md packages/a/Claude.MD .envrc other-name.txt",
    "rename over": "for f in AGENTS.md CLAUDE.md .git/config; do echo evil > new; mv -f new $f; done",
    "remove": "rm -rf AGENTS.md CLAUDE.md .git packages .github .vscode other-name.txt",
    "rename git away and copy it back": "mv .git g; cp -r g .git; echo evil >> .git/config; echo evil >> g/config",
    "rename a parent away": "mv packages p; mkdir -p packages/a; echo evil > packages/a/Claude.MD",
    "rename an inner parent away": "mv packages/a packages/b; mkdir packages/a; echo evil > packages/a/CLAUDE.md",
    "exchange folders": "mv .github h; mkdir -p .github/workflows; echo evil > .github/workflows/ci.yml",
    "replace a link": "rm CLAUDE.md; echo evil > CLAUDE.md",
    "point a link elsewhere": "echo evil > e; ln -sf e CLAUDE.md; ln -sfn . .vscode; echo evil > settings.json",
    "through a hard link": "ln AGENTS.md mine; echo evil > mine; ln .git/config c; echo evil > c",
    "through a second hard link": "ln other-name.txt mine; echo evil > mine",
    "through an open folder": "cd packages/a; echo evil > Claude.MD; cd /; echo evil > $OLDPWD/Claude.MD",
    "through the root of the process": "echo evil > /proc/self/root$PWD/AGENTS.md",
    "hook": "printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/*; mkdir x; mv x .git/hooks/x",
    "git itself": "git config core.fsmonitor ./evil; git config alias.st '!evil'; git remote add evil https://e",
    "other case": "echo evil > agents.md; echo evil > .Git; mkdir .VSCODE; rm -rf .VSCODE .Git",
    "modes": "chmod 777 AGENTS.md .git/config; truncate -s 0 AGENTS.md .envrc",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", EVIL)
def test_protected_files_stay_unchanged_in_a_writable_workspace(full: Box, way: str) -> None:
    before = steering(full)
    full.run("workspace", EVIL[way])
    assert steering(full) == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", EVIL)
def test_git_files_stay_unchanged_at_the_protect_level(full: Box, way: str) -> None:
    before = {name: text for name, text in steering(full).items() if name in (".git/config", "hooks")}
    full.run("protect", EVIL[way])
    after = {name: text for name, text in steering_of_git(full).items() if name in before}
    assert after == before


def steering_of_git(box: Box) -> dict[str, str]:
    hooks = sorted(path.name for path in (box.work / ".git/hooks").iterdir())
    return {".git/config": (box.work / ".git/config").read_text(), "hooks": " ".join(hooks)}


NEW = {
    ".claude/settings.json": "mkdir .claude; echo new > .claude/settings.json",
    "src/AGENTS.md": "echo new > src/AGENTS.md",
    "src/.mcp.json": "mkdir d; echo new > d/.mcp.json; mv d/.mcp.json src/",
    "deep/er/.cursorrules": "mkdir -p deep/er; echo new > deep/er/.cursorrules",
    ".gitattributes": "echo new > .gitattributes",
    ".env.local": "echo new > .env.local",
    ".vscode/tasks.json": "mkdir other; echo new > other/tasks.json; mv other .vscode",
    "src/Agents.MD": "echo new > src/Agents.MD",
    "src/GEMINI.md": "ln -s ../file.txt src/GEMINI.md",
}


@pytest.mark.parametrize("name", NEW)
def test_new_file_with_a_protected_name_is_removed_and_reported(bubble: Box, name: str) -> None:
    done = bubble.run("workspace", NEW[name])
    assert not os.path.lexists(bubble.work / name)
    top = name if "/" not in name or not name.startswith(".") else name.split("/")[0]
    assert f"{bubble.work}/{top} is a protected name, so it was removed again." in done.text
    kept_file = [path for path in (bubble.scratch / "replaced").rglob("*") if path.is_file() or path.is_symlink()]
    assert [path.read_text() if path.is_file() and not path.is_symlink() else "link" for path in kept_file] in (
        ["new\n"],
        ["link"],
    )


def test_replaced_link_is_restored_and_the_new_version_kept(full: Box) -> None:
    done = full.run("workspace", "rm CLAUDE.md; echo evil > CLAUDE.md")
    assert (full.work / "CLAUDE.md").readlink() == Path("rules.md")
    (kept_file,) = (full.scratch / "replaced").iterdir()
    assert kept_file.read_text() == "evil\n"
    assert str(kept_file) in done.text


def test_names_in_dependency_folders_are_not_watched(bubble: Box) -> None:
    done = bubble.run("workspace", "mkdir -p node_modules/x/.vscode; echo new > node_modules/x/AGENTS.md")
    assert (bubble.work / "node_modules/x/AGENTS.md").read_text() == "new\n"
    assert "protected" not in done.text


@pytest.mark.parametrize("level", LEVELS)
def test_daily_git_commands_work(full: Box, level: Level) -> None:
    done = full.run(
        level,
        "set -e; git add -A; git commit -qm one; git checkout -qb topic; echo x > file.txt; git commit -qam two;"
        " git stash list; git switch -q -; git merge -q topic; git gc -q; git worktree list; git log --oneline",
    )
    assert done.code == 0, done.text
    assert "protected" not in done.text


@pytest.mark.parametrize("level", LEVELS)
def test_new_repository_is_kept_if_its_configuration_runs_nothing(full: Box, level: Level) -> None:
    done = full.run(level, "git init -q fresh && git clone -q . copied && git -C copied log --oneline; true")
    assert (full.work / "fresh/.git/config").exists()
    assert (full.work / "copied/.git/config").exists()
    assert "protected" not in done.text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "evil",
    [
        "git -C fresh config core.fsmonitor ./evil",
        "git -C fresh config core.hooksPath .",
        "git -C fresh config alias.st '!evil'",
        "git -C fresh config remote.o.url 'ext::sh -c evil'",
        "printf '[include]\\n path = evil\\n' >> fresh/.git/config",
        "printf '[core]\\n filemode = true\\\\\\n\\n' >> fresh/.git/config",
        "printf '[core] pager = evil\\n' >> fresh/.git/config",
        "printf '#!/bin/sh\\n' > fresh/.git/hooks/pre-commit",
        "printf '* filter=evil\\n' > fresh/.git/info/attributes",
        "printf '../../evil\\n' > fresh/.git/commondir",
    ],
)
def test_new_repository_that_could_run_a_program_is_removed(bubble: Box, level: Level, evil: str) -> None:
    done = bubble.run(level, f"git init -q fresh; {evil}")
    assert "is a protected name" in done.text
    left = [path for path in (bubble.work / "fresh").rglob("*") if path.is_file() and path.parent.name != "hooks"]
    assert not [path for path in left if "evil" in path.read_text(errors="replace")]
    assert not (bubble.work / "fresh/.git/hooks/pre-commit").exists()


HOME = {
    "start-up file": "echo evil >> ~/.bashrc",
    "start-up file through a variable": 'x=1; echo evil >> "$HOME/.bashrc"',
    "start-up file by force": "echo evil >| ~/.bashrc",
    "renamed": "mv ~/.bashrc ~/b; echo evil > ~/.bashrc",
    "replaced": "echo evil > ~/b; mv -f ~/b ~/.bashrc",
    "removed": "rm -rf ~/.bashrc ~/.ssh ~/.netrc ~/.config",
    "hard link": "ln ~/.bashrc ~/b && echo evil > ~/b",
    "keys": "echo evil > ~/.ssh/authorized_keys; echo evil >> ~/.ssh/id_ed25519; chmod 644 ~/.ssh/id_ed25519",
    "credentials": "echo evil > ~/.netrc",
    "parent": "mv ~/.config ~/c; mkdir -p ~/.config/git; echo evil > ~/.config/git/config",
    "state of qcode": "echo evil > ~/.local/state/qcode/trust.json",
    "parent of the state": "cd ~/.local; mv state s; mkdir -p state/qcode; echo evil > state/qcode/trust.json",
    "new start-up file": "echo evil > ~/.profile; echo evil > ~/.zshenv; echo evil > ~/.gitconfig",
    "new folder": "mkdir -p ~/.config/autostart ~/.local/bin; echo evil > ~/.local/bin/ls",
    "new link": "echo evil > ~/e; ln -s e ~/.zshrc",
    "history": "echo evil > ~/.python_history",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", HOME)
def test_protected_files_of_the_home_stay_unchanged_at_the_protect_level(bubble: Box, way: str) -> None:
    state = bubble.home / ".local/state/qcode"
    state.mkdir(parents=True)
    (state / "trust.json").write_text("kept\n")
    (bubble.home / ".config/git/config").write_text("kept\n")

    def protected() -> dict[str, str]:
        names = (".bashrc", ".ssh/id_ed25519", ".netrc", ".config/git/config", ".local/state/qcode/trust.json")
        new = (".profile", ".zshenv", ".gitconfig", ".config/autostart", ".local/bin", ".zshrc", ".python_history")
        found = {name: (bubble.home / name).read_text() for name in names}
        return found | {name: "new" for name in (*new, ".ssh/authorized_keys") if os.path.lexists(bubble.home / name)}

    before = protected()
    bubble.run("protect", HOME[way])
    assert protected() == before


def test_other_files_are_as_on_the_host_at_the_protect_level(bubble: Box) -> None:
    done = bubble.run(
        "protect",
        "set -e; echo x > ~/made; echo x > ../../outside/made; echo x > file.txt; cat ~/notes.txt;"
        " ls /proc/sys/net/ipv4 > /dev/null; mktemp -u; echo done",
    )
    assert done.code == 0, done.text
    assert (bubble.outside / "made").read_text() == "x\n"
    assert "CANARY-notes" in done.text


def test_background_job_is_checked_when_the_next_command_starts(bubble: Box) -> None:
    async def run() -> None:
        job = asyncio.ensure_future(
            run_program(
                bubble.launch("workspace", "mkdir .claude; until [ -e stop ]; do sleep 0.01; done"),
                cwd=bubble.work,
                environment=bubble.environment,
                on_output=lambda data: None,
                timeout_s=30,
            )
        )
        while not (bubble.work / ".claude").exists():
            await asyncio.sleep(0.01)
        await asyncio.to_thread(bubble.session.launch, "read-only", ["/bin/true"])
        assert not (bubble.work / ".claude").exists()
        (bubble.work / "stop").touch()
        await job

    asyncio.run(run())
    (line,) = bubble.session.take_warnings()
    assert ".claude is a protected name" in line


def test_launch_that_never_starts_watches_nothing(bubble: Box) -> None:
    bubble.launch("workspace", "true")
    (bubble.work / "AGENTS.md").write_text("mine\n")
    assert "protected" not in bubble.run("workspace", "true").text
    assert (bubble.work / "AGENTS.md").exists()


def test_change_approved_meanwhile_is_kept(bubble: Box) -> None:
    launch = begun(bubble)
    with bubble.session.accept_changes([str(bubble.work / "AGENTS.md")]):
        (bubble.work / "AGENTS.md").write_text("approved\n")
    assert launch.finish is not None
    assert launch.finish() == ()
    assert (bubble.work / "AGENTS.md").read_text() == "approved\n"


def begun(box: Box) -> Launch:
    """Return a launch as it is while its program runs."""
    launch = box.launch("workspace", "true")
    assert launch.restrict is not None
    thread = threading.Thread(target=launch.restrict)  # the thread is restricted, and serves nothing else
    thread.start()
    thread.join()
    return launch


def test_change_by_a_command_to_an_approved_file_is_reverted(bubble: Box) -> None:
    launch = begun(bubble)
    with bubble.session.accept_changes([str(bubble.work / "AGENTS.md")]):
        (bubble.work / "AGENTS.md").write_text("approved\n")
    (bubble.work / "AGENTS.md").write_text("evil\n")
    assert launch.finish is not None
    assert "restored" in launch.finish()[0]
    assert (bubble.work / "AGENTS.md").read_text() == "approved\n"
