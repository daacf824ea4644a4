"""The tool servers of a session, with a fake server as a real process and temporary folders."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qcode.agent.mcp.context import ServerContext
from qcode.agent.mcp.pins import Pins
from qcode.agent.mcp.servers import Servers
from qcode.agent.mcp.spec import ServerSpec
from qcode.config.settings import McpServer
from qcode.protocol.approvals import Ask
from qcode.protocol.tools import ToolOutcome
from qcode.text.json import JsonObject
from tests.fakes import warm_tool_server

ROOT = Path(__file__).parents[3]


@dataclass
class ServerFolders:
    """Folders for servers: `state` controls the fake one, `home` stores approvals, `work` is the workspace."""

    base: Path

    def __post_init__(self) -> None:
        for folder in (self.state, self.home, self.work):
            folder.mkdir()

    @property
    def state(self) -> Path:
        return self.base / "state"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def work(self) -> Path:
        return self.base / "work"

    @property
    def pins(self) -> Pins:
        return Pins(self.home)

    def spec(self, name: str = "fake", kind: str = "", **changes: Any) -> ServerSpec:
        module = ("-W", "ignore", "-m", "tests.fakes.tool_server")
        return self._spec(name, sys.executable, *module, *([kind] if kind else []), **changes)

    def sdk_spec(self, name: str = "fake", **changes: Any) -> ServerSpec:
        """Return a server written with the `mcp` package, as a fork of an interpreter that has loaded it."""
        return self._spec(name, *warm_tool_server.command(), **changes)

    def _spec(self, name: str, program: str, *words: str, **changes: Any) -> ServerSpec:
        env = {"TOOL_SERVER_STATE": str(self.state), "PYTHONPATH": os.pathsep.join(sys.path)}
        config = McpServer(program, words, env)
        return ServerSpec(name, replace(config, **changes), "own", "config.toml:1")

    def servers(self, *specs: ServerSpec, env: Mapping[str, str] | None = None, **options: Any) -> Servers:
        place = ServerContext(self.work, {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "canary", **(env or {})})
        return Servers(specs, self.pins, place, **{"is_trusted": True, **options})

    def begun(self) -> int:
        """Return how often the fake server was started."""
        file = self.state / "starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def pids(self) -> list[int]:
        return [int(line) for line in (self.state / "starts").read_text().split()]


@asynccontextmanager
async def open_servers(servers: Servers, *, is_attended: bool = True) -> AsyncIterator[Servers]:
    """Start them, wait until they have started, and end them."""
    try:
        if is_attended:
            servers.start(lambda: None)
        await servers.wait_until_started(60)
        yield servers
    finally:
        await servers.close()


async def call(
    servers: Servers,
    name: str,
    arguments: JsonObject | None = None,
    *,
    folder: Path | None = None,
    limit: int = 30_000,
    output: Callable[[str], None] = lambda text: None,
    ask: Ask | None = None,
) -> ToolOutcome:
    def kept() -> Path:
        assert folder is not None, "nothing should have to be kept"
        return folder

    return await servers.run(name, arguments or {}, output, limit, kept, ask)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a state; the time limit of the test ends the wait otherwise."""
    while not holds():
        await asyncio.sleep(0.01)


def names(servers: Servers) -> list[str]:
    return [spec.name for spec in servers.specs()]


def texts(servers: Servers) -> str:
    """Return the notices without those about waiting, which depend on the speed of the machine."""
    return "\n".join(notice.text for notice in servers.take_notices() if notice.level != "info")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def listening(command: list[str], port: int, env: Mapping[str, str]) -> Iterator[None]:
    """Run a server of other people until it listens on a port, and end it afterwards."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        lines: list[bytes] = []
        reading = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
        reading.start()
        try:
            until = time.monotonic() + 30
            while not _accepts(port):
                assert process.poll() is None, b"".join(lines).decode()
                assert time.monotonic() < until, b"".join(lines).decode()
                time.sleep(0.05)
            yield
        finally:
            process.kill()
            reading.join()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
