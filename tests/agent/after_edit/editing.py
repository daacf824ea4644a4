"""A scripted conversation whose edits are checked by the fake language server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from qcode.agent.after_edit.session import AfterEdit
from qcode.agent.options import Options, RunContext
from qcode.protocol.approvals import Allow
from qcode.protocol.events import ApprovalRequested, ToolFinished, TurnEvent
from qcode.protocol.messages import ToolResult
from qcode.tools.workspace import Workspace
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import call_reply, text_reply

SERVER = Path(__file__).parents[2] / "fakes" / "language_server.py"
DONE = text_reply("Done.")


def fake_server(*options: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(SERVER), *options]


def write(content: str, path: str = "a.fake") -> Any:
    return call_reply("write", {"path": path, "content": content})


def edit(old: str, new: str, path: str = "a.fake") -> Any:
    return call_reply("edit", {"path": path, "old_text": old, "new_text": new})


READ = call_reply("read", {"path": "a.fake"})


class Editing:
    """A conversation with `settings` of `[after_edit]`; the fake server checks `*.fake` without a sandbox."""

    def __init__(self, base: Path, *replies: Sequence[object], server: list[str] | None = None, **more: Any) -> None:
        settings = {"diagnostics": True, "servers": {"fake": fake_server() if server is None else server}}
        settings |= more.pop("settings", {})
        self.made: list[AfterEdit] = []
        work = base / "work"
        work.mkdir(parents=True, exist_ok=True)
        env = {"QCODE_HOME": str(base), "HOME": str(base), "PATH": more.pop("path", "/usr/bin:/bin")}
        options = Options(cwd=work, trust=True, settings={"after_edit": settings})
        context = RunContext.read(options, env, is_attended=False)

        def after_edit(workspace: Workspace) -> AfterEdit:
            self.made.append(AfterEdit(context, workspace, None))
            return self.made[-1]

        more.setdefault("mode", "accept-edits")
        self.it: Talk = talk(base, *replies, after_edit=after_edit, **more)
        self.work = work

    async def play(self, prompt: str = "go", on_event: Callable[[TurnEvent], None] = lambda _: None) -> list[TurnEvent]:
        return await self.it.play(prompt, on_event)

    def run(self, prompts: int = 1, *, on_event: Callable[[TurnEvent], None] = lambda _: None) -> list[ToolFinished]:
        """Play the prompts, close the conversation, and return the results of all calls."""

        async def played() -> list[TurnEvent]:
            events: list[TurnEvent] = []
            try:
                for _ in range(prompts):
                    events += await self.play(on_event=on_event)
            finally:
                await self.it.conversation.close()
            return events

        self.events = asyncio.run(played())
        return [event for event in self.events if isinstance(event, ToolFinished)]

    def allow(self, event: TurnEvent) -> None:
        """Allow every call that asks."""
        if isinstance(event, ApprovalRequested):
            self.it.conversation.answer(event.approval.id, Allow())

    @property
    def told(self) -> list[str]:
        """The results as the model got them."""
        messages = self.it.conversation.messages
        return [block.content for message in messages for block in message.blocks if isinstance(block, ToolResult)]
