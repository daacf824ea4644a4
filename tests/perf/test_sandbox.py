"""Cost of starting a confined command, against bubblewrap alone with the same kinds of namespaces."""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from qcode.agent.sandbox import SessionSandbox
from qcode.protocol.tools import Launch
from qcode.safety.paths import SandboxScope
from qcode.safety.sandbox.detection import Kind, find_sandbox
from qcode.safety.sandbox.index import WorkspaceIndex
from qcode.tools.processes import StandardStreams, popen
from tests.perf.conftest import Bars

pytestmark = pytest.mark.perf
ALONE = ["/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "/bin/true"]


def start(launch: Launch) -> None:
    """Start and await a launch as a command is, without an event loop."""
    codes: list[int] = []

    def run() -> None:
        codes.append(popen(launch, Path("/"), os.environ, StandardStreams(*(subprocess.DEVNULL,) * 3)).wait())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if launch.finish is not None:
        launch.finish()
    assert codes == [0]


def ratio(launch: Callable[[], Launch], rounds: int = 120, alone: Sequence[str] = ALONE) -> float:
    """Return the time of a launch, divided by the time of bubblewrap alone.

    They take turns, and the fastest of each counts: other programs make a start slower, never faster.
    """
    reference = Launch(tuple(alone))
    makers: tuple[Callable[[], Launch], ...] = (lambda: reference, launch)
    times: tuple[list[float], ...] = ([], [])
    for _ in range(rounds):
        for taken, made in zip(times, makers, strict=True):
            begun = time.perf_counter()
            start(made())
            taken.append(time.perf_counter() - begun)
    usual, ours = map(min, times)
    return ours / usual


def session(kind: Kind, root: Path, secrets: int) -> SessionSandbox:
    if find_sandbox(allows=("bubblewrap",)) is None or find_sandbox(allows=(kind,)) is None:
        pytest.skip(f"bubblewrap and {kind} do not both work on this machine")
    for number in range(secrets):
        (root / f"part{number}").mkdir()
        (root / f"part{number}/.env").write_text("KEY=1\n")
    scope = SandboxScope(root, home=Path("/root"), search_path="/usr/bin:/bin")
    return SessionSandbox("auto", scope, lambda: find_sandbox(allows=(kind,)))


@pytest.mark.parametrize(("kind", "bar"), [("bubblewrap", 1.3), ("landlock", 2.0)])
def test_confined_command_starts_almost_as_fast_as_bubblewrap_alone(
    bars: Bars, kind: Kind, bar: float, tmp_path: Path
) -> None:
    confined = session(kind, tmp_path, 2)
    bars.hold(
        f"start of a command that only reads, in {kind}, against bubblewrap alone",
        ratio(lambda: confined.launch("read-only", ["/bin/true"])),
        bar,
    )


def test_workspace_command_starts_almost_as_fast_as_bubblewrap_alone(bars: Bars, tmp_path: Path) -> None:
    confined = session("bubblewrap", tmp_path, 2)
    bars.hold(
        "start of a command in a workspace, against bubblewrap alone",
        ratio(lambda: confined.launch("workspace", ["/bin/true"])),
        1.3,
        known=None if os.geteuid() == 0 else 2.0,  # without root, bwrap makes every mount itself
    )


def test_masking_two_dozen_files_costs_little(bars: Bars, tmp_path: Path) -> None:
    confined = session("bubblewrap", tmp_path, 24)

    def launch() -> Launch:
        return confined.launch("read-only", ["/bin/true"])

    masks = [word for number in range(24) for word in ("--ro-bind", "/dev/null", f"{tmp_path}/part{number}/.env")]
    bars.hold(
        "start of a command with 24 secret files in the workspace, against bubblewrap with the same 24 masks",
        ratio(launch, alone=[*ALONE[:-1], *masks, ALONE[-1]]),
        1.3,
        known=None if os.geteuid() == 0 else 2.0,  # without root, bwrap makes every mount itself, 0.2 ms each
    )
    bars.hold(
        "start of a command with 24 secret files in the workspace, against bubblewrap alone",
        ratio(launch),
        1.3,
        known=None if os.geteuid() == 0 else 4.0,
    )


def test_unchanged_tree_of_3000_folders_is_checked_in_a_few_milliseconds(bars: Bars, tmp_path: Path) -> None:
    for number in range(3_000):
        (tmp_path / f"{number // 100}/{number}").mkdir(parents=True)
    index = WorkspaceIndex([os.path.realpath(tmp_path)])
    index.refresh()
    time.sleep(0.05)  # a folder that changed just now is scanned once more
    index.refresh()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        index.refresh()
        times.append(time.perf_counter() - start)
    bars.hold("a look at an unchanged tree of 3,000 folders", 1_000 * statistics.median(times), 40, "ms")
