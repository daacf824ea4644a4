"""If a host refuses images or old signatures, the request is sent again without them."""

from __future__ import annotations

import pytest

from qcode.engine.model_facts import HostKnowledge, KnownModel, Learn
from qcode.engine.transcript import has_images, has_signatures, refused_part, without_part
from qcode.protocol import events as ev
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelFacts, ModelRequest
from qcode.protocol.reply import Outcome
from tests.engine.play import calls, play, refused, text

PICTURE = Image("image/png", "AAAA")
SHOWN = [Message("user", (PICTURE, Text("What is this?"))), assistant(Text("A cat."))]
MARK = Opaque("anthropic", '{"signature": "x"}')
SIGNED = [user("Think."), assistant(Reasoning("Hm.", MARK), Text("Thought."))]


@pytest.mark.parametrize(
    "message",
    [
        "This model does not support image inputs",
        "messages[0]: unknown variant `image_url`, expected `text`",
        "At most 0 image(s) may be provided in one request. The model is not multimodal: images are not supported",
        "Invalid content type. image_url is only supported by certain models.: image_url not supported",
    ],
)
def test_model_without_image_input_gets_a_note_instead_of_the_image(message: str) -> None:
    played = play(refused(message), text("A picture I cannot see."), history=SHOWN)
    assert played.end.outcome is Outcome.END_TURN
    assert has_images(played.requests[0].messages)
    assert not has_images(played.requests[1].messages)
    assert "image/png" in played.requests[1].messages[0].text
    assert played.learned == [Learn("refuses_images")]
    assert [notice.level for notice in played.of(ev.Notice)] == ["warning"]
    assert played.end.api_calls.retries == 1


@pytest.mark.parametrize(
    ("kind", "message", "learned"),
    [
        (ErrorKind.UNKNOWN_MODEL, "No endpoints found that support image input", True),
        (ErrorKind.SERVER, "image input is not supported - hint: you may need to provide the mmproj", True),
        (ErrorKind.BAD_REQUEST, "messages.0.content.0.image.source.base64: Could not process image", False),
        (ErrorKind.BAD_REQUEST, "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes", False),
    ],
)
def test_refused_image_is_left_out_and_only_a_permanent_refusal_is_remembered(
    kind: ErrorKind, message: str, learned: bool
) -> None:
    played = play(refused(message, kind), text("So."), history=SHOWN)
    assert played.end.text == "So."
    assert bool(played.learned) is learned


def test_refused_part_stays_out_for_the_rest_of_the_turn() -> None:
    played = play(refused("images are not supported"), calls(("read", "{}")), text("Done."), history=SHOWN)
    assert [has_images(request.messages) for request in played.requests] == [True, False, False]


@pytest.mark.parametrize(
    "model",
    [
        KnownModel("test", "m", ModelFacts(can_read_images=False)),
        KnownModel("test", "m", ModelFacts(can_read_images=True), HostKnowledge(refuses_images=True)),
    ],
)
def test_model_known_to_refuse_images_is_never_sent_one(model: KnownModel) -> None:
    played = play(text("So."), history=SHOWN, model=model)
    assert not has_images(played.requests[0].messages)


def test_result_keeps_its_text_without_its_image() -> None:
    (message,) = without_part([Message("user", (ToolResult("c", "read", "a.png", images=(PICTURE,)),))], "images")
    (result,) = message.blocks
    assert isinstance(result, ToolResult)
    assert result.content.startswith("a.png\n[An image")
    assert result.images == ()


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "Encrypted content could not be verified: encrypted_content",
    ],
)
def test_expired_signatures_are_left_out_for_the_turn(message: str) -> None:
    played = play(refused(message), calls(("read", "{}")), text("Done."), history=SIGNED)
    assert played.end.text == "Done."
    assert [has_signatures(request.messages) for request in played.requests] == [True, False, False]
    assert played.learned == [Learn("refuses_signatures")]
    assert len(played.requests) == 3


def test_refused_request_is_reduced_only_once() -> None:
    message = "images are not supported"
    played = play(refused(message), refused(message), history=SHOWN)
    assert played.end.outcome is Outcome.ERROR
    assert len(played.requests) == 2


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ErrorKind.BAD_REQUEST, "temperature is not supported"),
        (ErrorKind.AUTH, "images are not supported"),
        (ErrorKind.SERVER, "the image service is down"),
        (ErrorKind.RATE_LIMIT, "too many images"),
    ],
)
def test_unrelated_failure_keeps_the_images(kind: ErrorKind, message: str) -> None:
    request = ModelRequest("m", "", (Message("user", (PICTURE,)),), (), 100)
    assert refused_part(ProviderError(kind, message), request) is None


def test_request_without_the_refused_part_is_not_sent_again() -> None:
    request = ModelRequest("m", "", (user("hi"), assistant(ToolCall("c", "f", "{}"))), (), 100)
    for message in ("images are not supported", "invalid signature"):
        assert refused_part(ProviderError(ErrorKind.BAD_REQUEST, message), request) is None


def test_limit_in_a_similar_message_is_learned_first() -> None:
    message = "vision models support at most 4096 completion tokens (max_tokens)"
    played = play(refused(message), text("So."), history=SHOWN)
    assert played.caps == [8_000, 4_096]
    assert has_images(played.requests[1].messages)
