"""`.ci/again.py` reruns a few failed tests before `make check` fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

AGAIN = Path(__file__).parents[2] / ".ci" / "again.py"


def again(folder: Path, tests: str, failed: list[str]) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q\n")
    (folder / "test_some.py").write_text(tests)
    cache = folder / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(failed, True)))
    return subprocess.run([sys.executable, AGAIN], cwd=folder, capture_output=True, text=True, check=False)


def test_failed_test_that_passes_alone_is_reported(tmp_path: Path) -> None:
    done = again(tmp_path, "def test_one(): pass\ndef test_two(): assert False\n", ["test_some.py::test_one"])
    assert done.returncode == 0
    assert "  test_some.py::test_one\n" in done.stdout
    assert "1 passed" in done.stdout
    assert "They passed alone" in done.stdout


def test_test_that_fails_again_is_a_failure(tmp_path: Path) -> None:
    done = again(tmp_path, "def test_one(): assert False\n", ["test_some.py::test_one"])
    assert done.returncode == 1
    assert "passed alone" not in done.stdout


def test_failed_group_of_rows_is_rerun_with_its_table(tmp_path: Path) -> None:
    table = "import pytest\n@pytest.mark.parametrize('number', range(5))\ndef test_one(number): pass\n"
    done = again(tmp_path, table, ["test_some.py::test_one[rows 1 to 3]", "test_some.py::test_one[rows 4 to 5]"])
    assert done.returncode == 0
    assert "  test_some.py::test_one\n" in done.stdout
    assert "5 passed" in done.stdout


def test_many_failures_are_not_rerun(tmp_path: Path) -> None:
    tests = "".join(f"def test_{number}(): pass\n" for number in range(6))
    done = again(tmp_path, tests, [f"test_some.py::test_{number}" for number in range(6)])
    assert (done.returncode, done.stdout) == (1, "")


def test_failed_run_without_a_failed_test_is_a_failure(tmp_path: Path) -> None:
    assert again(tmp_path, "", []).returncode == 1
