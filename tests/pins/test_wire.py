"""Requests on the wire: addresses, headers and bodies of scripted conversations, for each protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.running import KEY
from tests.fakes import replies
from tests.fakes.server import FakeServer
from tests.pins.conversations import CONVERSATIONS, FAMILIES, FILES, HOSTS, OF_HOSTS, SETTINGS, Conversation, Host
from tests.pins.golden import Golden
from tests.pins.runner import KEYS, MODELS, PROTOCOLS, PinRunner

SAMPLES: dict[str, set[str]] = {
    "anthropic": {
        "agent", "attachments", "compaction", "denied", "edit", "parallel", "prefill", "prompts", "thinking",
        "truncated", "truncated-call",
    },
    "openai": {"edit", "parallel", "prompts", "retry"},
    "openai-responses": {"edit", "thinking"},
    "gemini": {"parallel", "thinking"},
    "bedrock": {"parallel"},
}  # fmt: skip
"""The cases that run by default; the others are broad."""


def cases() -> Iterator[object]:
    for protocol in PROTOCOLS:
        for name in CONVERSATIONS:
            marks = () if name in SAMPLES[protocol] else (pytest.mark.broad,)
            yield pytest.param(protocol, name, id=f"{protocol}-{name}", marks=marks)


def play(conversation: Conversation, protocol: str, cli: PinRunner, model: str = "") -> tuple[FakeServer, str]:
    """Run a conversation; return the host and how the runs ended."""
    model = model or (HOSTS[protocol][1] if protocol in HOSTS else MODELS[protocol])
    cli.configure(conversation.config.replace("{model}", f"{protocol}/{model}"))
    for name, content in {**FILES, **conversation.files}.items():
        path = cli.work / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    endings, host = [], Host(conversation.replies)
    spoken, env = ("openai", {HOSTS[protocol][0]: KEY}) if protocol in HOSTS else (protocol, KEYS[protocol])
    with FakeServer(spoken, host) as server:  # type: ignore[arg-type]  # one of the five
        address = ("-m", f"{protocol}/{model}", "--base-url", server.base_url)
        for arguments in conversation.runs:
            done = cli.run(*address, *arguments, env=env, stdin=conversation.stdin)
            endings.append(f"exit {done.code}\n--- stdout\n{done.out}\n--- stderr\n{done.err}\n")
        left = conversation.gemini_left if protocol == "gemini" else 0
        assert (server.complaints, host.left) == ([], left), "".join(endings)
    return server, "".join(endings)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("protocol", "name"), cases())
def test_requests_of_a_conversation(protocol: str, name: str, cli: PinRunner, golden: Golden) -> None:
    server, _ = play(CONVERSATIONS[name], protocol, cli)
    golden.check_requests(f"wire/{protocol}/{name}.json", cli.recorded(server.requests))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("text-calls", "small-model") else (pytest.mark.broad,))
        for name in SETTINGS
    ],
)
def test_requests_under_a_setting(name: str, cli: PinRunner, golden: Golden) -> None:
    protocol, conversation = SETTINGS[name]
    server, _ = play(conversation, protocol, cli)
    golden.check_requests(f"wire/settings/{name}.json", cli.recorded(server.requests))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("deepseek", "mistral") else (pytest.mark.broad,)) for name in HOSTS],
)
def test_requests_to_a_compatible_host(name: str, cli: PinRunner, golden: Golden) -> None:
    server, _ = play(OF_HOSTS, name, cli)
    golden.check_requests(f"wire/hosts/{name}.json", cli.recorded(server.requests))


@pytest.mark.broad
@pytest.mark.parametrize(("protocol", "model"), FAMILIES)
def test_prompt_and_tools_of_a_family(protocol: str, model: str, cli: PinRunner, golden: Golden) -> None:
    conversation = Conversation([("-p", "hi", "--reasoning-effort", "medium")], [replies.text("Hi.")])
    server, _ = play(conversation, protocol, cli, model)
    name = model.replace(":", "-")
    golden.check_requests(f"wire/families/{protocol}-{name}.json", cli.recorded(server.requests))


def test_history_of_one_protocol_continues_in_another(cli: PinRunner, golden: Golden) -> None:
    """Thinking that a host signed is not sent to another one."""
    requests = []
    script = CONVERSATIONS["thinking"].replies
    for number, protocol in enumerate(("anthropic", "openai-responses", "gemini", "openai", "anthropic")):
        left = script[:2] if number == 0 else [replies.text(f"Answer {number}.", reasoning=f"Thought {number}.")]
        flags = ("-p", f"prompt {number}", "--reasoning-effort", "high", *(() if number == 0 else ("-c",)))
        server, _ = play(Conversation([flags], left), protocol, cli)
        requests += cli.recorded(server.requests)
    golden.check_requests("wire/settings/across-protocols.json", requests)
