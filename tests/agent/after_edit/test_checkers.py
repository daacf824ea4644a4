"""Files without a language server: the linters of the project and the parsers of the language, really run."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from qcode.agent.after_edit.checkers import TEXT_CHECKERS, TextCheckers
from qcode.agent.after_edit.problems import Problem
from qcode.protocol.tools import Launch
from qcode.tools.workspace import Workspace
from tests.agent.after_edit.editing import DONE, Editing, edit, write

BIN = Path(sys.executable).parent
PATH = f"{BIN}:/usr/bin:/bin"


def checked(folder: Path, name: str, text: str, path: str = PATH) -> tuple[Problem, ...] | None:
    """Return the problems of a text; None if no checker is for it."""
    workspace = Workspace(folder)
    checkers = TextCheckers({"PATH": path}, workspace, lambda argv: Launch(tuple(argv)))
    checker = checkers.find(folder / name)
    found = None if checker is None else asyncio.run(checkers.check(checker, folder / name, text))
    workspace.close()
    return found


def test_ruff_is_used_if_the_project_configures_it(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text('lint.select = ["F"]\n')
    found = checked(tmp_path, "a.py", "import os\nx = (\n")
    assert found is not None
    assert [item.severity for item in found] == ["error"]
    assert checked(tmp_path, "a.py", "\nimport os\n") == (
        Problem("warning", 2, 8, "`os` imported but unused", "ruff F401"),
    )
    assert checked(tmp_path, "a.py", "x = 1\n") == ()
    assert not (tmp_path / ".ruff_cache").exists()


def test_python_is_parsed_and_never_run_without_a_linter(tmp_path: Path) -> None:
    assert checked(tmp_path, "a.py", "x = 1\ndef f(:\n    pass\n") == (
        Problem("error", 2, 7, "invalid syntax", "Python syntax"),
    )
    hostile = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    assert checked(tmp_path, "a.py", hostile) == ()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("program", "name", "text", "line"),
    [
        ("bash", "a.sh", "echo a\nif true; then\n", 3),
        ("node", "a.js", "const a = 1;\nconst b = ;\n", 2),
        ("gofmt", "a.go", "package a\nfunc {\n", 2),
        ("shellcheck", "a.sh", "#!/bin/bash\nif true; then\n", 2),
    ],
)
def test_syntax_error_is_found(tmp_path: Path, program: str, name: str, text: str, line: int) -> None:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    programs = tmp_path / "bin"
    work = tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    (programs / program).symlink_to(found)
    problems = checked(work, name, text, f"{programs}:{Path(found).parent}")
    assert problems
    assert problems[0].severity == "error"
    if program != "shellcheck" and not (program == "bash" and shutil.which("shellcheck")):
        assert problems[0].line == line


def test_module_syntax_is_not_an_error_in_a_script(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    assert checked(tmp_path, "a.js", "import x from 'y';\n") == ()
    assert checked(tmp_path, "a.js", "export const a = 1;\n") == ()


def test_unreadable_output_is_not_a_problem() -> None:
    for checker in TEXT_CHECKERS:
        for output in ("", "[", "[5]", '["x"]', "[{}]", "Traceback: no such module\n", '{"a": 1}'):
            for item in checker.parse(output):
                assert item.line >= 1


def test_file_without_a_checker_is_not_checked(tmp_path: Path) -> None:
    assert checked(tmp_path, "a.txt", "x") is None
    assert checked(tmp_path, "Makefile", "x") is None


def test_linter_reports_only_problems_that_the_edit_added(tmp_path: Path) -> None:
    replies = write("import os\n", "a.py"), edit("import os", "import os\nimport sys", "a.py"), DONE
    settings: dict[str, object] = {"servers": {"python": []}}
    editing = Editing(tmp_path, *replies, settings=settings, path=PATH)
    (editing.work / "ruff.toml").write_text('lint.select = ["F"]\n')
    editing.run()
    assert "a.py:1:8: warning: `os` imported but unused (ruff F401)" in editing.told[0]
    assert "1 new problem after this edit:\na.py:2:8: warning: `sys` imported but unused" in editing.told[1]
