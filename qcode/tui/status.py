"""The status line: current activity and its duration, then model, effort, mode, context, cost and more.

`render_status` is pure. It fits any width by dropping parts, the least important first. `StatusLine` paints the result,
keeps the session's totals, and runs a timer only while the activity moves.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from qcode.text.clean import one_line
from qcode.text.numbers import cost_text, count_text, duration_text, retry_countdown, tokens_text
from qcode.tui.transcript.line import shorten
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcode.protocol.events import TurnEnded, UsageUpdated
    from qcode.protocol.usage import Usage
    from qcode.tui.transcript.diff import DiffCount

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 8
_BAR_CELLS = 8
_GAP = "  "
_WHY_CELLS = 100
_NEARLY_FULL = 0.75
_DROPPED = (
    "branch",
    "walls",
    "tokens",
    "provider",
    "bar",
    "cost",
    "effort",
    "no sandbox",
    "hint",
    "word",
    "context",
    "model",
    "restricted",
    "problem",
)

SANDBOX, NO_SANDBOX = "sandbox", "no sandbox: core only"
"""The sandbox notes. Without a sandbox only the shell judge's list of harmless commands runs without asking."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The current activity. `since` is its start; `until` makes it a countdown to that time, for the
    retry `attempt` (0: for another wait).

    `is_moving` False (waiting for the user): no spinner, no clock, no timer.
    """

    text: str
    since: float
    until: float | None = None
    attempt: int = 1
    is_moving: bool = True


@dataclass(frozen=True, slots=True)
class Status:
    """All values of the status line.

    `cost` None: unknown. `has_unknown_cost`: `cost` is only a part of the total. `sandbox` is one of the sandbox notes,
    empty until known. `problem` is the reason why the model cannot be reached, `problem_until` the end of it (None:
    unknown). `is_restricted`: the folder is not trusted. `vim` is the mode of vim in the prompt, empty without it.
    """

    model: str = ""
    mode: str = "default"
    context_tokens: int = 0
    context_window: int = 0
    tokens: int = 0
    cost: Decimal | None = None
    has_unknown_cost: bool = False
    branch: str = ""
    activity: Activity | None = None
    hint: str = ""
    effort: str = ""
    sandbox: str = ""
    is_restricted: bool = False
    problem: str = ""
    problem_until: float | None = None
    vim: str = ""


def render_status(status: Status, width: int, now: float) -> Content:
    """Return the line for `width` columns: activity or hint on the left, facts on the right.

    In a narrow terminal these are dropped, in this order: branch, "sandbox", tokens, the provider's name, the context
    bar,
    cost, effort, "no sandbox", the Esc hint, the warning of a full context, context, model, the restriction, the
    problem.
    Mode and activity always stay; they are truncated last.
    """
    for facts, is_hinting in _layouts(status, now):
        left = _left(status, now, is_hinting, _WHY_CELLS)
        right = Content(_GAP).join(facts)
        room = width - right.cell_length - left.cell_length
        if room >= (len(_GAP) if left and right else 0):
            return Content.assemble(left, " " * room, right)
    mode = _mode(status)
    room = width - mode.cell_length - 1
    left = _left(status, now, False, room)
    if left.cell_length > room:
        left = left.truncate(max(0, room), ellipsis=True)
    return Content.assemble(left, " " * max(0, width - left.cell_length - mode.cell_length), mode)


def _layouts(status: Status, now: float) -> list[tuple[list[Content], bool]]:
    """Return every arrangement, from the fullest to the shortest."""
    parts: dict[str, Content] = {
        "problem": Content.styled(_problem(status, now), "bold $text-error"),
        "restricted": Content.styled("restricted" if status.is_restricted else "", "$text-warning"),
        "model": Content.styled(one_line(status.model, 60), "$muted"),
        "effort": Content.styled(status.effort, "$muted"),
        "mode": _mode(status),
        "walls": Content.styled(status.sandbox if status.sandbox == SANDBOX else "", "$muted"),
        "no sandbox": Content.styled(
            one_line(status.sandbox, 24) if status.sandbox != SANDBOX else "", "$text-warning"
        ),
        "context": _context(status, has_bar=True),
        "tokens": Content.styled(f"{tokens_text(status.tokens)} tokens" if status.tokens else "", "$muted"),
        "cost": Content.styled(cost_total_text(status), "$muted"),
        "branch": Content.styled(shorten(status.branch, 24), "$muted"),
    }
    is_hinting = True
    layouts = [(_present(parts), is_hinting)]
    for dropped in _DROPPED:
        if dropped == "provider":
            parts["model"] = Content.styled(one_line(status.model.rpartition("/")[2], 40), "$muted")
        elif dropped == "bar":
            parts["context"] = _context(status, has_bar=False)
        elif dropped == "word":
            parts["context"] = _context(status, has_bar=False, has_word=False)
        else:
            parts.pop(dropped, None)
        is_hinting = is_hinting and dropped != "hint"
        layouts.append((_present(parts), is_hinting))
    return layouts


def _present(parts: dict[str, Content]) -> list[Content]:
    return [part for part in parts.values() if part]


def _left(status: Status, now: float, is_hinting: bool, room: int) -> Content:
    if status.vim:
        vim = Content.styled(status.vim, "$text-accent" if status.vim == "INSERT" else "bold $text-accent")
        rest = _left(replace(status, vim=""), now, is_hinting, max(0, room - vim.cell_length - len(_GAP)))
        return Content.assemble(vim, _GAP if rest else "", rest)
    activity = status.activity
    if status.hint:
        return Content.styled(status.hint, "$text-warning")
    if activity is None:
        return Content("")
    if not activity.is_moving:
        return Content.styled(activity.text, "bold $text-warning")
    frame = _FRAMES[int(max(0.0, now - activity.since) * FRAMES_PER_SECOND) % len(_FRAMES)]
    if activity.until is not None:
        left = max(0, ceil(activity.until - now))
        retrying = retry_countdown(activity.attempt, left)
        why = shorten(activity.text.rstrip(". "), max(0, room - cell_len(retrying) - 4))
        words, clock = f"{why}, {retrying}" if len(why) > 1 else retrying, ""
    else:
        words = activity.text
        clock = f" {duration_text(now - activity.since)}" if now - activity.since >= 1 else ""
    return Content.assemble(
        (f"{frame} ", "$text-accent"),
        (words, "$text-accent"),
        (clock, "$muted"),
        (" · Esc to interrupt" if is_hinting else "", "$muted"),
    )


def _mode(status: Status) -> Content:
    styles = {"plan": "$text-primary", "accept-edits": "$text-warning", "auto": "$text-warning"}
    return Content.styled(status.mode, styles.get(status.mode, "bold $text-error" if status.mode == "bypass" else ""))


def _problem(status: Status, now: float) -> str:
    if not status.problem or status.problem_until is None:
        return one_line(status.problem, 30)
    return f"{one_line(status.problem, 30)}, {duration_text(max(0, ceil(status.problem_until - now)))}"


def _context(status: Status, *, has_bar: bool, has_word: bool = True) -> Content:
    if status.context_window <= 0 or status.context_tokens <= 0:
        return Content("")
    share = min(1.0, status.context_tokens / status.context_window)
    style = "$text-error" if share >= 0.9 else "$text-warning" if share >= _NEARLY_FULL else "$muted"
    percent = f"{max(1, round(share * 100))}%"
    if has_word and share >= _NEARLY_FULL:
        percent += " nearly full"
    if not has_bar:
        return Content.styled(percent, style)
    filled = max(1, round(share * _BAR_CELLS))
    return Content.assemble(("━" * filled, style), ("─" * (_BAR_CELLS - filled), "$muted"), (f" {percent}", style))


def cost_total_text(status: Status) -> str:
    """Return the cost of the session, with a plus if a part of it is unknown; empty if all of it is."""
    if status.cost is None:
        return ""
    return cost_text(status.cost) + ("+" if status.has_unknown_cost else "")


def closing_text(event: TurnEnded, changes: DiffCount) -> str:
    """Return the line that closes a turn, such as `34 s · 2 files +9 -4 · $0.03`; empty if nothing is worth it."""
    if event.seconds is None:
        return ""
    files = count_text(len(changes.files), "file")
    parts = (
        duration_text(event.seconds) if event.seconds >= 1 else "",
        f"{files} +{changes.added} -{changes.removed}" if changes.files else "",
        cost_text(event.cost) if event.cost else "",
    )
    return " · ".join(filter(None, parts))


class StatusLine(Widget):
    """The status line. `status` has all its values; a change repaints only this widget."""

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
        """Show why no model can be reached, with a countdown to `until` if that is known."""
        self.change(problem=problem, problem_until=until)

    def end_problem(self) -> None:
        """A model replied: hide the problem, unless it was there at the start."""
        self.change(problem=self._standing, problem_until=None)

    def forget_problem(self) -> None:
        """Forget the problem: another model is in use."""
        self._standing = ""
        self.end_problem()

    def show_activity(self, activity: Activity | None) -> None:
        self.change(activity=activity)

    def show_usage(self, event: UsageUpdated) -> None:
        """Show the usage of the running turn, added to the previous turns."""
        self._show_totals(self._totals.plus(_tokens(event.usage), event.cost))
        self.change(context_tokens=event.context_tokens, context_window=event.context_window)

    def add_turn(self, usage: Usage, cost: Decimal | None) -> None:
        """Add a finished turn to the totals."""
        self._totals = self._totals.plus(_tokens(usage), cost)
        self._show_totals(self._totals)

    def forget_session(self) -> None:
        """Reset the totals for a new session."""
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
        """Repaint `pace` times a second; 0 stops the timer."""
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


@dataclass(frozen=True, slots=True)
class Totals:
    """The session's tokens and cost. `cost` None: no turn has a known cost. `has_unknown_cost`: some turn has none."""

    tokens: int = 0
    cost: Decimal | None = None
    has_unknown_cost: bool = False

    def plus(self, tokens: int, cost: Decimal | None) -> Totals:
        """Return the totals with one more turn."""
        if cost is None:
            return Totals(self.tokens + tokens, self.cost, self.has_unknown_cost or tokens > 0)
        return Totals(self.tokens + tokens, (self.cost or Decimal(0)) + cost, self.has_unknown_cost)
