"""The cost of skills at the start: 500 of them read, and a one-shot with 50 of them."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qcode.agent.skills.discovery import SkillFolder, find_skills
from tests.agent.skills.folders import put
from tests.perf.conftest import Bars

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]

ROUNDS = 9
DESCRIPTIONS = (
    "Extracts text and tables from PDF files, fills forms and merges documents. Use it when the user mentions PDFs.",
    "\"Reviews a change for security: injection, secrets, unsafe defaults. Use when asked to 'review' or 'audit'.\"",
    "Use when starting any task: establishes how to find and use the conventions of the project",  # not YAML as it is
    ">\n  Guides the work on a release: version, notes and tag.\n  Not for drafts.",
)


def fill(folder: Path, count: int) -> None:
    """Write skills whose front matter has the forms of public ones."""
    for number in range(count):
        description = DESCRIPTIONS[number % len(DESCRIPTIONS)]
        more = {"allowed_tools": "[Read, Grep]"} if number % 5 == 0 else {}
        put(folder, f"skill-{number:03}", body="word " * 400, description=description, **more)


def test_500_skills_are_read_quickly(tmp_path: Path, bars: Bars) -> None:
    fill(tmp_path, 500)
    folders = [SkillFolder(tmp_path, "skills")]
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        found = find_skills(folders)
        seconds.append(time.process_time() - began)
    assert (len(found.skills), found.problems) == (500, ())
    bars.hold("500 skills read, CPU time", min(seconds) * 1000, 150, "ms")


def one_shot(home: Path) -> float:
    """Return the CPU seconds of a one-shot on the demo model, which ends with its request."""
    env = {**os.environ, "HOME": str(home), "QCODE_HOME": str(home / "qcode")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "qcode", "-p", "hi", "-m", "demo/demo"],
        env=env,
        cwd=home,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_one_shot_with_50_skills_costs_at_most_a_tenth_more(tmp_path: Path, bars: Bars) -> None:
    without, with_skills = tmp_path / "without", tmp_path / "with"
    without.mkdir()
    fill(with_skills / ".claude/skills", 50)
    for home in (without, with_skills):
        one_shot(home)  # byte code is written once
    # In turns, so that other load of the machine affects both equally.
    pairs = [(one_shot(with_skills), one_shot(without)) for _ in range(ROUNDS)]
    ratio = statistics.median(more for more, _ in pairs) / statistics.median(less for _, less in pairs)
    bars.hold("one-shot with 50 skills, CPU time against one without", ratio, 1.1)
