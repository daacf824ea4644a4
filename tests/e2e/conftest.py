"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.running import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
