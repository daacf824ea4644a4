"""A machine with only Python, pip and make follows the README and the quickstart word by word."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tests.docs.blocks import ROOT, Block, blocks_of
from tests.e2e.running import NO_KEYRING
from tests.e2e.warm import machine_variables
from tests.release.test_release_files import copied

PROGRAMS = (
    "awk", "basename", "bash", "cat", "chmod", "cp", "date", "dirname", "env", "false", "git", "grep", "head", "id",
    "ls", "make", "mkdir", "mv", "pwd", "rm", "sed", "sh", "sleep", "sort", "stat", "tail", "test", "touch", "tr",
    "true", "uname", "wc",
)  # fmt: skip


def clean_machine(base: Path) -> dict[str, str]:
    """Return an environment with an empty home, Python, and the programs of every machine."""
    programs, home = base / "bin", base / "home"
    programs.mkdir()
    home.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    (programs / "python3").symlink_to(Path(sys.base_prefix) / "bin/python3")
    machine = {name: value for name, value in machine_variables().items() if name not in ("PATH", "VIRTUAL_ENV")}
    return {**machine, "HOME": str(home), "PATH": str(programs), "PYTHON_KEYRING_BACKEND": NO_KEYRING}


@pytest.mark.broad
@pytest.mark.timeout(900)
def test_copy_installed_with_pip_from_a_clone_is_complete_and_can_be_removed(tmp_path: Path) -> None:
    env, clone, project = clean_machine(tmp_path), copied(tmp_path / "clone"), tmp_path / "project"
    install = next(block for block in blocks_of(ROOT / "docs/how-to/install.md") if "pipx install ." in block.text)
    assert re.search(r"^pip install \. ", install.text, re.MULTILINE)
    project.mkdir()
    # With the versions that the clone pins, so that a new release of a package changes nothing here.
    pip = f"{tmp_path}/env/bin/pip --disable-pip-version-check --quiet install --constraint constraints.txt"
    made = subprocess.run(
        ["bash", "-ec", f"python3 -m venv {tmp_path}/env && {pip} ."],
        cwd=clone, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=800,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    env["PATH"] = f"{tmp_path}/env/bin:{env['PATH']}"
    done = _run("qcode --version && qcode-cli --version", project, env)
    assert len(set(done.stdout.splitlines())) == 1
    assert "tokyo-night" in _run("qcode themes", project, env).stdout.split()
    assert _run("qcode -m demo/demo -p 'list the folder'", project, env).returncode == 0
    # The line of the page for ~/.bashrc.
    completed = "source <(qcode --completion bash); complete -p qcode"
    assert _run(completed, project, env).returncode == 0
    updated = _run("qcode update", project, env).stdout
    assert f"git pull and then {tmp_path}/env/bin/python" in updated
    lines = _run("qcode uninstall --yes", project, env).stdout.splitlines()
    removal = next(line.strip() for line in lines if "pip uninstall" in line)
    assert _run(f"{removal} --yes", project, env).returncode == 0
    assert not (tmp_path / "env/bin/qcode").exists()


@pytest.mark.broad
@pytest.mark.timeout(1200)
def test_readme_and_quickstart_work_on_a_clean_machine(tmp_path: Path) -> None:
    env, clone = clean_machine(tmp_path), copied(tmp_path / "clone", with_tests=True)
    programs, home = env["PATH"], Path(env["HOME"])
    install = next(block for block in blocks_of(ROOT / "README.md") if "make run" in block.text)
    assert re.search(r"^make run\b", install.text, re.MULTILINE)
    _open_app(clone, env)
    env["PATH"] = f"{clone}/.venv/bin:{programs}"
    project = tmp_path / "project"
    project.mkdir()
    (project / "hello.py").write_text('def hello(name):\n    return f"Hello, {name}"\n')
    (project / "README.md").write_text("# Project\n")
    author = "-c user.name=Author -c user.email=author@project.test"
    _run(f"git init -q && git add . && git {author} commit -qm Begin", project, env)
    for page in (ROOT / "README.md", ROOT / "docs/tutorial/quickstart.md"):
        for block in blocks_of(page):
            if block.language == "sh" and not block.skip:
                _check(block, project, env)
    # The app keeps its files where the page says, and removes them.
    assert (home / ".local/state/qcode/sessions").is_dir()
    assert _run("qcode uninstall --yes", project, env).returncode == 0
    assert not (home / ".local/state/qcode").exists()


def _open_app(clone: Path, env: dict[str, str]) -> None:
    """Type `make run` in a terminal, see the app on the demo model, and leave it."""
    child = pexpect.spawn(
        "make", ["run"], cwd=str(clone), env={**env, "TERM": "xterm-256color"}, dimensions=(30, 100), encoding="utf-8"
    )
    try:
        seen = child.expect(["demo model", r"3\]:"], timeout=900)
        if seen == 1:  # the clone has an AGENTS.md or settings: the app asks first
            child.sendline("3")
            child.expect("demo model", timeout=60)
        child.send("\x1b")
        child.send("\x04")
        child.send("\x04")
        child.expect(pexpect.EOF, timeout=60)
    finally:
        child.close(force=True)


def _check(block: Block, project: Path, env: dict[str, str]) -> None:
    done = _run(block.text, project, env)
    assert block.exit_code == "any" or done.returncode == int(block.exit_code), f"{block}: {done.stdout}{done.stderr}"


def _run(script: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
