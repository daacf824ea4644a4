"""Python functions as tools, called by a scripted model."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from qcode import (
    Agent,
    Allow,
    Approval,
    Decision,
    Deny,
    FunctionTool,
    Options,
    ToolApproval,
    ToolContext,
    ToolResult,
    tool,
)
from qcode.protocol.errors import UsageError
from qcode.testing import Call, Scripted

CALLED: list[Any] = []


@tool
async def ticket(number: int, kind: str = "bug", note: str | None = None) -> str:
    """Return the text of a ticket."""
    CALLED.append((number, kind, note))
    return f"{kind} {number}"


@tool(name="where_am_i", reads_only=True)
def where(context: ToolContext) -> dict[str, str]:
    context.progress("looking")
    return {"cwd": context.cwd, "session": context.session_id, "thread": threading.current_thread().name}


@tool(asks=True)
def close(number: int) -> ToolResult:
    return ToolResult(f"closed {number}", is_error=number < 0)


@tool
def broken() -> object:
    raise RuntimeError("no connection")


@tool
def odd() -> object:
    return object()


@tool
def first_of_none() -> str:
    return str(next(iter([])))


@tool
async def waits_for_cancelled() -> None:
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    lost.cancel()
    await lost


@tool
def leaves() -> None:
    sys.exit(3)


@tool
async def leaves_later() -> None:
    sys.exit(3)


class Panic(BaseException):
    """An exception outside `Exception`, as a panic of Rust code is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@tool
def panics() -> None:
    raise Panic


@tool
async def panics_later() -> None:
    raise Panic


@tool
def half() -> ToolResult:
    return ToolResult(None)  # type: ignore[arg-type]


@tool
def pictures() -> ToolResult:
    return ToolResult("x", images=("a.png",))  # type: ignore[arg-type]


class Color(enum.Enum):
    RED = "red"


@dataclass
class Spot:
    color: Color
    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 0:
            raise KeyError("size")


@tool
def spots(given: list[Spot]) -> list[Spot]:
    return [*given, Spot(Color.RED, 9)]


@tool
def limit(most: int | None = 5) -> str:
    return repr(most)


@tool
def later() -> Any:
    return asyncio.sleep(0, "awaited")


@tool
def long_name() -> str:
    return "\udcff" + "x" * 1_000_000


USER = contextvars.ContextVar("USER", default="nobody")


@tool
def who() -> str:
    return USER.get()


TOOLS = (
    *(ticket, where, close, broken, odd, first_of_none, waits_for_cancelled, leaves, leaves_later, half, pictures),
    *(panics, panics_later, spots, limit, later, long_name, who),
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    CALLED.clear()


def results(
    folder: Path, *calls: Call, approve: Callable[[Approval], Decision] | None = None, **options: Any
) -> tuple[list[str], Scripted]:
    """Return the result of each call."""
    model = Scripted([*calls, "done"])

    async def answer(approval: Approval) -> Decision:
        assert approve is not None
        return approve(approval)

    async def run() -> None:
        opening = Agent.open(
            Options(cwd=folder, model=model, no_session=True, **options),
            approve=None if approve is None else answer,
            tools=TOOLS,
        )
        async with opening as agent:
            await agent.run("go")

    asyncio.run(run())
    blocks = [block for message in model.requests[-1].messages for block in message.blocks]
    return [block.content for block in blocks if hasattr(block, "content")], model


def test_model_sees_name_description_and_schema(tmp_path: Path) -> None:
    _, model = results(tmp_path, builtin_tools=[])
    specs = {spec.name: spec for spec in model.requests[0].tools}
    assert list(specs)[:5] == ["ticket", "where_am_i", "close", "broken", "odd"]
    assert specs["ticket"].description == "Return the text of a ticket."
    assert specs["ticket"].parameters == {
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "kind": {"type": "string"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["number"],
        "additionalProperties": False,
    }
    assert specs["where_am_i"].parameters["properties"] == {}


def test_function_gets_its_arguments_and_the_model_its_result(tmp_path: Path) -> None:
    found, _ = results(tmp_path, Call("ticket", number=7, note=None), Call("where_am_i"))
    assert found[0] == "bug 7"
    assert CALLED == [(7, "bug", None)]
    assert f'"cwd": "{tmp_path}"' in found[1]
    assert '"thread": "MainThread"' not in found[1]


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (Call("ticket", number="seven"), "ticket: number must be an integer, not a string"),
        (Call("ticket"), "number"),
        (Call("ticket", number=1, size=2), 'ticket: unknown argument "size"; the arguments are number, kind, note'),
        (Call("broken"), "broken: RuntimeError: no connection"),
        (Call("odd"), "odd: TypeError: Object of type object is not JSON serializable"),
        (Call("first_of_none"), "first_of_none: RuntimeError: StopIteration"),
        (Call("waits_for_cancelled"), "waits_for_cancelled: CancelledError"),
        (Call("leaves"), "leaves: SystemExit: 3"),
        (Call("leaves_later"), "leaves_later: SystemExit: 3"),
        (Call("panics"), "panics: Panic"),
        (Call("panics_later"), "panics_later: Panic"),
        (Call("half"), "half: TypeError: a ToolResult has a string"),
        (Call("pictures"), "pictures: TypeError: a ToolResult has a string, and images of the type Image"),
        (Call("spots", given=[{"color": "red", "size": -1}]), "spots: KeyError: 'size'"),
    ],
)
def test_exception_of_a_tool_is_a_result_for_the_model(tmp_path: Path, call: Call, fault: str) -> None:
    found, _ = results(tmp_path, call)
    assert fault in found[0]
    assert CALLED == []


