"""The entry point. `--version` and `--help` answer here, before anything else is loaded; the rest is `cli`'s."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run qcode on `sys.argv` and return its exit code."""
    if len(sys.argv) == 2 and sys.argv[1] in ("--version", "-h", "--help"):
        return _answer(sys.argv[1])
    try:
        from qcode.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


def _answer(flag: str) -> int:
    from qcode.usage import HELP, VERSION

    try:
        sys.stdout.write(f"{VERSION}\n" if flag == "--version" else HELP)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at exit; it must find somebody who listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


if __name__ == "__main__":
    sys.exit(main())
