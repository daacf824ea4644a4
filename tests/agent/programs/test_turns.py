"""Turns of a Python program: results, events, errors, approvals, cancelling and copies, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest

import qcode
from qcode import (
    AcceptPlan,
    Agent,
    Allow,
    Answer,
    Approval,
    CredentialError,
    Decision,
    DeniedError,
    Deny,
    ErrorKind,
    File,
    ImpossibleCall,
    IncompleteError,
    LimitError,
    ModelError,
    Notice,
    Options,
    Outcome,
    PlanApproval,
    ProviderError,
    Question,
    Result,
    Retry,
    Revise,
    SchemaError,
    Text,
    TextDelta,
    ToolApproval,
    TurnCancelledError,
    TurnEnded,
    UsageError,
)
from qcode.agent.hooks.events import Hook
from qcode.protocol.messages import Message
from qcode.testing import Call, Reply, Scripted, Truncated
from tests.agent.mcp.serving import is_running

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))


def use(
    folder: Path,
    replies: list[Reply],
    work: Callable[[Agent], Coroutine[Any, Any, Any]],
    approve: Callable[[Approval], Awaitable[Any]] | None = None,
    **options: Any,
) -> tuple[Any, Scripted]:
    """Open an agent on the replies, and return what `work` does with it."""
    model = Scripted(replies)
    work_folder = folder / "work"
    work_folder.mkdir(exist_ok=True)

    async def run() -> Any:
        expected = Options(cwd=work_folder, model=model, **{"trust": True, **options})
        async with Agent.open(expected, approve=approve) as agent:
            return await work(agent)

    return asyncio.run(run()), model


async def yes(approval: Approval) -> Decision:
    return Allow()


def prompt_of(model: Scripted, number: int = 0) -> Message:
    return model.requests[number].messages[-1]


def test_result_has_the_answer_and_the_usage(tmp_path: Path) -> None:
    replies: list[Reply] = [["I write it.", Call("write", path="a.txt", content="one\ntwo\n")], "Done."]
    result, model = use(tmp_path, replies, lambda agent: agent.run("write"), yes)
    assert (result.text, result.outcome, result.num_turns) == ("Done.", Outcome.END_TURN, 2)
    assert [(change.path, change.added, change.removed) for change in result.changes] == [("a.txt", 2, 0)]
    assert (result.usage.input, result.api_calls.total, result.cost) == (200, 2, None)
    assert result.duration > 0
    assert result.session_id
    assert prompt_of(model).text == "write"


def test_denied_change_is_not_among_the_changes(tmp_path: Path) -> None:
    async def no(approval: Approval) -> Decision:
        return Deny("no")

    result, _ = use(tmp_path, [Call("write", path="a.txt", content="one\n"), "Done."], lambda it: it.run("write"), no)
    assert [denial.call.name for denial in result.denials] == ["write"]
    assert result.changes == ()


@pytest.mark.parametrize(
    ("decision", "outcome", "reply_count"),
    [
        (Deny(), Outcome.CANCELLED, 4),
        (Deny("call no tool"), Outcome.END_TURN, 5),
        (Allow(), Outcome.END_TURN, 5),
        (None, Outcome.ERROR, 4),
    ],
)
def test_decision_about_calls_that_cannot_run_ends_or_continues_the_turn(
    decision: Decision | None, outcome: Outcome, reply_count: int, tmp_path: Path
) -> None:
    async def decide(approval: Approval) -> Decision | None:
        assert isinstance(approval, ImpossibleCall)
        return decision

    wrong: list[Reply] = [Call("fly", to="moon") for _ in range(4)]
    approve = None if decision is None else decide
    result, _ = use(tmp_path, [*wrong, "All right."], lambda it: it.run("go", check=False), approve)
    assert (result.outcome, result.num_turns) == (outcome, reply_count)


def test_change_of_a_sub_agent_is_among_the_changes(tmp_path: Path) -> None:
    task = Call("agent", description="write it", prompt="Write a.txt.", kind="general")
    replies: list[Reply] = [task, Call("write", path="a.txt", content="one\n"), "Written.", "Done."]
    result, _ = use(tmp_path, replies, lambda agent: agent.run("write"), yes)
    assert [(change.path, change.added, change.removed) for change in result.changes] == [("a.txt", 1, 0)]


def test_refused_turn_has_no_signals_of_the_turn_before(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"name": "report", "parameters": {"type": "object"}}]')

    async def work(agent: Agent) -> tuple[int, ...]:
        results = [await agent.run("go"), await agent.run("go", model="nowhere/x", check=False)]
        return tuple(len(result.signals) for result in results)

    counts, _ = use(tmp_path, [Call("report"), "never"], work, exit_tools=tmp_path / "tools.json")
    assert counts == (1, 0)


def test_cut_answer_is_continued_and_deltas_are_final(tmp_path: Path) -> None:
    async def work(agent: Agent) -> tuple[str, list[Retry]]:
        text = ""
        others: list[Retry] = []
        async with agent.stream("tell") as turn:
            async for event in turn:
                if isinstance(event, TextDelta):
                    text += event.text
                elif isinstance(event, Retry):
                    others.append(event)
        assert turn.result.text == text
        return text, others

    (text, retries), _ = use(tmp_path, [Truncated("One two three, "), "four five."], work)
    assert text == "One two three, four five."
    assert [retry.is_continuation for retry in retries] == [True]


def test_cut_reply_may_start_over_without_append_only(tmp_path: Path) -> None:
    async def work(agent: Agent) -> list[bool]:
        async with agent.stream("tell", append_only=False) as turn:
            return [event.is_continuation async for event in turn if isinstance(event, Retry)]

    assert use(tmp_path, [Truncated("One two three, "), "One two three, four."], work)[0] == [False]


ENDINGS: list[tuple[list[Reply], type[Exception], dict[str, Any], int]] = [
    ([Truncated(f"part {number} of it, ") for number in range(5)], IncompleteError, {}, 56),
    ([Call("read", path="a"), "x"], LimitError, {"max_turns": 1}, 53),
    ([Call("shell", command="rm -r x"), ""], DeniedError, {}, 55),
    ([ProviderError(ErrorKind.BAD_REQUEST, "no")], ModelError, {}, 1),
    ([ProviderError(ErrorKind.QUOTA, "empty")], ModelError, {}, 1),
    (["no JSON"] * 4, SchemaError, {"output": dict}, 1),
]


@pytest.mark.parametrize(("replies", "error", "fields", "code"), ENDINGS, ids=[row[1].__name__ for row in ENDINGS])
def test_incomplete_turn_raises_an_error_with_its_result(
    tmp_path: Path, replies: list[Reply], error: type[qcode.TurnError], fields: dict[str, Any], code: int
) -> None:
    if "output" in fields:
        fields = {**fields, "output": {"type": "object"}}
    with pytest.raises(error) as raised:
        use(tmp_path, replies, lambda agent: agent.run("go", **fields))
    assert raised.value.exit_code == code
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value.result, Result)

    result, _ = use(tmp_path, replies, lambda agent: agent.run("go", check=False, **fields))
    assert result.outcome is raised.value.result.outcome
    assert bool(result.text) == bool(raised.value.result.text)


def test_model_error_has_whether_it_is_transient(tmp_path: Path) -> None:
    error = ProviderError(ErrorKind.OVERLOADED, "busy", status=529, request_id="r1", retry_after=2, may_retry=False)
    with pytest.raises(ModelError) as raised:
        use(tmp_path, [error], lambda agent: agent.run("go"))
    found = raised.value
    assert (found.kind, found.status, found.request_id) == ("overloaded", 529, "r1")
    assert found.is_transient
    assert found.exit_code == 75


@dataclass
class Review:
    score: int
    problems: list[str]


class Place(TypedDict):
    path: str


class Model:
    """As a model of pydantic, without pydantic."""

    def __init__(self, score: int) -> None:
        self.score = score

    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> Model:
        return cls(value["score"])


def test_answer_has_the_requested_type_and_an_invalid_one_is_sent_back(tmp_path: Path) -> None:
    replies: list[Reply] = ['{"score": "high"}', '```json\n{"score": 3, "problems": ["x"]}\n```']
    result, model = use(tmp_path, replies, lambda agent: agent.run("review", output=Review))
    assert result.output == Review(3, ["x"])
    assert '"score"' in prompt_of(model).text
    assert len(model.requests) == 2
    assert use(tmp_path, ['{"path": "a"}'], lambda agent: agent.run("x", output=Place))[0].output == {"path": "a"}
    assert use(tmp_path, ['{"score": 4}'], lambda agent: agent.run("x", output=Model))[0].output.score == 4
    schema = {"enum": [1, 2]}
    assert use(tmp_path, ["2"], lambda agent: agent.run("x", output=schema))[0].output == 2


@dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("number is negative")


def test_answer_that_the_type_itself_refuses_is_sent_back(tmp_path: Path) -> None:
    refused, fine = '{"number": -1}', '{"number": 2}'
    result, model = use(tmp_path, [refused, fine], lambda agent: agent.run("x", output=Positive))
    assert result.output == Positive(2)
    assert "number is negative" in prompt_of(model, 1).text
    with pytest.raises(SchemaError, match="number is negative"):
        use(tmp_path, [refused] * 3, lambda agent: agent.run("x", output=Positive))
    result, _ = use(tmp_path, [refused] * 3, lambda agent: agent.run("x", output=Positive, check=False))
    assert result.output is None


class Unschematic:
    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        raise RuntimeError("no schema")

    model_validate = model_json_schema


def test_type_without_a_schema_is_a_usage_error(tmp_path: Path) -> None:
    for output in (bytes, {"type": "no such type"}, Unschematic, Review(1, [])):
        with pytest.raises(UsageError, match=r"^output: "):
            use(tmp_path, [], lambda agent, output=output: agent.run("x", output=output))  # type: ignore[misc]


def test_prompt_takes_files_and_does_not_search_its_text_for_them(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("content of a")
    (tmp_path / "work/b.txt").write_text("content of b")
    prompt: list[Text | File] = [Text("compare @b.txt"), File("a.txt")]
    _, model = use(tmp_path, ["ok"], lambda agent: agent.run(prompt), yes)
    assert "content of a" in prompt_of(model).text
    assert "content of b" not in prompt_of(model).text
    with pytest.raises(qcode.InputError):
        use(tmp_path, ["ok"], lambda agent: agent.run([File("none.txt")]))
    for bad in (None, 5, b"x", ["text"], Text("bare"), [File(5)], [Text(5)]):  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="a prompt is a string, or a list of"):
            use(tmp_path, ["ok"], lambda agent, bad=bad: agent.run(bad))  # type: ignore[misc]
    with pytest.raises(UsageError, match="base64"):
        use(tmp_path, ["ok"], lambda agent: agent.run([qcode.Image("image/png", b"x")]))  # type: ignore[arg-type]


@pytest.mark.parametrize("prompt", ["", " \n", [], [Text("")]], ids=repr)
def test_empty_prompt_is_refused_and_not_sent(prompt: str | list[Text], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the prompt is empty"):
        use(tmp_path, ["ok"], lambda agent: agent.run(prompt))


def test_callback_edits_a_call_before_it_runs(tmp_path: Path) -> None:
    drafts: list[str] = []

    async def approve(approval: Approval) -> Decision:
        assert isinstance(approval, ToolApproval)
        assert approval.draft is not None
        drafts.append(approval.draft.text)
        return Allow() if approval.is_revised else Revise("mine")

    result, model = use(
        tmp_path, [Call("write", path="a.txt", content="x"), "done"], lambda agent: agent.run("go"), approve
    )
    assert drafts == ["x", "mine"]
    assert result.denials == ()
    assert (tmp_path / "work/a.txt").read_text() == "mine"
    assert "`content`: mine" in str(model.requests[-1].messages[-1])


def test_callback_answers_calls_questions_and_plans(tmp_path: Path) -> None:
    asked: list[Approval] = []

    async def approve(approval: Approval) -> Decision:
        asked.append(approval)
        match approval:
            case ToolApproval(tool="write", changes=changes):
                return Allow() if Path(changes[0].path).name == "a.txt" else Deny("not that file")
            case Question(text="Which?", choices=choices):
                return Answer(choices[1].label)
            case Question(is_multi_select=True, choices=choices):
                return Answer.of_choices([choice.label for choice in choices], "and more")
            case PlanApproval(plan=plan):
                return AcceptPlan("accept-edits") if "steps" in plan else Deny()
            case _:
                return Deny()

    replies: list[Reply] = [
        Call("exit_plan_mode", plan="the steps"),
        Call("ask_person", question="Which?", choices=[{"label": "red"}, {"label": "blue"}]),
        Call("ask_person", question="All?", choices=[{"label": "up"}, {"label": "down"}], multi_select=True),
        Call("write", path="a.txt", content="x"),
        "done",
    ]

    async def work(agent: Agent) -> str:
        await agent.run("go", permission_mode="plan")
        return agent.conversation.mode

    mode, model = use(tmp_path, replies, work, approve)
    assert mode == "accept-edits"
    results = [
        block for message in model.requests[-1].messages for block in message.blocks if hasattr(block, "content")
    ]
    assert "approved the plan" in results[0].content
    assert "blue" in results[1].content
    assert results[2].content == "up, down\nOther: and more"
    assert [type(approval).__name__ for approval in asked] == ["PlanApproval", "Question", "Question"]
    assert (tmp_path / "work/a.txt").read_text() == "x"


@pytest.mark.parametrize(
    "answer",
    [None, True, Deny(5), Allow, RuntimeError("lost"), SystemExit(3), BaseException(), asyncio.CancelledError()],  # type: ignore[arg-type]
    ids=repr,
)
def test_callback_that_fails_denies_the_call_with_a_notice(tmp_path: Path, answer: object) -> None:
    async def approve(approval: Approval) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def work(agent: Agent) -> list[str]:
        async with agent.stream("go") as turn:
            notices = [event.text async for event in turn if isinstance(event, Notice)]
        assert len(turn.result.denials) == 1
        return notices

    notices, _ = use(tmp_path, [Call("write", path="a.txt", content="x"), "not done"], work, approve)
    assert len(notices) == 1
    assert notices[0].endswith("the call was denied")
    assert not (tmp_path / "work/a.txt").exists()


def test_mode_of_one_turn_ends_with_it(tmp_path: Path) -> None:
    async def work(agent: Agent) -> list[str]:
        await agent.run("write", permission_mode="accept-edits")
        return [agent.conversation.mode, (await agent.run("write", check=False)).text]

    call = Call("write", path="a.txt", content="x")
    (mode, _), _ = use(tmp_path, [call, "one", Call("write", path="b.txt", content="x"), "two"], work)
    assert mode == "default"
    assert (tmp_path / "work/a.txt").exists()
    assert not (tmp_path / "work/b.txt").exists()


def test_cancelled_task_ends_the_command_and_keeps_the_text(tmp_path: Path) -> None:
    started = tmp_path / "work/started"

    async def work(agent: Agent) -> tuple[int, str]:
        task = asyncio.ensure_future(agent.run("go"))
        while not (started.exists() and started.read_text().strip()):
            await asyncio.sleep(0.01)
        task.cancel()
        async with asyncio.timeout(2):
            with pytest.raises(asyncio.CancelledError):
                await task
        await agent.run("again")
        return int(started.read_text()), agent.conversation.messages[1].text

    replies: list[Reply] = [["I start it.", Call("shell", command="echo $$ > started; sleep 60")], "Here."]
    (pid, text), _ = use(tmp_path, replies, work, yes)
    assert text == "I start it."
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_leaving_the_block_early_cancels_the_turn(tmp_path: Path) -> None:
    async def work(agent: Agent) -> Result[Any]:
        async with agent.stream("tell") as turn:
            async for event in turn:
                if isinstance(event, TextDelta):
                    break
        assert not agent.conversation.is_busy
        return turn.result

    result, _ = use(tmp_path, [["One, ", "two."]], work)
    assert (result.outcome, result.text) == (Outcome.CANCELLED, "One, ")


def test_block_can_be_left_while_another_task_waits_for_an_event(tmp_path: Path) -> None:
    async def work(agent: Agent) -> Outcome:
        async with agent.stream("go") as turn:
            while True:
                waiting = asyncio.ensure_future(anext(turn))
                if not (await asyncio.wait({waiting}, timeout=0.5))[0]:
                    break
        assert not agent.conversation.is_busy
        return turn.result.outcome

    assert use(tmp_path, [Call("shell", command="sleep 30")], work, yes)[0] is Outcome.CANCELLED


def test_closing_the_agent_ends_its_turn_and_begins_no_other(tmp_path: Path) -> None:
    started = tmp_path / "work/started"
    tasks: list[asyncio.Task[Any]] = []

    async def work(agent: Agent) -> None:
        tasks.append(asyncio.ensure_future(agent.run("go")))
        while not (started.exists() and started.read_text().strip()):
            await asyncio.sleep(0.01)
        await agent.close()
        with pytest.raises(TurnCancelledError):
            await tasks[0]
        with pytest.raises(UsageError, match="is closed"):
            await agent.run("more")

    use(tmp_path, [Call("shell", command="echo $$ > started; sleep 60"), "never"], work, yes)
    assert not is_running(int(started.read_text()))


def test_turn_that_was_left_without_a_block_ends_with_the_agent(tmp_path: Path) -> None:
    async def work(agent: Agent) -> None:
        async for _ in agent.stream("one"):
            break
        with pytest.raises(UsageError, match="left without `async with`"):
            await agent.run("two")
        await agent.close()
        assert not agent.conversation.is_busy

    use(tmp_path, ["one"], work)


def test_cancel_ends_the_turn_with_its_own_error(tmp_path: Path) -> None:
    async def work(agent: Agent) -> None:
        task = asyncio.ensure_future(agent.run("go"))
        await asyncio.sleep(0)
        agent.cancel()
        await task

    with pytest.raises(TurnCancelledError):
        use(tmp_path, ["never"], work)


def test_cancel_ends_hooks_that_run_before_the_turn(tmp_path: Path) -> None:
    has_begun = asyncio.Event()

    async def wait(given: dict[str, Any], tool_use_id: str | None) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async def run() -> None:
        options = Options(cwd=tmp_path, model=Scripted(["never"]), no_session=True, trust=True)
        hooks = {"UserPromptSubmit": [Hook("", wait, timeout=5)]}
        async with Agent.open(options, hooks=hooks) as agent:
            task = asyncio.ensure_future(agent.run("go"))
            await has_begun.wait()
            agent.cancel()
            with pytest.raises(TurnCancelledError):
                await task

    asyncio.run(run())


def test_cancel_does_not_wait_for_a_server_that_never_starts(tmp_path: Path) -> None:
    silent = {"command": sys.executable, "args": ["-m", "tests.fakes.tool_server", "silent"]}
    config = json.dumps({"mcpServers": {"silent": {**silent, "env": {"PYTHONPATH": str(ROOT)}}}})

    async def run() -> float:
        options = Options(cwd=tmp_path, model=Scripted(["hi"]), no_session=True, trust=True, mcp_config=[config])
        async with Agent.open(options) as agent:
            task = asyncio.ensure_future(agent.run("go"))
            while agent.servers is None or not any(status.state == "starting" for status in agent.servers.statuses()):
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            began = time.monotonic()
            agent.cancel()
            with pytest.raises(TurnCancelledError):
                await task
            return time.monotonic() - began

    assert asyncio.run(run()) < 5


def test_second_turn_at_the_same_time_is_a_usage_error(tmp_path: Path) -> None:
    async def work(agent: Agent) -> None:
        async with agent.stream("one") as turn:
            await anext(turn)
            with pytest.raises(UsageError, match="one turn at a time"):
                await agent.run("two")
            with pytest.raises(UsageError, match="not over"):
                _ = turn.result
            assert [event async for event in turn][-1].__class__ is TurnEnded

    use(tmp_path, ["one"], work)


def test_steering_reaches_the_next_step(tmp_path: Path) -> None:
    async def work(agent: Agent) -> None:
        async with agent.stream("go") as turn:
            async for event in turn:
                if isinstance(event, qcode.ToolStarted):
                    turn.steer("and hurry")

    _, model = use(tmp_path, [Call("glob", pattern="*"), "ok"], work)
    assert any(message.text.endswith("and hurry") for message in model.requests[1].messages)


def test_steering_before_the_first_event_is_not_lost(tmp_path: Path) -> None:
    async def work(agent: Agent) -> None:
        async with agent.stream("go") as turn:
            turn.steer("and hurry")
            async for _ in turn:
                pass

    _, model = use(tmp_path, ["one", "two"], work)
    assert any(message.text.endswith("and hurry") for message in model.requests[-1].messages)


@pytest.mark.parametrize("no_session", [False, True])
def test_fork_continues_a_copy(tmp_path: Path, *, no_session: bool) -> None:
    async def work(agent: Agent) -> tuple[str, str, int, int]:
        await agent.run("one")
        agent.conversation.set_mode("plan")
        async with agent.fork() as trial:
            await trial.run("two")
            assert trial.conversation.mode == "plan"
            trial_id, length = trial.conversation.session_id, len(trial.conversation.messages)
        await agent.run("three")
        return agent.conversation.session_id, trial_id, length, len(agent.conversation.messages)

    (own, copy, length, own_length), model = use(tmp_path, ["a", "b", "c"], work, no_session=no_session)
    assert own != copy
    assert (length, own_length) == (4, 4)
    assert [message.text for message in model.requests[2].messages] == ["one", "a", "three"]


def test_session_is_resumed_by_another_agent(tmp_path: Path) -> None:
    use(tmp_path, ["a"], lambda agent: agent.run("one"))
    _, model = use(tmp_path, ["b"], lambda agent: agent.run("two"), resume="latest")
    assert [message.text for message in model.requests[0].messages] == ["one", "a", "two"]
    with pytest.raises(qcode.SessionError):
        use(tmp_path, [], lambda agent: agent.run("x"), resume="no-such-session")


class Shared(Scripted):
    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


def test_provider_of_the_program_is_not_closed_with_an_agent(tmp_path: Path) -> None:
    model = Shared(["a", "b"])

    async def run() -> None:
        options = Options(cwd=tmp_path, model=model, no_session=True)
        async with Agent.open(options) as agent, agent.fork() as trial:
            await trial.run("x")
            await agent.run("x")

    asyncio.run(run())
    assert not model.is_closed


ABANDONED = """
import asyncio, sys, time
from qcode import Agent, Options
from qcode.testing import Scripted

