"""Preparation of a transcript for the encoders: alternating roles, the running tool loop, call ids, opaque data. Pure.

Every call already has its result (`engine.transcript` ensures that); this module adapts only the form. Opaque data
(signatures, encrypted reasoning) is sent back only to the host that created it. For a host that is not the protocol's
default host, `tag_opaque` adds the host to the source of received data. `OpaqueFilter` removes this host from the
source in requests to the same host. The codec drops all other opaque data.
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import NamedTuple
from urllib.parse import urlsplit

from qcode.protocol.messages import Block, Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import BlockEnded, ReplyEvent
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass


def _keep_id(call_id: str) -> str:
    return call_id


def normalize_messages(
    messages: Sequence[Message], fit: Callable[[str], str] = _keep_id, used_ids: set[str] | None = None
) -> list[Message]:
    """Merge adjacent messages with the same role, and make call ids unique.

    Some servers number their calls from 1 in every reply, and other hosts reject such a history. `fit` converts an id
    to an id that the host accepts; ids that become equal are made distinct. The new id depends only on earlier
    messages, so it does not change while the conversation grows. `used_ids` are the ids in earlier messages; the ids in
    `messages` are added to this set.
    """
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role:
            joined[-1] = Message(message.role, joined[-1].blocks + message.blocks)
        else:
            joined.append(message)
    return _with_fitting_calls(joined, fit, set() if used_ids is None else used_ids)


def _with_fitting_calls(messages: list[Message], fit: Callable[[str], str], used_ids: set[str]) -> list[Message]:
    """Return the messages with an accepted and unused id for each call and its result; see `normalize_messages`."""
    renamed: dict[str, str] = {}
    result: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            renamed = {}
            for call in message.calls:
                fitting = _unused_id(call.call_id, fit, used_ids)
                used_ids.add(fitting)
                if fitting != call.call_id:
                    renamed[call.call_id] = fitting
        result.append(_rename_calls(message, renamed) if renamed else message)
    return result


def _unused_id(call_id: str, fit: Callable[[str], str], used_ids: set[str]) -> str:
    """Return `call_id` as the host accepts it, with a number if that id is used: `call_1`, then `call_1_2`."""
    fitting = fit(call_id)
    number = 2
    while not fitting or fitting in used_ids:
        fitting = fit(f"{call_id}_{number}")
        number += 1
    return fitting


def _rename_calls(message: Message, names: dict[str, str]) -> Message:
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolCall | ToolResult):
            block = replace(block, call_id=names.get(block.call_id, block.call_id))
        blocks.append(block)
    return Message(message.role, tuple(blocks))


def with_request_note(request: ModelRequest) -> tuple[Message, ...]:
    """Return the messages of the request with its note appended to the last one, if that is a user message.

    After a result the note becomes part of the result, because some hosts reject a user text between a result and the
    reply.
    """
    messages = request.messages
    if not request.note or not messages or messages[-1].role != "user":
        return messages
    *before, last = messages[-1].blocks
    if isinstance(last, ToolResult):
        ending: tuple[Block, ...] = (replace(last, content=f"{last.content}\n\n{request.note}".lstrip()),)
    else:
        ending = (last, Text(request.note))
    return (*messages[:-1], Message("user", (*before, *ending)))


def add_note(sent: list[JsonObject], note: JsonObject) -> None:
    """Append a note, a text block, to the last encoded message, after the part that the host caches."""
    if not note["text"] or not sent or sent[-1]["role"] != "user":
        return
    content = sent[-1]["content"]
    if isinstance(content, list):
        content.append(note)


_QUOTED_CHARS = 120
"""The message that asks to continue a text quotes at least this many characters at its end."""


def text_to_continue(messages: tuple[Message, ...]) -> str:
    """Return the text that this request asks to continue, empty if it asks for a new reply.

    The request ends with that text, or with a message that quotes its end inside a tag. If the text stops inside a code
    block, the continuation starts inside one.
    """
    if messages and messages[-1].role == "assistant":
        return messages[-1].text
    if len(messages) < 2:
        return ""
    reply = messages[-2]
    last = messages[-1]
    if reply.role != "assistant" or reply.calls or not reply.text.strip():
        return ""
    quoted = f"{reply.text[-_QUOTED_CHARS:]}\n</"
    return reply.text if quoted in last.text else ""


_UNSETTLED_MESSAGES = 6
"""Each request encodes this many messages at the end again, because cache marks, prefill and notes change them."""
_SLICE_MESSAGES = 250
"""The maximum number of messages that are encoded at a time."""
_MAX_CONVERSATIONS = 4
"""The maximum number of conversations with a cached encoding."""
COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
"""An encoder that writes JSON without white space."""


@dataclass(slots=True)
class _SettledPart:
    """The start of a conversation, whose encoding cannot change any more."""

    variant: str
    """See `EncodedMessages.encode_settled`."""
    messages: tuple[Message, ...] = ()
    call_ids: set[str] = field(default_factory=set)
    json: bytearray = field(default_factory=bytearray)
    """The encoded messages as the items of a JSON list, without its brackets."""


class _CachedJson(NamedTuple):
    """The JSON of a value. The value is kept, so that no other value gets its `id`."""

    value: Json
    text: str


class _CachedMessage(NamedTuple):
    """The encoding of a message. The message is kept, so that no other message gets its `id`."""

    message: Message
    encoded: list[Json]


class UnsettledMessages(NamedTuple):
    """The messages at the end of a conversation whose encoding may still change."""

    messages: Sequence[Message]
    used_ids: set[str]
    """The call ids in the messages before them."""


class EncodedMessages:
    """The encoded history of the last requests of a client, so that each message is encoded and written once.

    `field_name` is the field of the request body with the history, `writer` an encoder with the format of the host's
    SDK. Messages are cached by identity, because comparing their texts would take as long as encoding them. A message
    that is not in the last two requests is dropped from the cache. Never change a value that `encode_once` returned.
    """

    def __init__(self, field_name: str = "messages", writer: json.JSONEncoder = COMPACT) -> None:
        self._field_name = field_name
        self._writer = writer
        # The JSON of each encoded value by the `id` of the value, for the current and the previous request.
        self._texts: dict[int, _CachedJson] = {}
        self._previous_texts: dict[int, _CachedJson] = {}
        # The encoding of each message by the `id` and the variant of the message, for the same requests.
        self._messages: dict[tuple[int, str], _CachedMessage] = {}
        self._previous_messages: dict[tuple[int, str], _CachedMessage] = {}
        self._conversations: dict[int, _SettledPart] = {}
        self._settled_part = _SettledPart("")
        self._first_items: Sequence[Json] = ()

    def begin(self, first: Sequence[Json] = ()) -> None:
        """Begin another request. `first` are items of the history before its messages, such as the system prompt."""
        self._first_items = first
        self._previous_messages = self._messages
        self._messages = {}
        self._previous_texts = self._texts
        self._texts = {}

    def encode_settled(
        self,
        messages: Sequence[Message],
        variant: str,
        encode: Callable[[Sequence[Message], set[str]], Sequence[Json]],
        *,
        limit: int | None = None,
    ) -> UnsettledMessages:
        """Encode the messages whose encoding is final; return the other messages.

        `body` adds the encoded messages to the request. `encode` encodes messages; its second argument is the set of
        the call ids before these messages, to which it adds their call ids. `variant` names the settings that change
        the encoding. The encoding of messages from the index `limit` on is not final.
        """
        settled = self._take_settled(messages, variant)
        old_count = len(settled.messages)
        max_count = len(messages) - _UNSETTLED_MESSAGES
        if limit is not None:
            max_count = min(max_count, limit)
        is_same_start = all(map(operator.is_, settled.messages, messages))
        if old_count > max(max_count, 0) or not is_same_start:
            settled = _SettledPart(variant)
            old_count = 0
        count = _last_independent(messages, old_count, max_count)
        start = old_count
        while start < count:
            # A resumed session may have 10,000 messages. They are encoded in slices to save memory.
            end = _last_independent(messages, start, min(count, start + _SLICE_MESSAGES))
            if end == start:
                end = count  # the encoding cannot be split before
            items = encode(messages[start:end], settled.call_ids)
            added = self._writer.item_separator.join(map(self._message, items))
            if settled.json and added:
                settled.json += self._writer.item_separator.encode()
            settled.json += added.encode()
            self._messages.clear()
            self._texts.clear()
            start = end
        if count > old_count:
            settled.messages = tuple(messages[:count])
        if messages:
            self._conversations[id(messages[0])] = settled
        self._settled_part = settled
        return UnsettledMessages(messages[count:], set(settled.call_ids))

    def _take_settled(self, messages: Sequence[Message], variant: str) -> _SettledPart:
        """Take the settled part of this conversation out of the cache; drop the least recently used conversation.

        A conversation is identified by its first message. A sub-agent and its parent use one client in turn.
        """
        settled = self._conversations.pop(id(messages[0]), None) if messages else None
        while len(self._conversations) >= _MAX_CONVERSATIONS:
            del self._conversations[next(iter(self._conversations))]
        return settled if settled is not None and settled.variant == variant else _SettledPart(variant)

    def encode_once(self, message: Message, encode: Callable[[], list[Json]], variant: str) -> list[Json]:
        """Return the encoded message from the cache, or `encode()` if it is not cached in this variant."""
        key = (id(message), variant)
        cached = self._previous_messages.get(key)
        if cached is None or cached.message is not message:
            cached = _CachedMessage(message, encode())
        self._messages[key] = cached
        return cached.encoded

    def body(self, fields: JsonObject) -> bytes:
        """Return the request body as JSON, with the settled part before the messages in `fields`."""
        parts: list[bytes | bytearray] = []
        comma, colon = self._writer.item_separator, self._writer.key_separator
        for name, value in fields.items():
            before = comma if parts else "{"
            start = f"{before}{self._writer.encode(name)}{colon}"
            if name != self._field_name or not isinstance(value, list):
                parts.append(f"{start}{self._writer.encode(value)}".encode())
                continue
            parts.append(f"{start}[".encode())
            first = comma.join(map(self._message, self._first_items)).encode()
            unsettled = comma.join(map(self._message, value)).encode()
            # The settled part may be megabytes large, so the parts are joined only once, below.
            separator = b""
            for part in (first, self._settled_part.json, unsettled):
                if part:
                    parts += [separator, part]
                    separator = comma.encode()
            parts.append(b"]")
        return b"".join((*parts, b"}"))

    def _message(self, message: Json) -> str:
        """Return a message as JSON. Each request has new lists of blocks, but the blocks are the same objects."""
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(content, list):
            return self._cached_json(message)
        parts = []
        comma, colon = self._writer.item_separator, self._writer.key_separator
        for name, value in message.items():
            if name == "content":
                text = f"[{comma.join(map(self._cached_json, content))}]"
            else:
                text = self._writer.encode(value)
            parts.append(f"{self._writer.encode(name)}{colon}{text}")
        return f"{{{comma.join(parts)}}}"

    def _cached_json(self, value: Json) -> str:
        """Return a value as JSON; the same object is written only once."""
        cached = self._previous_texts.get(id(value))
        if cached is None or cached.value is not value:
            cached = _CachedJson(value, self._writer.encode(value))
        self._texts[id(value)] = cached
        return cached.text


def _last_independent(messages: Sequence[Message], start: int, end: int) -> int:
    """Return the last index after `start`, up to `end`, at which the encoding can be split, otherwise `start`."""
    for index in range(end, start, -1):
        if _is_independent(messages[index - 1], messages[index]):
            return index
    return start


def _is_independent(before: Message, after: Message) -> bool:
    """Return whether the encodings of two adjacent messages are independent in every protocol.

    Both must be sent, so that neither is merged with another message, and the second must not have results of the
    calls in the first.
    """
    if before.role == after.role or not (_is_sent(before) and _is_sent(after)):
        return False
    return after.role == "assistant" or not before.calls


def _is_sent(message: Message) -> bool:
    """Return whether every protocol sends the message. A message with only reasoning, for example, is omitted."""
    return any(not isinstance(block, Text | Reasoning) for block in message.blocks) or bool(message.text.strip())


def start_of_tool_loop(messages: Sequence[Message]) -> int:
    """Return the index after the last user message without results. Later calls belong to the current turn."""
    for index in range(len(messages) - 1, -1, -1):
        blocks = messages[index].blocks
        if messages[index].role == "user" and not any(isinstance(block, ToolResult) for block in blocks):
            return index + 1
    return 0


def results_first(blocks: tuple[Block, ...]) -> tuple[list[ToolResult], list[Text | Image]]:
    """Split a user message into its results and its other blocks; every protocol requires the results first."""
    results = [block for block in blocks if isinstance(block, ToolResult)]
    return results, [block for block in blocks if isinstance(block, Text | Image)]


def assistant_blocks(blocks: tuple[Block, ...]) -> list[Text | Reasoning | ToolCall]:
    """Return the blocks that an assistant message may contain, in order."""
    return [block for block in blocks if isinstance(block, Text | Reasoning | ToolCall)]


def without_trailing_thoughts(blocks: Iterable[Block]) -> list[Text | Reasoning | ToolCall]:
    """Return the blocks of an assistant message without the reasoning at its end, because Claude rejects it there."""
    remaining = assistant_blocks(tuple(blocks))
    while remaining:
        last = remaining[-1]
        is_blank = isinstance(last, Text) and not last.text.strip()
        if not (isinstance(last, Reasoning) or is_blank):
            break
        remaining.pop()
    return remaining


def has_calls(request: ModelRequest) -> bool:
    return any(message.calls for message in request.messages)


def stripped_prefill(request: ModelRequest) -> str:
    """Return the white space at the end of a prefill, which Claude rejects. Empty if the request has no prefill."""
    if not request.is_prefill or not request.messages or request.messages[-1].role != "assistant":
        return ""
    text = request.messages[-1].text
    return text[len(text.rstrip()) :] if text.strip() else ""


def called_names(request: ModelRequest) -> list[str]:
    """Return the names of all tools called in the transcript, without duplicates, in order of first use."""
    return list(dict.fromkeys(call.name for message in request.messages for call in message.calls))


def fit_call_id(call_id: str, *, max_length: int, is_exact: bool = False) -> str:
    """Return `call_id`, or an id derived from it if the host would reject it.

    After a change of model, ids from one host are sent to another. Anthropic accepts letters, digits, `_` and `-`;
    OpenAI at most 40 characters; Mistral exactly nine letters and digits (`is_exact`). The derived id is deterministic,
    so calls and results still match.
    """
    if is_exact:
        if len(call_id) == max_length and call_id.isascii() and call_id.isalnum():
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:max_length]
    if len(call_id) <= max_length and re.fullmatch(r"[A-Za-z0-9_-]+", call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"call_{digest[: min(24, max_length - 5)]}"


def generate_call_id(tag: str, response_id: str, number: int) -> str:
    """Generate an id for a call without one: deterministic for a reply, and unique in the conversation.

    `tag` distinguishes the replies of a conversation if the server sends no response id; `number` counts from 1.
    """
    reply = re.sub(r"[^A-Za-z0-9]", "", response_id)[-12:]
    return f"call_{tag}_{reply}_{number}" if reply else f"call_{tag}_{number}"


_DEFAULT_HOSTS = frozenset({"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"})
_AMAZON = ".amazonaws.com"


def opaque_origin(address: str) -> str:
    """Return an identifier of the host at `address`, empty for the default host of its protocol.

    An empty `address` means the default host. Credentials and a query in the address are ignored.
    """
    parts = urlsplit(address)
    host = (parts.hostname or "").lower()
    if not host or host in _DEFAULT_HOSTS or host.endswith(_AMAZON):
        return ""
    port = f":{parts.port}" if parts.port else ""
    return f"{host}{port}{parts.path.rstrip('/')}"


class _FilteredMessages(NamedTuple):
    """The messages of a conversation, and their filtered form."""

    messages: tuple[Message, ...] = ()
    filtered: tuple[Message, ...] = ()


class OpaqueFilter:
    """A filter of requests to the host `origin` that removes the opaque data of other hosts.

    Filtered messages are cached, so that a message in several requests remains the same object.
    """

    def __init__(self, origin: str) -> None:
        self.origin = origin
        # The keys are the `id`s of the first messages.
        self._cache: dict[int, _FilteredMessages] = {}

    def filter_request(self, request: ModelRequest) -> ModelRequest:
        """Return the request with only the opaque data of this host, and without the host in its source."""
        messages = request.messages
        if not self.origin or not messages:
            return request
        previous = self._cache.pop(id(messages[0]), _FilteredMessages())
        count = _count_same(previous.messages, messages)
        added = (_with_own_opaque(message, f"@{self.origin}") for message in messages[count:])
        filtered = (*previous.filtered[:count], *added)
        while len(self._cache) >= _MAX_CONVERSATIONS:
            del self._cache[next(iter(self._cache))]
        self._cache[id(messages[0])] = _FilteredMessages(messages, filtered)
        return replace(request, messages=filtered)


def _count_same(one: Sequence[Message], other: Sequence[Message]) -> int:
    """Return the number of messages at the start that are the same objects in both lists."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left is not right:
            break
        count += 1
    return count


def tag_opaque(event: ReplyEvent, origin: str) -> ReplyEvent:
    """Return the event with the host added to the source of its opaque data."""
    if type(event) is not BlockEnded or event.opaque is None:
        return event
    return replace(event, opaque=replace(event.opaque, source=f"{event.opaque.source}@{origin}"))


def _with_own_opaque(message: Message, ending: str) -> Message:
    if not any(_opaque_of(block) for block in message.blocks):
        return message
    return replace(message, blocks=tuple(_block_with_own_opaque(block, ending) for block in message.blocks))


def _block_with_own_opaque(block: Block, ending: str) -> Block:
    opaque = _opaque_of(block)
    if opaque is None or not isinstance(block, Text | Reasoning | ToolCall):
        return block
    if not opaque.source.endswith(ending):
        return replace(block, opaque=None)
    return replace(block, opaque=replace(opaque, source=opaque.source.removesuffix(ending)))


def _opaque_of(block: Block) -> Opaque | None:
    return block.opaque if isinstance(block, Text | Reasoning | ToolCall) else None
