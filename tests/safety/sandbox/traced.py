"""Runs one command in a sandbox, to be traced: `python -m tests.safety.sandbox.traced SANDBOX LEVEL BASE COMMAND`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from qcode.safety.verdict import Level
from tests.safety.sandbox.running import WORKING, Box

if __name__ == "__main__":
    name, level, base, command = sys.argv[1:]
    box = Box(WORKING[name], Path(base))
    sys.stdout.write(box.run(cast("Level", level), command).text)
