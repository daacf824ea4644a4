"""The measurements, as one table at the end of the run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

import pytest

_ROWS: list[tuple[str, str, str]] = []


class Bars:
    """Compares measurements with their bars and keeps both for the table."""

    def hold(self, what: str, measured: float, bar: float, unit: str = "x", *, known: float | None = None) -> None:
        """Record a measurement; fail if it is above its bar, or above `known` if the bar is known to be missed."""
        missed = "" if measured <= bar else " (missed)"
        _ROWS.append((what, f"{measured:.3g} {unit}", f"<= {bar:g} {unit}{missed}"))
        most = bar if known is None else known
        assert measured <= most, f"{what}: {measured:.3g} {unit}, at most {most:g} {unit}"


@pytest.fixture
def bars() -> Bars:
    return Bars()


@pytest.fixture(autouse=True)
def _compiled_code_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first run of a program store its byte code, as after an installation."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _table():
        terminalreporter.write_line(line)


def _table() -> Iterator[str]:
    if not _ROWS:
        return
    yield ""
    yield f"{os.cpu_count()} cores, Python {platform.python_version()}"
    yield ""
    yield "| | measured | bar |"
    yield "|---|---|---|"
    for what, measured, bar in _ROWS:
        yield f"| {what} | {measured} | {bar} |"
