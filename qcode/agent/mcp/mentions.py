"""Prompts and resources of tool servers that a typed text mentions: `/server:prompt a b`, and `@server:uri`.

qcode reads only prompts and resources that the user mentions. The text of a server is untrusted: an `@path` in it
attaches no file, and a resource is marked as data. Completions are in `completion`.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcode.agent.mcp.spec import ServerError
from qcode.protocol.approvals import Spans, TurnPrompt
from qcode.protocol.errors import InputError
from qcode.protocol.messages import Block, Image
from qcode.text.clean import clean, single_spaced, visible
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.mcp.servers import Servers
    from qcode.agent.mcp.session import ListedArgument, ListedPrompt

MAX_TEXT = 256 * 1024
"""The maximum number of characters of a prompt or resource."""

MAX_RESOURCES = 20
"""The maximum number of resources that one message can attach."""
_READ_TIMEOUT_S = 30.0
_INVALID_CHARS = lazy_pattern(r"[^A-Za-z0-9_:-]")
_COMMAND = lazy_pattern(r"/([A-Za-z][\w:-]*)(?:\s+(.*))?", re.DOTALL)
_MCP_PREFIX = "mcp__"


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A prompt of a server, which the user runs by its `handle`."""

    server: str
    prompt: ListedPrompt

    @property
    def handle(self) -> str:
        """The name that the user types after the slash."""
        return f"{self.server}:{_INVALID_CHARS.sub('_', self.prompt.name)}".lower()

    @property
    def hint(self) -> str:
        """The arguments, such as `<code> [language]`."""
        names = (
            f"<{argument.name}>" if argument.is_required else f"[{argument.name}]" for argument in self.prompt.arguments
        )
        return single_spaced(clean(" ".join(names)), 80)

    @property
    def description(self) -> str:
        return single_spaced(clean(self.prompt.description), 200)


def prompts_of(servers: Servers | None) -> tuple[ServerPrompt, ...]:
    """Return the prompts of the servers that run. If two have the same handle, only the first is returned."""
    if servers is None:
        return ()
    prompts: dict[str, ServerPrompt] = {}
    for name, ready in servers.ready().items():
        for prompt in ready.listing.prompts:
            server_prompt = ServerPrompt(name, prompt)
            prompts.setdefault(server_prompt.handle, server_prompt)
    return tuple(prompts.values())


def missing_arguments(prompt: ListedPrompt, values: Mapping[str, str]) -> tuple[ListedArgument, ...]:
    """Return the required arguments without a value."""
    return tuple(argument for argument in prompt.arguments if argument.is_required and not values.get(argument.name))


def arguments_of(prompt: ListedPrompt, text: str) -> dict[str, str]:
    """Return the values of a prompt's arguments in a typed text, which is split into words as a shell does.

    A word `name=value` is the value of that argument. The other words are the values of the other arguments, in order;
    the last argument gets all remaining words. Raise `InputError` for a word that no argument takes.
    """
    names = [argument.name for argument in prompt.arguments]
    try:
        words = shlex.split(text)
    except ValueError:  # a lone quote, as in: it's
        words = text.split()
    values: dict[str, str] = {}
    positional: list[str] = []
    for word in words:
        name, has_value, value = word.partition("=")
        if has_value and name in names:
            values[name] = value
        else:
            positional.append(word)
    unset = [name for name in names if name not in values]
    if positional and not unset:
        accepted = ", ".join(names) or "none"
        raise InputError(f'too many arguments: "{single_spaced(positional[0], 40)}" (its arguments: {accepted})')
    last = len(unset) - 1
    if len(positional) > len(unset):
        positional[last:] = [" ".join(positional[last:])]
    return values | dict(zip(unset, positional, strict=False))


@dataclass(frozen=True, slots=True)
class _ResourceName:
    """A mentioned resource, typed as `@server:uri`."""

    server: str
    uri: str

    def __str__(self) -> str:
        return f"{self.server}:{self.uri}"


@dataclass(frozen=True, slots=True)
class _PromptContent:
    """The messages of a server's prompt as one text, and their images."""

    text: str
    images: tuple[Image, ...]


@dataclass(frozen=True, slots=True)
class _SteeringMessage:
    """A steering message whose resources are being read."""

    text: str
    task: asyncio.Task[None]


