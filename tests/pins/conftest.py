"""Fixtures of the pins, and the option that records them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pins.golden import Golden
from tests.pins.runner import PinRunner

OPTION = "--accept-pins"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="record the pins as they are now instead of comparing them")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Record in one process: the shared texts of a protocol are one file."""
    if config.getoption(OPTION, default=False):
        config.option.numprocesses = 0
        config.option.dist = "no"
        config.option.tx = []


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(is_accepting=bool(request.config.getoption(OPTION, default=False)))


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[PinRunner]:
    yield PinRunner(tmp_path)