def test_results_are_json_of_dataclasses_enums_and_awaited_values(tmp_path: Path) -> None:
    token = USER.set("anna")
    found, _ = results(
        tmp_path, Call("spots", given=[{"color": "red"}]), Call("later"), Call("who"), Call("limit", most=None)
    )
    USER.reset(token)
    assert '"color": "red",\n    "size": 1' in found[0]
    assert '"size": 9' in found[0]
    assert found[1:] == ["awaited", "anna", "None"]


def test_long_result_is_truncated_and_can_be_encoded(tmp_path: Path) -> None:
    (found,), _ = results(tmp_path, Call("long_name"))
    assert found.startswith("?xxx")
    assert len(found) < 40_000


def test_function_that_hangs_blocks_neither_cancelling_nor_exit(tmp_path: Path) -> None:
    began, hold = threading.Event(), threading.Event()

    @tool
    def hang() -> None:
        began.set()
        hold.wait(30)

    async def run() -> None:
        model = Scripted([Call("hang")])
        async with Agent.open(Options(cwd=tmp_path, model=model, no_session=True), tools=[hang]) as agent:
            task = asyncio.ensure_future(agent.run("go"))
            await asyncio.to_thread(began.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    start = time.monotonic()
    asyncio.run(run())
    hold.set()
    assert time.monotonic() - start < 10


def test_tool_that_asks_runs_only_if_it_is_approved(tmp_path: Path) -> None:
    calls = (Call("close", number=7), Call("close", number=8))
    denied, _ = results(tmp_path, *calls)
    assert "needs approval" in denied[0]

    def approve(approval: Approval) -> Decision:
        match approval:
            case ToolApproval(tool="close", input={"number": 7}):
                return Allow()
            case _:
                return Deny("only ticket 7")

    found, _ = results(tmp_path, *calls, approve=approve)
    assert found[0] == "closed 7"
    assert "only ticket 7" in found[1]


def test_tool_that_asks_runs_in_bypass_mode(tmp_path: Path) -> None:
    found, _ = results(tmp_path, Call("close", number=7), permission_mode="bypass", trust=True)
    assert found[0] == "closed 7"


def test_decorated_function_can_be_called() -> None:
    assert asyncio.run(ticket(3)) == "bug 3"
    assert close(3) == ToolResult("closed 3")


def test_name_of_a_tool_is_unique(tmp_path: Path) -> None:
    for tools in ([ticket, ticket], [tool(name="read")(close.function)]):
        with pytest.raises(UsageError, match="is already used"):
            asyncio.run(_open(tmp_path, tools))
    with pytest.raises(TypeError, match="a name has at most 64 letters"):
        tool(lambda: "")
    with pytest.raises(TypeError, match="belong to tool servers"):
        tool(name="server__search")(close.function)
    exits = tmp_path / "exits.json"
    exits.write_text('[{"name": "ticket"}]')
    with pytest.raises(UsageError, match="is already used"):
        asyncio.run(_open(tmp_path, [ticket], exit_tools=exits))


def test_only_functions_are_tools(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="decorate the function with @tool"):
        asyncio.run(_open(tmp_path, [close.function]))  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a function is expected, not int"):
        tool(5)  # type: ignore[call-overload]


async def _open(folder: Path, tools: list[FunctionTool], **options: Any) -> None:
    async with Agent.open(Options(cwd=folder, model=Scripted([]), no_session=True, **options), tools=tools):
        raise AssertionError("it opened")


def test_parameter_without_a_schema_is_a_type_error() -> None:
    def untyped(number) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return str(number)

    def unknown(data: bytes) -> str:
        return str(data)

    def many(*numbers: int) -> str:
        return str(numbers)

    def colored(color: Literal[Color.RED]) -> str:
        return str(color)

    rows = (
        (untyped, "no type hint"),
        (unknown, "bytes is not supported"),
        (many, "given by name"),
        (colored, "neither strings nor numbers"),
    )
    for function, fault in rows:
        with pytest.raises(TypeError, match=fault):
            tool(function)
