"""The estimated size of a prompt, and the conclusions from a count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW, fit, max_prompt_tokens
from qcode.engine.counting import TOKENS_PER_IMAGE, PromptCounter, bound_text, estimate_text, size_messages
from qcode.protocol.messages import (
    Block,
    Image,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from qcode.protocol.model import ModelRequest
from tests.engine.play import READ


def request(*messages: Message, system: str = "", tools: bool = False) -> ModelRequest:
    return ModelRequest("m", system, messages, (READ,) if tools else (), 100)


def test_four_bytes_are_a_token_rounded_up() -> None:
    assert [estimate_text(text) for text in ("", "a", "abcd", "abcde", "漢字", "🙂", "\ud800")] == [0, 1, 1, 2, 2, 1, 1]


@given(st.text(max_size=50), st.text(max_size=50))
def test_estimate_never_falls_when_text_is_added(left: str, right: str) -> None:
    assert estimate_text(left) <= estimate_text(left + right) <= estimate_text(left) + estimate_text(right)


def test_estimate_includes_every_kind_of_block() -> None:
    image = Image("image/png", "AAAA")
    blocks: list[Block] = [Text("x" * 40), Reasoning("x" * 40), ToolCall("c", "read", "x" * 40), image]
    sizes = [size_messages([assistant(block)]) - size_messages([assistant()]) for block in blocks]
    assert sizes == [10, 10, 11, TOKENS_PER_IMAGE]
    result = ToolResult("c", "read", "x" * 40, images=(image,))
    assert size_messages([Message("user", (result,))]) - size_messages([Message("user", ())]) == 10 + TOKENS_PER_IMAGE


def test_system_prompt_and_tools_are_estimated_without_a_provider_count() -> None:
    counter = PromptCounter()
    bare = counter.size_of(request(user("hi")))
    assert not bare.is_counted
    assert counter.size_of(request(user("hi"), system="x" * 400)).tokens == bare.tokens + 100
    assert counter.size_of(request(user("hi"), tools=True)).tokens > bare.tokens


def test_provider_count_is_used_and_only_the_rest_is_estimated() -> None:
    counter = PromptCounter()
    first = request(user("hi"))
    counter.record(first, 5_000, 40)
    assert counter.context_tokens == 5_040
    size = counter.size_of(request(user("hi"), assistant(Text("y" * 400))))
    assert (size.tokens, size.is_counted) == (5_000 + 108, True)


def test_prompt_with_much_new_text_is_not_counted_as_exact() -> None:
    counter = PromptCounter()
    counter.record(request(user("hi")), 5_000)
    size = counter.size_of(request(user("hi"), assistant(Text("y" * 4_000))))
    assert (size.tokens, size.is_counted) == (5_000 + 1_008, False)


def test_changed_history_is_estimated_again() -> None:
    counter = PromptCounter()
    counter.record(request(user("hi")), 5_000)
    assert not counter.size_of(request(user("other"))).is_counted


def test_missing_or_zero_count_is_ignored() -> None:
    counter = PromptCounter()
    counter.record(request(user("hi")), None)
    counter.record(request(user("hi")), 0)
    assert not counter.size_of(request(user("hi"))).is_counted


def test_count_of_the_first_attempt_applies_to_every_continuation() -> None:
    counter = PromptCounter()
    first = ModelRequest("m", "", (user("go"),), (), 8000)
    counter.record(first, 5_000)
    asked = ModelRequest("m", "", (user("go"), assistant(Text("part")), user("resume")), (), 8000)
    counter.record(asked, 5_100)
    again = ModelRequest("m", "", (user("go"), assistant(Text("part and part")), user("resume")), (), 8000)
    size = counter.size_of(again)
    assert size.is_counted
    assert 5_000 < size.tokens < 5_100


def test_opaque_data_counts_at_its_size() -> None:
    sealed = Reasoning("", Opaque("anthropic", "x" * 400))
    reasoning = Reasoning("y" * 4_000, Opaque("anthropic", "x" * 400))
    bare = size_messages([assistant()])
    assert [size_messages([assistant(block)]) - bare for block in (sealed, reasoning)] == [100, 1_000]


class Vocabulary:
    """Counts a token for each two characters, and records the texts."""

    def __init__(self, *, is_loaded: bool = True) -> None:
        self.is_loaded = is_loaded
        self.asked: list[str] = []

    def count(self, text: str) -> int | None:
        self.asked.append(text)
        return -(-len(text) // 2) if self.is_loaded else None


def test_prompt_whose_bytes_fit_is_never_counted() -> None:
    words = Vocabulary()
    counter = PromptCounter(words.count)
    asked = request(user("x" * 400), system="y" * 40, tools=True)
    bound = counter.bound_of(asked)
    assert counter.size_of(asked, threshold=bound) == counter.size_of(asked) == PromptCounter().size_of(asked)
    assert words.asked == []


def test_each_text_of_a_prompt_that_may_not_fit_is_counted_once() -> None:
    words = Vocabulary()
    counter = PromptCounter(words.count)
    asked = request(user("x" * 400), assistant(Text("x" * 400)))
    size = counter.size_of(asked, threshold=counter.bound_of(asked) - 1)
    assert (size.tokens, size.is_counted) == (2 * 208, False)
    assert counter.size_of(asked, threshold=0) == size
    assert words.asked == ["x" * 400]


def test_prompt_is_estimated_until_the_vocabulary_is_loaded() -> None:
    words = Vocabulary(is_loaded=False)
    counter = PromptCounter(words.count)
    asked = request(user("x" * 400))
    assert counter.size_of(asked, threshold=0) == PromptCounter().size_of(asked)
    words.is_loaded = True
    assert counter.size_of(asked, threshold=0).tokens == 208


def test_only_text_that_the_provider_did_not_count_is_counted_locally() -> None:
    words = Vocabulary()
    counter = PromptCounter(words.count)
    counter.record(request(user("hi")), 5_000)
    size = counter.size_of(request(user("hi"), assistant(Text("y" * 400)), system="s" * 90_000), threshold=0)
    assert (size.tokens, size.is_counted) == (5_208, True)
    assert words.asked == ["y" * 400]


@given(st.lists(st.text(max_size=30), max_size=4), st.text(max_size=30))
def test_estimate_never_exceeds_the_bound(texts: list[str], system: str) -> None:
    asked = request(*(user(text) for text in texts), system=system, tools=True)
    counter = PromptCounter(bound_text)
    assert counter.size_of(asked).tokens <= counter.bound_of(asked)
    assert counter.size_of(asked, threshold=0).tokens == counter.bound_of(asked)


@given(st.integers(1, 100_000), st.none() | st.integers(1, 400_000), st.booleans())
def test_prompt_that_fits_leaves_the_full_cap(cap: int, window: int | None, is_counted: bool) -> None:
    room = max_prompt_tokens(cap, window)
    if room < 0:
        return
    fitted = fit(cap, prompt_tokens=room, window=window, is_counted=is_counted)
    assert fitted == cap or cap < 1_024
    assert fit(cap, prompt_tokens=room + 1, window=window, is_counted=False) != cap
    assert room + cap < (window or DEFAULT_CONTEXT_WINDOW)


def test_prompt_is_counted_only_if_its_size_in_bytes_leaves_it_open() -> None:
    """Loading the vocabulary takes half a second and 75 MB."""
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 1

    counter = PromptCounter(count)
    request = ModelRequest("m", "", (user("x" * 8_000),), (), 8_000)
    bound = counter.bound_of(request)
    for enough, is_counted in ((bound, False), (bound - 1, True), (bound // 8 + 1, True), (bound // 8 - 1, False)):
        asked.clear()
        fresh = PromptCounter(count)
        fresh.size_of(request, threshold=enough)
        assert bool(asked) is is_counted, enough
