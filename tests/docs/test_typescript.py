"""The examples for TypeScript run unchanged under Node, on the demo model."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, PageRunner, blocks_of

PAGE = ROOT / "docs" / "how-to" / "typescript.md"
EXAMPLES = [block.text for block in blocks_of(PAGE) if block.language == "ts"]
SHOWN = (
    r"Files in this folder.*\n 0\n",
    r"1 error_during_execution .*has no model `nothing`.*\n",
    r".*# Project.*\nsuccess, 2 replies\n",
)
"""A pattern of the output of each example."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("example", "shown"), zip(EXAMPLES, SHOWN, strict=True), ids=("answer", "failure", "events"))
def test_typescript_example_runs_under_node(example: str, shown: str, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    runner = PageRunner(tmp_path)
    (runner.work / "example.mjs").write_text(example)
    done = runner.bash("node example.mjs")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(shown, done.stdout, re.DOTALL), done.stdout
