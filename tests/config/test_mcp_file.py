"""Files that name tool servers: the JSON of other programs, TOML, and their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qcode.config.definitions import read_mcp_file
from qcode.config.kinds import is_server_name
from qcode.config.settings import McpServer
from qcode.protocol.errors import ConfigError

WHOLE = {
    "git": {"type": "stdio", "command": "git-mcp", "args": ["-v", ""], "env": {"A": "${A}"}, "autoApprove": ["*"]},
    "web": {"type": "http", "url": "https://h/mcp", "headers": {"X": "y"}, "timeout_s": 5, "tools": ["a"]},
    "off": {"command": "x", "args": None, "disabled": True},
}


def written(folder: Path, entries: Any, name: str = ".mcp.json") -> Path:
    file = folder / name
    file.write_text(json.dumps({"mcpServers": entries}))
    return file


def test_json_of_other_programs_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    found, problems = read_mcp_file(file, is_project=True)
    assert problems == ()
    expected: dict[str, Any] = {"is_from_project": True, "file": str(file)}
    assert found["git"] == McpServer("git-mcp", ("-v", ""), {"A": "${A}"}, **expected)
    assert found["web"] == McpServer(url="https://h/mcp", headers={"X": "y"}, tools=("a",), timeout_s=5, **expected)
    assert not found["off"].enabled
    assert not read_mcp_file(file, is_project=False)[0]["git"].is_from_project


def test_toml_server_file_is_read_without_other_tables(tmp_path: Path) -> None:
    file = tmp_path / "servers.toml"
    file.write_text('[mcp_servers.git]\ncommand = "x"\n')
    assert read_mcp_file(file, is_project=False) == ({"git": McpServer("x", file=str(file))}, ())
    file.write_text('model = "a/b"\n[mcp_servers.git]\ncommand = "x"\n')
    with pytest.raises(ConfigError, match="contains model; only"):
        read_mcp_file(file, is_project=False)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"a b": {"command": "x"}}, "letters, digits"),
        ({"a__b": {"command": "x"}}, "letters, digits"),
        ({"a": 1}, "must be an object"),
        ({"a": {}}, "needs either a command or a url"),
        ({"a": {"command": "x", "url": "http://h"}}, "either a command or a url"),
        ({"a": {"command": "x", "headers": {"A": "canary"}}}, "which require a url"),
        ({"a": {"url": "http://h", "env": {"A": "canary"}}}, "which require a command"),
        ({"a": {"url": "ftp://canary"}}, "http://"),
        ({"a": {"type": "websocket", "url": "http://h"}}, "must be stdio, http or sse"),
        ({"a": {"type": "sse", "command": "x"}}, "does not match"),
        ({"a": {"type": "http", "command": "x"}}, "does not match"),
        ({"a": {"command": "x", "env": {"A": 1}}}, "must be a string"),
        ({"a": {"command": "x", "env": "canary"}}, "must be an object"),
        ({"a": {"command": "x\u001b", "args": []}}, "must be a string"),
    ],
)
def test_unusable_entry_is_reported_without_values_and_drops_no_other(entries: Any, says: str, tmp_path: Path) -> None:
    file = written(tmp_path, {"first": {"command": "x"}, **entries, "last": {"url": "https://h/mcp"}})
    for is_project in (True, False):
        found, (text,) = read_mcp_file(file, is_project=is_project)
        assert list(found) == ["first", "last"]
        assert says in text
        assert text.startswith(f"{file}:1: ")
        assert text.endswith("; the server is ignored")
        assert "canary" not in text
        assert "\n" not in text


def test_line_of_an_unusable_entry_is_named(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{"x": {"b": 1},\n "mcpServers": {\n  "a": {"command": "x"},\n  "b": {"env": {"A": 1}}\n}}')
    found, (text,) = read_mcp_file(file, is_project=True)
    assert (list(found), text.startswith(f"{file}:4: ")) == (["a"], True)


def test_only_the_first_hundred_servers_are_used(tmp_path: Path) -> None:
    found, (text,) = read_mcp_file(written(tmp_path, {f"s{i}": {"command": "x"} for i in range(101)}), is_project=True)
    assert (len(found), text.endswith("has 101 servers; only the first 100 are used")) == (100, True)


def test_server_with_the_older_transport_is_read(tmp_path: Path) -> None:
    found, _ = read_mcp_file(written(tmp_path, {"a": {"type": "sse", "url": "http://h/sse"}}), is_project=True)
    assert (found["a"].transport, found["a"].url) == ("sse", "http://h/sse")


def test_project_file_is_optional_and_a_named_file_is_not(tmp_path: Path) -> None:
    assert read_mcp_file(tmp_path / ".mcp.json", is_project=True) == ({}, ())
    with pytest.raises(ConfigError, match="No such file"):
        read_mcp_file(tmp_path / "x.json", is_project=False)
    (tmp_path / "x.json").write_text('{"mcpServers": {\n,')
    with pytest.raises(ConfigError, match=r"x\.json:2: not valid JSON"):
        read_mcp_file(tmp_path / "x.json", is_project=False)
    with pytest.raises(ConfigError, match="must be"):
        read_mcp_file(written(tmp_path, []), is_project=True)


@pytest.mark.parametrize("name", ["a", "git-hub", "a_b", "A1"])
def test_valid_server_name_is_accepted(name: str) -> None:
    assert is_server_name(name)


@pytest.mark.parametrize("name", ["", "_a", "a_", "a__b", "a.b", "a/b", "ä", "x" * 31, "a\n"])
def test_invalid_server_name_is_refused(name: str) -> None:
    assert not is_server_name(name)
