"""The walls of a session's commands: found when they are first needed, put up around each command that needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Literal

from qcode.safety.sandbox.finding import Sandbox, find_sandbox
from qcode.safety.sandbox.walls import Grounds, confinement_for
from qcode.safety.verdict import Level


class Walls:
    """`wanted` is `tools.sandbox`. Looking for a sandbox runs a few short processes, once; safe from any thread."""

    def __init__(
        self,
        wanted: Literal["auto", "required", "off"],
        grounds: Grounds,
        find: Callable[[], Sandbox | None] = find_sandbox,
    ) -> None:
        self._wanted = wanted
        self._grounds = grounds
        self._find = find
        self._lock = threading.Lock()
        self._found: Sandbox | None = None
        self._has_looked = wanted == "off"

    @property
    def sandbox(self) -> Sandbox | None:
        """What works here, None where nothing does or the person wants none."""
        with self._lock:
            if not self._has_looked:
                self._found, self._has_looked = self._find(), True
            return self._found

    def levels(self) -> tuple[Level, ...]:
        """Return the confinements that can be given."""
        sandbox = self.sandbox
        return sandbox.levels if sandbox is not None else ()

    def wrap(self, level: Level | None, argv: Sequence[str]) -> list[str]:
        """Return the argv that runs `argv` as confined as `level` says, `argv` itself for None.

        Raise `RuntimeError` where the walls that a verdict counted on are not there any more.
        """
        if level is None:
            return list(argv)
        sandbox = self.sandbox
        if sandbox is None or level not in sandbox.levels:
            raise RuntimeError(f"no sandbox can give the confinement {level!r}")
        return sandbox.wrap(argv, confinement_for(level, self._grounds))
