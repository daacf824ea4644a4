"""A resumed session shows the rows with which it was seen: the same presenter gets the same events again."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from qcode.agent.sessions.history import StoredMessage
from qcode.agent.sessions.store import SessionStore
from qcode.agent.toolbox import Toolbox
from qcode.agent.usage import TurnUsage
from qcode.protocol.approvals import (
    NO_OPTIONS,
    Allow,
    Answer,
    Deny,
    Question,
    Revise,
    ToolApproval,
    TurnApproval,
    TurnOptions,
)
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import CANCELLED_NOTE, ApiCalls, ApprovalRequested, ToolStarted, TurnEvent
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import StopReason, TextDelta
from qcode.protocol.usage import Usage
from qcode.tools.subagent import SubagentTool
from qcode.tui.presenter import Presenter
from qcode.tui.transcript.replay import (
    MAX_MESSAGES_AT_ONCE,
    UNFINISHED,
    first_shown_message,
    is_shown_by_resume,
    replay,
    show_earlier,
    show_resumed,
)
from qcode.tui.transcript.transcript import Transcript
from tests.fakes.conversation import Model, Talk, talk
from tests.fakes.scripted import Call, Hang, Steps, begun, call_reply, calls_reply, cut_empty, cut_text, text_reply
from tests.tui.harness import Running, drive, running
from tests.tui.scripted import FixedClock, ScriptedConversation, said
from tests.tui.test_presenter import Recorder


class Person(Recorder):
    """Answers every approval: denies calls whose id starts with `no`, and answers questions."""

    def __init__(self, talked: Talk) -> None:
        super().__init__()
        self._talk = talked
        self._clock = FixedClock()
        self.transcript = Transcript(clock=self._clock)
        self._presenter = Presenter(self.transcript, self, self, self._clock)

    def ask(self, approval: TurnApproval, position: str) -> None:
        decision = Answer("the blue one") if isinstance(approval, Question) else Allow()
        denied = approval.id.startswith("no")
        self._talk.conversation.answer(approval.id, Deny("not today") if denied else decision)

    def show_steering(self, text: str) -> None:
        self.transcript.add_user(text)

    async def say(self, prompt: str, options: TurnOptions = NO_OPTIONS) -> None:
        self.transcript.add_user(options.shown_prompt or prompt)
        async for _ in self.events(prompt, options):
            pass

    async def events(self, prompt: str, options: TurnOptions = NO_OPTIONS) -> AsyncIterator[TurnEvent]:
        """Show the events of a turn, and yield them."""
        async for event in self._talk.conversation.submit(prompt, options=options):
            self._presenter.present(event)
            yield event

    @property
    def rows(self) -> list[str]:
        return self.transcript.plain_text().split("\n")


def replayed_rows(talked: Talk, *, is_resumed: bool = False) -> list[str]:
    transcript = Transcript(clock=FixedClock())
    replay(talked.conversation.stored_messages, transcript, FixedClock(), max_continuations=3)
    if is_resumed:
        show_resumed(talked.conversation, transcript)
    return transcript.plain_text().split("\n")


def resumed_rows(base: Path, talked: Talk) -> list[str]:
    """Return the rows that a new process shows for the session file, without the mark of the resume."""
    session_id = talked.conversation.session_id
    talked.conversation.release()
    again = talk(base, resumes=session_id, is_attended=True)
    try:
        return replayed_rows(again)
    finally:
        again.conversation.release()


def play(base: Path, replies: Sequence[Steps], *prompts: str, resumes: str = "") -> tuple[Talk, list[str]]:
    talked = talk(base, *replies, is_attended=True, resumes=resumes)
    person = Person(talked)

    async def body() -> None:
        for prompt in prompts:
            await person.say(prompt)

    asyncio.run(body())
    return talked, person.rows


EDITS = (
    calls_reply(
        Call("write", {"path": "cart.py", "content": "a = 1\nb = 2\n"}, "c1"),
        Call("edit", {"path": "cart.py", "old_text": "b = 2", "new_text": "b = 3\nc = 4"}, "c2"),
        text="I will write it.",
    ),
    text_reply("Done.", reasoning="Let me see.\nYes."),
)
COMMANDS = (
    calls_reply(
        Call("shell", {"command": "printf 'one\\ntwo\\n'"}, "c3"),
        Call("shell", {"command": "true"}, "c4"),
        Call("shell", {"command": "echo wrong >&2; exit 3"}, "c5"),
    ),
    text_reply("It printed."),
)
DENIED = (
    calls_reply(Call("shell", {"command": "rm -rf x"}, "no1"), Call("read", {"path": "missing.py"}, "c6")),
    text_reply("As you wish."),
)
QUESTION = (
    call_reply("ask_user", {"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}, call_id="c7"),
    text_reply("Blue it is."),
)
TRUNCATED: tuple[Steps, ...] = (
    cut_text("The first half of a long answer, "),
    cut_text("The first half of a long answer, and more of it, "),
    text_reply("and the end of it."),
)
ESCALATED: tuple[Steps, ...] = (cut_empty(), text_reply("All of it."))
FAILED: tuple[Steps, ...] = ((ProviderError(ErrorKind.AUTH, "the key was refused"),),)
REFUSED: tuple[Steps, ...] = (text_reply("I would", stop=StopReason.REFUSAL),)

CASES = {
    "edits": EDITS,
    "commands": COMMANDS,
    "a denied and a failed call": DENIED,
    "a question": QUESTION,
    "a truncated reply": TRUNCATED,
    "an escalation before any text": ESCALATED,
    "a failed turn": FAILED,
    "a refusal": REFUSED,
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_session_shows_the_same_rows(case: str, tmp_path: Path) -> None:
    talked, seen = play(tmp_path, CASES[case], "please")
    assert resumed_rows(tmp_path, talked) == seen


def test_resumed_command_says_where_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toolbox, "has_sandbox", lambda _: True)
    talked, seen = play(tmp_path, COMMANDS, "please")
    assert "outside the sandbox" in "\n".join(seen)
    assert resumed_rows(tmp_path, talked) == seen


def test_interrupted_second_attempt_is_shown_as_interrupted_live_and_on_replay(tmp_path: Path) -> None:
    talked = talk(tmp_path, cut_text("The first half of it, "), [*begun("The"), Hang()], is_attended=True)
    person = Person(talked)

    async def body() -> None:
        person.transcript.add_user("please")
        async for event in person.events("please"):
            if event == TextDelta(0, "The"):
                talked.conversation.cancel()

    asyncio.run(body())
    assert any("retry interrupted; first text kept" in row for row in person.rows)
    assert "failed" not in "".join(person.rows)
    assert resumed_rows(tmp_path, talked) == person.rows


def test_resumed_and_undone_conversation_shows_the_same_rows(tmp_path: Path) -> None:
    turns = [EDITS, COMMANDS, DENIED, QUESTION, TRUNCATED]
    talked = talk(tmp_path, *(reply for turn in turns for reply in turn), is_attended=True)
    person = Person(talked)

    async def body() -> None:
        for number in range(len(turns)):
            before[:] = person.rows
            await person.say(f"prompt {number}")
        assert replayed_rows(talked) == person.rows
        checkpoints = talked.conversation.checkpoints
        await checkpoints.perform(await checkpoints.plan_undo())

    before: list[str] = []
    asyncio.run(body())
    assert len(before) > 40
    assert replayed_rows(talked) == before
    assert resumed_rows(tmp_path, talked) == before


def test_undone_compaction_is_not_shown_until_it_is_redone(tmp_path: Path) -> None:
    long = text_reply("word " * 1_500)
    model = Model(facts=ModelFacts(context_window=40_000))
    talked = talk(tmp_path, long, long, text_reply("Task: x."), is_attended=True, model=model)
    conversation = talked.conversation

    async def body() -> None:
        for number in range(2):
            await Person(talked).say(f"prompt {number}")
        before = replayed_rows(talked)
        assert [event async for event in conversation.compact()]
        after = replayed_rows(talked)
        assert "Compacted: older messages summarized" in "\n".join(after)
        checkpoints = conversation.checkpoints
        await checkpoints.perform(await checkpoints.plan_undo())
        assert replayed_rows(talked) == before
        await checkpoints.perform(await checkpoints.plan_redo())
        assert replayed_rows(talked) == after
        await checkpoints.perform(await checkpoints.plan_undo())
        assert resumed_rows(tmp_path, talked) == before

    asyncio.run(body())


def test_resumed_rows_include_diffs_states_and_notices(tmp_path: Path) -> None:
    """The rows of a replay are not only equal, they hold diff, summary, denial and mark, and no note to the model."""
    turns = [EDITS, COMMANDS, DENIED, TRUNCATED]
    talked, _ = play(tmp_path, [reply for turn in turns for reply in turn], "1", "2", "3", "4")
    text = "\n".join(resumed_rows(tmp_path, talked))
    for piece in ("+ c = 4", "exit 3", "declined · not today", "continued 1/3"):
        assert piece in text
    assert "[exit code" not in text


def test_prompt_is_shown_as_typed_and_not_as_sent(tmp_path: Path) -> None:
    talked = talk(tmp_path, text_reply("Fine."), is_attended=True)
    person = Person(talked)
    asyncio.run(person.say("A long text for the model.", TurnOptions(shown_prompt="/review src")))
    rows = resumed_rows(tmp_path, talked)
    assert rows == person.rows
    assert rows[0] == "> /review src"


def test_text_of_hooks_is_not_shown_as_a_prompt(tmp_path: Path) -> None:
    talked, _ = play(tmp_path, [text_reply("Hello.")], "hi")
    session = talked.conversation.session
    session.append(Message("user", (Text('<hook event="UserPromptSubmit">\nbranch main\n</hook>'), Text("fix it"))))
    session.append(assistant(Text("Fixed.")))
    session.append(user('<hook event="Stop">\nThe tests fail.\n</hook>'), is_turn_start=False)
    rows = replayed_rows(talked)
    assert "> fix it" in rows
    assert not any("<hook" in row or "branch main" in row for row in rows)
    assert any("Stop hook: The tests fail." in row for row in rows)
    talked.conversation.release()


def test_old_session_without_display_data_still_replays(tmp_path: Path) -> None:
    talked, _ = play(tmp_path, [*EDITS, *DENIED], "1", "2")
    session_id = talked.conversation.session_id
    talked.conversation.release()
    path = next((tmp_path / "state").rglob(f"{session_id}*.jsonl"))
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records:
        if record["kind"] != "message":
            record.pop("shown", None)
    kept_rows = [record for record in records if record["kind"] != "shown"]
    path.write_text("".join(json.dumps(record) + "\n" for record in kept_rows), encoding="utf-8")
    again = talk(tmp_path, resumes=session_id, is_attended=True)
    text = "\n".join(replayed_rows(again))
    assert "Done." in text
    assert "As you wish." in text
    assert UNFINISHED not in "\n".join(replayed_rows(again, is_resumed=True))
    again.conversation.release()


@pytest.mark.parametrize(
    "garbage",
    [7, {"state": "gone"}, {"state": "done", "diff": 3, "seconds": "x", "output": -1}, [{"type": "turn"}], {"type": 1}],
)
def test_invalid_display_data_loses_no_message(garbage: object, tmp_path: Path) -> None:
    talked, _ = play(tmp_path, [*EDITS], "1")
    session_id = talked.conversation.session_id
    talked.conversation.release()
    path = next((tmp_path / "state").rglob(f"{session_id}*.jsonl"))
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records:
        if "shown" in record:
            record["shown"] = garbage
        if record["kind"] == "shown":
            record["items"] = garbage if isinstance(garbage, list) else [garbage, {"type": "of a later version"}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    again = talk(tmp_path, resumes=session_id, is_attended=True)
    text = "\n".join(replayed_rows(again))
    assert "I will write it." in text
    assert "Done." in text
    again.conversation.release()


def test_unfinished_turn_and_resume_point_are_marked(tmp_path: Path) -> None:
    talked, _ = play(tmp_path, [text_reply("Hello.")], "hi")
    assert not any(UNFINISHED in row for row in replayed_rows(talked, is_resumed=True))
    assert any("── resumed from 20" in row for row in replayed_rows(talked, is_resumed=True))
    interrupted = "2 calls were interrupted: the outcome is unknown, nothing was run again."
    assert not is_shown_by_resume(talked.conversation, interrupted)
    session = talked.conversation.session
    session.append(user("and then"))
    rows = replayed_rows(talked, is_resumed=True)
    assert UNFINISHED in " ".join(row.strip() for row in rows)
    assert is_shown_by_resume(talked.conversation, interrupted)
    assert not is_shown_by_resume(talked.conversation, "1 record was skipped in this session: unreadable or misplaced.")
    talked.conversation.release()


def test_reply_that_was_cut_by_a_closed_terminal_is_marked_as_unfinished(tmp_path: Path) -> None:
    """SIGHUP and SIGTERM end qcode after it stored the text so far, and before the end of the turn is stored."""
    talked, _ = play(tmp_path, [text_reply("Hello.")], "hi")
    session = talked.conversation.session
    session.append(user("and then"))
    session.append(assistant(Text("Half of")), note=CANCELLED_NOTE)
    rows = replayed_rows(talked, is_resumed=True)
    assert UNFINISHED in " ".join(row.strip() for row in rows)
    talked.conversation.release()


def test_mark_of_a_turn_interrupted_by_a_crash_is_shown_at_every_resume(tmp_path: Path) -> None:
    talked, _ = play(tmp_path, [text_reply("Hello.")], "hi")
    session_id = talked.conversation.session_id
    talked.conversation.session.append(user("and then"))
    talked.conversation.release()
    again, _ = play(tmp_path, [text_reply("Then this.")], "next", resumes=session_id)
    for _ in range(2):
        text = " ".join(" ".join(resumed_rows(tmp_path, again)).split())
        assert "> and then ! This turn did not finish: qcode ended while it ran. No call was run again. > next" in text
        again = talk(tmp_path, resumes=session_id, is_attended=True)
    again.conversation.release()


def test_mark_of_a_reply_interrupted_by_a_crash_is_shown_at_every_resume(tmp_path: Path) -> None:
    talked, _ = play(tmp_path, [text_reply("Hello.")], "hi")
    session = talked.conversation.session
    session.append(user("and then"))
    partial = session.partial

    async def write() -> None:
        partial.observe(TextDelta(0, "Then we"))
        partial.flush(includes_last_word=True)

    asyncio.run(write())
    shown = []
    for _ in range(3):
        shown.append(resumed_rows(tmp_path, talked))
        talked = talk(tmp_path, resumes=session.session_id, is_attended=True)
    assert shown[0][-3:] == ["Then we", "", "! qcode ended while this reply was written; the text so far is kept."]
    assert shown[0] == shown[1] == shown[2]
    notice = "qcode ended while the last reply was written; the text so far is kept."
    assert is_shown_by_resume(talked.conversation, notice), "the mark is not shown twice"
    talked.conversation.session.append(user("next"))
    talked.conversation.session.append(assistant(Text("Next reply.")))
    talked.conversation.release()
    later = resumed_rows(tmp_path, talk(tmp_path, resumes=session.session_id, is_attended=True))
    assert [row for row in later if row.startswith("!")] == [shown[0][-1]], "the mark is not repeated below `next`"


def test_call_that_a_crash_interrupted_is_shown_without_the_text_for_the_model(tmp_path: Path) -> None:
    talked, _ = play(tmp_path, [text_reply("Hello.")], "hi")
    session = talked.conversation.session
    running, waiting = ToolCall("c1", "shell", '{"command": "make"}'), ToolCall("c2", "read", '{"path": "a"}')
    session.append(user("build"))
    session.append(assistant(running, waiting))
    session.record_intent(running)
    text = "\n".join(resumed_rows(tmp_path, talked))
    assert "✗ Run    make  failed · interrupted, outcome unknown" in text
    assert "✗ Read   a  not run" in text
    assert "before you run it again" not in text
    assert "qcode ended before this call" not in text


def rows_after_a_crash_at_the_question(base: Path, *replies: Steps, revision: str = "") -> list[str]:
    """Return the rows of a session whose process was killed while a question was open; `revision` edits its call."""
    talked = talk(base, *replies, is_attended=True, subagent_tool=SubagentTool((("general", "does a task"),)))
    conversation, killed = talked.conversation, base / "killed"

    async def body() -> None:
        async for event in conversation.submit("please"):
            match event:
                case ApprovalRequested(approval=ToolApproval(is_revised=False) as approval) if revision:
                    conversation.answer(approval.id, Revise(revision))
                case ApprovalRequested():
                    shutil.copytree(base / "state", killed / "state")
                    conversation.cancel()
                case _:
                    pass

    asyncio.run(body())
    conversation.release()
    again = talk(killed, resumes=conversation.session_id, is_attended=True, work=talked.work)
    rows = replayed_rows(again)
    again.conversation.release()
    return rows


WRITE = Call("write", {"path": "cart.py", "content": "a = 1\nb = 2\n"}, "c1")
RUN = Call("shell", {"command": "make dist"}, "c1")


def test_edit_whose_question_was_open_at_a_crash_keeps_its_diff(tmp_path: Path) -> None:
    rows = rows_after_a_crash_at_the_question(tmp_path, calls_reply(WRITE, text="I write it."))
    at = rows.index("✗ Write  cart.py  not run · qcode ended before you answered")
    assert [row.strip() for row in rows[at + 1 : at + 3]] == ["1 + a = 1", "2 + b = 2"]


def test_edit_of_a_sub_agent_whose_question_was_open_at_a_crash_has_a_row(tmp_path: Path) -> None:
    task = call_reply("agent", {"description": "tidy", "prompt": "Tidy up.", "kind": "general"}, call_id="a1")
    rows = rows_after_a_crash_at_the_question(tmp_path, task, calls_reply(WRITE, text="I write it."))
    assert rows[-1] == "  │ ✗ Write cart.py  not run"


@pytest.mark.parametrize(("revision", "shown"), [("", "make dist"), ("make all", "make all")])
def test_command_whose_question_was_open_at_a_crash_is_shown_as_asked(
    revision: str, shown: str, tmp_path: Path
) -> None:
    rows = rows_after_a_crash_at_the_question(tmp_path, calls_reply(RUN), revision=revision)
    (row,) = [row for row in rows if row.startswith("✗ Run")]
    assert row.startswith(f"✗ Run    {shown}  not run · ")
    assert ("edited by you" in row) == bool(revision)
    assert "qcode ended before you answered" in row


def test_resumed_session_fills_the_status_line() -> None:
    conversation = ScriptedConversation(messages=said("Hello."))
    conversation.used = (TurnUsage("hello", "demo/scripted", Usage(1_200, 300), Decimal("0.42"), ApiCalls(1)),)

    async def test(run: Running) -> None:
        await run.until(lambda: "$0.42" in run.status)
        assert "scripted" in run.status
        assert "2%" in run.status
        assert "resumed from 2026-11-20" in run.text

    drive(test, conversation, size=(120, 24))


def test_attachments_are_shown_below_their_message_live_and_on_replay(tmp_path: Path) -> None:
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "cart.py").write_text("x\n" * 21)
    talked, rows = play(tmp_path, [text_reply("Read.")], "see @src/cart.py and @nofile.txt")
    at = rows.index("> see @src/cart.py and @nofile.txt")
    assert rows[at + 1 : at + 4] == ["+ src/cart.py 21 lines", "! nofile.txt not found, not attached", ""]
    assert resumed_rows(tmp_path, talked) == rows


def test_attachments_of_a_message_sent_meanwhile_are_shown_below_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    talked = talk(tmp_path, call_reply("ls", {}), text_reply("Both."), is_attended=True)
    person = Person(talked)

    async def body() -> None:
        person.transcript.add_user("list")
        async for event in talked.conversation.submit("list"):
            person._presenter.present(event)
            if isinstance(event, ToolStarted):
                talked.conversation.steer("and @a.txt")

    asyncio.run(body())
    rows = person.rows
    at = rows.index("> and @a.txt")
    assert rows[at + 1] == "+ a.txt 1 line"
    assert resumed_rows(tmp_path, talked) == rows


def long_session(base: Path, turns: int = 300) -> Talk:
    """Return a resumed conversation of four messages a turn."""
    base.mkdir(exist_ok=True)
    (base / "work").mkdir()
    session = SessionStore(base / "state", base / "work").create("scripted/m", base / "work")
    for number in range(turns):
        session.append(user(f"question {number}"), is_turn_start=True)
        session.append(assistant(Text("I look."), ToolCall(f"c{number}", "read", '{"path": "a.py"}')))
        session.append(Message("user", (ToolResult(f"c{number}", "read", "a line\n"),)))
        session.append(assistant(Text(f"Answer {number}.")))
    session.close()
    return talk(base, resumes=session.session_id, is_attended=True)


def test_end_of_a_long_session_is_shown_first_and_the_rest_above_it(tmp_path: Path) -> None:
    talked = long_session(tmp_path)
    stored, transcript = talked.conversation.stored_messages, Transcript(clock=FixedClock())
    end = first_shown_message(stored)
    assert len(stored) - MAX_MESSAGES_AT_ONCE <= end < len(stored)
    replay(stored[end:], transcript, FixedClock(), max_continuations=3)
    assert transcript.plain_text().split("\n")[0] == "> question 200"
    asyncio.run(show_earlier(stored[:end], transcript, FixedClock(), max_continuations=3))
    assert transcript.plain_text().split("\n") == replayed_rows(talked)


def test_turn_longer_than_the_end_is_split_before_a_reply(tmp_path: Path) -> None:
    talked = long_session(tmp_path, turns=150)
    messages = talked.conversation.stored_messages
    stored = [StoredMessage(one.entry, is_turn_start=False) if at else one for at, one in enumerate(messages)]
    end = first_shown_message(stored)
    assert stored[end].entry.message.role == "assistant"
    transcript = Transcript(clock=FixedClock())
    replay(stored[end:], transcript, FixedClock(), max_continuations=3)
    asyncio.run(show_earlier(stored[:end], transcript, FixedClock(), max_continuations=3))
    assert transcript.plain_text().split("\n") == replayed_rows(talked)
    assert first_shown_message(stored[:10]) == 0


def test_rest_of_a_long_session_is_not_added_to_another_conversation(tmp_path: Path) -> None:
    stored, transcript = long_session(tmp_path).conversation.stored_messages, Transcript(clock=FixedClock())

    async def body() -> None:
        adding = asyncio.ensure_future(show_earlier(stored, transcript, FixedClock(), max_continuations=3))
        await asyncio.sleep(0)
        transcript.clear()
        transcript.add_user("something new")
        await adding

    asyncio.run(body())
    assert transcript.plain_text() == "> something new"


def test_app_keeps_the_view_while_earlier_messages_are_added(tmp_path: Path) -> None:
    talked = long_session(tmp_path)

    async def body() -> None:
        async with running(talked.conversation, sessions=talked.sessions) as run:
            transcript = run.app.widgets.transcript
            await run.until(lambda: "question 0\n" in run.text)
            assert "Answer 299." in run.screen
            transcript.stop_following()
            before, earlier = run.screen, transcript.new_content()
            earlier.add_user("even earlier")
            transcript.insert_earlier(earlier)
            await run.pilot.pause()
            assert run.screen == before
            transcript.scroll_home(animate=False)
            await run.pilot.pause()
            assert run.screen.index("even earlier") < run.screen.index("question 0")

    asyncio.run(body())
