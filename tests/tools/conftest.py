"""A workspace on the real disk, and a short way to call a tool in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from qcode.protocol.tools import ToolOutcome
from qcode.text.json import Json
from qcode.tools.registry import BUILTIN
from qcode.tools.tool import Preview, Tool, ToolRunContext
from qcode.tools.workspace import Workspace

TOOLS: dict[str, Tool] = {tool.spec.name: tool for tool in BUILTIN}


@dataclass
class ToolRunner:
    workspace: Workspace
    live: list[str] = field(default_factory=list)
    environment: dict[str, str] | None = None
    max_output_chars: int = 30_000
    columns: int | None = None

    @property
    def root(self) -> Path:
        return self.workspace.root

    @property
    def context(self) -> ToolRunContext:
        return ToolRunContext(
            self.live.append,
            environment=self.environment,
            columns=self.columns,
            max_output_chars=self.max_output_chars,
        )

    def run(self, name: str, **arguments: Json) -> ToolOutcome:
        return asyncio.run(TOOLS[name].run(arguments, self.workspace, self.context))

    def preview(self, name: str, **arguments: Json) -> Preview:
        return TOOLS[name].preview(arguments, self.workspace)

    def add(self, path: str, content: str | bytes = "x\n") -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def have_read(self, path: str, content: str | bytes = "x\n") -> Path:
        """Make a file that the model has already read."""
        target = self.add(path, content)
        assert not self.run("read", path=path).is_error
        return target


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[ToolRunner]:
    root = tmp_path / "repo"
    root.mkdir()
    workspace = Workspace(root)
    yield ToolRunner(workspace)
    workspace.close()
