"""Edits as models really send them: the table is in `edit_cases`."""

from __future__ import annotations

import pytest

from tests.tools.conftest import ToolRunner
from tests.tools.edit_cases import CASES, EMPTY, EXACT, SIGNS, SLIPS, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("tool", ["edit", "multi_edit"])
def test_edit_case_has_its_expected_result(runner: ToolRunner, case: Case, tool: str) -> None:
    before = case.before.encode(case.encoding)
    target = runner.have_read("a.txt", before)
    one = {"old_text": case.old, "new_text": case.new, "replace_all": case.replaces_all}
    outcome = runner.run(tool, path="a.txt", **(one if tool == "edit" else {"edits": [one]}))
    assert case.said in outcome.content
    if case.after is None:
        assert outcome.is_error
        assert target.read_bytes() == before
    else:
        assert not outcome.is_error, outcome.content
        assert target.read_bytes() == case.after.encode(case.encoding)
        if case in (*EXACT, *EMPTY) or case in (*SIGNS, *SLIPS):
            assert ("Note: matched" in outcome.content) == (case in (*SIGNS, *SLIPS))


def test_edit_cases_are_many_and_have_unique_names() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
