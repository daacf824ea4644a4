"""Requests of tool servers to the user's model (sampling): shown in full, approved one by one, limited in number.

A request runs as a separate turn without tools and without the messages of the conversation. The module loads with the
first request. Specification: client/sampling, 2025-11-25; deprecated in 2026-07-28.
"""

from __future__ import annotations

import base64
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from qcode.agent.mcp.tools import MAX_IMAGES
from qcode.agent.models.side_questions import SideQuestions, run_side_turn
from qcode.engine.effects import TurnSettings
from qcode.engine.turn import Turn
from qcode.protocol.approvals import Choice
from qcode.protocol.events import TurnEnded
from qcode.protocol.messages import Block, Image, Message, Text
from qcode.protocol.reply import Outcome, StopReason
from qcode.protocol.tools import Refused
from qcode.text.clean import single_spaced, visible_rows
from qcode.tools.files.pictures import encode_image, image_type

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, ErrorData

    from qcode.agent.conversation import Conversation
    from qcode.protocol.approvals import Ask

MAX_TOKENS = 4_000
"""The maximum output cap of a request."""
MAX_REQUESTS = 5
"""The maximum number of requests during one turn."""

MAX_CHARS = 64 * 1024
"""The maximum number of characters of a request."""
SEND = "Send"
_REJECTED = -1
"""The error code of the specification if the user declines."""
_STOPS = {StopReason.END_TURN: "endTurn", StopReason.MAX_TOKENS: "maxTokens"}


class Sampling:
    """Runs the sampling requests of servers in one conversation."""

    def __init__(self, conversation: Conversation, side_questions: SideQuestions) -> None:
        self._conversation = conversation
        self._side_questions = side_questions
        self._turn: Turn | None = None
        self._requests = 0

    async def sample(
        self, server: str, params: CreateMessageRequestParams, ask: Ask | None
    ) -> CreateMessageResult | ErrorData:
        """Return the answer of the model to a request, or an error with the reason. `ask` is as in `Sample`."""
        import mcp_types as types

        try:
            messages = _messages(params)
            self._count_request()
            if ask is None:
                raise ValueError("no user can approve a request here")
            model = self._conversation.client.name
            question = f"{server} asks your model ({model}) for an answer, which you pay for. Send this request?"
            choices = (Choice(SEND), Choice("Decline"))
            answer = await ask(question, _detail(params, messages), choices, accepts_text=False)
            if answer != SEND:
                return types.ErrorData(code=_REJECTED, message="User rejected sampling request")
            ended = await self._run(server, params, messages)
        except ValueError as problem:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(problem))
        if ended is None or ended.outcome in (Outcome.ERROR, Outcome.CANCELLED) or not ended.text:
            error = None if ended is None else ended.error
            reason = "the model gave no answer" if error is None else error.message
            return types.ErrorData(code=types.INTERNAL_ERROR, message=single_spaced(reason, 300))
        stop = _STOPS.get(ended.stop) if ended.stop is not None else None
        content = types.TextContent(text=ended.text)
        return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason=stop)

    def _count_request(self) -> None:
        """Count a request of the running turn; raise `ValueError` if there are too many."""
        turn = self._conversation.turn
        if turn is None or turn is not self._turn:
            self._turn, self._requests = turn, 0
        self._requests += 1
        if self._requests > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS} requests during one turn")

    async def _run(
        self, server: str, params: CreateMessageRequestParams, messages: tuple[Message, ...]
    ) -> TurnEnded | None:
        """Run the request as a turn and return its last event, None if the turn has no end."""
        conversation, client = self._conversation, self._conversation.client
        settings = TurnSettings(
            system=params.system_prompt or "",
            tools=(),
            effort=conversation.effort,
            output=replace(
                client.output, override=min(params.max_tokens, MAX_TOKENS), can_escalate=False, max_continuations=0
            ),
            retries=client.retries.unattended,
            max_turns=1,
            max_budget_usd=self._side_questions.remaining_budget(),
            allows_calls=False,
        )
        turn = Turn(settings, client.known_model(), messages[:-1], client.counter())
        ended = None
        async with aclosing(
            run_side_turn(conversation, client, turn, messages[-1], f"sampling for {server}")
        ) as events:
            async for event in events:
                ended = event if isinstance(event, TurnEnded) else ended
        return ended


def _messages(params: CreateMessageRequestParams) -> tuple[Message, ...]:
    """Return the messages for the model; raise `ValueError` for an unsupported request."""
    import mcp_types as types

    if params.tools or params.tool_choice is not None:
        raise ValueError("tools are not supported")
    if params.max_tokens < 1:
        raise ValueError("maxTokens must be at least 1")
    messages: list[Message] = []
    size, images = len(params.system_prompt or ""), 0
    for message in params.messages:
        blocks: list[Block] = []
        for block in message.content_as_list:
            match block:
                case types.TextContent():
                    blocks.append(Text(block.text))
                    size += len(block.text)
                case types.ImageContent() if message.role == "user":
                    blocks.append(_image(block.data))
                    images += 1
                case _:
                    raise ValueError(f"content of the type {block.type} is not supported")
        if messages and messages[-1].role == message.role:
            blocks = [*messages.pop().blocks, *blocks]
        messages.append(Message(message.role, tuple(blocks)))
    if size > MAX_CHARS:
        raise ValueError(f"the request has {size:,} characters, more than {MAX_CHARS:,}")
    if images > MAX_IMAGES:
        raise ValueError(f"the request has {images} images, more than {MAX_IMAGES}")
    if not messages or messages[0].role != "user" or messages[-1].role != "user":
        raise ValueError("the first and the last message must have the role user")
    return tuple(messages)


def _image(data: str) -> Image:
    """Return an image that providers accept; raise `ValueError`. The type of the image is detected from the bytes."""
    try:
        raw = base64.b64decode(data, validate=True)
        kind = image_type(raw)
        if not kind:
            raise ValueError
        return encode_image(raw, kind, "the image").image
    except ValueError:
        raise ValueError("an image is not a PNG, JPEG, GIF or WebP file in base64") from None
    except Refused as refused:
        raise ValueError(str(refused)) from None


def _detail(params: CreateMessageRequestParams, messages: tuple[Message, ...]) -> str:
    """Return the complete request as text for the user."""
    rows = [f"At most {min(params.max_tokens, MAX_TOKENS):,} tokens, without tools and without your conversation."]
    if params.system_prompt:
        rows += ["", "[system]", params.system_prompt]
    for message in messages:
        rows += ["", f"[{message.role}]"]
        rows += [_block_text(block) for block in message.blocks]
    return visible_rows("\n".join(rows))


def _block_text(block: Block) -> str:
    if isinstance(block, Image):
        return f"(an image: {block.media_type}, {len(block.data) * 3 // 4:,} bytes)"
    return block.text if isinstance(block, Text) else ""