begin, release = Agent.begin.__func__, Agent.release

def slow(cls, *args, **named):
    time.sleep(0.5)
    return begin(cls, *args, **named)

def released(agent):
    print("released")
    release(agent)

Agent.begin, Agent.release = classmethod(slow), released

async def main():
    try:
        async with asyncio.timeout(0.1):
            await Agent.open(Options(cwd=sys.argv[1], model=Scripted([])))
    except TimeoutError:
        print("timeout")

asyncio.run(main())
"""


def test_abandoned_agent_is_released(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ABANDONED, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["timeout", "released"]
    assert found.stderr == ""


def test_awaited_agent_is_closed_by_the_caller(tmp_path: Path) -> None:
    async def run() -> str:
        agent = await Agent.open(Options(cwd=tmp_path, model=Scripted(["a"]), no_session=True))
        try:
            return (await agent.run("x")).text
        finally:
            await agent.close()

    assert asyncio.run(run()) == "a"


def test_run_function_opens_and_closes_an_agent(tmp_path: Path) -> None:
    result = qcode.run("x", cwd=tmp_path, model=Scripted(['{"path": "a"}']), no_session=True, output=Place)
    assert result.output == {"path": "a"}
    with pytest.raises(UsageError, match="unexpected keyword argument 'modell'"):
        qcode.run("x", modell="y")

    async def inside() -> None:
        qcode.run("x")

    with pytest.raises(UsageError, match="running event loop"):
        asyncio.run(inside())


def test_errors_of_opening_have_a_class_and_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rows: list[tuple[type[qcode.QcodeError], int, dict[str, Any]]] = [
        (CredentialError, 41, {"model": "openai/m"}),
        (UsageError, 2, {"model": "nowhere/m"}),
        (qcode.ConfigError, 52, {"settings": {"modell": "x"}}),
        (qcode.InputError, 42, {"add_dir": ["/nowhere/at/all"], "model": "demo/demo"}),
        (qcode.InputError, 42, {"cwd": "/nowhere/at/all"}),
        (qcode.ConfigError, 52, {"settings": {5: "x"}}),
        (UsageError, 2, {"max_turns": 0}),
        (UsageError, 2, {"max_budget_usd": float("nan")}),
        (UsageError, 2, {"reasoning_effort": "xhigh"}),
        (UsageError, 2, {"trust": "false"}),
        (UsageError, 2, {"model": 5}),
        (UsageError, 2, {"add_dir": [5]}),
    ]
    for error, code, options in rows:
        with pytest.raises(error) as raised:
            qcode.run("x", **{"cwd": tmp_path, **options})
        assert raised.value.exit_code == code
    with pytest.raises(TypeError, match="takes a list"):
        Options(allowed_tools="read")
    with pytest.raises(TypeError, match="takes True or False"):
        Options(trust="false")  # type: ignore[arg-type]


def test_errors_can_be_pickled(tmp_path: Path) -> None:
    result, _ = use(tmp_path, ["x"], lambda agent: agent.run("x"))
    for error in (
        LimitError("turns", result, qcode.Limit.TURNS),
        ModelError("busy", result, qcode.ExitCode.TRANSIENT, qcode.ErrorInfo("overloaded", "busy", 529)),
        ProviderError(ErrorKind.QUOTA, "empty", status=402),
        qcode.ConfigError("bad", file="a", line=3),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_rules_kept_for_the_folder_are_part_of_the_users_configuration(tmp_path: Path) -> None:
    async def always(approval: Approval) -> Decision:
        return Allow("folder")

    async def work(agent: Agent) -> int:
        return len((await agent.run("x", check=False)).denials)

    replies: list[Reply] = [Call("shell", command="touch kept"), "done"]
    assert use(tmp_path, replies, work, always)[0] == 0
    assert use(tmp_path, replies, work)[0] == 0
    assert use(tmp_path, replies, work, user_config=False)[0] == 1


def test_turn_option_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    for fields in (
        *({"max_turn": 1}, {"permission_mode": "yolo"}, {"max_turns": "3"}, {"max_tool_calls": -1}, {"model": 5}),
        *({"max_budget_usd": "much"}, {"max_budget_usd": 0}, {"max_output_tokens": 0}),
    ):
        with pytest.raises(UsageError):
            use(tmp_path, ["x"], lambda agent, fields=fields: agent.run("x", **fields))  # type: ignore[misc]


def test_library_leaves_streams_folder_and_environment_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = (Path.cwd(), dict(os.environ))
    use(tmp_path, [Call("shell", command="echo loud; ls"), ProviderError(ErrorKind.BAD_REQUEST, "no")], _unchecked, yes)
    assert capfd.readouterr() == ("", "")
    assert (Path.cwd(), dict(os.environ)) == before


async def _unchecked(agent: Agent) -> None:
    await agent.run("x", check=False)
