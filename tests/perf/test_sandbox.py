"""What starting a command behind walls costs, against bubblewrap alone."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from qcode.safety.sandbox.confinement import Confinement
from qcode.safety.sandbox.finding import find_sandbox

pytestmark = pytest.mark.perf
ALONE = ["/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "/bin/true"]


def seconds(commands: Sequence[Sequence[str]], rounds: int = 40) -> list[float]:
    """Return the median time of each command; they take turns, so that a busy machine is busy for all of them."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(rounds):
        for taken, command in zip(times, commands, strict=True):
            begun = time.perf_counter()
            subprocess.run(command, check=True)
            taken.append(time.perf_counter() - begun)
    return [statistics.median(taken) for taken in times]


def test_a_confined_command_starts_within_twice_the_time_of_bubblewrap_alone(tmp_path: Path) -> None:
    sandbox = find_sandbox(allows=("bubblewrap",))
    if sandbox is None:
        pytest.skip("bubblewrap does not work on this machine")
    confinement = Confinement(visible=(tmp_path,), writable=(tmp_path,), hidden=(Path("/root"),))
    alone, ours = seconds([ALONE, sandbox.wrap(["/bin/true"], confinement)])
    sys.stdout.write(f"\nconfined by bubblewrap: {ours / alone:.2f} x bubblewrap alone (bar 2)")
    assert ours <= 2 * alone


def test_landlock_is_of_the_order_of_bubblewrap(tmp_path: Path) -> None:
    """Starting an interpreter alone is most of it, so the bar of 2 is out of its reach: the number is printed."""
    sandbox = find_sandbox(allows=("landlock",))
    if sandbox is None or find_sandbox(allows=("bubblewrap",)) is None:
        pytest.skip("Landlock and bubblewrap do not both work on this machine")
    alone, ours = seconds([ALONE, sandbox.wrap(["/bin/true"], Confinement(visible=(tmp_path,)))])
    sys.stdout.write(f"\nconfined by Landlock: {ours / alone:.2f} x bubblewrap alone")
    assert ours <= 5 * alone
