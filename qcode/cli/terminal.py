"""The standard streams of the command line, questions on the terminal before the app opens, and the folder of the run.

If stdout is full, closed, or has no reader, `write_stdout` raises `OutputLost`. A write error on stderr is ignored.
Questions are plain text, and the answer is one line.
"""

from __future__ import annotations

import os
import select
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, TypeVar

from qcode.protocol.errors import ErrorInfo, ErrorKind, InputError, QcodeError
from qcode.text.clean import clean, visible

AnswerT = TypeVar("AnswerT")

SILENCE_S = 10.0
"""The seconds without input after which a message says that qcode waits for it."""
MAX_INPUT_BYTES = 32 * 1024 * 1024
"""The maximum size of the piped input. It is above the largest context window; endless input would exhaust memory."""


class OutputLost(Exception):  # noqa: N818  # a state of the environment, not a bug
    """A write to standard output failed. The text is the reason."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_reader_gone = isinstance(error, BrokenPipeError)


def standard_input() -> TextIO | None:
    """Return standard input, None if the program was started without one."""
    return sys.stdin


def read_standard_input(stream: TextIO | None, *, note: Callable[[str], None]) -> str:
    """Return the piped input, empty if there is none; raise `InputError` if it cannot be used.

    A pipe is read to its end, without a time limit. If no input arrives within `SILENCE_S`, `note` gets a message.
    """
    if stream is None or stream.closed or stream.isatty():
        return ""
    try:
        descriptor = stream.fileno()
        if not select.select([descriptor], [], [], SILENCE_S)[0]:
            note(f"waiting for standard input, silent for {SILENCE_S:.0f} s; --no-stdin continues without it")
        data = _read_all(descriptor)
    except OSError as error:
        raise InputError(f"cannot read standard input: {error.strerror}") from None
    if not data:
        return ""
    from qcode.agent.context.attachments import decode_text

    return decode_text(data, "standard input")


def _read_all(descriptor: int) -> bytes:
    """Read a descriptor to its end; raise `InputError` beyond `MAX_INPUT_BYTES`."""
    chunks: list[bytes] = []
    size = 0
    while True:
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_INPUT_BYTES:
            raise InputError(f"standard input is too large (more than {MAX_INPUT_BYTES:,} bytes)")
    return b"".join(chunks)


def write_stdout(data: str | bytes) -> None:
    """Write all of `data` to stdout, text as UTF-8; raise `OutputLost`."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    try:
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    except OSError as error:
        # The interpreter flushes stdout again at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise OutputLost(error) from error


def write_lines(*lines: str) -> None:
    """Write lines to stdout; raise `OutputLost`."""
    write_stdout("".join(f"{line}\n" for line in lines))


@contextmanager
def result_on_failure(result: Callable[[ErrorInfo | None], bytes]) -> Iterator[None]:
    """Write a result if the body fails, and raise the failure again for the line on stderr.

    `result` returns the bytes for an error, None if the body was interrupted.
    """
    try:
        yield
    except KeyboardInterrupt:
        write_stdout(result(None))
        raise
    except QcodeError as failure:
        write_stdout(result(failure.info))
        raise
    except Exception as fault:
        write_stdout(result(ErrorInfo(ErrorKind.INTERNAL, f"internal error: {type(fault).__name__}")))
        raise


def write_stderr(text: str) -> None:
    """Write `text` to stderr after `qcode: `, without control sequences; see `uncapitalized` for its first letter."""
    from qcode.text.sentences import uncapitalized  # most starts report nothing

    # A byte of an argument that is not UTF-8, which `clean` would remove, is shown as U+FFFD.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        sys.stderr.flush()
        os.write(2, f"qcode: {uncapitalized(clean(text))}\n".encode("utf-8", "replace"))
    except OSError:
        return


class InputEnded(Exception):  # noqa: N818  # a choice of the user, not an error
    """The user ended the input (Ctrl+D) instead of answering."""


def ask(text: str) -> str:
    """Show `text` and return the typed line without surrounding space; raise `InputEnded` at the end of input."""
    write_stdout(text)
    line = sys.stdin.readline()
    if not line:
        write_stdout("\n")
        raise InputEnded
    return line.strip()


def ask_choice(text: str, question: str, answers: Mapping[str, AnswerT], default: str) -> AnswerT:
    """Show `text`, then ask `question` until the user types a key of `answers`, and return its value.

    An empty line is `default`, one of the keys. Raise `InputEnded` at the end of input.
    """
    typed = ask(f"{text}\n{question}") or default
    while typed not in answers:
        typed = ask(f"Not one of the choices: {visible(typed)}\n{question}") or default
    return answers[typed]


def ask_hidden(text: str) -> str:
    """Show `text` on the terminal and return the typed or pasted line without echo; raise `InputEnded`.

    Text pasted after the line is discarded, so that the shell does not run it.
    """
    import getpass

    try:
        with warnings.catch_warnings():
            # The warning means that the input is not a terminal whose echo can be switched off.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(text)
    except EOFError:
        write_stdout("\n")
        raise InputEnded from None
    except getpass.GetPassWarning:
        raise InputError("this terminal cannot hide what you type; pipe the key in instead") from None


def working_folder(cwd: Path | str | None) -> Path:
    """Change to the working folder of a run and return it; raise `QcodeError` if that fails."""
    try:
        if cwd is not None:
            os.chdir(cwd)
        return Path.cwd()
    except OSError as error:
        folder = "the current folder" if cwd is None else f"the folder {cwd}"
        raise InputError(f"cannot use {folder}: {error.strerror}") from None


def short_path(folder: Path) -> str:
    """Return a folder with `~` for the home folder."""
    try:
        return f"~/{folder.relative_to(Path.home())}".removesuffix("/.")
    except (ValueError, RuntimeError):
        return str(folder)
