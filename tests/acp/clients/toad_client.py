"""Holds the conversation of `test_real_clients` through the client of Toad, without its screens.

`python toad_client.py FOLDER COMMAND...` prints one JSON object with what the client saw.
"""

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from toad.acp import messages
from toad.acp.agent import Agent
from toad.agent import AgentFail, AgentReady
from toad.answer import Answer

ANSWERS = {"edit": "once", "execute": "deny"}


class Screen:
    """Takes the place of Toad's conversation widget: keeps the messages and answers permission requests."""

    def __init__(self) -> None:
        self.text = ""
        self.kinds: set[str] = set()
        self.diffs: list[list[str]] = []
        self.failures: list[str] = []
        self.ready = asyncio.Event()
        self.spoke = asyncio.Event()

    def call_later(self, callback: Any, *args: Any) -> None:
        """Toad logs every message in this way."""

    def post_message(self, message: Any) -> bool:
        match message:
            case AgentReady():
                self.ready.set()
            case AgentFail():
                self.failures.append(f"{message.message}: {message.details}")
            case messages.Update():
                self.text += message.text
                self.kinds.add("agent_message_chunk")
                self.spoke.set()
            case messages.ToolCall():
                self.kinds.add("tool_call")
            case messages.ToolCallUpdate():
                self.kinds.add("tool_call_update")
                self._see(message.tool_call)
            case messages.AvailableCommandsUpdate():
                self.kinds.add("available_commands_update")
            case messages.RequestPermission():
                self._see(message.tool_call)
                message.result_future.set_result(Answer("", ANSWERS[message.tool_call["kind"]]))
        return True

    def _see(self, call: Any) -> None:
        found = [one for one in call.get("content") or [] if one["type"] == "diff"]
        self.diffs += [[one.get("oldText"), one["newText"]] for one in found]


async def main() -> None:
    folder, command = sys.argv[1], shlex.join(sys.argv[2:])
    data: Any = {"name": "qcode", "identity": "qcode", "short_name": "qcode", "run_command": {"*": command}}
    agent, screen = Agent(Path(folder), data, None), Screen()
    replies: list[list[str | None]] = []
    await agent.start(screen)
    await screen.ready.wait()

    async def prompt(words: str) -> None:
        screen.text = ""
        stop = await agent.send_prompt(words)
        replies.append([stop, screen.text])

    for words in ("edit it", "make a file", "tell me"):
        await prompt(words)
    screen.spoke.clear()
    running = asyncio.ensure_future(prompt("work"))
    await screen.spoke.wait()
    await agent.cancel()
    await running
    await agent.stop()
    found = {"said": replies, "diffs": screen.diffs, "kinds": sorted(screen.kinds), "failures": screen.failures}
    sys.stdout.write(json.dumps(found))


asyncio.run(main())
