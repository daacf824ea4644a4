"""Commands made at random from the table: none that is allowed writes, connects, or reads a protected file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.safety.shell.fuzz import Commands, hunt, make_repository
from tests.safety.shell.strace import require_strace

SEED = 11


@pytest.mark.parametrize("count", [50, pytest.param(2_000, marks=pytest.mark.broad)])
def test_allowed_command_reads_only_permitted_files(tmp_path: Path, count: int) -> None:
    require_strace()
    scratch = make_repository(tmp_path / "scratch")
    findings, ran = hunt(scratch, iter(Commands(SEED)), count)
    assert findings == []
    assert ran >= count // 20
