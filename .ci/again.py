"""Runs a few failed tests again, one after another: a busy machine can be too slow for a time limit.

`python .ci/again.py`, after a failed run of the tests. A test that fails again is broken, and so is a run with many
failures. A test that passes now is named all the same: it depends on the load of the machine and must be fixed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_FAILED = Path(".pytest_cache/v/cache/lastfailed")
_MAX_FAILED = 5


def main() -> int:
    """Return 0 if a few tests failed and each of them passes alone."""
    named = json.loads(_FAILED.read_text(encoding="utf-8")) if _FAILED.exists() else []
    failed = sorted({name.partition("[rows ")[0] for name in named})  # a group of rows is rerun with its whole table
    if not 0 < len(failed) <= _MAX_FAILED:
        return 1
    sys.stdout.write("These tests failed and are run once more, alone:\n" + "".join(f"  {name}\n" for name in failed))
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-n", "0", *failed]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        sys.stdout.write("They passed alone: they depend on how busy the machine is, or on what ran before them.\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
