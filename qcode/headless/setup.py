"""What pipe mode has to be told about the run, beyond the conversation itself."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from qcode.protocol.conversation import NO_OPTIONS, TurnOptions
from qcode.protocol.messages import ToolCall
from qcode.protocol.values import dataclass

if TYPE_CHECKING:
    from qcode.headless.schema import AnswerSchema

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]


@dataclass(frozen=True, slots=True)
class HeadlessSetup:
    """Facts of one run. `model` is `provider/model`, `tools` the names the model is offered.

    `clock` gives seconds that never go back. `model_note` says why this model was chosen. `allowing` returns the flags,
    quoted for a shell, that would have let calls run, and of how many calls no flag would. `options` are of a custom
    command. `schema` is what the answer of each turn is read by. `late_tools` waits for tools from elsewhere and
    returns all names then.
    """

    session_id: str
    cwd: str
    model: str
    tools: tuple[str, ...]
    permission_mode: str
    version: str
    include_partial_messages: bool = False
    is_verbose: bool = False
    clock: Callable[[], float] = time.monotonic
    is_stderr_tty: bool = False
    model_note: str = ""
    options: TurnOptions = NO_OPTIONS
    schema: AnswerSchema | None = None
    allowing: Callable[[Sequence[ToolCall]], tuple[str, int]] = lambda calls: ("", len(calls))
    late_tools: Callable[[], Awaitable[tuple[str, ...]]] | None = None
