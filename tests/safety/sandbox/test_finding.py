"""A machine that can confine commands does: a sandbox that no longer holds must not only skip the other tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qcode.safety.sandbox import landlock
from qcode.safety.sandbox.detection import find_sandbox

_BWRAP = Path("/usr/bin/bwrap")


def test_bubblewrap_is_found_if_it_runs_here() -> None:
    command = [str(_BWRAP), "--dev-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true"]
    if not _BWRAP.exists() or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("bubblewrap does not run here")
    found = find_sandbox()
    assert found is not None
    assert found.kind == "bubblewrap"


def test_landlock_is_found_if_the_kernel_has_it() -> None:
    if landlock.version() < landlock.MIN_VERSION:
        pytest.skip("the kernel has no Landlock that forbids truncating")
    found = find_sandbox(allows=("landlock",))
    assert found is not None
    assert found.kind == "landlock"
