"""The shown text of a streaming reply survives a kill, and is removed once the reply is committed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.agent.outcomes import AnswerSoFar
from qcode.agent.sessions import partial
from qcode.agent.sessions.partial import (
    COPIED_REPLY,
    FLUSH_CHARS,
    KILLED_REPLY,
    MAX_SEGMENT,
    PartialReply,
    read_partial,
)
from qcode.agent.sessions.turns import session_turns
from qcode.protocol.events import PartialRestored, Retry, TurnEvent
from qcode.protocol.messages import Reasoning, Text, ToolCall, assistant, user
from qcode.protocol.reply import ReasoningDelta, TextDelta
from qcode.safety.redaction import Redactor
from tests.agent.sessions.conversations import PROMPT, begin, make_store
from tests.fakes.conversation import Talk, talk
from tests.fakes.examples import share
from tests.fakes.scripted import Hang, text_reply

OVER = Retry(is_continuation=False, reason="max_tokens", attempt=1, max_tokens=64_000)
SECRET = "zebra-crossing-1234567890"


def nothing(shown: str) -> int:
    return 0


def written(path: Path, *events: TurnEvent, redact: Callable[[str], str] = str, is_closed: bool = True) -> Path:
    """Write the partial of these events as if the process then exited normally, or was killed."""

    async def write() -> None:
        reply = PartialReply(path, lambda: 4, redact, nothing)
        for event in events:
            reply.observe(event)
        if is_closed:
            reply.close()

    asyncio.run(write())
    return path


def text_of(path: Path, number: int = 4) -> str:
    found = read_partial(path, number)
    return found.text if found else ""


def deltas(*pieces: str) -> tuple[TextDelta, ...]:
    return tuple(TextDelta(0, piece) for piece in pieces)


def test_partial_text_is_read_back_exactly(tmp_path: Path) -> None:
    pieces = [f"word{number} größe\u2028 " + "\n" * (number % 7 == 0) for number in range(2_000)]
    assert text_of(written(tmp_path / "p", *deltas(*pieces))) == "".join(pieces)


def test_partial_text_is_written_without_waiting_once_two_thousand_characters_gathered(tmp_path: Path) -> None:
    path = written(tmp_path / "p", *deltas("word " * 10), is_closed=False)
    assert not path.exists()
    path = written(tmp_path / "p", *deltas(*["word "] * (FLUSH_CHARS // 5)), is_closed=False)
    assert text_of(path) == "word " * (FLUSH_CHARS // 5)


def test_partial_text_is_written_after_a_while_when_the_stream_stalls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial, "FLUSH_INTERVAL_S", 0)

    async def stall() -> None:
        reply = PartialReply(tmp_path / "p", lambda: 4, str, nothing)
        reply.observe(TextDelta(0, "some words and the la"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert text_of(tmp_path / "p") == "some words and the "
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert text_of(tmp_path / "p") == "some words and the la"
        reply.observe(TextDelta(0, "st"))
        reply.clear()
        await asyncio.sleep(0)
        assert (tmp_path / "p").read_bytes() == b""

    asyncio.run(stall())


def test_text_of_a_language_without_spaces_is_written_at_each_flush(tmp_path: Path) -> None:
    async def stream() -> None:
        reply = PartialReply(tmp_path / "p", lambda: 4, str, nothing)
        reply.observe(TextDelta(0, "字" * 50))
        reply.flush()
        assert text_of(tmp_path / "p") == "字" * 50
        reply.close()

    asyncio.run(stream())


def test_secret_in_two_deltas_is_never_written(tmp_path: Path) -> None:
    redact = Redactor([SECRET]).redact
    filler = "word " * (FLUSH_CHARS // 5)
    path = written(tmp_path / "p", *deltas(filler, f"the key is {SECRET[:9]}", SECRET[9:], " and more"), redact=redact)
    assert text_of(path) == f"{filler}the key is [redacted] and more"
    assert SECRET[:9] not in path.read_text()


@pytest.mark.parametrize(
    "secret",
    [SECRET, "line one of it\nline two of it\nthe third", "sk-abcdefghijklmnopqrstuvwxyz", "ghp_" + "a1" * 18,
     "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2QT4", "合言葉は開けゴマです"],
    ids=["value", "lines", "openai", "github", "token", "japanese"],
)  # fmt: skip
def test_no_part_of_a_secret_is_written_while_the_stream_pauses(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream pauses after each character, long enough to write everything each time."""
    monkeypatch.setattr(partial, "FLUSH_INTERVAL_S", 0)
    redactor, path = (
        Redactor([SECRET, "line one of it\nline two of it\nthe third", "合言葉は開けゴマです"]),
        tmp_path / "p",
    )
    filler = "word " * (FLUSH_CHARS // 5) + "\n"

    async def stream() -> None:
        reply = PartialReply(path, lambda: 4, redactor.redact, redactor.partial_secret_length)
        for piece in (filler, "It is ", *secret):
            reply.observe(TextDelta(0, piece))
            for _ in range(6):
                await asyncio.sleep(0)
            assert secret[:6] not in path.read_text()
        for piece in (" and", " more.\n", filler):
            reply.observe(TextDelta(0, piece))
        reply.close()

    asyncio.run(stream())
    assert text_of(path) == f"{filler}It is [redacted] and more.\n{filler}"


@pytest.mark.parametrize(
    "name", ["Authorization: Bearer ", "authorization: ", "x-api-key: ", '"x-goog-api-key": "', "Bearer\n"]
)
def test_segment_never_ends_between_the_name_of_a_secret_and_its_value(name: str, tmp_path: Path) -> None:
    redactor, path = Redactor(), tmp_path / "p"
    value = "abcdefgh1234567890ABCDEFGH" if name.startswith("Bearer") else "abcdefgh12"
    scheme = "Token " if name == "authorization: " else ""
    filler = "word " * (MAX_SEGMENT // 5)

    async def stream() -> None:
        reply = PartialReply(path, lambda: 4, redactor.redact, redactor.partial_secret_length)
        for piece in (f"{filler}{name}", scheme, value, " and more.\n"):
            reply.observe(TextDelta(0, piece))
            reply.flush()
        reply.close()

    asyncio.run(stream())
    assert text_of(path) == f"{filler}{name}{scheme}[redacted] and more.\n"


def test_word_like_the_start_of_a_key_is_written_once_more_text_follows(tmp_path: Path) -> None:
    redactor = Redactor([SECRET])
    for text in ("use sk-learn", "zebra", "a token bearer x", "http://localhost:80"):
        assert redactor.partial_secret_length(f"Here: {text}") > 0, text
        assert redactor.partial_secret_length(f"Here: {text} and so on") == 0, text
    for text in ("task", "risk-free", "the token", "sk", "", "a b", "zeb"):
        assert redactor.partial_secret_length(text) == 0, text


@pytest.mark.parametrize(
    ("secret", "start"), [("合言葉は開けゴマです", "合言葉は"), ("one two three four", "one two ")]
)
def test_text_is_never_written_up_to_a_word_end_inside_a_secret(secret: str, start: str, tmp_path: Path) -> None:
    redactor, path = Redactor([secret]), tmp_path / "p"

    async def write() -> None:
        reply = PartialReply(path, lambda: 4, redactor.redact, redactor.partial_secret_length)
        reply.observe(TextDelta(0, f"It is {secret}x"))
        reply.flush()
        reply.close()

    asyncio.run(write())
    assert text_of(path) == "It is [redacted]x"
    assert start not in path.read_text()


def test_private_key_over_many_lines_is_never_written(tmp_path: Path) -> None:
    lines = [f"{number:064d}\n" for number in range(60)]
    key = ["-----BEGIN PRIVATE KEY-----\n", *lines, "-----END PRIVATE KEY-----\n"]
    path = written(tmp_path / "p", *deltas("Here:\n", *key, "Done.\n"), redact=Redactor().redact)
    assert text_of(path) == "Here:\n[redacted]\nDone.\n"
    assert lines[-1].strip() not in path.read_text()


def test_reasoning_is_kept_before_text_and_dropped_after_it(tmp_path: Path) -> None:
    events = (ReasoningDelta(0, "Hm. "), TextDelta(1, "So: "), TextDelta(1, "yes"), ReasoningDelta(2, "or no"))
    assert read_partial(written(tmp_path / "p", *events), 4) == assistant(Reasoning("Hm. "), Text("So: yes"))
    assert read_partial(written(tmp_path / "q", ReasoningDelta(0, "only thoughts")), 4) is None


def test_partial_of_a_committed_message_is_ignored(tmp_path: Path) -> None:
    path = written(tmp_path / "p", *deltas("said"))
    assert (text_of(path, 4), text_of(path, 5)) == ("said", "")


def test_torn_or_damaged_partial_gives_its_complete_records(tmp_path: Path) -> None:
    path = written(tmp_path / "p", *deltas("one "), OVER, *deltas("two, which is longer"))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert text_of(path) in ("", "one ", "two, which is longer")
    path.write_bytes(b'{"n":4}\n{"segment":"x"}\n')
    assert text_of(path) == ""


EVENTS: st.SearchStrategy[list[TurnEvent]] = st.lists(
    st.one_of(
        st.text(st.sampled_from("ab \n"), min_size=1, max_size=12).map(lambda text: TextDelta(0, text)),
        st.just(OVER),
        st.text("xy ", min_size=1, max_size=12).map(PartialRestored),
        st.just(Retry(is_continuation=True, reason="max_tokens", attempt=1, max_tokens=8_000)),
    ),
    max_size=14,
)


@settings(max_examples=share(60), deadline=None)
@given(events=EVENTS)
def test_partial_equals_the_answer_of_an_interrupted_pipe(
    tmp_path_factory: pytest.TempPathFactory, events: list[TurnEvent]
) -> None:
    folder = tmp_path_factory.mktemp("p")
    answer = AnswerSoFar()
    for event in events:
        answer.observe(event)
    kept_text = text_of(written(folder / "p", *events))
    assert kept_text.rstrip() == answer.text.rstrip()  # a block of white space at the end is not kept
    assert answer.text.startswith(kept_text)


def killed(chat: Talk, prompt: str, expected: Sequence[str], hang: Hang) -> Path:
    """Copy the session folder at the moment when the reply hangs, as a kill would leave it."""
    copy = chat.store.folder.parent / "killed"

    async def play() -> None:
        async def follow() -> None:
            await chat.play(prompt)

        turn = asyncio.ensure_future(follow())
        await hang.reached.wait()
        session = chat.conversation.session_id
        async with asyncio.timeout(10):
            while not all(item in text_of(chat.store.folder / f"{session}.partial", 1) for item in expected):
                await asyncio.sleep(0.01)
        shutil.copytree(chat.store.folder, copy)
        hang.go.set()
        await turn
        await chat.conversation.close()

    asyncio.run(play())
    return copy


def test_killed_reply_is_a_message_marked_as_such_after_resume(tmp_path: Path) -> None:
    hang = Hang()
    reply = text_reply("The answer", " is forty-two.")
    chat = talk(tmp_path, [*reply[:2], hang, *reply[2:]])
    copy = killed(chat, "ask", ["The answer"], hang)
    session_id = chat.conversation.session_id
    assert not (chat.store.folder / f"{session_id}.partial").exists(), "emptied at commit, removed at the end"
    shutil.rmtree(chat.store.folder)
    copy.rename(chat.store.folder)
    (chat.store.folder / f"{session_id}.lock").unlink()

    loaded = chat.store.load(session_id)
    assert loaded.messages[-1] == assistant(Text("The answer"))
    opened = chat.store.resume(session_id)
    session, resumed = opened.session, opened.loaded
    assert resumed.entries[-1].note == KILLED_REPLY.text
    (turn,) = session_turns(chat.store.load(session_id).history, lambda name: None, str)
    assert turn.seconds is None, "the resume stored the reply, maybe days later"
    assert "qcode ended while the last reply was written; the text so far is kept." in resumed.notices
    assert not (chat.store.folder / f"{session_id}.partial").exists()
    session.append(user("continue"))
    session.close()
    assert [message.role for message in chat.store.load(session_id).messages] == ["user", "assistant", "user"]


def test_partial_of_an_open_session_is_shown_and_forked_but_left_alone(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, PROMPT)

    async def write() -> None:
        session.partial.observe(TextDelta(0, "half an answ"))
        session.partial.flush(includes_last_word=True)

    asyncio.run(write())
    partial_file = store.folder / f"{session.session_id}.partial"
    before = partial_file.read_bytes()
    loaded = store.load(session.session_id)
    assert loaded.all_entries()[-1].message.text == "half an answ"
    assert loaded.notices == ("The last reply is still being written.",)
    assert loaded.entries[-1].note == "This reply is still being written."
    opened = store.fork(session.session_id, cwd=tmp_path)
    copy, copied = opened.session, opened.loaded
    copy.close()
    assert copied.notices == (COPIED_REPLY.text,)
    entry = store.load(copy.session_id).entries[-1]
    assert (entry.message.text, entry.note) == ("half an answ", COPIED_REPLY.text), "qcode has not ended"
    assert store.load(copy.session_id).messages[-1].text == "half an answ"
    assert partial_file.read_bytes() == before
    assert partial_file.stat().st_mode & 0o777 == 0o600
    session.append(assistant(Text("half an answer")))
    assert partial_file.read_bytes() == b""
    session.close()


def test_unanswered_calls_before_a_partial_get_results_once(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, PROMPT, assistant(ToolCall("c1", "read", "{}")))
    session.close()
    written_for_two = written(store.folder / f"{session.session_id}.partial", *deltas("later"))
    written_for_two.write_bytes(written_for_two.read_bytes().replace(b'{"n":4}', b'{"n":2}'))
    first = store.resume(session.session_id).session
    messages = [entry.message for entry in first.entries()]
    first.close()
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant"]
    assert list(store.load(session.session_id).messages) == messages


def test_deleted_session_takes_its_partial_with_it(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    session = begin(store, PROMPT)
    session.close()
    path = written(store.folder / f"{session.session_id}.partial", *deltas("later"))
    store.delete(session.session_id)
    assert not path.exists()


def test_unwritable_partial_never_stops_a_reply(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    written(tmp_path / "p", *deltas("one ", "two "), OVER, *deltas("three"))
    assert list((tmp_path / "p").iterdir()) == []
