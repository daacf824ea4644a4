"""Asks bash itself whether it takes a command, without running it: `bash -n` (https://www.gnu.org/software/bash/manual/)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from qcode.safety.launch.process import Unavailable, find_program, run

_TIMEOUT_S = 2.0
_KEPT = 2_000


class BashSyntax:
    """Call it with a command: the reason why bash does not take it, empty where it does. Answers are kept."""

    def __init__(self, path: str, outside: Iterable[Path]) -> None:
        self._bash = find_program("bash", f"{path}:/usr/bin:/bin", outside)
        self._known: OrderedDict[str, str] = OrderedDict()

    def __call__(self, command: str) -> str:
        if self._bash is None:
            return "bash was not found, so nobody could say whether it understands the command"
        if command not in self._known:
            self._known[command] = self._ask(self._bash, command)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[command]

    def _ask(self, bash: str, command: str) -> str:
        argv = (bash, "--noprofile", "--norc", "-n", "-c", command)
        try:
            code, _ = run(argv, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, _TIMEOUT_S)
        except Unavailable as unavailable:
            return f"bash {unavailable}, so nobody could say whether it understands the command"
        return "" if code == 0 else "bash does not understand its syntax"
