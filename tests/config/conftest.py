"""Fixtures of the configuration tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.folders import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)