class ServerMentions:
    """Finds and reads the prompts and resources that a typed text mentions.

    Binary data of a server, other than images, is stored in `folder`.
    """

    def __init__(self, servers: Servers, folder: Callable[[], Path]) -> None:
        self._servers = servers
        self._folder = folder
        self._expand_task: asyncio.Task[TurnPrompt] | None = None
        self._problems: list[str] = []
        self._steering: list[_SteeringMessage] = []

    @property
    def is_reading(self) -> bool:
        """Whether a server is being read for a prompt."""
        return self._expand_task is not None

    def cancel(self) -> None:
        """Stop reading, for a prompt and for steering messages."""
        if self._expand_task is not None:
            self._expand_task.cancel()
        for message in self._steering:
            message.task.cancel()

    def steer(self, text: str, on_ready: Callable[[tuple[Block, ...]], None]) -> None:
        """Read the resources that a steering message mentions and call `on_ready` with them.

        The calls for several steering messages are made in the order of the messages.
        """
        # Wait for all earlier tasks, because the latest may be withdrawn while those before it still run.
        earlier_tasks = {message.task for message in self._steering}
        if not earlier_tasks and not self._mentions_any(text):
            on_ready(())
            return
        task = asyncio.get_running_loop().create_task(self._steer(text, on_ready, earlier_tasks))
        message = _SteeringMessage(text, task)
        self._steering.append(message)

        def remove_unless_withdrawn(_: object) -> None:
            if message in self._steering:
                self._steering.remove(message)

        task.add_done_callback(remove_unless_withdrawn)

    async def _steer(
        self, text: str, on_ready: Callable[[tuple[Block, ...]], None], earlier_tasks: set[asyncio.Task[None]]
    ) -> None:
        blocks = tuple(await self._read_resources(text, ()))
        if earlier_tasks:
            await asyncio.wait(earlier_tasks)
        on_ready(blocks)

    def withdraw_steering(self, text: str) -> bool:
        """Withdraw the last steering message with this text; return False unless its resources are being read."""
        message = next((message for message in reversed(self._steering) if message.text == text), None)
        if message is not None:
            self._steering.remove(message)
            message.task.cancel()
        return message is not None

    def names_resource(self, word: str) -> bool:
        """Return whether an `@word` names a resource of a server."""
        server, _, uri = word.partition(":")
        return bool(uri) and server in self._servers.names

    def take_problems(self) -> tuple[str, ...]:
        """Return and clear the problems: one line for each resource that could not be attached."""
        problems, self._problems = tuple(self._problems), []
        return problems

    async def expand(self, prompt: TurnPrompt) -> TurnPrompt:
        """Return the prompt with the prompt or resources of servers that the typed text at its end mentions.

        `/server:prompt` is replaced by the text of that prompt; resources are attached. Raise `InputError` if a prompt
        cannot be read.
        """
        typed = prompt.text if prompt.options.typed_text is None else prompt.options.typed_text
        may_mention = typed.startswith("/") or "@" in typed
        if not (prompt.options.finds_files and may_mention and prompt.text.endswith(typed)):
            return prompt
        self._expand_task = asyncio.ensure_future(self._expand(prompt, typed))
        try:
            return await self._expand_task
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise InputError("cancelled while a tool server was read") from None
        finally:
            self._expand_task = None

    async def _expand(self, prompt: TurnPrompt, typed: str) -> TurnPrompt:
        options, start = prompt.options, len(prompt.text) - len(typed)
        server_prompt = None
        if typed.startswith("/") and not options.external_spans:
            server_prompt = await self._read_typed_prompt(typed)
        if server_prompt is not None:
            external_spans = ((start, start + len(server_prompt.text)),)
            options = replace(options, external_spans=external_spans, shown_prompt=options.shown_prompt or prompt.text)
            text = prompt.text[:start] + server_prompt.text
            return TurnPrompt(text, options, (*prompt.attached, *server_prompt.images))
        # The spans are positions in `prompt`, the mentions are in `typed`.
        spans_in_typed = tuple((first - start, last - start) for first, last in options.external_spans)
        blocks = await self._read_resources(typed, spans_in_typed)
        return replace(prompt, attached=(*prompt.attached, *blocks))

    async def _read_typed_prompt(self, typed: str) -> _PromptContent | None:
        """Return the content of the typed `/server:prompt`; None if the text does not name a server.

        Raise `InputError` if the prompt cannot be read.
        """
        match = _COMMAND.fullmatch(typed)
        if match is None:
            return None
        name, typed_arguments = match[1].lower(), (match[2] or "").strip()
        if name.startswith(_MCP_PREFIX):
            name = name.removeprefix(_MCP_PREFIX).replace("__", ":", 1)
        server = next((server for server in self._servers.names if name.startswith(f"{server.lower()}:")), None)
        if server is None:
            return None
        from qcode.agent.mcp.questions import RunningRequest  # loads with the first server that starts

        await self._servers.wait_until_started()
        ready = self._servers.ready().get(server)
        if ready is None:
            raise InputError(f"/{name}: the tool server {server} is not running; /mcp shows why")
        prompts = prompts_of(self._servers)
        server_prompt = next((prompt for prompt in prompts if prompt.handle == name), None)
        if server_prompt is None:
            handles = ", ".join(f"/{prompt.handle}" for prompt in prompts if prompt.server == server)
            raise InputError(f"/{name}: {server} has no such prompt{f' (it has {handles})' if handles else ''}")
        values = arguments_of(server_prompt.prompt, typed_arguments)
        missing = ", ".join(argument.name for argument in missing_arguments(server_prompt.prompt, values))
        if missing:
            raise InputError(f"/{name}: missing {missing}; use /{server_prompt.handle} {server_prompt.hint}")
        return await self._prompt_content(
            ready.connection.get_prompt(server_prompt.prompt.name, values, RunningRequest()), name
        )

    async def _prompt_content(self, response: Any, name: str) -> _PromptContent:  # noqa: ANN401
        """Await the `response` with a prompt, and return its messages as one text with their images.

        Raise `InputError` if the server fails, or if the text is empty or too long.
        """
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                result = await response
        except TimeoutError:
            raise InputError(f"/{name}: no answer within {_READ_TIMEOUT_S:g} s") from None
        except ServerError as error:
            raise InputError(f"/{name}: {visible(str(error))}") from None
        from qcode.agent.mcp.tools import ContentReader

        reader = ContentReader(self._folder)
        texts: list[str] = []
        for message in result.messages:
            start = len(reader.texts)
            await asyncio.to_thread(reader.add_blocks, [message.content])
            content = clean("\n".join(reader.texts[start:]))
            texts.append(f"[assistant]\n{content}" if message.role == "assistant" else content)
        text = "\n\n".join(texts).strip()
        if len(text) > MAX_TEXT:
            raise InputError(f"/{name}: its text has {len(text):,} characters, more than {MAX_TEXT:,}")
        if not text and not reader.images:
            raise InputError(f"/{name}: the server sent an empty prompt")
        return _PromptContent(text, tuple(reader.images))

    async def _read_resources(self, typed: str, external_spans: Spans) -> list[Block]:
        """Return the resources that the user mentions; add a line to the problems for each that cannot be attached."""
        blocks: list[Block] = []
        if not self._mentions_any(typed):
            return blocks
        await self._servers.wait_until_started()
        mentioned = list(dict.fromkeys(self._mentioned_resources(typed, external_spans)))
        if len(mentioned) > MAX_RESOURCES:
            self._problems.append(f"not attached: more than {MAX_RESOURCES} resources")
        for name in mentioned[:MAX_RESOURCES]:
            try:
                blocks += await self._read_resource(name)
            except InputError as error:
                self._problems.append(f"not attached: @{visible(str(name))}: {error}")
        return blocks

    def _mentions_any(self, text: str) -> bool:
        if "@" not in text:
            return False
        from qcode.agent.context.attachments import mentioned_words  # loads with the first mention

        return any(self.names_resource(word.text) for word in mentioned_words(text))

    def _mentioned_resources(self, typed: str, external_spans: Spans) -> Iterator[_ResourceName]:
        """Yield the resources that are mentioned outside `external_spans`, the text that the user did not write."""
        from qcode.agent.context.attachments import PUNCTUATION, mentioned_words

        for word in mentioned_words(typed):
            if word.overlaps(external_spans) or not self.names_resource(word.text):
                continue
            server, _, uri = word.text.partition(":")
            ready = self._servers.ready().get(server)
            listed_uris = {resource.uri for resource in ready.listing.resources} if ready is not None else set()
            # A comma after a mention belongs to the sentence, unless the server lists a URI with it.
            yield _ResourceName(server, uri if uri in listed_uris else uri.rstrip(PUNCTUATION))

    async def _read_resource(self, name: _ResourceName) -> list[Block]:
        """Return a resource as a text block, followed by its images; raise `InputError` if it cannot be read."""
        ready = self._servers.ready().get(name.server)
        if ready is None:
            raise InputError("the server is not running; /mcp shows why")
        from qcode.agent.mcp.questions import RunningRequest
        from qcode.agent.mcp.tools import ContentReader

        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                result = await ready.connection.read_resource(name.uri, RunningRequest())
        except TimeoutError:
            raise InputError(f"no answer within {_READ_TIMEOUT_S:g} s") from None
        except ServerError as error:
            raise InputError(visible(str(error))) from None
        reader = ContentReader(self._folder)
        for content in result.contents:
            await asyncio.to_thread(reader.add_resource, content)
        has_several = len(result.contents) > 1
        # A single text needs no `[resource …]` line: the block names it.
        rows = reader.texts if has_several else [text.partition("\n")[2] or text for text in reader.texts]
        text = clean("\n".join(rows))
        if len(text) > MAX_TEXT:
            text = f"{text[:MAX_TEXT]}\n[cut: only the first {MAX_TEXT:,} of {len(text):,} characters are attached]"
        from qcode.agent.context.attachments import resource_text

        return [resource_text(str(name), text), *reader.images]
