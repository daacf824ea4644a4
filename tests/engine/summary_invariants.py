"""Invariants of summary requests and of a compacted transcript; used by `world`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.compactor import is_summary
from qcode.engine.counting import size_block, size_messages
from qcode.engine.effects import Compact, Input
from qcode.protocol.messages import Message, Text
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import UsageReported
from qcode.protocol.usage import Usage

if TYPE_CHECKING:
    from tests.engine.world import World


def true_size(request: ModelRequest) -> int:
    """Return the count of the host: the tokens of the text, without the safety margin of an estimate."""
    return sum(size_block(block) for message in request.messages for block in message.blocks)


def merged(old: Usage, new: Usage) -> Usage:
    """Return the usage after a later report, which replaces the earlier one field by field."""
    names = ("input", "output", "cache_read", "cache_write", "reasoning")
    return Usage(**{n: getattr(old, n) if getattr(new, n) is None else getattr(new, n) for n in names})


def check_summary_request(world: World, request: ModelRequest) -> None:
    """Assert that a summary request fits its window and comes at most twice, between steps or while a reply waits."""
    assert world.to_answer is None, "two requests at once"
    assert not world.queue, "a request while another streams"
    assert not world.asking and not world.running, "a compaction inside a round of calls"
    assert world.is_summarizing
    world.requests += 1
    world.to_answer = request
    world.summaries.append(Usage())
    settings = world.settings.compaction
    assert settings is not None
    window = (settings.writer or world.model).window or DEFAULT_CONTEXT_WINDOW
    assert true_size(request) + request.max_tokens <= window, "9: the request for a summary exceeds the window"
    assert request.max_tokens <= 8_000, "a summary obeys the output limit"


def check_compaction(world: World, effect: Compact) -> None:
    before = world.messages
    world.messages = [before[part] if isinstance(part, int) else part for part in effect.items]
    kept_parts = [part for part in effect.items if isinstance(part, int)]
    assert kept_parts == sorted(set(kept_parts)), "a compaction that changed the order"
    assert size_messages(world.messages) < size_messages(before), "it did not shrink"
    said = [text for message in before if message.role == "user" and not is_summary(message) for text in texts(message)]
    kept_text = "\n".join(text for message in world.messages for text in texts(message))
    assert not said or said[-1][:400] in kept_text, "the task was lost"


def texts(message: Message) -> list[str]:
    return [block.text for block in message.blocks if isinstance(block, Text) and block.text]


def note_summary(world: World, given: Input) -> None:
    if isinstance(given, UsageReported):
        world.summaries[-1] = merged(world.summaries[-1], given.usage)


def total(usages: Iterable[Usage]) -> Usage:
    added = Usage()
    for usage in usages:
        added = added + usage
    return added
