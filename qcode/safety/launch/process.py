"""Finds and runs one short program of the system, hardened and bounded."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


class Unavailable(Exception):  # noqa: N818  # a finding, not a failure
    """The program could not say anything; the text says why in a few words."""


def find_program(name: str, path: str, outside: Path | Iterable[Path]) -> str | None:
    """Return the absolute path of a program from the absolute parts of `path`, never one in or under `outside`.

    Neither the entry nor what its links lead to may be inside, or a workspace could provide its own git.
    """
    folders = [outside] if isinstance(outside, Path) else list(outside)
    for part in safe_parts(path, *folders):
        found = shutil.which(name, path=part)
        if found is not None and not any(Path(found).resolve().is_relative_to(one.resolve()) for one in folders):
            return found
    return None


def safe_parts(path: str, *outside: Path) -> list[str]:
    """Return the parts of PATH that are absolute and lead to nothing in or under a folder of `outside`."""
    parts = [part for part in path.split(os.pathsep) if Path(part).is_absolute()]
    forbidden = [one.resolve() for one in outside]
    return [part for part in parts if not any(Path(part).resolve().is_relative_to(one) for one in forbidden)]


def run(argv: Sequence[str], env: Mapping[str, str], timeout: float, *, cwd: str | None = None) -> tuple[int, bytes]:
    """Return the exit code and output of a program; raise `Unavailable`. It and what it started end with the call."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "its arguments"
        raise Unavailable(f"could not be started: {why}") from None
    try:
        output, _ = process.communicate(timeout=max(0.0, timeout))
    except subprocess.TimeoutExpired:
        raise Unavailable("took too long") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, output
