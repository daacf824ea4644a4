"""Nothing of a repository runs, is imported or is reached by opening it: not restricted, and not by trust alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.running import KEY
from tests.e2e.terminal import Terminal
from tests.e2e.trapped import TrappedRunner
from tests.e2e.watching import Audit, Strace, Watch
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Turn

WATCHES: dict[str, Callable[[Path], Watch]] = {"strace": Strace, "audit": Audit}
# The probe of the sandbox runs a shell by its full path.
OWN = {
    "sh",
    "git",
    "rg",
    "bash",
    "ls",
    "bwrap",
    "true",
    "cat",
    "grep",
    Path(sys.executable).name,
    Path(sys.executable).resolve().name,
}
LOOKS = (
    ("ls", {"path": ".", "depth": 3}),
    ("glob", {"pattern": "**/*"}),
    ("grep", {"pattern": "x"}),
    ("read", {"path": "README.md"}),
    ("shell", {"command": "ls -la"}),
    ("shell", {"command": "git status"}),
    ("shell", {"command": "git log -p"}),
    ("shell", {"command": "rg x"}),
    ("diagnostics", {"paths": ["conftest.py"]}),
    ("shell", {"command": "./trap asked"}),
)


class WatchedRunner(TrappedRunner):
    """A runner with the caches of a second start. `watch` wraps every command."""

    def __init__(self, base: Path, watch: Watch, *, is_loud: bool) -> None:
        super().__init__(base, is_loud=is_loud)
        self.watch = watch

    def command(self, *arguments: str) -> list[str]:  # type: ignore[override]  # of this runner, not of all
        return self.watch.command(arguments)

    def assert_untouched(self, port: int) -> None:
        assert self.springs() == []
        assert self.watch.complaints(self.work, port) == []
        assert self.watch.started() <= OWN


def watched(tmp_path: Path, by: str, *, is_loud: bool) -> WatchedRunner:
    if by == "strace" and not Strace.works():
        pytest.skip("strace is not here, or may not trace; the audit hooks watch alone")
    return WatchedRunner(tmp_path, WATCHES[by](tmp_path / "log"), is_loud=is_loud)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("by", "is_trusted", "is_loud"), [("strace", True, False), ("strace", False, True), ("audit", True, True)]
)
def test_exploring_model_triggers_no_trap(tmp_path: Path, by: str, is_trusted: bool, is_loud: bool) -> None:
    cli = watched(tmp_path, by, is_loud=is_loud)
    calls = [Call(name, json.dumps(arguments), f"call_{n}") for n, (name, arguments) in enumerate(LOOKS)]
    with FakeServer("openai", [Turn(calls=calls), Turn(text="Seen.")]) as server:
        flags = ("-m", "openai/test-model", "--base-url", server.base_url, *(["--trust"] if is_trusted else []))
        done = cli.run("-p", "look around", *flags, env={"OPENAI_API_KEY": KEY, "PATH": cli.path})
        results = [result.content for result in server.requests[-1].results]
    assert done.out == "Seen.\n"
    assert "README.md" in results[0]
    assert "Denied" in results[-1]
    cli.assert_untouched(server.port)
    assert "git" in cli.watch.started() or not is_trusted


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("by", "is_trusted"), [("strace", False), ("audit", True)])
def test_start_of_the_app_triggers_no_trap_and_names_cannot_steer_the_terminal(
    tmp_path: Path, by: str, is_trusted: bool
) -> None:
    cli = watched(tmp_path, by, is_loud=not is_trusted)
    flags = ("-m", "demo/demo", *(["--trust"] if is_trusted else []))
    with Terminal(cli, *flags, env={"PATH": cli.path}, about_folder=None if is_trusted else "3") as terminal:
        terminal.wait_for("demo model")
        if is_trusted:
            terminal.wait_for("wants to start the tool server")
        else:
            terminal.press("@")
            terminal.wait_for(".gitattributes")
        terminal.hang_up()
    assert "\x1b]0;PWNED" not in terminal.raw
    cli.assert_untouched(0)


def test_python_m_imports_no_module_of_the_folder(tmp_path: Path) -> None:
    cli = TrappedRunner(tmp_path, is_loud=False)
    done = cli.run("-p", "hello", "-m", "demo/demo", env={"PATH": cli.path})
    assert done.code == 0
    assert cli.springs() == []


@pytest.mark.parametrize("by", WATCHES)
def test_watch_reports_programs_writes_and_connections(tmp_path: Path, by: str) -> None:
    cli = watched(tmp_path, by, is_loud=True)
    code = (
        "import runpy, socket, subprocess, sys\n"
        "subprocess.run(['./trap', 'x'])\n"
        "runpy.run_path('json.py')\n"
        "open('./written', 'w').close()\n"
        "s = socket.socket(); s.settimeout(1)\n"
        "try: s.connect(('127.0.0.1', 9))\n"
        "except OSError: pass\n"
    )
    argv = cli.command()
    at = argv.index("-P") + 1
    if by == "audit":
        code = argv[at + 1].partition("sys.argv = [")[0] + code
    subprocess.run(
        [*argv[:at], "-c", code, *argv[at + 2 :]], cwd=cli.work, env=cli.environment(), check=True, timeout=30
    )
    assert len(cli.springs()) == 2
    complaints = cli.watch.complaints(cli.work, 0)
    assert "started ./trap" in complaints
    assert any("9" in complaint and "127.0.0.1" in complaint for complaint in complaints)
    if by == "audit":
        assert "write ./written" in complaints
        assert any(complaint.endswith("json.py") for complaint in complaints)
