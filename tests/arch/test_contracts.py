from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.arch.sources import PRODUCT, ROOT

ROOMS = [
    "cli",
    "tui",
    "headless",
    "acp",
    "agent",
    "engine",
    "providers",
    "tools",
    "safety",
    "config",
    "protocol",
    "text",
]


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contracts of `root` as `make arch` does."""
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([str(program), "--no-cache"], cwd=root, capture_output=True, text=True, timeout=100)


def test_import_contracts_are_kept() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_layers_list_every_room_in_order() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    named = [name.strip().removeprefix("qcode.") for layer in layers for name in layer.split("|")]
    assert named == ROOMS


def test_contracts_cover_every_room() -> None:
    packages = {path.parent.name for path in PRODUCT.glob("*/__init__.py")}
    assert packages <= set(ROOMS)


@pytest.mark.parametrize(
    "line",
    ["import qcode.tui", "import qcode.engine", "import asyncio"],
    ids=["upwards", "on the same level", "not pure"],
)
def test_contract_is_broken_by_a_forbidden_import(line: str, tmp_path: Path) -> None:
    for room in ROOMS:
        folder = tmp_path / "qcode" / room
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
    (tmp_path / "qcode" / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    assert check(tmp_path).returncode == 0
    guilty = "engine" if line == "import asyncio" else "providers"
    (tmp_path / "qcode" / guilty / "__init__.py").write_text(line + "\n")
    assert check(tmp_path).returncode == 1
