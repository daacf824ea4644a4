"""A run of the whole suite checks the rows of a large table in groups: one test for 20 rows.

Pytest, xdist and three collections take 3 ms for each test, which is more than most rows take. A group runs all its
rows and names each one that fails. If a file or test is named, each row is a test, as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import signature
from typing import Any

import pytest

GROUP = 20
"""The rows of a group."""

SHARED = frozenset(
    {"request", "monkeypatch", "no_amazon_account", "_letters_answer_at_once", "forgotten_handlers", "without_frames"}
)
"""Fixtures of single tests that rows can share: they prepare the environment, and rows do not change it."""

groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
"""The name and the arguments of each row of a group."""


@pytest.hookimpl(hookwrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Replace the rows of a table by its groups."""
    yield
    config, rows = metafunc.config, vars(metafunc)["_calls"]
    if config.args != config.getini("testpaths") or config.option.keyword or config.option.verbose > 0:
        return
    if len(rows) < 3 or not is_pure(metafunc) or any(row.marks != rows[0].marks for row in rows):
        return
    merged = []
    for start in range(0, len(rows), GROUP):
        group = rows[start : start + GROUP]
        name = f"rows {start + 1} to {start + len(group)}"
        groups[f"{metafunc.definition.nodeid}[{name}]"] = [(row.id, dict(row.params)) for row in group]
        merged.append(replace(group[0], _idlist=(name,)))
    rows[:] = merged


def is_pure(metafunc: pytest.Metafunc) -> bool:
    """Return whether the only arguments of a test are those of its table, and no fixture works for single tests."""
    arguments = set(signature(metafunc.function).parameters)
    given = {name for name, kind in vars(metafunc)["_params_directness"].items() if kind == "direct"}
    fixtures: dict[str, Any] = vars(metafunc)["_arg2fixturedefs"]
    return (
        not hasattr(metafunc.function, "is_hypothesis_test")
        and arguments - {"self"} == given
        and given == vars(metafunc)["_params_directness"].keys()
        and all(
            name in given or name in SHARED or (name in fixtures and fixtures[name][-1].scope != "function")
            for name in metafunc.fixturenames
        )
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a group of rows; other tests run as usual."""
    rows = groups.get(pyfuncitem.nodeid)
    if rows is None:
        return None
    run_rows(pyfuncitem.obj, rows)
    return True


def run_rows(test: Callable[..., object], rows: list[tuple[str, dict[str, Any]]]) -> None:
    """Call `test` for each row. Raise the errors of all rows that failed, or skip if each row was skipped."""
    errors: list[Exception] = []
    skipped: list[BaseException] = []
    for name, arguments in rows:
        try:
            test(**arguments)
        except pytest.skip.Exception as reason:
            skipped.append(reason)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # raised below, with those of other rows
            error.add_note(f"row [{name}]")
            errors.append(error if isinstance(error, Exception) else AssertionError(str(error)))
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(f"{len(errors)} of {len(rows)} rows failed", errors)
    if len(skipped) == len(rows):
        raise skipped[0]
