"""Which checkers a project has set up, and the command that a call of `diagnostics` stands for."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from qcode.protocol.tools import Refused
from qcode.text.json import Json
from qcode.tools.editing.diagnostics import Diagnostics, check_command
from tests.tools.conftest import ToolRunner


@pytest.mark.parametrize(
    ("files", "changed", "command"),
    [
        ({"pyproject.toml": "[tool.ruff]\n"}, ["a.py"], "ruff check --no-fix --output-format=concise a.py"),
        ({"pyproject.toml": "[tool.mypy]\n"}, ["a.py", "b c.py"], "mypy --no-error-summary a.py 'b c.py'"),
        ({"mypy.ini": "", "ruff.toml": ""}, ["a.py"],
         "ruff check --no-fix --output-format=concise a.py; mypy --no-error-summary a.py"),
        ({"setup.cfg": "[flake8]\n"}, ["a.py"], "flake8 a.py"),
        ({"pyrightconfig.json": "{}"}, ["a.pyi"], "pyright a.pyi"),
        ({"mypy.ini": "", ".venv/bin/mypy": ""}, ["a.py"], ".venv/bin/mypy --no-error-summary a.py"),
        ({"a/mypy.ini": "", "venv/bin/mypy": ""}, ["a/b.py"], "(cd a && ../venv/bin/mypy --no-error-summary b.py)"),
        ({"a/mypy.ini": "", "a/.venv/bin/mypy": "", ".venv/bin/mypy": ""}, ["a/b.py"],
         "(cd a && .venv/bin/mypy --no-error-summary b.py)"),
        ({"eslint.config.mjs": ""}, ["src/a.ts"], "npx --no-install eslint src/a.ts"),
        ({"package.json": '{"eslintConfig": {}}'}, ["a.js"], "npx --no-install eslint a.js"),
        ({"web/tsconfig.json": ""}, ["web/a.ts"], "(cd web && npx --no-install tsc --noEmit -p tsconfig.json)"),
        ({"go.mod": ""}, ["a.go", "pkg/b.go", "pkg/c.go"], "go vet . ./pkg"),
        ({"crate/Cargo.toml": ""}, ["crate/src/a.rs"], "(cd crate && cargo check --quiet --message-format=short)"),
        ({"mypy.ini": ""}, ["-x.py"], "mypy --no-error-summary ./-x.py"),
        ({"mypy.ini": ""}, ["a.txt"], ""),
        ({"pyproject.toml": "[tool.black]\n"}, ["a.py"], ""),
        ({"pyproject.toml": "not toml ["}, ["a.py"], ""),
        ({"package.json": "["}, ["a.js"], ""),
        ({}, ["a.py", "a.ts", "a.go", "a.rs"], ""),
    ],
)  # fmt: skip
def test_checker_runs_if_the_project_configures_it(
    runner: ToolRunner, files: dict[str, str], changed: list[str], command: str
) -> None:
    for name, content in files.items():
        runner.add(name, content)
    assert check_command(runner.root, [runner.root / name for name in changed]) == command


@pytest.mark.parametrize("name", ["pyproject.toml", "package.json"])
def test_configuration_that_cannot_be_read_is_ignored(runner: ToolRunner, name: str) -> None:
    changed = [runner.root / "a.py", runner.root / "a.js"]
    runner.add(name, ("x = " if name.endswith("toml") else "") + "[" * 50_000)
    assert check_command(runner.root, changed) == ""
    (runner.root / name).unlink()
    os.mkfifo(runner.root / name)
    commands: list[str] = []
    check = threading.Thread(target=lambda: commands.append(check_command(runner.root, changed)), daemon=True)
    check.start()
    check.join(30)
    assert commands == [""]


def test_files_that_cannot_be_reached_do_not_stop_the_search_for_a_checker(runner: ToolRunner) -> None:
    runner.add("mypy.ini", "")
    too_long = "n" * 300
    (runner.root / ".venv").symlink_to(too_long)
    (runner.root / "ruff.toml").symlink_to(too_long)
    assert check_command(runner.root, [runner.root / "a.py"]) == "mypy --no-error-summary a.py"


def test_changed_file_that_became_a_link_to_nowhere_is_not_checked(runner: ToolRunner) -> None:
    runner.run("write", path="a.py", content="x\n")
    Path(runner.root / "a.py").unlink()
    (runner.root / "a.py").symlink_to("n" * 300)
    with pytest.raises(Refused, match="no file was changed"):
        Diagnostics().shell_arguments({}, runner.workspace)


def test_configuration_above_the_workspace_is_ignored(runner: ToolRunner) -> None:
    (runner.root.parent / "mypy.ini").write_text("")
    assert check_command(runner.root, [runner.root / "a.py"]) == ""


def test_changed_files_are_checked_without_paths(runner: ToolRunner) -> None:
    runner.add("ruff.toml", "")
    with pytest.raises(Refused, match="no file was changed"):
        Diagnostics().shell_arguments({}, runner.workspace)
    runner.run("write", path="a.py", content="x\n")
    runner.run("write", path="b.py", content="x\n")
    Path(runner.root / "b.py").unlink()
    command = "ruff check --no-fix --output-format=concise a.py"
    assert Diagnostics().shell_arguments({}, runner.workspace) == {"command": command}
    assert runner.preview("diagnostics").detail == command
    paths: Json = ["c.py", "a.py"]
    assert Diagnostics().shell_arguments({"paths": paths}, runner.workspace) == {"command": f"{command} c.py"}
    assert "no supported linter" in runner.run("diagnostics", paths=["a.txt"]).content
    assert "outside the workspace" in runner.run("diagnostics", paths=["../a.py"]).content


def test_diagnostics_do_not_run_without_approval(runner: ToolRunner) -> None:
    runner.add("ruff.toml", "")
    assert "call shell with the command of the checker" in runner.run("diagnostics", paths=["a.py"]).content


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_file_name_cannot_change_the_command(runner: ToolRunner) -> None:
    runner.add("mypy.ini", "")
    name = "a'; touch hacked; '.py"
    runner.add(name)
    command = check_command(runner.root, [runner.root / name])
    runner.run("shell", command=command)
    assert not (runner.root / "hacked").exists()
