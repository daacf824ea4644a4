"""Holds the conversation of `test_real_clients` through the Python SDK; run with it on the path.

`python python_sdk.py FOLDER COMMAND...` prints one JSON object with what the client saw.
"""

import asyncio
import json
import sys
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

ANSWERS = {"edit": "once", "execute": "deny"}


class Recorder:
    def __init__(self) -> None:
        self.text = ""
        self.kinds: list[str] = []
        self.diffs: list[list[str]] = []
        self.spoke = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.kinds.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text
            self.spoke.set()
        for item in getattr(update, "content", None) or [] if "tool_call" in update.session_update else []:
            if item.type == "diff":
                self.diffs.append([item.old_text, item.new_text])

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        outcome = AllowedOutcome(outcome="selected", option_id=ANSWERS[tool_call.kind])
        return RequestPermissionResponse(outcome=outcome)


async def main() -> None:
    folder, command = sys.argv[1], sys.argv[2:]
    client = Recorder()
    replies: list[list[str]] = []
    async with spawn_agent_process(client, command[0], *command[1:]) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        session_id = session.session_id

        async def prompt(words: str) -> None:
            client.text = ""
            result = await agent.prompt(session_id=session_id, prompt=[text_block(words)])
            replies.append([result.stop_reason, client.text])

        for words in ("edit it", "make a file", "tell me"):
            await prompt(words)
        client.spoke.clear()
        running = asyncio.ensure_future(prompt("work"))
        await client.spoke.wait()
        await agent.cancel(session_id=session_id)
        await running
    found = {"said": replies, "diffs": client.diffs, "kinds": sorted(set(client.kinds))}
    sys.stdout.write(json.dumps(found))


asyncio.run(main())
