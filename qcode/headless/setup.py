"""What pipe mode has to be told about the run, beyond the conversation itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]


@dataclass(frozen=True, slots=True)
class HeadlessSetup:
    """Facts of one run. `model` is `provider/model`, `tools` the names the model is offered.

    `clock` gives seconds that never go back. `is_trusted` False adds `--trust` to the flags that a denial proposes.
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
    is_trusted: bool = True
