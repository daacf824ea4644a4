"""The example servers of modelcontextprotocol/python-sdk, as other people run them; skipped without a clone.

`QCODE_FIXTURES=DIR` names the folder of clones with `DIR/modelcontextprotocol+python-sdk`, read at 57394b0. They run
with the `mcp` package of qcode; the one with a login, which needs more packages, with one installed on demand.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.keys.store import KeyStore
from qcode.agent.mcp.context import ServerContext
from qcode.agent.mcp.mentions import ServerMentions, prompts_of
from qcode.agent.mcp.oauth.credentials import Credentials
from qcode.agent.mcp.oauth.login import sign_in
from qcode.agent.mcp.servers import Servers
from qcode.agent.mcp.spec import ServerSpec
from qcode.config.settings import McpServer
from qcode.protocol.approvals import Choice, TurnPrompt
from qcode.text.json import JsonObject
from tests.agent.mcp.serving import ServerFolders, call, free_port, listening, names, open_servers, texts
from tests.agent.mcp.test_oauth import NoKeyring

pytestmark = [pytest.mark.broad, pytest.mark.timeout(500)]


@pytest.fixture
def examples() -> Path:
    fixtures = os.environ.get("QCODE_FIXTURES")
    folder = Path(fixtures or "") / "modelcontextprotocol+python-sdk/examples"
    if not fixtures or not folder.is_dir():
        pytest.skip("QCODE_FIXTURES names no folder with modelcontextprotocol+python-sdk")
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> ServerFolders:
    return ServerFolders(tmp_path)


def program(source: Path, *words: str) -> ServerSpec:
    env = {"PYTHONPATH": os.pathsep.join((str(source), *sys.path))}
    return ServerSpec("sdk", McpServer(sys.executable, ("-W", "ignore", *words), env), "own", "config.toml:1")


def snippet(examples: Path, name: str) -> ServerSpec:
    return program(examples / "snippets", "-c", f"from servers.{name} import mcp; mcp.run('stdio')")


@contextmanager
def serving(source: Path, module: str, port: int, *words: str, python: str = sys.executable) -> Iterator[str]:
    """Run an example that listens on a port; yield its address."""
    command = [python, "-W", "ignore", "-m", module, "--port", str(port), *words]
    with listening(command, port, {**os.environ, "PYTHONPATH": str(source)}):
        yield f"http://localhost:{port}/mcp"


def at(url: str, **config: Any) -> ServerSpec:
    return ServerSpec("sdk", McpServer(url=url, **config), "own", "config.toml:1")


class Answers:
    """Answers questions in order, the last one again and again; `asked` are the questions with their details."""

    def __init__(self, *answers: str | None) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, question: str, detail: str, choices: Sequence[Choice], **_: bool) -> str | None:
        self.asked.append(f"{question}\n{detail}\n{', '.join(choice.label for choice in choices)}")
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def test_prompt_of_the_sdk_example_is_a_command(examples: Path, folders: ServerFolders) -> None:
    async def body() -> None:
        spec = program(examples / "servers/simple-prompt", "-m", "mcp_simple_prompt")
        async with open_servers(folders.servers(spec)) as servers:
            assert [prompt.handle for prompt in prompts_of(servers)] == ["sdk:simple"], texts(servers)
            mentions = ServerMentions(servers, lambda: folders.work)
            text = (await mentions.expand(TurnPrompt("/sdk:simple topic=cats context=home"))).text
            assert "the following topic: cats" in text
            assert "relevant context: home" in text

    asyncio.run(body())


def test_resource_of_the_sdk_example_is_attached(examples: Path, folders: ServerFolders) -> None:
    async def body() -> None:
        spec = program(examples / "servers/simple-resource", "-m", "mcp_simple_resource")
        async with open_servers(folders.servers(spec)) as servers:
            mentions = ServerMentions(servers, lambda: folders.work)
            (attached,) = (await mentions.expand(TurnPrompt("read @sdk:file:///greeting.txt"))).attached
            assert "Hello! This is a sample text resource." in str(attached)
            await mentions.expand(TurnPrompt("read @sdk:file:///nothing.txt"))
            assert mentions.take_problems()

    asyncio.run(body())


def test_pages_of_simple_pagination_are_listed_completely(examples: Path, folders: ServerFolders) -> None:
    async def body() -> None:
        spec = program(examples / "servers/simple-pagination", "-m", "mcp_simple_pagination")
        async with open_servers(folders.servers(spec)) as servers:
            assert len(names(servers)) == 25, texts(servers)
            assert len(prompts_of(servers)) == 20
            assert (await call(servers, "sdk__tool_25", {"input": "x"})).content.startswith("Called tool 'tool_25'")
            mentions = ServerMentions(servers, lambda: folders.work)
            attached = (await mentions.expand(TurnPrompt("@sdk:file:///path/to/resource_30.txt"))).attached
            assert "Content of resource_30" in str(attached)

    asyncio.run(body())


def test_stateless_server_runs_its_tool_without_a_session(examples: Path, folders: ServerFolders) -> None:
    source = examples / "servers/simple-streamablehttp-stateless"

    async def body(url: str) -> None:
        async with open_servers(folders.servers(at(url))) as servers:
            arguments: JsonObject = {"interval": 0.01, "count": 3, "caller": "me"}
            outcome = await call(servers, "sdk__start-notification-stream", arguments)
            assert "3" in outcome.content, texts(servers)
            assert not outcome.is_error

    with serving(source, "mcp_simple_streamablehttp_stateless", free_port()) as url:
        asyncio.run(body(url))


def test_stream_that_the_server_closes_is_resumed(examples: Path, folders: ServerFolders) -> None:
    async def body(url: str) -> None:
        async with open_servers(folders.servers(at(url))) as servers:
            outcome = await call(servers, "sdk__process_batch", {"items": 4, "checkpoint_every": 2})
            assert outcome.content.startswith("Successfully processed 4 items"), texts(servers)

    with serving(examples / "servers/sse-polling-demo", "mcp_sse_polling_demo", free_port()) as url:
        asyncio.run(body(url))


def test_everything_server_of_the_sdk_lists_and_runs_its_tools(examples: Path, folders: ServerFolders) -> None:
    async def body(url: str) -> None:
        async with open_servers(folders.servers(at(url))) as servers:
            assert len(names(servers)) > 20, texts(servers)
            assert "simple text" in (await call(servers, "sdk__test_simple_text")).content
            assert len((await call(servers, "sdk__test_image_content")).images) == 1
            assert "saved as" in (await call(servers, "sdk__test_audio_content", folder=folders.state)).content
            assert (await call(servers, "sdk__test_error_handling")).is_error
            progress: list[str] = []
            await call(servers, "sdk__test_tool_with_progress", output=progress.append)
            assert progress
            rounds = await call(servers, "sdk__test_input_required_result_multi_round", ask=Answers("x", "Send"))
            assert not rounds.is_error, rounds.content
            resumed = await call(servers, "sdk__test_reconnection")
            assert not resumed.is_error, resumed.content
            # Its tools of the older protocol ask while they run.
            question: JsonObject = {"message": "Who?"}
            assert "repeat the call" in (await call(servers, "sdk__test_elicitation", question)).content
            asked = Answers("me", "a@b.example", "Send")
            assert "accept" in (await call(servers, "sdk__test_elicitation", question, ask=asked)).content
            assert "Who?" in asked.asked[0]
            refused = await call(servers, "sdk__test_sampling", {"prompt": "Hi"}, ask=Answers("Send"))
            assert "not supported" in refused.content
            mentions = ServerMentions(servers, lambda: folders.work)
            text = (await mentions.expand(TurnPrompt("/sdk:test_prompt_with_arguments one two"))).text
            assert "one" in text
            assert "two" in text
            images = (await mentions.expand(TurnPrompt("/sdk:test_prompt_with_image"))).attached
            assert len(images) == 1
            attached = (await mentions.expand(TurnPrompt("@sdk:test://template/7/data"))).attached
            assert "7" in str(attached)

    with serving(examples / "servers/everything-server", "mcp_everything_server", free_port()) as url:
        asyncio.run(body(url))


def test_form_and_addresses_of_the_sdk_snippet_are_asked_about(examples: Path, folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(snippet(examples, "elicitation"))) as servers:
            booking: JsonObject = {"date": "2024-12-25", "time": "19:00", "party_size": 2}
            assert "repeat the call" in (await call(servers, "sdk__book_table", booking)).content
            form = Answers("Yes", "2024-12-27", "Send")
            assert (await call(servers, "sdk__book_table", booking, ask=form)).content == (
                "[SUCCESS] Booked for 2024-12-27"
            ), form.asked
            assert "Would you like to try another date?" in form.asked[0]
            page = Answers("I will open it")
            paid = await call(servers, "sdk__secure_payment", {"amount": 5}, ask=page)
            assert paid.content == "Payment of $5.00 initiated - check your browser to complete"
            assert "https://payments.example.com/confirm?amount=5" in page.asked[0]
            assert (await call(servers, "sdk__secure_payment", {"amount": 5}, ask=Answers(None))).content == (
                "Payment cancelled"
            )
            # It demands the page again and again, so the second demand is its answer.
            service = Answers("I will open it", "Done")
            demanded = await call(servers, "sdk__connect_service", {"service_name": "files"}, ask=service)
            assert demanded.is_error
            assert "https://files.example.com/oauth/authorize" in service.asked[0]
            assert len(service.asked) == 2
            declined = await call(servers, "sdk__connect_service", {"service_name": "files"}, ask=Answers("Decline"))
            assert "which was declined" in declined.content

    asyncio.run(body())


def test_login_works_at_the_authorization_server_of_the_sdk_examples(
    examples: Path, folders: ServerFolders, pip_programs: Path
) -> None:
    source, python = examples / "servers/simple-auth", pip_programs / "python"
    store = KeyStore(folders.home, NoKeyring("qcode-test"))

    async def body(url: str) -> None:
        spec = at(url)
        before = Servers((spec,), folders.pins, context, is_trusted=True)
        async with open_servers(before, is_attended=False):
            assert before.statuses()[0].state == "sign-in", before.statuses()[0]
        await sign_in(spec.config, Credentials(spec, url, store), browse)
        servers = Servers((spec,), folders.pins, context, is_trusted=True)
        async with open_servers(servers):
            assert "current_time" in (await call(servers, "sdk__get_time")).content, texts(servers)

    context = ServerContext(folders.work, os.environ, keys=lambda: store)
    issuer_port = free_port()
    with serving(source, "mcp_simple_auth.auth_server", issuer_port, python=str(python)):
        words = ("--auth-server", f"http://localhost:{issuer_port}", "--oauth-strict")
        with serving(source, "mcp_simple_auth", free_port(), *words, python=str(python)) as url:
            asyncio.run(body(url))


async def browse(address: str) -> None:
    """Sign in on the page of the example, as its user does in a browser, without waiting for it."""
    threading.Thread(target=_sign_in_there, args=(address,)).start()


def _sign_in_there(address: str) -> None:
    with urllib.request.urlopen(address, timeout=10) as response:
        page = response.read().decode()
    state = re.search(r'name="state" value="([^"]+)"', page)
    action = re.search(r'<form action="([^"]+)"', page)
    assert state is not None
    assert action is not None
    form = {"state": state[1], "username": "demo_user", "password": "demo_password"}
    with urllib.request.urlopen(action[1], urllib.parse.urlencode(form).encode(), timeout=10) as response:
        response.read()
