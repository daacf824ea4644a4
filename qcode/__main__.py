"""The entry point. It answers `--version` and `--help` before other modules load, and runs `cli` for all else."""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    """Run qcode on `sys.argv` and return its exit code."""
    try:
        return _run()
    except KeyboardInterrupt:
        return 130


def _run() -> int:
    _open_missing_streams()
    if len(sys.argv) == 2 and sys.argv[1] in ("--version", "-h", "--help"):
        return _answer(sys.argv[1])
    if any("json" in word for word in sys.argv):
        # A run with JSON output writes a result after a signal, too. `cli` unblocks the signals once it can do that.
        import signal

        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    # Modules that load now stay until exit, so collecting garbage among them would be wasted time.
    gc.disable()
    from qcode.cli.main import main as run

    gc.freeze()  # otherwise the first collection would examine all objects of these modules
    gc.enable()
    return run()


def _open_missing_streams() -> None:
    """Open the null device for each missing standard stream, because the next opened file would get its number.

    The device for standard output is opened for reading only, so that writing an answer fails.
    """
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            device = os.open(os.devnull, flags)
            if device != number:
                os.dup2(device, number)
                os.close(device)
            mode = "w" if number else "r"
            stream = os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False)
            setattr(sys, name, stream)


def _answer(flag: str) -> int:
    if flag == "--version":
        from qcode.cli.flags import VERSION

        text = f"{VERSION}\n"
    else:
        from qcode.cli.help_text import help_text

        text = help_text()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes again at exit, which must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 141
        sys.stderr.write(f"qcode: cannot write to standard output: {error.strerror}\n")
        return 1
    return 0


def _exclude_working_folder() -> None:
    """Remove the working folder, which `python -m` puts first, from the import path: its files are not trusted."""
    if not sys.path or sys.flags.safe_path:
        return
    try:
        here = os.getcwd()  # noqa: PTH109  # pathlib takes a while to load
    except OSError:
        here = ""  # the folder was deleted, so nothing can be imported from it
    if sys.path[0] in ("", here):
        del sys.path[0]


if __name__ == "__main__":
    _exclude_working_folder()
    sys.exit(main())
