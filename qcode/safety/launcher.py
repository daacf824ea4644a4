"""The start of the few programs that verdicts need, and the syntax check of commands by bash.

Programs are started by absolute path from safe parts of PATH, without a shell, with a small environment and a time
limit. `bash -n` reads a command without running it (https://www.gnu.org/software/bash/manual/). `git_repository` calls
git. The judges of commands and paths start no programs: they receive these results in a `Probes` object.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from qcode.safety.paths import real_path
from qcode.safety.protected_paths import is_within_any


class ProgramUnavailable(Exception):  # noqa: N818  # a finding, not a failure
    """The program could not be started or timed out; the text is the reason in a few words."""


class ProgramResult(NamedTuple):
    """The result of a program that ended by itself."""

    exit_code: int
    """Negative if a signal ended the program."""
    output: bytes
    errors: bytes
    """The text on standard error, empty unless `run` got `keeps_errors`."""


def find_program(name: str, path: str, excluded: Path | Iterable[Path]) -> str | None:
    """Return the absolute path of a program on `path` that is not in the `excluded` folders, None if there is none.

    Neither the program nor the target of its links may be in these folders; otherwise a workspace could provide its
    own git.
    """
    folders = [excluded] if isinstance(excluded, Path) else list(excluded)
    for part in safe_parts(path, *folders):
        program = shutil.which(name, path=part)
        if program is not None and not is_within_any(real_path(program), map(_real_path_of, folders)):
            return program
    return None


def safe_parts(path: str, *excluded: Path) -> list[str]:
    """Return the absolute parts of PATH that are, with links resolved, in none of the `excluded` folders."""
    parts = [part for part in path.split(os.pathsep) if Path(part).is_absolute()]
    forbidden = list(map(_real_path_of, excluded))
    return [part for part in parts if not is_within_any(real_path(part), forbidden)]


def _real_path_of(folder: Path) -> str:
    return real_path(str(folder.absolute()))


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    timeout: float,
    *,
    cwd: str | None = None,
    keeps_errors: bool = False,
) -> ProgramResult:
    """Run a program until it ends. Raise `ProgramUnavailable` if it cannot start or exceeds `timeout` seconds.

    At the time limit, the program and its children are killed. Standard error is dropped, unless `keeps_errors`.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if keeps_errors else subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "its arguments are invalid"
        raise ProgramUnavailable(f"could not be started: {why}") from None
    try:
        output, errors = process.communicate(timeout=max(0.0, timeout))
    except subprocess.TimeoutExpired:
        raise ProgramUnavailable("took too long") from None
    finally:
        # `communicate` closes the pipe unless it is interrupted, for example by the time limit.
        if process.stdout is not None and not process.stdout.closed:
            if process.poll() is None:  # otherwise the process ended right after the time limit
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return ProgramResult(process.returncode, output, errors or b"")


_BASH_TIMEOUT_S = 2.0
_MAX_ANSWERS = 2_000
"""The maximum number of cached commands."""


class BashSyntax:
    """The syntax check of commands by `bash -n`, with a cache of the results."""

    def __init__(self, path: str, excluded: Iterable[Path]) -> None:
        self._bash = find_program("bash", f"{path}:/usr/bin:/bin", excluded)
        self._cached_answers: OrderedDict[str, str] = OrderedDict()

    def __call__(self, command: str) -> str:
        """Return the reason why a command is not accepted, empty if it is."""
        if self._bash is None:
            return "bash was not found, so the syntax of the command could not be checked"
        if command not in self._cached_answers:
            self._cached_answers[command] = self._check(self._bash, command)
            if len(self._cached_answers) > _MAX_ANSWERS:
                self._cached_answers.popitem(last=False)
        return self._cached_answers[command]

    def _check(self, bash: str, command: str) -> str:
        argv = (bash, "--noprofile", "--norc", "-n", "-c", command)
        try:
            result = run(argv, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, _BASH_TIMEOUT_S)
        except ProgramUnavailable as unavailable:
            return f"bash {unavailable}, so the syntax of the command could not be checked"
        return "" if result.exit_code == 0 else "bash rejects its syntax"
