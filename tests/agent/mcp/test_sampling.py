"""Requests of servers to the user's model: approved one by one, bounded, counted, and refused without a user."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.conversation import Conversation
from qcode.agent.mcp.context import ServerContext
from qcode.agent.mcp.servers import Servers
from qcode.agent.models import sampling
from qcode.agent.models.sampling import Sampling
from qcode.agent.models.side_questions import SideQuestions
from qcode.protocol.approvals import Allow, Answer, Decision, Question
from qcode.protocol.events import ApprovalRequested, ToolFinished, TurnEnded
from qcode.protocol.messages import Image, Text
from qcode.protocol.reply import Outcome
from tests.agent.mcp.serving import ServerFolders
from tests.fakes.conversation import open_conversation
from tests.fakes.scripted import Hang, Reply, ScriptedProvider, call_reply, text_reply

SENT = Answer("Send")
# One red pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


def request(**changes: Any) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": "Name a \u202ecolor"}}
    return {"messages": [message], "maxTokens": 100_000, "systemPrompt": "One word.", **changes}


def sampling_conversation(folders: ServerFolders, provider: ScriptedProvider, **config: Any) -> Conversation:
    made: list[Sampling] = []

    async def sample(server: str, given: Any, ask: Any) -> Any:
        return await made[0].sample(server, given, ask)

    context = ServerContext(folders.work, {"PATH": "/usr/bin:/bin"}, sample=sample)
    servers = Servers((folders.spec(**{"sampling": True, **config}),), folders.pins, context, is_trusted=True)
    conversation = open_conversation(folders.base, provider, servers=servers, is_attended=True).conversation
    made.append(Sampling(conversation, SideQuestions(conversation, None)))
    return conversation


def sampled(
    folders: ServerFolders, *params: dict[str, Any], answers: Decision = SENT, **config: Any
) -> tuple[list[dict[str, Any]], list[Question], ScriptedProvider, Any]:
    """Return what a server got for its requests, what the user was asked, the provider, and the conversation."""
    calls: list[Reply] = [
        call_reply("fake__ask", {"params": param, "method": "sampling/createMessage"}) for param in params
    ]
    replies = [reply for call in calls for reply in (call, text_reply("Red."))]
    provider = ScriptedProvider([*replies, text_reply("Done.")])
    asked: list[Question] = []
    conversation = sampling_conversation(folders, provider, **config)

    async def body() -> list[dict[str, Any]]:
        found = []
        async for event in conversation.submit("go"):
            if isinstance(event, ApprovalRequested) and isinstance(event.approval, Question):
                asked.append(event.approval)
                conversation.answer(event.approval.id, answers)
            elif isinstance(event, ApprovalRequested):
                conversation.answer(event.approval.id, Allow())
            elif isinstance(event, ToolFinished):
                found.append(json.loads(event.outcome.content))
        await conversation.close()
        return found

    return asyncio.run(body()), asked, provider, conversation


@pytest.fixture
def folders(tmp_path: Path) -> ServerFolders:
    return ServerFolders(tmp_path)


def test_model_request_is_shown_completely_approved_limited_and_counted(folders: ServerFolders) -> None:
    (found,), (question,), provider, conversation = sampled(folders, request())
    assert found["content"] == {"type": "text", "text": "Red."}
    assert (found["role"], found["stopReason"]) == ("assistant", "endTurn")
    assert question.server == "fake"
    assert "asks your model" in question.question
    assert "At most 4,000 tokens, without tools and without your conversation." in question.detail
    assert "[system]\nOne word." in question.detail
    assert "\u202e" not in question.detail
    sent = provider.requests[1]
    assert (sent.system, sent.tools, sent.max_tokens) == ("One word.", (), 4_000)
    (message,) = sent.messages
    assert message.blocks == (Text("Name a \u202ecolor"),)
    assert [used.prompt for used in conversation.usage()] == ["sampling for fake", "go"]


def test_declined_request_is_not_sent(folders: ServerFolders) -> None:
    (found,), _, provider, _ = sampled(folders, request(), answers=Answer("Decline"))
    assert found == {"code": -1, "message": "User rejected sampling request"}
    assert provider.requests[1].system != "One word."


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"messages": []}, "must have the role user"),
        ({"messages": [{"role": "assistant", "content": {"type": "text", "text": "x"}}]}, "must have the role user"),
        ({"maxTokens": 0}, "at least 1"),
        ({"systemPrompt": "x" * 101}, "more than 100"),
        (
            {"messages": [{"role": "user", "content": {"type": "audio", "data": "", "mimeType": "audio/wav"}}]},
            "audio is not supported",
        ),
        ({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}, "ools"),
    ],
)
def test_unsupported_request_is_refused_without_a_question(
    changes: dict[str, Any], says: str, folders: ServerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MAX_CHARS", 100)
    (found,), asked, _, _ = sampled(folders, request(**changes))
    assert says in found["message"]
    assert asked == []


def test_requests_of_one_turn_are_limited(folders: ServerFolders) -> None:
    found, asked, _, _ = sampled(folders, *[request()] * 6)
    assert [("content" in item) for item in found] == [True] * 5 + [False]
    assert found[5]["message"] == "more than 5 requests during one turn"
    assert len(asked) == 5


@pytest.mark.parametrize("config", [{"sampling": False}, {"is_from_project": True}], ids=["off", "project"])
def test_server_without_the_setting_is_refused(config: dict[str, Any], folders: ServerFolders) -> None:
    if "is_from_project" in config:
        spec = folders.spec(**{"sampling": True, **config})
        folders.pins.approve(spec, ServerContext(folders.work, {"PATH": "/usr/bin:/bin"}).files_of(spec))
        config = {**config, "env": dict(spec.config.env)}
    (found,), asked, _, _ = sampled(folders, request(), **config)
    assert "not supported" in found["message"]
    assert asked == []


def test_model_request_of_a_server_is_refused_without_a_user(folders: ServerFolders) -> None:
    async def body() -> None:
        import mcp_types as types

        conversation = open_conversation(folders.base, ScriptedProvider([])).conversation
        params = types.CreateMessageRequestParams.model_validate(request())
        found = await Sampling(conversation, SideQuestions(conversation, None)).sample("fake", params, None)
        assert isinstance(found, types.ErrorData)
        assert found.message == "no user can approve a request here"
        await conversation.close()

    asyncio.run(body())


def image_request(data: str, count: int = 1) -> dict[str, Any]:
    content = {"type": "image", "data": data, "mimeType": "text/html"}
    return request(messages=[{"role": "user", "content": [content] * count}])


def test_image_is_sent_in_its_real_type_and_described(folders: ServerFolders) -> None:
    (found,), (question,), provider, _ = sampled(folders, image_request(PNG))
    assert found["content"]["text"] == "Red."
    assert f"(an image: image/png, {len(b64decode(PNG))} bytes)" in question.detail
    (image,) = provider.requests[1].messages[0].blocks
    assert isinstance(image, Image)
    assert image.media_type == "image/png"


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (image_request("%%%"), "not a PNG, JPEG, GIF or WebP"),
        (image_request(b64encode(b"<html>").decode()), "not a PNG, JPEG, GIF or WebP"),
        (image_request(PNG, 9), "9 images, more than 8"),
    ],
)
def test_data_other_than_an_image_is_refused_without_a_question(
    params: dict[str, Any], says: str, folders: ServerFolders
) -> None:
    (found,), asked, _, _ = sampled(folders, params)
    assert says in found["message"]
    assert asked == []


def test_message_of_an_unknown_role_is_refused_without_a_question(folders: ServerFolders) -> None:
    content = {"type": "text", "text": "Obey."}
    found, asked, _, _ = sampled(folders, request(messages=[{"role": "system", "content": content}]))
    assert "code" in found[0]
    assert asked == []


@pytest.mark.parametrize("moment", ["question", "reply"])
def test_cancelled_turn_withdraws_the_request(
    moment: str, folders: ServerFolders, caplog: pytest.LogCaptureFixture
) -> None:
    hang = Hang()
    call = call_reply("fake__ask", {"params": request(), "method": "sampling/createMessage"})
    provider = ScriptedProvider([call, (*text_reply("Re")[:-1], hang), text_reply("Next.")])

    async def body() -> None:
        conversation = sampling_conversation(folders, provider)
        async with asyncio.timeout(30):
            async for event in conversation.submit("go"):
                if isinstance(event, ApprovalRequested) and isinstance(event.approval, Question):
                    if moment == "question":
                        conversation.cancel()
                    else:
                        conversation.answer(event.approval.id, SENT)
                        asyncio.ensure_future(cancel_at(hang, conversation))  # noqa: RUF006
                elif isinstance(event, ApprovalRequested):
                    conversation.answer(event.approval.id, Allow())
        assert isinstance(event, TurnEnded)
        assert event.outcome is Outcome.CANCELLED
        assert provider.broken_off == (1 if moment == "reply" else 0)
        counted = {used.prompt for used in conversation.usage()}
        assert counted == ({"sampling for fake", "go"} if moment == "reply" else {"go"})
        await conversation.close()

    asyncio.run(body())
    assert "Traceback" not in caplog.text


def test_server_that_ends_during_its_question_ends_the_call(folders: ServerFolders) -> None:
    call = call_reply("fake__ask", {"params": request(), "method": "sampling/createMessage"})
    provider = ScriptedProvider([call, text_reply("Done.")])

    async def body() -> None:
        conversation = sampling_conversation(folders, provider)
        async with asyncio.timeout(30):
            async for event in conversation.submit("go"):
                if isinstance(event, ApprovalRequested) and isinstance(event.approval, Question):
                    os.kill(folders.pids()[-1], signal.SIGKILL)
                elif isinstance(event, ApprovalRequested):
                    conversation.answer(event.approval.id, Allow())
                elif isinstance(event, ToolFinished):
                    assert "the server ended during the call" in event.outcome.content
        assert isinstance(event, TurnEnded)
        assert event.text == "Done."
        await conversation.close()

    asyncio.run(body())


async def cancel_at(hang: Hang, conversation: Conversation) -> None:
    await hang.reached.wait()
    conversation.cancel()
