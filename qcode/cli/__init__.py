"""The composition root: arguments, settings and wiring, then a front end. The only room that knows every other.

`main` turns every expected failure into one line on stderr and the exit code of the contract.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from qcode import __version__
from qcode.cli.arguments import SUBCOMMANDS, Arguments, UsageError, parse
from qcode.cli.failure import StartError


def main(argv: Sequence[str] | None = None) -> int:
    """Run qcode on `argv` (`sys.argv` without the program's name) and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(given)
    except UsageError as error:
        return _say(f"{error} (see qcode --help)", 2)
    except StartError as failure:
        return _say(str(failure), failure.code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141


def _dispatch(given: list[str]) -> int:
    before = given[: given.index("--")] if "--" in given else given
    if "-h" in before or "--help" in before:
        from qcode.usage import HELP

        sys.stdout.write(HELP)
        return 0
    if "--version" in before:
        print(f"qcode {__version__}")  # noqa: T201  # the answer to the flag
        return 0
    if given and given[0] in SUBCOMMANDS:
        from qcode.cli.subcommands import run_subcommand

        return run_subcommand(given[0], given[1:])
    arguments = parse(given)
    if arguments.completion is not None:
        from qcode.cli.completion import script

        sys.stdout.write(script(arguments.completion))
        return 0
    return _run(arguments)


def _run(arguments: Arguments) -> int:
    folder = working_folder(arguments.cwd)
    is_pipe = arguments.is_pipe or not _is_terminal(0) or not _is_terminal(1)
    if is_pipe:
        from qcode.cli.pipe import run_pipe

        return run_pipe(arguments, folder)
    from qcode.cli.app import run_app

    return run_app(arguments, folder)


def working_folder(cwd: Path | None) -> Path:
    """Change to the folder a run works in and return it; raise `StartError` where that cannot be."""
    try:
        if cwd is not None:
            os.chdir(cwd)
        return Path.cwd()
    except OSError as error:
        raise StartError(f"cannot work in {cwd or 'the current folder'}: {error.strerror}", 42) from None


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _say(text: str, code: int) -> int:
    try:
        sys.stderr.write(f"qcode: {text}\n")
    except OSError:
        return code
    return code
