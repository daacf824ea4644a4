"""The target of a name may change between verdict and opening. No file is reached that was not judged or shown."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qcode.protocol.approvals import CallApproval
from qcode.protocol.events import ToolStarted, TurnEvent
from qcode.tools import disk
from tests.safety.hostile.attempts import Attempt
from tests.safety.hostile.canaries import MARK, CanaryFolders, make_canaries
from tests.safety.hostile.conversation import play
from tests.safety.hostile.file_attacks import patched

Swap = Callable[[CanaryFolders], None]


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CanaryFolders:
    canaries = make_canaries(tmp_path / "canaries")
    monkeypatch.setenv("HOME", str(canaries.home))
    return canaries


def linked(name: str, target: str) -> Swap:
    """Return a function that puts a link to `target` in the place of a file or folder of the workspace."""

    def swap(canaries: CanaryFolders) -> None:
        (canaries.work / name).rename(canaries.base / "moved")
        (canaries.work / name).symlink_to(canaries.fill(target))

    return swap


def second_name(name: str, target: str) -> Swap:
    def swap(canaries: CanaryFolders) -> None:
        (canaries.work / name).unlink()
        os.link(canaries.fill(target), canaries.work / name)

    return swap


SWAPS = {
    "a secret": linked("src/app.py", "{work}/.env"),
    "a place outside": linked("src/app.py", "{outside}/data.txt"),
    "credentials": linked("src/app.py", "{home}/.ssh/id_rsa"),
    "a folder outside": linked("src", "{outside}"),
    "a second name": second_name("src/app.py", "{work}/.env"),
}
READS = (
    Attempt("reads", "read", {"path": "src/app.py"}),
    Attempt("reads", "grep", {"path": "src/app.py", "pattern": "."}),
    Attempt("reads", "grep", {"path": "src", "pattern": MARK, "context": 2}),
)


@pytest.mark.parametrize("swap", SWAPS.values(), ids=list(SWAPS))
@pytest.mark.parametrize("attempt", READS, ids=["read", "grep a file", "grep a folder"])
def test_file_swapped_after_the_verdict_is_not_read(attempt: Attempt, swap: Swap, canaries: CanaryFolders) -> None:
    swapped: list[bool] = []

    def on_event(event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            swap(canaries)
            swapped.append(True)

    played = play(canaries, [attempt], "default", on_event=on_event)
    assert swapped == [True]
    assert f"{MARK}-" not in played.sent


WRITES = {
    "write": {"path": "src/util.py", "content": "x\n"},
    "edit": {"path": "src/util.py", "old_text": "VALUE", "new_text": "x"},
    "apply_patch": patched("*** Update File: src/util.py", "@@", "-VALUE = 1", "+x"),
}
TARGETS = {
    "instructions": linked("src/util.py", "{work}/AGENTS.md"),
    "a secret": linked("src/util.py", "{work}/.env"),
    "another file": linked("src/util.py", "{work}/src/app.py"),
    "a place outside": linked("src/util.py", "{outside}/data.txt"),
    "a new steering file": linked("src/util.py", "{work}/.qcode/new.toml"),
    "the hooks of git": linked("src/util.py", "{work}/.git/hooks/pre-commit"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tool", WRITES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["default", "accept-edits"])
def test_approval_covers_only_the_file_that_was_shown(
    mode: str, target: str, tool: str, canaries: CanaryFolders
) -> None:
    swapped: list[dict[str, str]] = []

    def swap() -> bool:
        TARGETS[target](canaries)
        swapped.append(canaries.photograph())
        return True

    def on_event(event: TurnEvent) -> None:
        if mode == "accept-edits" and isinstance(event, ToolStarted) and event.call.name == tool:
            swap()

    def says_yes(asked: CallApproval) -> bool:
        return swap()

    calls = [Attempt("reads", "read", {"path": "src/util.py"}), Attempt("edits", tool, WRITES[tool])]
    play(canaries, calls, "default" if mode == "default" else "accept-edits", says_yes=says_yes, on_event=on_event)
    assert len(swapped) == 1
    assert canaries.photograph() == swapped[0]


@pytest.mark.parametrize("swap", SWAPS.values(), ids=list(SWAPS))
def test_file_swapped_while_opening_is_not_followed(
    swap: Swap, canaries: CanaryFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, swapped = disk.open_folder, []

    @contextlib.contextmanager
    def open_folder(root: Path, parts: tuple[str, ...], *, creates: bool = False) -> Iterator[int]:
        swap(canaries)
        swapped.append(True)
        with real(root, parts, creates=creates) as descriptor:
            yield descriptor

    monkeypatch.setattr(disk, "open_folder", open_folder)
    played = play(canaries, [READS[0]], "default")
    assert swapped == [True]
    assert f"{MARK}-" not in played.sent


def test_call_that_was_impossible_when_judged_does_not_run_later_unasked(canaries: CanaryFolders) -> None:
    (canaries.work / "src/later.py").write_text("there already")

    def on_event(event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            (canaries.work / "src/later.py").unlink()

    call = {"path": "src/later.py", "content": "x"}
    played = play(canaries, [Attempt("edits", "write", call)], "default", on_event=on_event)
    assert not played.asked
    assert not (canaries.work / "src/later.py").exists()
    assert "has not been read" in played.sent
