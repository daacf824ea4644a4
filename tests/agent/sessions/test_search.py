"""Search in stored sessions: by all words, with a passage, quickly, and in files with any content."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qcode.agent.sessions.shown import ShownItem
from qcode.agent.sessions.store import SessionStore
from qcode.protocol.events import Notice
from qcode.protocol.messages import Image, Message, Text, assistant, user


def store_in(base: Path) -> SessionStore:
    numbers = iter(range(10_000))
    return SessionStore(base, base, lambda: datetime(2026, 1, 1, tzinfo=UTC), lambda _: f"s{next(numbers):04}")


def add(store: SessionStore, prompt: str, reply: str) -> str:
    session = store.create("m/m", Path("/"))
    session.append(user(prompt))
    session.append(assistant(Text(reply)))
    session.close()
    return session.session_id


def test_words_are_found_in_any_message_with_the_text_around_the_first(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    first = add(store, "please fix the parser", "I changed the tokenizer, and the needle is in the haystack now.")
    add(store, "please fix the printer", "Done.")
    assert store.passages("NEEDLE", store.ids()) == {first: "…and the needle is in the haystack now."}
    assert set(store.passages("needle parser", store.ids())) == {first}
    assert store.passages("needle printer", store.ids()) == {}
    assert store.passages("needle", []) == {}
    assert len(store.search("please")) == 2


@pytest.mark.parametrize(
    ("words", "passage"),
    [
        ("section 37", "…36. A queue Section 37 covers a cache."),
        # Not one after the other: the rarer word, without the marks of Markdown around it.
        ("section cache", "…37 covers a cache."),
    ],
)
def test_passage_is_about_the_rarest_word_of_the_search(words: str, passage: str, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    found = add(store, "a guide", "Section 1 is about a client.\n\n## 36. A queue\nSection 37 covers a **cache**.")
    assert store.passages(words, store.ids()) == {found: passage}


def test_words_that_json_escapes_and_other_scripts_are_found(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    found = add(store, 'say "hi" to C:\\dir or a/b', "Grüße, 日本語\nand a tab\there")
    for words in ('"hi"', "c:\\dir", "a/b", "grüsse", "GRÜSSE", "日本", "tab here"):
        assert set(store.passages(words, store.ids())) == {found}, words


def test_damaged_files_are_searched_as_far_as_possible(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    found = add(store, "needle", "ok")
    path = store.folder / f"{found}.jsonl"
    path.write_bytes(
        b'{"kind":"message"\xff needle}\n{"kind":"message","role":7,"needle":1}\n' + path.read_bytes() + b'{"kind"'
    )
    assert set(store.passages("needle", store.ids())) == {found}
    path.write_bytes(b"\x00" * 1_000)
    assert store.passages("needle", store.ids()) == {}


def test_branch_of_the_start_is_in_the_summary(tmp_path: Path) -> None:
    for name in ("objects", "refs"):
        (tmp_path / ".git" / name).mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/fix-cart\n")
    store = store_in(tmp_path)
    add(store, "one", "two")
    assert [summary.branch for summary in store.summaries()] == ["fix-cart"]


def test_session_whose_first_prompt_is_an_image_gets_the_next_prompt_as_its_title(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    session = store.create("m/m", Path("/"))
    session.append(Message("user", (Image("image/png", "AAAA"),)))
    session.append(assistant(Text("A cat.")))
    session.record_shown([ShownItem(Notice("info", "A notice."))])
    session.append(user("Its color?"))
    session.close()
    assert [summary.title for summary in store.summaries()] == ["Its color?"]


def test_500_sessions_are_searched_quickly(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    sample = add(store, "prompt", "a reply with many words. " * 4_000)
    content = (store.folder / f"{sample}.jsonl").read_bytes()
    for number in range(500):
        (store.folder / f"t{number:04}.jsonl").write_bytes(content)
    found = add(store, "needle", "ok")
    started = time.process_time()
    assert set(store.passages("needle", store.ids())) == {found}
    assert time.process_time() - started < 2
