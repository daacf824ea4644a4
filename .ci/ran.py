"""Fails if no test ran: `python .ci/ran.py REPORT.xml`. A suite that skips all its tests proves nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def main(report: Path) -> int:
    """Return 0 if `report`, which our own test run just wrote, has tests that ran."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314  # our own file, not foreign XML
    ran = sum(int(suite.get("tests", 0)) - int(suite.get("skipped", 0)) for suite in suites)
    sys.stdout.write(f"{ran} tests ran\n")
    return 0 if ran > 0 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
