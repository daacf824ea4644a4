"""Recording a run and playing it back: the same answer, the same requests, and no secret in the file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from qcode import Agent, Allow, Approval, Decision, Options
from qcode.agent.models.recording import Recording, RecordingContent
from qcode.protocol.errors import ErrorKind, InputError, ProviderError
from qcode.protocol.messages import user
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, StopReason, TextDelta
from qcode.testing import Call, Scripted
from tests.fakes.scripted import Hang, ScriptedProvider, text_reply
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call as HostCall
from tests.fakes.turns import Refusal, Turn

KEY = "sk-recorded-0123456789abcdef"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text(f"the key is {KEY}\n")


async def yes(approval: Approval) -> Decision:
    return Allow()


def run(folder: Path, *prompts: str, model: Any, **options: Any) -> list[Any]:
    """Run the prompts in one conversation, and return their results."""

    async def work() -> list[Any]:
        expected = Options(cwd=folder / "work", model=model, trust=True, no_session=True, **options)
        async with Agent.open(expected, approve=yes) as agent:
            return [await agent.run(prompt, check=False) for prompt in prompts]

    return asyncio.run(work())


def record(folder: Path, turns: Sequence[Turn], *prompts: str, **options: Any) -> tuple[list[Any], Path]:
    """Record the prompts against a host that answers with `turns`."""
    file = folder / "r.jsonl"
    with FakeServer("openai", turns) as server:
        results = run(folder, *prompts, model="openai/gpt-5", base_url=server.base_url, record=file, **options)
    return results, file


def call(name: str, **arguments: object) -> Turn:
    return Turn(calls=(HostCall(name, json.dumps(arguments)),))


def test_playback_gives_the_same_answers_and_requests(tmp_path: Path) -> None:
    turns = (
        call("read", path="a.txt"),
        Turn(text="One, two, ", stop=StopReason.MAX_TOKENS),
        Turn(text="One, two, three, ", stop=StopReason.MAX_TOKENS),
        Turn(text="four."),
        Turn(refusal=Refusal(529, "busy")),
        Turn(text="Again."),
    )
    results, file = record(tmp_path, turns, "count", "again")
    assert [result.text for result in results] == ["One, two, three, four.", "Again."]

    played = run(tmp_path, "count", "again", model=f"replay/{file}")
    assert [result.text for result in played] == [result.text for result in results]
    assert [result.api_calls for result in played] == [result.api_calls for result in results]
    assert [result.usage for result in played] == [result.usage for result in results]
    assert (
        not (tmp_path / "home/state/limits.json").exists()
        or "replay" not in (tmp_path / "home/state/limits.json").read_text()
    )


def test_recording_holds_no_key_and_is_private(tmp_path: Path) -> None:
    half = len(KEY) // 2
    turns = (call("read", path="a.txt"), Turn(text=("It is ", KEY[:half], KEY[half:], ", I think.")))
    earlier = tmp_path / "r.jsonl"
    earlier.touch()
    earlier.chmod(0o644)
    _, file = record(tmp_path, turns, f"what is {KEY}?")
    text = file.read_text()
    assert KEY not in text
    assert file.stat().st_mode & 0o777 == 0o600
    deltas = [item.event for item in RecordingContent.read(file).replies[1].events if isinstance(item.event, TextDelta)]
    assert [delta.text for delta in deltas] == ["It is [redacted], I think."]


def test_prompt_requests_and_replies_are_in_order(tmp_path: Path) -> None:
    _, file = record(tmp_path, (call("read", path="a.txt"), Turn(text="ok"), Turn(text="bye")), "one", "two")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = [next(name for name in ("qcode", "prompt", "request", "reply") if name in row) for row in rows]
    assert kinds == ["qcode", "prompt", "request", "reply", "request", "reply", "prompt", "request", "reply"]
    assert [row["kept"] for row in rows if "request" in row] == [0, 1, 3]
    recorded = RecordingContent.read(file)
    assert recorded.model == "openai/gpt-5"
    assert recorded.prompts == ("one", "two")
    messages: list[Any] = [reply.request["messages"] for reply in recorded.replies]
    assert [len(message) for message in messages] == [1, 3, 5]
    assert messages[2][0]["blocks"][-1]["text"] == "one"


def test_failure_is_played_back(tmp_path: Path) -> None:
    results, file = record(tmp_path, (Turn(refusal=Refusal(400, "no such thing")),), "x")
    played = run(tmp_path, "x", model=f"replay/{file}")
    assert played[0].error.message == results[0].error.message
    assert (played[0].error.kind, played[0].error.status) == ("bad_request", 400)


def test_playback_ends_with_the_error_of_the_recording(tmp_path: Path) -> None:
    _, file = record(tmp_path, (Turn(text="ok"),), "one")
    results = run(tmp_path, "one", "two", model=f"replay/{file}")
    assert results[0].text == "ok"
    assert "has 1 replies, and all were played" in results[1].error.message


def test_cancelled_reply_is_recorded_as_one(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    hang = Hang()
    provider = ScriptedProvider([(ReplyStarted("m", "r"), TextDelta(0, "half"), hang)])

    async def work() -> None:
        expected = Options(cwd=tmp_path / "work", model=provider, no_session=True, record=file)
        async with Agent.open(expected) as agent:
            task = asyncio.ensure_future(agent.run("x", check=False))
            await hang.reached.wait()
            agent.cancel()
            assert (await task).text == "half"

    asyncio.run(work())
    reply = RecordingContent.read(file).replies[0]
    assert [timed.event for timed in reply.events] == [ReplyStarted("m", "r"), TextDelta(0, "half")]
    assert "it was cancelled" in run(tmp_path, "x", model=f"replay/{file}")[0].error.message


def test_each_thread_gets_its_own_replies_back(tmp_path: Path) -> None:
    task = {"description": "look", "prompt": "Look at a.txt.", "kind": "explore"}
    model = Scripted([[Call("agent", **task)], "It is a text.", "Done."], name="openai")
    file = tmp_path / "r.jsonl"
    assert run(tmp_path, "go", model=model, record=file)[0].text == "Done."
    threads = [reply.request["thread"] for reply in RecordingContent.read(file).replies]
    assert threads[0] == threads[2] != threads[1]
    assert run(tmp_path, "go", model=f"replay/{file}")[0].text == "Done."


def test_timed_playback_waits_as_the_model_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, file = record(tmp_path, (Turn(text=("a", "b")),), "x")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for number, event in enumerate(rows[-1]["events"]):
        event["at"] = 20 * number
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    least = 0.02 * (len(rows[-1]["events"]) - 1)
    assert run(tmp_path, "x", model=f"replay-timed/{file}")[0].duration >= least


UNUSABLE = [
    (b"", "is not a recording"),
    (b"not JSON\n{}\n", ":1: not a line of JSON"),
    (b"[]\n", ":1: not a JSON object"),
    (b'{"qcode": "recording", "version": 2}\n', "is not a recording of this version"),
    (b'{"qcode": "recording", "version": 1, "model": "m/m"}\n{"request": 1}\n', "request 1 is unreadable"),
    (
        b'{"qcode": "recording", "version": 1, "model": "m/m"}\n'
        b'{"request": 1, "thread": "t", "kept": 0, "messages": []}\n'
        b'{"reply": 1, "events": [{"at": 0, "event": "Exec", "code": "x"}]}\n',
        "request 1 is unreadable",
    ),
]


@pytest.mark.parametrize(("content", "complaint"), UNUSABLE)
def test_unusable_recording_is_a_one_line_error_with_the_position(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "r.jsonl"
    file.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as raised:
        RecordingContent.read(file)
    assert "\n" not in str(raised.value)


def test_torn_last_line_is_left_out(tmp_path: Path) -> None:
    _, file = record(tmp_path, (Turn(text="one"), Turn(text="two")), "a", "b")
    file.write_bytes(file.read_bytes()[:-30])
    assert run(tmp_path, "a", model=f"replay/{file}")[0].text == "one"


def test_write_error_ends_the_recording_and_not_the_run(tmp_path: Path) -> None:
    recording = Recording(Path("/dev/full"), str, "m/m")
    provider = recording.wrap(ScriptedProvider([text_reply("ok")]))

    async def work() -> list[Any]:
        request = ModelRequest("m", "", (user("x"),), (), 100)
        return [event async for event in provider.stream(request)]

    assert isinstance(asyncio.run(work())[-1], ReplyEnded)
    with pytest.raises(InputError, match=r"^cannot write --record"):
        run(tmp_path, "x", model=Scripted(["x"]), record=tmp_path / "none/r.jsonl")


def test_recorded_error_keeps_its_fields(tmp_path: Path) -> None:
    error = ProviderError(ErrorKind.QUOTA, "empty", status=402, request_id="r1", resets_at=1, period="day")
    file = tmp_path / "r.jsonl"
    run(tmp_path, "x", model=Scripted([error]), record=file)
    found = RecordingContent.read(file).replies[0].error
    assert found is not None
    assert found.info == error.info


class OpenStream(Scripted):
    """A model whose stream says whether it is still open."""

    is_open = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self.is_open = True
        try:
            yield ReplyStarted("m", "")
            yield TextDelta(0, "a long text")
        finally:
            self.is_open = False


def test_recorded_stream_that_is_left_early_is_closed_at_once(tmp_path: Path) -> None:
    model = OpenStream([])
    recording = Recording(tmp_path / "r.jsonl", str, "scripted/m")
    recorded = recording.wrap(model)

    async def leave_early() -> bool:
        stream = recorded.stream(ModelRequest("m", "", (user("hello"),), (), 100))
        assert isinstance(stream, AsyncGenerator)
        await anext(stream)
        await stream.aclose()
        return model.is_open

    assert not asyncio.run(leave_early())
    recording.close()
