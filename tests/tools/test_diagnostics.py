"""Which checkers a project has set up, and the command that a call of `diagnostics` stands for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from qcode.protocol.tools import Refused
from qcode.text.json import Json
from qcode.tools.editing.diagnostics import Diagnostics, check_command
from tests.tools.conftest import Bench


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
    bench: Bench, files: dict[str, str], changed: list[str], command: str
) -> None:
    for name, content in files.items():
        bench.add(name, content)
    assert check_command(bench.root, [bench.root / name for name in changed]) == command


def test_configuration_above_the_workspace_is_ignored(bench: Bench) -> None:
    (bench.root.parent / "mypy.ini").write_text("")
    assert check_command(bench.root, [bench.root / "a.py"]) == ""


def test_changed_files_are_checked_without_paths(bench: Bench) -> None:
    bench.add("ruff.toml", "")
    with pytest.raises(Refused, match="no file was changed"):
        Diagnostics().shell_arguments({}, bench.workspace)
    bench.run("write", path="a.py", content="x\n")
    bench.run("write", path="b.py", content="x\n")
    Path(bench.root / "b.py").unlink()
    command = "ruff check --no-fix --output-format=concise a.py"
    assert Diagnostics().shell_arguments({}, bench.workspace) == {"command": command}
    assert bench.preview("diagnostics").detail == command
    paths: Json = ["c.py", "a.py"]
    assert Diagnostics().shell_arguments({"paths": paths}, bench.workspace) == {"command": f"{command} c.py"}
    assert "no supported linter" in bench.run("diagnostics", paths=["a.txt"]).content
    assert "outside the workspace" in bench.run("diagnostics", paths=["../a.py"]).content


def test_diagnostics_never_run_unasked(bench: Bench) -> None:
    bench.add("ruff.toml", "")
    assert "must run as its shell command" in bench.run("diagnostics", paths=["a.py"]).content


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_file_name_cannot_change_the_command(bench: Bench) -> None:
    bench.add("mypy.ini", "")
    name = "a'; touch hacked; '.py"
    bench.add(name)
    command = check_command(bench.root, [bench.root / name])
    bench.run("shell", command=command)
    assert not (bench.root / "hacked").exists()
