"""A run of all tests checks the rows of a table in groups, and names each row that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = """
import pytest

seen = []

@pytest.mark.parametrize("number", range(50))
def test_table(number):
    seen.append(number)
    if number == 3:
        pytest.skip("three")
    assert number not in (7, 11, 45)

def test_each_row_was_run_once():
    assert seen == list(range(50))

@pytest.mark.parametrize("number", range(2))
def test_short_table(number):
    pass

@pytest.mark.parametrize("number", range(4))
def test_table_with_a_fixture(number, tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "made").touch()

@pytest.mark.parametrize("number", range(4))
def test_table_without_a_row_that_runs(number):
    pytest.skip("none")
"""


def run(folder: Path, *arguments: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = .\n")
    (folder / "test_table.py").write_text(TABLE)
    command = [sys.executable, "-m", "pytest", "-p", "tests.rows", "-p", "no:xdist", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def test_each_failed_row_of_a_group_is_named(tmp_path: Path) -> None:
    output = run(tmp_path)
    assert "FAILED test_table.py::test_table[rows 1 to 20] - ExceptionGroup: 2 of 20 rows failed" in output
    assert "FAILED test_table.py::test_table[rows 41 to 50] - assert 45 not in (7, 11, 45)" in output
    assert [number for number in range(50) if f"row [{number}]" in output] == [7, 11, 45]
    assert "2 failed, 8 passed, 1 skipped" in output


@pytest.mark.parametrize("arguments", [("test_table.py",), ("-v",), ("-k", "table or each")])
def test_each_row_is_a_test_if_tests_are_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    output = run(tmp_path, *arguments)
    assert "FAILED test_table.py::test_table[45] - assert 45 not in (7, 11, 45)" in output
    assert "3 failed, 53 passed, 5 skipped" in output
