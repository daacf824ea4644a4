"""Dispatches the command line to a subcommand, pipe mode or the app.

`main` converts every failure to one line on stderr and a documented exit code. SIGTERM and SIGHUP raise an exception,
as Ctrl+C does, until an event loop handles them. Pipe mode blocks these signals until it has imported the code that
writes the result of an interrupted run.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from qcode.agent.options import Options
from qcode.cli.arguments import (
    CommandLineError,
    invalid_arguments,
    parse,
    parse_subcommand,
    pipe_flags,
    requested_format,
    split_subcommand,
)
from qcode.cli.flags import VERSION
from qcode.cli.terminal import OutputLost, write_stderr, write_stdout
from qcode.garbage import without_gc
from qcode.protocol.errors import ExitCode, QcodeError

_ACP_USAGE = "use: qcode acp [--login] [FLAGS]; qcode help acp lists the flags"


def main(argv: Sequence[str] | None = None) -> int:
    """Run qcode on `argv` (`sys.argv` without the program's name) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with terminated_by_signals():
            return _run_guarded(arguments)
    except Terminated:
        return ExitCode.TERMINATED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OutputLost as lost:
        if lost.is_reader_gone:
            return ExitCode.READER_GONE
        write_stderr(f"cannot write to standard output: {lost}")
        return ExitCode.FAILED


def _run_guarded(arguments: list[str]) -> int:
    """Run the command line; report an error on stderr and return its exit code."""
    try:
        return _dispatch(arguments)
    except CommandLineError as error:
        write_stderr(f"{error} (see qcode --help)")
        return error.exit_code
    except QcodeError as failure:
        write_stderr(str(failure))
        return failure.exit_code
    except OutputLost:
        raise
    except Exception as error:  # noqa: BLE001 - the program's edge: the user gets a line and a file, no traceback
        from qcode.agent.crash import describe_crash

        write_stderr(describe_crash(error, os.environ))
        return ExitCode.FAILED


def _dispatch(arguments: list[str]) -> int:
    """Run the help, a subcommand, pipe mode or the app, and return the exit code."""
    # Flags after `--` belong to the prompt, or to the program of `qcode mcp add NAME -- PROGRAM`.
    before_dashes = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "-h" in before_dashes or "--help" in before_dashes:
        return _help([word for word in before_dashes if word not in ("-h", "--help")])
    if "--version" in before_dashes:
        write_stdout(f"{VERSION}\n")
        return ExitCode.OK
    if arguments == ["--login"]:
        return _log_in()
    try:
        subcommand = split_subcommand(arguments)
        options = Options() if subcommand else parse(arguments)
        is_pipe_mode = subcommand is None and _is_pipe_mode(options)
    except CommandLineError as error:
        if requested_format(arguments) != "text":
            from qcode.headless.lines import result_without_turn

            write_stdout(result_without_turn(error.info, options=None, format=requested_format(arguments)))
        raise
    if not is_pipe_mode:
        unblock_signals()  # the entry point may have blocked them
    if subcommand is not None:
        return _run_subcommand(*subcommand)
    if options.completion is not None:
        from qcode.cli.completion import keyed_providers, script

        write_stdout(script(options.completion, keyed_providers(os.environ)))
        return ExitCode.OK
    return _run(options, is_pipe_mode=is_pipe_mode)


def _help(words: Sequence[str]) -> int:
    """Print the help; if `words` begin with a subcommand, only that of the subcommand."""
    try:
        subcommand = split_subcommand(words)
    except CommandLineError:
        subcommand = None
    if subcommand is None or subcommand[0] == "help":
        from qcode.cli.help_text import help_text

        write_stdout(help_text())
        return ExitCode.OK
    from qcode.cli.subcommands import run_subcommand

    return run_subcommand("help", [subcommand[0]])


def _run_subcommand(name: str, arguments: list[str]) -> int:
    if name == "acp":
        return _run_acp(arguments)
    if name == "version":
        if arguments:
            raise invalid_arguments(arguments, "use: qcode version")
        write_stdout(f"{VERSION}\n")
        return ExitCode.OK
    from qcode.cli.subcommands import run_subcommand

    if name in ("login", "logout"):
        return run_subcommand("auth", [name, *arguments])
    return run_subcommand(name, arguments)


def _run_acp(arguments: Sequence[str]) -> int:
    """Serve an editor (`qcode acp`), or log in; return the exit code. Raise `CommandLineError`.

    Loads little, because the editor waits.
    """
    options, words, flags = parse_subcommand("acp", arguments, _ACP_USAGE)
    if words:
        raise invalid_arguments(words, _ACP_USAGE)
    if "login" in flags:
        return _log_in()
    from qcode.acp.run import run_acp

    return run_acp(options)


def _log_in() -> int:
    """Ask for a provider and its key on the terminal and store it. Editors run this to let the user log in."""
    from qcode.cli.subcommands import run_subcommand

    return run_subcommand("auth", ["login"])


def _is_pipe_mode(options: Options) -> bool:
    """Return whether a run is pipe mode; raise `CommandLineError` for a flag that has no effect in the app."""
    if options.print or options.input_format != "text" or not is_terminal(0) or not is_terminal(1):
        return True
    if flags := pipe_flags(options):
        raise CommandLineError(f"{flags[0]} is for pipe mode: add -p")
    return False


def _run(options: Options, *, is_pipe_mode: bool) -> int:
    """Run pipe mode or the app, and return the exit code."""
    if is_pipe_mode:
        # An interrupted run must still write a result.
        block_signals()
        try:
            if options.input_format == "stream-json":
                with without_gc():
                    from qcode.cli.lines import run_lines

                return run_lines(options, unblock_signals)
            with without_gc():
                from qcode.cli.pipe import run_pipe

            return run_pipe(options, unblock_signals)
        finally:
            unblock_signals()
    # No garbage collection until the first screen is painted.
    gc.disable()
    try:
        from qcode.cli.app import run_app

        return run_app(options)
    finally:
        gc.enable()


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived. The program ends like after Ctrl+C, but with another exit code."""


_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def block_signals() -> None:
    """Block SIGINT, SIGTERM and SIGHUP until `unblock_signals`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)


def unblock_signals() -> None:
    """Unblock the signals. A pending one is delivered at once and raises `KeyboardInterrupt` or `Terminated`."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)


@contextmanager
def terminated_by_signals() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM and SIGHUP in the block, unless the signal is ignored or already handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    default_signals = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in default_signals:
        signal.signal(number, _raise_terminated)
    try:
        yield
    finally:
        for number in default_signals:
            signal.signal(number, signal.SIG_DFL)


def _raise_terminated(number: int, frame: object) -> NoReturn:
    raise Terminated
