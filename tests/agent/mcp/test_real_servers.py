"""Public servers of other people, installed in the folder that `QCODE_MCP_SERVERS` names; skipped without it.

`npm i @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
@modelcontextprotocol/server-memory` there, and `pip install mcp-server-time mcp-server-fetch` into its `venv`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from qcode.agent.mcp.spec import ServerSpec
from qcode.config.settings import McpServer
from qcode.text.json import JsonObject
from tests.agent.mcp.serving import ServerFolders, call, open_servers, texts

INSTALLED = Path(os.environ.get("QCODE_MCP_SERVERS", "/nonexistent"))
NPM, PIP = INSTALLED / "node_modules/.bin", INSTALLED / "venv/bin"


@pytest.mark.broad
@pytest.mark.parametrize(
    ("program", "args", "tool", "arguments", "says"),
    [
        (NPM / "mcp-server-everything", (), "echo", {"message": "hi"}, "Echo: hi"),
        (NPM / "mcp-server-filesystem", (".",), "read_text_file", {"path": "a.txt"}, "hello"),
        (NPM / "mcp-server-memory", (), "read_graph", {}, '"entities": []'),
        (PIP / "mcp-server-time", (), "get_current_time", {"timezone": "UTC"}, '"timezone": "UTC"'),
        (PIP / "mcp-server-fetch", (), "fetch", {"url": "nowhere"}, "valid URL"),
    ],
    ids=["everything", "filesystem", "memory", "time", "fetch"],
)
def test_public_server_lists_and_runs_its_tools(
    program: Path, args: tuple[str, ...], tool: str, arguments: JsonObject, says: str, tmp_path: Path
) -> None:
    if not program.exists():
        pytest.skip(f"{program.name} is not installed: set QCODE_MCP_SERVERS to a folder with it")
    folders = ServerFolders(tmp_path)
    (folders.work / "a.txt").write_text("hello")
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    spec = ServerSpec("real", McpServer(str(program), args, env), "own", "config.toml:1")

    async def body() -> None:
        async with open_servers(folders.servers(spec)) as servers:
            assert servers.statuses()[0].state == "ready", texts(servers)
            assert says in (await call(servers, f"real__{tool}", arguments)).content

    asyncio.run(body())
