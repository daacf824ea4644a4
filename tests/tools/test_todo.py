"""The to-do list, and invalid questions."""

from __future__ import annotations

import pytest

from qcode.text.json import Json
from qcode.tools.dialog import TodoItem, todo_items
from tests.tools.conftest import ToolRunner


def item(task: str, state: str) -> Json:
    return {"task": task, "state": state}


def test_list_is_returned_as_stored(runner: ToolRunner) -> None:
    items = [item("look", "done"), item("fix \n it", "in_progress"), item("test", "pending")]
    outcome = runner.run("todo", items=items)
    assert outcome.content == "[x] look\n[>] fix it\n[ ] test"
    assert outcome.summary == "1 of 3 done"
    assert todo_items({"items": items})[1] == TodoItem("fix it", "in_progress")
    assert runner.run("todo", items=[]).content == "The list is empty."


def test_inconsistent_list_is_returned_with_advice(runner: ToolRunner) -> None:
    assert "work on one at a time" in runner.run("todo", items=[item("a", "in_progress")] * 2).content
    assert "no item is in progress" in runner.run("todo", items=[item("a", "pending")]).content
    assert "nothing" not in runner.run("todo", items=[item("a", "done")]).content


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([item("a", "started")], '"items[0].state" must be one of'),
        ([item(" ", "done")], "the task of an item is empty"),
        (["a"], '"items[0]" must be an object'),
        ([{"task": "a"}], 'missing argument "items[0].state"'),
        ([item("a", "done")] * 51, "at most 50"),
    ],
)
def test_invalid_list_is_refused(runner: ToolRunner, items: list[Json], message: str) -> None:
    assert message in runner.run("todo", items=items).content
    assert runner.preview("todo", items=items).refusal


@pytest.mark.parametrize(
    ("choices", "multi_select", "message"),
    [
        ([{"label": "a"}], True, "multi_select needs at least two choices"),
        ([], True, "multi_select needs at least two choices"),
        ([{"label": "a"}, {"label": "b"}], "yes", 'argument "multi_select" must be a boolean'),
    ],
)
def test_question_with_several_answers_needs_choices(
    choices: list[Json], multi_select: Json, message: str, runner: ToolRunner
) -> None:
    refusal = runner.preview("ask_person", question="Which?", choices=choices, multi_select=multi_select).refusal
    assert message in refusal
    assert "\n" not in refusal


def test_question_asks_for_several_answers_only_if_the_model_says_so(runner: ToolRunner) -> None:
    choices: list[Json] = [{"label": "a"}, {"label": "b"}]
    assert runner.preview("ask_person", question="Which?", choices=choices, multi_select=True).is_multi_select
    for arguments in ({}, {"multi_select": False}, {"multi_select": None}):
        assert not runner.preview("ask_person", question="Which?", choices=choices, **arguments).is_multi_select


def test_long_question_is_not_shortened(runner: ToolRunner) -> None:
    long = "why " * 100
    preview = runner.preview("ask_person", question=f"{long}?")
    assert preview.detail == f"{long}?"
    assert runner.preview("ask_person", question="Which?\nMore of it.").detail == "More of it."
    assert runner.preview("ask_person", question=" ").refusal
    assert runner.run("ask_person", question="Which?").is_error
