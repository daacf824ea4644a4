"""One-way tools from a file, and the errors of invalid files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.programs.exit_tools import read_exit_tools
from qcode.protocol.errors import QcodeError


def written(base: Path, value: Any) -> Path:
    path = base / "tools.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def test_exit_tool_is_offered_and_never_run(tmp_path: Path) -> None:
    rows = [{"name": "report", "description": "d", "parameters": {"properties": {"x": {}}}}, {"name": "done"}]
    report, done = read_exit_tools(written(tmp_path, rows))
    assert report.is_one_way
    assert done.is_one_way
    assert report.parameters == {"type": "object", "properties": {"x": {}}}
    assert done.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        ({"name": "a"}, "a JSON list"),
        (["a"], '"name"'),
        ([{"name": ""}], '"name"'),
        ([{"name": "a b"}], "is not a valid name"),
        ([{"name": "x" * 65}], "is not a valid name"),
        ([{"name": "read"}], "already used"),
        ([{"name": "agent"}], "already used"),
        ([{"name": "a"}, {"name": "a"}], "already used"),
        ([{"name": "a", "description": 1}], "description"),
        ([{"name": "a", "parameters": []}], "parameters"),
        ([{"name": "a", "parameters": {"type": "string"}}], "parameters"),
    ],
)
def test_invalid_exit_tools_are_reported(value: Any, part: str, tmp_path: Path) -> None:
    with pytest.raises(QcodeError, match="--exit-tools") as raised:
        read_exit_tools(written(tmp_path, value))
    assert part in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 42


def test_missing_exit_tools_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(QcodeError, match="No such file") as raised:
        read_exit_tools(tmp_path / "none.json")
    assert raised.value.exit_code == 42
