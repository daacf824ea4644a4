"""Folders for sandboxes under test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcode.safety.sandbox.detection import find_sandbox
from tests.safety.sandbox.running import WORKING, Box

_REPOSITORY = Path(__file__).parents[3]
_COVERED = ("/run", "/tmp", "/var/tmp")  # names of folders, nothing is put there
_PLACES = (_REPOSITORY, Path("/srv"), Path("/opt"), Path("/root"), Path("/home"))


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that no sandbox replaces with a private one; `tmp_path` is in /tmp, which it replaces."""
    place = next((place for place in _PLACES if not is_covered(place) and os.access(place, os.W_OK)), None)
    if place is None:
        pytest.skip("there is no folder to write in but those that a sandbox covers")
    with tempfile.TemporaryDirectory(prefix=".sandbox-test-", dir=place) as folder:
        yield Path(folder)


def is_covered(folder: Path) -> bool:
    return any(folder.is_relative_to(covered) for covered in _COVERED)


@pytest.fixture(params=WORKING or ["none"])
def box(request: pytest.FixtureRequest, base: Path) -> Box:
    """A sandbox of each kind that works here."""
    if request.param == "none":
        pytest.skip("no sandbox works on this machine")
    return Box(WORKING[request.param], base)


@pytest.fixture
def bubble(base: Path) -> Box:
    """The sandbox of bubblewrap that a session would use."""
    sandbox = find_sandbox(allows=("bubblewrap",))
    if sandbox is None:
        pytest.skip("bubblewrap does not work on this machine")
    return Box(sandbox, base)


@pytest.fixture(params=[name for name in WORKING if name.startswith("bubblewrap")] or ["none"])
def every_bubble(request: pytest.FixtureRequest, base: Path) -> Box:
    """A sandbox of bubblewrap in each way that works here."""
    if request.param == "none":
        pytest.skip("bubblewrap does not work on this machine")
    return Box(WORKING[request.param], base)
