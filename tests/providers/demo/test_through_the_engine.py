"""The demo model under the real engine: every recovery it is there to show really happens, offline."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    Effect,
    Emit,
    ReplyFailed,
    RunTool,
    SendRequest,
    ToolEnded,
    TurnSettings,
    UserSubmitted,
    Wait,
    WaitElapsed,
)
from qcode.engine.model_facts import KnownModel
from qcode.engine.turn import Turn
from qcode.protocol.errors import ProviderError
from qcode.protocol.events import PartialRestored, Retry, TurnEnded
from qcode.protocol.messages import Message, ToolCall, user
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import Outcome, TextDelta
from qcode.protocol.tools import FileAccess, ToolOutcome
from qcode.providers.demo.guide import LONG_CHARS, LONG_FILE_CHARS, VERY_LONG_CHARS, guide
from qcode.providers.demo.provider import DEMO_FACTS, DemoProvider
from qcode.text.json import JsonObject
from tests.providers.demo.asking import TOOLS

_WRITES = FileAccess("write", lambda _: ())
_TOOLS = tuple(replace(tool, safety=_WRITES if tool.name in ("write", "edit") else None) for tool in TOOLS)


@dataclass
class Played:
    """One turn with the demo model, its calls approved and run on `files`."""

    files: dict[str, str] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    caps: list[int] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    shown: str = ""
    ended: TurnEnded | None = None

    def run_tool(self, call: ToolCall, arguments: JsonObject) -> ToolOutcome:
        self.ran.append(call.name)
        path = str(arguments.get("path"))
        if call.name == "write":
            self.files[path] = str(arguments["content"])
        elif call.name == "edit":
            old, new = str(arguments["old_text"]), str(arguments["new_text"])
            assert self.files[path].count(old) == 1
            self.files[path] = self.files[path].replace(old, new)
        elif path not in self.files:
            return ToolOutcome(f"No such file: {path}", is_error=True)
        else:
            lines = self.files[path].split("\n")
            return ToolOutcome("\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1)))
        return ToolOutcome("done")


async def _attempt(turn: Turn, request: ModelRequest, provider: DemoProvider) -> list[Effect]:
    effects: list[Effect] = []
    try:
        async for event in provider.stream(request):
            effects += turn.handle(event)
    except ProviderError as error:
        effects += turn.handle(ReplyFailed(error, 0.5))
    return effects


def _play(
    prompt: str,
    output: OutputSettings | None = None,
    *,
    history: Sequence[Message] = (),
    files: dict[str, str] | None = None,
) -> Played:
    played = Played(files=dict(files or {}))
    settings = TurnSettings("Be brief.", _TOOLS, output=output or OutputSettings())
    turn = Turn(settings, KnownModel("demo", "demo", DEMO_FACTS), history, PromptCounter())
    provider = DemoProvider(pace=0)
    effects = deque(turn.handle(UserSubmitted(user(prompt))))
    while effects:
        match effects.popleft():
            case SendRequest(request):
                played.caps.append(request.max_tokens)
                effects += asyncio.run(_attempt(turn, request, provider))
            case AskApproval(call):
                effects += turn.handle(ApprovalAnswered(call.call_id, is_allowed=True))
            case RunTool(call, arguments):
                effects += turn.handle(ToolEnded(call.call_id, played.run_tool(call, arguments)))
            case Wait(seconds):
                played.waits.append(seconds)
                effects += turn.handle(WaitElapsed())
            case Append(message):
                played.messages.append(message)
            case Emit(TextDelta(text=text)):
                played.shown += text
            case Emit(Retry(is_continuation=False) | PartialRestored()):
                played.shown = ""
            case Emit(TurnEnded() as ended):
                played.ended = ended
    return played


def test_long_reply_is_truncated_and_escalated() -> None:
    played = _play("a long reply")
    assert played.caps == [8_000, 64_000]
    assert played.shown == played.messages[-1].text == guide(LONG_CHARS)


def test_very_long_reply_is_shown_and_stored_completely() -> None:
    played = _play("a very long reply")
    assert played.caps == [8_000, 64_000, 64_000]
    assert played.shown == played.messages[-1].text == guide(VERY_LONG_CHARS)
    assert [message.role for message in played.messages] == ["user", "assistant"]


def test_reply_that_stays_truncated_continues_on_request() -> None:
    first = _play("a long reply", OutputSettings(override=1_000))
    assert first.caps == [1_000] * 4
    assert first.ended is not None
    assert first.ended.outcome is Outcome.MAX_TOKENS
    second = _play("continue", history=first.messages)
    assert first.shown + second.shown == guide(LONG_CHARS)


def test_truncated_write_is_rejected_and_then_split() -> None:
    played = _play("write a huge file")
    assert played.caps[:3] == [8_000, 64_000, 8_000]
    assert played.ran == ["write", "edit", "edit", "edit"]
    assert "Part 3, line 5." in played.files["huge_demo.md"]
    assert played.ended is not None
    assert played.ended.outcome is Outcome.END_TURN


def test_truncated_write_is_resumed_if_configured() -> None:
    played = _play("write a huge file", OutputSettings(tool_call_repair="resume"))
    assert played.ran == ["write"]
    assert played.files == {"huge_demo.md": guide(LONG_FILE_CHARS)}


def test_endless_thinking_ends_in_an_answer() -> None:
    played = _play("overthink it")
    assert played.caps == [8_000, 64_000, 64_000]
    assert "**42**" in played.shown


def test_rate_limit_is_waited_out() -> None:
    played = _play("rate limit")
    assert len(played.waits) == 1
    assert played.waits[0] >= 3
    assert "retried it automatically" in played.shown


def test_docstring_of_a_missing_file_is_added_by_the_second_request() -> None:
    first = _play("add a docstring to hello.py")
    assert first.ran == ["read", "write"]
    second = _play("add a docstring to hello.py", history=first.messages, files=first.files)
    assert second.ran == ["read", "edit"]
    assert '    """Main."""\n' in second.files["hello.py"]
