"""Paints the status and keeps the session's totals. Runs a timer only while something moves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from qcode.tui.status import FRAMES_PER_SECOND, Activity, Status, render_status
from qcode.tui.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from qcode.protocol.events import UsageUpdated
    from qcode.protocol.usage import Usage


class StatusLine(Widget):
    """One line. `status` is all it shows; changes repaint it and nothing else."""

    def __init__(self, status: Status, clock: Callable[[], float], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.status = status
        self._clock = clock
        self._ticks: Timer | None = None
        self._pace: float = 0
        self._standing = status.problem
        self._totals = Totals()

    @property
    def is_ticking(self) -> bool:
        return self._ticks is not None

    def change(self, **changes: Any) -> None:  # noqa: ANN401  # fields of Status, which replace() checks
        """Replace fields of the status and repaint if any differs."""
        status = replace(self.status, **changes)
        if status == self.status:
            return
        self.status = status
        self._run_timer(_pace(status))
        self.refresh()

    def show_problem(self, problem: str, until: float | None) -> None:
        """Say why no model is reached, counting down to `until` where that is known."""
        self.change(problem=problem, problem_until=until)

    def end_problem(self) -> None:
        """A model was reached; what stood there at the start still holds."""
        self.change(problem=self._standing, problem_until=None)

    def forget_problem(self) -> None:
        """The model is another one now."""
        self._standing = ""
        self.end_problem()

    def show_activity(self, activity: Activity | None) -> None:
        self.change(activity=activity)

    def show_usage(self, event: UsageUpdated) -> None:
        """Show the running turn's usage on top of that of the turns before it."""
        self._show_totals(self._totals.plus(_tokens(event.usage), event.cost))
        self.change(context_tokens=event.context_tokens, context_window=event.context_window)

    def add_turn(self, usage: Usage, cost: Decimal | None) -> None:
        """Count a finished turn."""
        self._totals = self._totals.plus(_tokens(usage), cost)
        self._show_totals(self._totals)

    def forget_session(self) -> None:
        """Start counting from nothing, for a new session."""
        self._totals = Totals()
        self._show_totals(self._totals)
        self.change(context_tokens=0)

    def render(self) -> Content:
        now, until = self._clock(), self.status.problem_until
        if until is not None and now >= until:
            self.call_later(self.end_problem)
        return render_status(self.status, self.size.width, now)

    def _show_totals(self, totals: Totals) -> None:
        self.change(tokens=totals.tokens, cost=totals.cost, has_unknown_cost=totals.has_unknown_cost)

    def _run_timer(self, pace: float) -> None:
        """Repaint so many times a second, 0: not at all."""
        if pace == self._pace:
            return
        self._pace = pace
        if self._ticks is not None:
            self._ticks.stop()
        self._ticks = self.set_interval(1 / pace, self.refresh) if pace else None


def _pace(status: Status) -> float:
    if status.activity is not None and status.activity.is_moving and not status.hint:
        return FRAMES_PER_SECOND
    return 1 if status.problem_until is not None else 0


def _tokens(usage: Usage) -> int:
    return (usage.input or 0) + (usage.output or 0)
