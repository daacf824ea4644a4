"""A machine that can confine commands does: a sandbox that no longer holds must not only skip the other tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qcode.safety.sandbox import detection, landlock
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


CONFINED = "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
FAKE_CAT = """#!/bin/sh
case $1 in
  */seen) echo visible ;;
  /proc/self/status) printf '%s' "$STATUS" ;;
  *) exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("bubblewrap", CONFINED, detection.CONFINED_EXIT_CODE),
        ("bubblewrap", "", 4),
        ("bubblewrap", CONFINED.replace("CapEff:\t0", "CapEff:\t8"), 4),
        ("bubblewrap", CONFINED.replace("CapEff", "CapXxx"), 4),
        ("bubblewrap", CONFINED.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0"), 5),
        ("bubblewrap", CONFINED.replace("NoNewPrivs:\t1\n", ""), 5),
        ("bubblewrap", CONFINED.replace("Seccomp:\t2", "Seccomp:\t0"), 6),
        ("landlock", "", detection.CONFINED_EXIT_CODE),
    ],
)
def test_probe_fails_if_a_restriction_is_missing_or_cannot_be_read(
    tmp_path: Path, kind: str, status: str, code: int
) -> None:
    (tmp_path / "cat").write_text(FAKE_CAT)
    (tmp_path / "cat").chmod(0o755)
    argv = ["/bin/sh", "-c", detection.ATTEMPTS, "probe", f"{tmp_path}/missing", kind]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "STATUS": status}
    assert subprocess.run(argv, env=env, capture_output=True).returncode == code
