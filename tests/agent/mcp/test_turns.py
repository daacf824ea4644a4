"""A conversation with tool servers: a turn waits for them, continues without them, and can be interrupted meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from qcode.agent.conversation import Conversation
from qcode.agent.mcp.servers import Servers
from qcode.protocol.approvals import Allow, Answer, CallApproval, Decision, Deny, Question, ToolApproval
from qcode.protocol.events import ApprovalRequested, ToolFinished, TurnEnded, TurnEvent
from qcode.protocol.messages import Text
from qcode.protocol.reply import Outcome
from qcode.tui.panels.choices import question_with_asker
from tests.agent.mcp.serving import ServerFolders, until
from tests.fakes.conversation import open_conversation
from tests.fakes.scripted import Reply, ScriptedProvider, call_reply, text_reply


def talk(folders: ServerFolders, servers: Servers, *replies: Reply) -> tuple[Conversation, ScriptedProvider]:
    it = open_conversation(folders.base, ScriptedProvider(replies), servers=servers)
    return it.conversation, it.provider


def test_call_asks_with_its_arguments_and_a_rule_and_then_runs(tmp_path: Path) -> None:
    folders = ServerFolders(tmp_path)
    servers = folders.servers(folders.spec())
    call = call_reply("fake__add", {"a": 40, "b": 2})
    conversation, provider = talk(folders, servers, call, call, text_reply("Done."))
    asked: list[CallApproval] = []

    async def body() -> list[TurnEvent]:
        events = []
        async for event in conversation.submit("add"):
            events.append(event)
            if isinstance(event, ApprovalRequested):
                asked.append(event.approval)
                conversation.answer(event.approval.id, Allow("session"))
        await conversation.close()
        return events

    events = asyncio.run(body())
    (request,) = asked
    assert isinstance(request, ToolApproval)
    assert (request.question, request.rule) == ("Run the tool add of the server fake?", "mcp(fake/add)")
    assert '"a": 40' in request.detail
    results = [event.outcome.content for event in events if isinstance(event, ToolFinished)]
    assert [result.split()[0] for result in results] == ["42", "42"]
    assert provider.requests[0].tools[-1].name.startswith("fake__")
    assert provider.requests[0].tools == provider.requests[-1].tools


FORM = {
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


@pytest.mark.parametrize(
    ("decision", "says"),
    [(Answer("Jo"), '{"action": "accept", "content": {"name": "Jo"}}'), (Deny(), '{"action": "cancel"}')],
)
def test_question_of_a_server_is_asked_in_the_turn(decision: Decision, says: str, tmp_path: Path) -> None:
    folders = ServerFolders(tmp_path)
    servers = folders.servers(folders.spec())
    provider = ScriptedProvider([call_reply("fake__ask", {"params": FORM}), text_reply("Done.")])
    conversation = open_conversation(folders.base, provider, servers=servers, is_attended=True).conversation
    asked: list[Question] = []

    async def body() -> list[TurnEvent]:
        events = []
        async for event in conversation.submit("ask"):
            events.append(event)
            if isinstance(event, ApprovalRequested) and isinstance(event.approval, Question):
                asked.append(event.approval)
                conversation.answer(event.approval.id, decision)
                conversation.answer(event.approval.id, Answer("twice"))
            elif isinstance(event, ApprovalRequested):
                conversation.answer(event.approval.id, Allow())
        await conversation.close()
        return events

    events = asyncio.run(body())
    assert [event.outcome.content for event in events if isinstance(event, ToolFinished)] == [says]
    (question,) = asked
    assert (question.server, question.question) == ("fake", "Who?")
    assert question_with_asker(question) == "The tool server fake asks: Who?"
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].outcome is Outcome.END_TURN


def test_turn_cancelled_while_servers_start_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = ServerFolders(tmp_path)
    servers = folders.servers(folders.spec(kind="silent", startup_timeout_s=10_000))
    monkeypatch.setattr(servers, "wait_until_started", lambda: Servers.wait_until_started(servers, 10_000))
    conversation, provider = talk(folders, servers, text_reply("Never."))
    events: list[TurnEvent] = []

    async def body() -> None:
        async def turn() -> None:
            async for event in conversation.submit("go"):
                events.append(event)

        playing = asyncio.ensure_future(turn())
        await until(lambda: folders.begun() == 1)
        conversation.cancel()
        await playing
        await conversation.close()

    asyncio.run(body())
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].outcome is Outcome.CANCELLED
    assert provider.requests == []


def test_mcp_package_is_not_loaded_before_a_server_starts(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[mcp_servers.x]\ncommand = "x"\n')
    program = (
        f"import os, sys; os.environ['QCODE_HOME'] = {str(tmp_path)!r}; os.chdir({str(tmp_path)!r})\n"
        "from qcode.cli.arguments import parse\nfrom qcode.cli.context import run_context\n"
        "from qcode.agent.agent import Agent\n"
        "from pathlib import Path\n"
        "ready = Agent.begin(run_context(parse(['-m', 'demo/demo', '--trust']), Path.cwd(), is_attended=True))\n"
        "assert ready.servers.statuses()[0].name == 'x'\n"
        "heavy = ('mcp', 'mcp_types', 'anyio', 'pydantic', 'httpx2')\n"
        "loaded = [name for name in sys.modules if name.split('.')[0] in heavy]\n"
        "ready.conversation.release()\nassert loaded == [], loaded"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_resource_in_a_steering_message_joins_the_turn(tmp_path: Path) -> None:
    folders = ServerFolders(tmp_path)
    servers = folders.servers(folders.sdk_spec("memo"), folders.spec())
    provider = ScriptedProvider([call_reply("fake__add", {"a": 1, "b": 2}), text_reply("Done.")])
    conversation = open_conversation(folders.base, provider, servers=servers, is_attended=True).conversation

    async def body() -> None:
        async for event in conversation.submit("add"):
            if isinstance(event, ApprovalRequested):
                conversation.steer("then see @memo:memo://today")
                conversation.steer("and stop")
                await until(
                    lambda: not [one for one in asyncio.all_tasks() if "ServerMentions._steer" in repr(one.get_coro())]
                )
                conversation.answer(event.approval.id, Allow("session"))
        await conversation.close()

    asyncio.run(body())
    blocks = [
        block.text for message in provider.requests[-1].messages for block in message.blocks if isinstance(block, Text)
    ]
    place = blocks.index("then see @memo:memo://today")
    assert "buy milk" in blocks[place - 1]
    assert blocks.index("and stop") > place
