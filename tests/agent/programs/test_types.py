"""The types of the public API: a program under strict type checkers, which also runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qcode

ROOT = Path(__file__).parents[3]
CONSUMER = Path(__file__).parent / "consumer.py"
PYRIGHT = "pyright==1.1.414"


def test_typed_program_runs(tmp_path: Path) -> None:
    """mypy checks it with the tests, in `make types`."""
    env = {**os.environ, "QCODE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(CONSUMER)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install pyright and return its folder; without a network or node it is skipped."""
    folder = tmp_path_factory.mktemp("pyright")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), PYRIGHT]
    if subprocess.run(pip, capture_output=True, timeout=200).returncode:
        pytest.skip("pyright cannot be installed")
    if run(folder, "--version").returncode:
        pytest.skip("pyright cannot be started")
    return folder


def run(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run pyright; `path` is a further folder of packages."""
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{path}"}
    command = [sys.executable, "-m", "pyright", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.broad
@pytest.mark.timeout(400)
def test_strict_pyright_finds_no_error_in_the_program(pyright: Path, tmp_path: Path) -> None:
    config = {"include": [str(CONSUMER)], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    done = run(pyright, "--project", str(tmp_path), "--pythonpath", sys.executable)
    assert done.returncode == 0, done.stdout


@pytest.mark.broad
@pytest.mark.timeout(400)
def test_members_of_public_names_are_annotated(pyright: Path, tmp_path: Path) -> None:
    (tmp_path / "qcode").symlink_to(ROOT / "qcode")
    done = run(pyright, "--verifytypes", "qcode", "--ignoreexternal", "--outputjson", path=str(tmp_path))
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    homes = {f"{getattr(qcode, name).__module__}.{name}" for name in qcode.__all__ if name != "__version__"}
    public = [one for one in symbols if one["name"] in homes or one["name"].rpartition(".")[0] in homes]
    assert len(public) > len(homes)
    messages = [diagnostic["message"] for one in public for diagnostic in one["diagnostics"]]
    assert [message for message in messages if "missing type annotation" in message] == []
