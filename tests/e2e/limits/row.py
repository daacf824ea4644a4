"""A row of the table: the behavior of the host, the settings, and the expected result. Values only.

`Step` is one answer of the host, `Row` a whole turn. Expectations are short strings, so that a row can be read at once;
`checks` renders the played turn in the same form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qcode.engine.caps import OutputSettings
from qcode.protocol.errors import ExitCode
from qcode.protocol.events import ApiCalls, TurnEvent
from qcode.protocol.model import ModelFacts, RetrySettings
from qcode.protocol.reply import Outcome, StopReason
from qcode.protocol.usage import Usage
from qcode.providers.connection import Timeouts
from qcode.text.json import Json
from tests.fakes.server import ProtocolName
from tests.fakes.turns import Call, Faults, Turn

if TYPE_CHECKING:
    from tests.e2e.limits.play import Played

How: TypeAlias = Literal["drop", "error", "stall", "damage", "end"]
Ends: TypeAlias = tuple[Outcome, StopReason | None, int]

AT_CAP = -1
"""The output tokens of a `Usage` that stand for the cap of the request."""

DONE: Ends = (Outcome.END_TURN, StopReason.END_TURN, ExitCode.OK)
CUT: Ends = (Outcome.MAX_TOKENS, StopReason.MAX_TOKENS, ExitCode.INCOMPLETE)
CANCELLED: Ends = (Outcome.CANCELLED, None, ExitCode.INTERRUPTED)
BLOCKED: Ends = (Outcome.REFUSAL, StopReason.REFUSAL, ExitCode.REFUSED)
BROKEN: Ends = (Outcome.ERROR, None, ExitCode.TRANSIENT)
WRONG: Ends = (Outcome.ERROR, None, ExitCode.FAILED)

FIRST, ESCALATED = "first 8000", "escalated 64000"
LONGER = "continuation 64000"
UP = ("over max_tokens", "escalated 8000>64000")
COMPLETED, STILL_CUT = "ended completed", "ended retry_limit"

P = ("Eins — ", "zwei é ", "drei ✓ ", "vier 語 ", "fünf 🙂 ")
"""Pieces of one text. No piece overlaps with another."""
WHOLE = "".join(P)
BIG = "line one\nline two\n"
BIG_CUT = '{"path": "big.py", "content": "line one\\nline tw'
SHELL_CUT = '{"command": "touch made.txt; echo do'
TWO_DONE = ("call", "text")

PATIENT = Timeouts(connect=60, first_event=60, idle=60, idle_local=60)
HALF_CALLS: Mapping[ProtocolName, str] = {"gemini": "calls arrive whole: a half one never arrives"}
GEMINI_ONLY: Mapping[ProtocolName, str] = {
    "openai": "no such reason in this protocol",
    "anthropic": "no such reason in this protocol",
}
ANTHROPIC_ONLY: Mapping[ProtocolName, str] = {
    "openai": "no such reason in this protocol",
    "gemini": "no such reason in this protocol",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the host, which may break."""

    turn: Turn
    how: How | None = None
    """The fault, None for none.

    `drop` closes the socket, `error` sends an error event, `stall` sends nothing more, `damage` makes the event that
    contains `after` invalid, `end` sends all content and ends without a terminal event.
    """
    after: str = ""
    """The fault comes after the event that contains this text; if empty, before the first event."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel at the first event for which `at` holds, or, without it, when the host has fallen silent."""

    at: Callable[[TurnEvent], bool] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the output-limit table: a script of the host, and the requests, events and text that must follow."""

    cause: str
    phase: str
    script: tuple[Turn | Step, ...]
    asked: tuple[str, ...]
    """The name of each attempt and its cap, such as `first 8000`, with a dash before a discarded attempt.

    The cap is `?` if it depends on an estimate.
    """
    text: str | None = WHOLE
    """The text of the turn, None if only the invariants check it."""
    events: tuple[str, ...] = ()
    """The events of recovery, in order."""
    api: ApiCalls = field(default_factory=lambda: ApiCalls(initial=1))
    ends: Ends = DONE
    stored: tuple[str, ...] = ("text",)
    """The blocks of each stored assistant message, such as `text+call`."""
    ran: tuple[str, ...] = ()
    """The names of the tools that ran."""
    results: tuple[str, ...] = ()
    """A part of the result of each call."""
    notice: str = ""
    """A part of the text for the user: of a notice, of the note of a reply, or of the error."""
    files: Mapping[str, str] = field(default_factory=dict)
    settings: OutputSettings = field(default_factory=OutputSettings)
    facts: ModelFacts = field(default_factory=ModelFacts)
    retries: RetrySettings = field(default_factory=RetrySettings)
    timeouts: Timeouts = PATIENT
    money: Decimal | None = None
    provider: str = ""
    cancel: Cancel | None = None
    skips: Mapping[ProtocolName, str] = field(default_factory=dict)
    """The protocols to which the row does not apply, each with the reason."""
    on: Mapping[ProtocolName, Mapping[str, Any]] = field(default_factory=dict)
    """The fields that differ with a protocol."""
    again: tuple[Turn | Step, ...] | None = (Turn(text="Next.", usage=Usage(input=100, output=3)),)
    """The script of the next turn, None for no next turn."""
    again_caps: tuple[int, ...] | None = None
    """The caps of the requests of the next turn, None if they are not checked."""
    window: int | None = None
    """The context window that qcode has learned at the end, None for none."""
    check: Callable[[Played], None] | None = None

    def at(self, protocol: ProtocolName) -> Row:
        """Return the row with the differences of `protocol`."""
        return replace(self, **self.on.get(protocol, {}))


def api(initial: int = 1, *, up: int = 0, on: int = 0, repairs: int = 0, retries: int = 0) -> ApiCalls:
    return ApiCalls(initial, escalations=up, continuations=on, repairs=repairs, retries=retries)


def continued(*indexes: int) -> tuple[str, ...]:
    """Return the events of continuations with these numbers."""
    return tuple(event for index in indexes for event in ("on max_tokens", f"continuation {index}"))


def done(text: str | Sequence[str] = WHOLE, *, thinking: str = "", output: int = 7, prompt: int = 100) -> Turn:
    return Turn(text=text, reasoning=thinking, usage=Usage(input=prompt, output=output))


def cut(text: str | Sequence[str] = (), *, thinking: str = "", prompt: int = 100, output: int = AT_CAP) -> Turn:
    """Return an answer that the cap has cut: a text, thinking, or neither."""
    usage = Usage(input=prompt, output=output)
    return Turn(text=text, reasoning=thinking, stop=StopReason.MAX_TOKENS, usage=usage)


def call(name: str, text: str = "", **arguments: Json) -> Turn:
    """Return an answer that ends in one complete call."""
    made = Call(name, json.dumps(arguments, ensure_ascii=False))
    return Turn(text=text, calls=[made], usage=Usage(input=100, output=9))


def cut_call(name: str, raw: str, text: str = "") -> Turn:
    usage = Usage(input=100, output=AT_CAP)
    return Turn(text=text, calls=[Call(name, raw)], stop=StopReason.MAX_TOKENS, usage=usage)


def stopped(stop: StopReason | str, text: str = "", *, output: int = 6) -> Turn:
    """Return an answer that ends with the stop reason `stop`, well below its cap."""
    return Turn(text=text, stop=stop, usage=Usage(input=100, output=output))


def late(turn: Turn) -> Turn:
    """Return the answer with its usage after the stop reason."""
    return replace(turn, faults=Faults(late_usage=True))


def glob(text: str = "") -> Turn:
    """Return a complete call that changes nothing and needs no approval."""
    return call("glob", text, pattern="*.txt")


def write(content: str = BIG) -> Turn:
    return call("write", path="big.py", content=content)
