"""Skills for tests: files in a home, a configuration and a project, and agents that use them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qcode import Agent, Options
from qcode.agent.skills.discovery import DiscoveredSkills, find_skills, skill_folders
from qcode.agent.trust.store import TrustStore
from qcode.protocol.messages import Message, ToolResult
from qcode.testing import Reply, Scripted


def put(folder: Path, path: str, text: str | None = None, /, *, body: str = "Do it.", **fields: str) -> Path:
    """Write the skill at `path` below `folder`, with these fields or exactly this text; return its folder."""
    if text is None:
        rows = {"name": Path(path).name, "description": f"Does {Path(path).name}.", **fields}
        front = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in rows.items() if value)
        text = f"---\n{front}---\n{body}\n"
    file = folder / path / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file.parent


class Places:
    """A home folder, the user's configuration and a project, all empty."""

    def __init__(self, base: Path) -> None:
        self.home, self.config, self.root = base / "home", base / "config", base / "project"
        for folder in (self.home, self.config, self.root):
            folder.mkdir()

    def find(self, folder: str = ".", *, is_trusted: bool = True, **more: Any) -> DiscoveredSkills:
        return find_skills(
            skill_folders(self.config, self.home, self.root / folder, self.root, reads_project=is_trusted, **more)
        )

    def options(self, replies: Sequence[Reply] = (), **more: Any) -> Options:
        return Options(model=Scripted(list(replies)), cwd=self.root, **{"trust": True, **more})

    def trust(self) -> None:
        TrustStore(self.config / "state").remember(self.root)

    def run(self, *replies: Reply, prompts: Sequence[str] = ("go",), **more: Any) -> Played:
        """Play the prompts with an agent in the project; a model that was asked too much fails the test."""
        options = self.options(replies, **more)

        async def run() -> Played:
            async with Agent.open(options) as agent:
                for prompt in prompts:
                    await agent.run(prompt, check=False)
                return Played(agent, options.model)

        return asyncio.run(run())


class Played:
    """The requests that the model got, and the results of its calls."""

    def __init__(self, agent: Agent, model: Any) -> None:
        self.agent = agent
        self.requests = model.requests
        self.messages: tuple[Message, ...] = agent.conversation.messages
        self.results = results_in(self.messages)


def results_in(messages: Sequence[Message]) -> list[ToolResult]:
    """Return the results of all calls."""
    return [block for message in messages for block in message.blocks if isinstance(block, ToolResult)]
